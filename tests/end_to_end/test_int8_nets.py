"""Float nets in 8-bit integers: what the rewriting makes equals the integers that its parameters say, and the
commands that go with it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from firmware_sim.errors import TpulayerError, UsageError
from firmware_sim.wire import DType
from tests.support.dask_cluster import cluster
from tests.support.onnx_models import make_model
from tests.support.quantised import Array
from tests.support.workspaces import tpulayer
from tpulayer import Graph
from user_layers.evaluate.search import Target, search
from user_layers.onnx.build import build
from user_layers.onnx.command import CompileOptions, run
from user_layers.onnx.int8 import CalibrateOptions, Record, int8_of, opened, run_calibrate
from user_layers.onnx.load import Source, load_model
from user_layers.quantize.calibrate import calibrate
from user_layers.quantize.data import Batch
from user_layers.quantize.quality import compared, useless
from user_layers.quantize.rewrite import Int8, QuantiseOptions, quantise
from user_layers.quantize.table import Range, Table, read_table
from user_layers.runtime.onnx_session import open_session
from user_layers.toolkit import Toolkit


def convolutions(batch: int = 2, channels: int = 16) -> onnx.ModelProto:
    """Three with relu, the second depthwise."""
    rng = np.random.default_rng(0)
    nodes, constants, last, inner = [], [], "x", 3
    for i, (made, groups) in enumerate(((channels, 1), (channels, channels), (channels, 1))):
        w = rng.standard_normal((made, inner // groups, 3, 3)) / np.sqrt(9 * inner / groups)
        b = rng.standard_normal(made) / 10
        constants += [
            numpy_helper.from_array(array.astype(np.float32), name)
            for name, array in ((f"w{i}", w), (f"b{i}", b))
        ]
        inputs = [last, f"w{i}", f"b{i}"]
        nodes.append(helper.make_node("Conv", inputs, [f"c{i}"], pads=[1] * 4, group=groups, name=f"conv{i}"))
        nodes.append(helper.make_node("Relu", [f"c{i}"], [f"r{i}"]))
        last, inner = f"r{i}", made
    x = helper.make_tensor_value_info("x", 1, [batch, 3, 20, 20])
    y = helper.make_tensor_value_info(last, 1, [batch, channels, 20, 20])
    graph = helper.make_graph(nodes, "g", [x], [y], constants)
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


def samples(count: int = 6, seed: int = 1) -> Array:
    return np.random.default_rng(seed).standard_normal((count, 3, 20, 20)).astype(np.float32)


def table_of(graph: Graph) -> Table:
    data = samples()
    return calibrate(graph, ({"x": data[i : i + 2]} for i in range(0, 6, 2)))


@pytest.mark.parametrize(("last", "integers"), [("InstanceNormalization", False), ("Conv", True)])
def test_a_constant_beside_fp32(last: str, integers: bool, toolkit: Toolkit) -> None:
    """A sum with a constant is in 8 bits where a product reads it, and else what it reads is: in steps of the
    sum nothing would be left of what is added to."""
    rng = np.random.default_rng(0)
    constants = {"k": np.float32(100), "one": np.ones(16, np.float32), "zero": np.zeros(16, np.float32)}
    constants["w"] = (rng.standard_normal((16, 16, 1, 1)) / 4).astype(np.float32)
    inputs = ["a", "one", "zero"] if last == "InstanceNormalization" else ["a", "w"]
    nodes = [
        helper.make_node("Sigmoid", ["x"], ["s"]),
        helper.make_node("Add", ["s", "k"], ["a"], name="sum"),
        helper.make_node(last, inputs, ["n"]),
        helper.make_node("Conv", ["n", "w"], ["y"]),
    ]
    tensors = [numpy_helper.from_array(np.asarray(one), name) for name, one in constants.items()]
    x, y = (helper.make_tensor_value_info(name, 1, [1, 16, 8, 8]) for name in "xy")
    graph = Graph.from_onnx(
        helper.make_model(helper.make_graph(nodes, "g", [x], [y], tensors), ir_version=8), toolkit=toolkit
    )
    given = {"x": rng.standard_normal((1, 16, 8, 8)).astype(np.float32)}
    done = quantise(graph, calibrate(graph, [given]))
    (found,) = (row.reason for row in done.rows if row.layer == "sum")
    assert found == (None if integers else "its input is not in 8 bits")
    if not integers:
        graph.compile()
        (want,) = graph.run(given)
        done.graph.compile()
        assert compared(want, done.graph.run(given)[0]).sqnr > 30


def test_a_net_in_integers(toolkit: Toolkit) -> None:
    """Everything but the conversions is in 8 bits, near to the float net, in groups and alone."""
    graph = Graph.from_onnx(convolutions(), toolkit=toolkit)
    graph.compile()
    x = samples(2, 5)
    (want,) = graph.run({"x": x})
    done = quantise(graph, table_of(graph))
    assert done.share == 1.0
    results = []
    for opt in (0, 1, 2):
        done.graph.compile(opt=opt)
        results.append(done.graph.run({"x": x})[0])
    assert all(np.array_equal(results[0], other) for other in results[1:])
    assert compared(want, results[0]).sqnr > 32
    assert [node.op.short for node in done.graph.nodes].count("CONV_INT8") == 3


def test_layers_that_stay(toolkit: Toolkit) -> None:
    """By their own names and those of what they make; the table lacks a range; a name that there is not."""
    graph = Graph.from_onnx(convolutions(), toolkit=toolkit)
    table = table_of(graph)
    for name in ("conv1", "r1", "c1"):
        done = quantise(graph, table, QuantiseOptions((name,)))
        (row,) = (row for row in done.rows if row.layer == "conv1")
        assert row.reason == ("asked for" if name == "conv1" else f"asked for as {name!r}")
        assert not any(row.reason for row in done.rows if row.layer in ("conv0", "conv2"))
    left = Table({name: one for name, one in table.ranges.items() if name != "r2"})
    (row,) = (row for row in quantise(graph, left).rows if row.layer == "conv2")
    assert row.reason == "the table has no range of 'r2'"
    with pytest.raises(TpulayerError, match="--fp32 conv3: the net has no layer or tensor of that name"):
        quantise(graph, table, QuantiseOptions(("conv3",)))


@pytest.mark.parametrize("batch", [1, 2])
def test_layers_are_called_as_in_float(toolkit: Toolkit, batch: int) -> None:
    """The 8-bit layer as the float one, what stands beside it after it; --fp32 takes these names."""
    graph = Graph.from_onnx(convolutions(batch), toolkit=toolkit)
    table = table_of(Graph.from_onnx(convolutions(), toolkit=toolkit))
    convs = ["conv0", "conv1", "conv2"]
    made = quantise(graph, table).graph
    names = [node.name for node in made.nodes]
    first = "conv0" if batch == 1 else "unfold_0"
    assert names == [f"{first}:quantize", *["unfold_0"][: batch - 1], *convs, "conv2:dequantize"]
    (stage,) = made.compile(report=True).report
    assert {*convs} <= {node.name for part in stage.parts for node in part.nodes}
    names = [node.name for node in quantise(graph, table, QuantiseOptions(("conv1",))).graph.nodes]
    assert "conv1" in names and not any(name.startswith("conv1:") for name in names)
    assert {"conv0:dequantize", "conv2:quantize"} <= set(names) and len(set(names)) == len(names)
    with pytest.raises(TpulayerError, match="no layer") as raised:
        quantise(graph, table, QuantiseOptions(("conv1:quantize",)))
    assert "go with NAME" in str(raised.value.hint)


@pytest.mark.parametrize(
    ("threshold", "what"), [(1e20, "few integers or none stand for them"), (1e-20, "all is cut")]
)
def test_thresholds_that_are_none(threshold: float, what: str, toolkit: Toolkit, tmp_path: Path) -> None:
    """One that is far from its own line's values is told with the tensor's name, and a net that is noise."""
    graph = Graph.from_onnx(convolutions(), toolkit=toolkit)
    ranges = dict(table_of(graph).ranges)
    assert not any("warning" in line for line in quantise(graph, Table(ranges)).lines())
    ranges |= {name: replace(ranges[name], threshold=threshold) for name in ("r0", "r1")}
    onnx.save(convolutions(), str(tmp_path / "m.onnx"))
    lines: list[str] = []
    options = CompileOptions(tmp_path / "m.onnx", tmp_path / "net", int8=Int8(Table(ranges)), report=True)
    assert run(options, lines.append, toolkit)
    (told,) = (line for line in lines if line.startswith("warning: the table's threshold"))
    assert f"threshold of 'r0' is {threshold:g}, and its values reach " in told and what in told
    assert "(and 1 more: r1)" in told
    assert "warning: the table's threshold of 'r0'" in (tmp_path / "net" / "report.txt").read_text()
    assert any(line.startswith("warning: the net is of no use: noise is most of r2 (") for line in lines)


def test_a_table_in_the_vendors_names(toolkit: Toolkit, tmp_path: Path) -> None:
    """Tensors with the operation behind, what was folded by the one before; read back it says the same."""
    rng = np.random.default_rng(0)
    shapes = {"w": (4, 3, 3, 3), "v": (4, 3, 1, 1), "s": (4,), "b": (4,), "m": (4,), "r": (4,)}
    constants = {name: rng.uniform(0.2, 1, shape).astype(np.float32) for name, shape in shapes.items()}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1] * 4),
        helper.make_node("BatchNormalization", ["c", "s", "b", "m", "r"], ["n_1"]),
        helper.make_node("Conv", ["x", "v"], ["d"]),
        helper.make_node("Concat", ["n_1", "d"], ["t"], axis=1),
        helper.make_node("Relu", ["t"], ["u"]),
        helper.make_node("MaxPool", ["u"], ["y"], kernel_shape=[2, 2], strides=[2, 2]),
    ]
    onnx.save(make_model(nodes, {"x": (2, 3, 20, 20)}, ["y"], constants), str(tmp_path / "m.onnx"))
    np.savez(tmp_path / "data.npz", x=samples(4))
    tables = {}
    for vendor in (False, True):
        options = CalibrateOptions(
            tmp_path / "m.onnx", tmp_path / "data.npz", tmp_path / f"t{vendor}", vendor=vendor
        )
        run_calibrate(options, options.model, None, lambda _: None, toolkit=toolkit)
        tables[vendor] = read_table(options.out)
    written = {name for name in tables[True].ranges if ":" not in name}  # those are this compiler's own
    assert written == {"x", "c_Conv", "d_Conv", "t_Concat_relu", "y_MaxPool"}
    graph = Graph.from_onnx(tmp_path / "m.onnx", toolkit=toolkit)
    named = build(load_model(tmp_path / "m.onnx"), "net", toolkit=toolkit, int8=Int8(tables[True])).quantised
    plain = quantise(graph, tables[False])
    assert named is not None and [row.reason for row in named.rows] == [row.reason for row in plain.rows]
    known = named.table.for_tensors(graph.resolve().tensors).ranges
    for name in ("x", "n_1", "d", "u", "y"):
        assert known[name].threshold == pytest.approx(tables[False].ranges[name].threshold, rel=1e-5)


def test_outputs_that_are_noise() -> None:
    rng = np.random.default_rng(0)
    want, other = rng.standard_normal((2, 1000))
    assert useless({"y": compared(want, want + other / 10), "z": compared(want, want)}) == []
    (line,) = useless({"y": compared(want, want + other), "z": compared(want, want)})
    assert "noise is most of y (" in line and "--fp32" in line


def test_data_for_inputs_that_nothing_needs(toolkit: Toolkit) -> None:
    """Data sets hold all that the model has, as onnxruntime takes it; what the net needs must be there."""
    nodes = [
        helper.make_node("Where", ["c", "a", "b"], ["y"]),
        helper.make_node("Relu", ["y"], ["z"]),
    ]
    model = make_model(nodes, {"a": (2, 3), "b": (2, 3)}, ["z"], {"c": np.zeros((2, 3), bool)})
    graph = build(load_model(model), "net", toolkit=toolkit, integers=False).graph
    a, b = np.full((2, 3), 7, np.float32), np.array([[1, 2, -4], [0, 3, 1]], np.float32)
    found = calibrate(graph, [{"a": a, "b": b}], "minmax").ranges
    assert "a" not in found and (found["b"].low, found["b"].high) == (-4, 3)
    with pytest.raises(UsageError, match="needs the input 'b'; given are 'a'"):
        calibrate(graph, [{"a": a}])


def test_layers_that_nothing_needs_are_left_out(toolkit: Toolkit) -> None:
    """They have no shape, and change nothing in what is made of the others."""
    graph = Graph.from_onnx(convolutions(), toolkit=toolkit)
    table = table_of(graph)
    want = quantise(graph, table)
    graph.add_tpu_layer("TPU_RESHAPE", ["x"], {"dims": 2, "shape": (2, 1200)}, ["aside"])
    done = quantise(graph, table)
    assert [node.name for node in done.graph.nodes] == [node.name for node in want.graph.nodes]
    assert len(done.rows) == len(want.rows)


def test_integers_at_the_edges(toolkit: Toolkit) -> None:
    graph = Graph.from_onnx(convolutions(), toolkit=toolkit)
    table = table_of(graph)
    plain = quantise(graph, table)
    edges = quantise(graph, table, QuantiseOptions(quant_input=True, quant_output=True))
    x = samples(2, 5)
    for done in (plain, edges):
        done.graph.compile()
    (want,) = plain.graph.run({"x": x})
    fed = edges.fed({"x": x})
    assert fed["x"].dtype == np.int8
    made = edges.graph.run(fed)
    assert made[0].dtype == np.uint8
    # Rounding to the nearest integer before instead of behind the first rows' unfolding gives the same.
    assert np.array_equal(edges.given(made)[0], want)


def test_a_layer_of_the_users(layers8: Toolkit) -> None:
    """It doubles integers between convolutions, and gets them without a conversion."""
    graph = Graph.from_onnx(convolutions(), toolkit=layers8)
    graph.add_tpu_layer("TPU_DOUBLE8", ["r2"], {}, ["twice"])
    graph.add_output("twice")
    x = samples(2, 5)
    table = table_of_float(layers8)
    done = quantise(graph, table)
    (row,) = (row for row in done.rows if row.op == "TPU_DOUBLE8")
    assert row.reason is None
    layers = [node.op.short for node in done.graph.nodes]
    assert "DOUBLE8" in layers and "REQUANTIZE" not in layers  # it takes uint8 as int8
    done.graph.compile()
    _, y = done.graph.run({"x": x})
    half = quantise(Graph.from_onnx(convolutions(), toolkit=layers8), table)
    half.graph.compile()
    (want,) = half.graph.run({"x": x})
    step = done.integers["twice"][1]  # of what relu makes
    assert np.abs(y - np.minimum(2 * want, np.float32(255 * step))).max() <= 1e-5 * step


def test_layers_of_16_bits_are_told_why(layers8: Toolkit) -> None:
    """Between layers in float; and on integers of 16 bits, which stay as they are."""
    graph = Graph.from_onnx(convolutions(), toolkit=layers8)
    graph.add_tpu_layer("TPU_DOUBLE16", ["r2"], {}, ["twice"])
    graph.add_output("twice")
    with pytest.raises(
        TpulayerError, match=r"taken as int16 2N.*, and 'r2' is float32: float32 becomes int8"
    ):
        quantise(graph, table_of_float(layers8))
    alone = Graph(name="net", toolkit=layers8)
    alone.add_input("x", (2, 3, 4, 5), "int16", scale=0.5)
    alone.add_tpu_layer("TPU_DOUBLE16", ["x"], {}, ["y"])
    alone.add_output("y")
    (row,) = quantise(alone, Table({})).rows
    assert row.reason == "it takes int16 2N"


def table_of_float(toolkit: Toolkit) -> Table:
    return table_of(Graph.from_onnx(convolutions(), toolkit=toolkit))


@pytest.fixture(scope="module")
def layers8(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from tests.support.workspaces import layers_toolkit

    with layers_toolkit(tmp_path_factory, "data_type_layers") as opened:
        yield opened


def test_the_commands(tmp_path: Path) -> None:
    """calibrate, compile --int8, evaluate, with labels, processes, Dask and a metric of one's own."""
    onnx.save(convolutions(), str(tmp_path / "net.onnx"))
    np.savez(tmp_path / "data.npz", x=samples(5), labels=np.zeros(5, np.int64))
    (tmp_path / "own.py").write_text("def f(wanted, made, labels):\n    return len(labels)\n")
    said = tpulayer("calibrate", "net.onnx", "--data", "data.npz", "-o", "t.json", cwd=tmp_path).stdout
    assert said.startswith("net.onnx -> t.json: ") and "5 samples, mse" in said
    said = tpulayer("compile", "net.onnx", "--int8", "t.json", "-o", "out", cwd=tmp_path).stdout
    assert "8 bits: 4 of 4 layers, 100.0% of the MACs" in said and "dB of signal over" in said
    words = ("evaluate", "out", "--data", "data.npz", "--json")
    one = json.loads(tpulayer(*words, "--layers", cwd=tmp_path).stdout)
    two = json.loads(tpulayer(*words, "-j", "2", "--metric", "own.py:f", cwd=tmp_path).stdout)
    assert one["samples"] == two["samples"] == one["labelled"] == 5
    assert set(one["layers"]) >= {"r0", "r1", "r2"}
    assert two["metric"] == pytest.approx((2 * 2 + 2 * 2 + 1) / 5)
    (tmp_path / "cluster").mkdir()
    with cluster(tmp_path / "cluster", workers=2) as dask:
        found = tpulayer(*words, "--dask", dask.address, "--metric", "own.py:f", "--layers", cwd=tmp_path)
    assert json.loads(found.stdout) == {**one, "metric": two["metric"]}
    assert {**two, "metric": None, **{name: one[name] for name in ("layers", "not_compared")}} == one
    said = tpulayer("evaluate", "out", "--data", "data.npz", "--metric", "top1", cwd=tmp_path).stdout
    assert "same greatest number as in float" in said and "of 5 labels" in said
    (tmp_path / "net.onnx").write_bytes(b"other")
    failed = tpulayer("evaluate", "out", "--data", "data.npz", cwd=tmp_path, code=2)
    assert "is not what out was compiled from" in failed.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("compile", "net.onnx", "-o", "out", "--fp32", "a"), "--fp32 without --int8"),
        (("compile", "net.onnx", "-o", "out", "--int8", "none"), "cannot read the calibration table none"),
        (("calibrate", "net.onnx", "--data", "none.npz", "-o", "t"), "cannot read none.npz"),
        (("calibrate", "net.onnx", "--data", "bad.npz", "-o", "t"), "bad.npz has no array 'x'; it has y"),
        (("calibrate", "net.onnx", "--data", "net.onnx", "-o", "t"), "is neither a folder nor .npz"),
        (
            ("calibrate", "net.onnx", "--data", "small.npz", "-o", "t"),
            "'x' is [1, 3, 9, 9], and the net",
        ),
        (("evaluate", ".", "--data", "small.npz"), "has no int8.json"),
    ],
)
def test_what_does_not_fit(words: tuple[str, ...], message: str, tmp_path: Path) -> None:
    onnx.save(convolutions(), str(tmp_path / "net.onnx"))
    np.savez(tmp_path / "bad.npz", y=samples(2))
    np.savez(tmp_path / "small.npz", x=np.zeros((1, 3, 9, 9), np.float32))
    failed = tpulayer(*words, cwd=tmp_path, code=None)
    assert failed.returncode in (1, 2) and message in failed.stderr
    assert not (tmp_path / "out").exists() and not (tmp_path / "t").exists()


