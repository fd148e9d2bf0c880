"""Channels equalised before a net is quantised: float is the same bit for bit, integers are nearer to it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tests.support.quantised import Array
from tests.support.workspaces import tpulayer
from tpulayer import Graph
from user_layers.quantize.calibrate import calibrate
from user_layers.quantize.quality import compared
from user_layers.quantize.rewrite import QuantiseOptions, quantise
from user_layers.quantize.table import Table
from user_layers.toolkit import Toolkit


def model(*acts: str, batch: int = 8) -> onnx.ModelProto:
    """Four convolutions, the second and third depthwise, with rows of very different sizes and `acts` between
    them; the matrix product behind the last one reads pixels, not channels."""
    rng = np.random.default_rng(0)
    constants: dict[str, Any] = {"zero": np.float32(0), "six": np.float32(6)}
    nodes, last, inner = [], "x", 3
    for i, (made, groups) in enumerate(((16, 1), (16, 16), (16, 16), (24, 1))):
        w = rng.standard_normal((made, inner // groups, 3, 3)) * np.sqrt(2 / (9 * inner / groups))
        constants[f"w{i}"] = w * np.exp(rng.standard_normal((made, 1, 1, 1)))
        constants[f"b{i}"] = rng.standard_normal(made) / 10
        inputs = [last, f"w{i}", f"b{i}"]
        nodes.append(helper.make_node("Conv", inputs, [f"c{i}"], pads=[1] * 4, group=groups, name=f"conv{i}"))
        last, inner = f"c{i}", made
        for act in acts if i < 3 else ():
            given = [last, "zero", "six"] if act == "Clip" else [last]
            pooled = {"kernel_shape": [2, 2], "strides": [1, 1]} if act.endswith("Pool") else {}
            last = f"{act}{i}"
            nodes.append(helper.make_node(act, given, [last], **pooled))
    tensors = [numpy_helper.from_array(np.asarray(one, np.float32), name) for name, one in constants.items()]
    x = helper.make_tensor_value_info("x", 1, [batch, 3, 20, 20])
    y = helper.make_tensor_value_info(last, 1, None)
    graph = helper.make_graph(nodes, "g", [x], [y], tensors)
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


def samples(seed: int = 1) -> Array:
    return np.random.default_rng(seed).standard_normal((8, 3, 20, 20)).astype(np.float32)


def table_of(graph: Graph) -> Table:
    return calibrate(graph, [{"x": samples()}, {"x": samples(2)}])


def run(graph: Graph, x: Array) -> Array:
    graph.compile(opt=0)
    made: Array = graph.run({"x": x})[0]
    return made


@pytest.mark.parametrize(
    "acts",
    [(), ("Relu",), ("LeakyRelu",), ("Relu", "MaxPool"), ("AveragePool",)],
    ids=lambda acts: "+".join(acts) or "none",
)
def test_float_is_the_same_and_integers_are_nearer(acts: tuple[str, ...], toolkit: Toolkit) -> None:
    graph = Graph.from_onnx(model(*acts), toolkit=toolkit)
    x = samples()
    table, want = table_of(graph), run(graph, x)
    names = tuple(node.name for node in graph.nodes)
    done = quantise(graph, table, QuantiseOptions(fp32=names))
    assert [node.op for node in done.graph.nodes] == [node.op for node in graph.nodes]
    assert done.factors and done.note.startswith("equalised: ")
    assert all(np.array_equal(np.frexp(s)[0], np.full(len(s), 0.5)) for s in done.factors.values())
    np.testing.assert_array_equal(run(done.graph, x), want)
    plain, even = (quantise(graph, table, QuantiseOptions(equalise=on)) for on in (False, True))
    assert not plain.factors and {name: list(s) for name, s in even.factors.items()} == {
        name: list(s) for name, s in done.factors.items()
    }
    other = samples(9)
    want = run(graph, other)
    gain = compared(want, run(even.graph, other)).sqnr - compared(want, run(plain.graph, other)).sqnr
    assert gain > 1


def test_products_and_scales_of_channels(toolkit: Toolkit) -> None:
    """Matrices either way around, and a scale for each channel in front of a convolution."""
    rng = np.random.default_rng(0)
    spread = np.exp(1.5 * rng.standard_normal(16)).astype(np.float32)
    x = rng.standard_normal((4096, 16)).astype(np.float32)
    for first, second in ((0, 0), (0, 1), (1, 0), (1, 1)):
        graph = Graph(name="net", toolkit=toolkit)
        graph.add_input("x", x.shape)
        w1 = rng.standard_normal((16, 16)).astype(np.float32) * spread
        w2 = rng.standard_normal((16, 8)).astype(np.float32)
        graph.add_const("w1", w1.T.copy() if first else w1)
        graph.add_const("w2", w2.T.copy() if second else w2)
        graph.add_tpu_layer("TPU_MATMUL", ["x", "w1"], {"trans_b": first, "alpha": 1.0}, ["a"])
        graph.add_tpu_layer("TPU_MATMUL", ["a", "w2"], {"trans_b": second, "alpha": 1.0}, ["y"])
        same_in_float(graph, x, "a")
    graph = Graph(name="net", toolkit=toolkit)
    pixels = rng.standard_normal((16, 16, 16, 16)).astype(np.float32)
    graph.add_input("x", pixels.shape)
    graph.add_const("factors", spread)
    graph.add_const("shifts", rng.standard_normal(16).astype(np.float32))
    graph.add_const("w", rng.standard_normal((4, 16, 1, 1)).astype(np.float32))
    graph.add_tpu_layer("TPU_SCALE_SHIFT", ["x", "factors", "shifts"], {"axis": 1, "relu": 1}, ["a"])
    ones = ("groups", "kernel_h", "kernel_w", "stride_h", "stride_w", "dilation_h", "dilation_w")
    graph.add_tpu_layer("TPU_CONV", ["a", "w"], dict.fromkeys(ones, 1), ["y"])
    same_in_float(graph, pixels, "a")


def same_in_float(graph: Graph, x: Array, between: str) -> None:
    table = calibrate(graph, [{"x": x}])
    done = quantise(graph, table, QuantiseOptions(fp32=tuple(node.name for node in graph.nodes)))
    assert set(done.factors) == {between}
    np.testing.assert_array_equal(run(done.graph, x), run(graph, x))


def test_what_is_not_equalised(toolkit: Toolkit) -> None:
    """Through clips; without peaks; what two layers read, or the caller."""
    clipped = Graph.from_onnx(model("Clip"), toolkit=toolkit)
    assert not quantise(clipped, table_of(clipped)).factors
    graph = Graph.from_onnx(model("Relu"), toolkit=toolkit)
    table = table_of(graph)
    bare = Table({name: replace(one, peaks=()) for name, one in table.ranges.items()})
    done = quantise(graph, bare)
    assert not done.factors
    assert done.lines()[1].startswith("not equalised: no peaks of channels are known")
    graph.add_output("Relu0")
    graph.add_const_binary_layer("Relu1", 2.0, "aside", 0)
    graph.add_output("aside")
    assert set(quantise(graph, table).factors) == {"c2", "Relu2"}


def test_the_option(tmp_path: Path) -> None:
    """The folder remembers it; compared layer by layer, channels are as large as in float."""
    onnx.save(model("Relu"), str(tmp_path / "net.onnx"))
    np.savez(tmp_path / "data.npz", x=np.concatenate([samples(), samples(2)]))
    tpulayer("calibrate", "net.onnx", "--data", "data.npz", "-o", "t.json", cwd=tmp_path)
    compiling = ("compile", "net.onnx", "--int8", "t.json", "-o")
    quality = []
    for folder, *words in (("even",), ("plain", "--no-equalise")):
        said = tpulayer(*compiling, folder, *words, cwd=tmp_path).stdout
        assert ("equalised: 3 pairs of layers" in said) == (not words)
        assert json.loads((tmp_path / folder / "int8.json").read_text())["equalise"] == (not words)
        found = tpulayer("evaluate", folder, "--data", "data.npz", "--layers", "--json", cwd=tmp_path).stdout
        layers = json.loads(found)["layers"]
        quality.append([layers[name]["sqnr"] for name in ("Relu0", "Relu1", "Relu2", "c3")])
    assert min(quality[0]) > 20 and quality[0][-1] > quality[1][-1] + 1
    refused = tpulayer("compile", "net.onnx", "-o", "out", "--no-equalise", cwd=tmp_path, code=None)
    assert "--no-equalise without --int8" in refused.stderr
