"""`add_layer --dtype int8`: what a new layer's test says and finds; the layer in a net in integers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from firmware_sim.errors import CompileError, UsageError
from tests.support.workspaces import make_workspace, tpulayer
from tpulayer import Graph, Toolkit
from user_layers.compiler.strips import in_strips
from user_layers.onnx.compile import compile_onnx
from user_layers.quantize.calibrate import calibrate
from user_layers.quantize.observe import Observer
from user_layers.quantize.quality import compared
from user_layers.quantize.rewrite import Int8, QuantiseOptions, quantise
from user_layers.quantize.table import Range, Table, write_table
from user_layers.scaffold import add_layer
from user_layers.testing import Array, Case, Const, Input, Param
from user_layers.testing.collect import load_test
from user_layers.testing.run import open_toolkits, run_cases
from user_layers.toolchain.targets import build_layers
from user_layers.workspace import Workspace

COPY = "packed_add_C(y, x, 0, shape, NULL, NULL, type, 0)"
RELU = "packed_max_C(y, x, 0, shape, NULL, NULL, type)"


@pytest.fixture(scope="module")
def ws(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """New layers of integers: `mine` with a local function, `plain` without; `relu` made of one, `less` with
    mistakes. `same` takes fp32."""
    ws = make_workspace(tmp_path_factory.mktemp("integers"), layers=())
    for name in ("mine", "relu", "less"):
        add_layer(ws.root, name, True, dtype="int8")
    add_layer(ws.root, "plain", dtype="int8")
    add_layer(ws.root, "same", True)
    change(ws, "relu", COPY, RELU)
    own_test = ws.tests_dir / "test_relu.py"  # whose golden function nets with the layer are compared with
    text, copied = own_test.read_text(), "y = x.astype(np.int32)"
    assert text.count(copied) == 1
    own_test.write_text(text.replace(copied, "y = np.maximum(x.astype(np.int32), 0)"))
    change(
        ws, "less", "= {tile[0], ", "= {tile[0] > 4 ? 4 : tile[0], "
    )  # the local function: the first word alone
    change(ws, "less", "out->scale = in->scale;", "out->scale = 2 * in->scale;")
    build_layers(ws)
    return ws


def change(ws: Workspace, name: str, old: str, new: str) -> None:
    path = ws.device_dir / f"bm_device_{name}.c"
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


def relu(inputs: list[Array], param: Param) -> list[Array]:
    return [np.maximum(inputs[0], 0)]


def problems(ws: Workspace, name: str, golden: Any, cases: Sequence[Case]) -> list[str]:
    with open_toolkits(ws) as toolkits:
        return [r.problem for r in run_cases(ws, {"native": toolkits["native"]}, name, golden, cases)]


# ---- its test ----


def test_a_new_layer_comes_with_a_test_that_passes(ws: Workspace) -> None:
    done = tpulayer("test", "mine", "plain", cwd=ws.root)
    lines = done.stdout.splitlines()
    cases = len(load_test(ws.tests_dir / "test_mine.py").cases)
    assert lines[-1] == f"test: all {2 * 2 * 4 * cases} are equal to golden"
    for kind in ("native", "arm"):
        for dtype in ("int8", "uint8"):
            equal = f"[5, 65, 5, 7] {dtype} x 0.05: opt 1, {kind}: 11375 elements equal"
            assert f"mine {equal} (local, group 0, whole)" in lines
            assert f"plain {equal} (global (no local function))" in lines
        smaller = f"dynamic, {kind}: 11 elements equal (compiled for [7], also with [4])"
        assert f"mine [7] int8 x 0.05: {smaller}" in lines
    assert any("opt 2, native" in line and "slices: " in line for line in lines)
    assert any("[2, 5000]" in line and "(global (force_use_global_layer))" in line for line in lines)


def test_one_instruction_makes_it_another_layer(ws: Workspace) -> None:
    cases = [Case((5, 3, 9, 7), dtype="int8", scale=0.1, out_scale=0.1), Case((3, 4), dtype="uint8", scale=2)]
    assert problems(ws, "relu", relu, cases) == [""] * 8
    assert all("DIFFERS" in p for p in problems(ws, "mine", relu, cases[:1]))


def test_what_is_wrong_is_found(ws: Workspace) -> None:
    """A local function that leaves out a word, and a scale that is not the one the case says."""

    def same(inputs: list[Array], param: Param) -> list[Array]:
        return inputs

    case = Case((5, 3, 2, 3), dtype="int8", scale=0.1)  # too small to be cut along the batches
    alone, *others = problems(ws, "less", same, [case])
    assert alone == ""
    assert all(p.startswith("DIFFERS in ") and "first at [4, 0, 0, 0]" in p for p in others)
    scaled = Case((5, 3), dtype="int8", scale=0.1, out_scale=0.1)
    message = "the layer gives y0 the scale 0.2, the case has out_scale=0.1"
    assert problems(ws, "less", same, [scaled]) == [message] * 4
    (refused,) = problems(ws, "mine", same, [Case((5, 3), dtype="int8", modes=["opt 0"])])
    assert "a tensor without a scale is not converted" in refused


def test_quantised_cases() -> None:
    case = Case(
        (2, 3), Input((4,), "uint8", 3, 4, 0.5), Const((4,)), np.ones(2, np.int8), dtype="int8", scale=2
    )
    assert str(case) == "[2, 3] int8 x 2, [4] uint8 x 0.5, const [4], [2] int8 x 2"
    drawn = Case((9999,), dtype="int8", scale=0.1).arrays()[0]
    assert (drawn.min(), drawn.max()) == (-128, 127)
    assert set(case.arrays()[1]) == {3, 4}
    for make, message in (
        (lambda: Case((2,), dtype="int8", scale=0), "scale=0 is not a positive number"),
        (lambda: Case(Input((2,), "int8", scale=np.inf)), "scale=inf is not a positive number"),
        (lambda: Case(Input((2,), "int32", scale=1)), "int32 with a scale"),
        (lambda: Case((2,), scale=0.1), "scale=0.1 without an input of 8 or 16 bits"),
        (lambda: Const(Input((2,), "int8", scale=1)), "constants have no scale"),
    ):
        with pytest.raises(UsageError, match=message):
            make()


# ---- in a net ----


def model(between: str) -> onnx.ModelProto:
    """Two convolutions with one node, `own`, between them."""
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array((rng.standard_normal(shape) / 8).astype(np.float32), name)
        for name, shape in (("w1", (16, 3, 3, 3)), ("w2", (16, 16, 3, 3)))
    ]
    domain = "tpulayer" if between.startswith("TPU_") else ""
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], pads=[1] * 4),
        helper.make_node(between, ["a"], ["b"], name="own", domain=domain),
        helper.make_node("Conv", ["b", "w2"], ["y"], pads=[1] * 4),
    ]
    x, y = (helper.make_tensor_value_info(n, 1, [2, c, 16, 16]) for n, c in (("x", 3), ("y", 16)))
    versions = [helper.make_opsetid("", 17), helper.make_opsetid("tpulayer", 1)]
    graph = helper.make_graph(nodes, "g", [x], [y], weights)
    return helper.make_model(graph, ir_version=8, opset_imports=versions)


def samples() -> Array:
    return np.random.default_rng(1).standard_normal((2, 3, 16, 16)).astype(np.float32)


@pytest.fixture(scope="module")
def table(ws: Workspace) -> Table:
    with Toolkit(ws) as toolkit:
        return calibrate(Graph.from_onnx(model("Relu"), toolkit=toolkit), [{"x": samples()}])


def test_no_conversion_stands_around_it(ws: Workspace, table: Table) -> None:
    """A copy between two convolutions changes no bit, in every way of running the net."""
    ranges = {**table.ranges, "b": replace(table.ranges["a"])}
    with Toolkit(ws) as toolkit:
        results = []
        for between in ("TPU_MINE", "Identity"):
            graph = Graph.from_onnx(model(between), toolkit=toolkit)
            # Without the layer between them the channels of both could be equalised.
            done = quantise(graph, Table(ranges), QuantiseOptions(equalise=False))
            assert not any(row.reason for row in done.rows)
            layers = [node.op.short for node in done.graph.nodes]
            middle = ["MINE"] if between == "TPU_MINE" else []
            assert layers == ["QUANTIZE", "CONV_INT8", *middle, "CONV_INT8", "DEQUANTIZE"]
            for options in ({"opt": 0}, {"opt": 2}, {"dynamic": True}):
                done.graph.compile(**options)
                results += done.graph.run({"x": samples()})
    assert all(np.array_equal(results[0], y) for y in results[1:])


@pytest.mark.parametrize(("between", "custom"), [("Relu", {"own": "TPU_RELU"}), ("TPU_RELU", None)])
def test_compiled_beside_onnxruntime(
    ws: Workspace, table: Table, tmp_path: Path, between: str, custom: dict[str, str] | None
) -> None:
    """Mapped or of the model's own: what is behind the layer beside onnxruntime, from what it makes of
    integers."""
    lines: list[str] = []
    with Toolkit(ws) as toolkit:
        compile_onnx(
            model(between), tmp_path, custom=custom, toolkit=toolkit, int8=Int8(table), log=lines.append
        )
    assert "8 bits: 3 of 3 layers, 100.0% of the MACs" in lines
    (quality,) = (line for line in lines if line.startswith("y: "))
    assert float(quality.split()[1]) > 28
    assert "TPU_RELU has no golden function: 1 layer taken as computed" in lines


def test_a_layer_that_takes_fp32_in_a_net_in_integers(ws: Workspace, table: Table, tmp_path: Path) -> None:
    """Conversions stand around it, and what onnxruntime computes goes through it."""
    lines: list[str] = []
    ranges = Table({**table.ranges, "b": table.ranges["a"]})
    with Toolkit(ws) as toolkit:
        compile_onnx(model("TPU_SAME"), tmp_path, toolkit=toolkit, int8=Int8(ranges), log=lines.append)
    assert "fp32: SAME: it takes fp32 (own)" in lines
    assert "TPU_SAME has no golden function: 1 layer taken as computed" in lines
    (quality,) = (line for line in lines if line.startswith("y: "))
    assert float(quality.split()[1]) > 28


def test_a_float_net_is_told_what_it_lacks(ws: Workspace) -> None:
    with Toolkit(ws) as toolkit, pytest.raises(CompileError, match="'a' is float32 without a scale") as e:
        Graph.from_onnx(model("TPU_RELU"), toolkit=toolkit).compile()
    assert "`compile --int8`" in e.value.hint


def test_ranges_of_what_it_reads(ws: Workspace) -> None:
    """Calibrating runs it as well, on integers in a scale for the first inputs."""
    with Toolkit(ws) as toolkit:
        found = calibrate(Graph.from_onnx(model("TPU_RELU"), toolkit=toolkit), [{"x": samples()}])
    assert set(found.ranges) == {"x", "a", "b", "y"} and isinstance(found.ranges["b"], Range)
    assert found.ranges["b"].high == pytest.approx(found.ranges["a"].high, rel=0.02)


def test_a_net_in_integers_by_the_range_of_the_layers_own_result(ws: Workspace, table: Table) -> None:
    """Calibrated with the layer in the net; and without a range of what it makes."""
    x = samples()
    with Toolkit(ws) as toolkit:
        plain = Graph.from_onnx(model("Relu"), toolkit=toolkit)
        plain.compile()
        (want,) = plain.run({"x": x})
        graph = Graph.from_onnx(model("TPU_RELU"), toolkit=toolkit)
        own = calibrate(graph, [{"x": x}])
        for ranges in (own.ranges, {name: one for name, one in own.ranges.items() if name != "b"}):
            done = quantise(graph, Table(ranges))
            assert not any(row.reason for row in done.rows)
            done.graph.compile()
            assert compared(want, done.graph.run({"x": x})[0]).sqnr > 28


def test_two_layers_of_integers_are_observed_in_their_scales(ws: Workspace) -> None:
    """The second is in a run of its own, which begins with what the first one made."""
    with Toolkit(ws) as toolkit:
        graph = Graph(name="net", toolkit=toolkit)
        graph.add_input("x", (2, 3, 16, 16))
        graph.add_tpu_layer("TPU_MINE", ["x"], None, ["a"])
        graph.add_tpu_layer("TPU_PLAIN", ["a"], None, ["b"])
        graph.add_output("b")
        with Observer(graph) as observer:
            found = observer.tensors({"x": samples()})
    assert np.abs(found["b"] - samples()).max() <= np.abs(samples()).max() / 127 * 0.51


def test_evaluating_and_searching_with_it(ws: Workspace, table: Table, tmp_path: Path) -> None:
    """Mapped to a layer that takes integers alone: the float net has it too, in the scale of its range."""
    onnx.save(model("Relu"), str(tmp_path / "net.onnx"))
    np.savez(tmp_path / "data.npz", x=samples())
    write_table(table, tmp_path / "t.json")
    net, out = (str(tmp_path / name) for name in ("net.onnx", "out"))
    words = ("--int8", str(tmp_path / "t.json"), "--map", "Relu=TPU_RELU")
    said = tpulayer("compile", net, *words, "-o", out, cwd=ws.root).stdout
    assert "TPU_RELU equals golden of its test, 1 layer" in said
    data = ("--data", str(tmp_path / "data.npz"))
    made = json.loads(tpulayer("evaluate", out, *data, "--layers", "--json", cwd=ws.root).stdout)
    assert made["outputs"]["y"]["sqnr"] > 28 and set(made["layers"]) == {"a", "b", "y"}
    said = tpulayer("compile", net, *words, *data, "--search", "20", "-o", out, cwd=ws.root).stdout
    assert "all layers in 8 bits" in said


def test_strips_pass_through_it(ws: Workspace) -> None:
    """At batch 1 a new layer gets four strips of rows for one picture, and the results are the same."""
    x = np.random.default_rng(3).integers(-128, 128, (1, 16, 18, 9)).astype(np.int8)
    weights = np.random.default_rng(4).integers(-9, 10, (16, 16, 3, 3)).astype(np.int8)
    window = ("groups", "stride_h", "stride_w", "dilation_h", "dilation_w")
    pads = ("pad_top", "pad_bottom", "pad_left", "pad_right")
    values = {**dict.fromkeys((*window, *pads), 1), "kernel_h": 3, "kernel_w": 3, "rshift": 8, "scale": 0.1}
    with Toolkit(ws) as toolkit:
        graph = Graph(name="net", toolkit=toolkit)
        graph.add_input("x", x.shape, "int8", scale=0.1)
        graph.add_const("w", weights)
        graph.add_tpu_layer("TPU_CONV_INT8", ["x", "w"], values, ["a"])
        graph.add_tpu_layer("TPU_MINE", ["a"], None, ["b"])
        graph.add_tpu_layer("TPU_CONV_INT8", ["b", "w"], values, ["y"])
        graph.add_output("y")
        graph.compile(opt=0)
        wanted = graph.run({"x": x})[0]
        strips = in_strips(graph, graph.resolve())
        assert strips is not None
        assert [node.op.short for node in strips.nodes] == [
            *("STRIPS_CUT", "STRIPS_HALO", "CONV_INT8", "MINE", "STRIPS_HALO", "CONV_INT8", "STRIPS_JOIN")
        ]
        for opt in (0, 2):
            strips.compile(opt=opt)
            np.testing.assert_array_equal(strips.run({"x": x})[0], wanted)