@pytest.mark.parametrize(("columns", "kept"), [(4032, True), (4034, True), (9216, True), (4099, False)])
def test_long_sums(toolkit: Toolkit, columns: int, kept: bool) -> None:
    """More products than an instruction has channels: the row is a picture then, and its window all of it. A
    prime number of them stays in float."""
    rng = np.random.default_rng(0)
    graph = Graph(name="net", toolkit=toolkit)
    graph.add_input("x", (3, columns))
    graph.add_const("w", (rng.standard_normal((columns, 5)) * columns**-0.5).astype(np.float32))
    graph.add_const("b", rng.standard_normal(5).astype(np.float32))
    graph.add_tpu_layer("TPU_MATMUL", ["x", "w", "b"], {"alpha": 1.0}, ["y"])
    graph.add_output("y")
    x = rng.standard_normal((3, columns)).astype(np.float32) + 0.3
    done = quantise(graph, calibrate(graph, [{"x": x}]))
    graph.compile()
    (wanted,) = graph.run({"x": x})
    assert (done.share == 1) == kept
    for options in ({"opt": 0}, {"opt": 2}, {"dynamic": True}):
        done.graph.compile(**options)
        assert compared(wanted, done.graph.run({"x": x})[0]).sqnr > 27
    if not kept:
        assert "a sum of 4,099 products" in str(done.rows[0].reason)


@pytest.mark.parametrize(
    ("stride", "kept"), [((16, 1), True), ((2, 30), True), ((16, 16), False), ((17, 1), False)]
)
@pytest.mark.parametrize("batch", [1, 2])
def test_wide_strides(toolkit: Toolkit, stride: tuple[int, int], kept: bool, batch: int) -> None:
    """A stride of twice what a command has, along one dimension: every other result of half of it."""
    rng = np.random.default_rng(0)
    graph = Graph(name="net", toolkit=toolkit)
    graph.add_input("x", (batch, 24, 50, 97))
    graph.add_const("w", (rng.standard_normal((40, 24, 3, 5)) / 19).astype(np.float32))
    graph.add_const("b", rng.standard_normal(40).astype(np.float32))
    window = {"groups": 1, "kernel_h": 3, "kernel_w": 5, "dilation_h": 1, "dilation_w": 1, "pad_left": 2}
    values = {**window, "stride_h": stride[0], "stride_w": stride[1]}
    graph.add_tpu_layer("TPU_CONV", ["x", "w", "b"], values, ["c"])
    graph.add_tpu_layer("TPU_UNARY", ["c"], {"unary_op": 0}, ["y"])
    graph.add_output("y")
    x = rng.standard_normal((batch, 24, 50, 97)).astype(np.float32)
    done = quantise(graph, calibrate(graph, [{"x": x}]))
    graph.compile()
    (wanted,) = graph.run({"x": x})
    assert (done.share == 1) == kept
    results = []
    for options in ({"opt": 0}, {"opt": 2}, {"dynamic": True}):
        done.graph.compile(**options)
        results.append(done.graph.run({"x": x})[0])
        assert compared(wanted, results[-1]).sqnr > 27 and np.array_equal(results[0], results[-1])


def quantised_file(path: Path) -> Path:
    """A convolution as QDQ, with a scale for each channel of the weights. Returns the path."""
    rng = np.random.default_rng(0)
    w = rng.integers(-127, 128, (8, 3, 3, 3)).astype(np.int8)
    constants = {
        "w": w, "ws": np.linspace(0.015, 0.02, 8).astype(np.float32), "wz": np.zeros(8, np.int8),
        "xs": np.float32(0.03), "xz": np.int8(0), "ys": np.float32(0.2), "yz": np.uint8(0),
    }  # fmt: skip
    make = helper.make_node
    nodes = [
        make("QuantizeLinear", ["x", "xs", "xz"], ["xq"]),
        make("DequantizeLinear", ["xq", "xs", "xz"], ["xd"]),
        make("DequantizeLinear", ["w", "ws", "wz"], ["wd"], axis=0),
        make("Conv", ["xd", "wd"], ["c"], pads=[1] * 4, name="conv"),
        make("QuantizeLinear", ["c", "ys", "yz"], ["cq"]),
        make("DequantizeLinear", ["cq", "ys", "yz"], ["y"]),
    ]
    x, y = (
        helper.make_tensor_value_info(name, 1, shape)
        for name, shape in (("x", [2, 3, 20, 20]), ("y", [2, 8, 20, 20]))
    )
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "g", [x], [y], tensors)
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    onnx.save(model, str(path))
    return path


def test_quantised_models(toolkit: Toolkit, tmp_path: Path) -> None:
    """QDQ with a scale for each channel of the weights, and a range that begins at 0 cuts what is below."""
    path = quantised_file(tmp_path / "q.onnx")
    lines: list[str] = []
    assert run(CompileOptions(path, tmp_path / "q"), lines.append, toolkit)
    assert any(line.startswith("8 bits: ") and "100.0% of the MACs" in line for line in lines)
    (quality,) = (line for line in lines if line.startswith("y: "))
    assert float(quality.split()[1]) > 30
    made = Graph.from_onnx(path, toolkit=toolkit)
    assert [n.op.short for n in made.nodes].count("CONV_INT8") == 1
    made.compile()
    assert made.run({"x": samples(2)})[0].min() == 0.0


def test_quantised_files_in_parts(toolkit: Toolkit, tmp_path: Path) -> None:
    """Layers in fp32, integers at the edges and a search, by the scales of the file: with no table."""
    path = quantised_file(tmp_path / "q.onnx")
    lines: list[str] = []
    options = CompileOptions(path, tmp_path / "mixed", int8=int8_of(None, ("conv",)))
    assert run(options, lines.append, toolkit)
    assert "fp32: CONV: asked for (conv)" in lines
    record = Record.read(tmp_path / "mixed/int8.json")  # with which `evaluate` makes the same net again
    assert record.int8.options.fp32 == ("conv",) and {"x", "c"} <= record.int8.table.ranges.keys()
    edges = int8_of(None, quant_input=True, quant_output=True)
    with opened(path, Source.of(path), (), (), toolkit, edges) as built:
        tensors = built.graph.resolve().tensors
        assert [tensors[name].dtype for name in ("x", "y")] == [DType.INT8, DType.UINT8]
        assert built.quantised is not None
        given = [Batch({"x": samples(2)}, None, 2)]
        found = search(built.floats, Int8(built.quantised.table), lambda: given, Target(90.0))
    assert found.fp32 == ("conv",) and found.nothing and found.before > 30


def q_operators(nodes: list[onnx.NodeProto], shape: list[int], **constants: Array) -> onnx.ModelProto:
    """x in integers around zero point 55, `nodes` from xq to yq, and back; types are not in the file."""
    make = helper.make_node
    whole = [
        make("QuantizeLinear", ["x", "s", "z"], ["xq"]),
        *nodes,
        make("DequantizeLinear", ["yq", "s", "z"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", 1, shape)
    y = helper.make_tensor_value_info("y", 1, None)
    known = {"s": np.float32(0.05), "z": np.uint8(55), "z2": np.uint8(0), **constants}
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in known.items()]
    graph = helper.make_graph(whole, "g", [x], [y], tensors)
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, ir_version=8, opset_imports=sets)


MOVED = {
    "pad with the zero point": [helper.make_node("Pad", ["aq", "pads", "z"], ["yq"])],
    "pad with the integer 0": [helper.make_node("Pad", ["aq", "pads"], ["yq"])],
    "pool": [helper.make_node("MaxPool", ["aq"], ["yq"], kernel_shape=[3, 3], pads=[1] * 4)],
    "split and joined": [
        helper.make_node("Split", ["aq"], ["p", "q"], axis=1),
        helper.make_node("Concat", ["q", "p", "c"], ["yq"], axis=1),
    ],
    "limited by an integer": [helper.make_node("Max", ["aq", "m"], ["yq"])],
    "computed with as integers": [
        helper.make_node("Cast", ["aq"], ["f"], to=1),
        helper.make_node("Mul", ["f", "half"], ["g"]),
        helper.make_node("QuantizeLinear", ["g", "one", "z2"], ["yq"]),
    ],
    "taken with another zero point": [
        helper.make_node(
            "QLinearAdd", ["aq", "s", "z2", "aq", "s", "z", "s", "z"], ["yq"], domain="com.microsoft"
        )
    ],
}


@pytest.mark.parametrize("case", MOVED)
def test_integers_that_other_nodes_read(case: str, toolkit: Toolkit) -> None:
    """Behind an operation that is none of ONNX's the file's types are not known; what is filled in counts
    from the zero point, and what computes with the integers gets them."""

    constants = {
        "pads": np.array([0, 0, 1, 2, 0, 0, 2, 1]), "half": np.float32(0.5), "one": np.float32(1),
        "c": np.full((2, 1, 6, 8), 90, np.uint8), "m": np.array(60, np.uint8),
    }  # fmt: skip
    first = helper.make_node(
        "QLinearAdd", ["xq", "s", "z", "xq", "s", "z", "s", "z"], ["aq"], domain="com.microsoft"
    )
    model = q_operators([first, *MOVED[case]], [2, 4, 6, 8], **constants)
    x = np.random.default_rng(0).uniform(-1.3, 4.9, (2, 4, 6, 8)).astype(np.float32)
    (want,) = open_session(model.SerializeToString()).run(None, {"x": x})
    made = Graph.from_onnx(model, toolkit=toolkit)
    made.compile()
    (got,) = made.run({"x": x})
    assert got.shape == want.shape
    assert compared(want, got).sqnr > 25


def test_parts_of_a_tensor_have_its_range() -> None:
    one = Range(-1, 2, 2.0, 0.5, (0.1, 0.2))
    found = Table({"c": one}).for_tensors(["c", "c:part1", "c:part0:picked", "c:part0:1"]).ranges
    assert found == {"c": one, **dict.fromkeys(("c:part1", "c:part0:picked"), Range(-1, 2, 2.0, 0.5))}


def test_a_bias_that_is_too_large_is_told(toolkit: Toolkit) -> None:
    graph = Graph(name="net", toolkit=toolkit)
    graph.add_input("x", (1, 4, 5, 5))
    graph.add_const("w", np.full((2, 4, 1, 1), 0.01, np.float32))
    graph.add_const("b", np.array([900.0, 0.0], np.float32))
    ones = ("groups", "kernel_h", "kernel_w", "stride_h", "stride_w", "dilation_h", "dilation_w")
    window = dict.fromkeys(ones, 1)
    graph.add_tpu_layer("TPU_CONV", ["x", "w", "b"], window, ["y"])
    table = Table({"x": Range(-1, 1, 1.0), "y": Range(0, 1.0, 1.0)})
    (row,) = quantise(graph, table).rows
    assert row.reason is None or "too large" in row.reason
    table = Table({"x": Range(-1, 1, 1.0), "y": Range(0, 901.0, 901.0)})
    (row,) = quantise(graph, table).rows
    assert row.reason is None and "bits of weights given up for the bias" in row.detail


def test_int8_of_the_commands_words(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("x 1 -1 1\n")
    made = int8_of(tmp_path / "t", ("a,b", "c"), True, False)
    assert made.options == QuantiseOptions(("a", "b", "c"), True, False)


def test_searching_for_layers(toolkit: Toolkit) -> None:
    """As few as reach the target; none where it is reached; all of them give the float net."""
    graph = Graph.from_onnx(convolutions(), toolkit=toolkit)
    int8, data = Int8(table_of(graph)), samples(4)

    def given() -> Iterator[Batch]:
        yield from (Batch({"x": data[i : i + 2]}, None, 2) for i in (0, 2))

    none = search(graph, int8, given, Target(20.0))
    assert none.fp32 == () and none.before == none.reached >= 20
    target = Target(none.before + 1.5)
    some = search(graph, int8, given, target)
    assert 0 < len(some.fp32) < 3 and some.reached >= target.least
    assert not some.nothing and "warning" not in some.line(target)
    whole = search(graph, int8, given, Target(300.0))
    assert set(whole.fp32) == {"conv0", "conv1", "conv2"} and whole.nothing
    assert "300 dB cannot be reached in 8 bits: no layer that" in whole.line(Target(300.0))
    with pytest.raises(TpulayerError, match="no samples to search with"):
        search(graph, int8, list, Target(20.0))


def test_searching_for_the_same_first_places(toolkit: Toolkit) -> None:
    """Of two numbers that differ by less than a step of 8 bits the greater one is told apart in fp32 alone;
    all samples count, behind the fourth batch too."""
    rng = np.random.default_rng(0)
    graph = Graph(name="net", toolkit=toolkit)
    graph.add_input("x", (2, 8))
    graph.add_const("w", rng.standard_normal((8, 16)).astype(np.float32))
    graph.add_tpu_layer("TPU_MATMUL", ["x", "w"], {"alpha": 1.0}, ["a"], name="wide")
    second = rng.standard_normal((16, 1)).astype(np.float32)
    graph.add_const("v", np.concatenate([second, second * np.float32(1.001)], 1))
    graph.add_tpu_layer("TPU_MATMUL", ["a", "v"], {"alpha": 1.0}, ["y"], name="near")
    graph.add_output("y")
    data = rng.standard_normal((20, 8)).astype(np.float32)
    int8 = Int8(calibrate(graph, [{"x": data[i : i + 2]} for i in range(0, 20, 2)]))

    def given() -> Iterator[Batch]:
        yield from (Batch({"x": data[i : i + 2]}, None, 1) for i in range(0, 20, 2))

    target = Target.of("top1:100")
    found = search(graph, int8, given, target)
    assert "near" in found.fp32 and found.before < 100 == found.reached and found.samples == 10
    assert found.line(target).startswith(f"{found.before:.2f} -> 100.00 % same top1 as in float, 10 samples")
    assert search(graph, int8, given, Target(0.1, True)).fp32 == ()
    one = Graph(name="net", toolkit=toolkit)
    one.add_input("x", (2, 8))
    one.add_const("w", second[:8])
    one.add_tpu_layer("TPU_MATMUL", ["x", "w"], {"alpha": 1.0}, ["y"])
    with pytest.raises(TpulayerError, match="has one number for each sample"):
        search(one, Int8(calibrate(one, [{"x": data[:2]}])), given, target)


@pytest.mark.parametrize("word", ["top1:101", "top1:0", "top1:", "top2:50", "nan", "inf", "much", ":30"])
def test_targets_that_are_none(word: str) -> None:
    with pytest.raises(TpulayerError, match=f"--search {word}: "):
        Target.of(word)
    assert Target.of("30") == Target(30.0) and Target.of("top1:99.5") == Target(99.5, True)


def test_nothing_in_8_bits_is_told(toolkit: Toolkit, tmp_path: Path) -> None:
    """With a table of another net that happens to know one tensor, and where all was asked for."""
    graph = Graph.from_onnx(convolutions(), toolkit=toolkit)
    table = table_of(graph)
    done = quantise(graph, Table({"r1": table.ranges["r1"], "other": table.ranges["r1"]}))
    told = "ranges are known of 1 of the 4 tensors that layers make (is it a table of another net?)"
    assert done.nothing and told in done.lines()[1]
    done = quantise(graph, table, QuantiseOptions(("unfold_0", "conv0", "conv1", "conv2")))
    assert done.nothing and "for the reasons below" in done.lines()[1]
    assert not quantise(graph, table).nothing
    onnx.save(convolutions(), str(tmp_path / "net.onnx"))
    asked = Int8(table, QuantiseOptions(("unfold_0", "conv0", "conv1", "conv2")))
    lines: list[str] = []
    assert run(CompileOptions(tmp_path / "net.onnx", tmp_path / "out", int8=asked), lines.append, toolkit)
    assert any("dB of signal over the distance (nothing is in 8 bits)" in line for line in lines)
