"""What scales of quantised models say besides ranges: clips that integers make, and scales that are none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import helper, numpy_helper

from firmware_sim.errors import ModelError, UsageError
from tpulayer import Graph
from user_layers.onnx.build import build
from user_layers.onnx.command import CompileOptions, run
from user_layers.onnx.load import from_proto
from user_layers.product import compile_net
from user_layers.quantize.calibrate import calibrate
from user_layers.quantize.quality import compared
from user_layers.quantize.rewrite import Int8, quantise
from user_layers.quantize.table import Range, Table
from user_layers.runtime.onnx_session import open_session
from user_layers.runtime.references import load_net
from user_layers.toolkit import Toolkit

CHANNELS, SIZE = 8, 12
ZERO = np.uint8(0)
Array = npt.NDArray[Any]


def qdq(zero: Any = ZERO, high: float = 6.0, layers: int = 3, **changed: Any) -> onnx.ModelProto:
    """Convolutions with a scale for each channel of the weights, each behind the other, whose results go
    from 0 to `high` in integers, and some beyond. changed: other constants, by their names."""
    rng = np.random.default_rng(0)
    constants: dict[str, Any] = {
        "xs": np.float32(0.03), "xz": np.int8(0), "ys": np.float32(high / 255), "yz": zero,
    }  # fmt: skip
    make = helper.make_node
    nodes = [
        make("QuantizeLinear", ["x", "xs", "xz"], ["q0"]),
        make("DequantizeLinear", ["q0", "xs", "xz"], ["d0"]),
    ]
    for k in range(layers):
        read = 3 if k == 0 else CHANNELS
        constants[f"w{k}"] = rng.integers(-127, 128, (CHANNELS, read, 3, 3)).astype(np.int8)
        constants[f"s{k}"] = (rng.uniform(0.5, 1, CHANNELS) / 127 * (high / 4 if k == 0 else 0.7)).astype(
            np.float32
        )
        constants[f"z{k}"] = np.zeros(CHANNELS, np.int8)
        nodes += [
            make("DequantizeLinear", [f"w{k}", f"s{k}", f"z{k}"], [f"v{k}"], f"weights{k}", axis=0),
            make("Conv", [f"d{k}", f"v{k}"], [f"c{k}"], f"conv{k}", pads=[1] * 4),
            make("QuantizeLinear", [f"c{k}", "ys", "yz"], [f"q{k + 1}"], f"quantise{k}"),
            make("DequantizeLinear", [f"q{k + 1}", "ys", "yz"], [f"d{k + 1}"]),
        ]
    tensors = [numpy_helper.from_array(np.asarray(a), name) for name, a in (constants | changed).items()]
    x = helper.make_tensor_value_info("x", 1, [1, 3, SIZE, SIZE])
    y = helper.make_tensor_value_info(f"d{layers}", 1, [1, CHANNELS, SIZE, SIZE])
    graph = helper.make_graph(nodes, "clips", [x], [y], tensors)
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


def both(model: onnx.ModelProto, toolkit: Toolkit) -> tuple[Array, Array, Graph]:
    """What onnxruntime makes of random numbers, what the net makes, and the net."""
    x = np.random.default_rng(1).standard_normal((1, 3, SIZE, SIZE)).astype(np.float32)
    (want,) = open_session(model.SerializeToString()).run(None, {"x": x})
    made = Graph.from_onnx(model, toolkit=toolkit)
    made.compile()
    return want, made.run({"x": x})[0], made


@pytest.mark.parametrize("high", [6.0, 1.0, 2.0, 6.3])
@pytest.mark.parametrize("zero", [np.uint8(0), np.int8(-128)])
def test_a_clip_that_is_left_to_the_integers(toolkit: Toolkit, high: float, zero: Any) -> None:
    """onnxruntime's quantiser removes ReLU6 where a scale says the same; each convolution cuts by itself."""
    want, got, made = both(qdq(zero, high), toolkit)
    cut = np.count_nonzero(want > high * 0.999) / want.size
    assert 0.01 < cut < 0.5
    assert compared(want, got).sqnr > 28 and float(got.max()) <= high * (1 + 1e-6)
    assert [n.op.short for n in made.nodes].count("CONV_INT8") == 3
    assert len(made.nodes) <= 6  # to integers, three convolutions, back, and the output


@pytest.mark.parametrize(("zero", "high"), [(np.uint8(102), 2.5), (np.int8(-43), 3.0), (np.int8(0), 2.0)])
def test_a_clip_on_both_sides_of_0(toolkit: Toolkit, zero: Any, high: float) -> None:
    """From -1 to 1.5, to 2 and to 1: the integers' ends are within half a step of these."""
    want, got, made = both(qdq(zero, high), toolkit)
    low, step = float(want.min()), high / 255
    cut = np.count_nonzero((want < low + step / 2) | (want > low + high - step * 1.5)) / want.size
    assert cut > 0.01 and low == pytest.approx(-1, abs=step)
    assert compared(want, got).sqnr > 26 and float(got.min()) == pytest.approx(-1, abs=2 * step)
    assert [n.op.short for n in made.nodes].count("CONV_INT8") == 3


def test_other_ends_are_what_was_seen(toolkit: Toolkit) -> None:
    """Steps may be larger there, so that the weights have all their bits."""
    for high, clips in ((6.2847, 0), (6.3, 3), (0.25, 3), (6.0, 3), (60.25, 0)):
        built = build(from_proto(qdq(high=high)), "net", toolkit=toolkit, integers=False)
        assert [node.op for node in built.model.nodes].count("Clip") == clips
        assert built.graph.nodes


@pytest.mark.parametrize(
    ("constant", "value", "told"),
    [
        ("ys", np.float32(0), "QuantizeLinear quantise0: the scale ys is 0"),
        ("ys", np.float32(-0.1), "QuantizeLinear quantise0: the scale ys is -0.1"),
        ("ys", np.float32(np.nan), "QuantizeLinear quantise0: the scale ys is nan"),
        ("xs", np.float32(np.inf), "QuantizeLinear with the output q0: the scale xs is inf"),
        ("s1", np.array([np.nan] + [0.1] * 7, np.float32), "DequantizeLinear weights1: the scale s1 is nan"),
        ("s0", np.array([np.inf] * 8, np.float32), "DequantizeLinear weights0: the scale s0 is inf"),
    ],
)
def test_scales_that_are_none(toolkit: Toolkit, constant: str, value: Any, told: str) -> None:
    with pytest.raises(ModelError, match=told) as caught:
        Graph.from_onnx(qdq(**{constant: value}), toolkit=toolkit)
    assert "scales are finite and above 0" in str(caught.value)


def test_a_clip_of_floats_has_no_scales(toolkit: Toolkit) -> None:
    ends = {"low": np.float32(0), "high": np.float32(6)}
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in ends.items()]
    x, y = (helper.make_tensor_value_info(name, 1, [1, 2, 3, 4]) for name in "xy")
    graph = helper.make_graph(
        [helper.make_node("Clip", ["x", "low", "high"], ["y"])], "clip", [x], [y], tensors
    )
    built = build(from_proto(helper.make_model(graph, ir_version=8)), "net", toolkit=toolkit)
    assert [node.op.short for node in built.graph.nodes] == ["UNARY"] and built.quantised is None


def test_a_channel_of_weights_may_hold_nothing(toolkit: Toolkit) -> None:
    """Pruned channels have the scale 0 in some files, and a sign can be part of a scale."""
    steps = np.array([0, -0.01] + [0.008] * 6, np.float32)
    want, got, _ = both(qdq(s0=steps), toolkit)
    assert compared(want, got).sqnr > 30


def test_weights_of_one_number_may_hold_nothing(toolkit: Toolkit) -> None:
    """They are a channel, too."""
    constants: dict[str, Any] = {
        "w": np.full((1, 1, 1, 1), 3, np.int8), "s": np.float32(0), "b": np.full(1, 0.5, np.float32),
        "ys": np.float32(0.01), "yz": np.int8(0),
    }  # fmt: skip
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["v"]),
        helper.make_node("Conv", ["x", "v", "b"], ["c"]),
        helper.make_node("QuantizeLinear", ["c", "ys", "yz"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "ys", "yz"], ["y"]),
    ]
    tensors = [numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items()]
    x, y = (helper.make_tensor_value_info(name, 1, [1, 1, SIZE, SIZE]) for name in "xy")
    graph = helper.make_graph(nodes, "one", [x], [y], tensors)
    made = Graph.from_onnx(helper.make_model(graph, ir_version=8), toolkit=toolkit)
    made.compile()
    given = np.ones((1, 1, SIZE, SIZE), np.float32)
    (got,) = made.run({"x": given})
    assert np.abs(np.asarray(got, np.float64) - 0.5).max() <= 0.01


def test_what_is_not_kept_is_said(toolkit: Toolkit, tmp_path: Path) -> None:
    """Scales of channels that become one, zero points of weights, uneven ranges: in sum in the
    log, one by one in the report. Files whose integers are kept have no such line."""

    def told(model: onnx.ModelProto, **options: Any) -> tuple[list[str], str]:
        onnx.save(model, str(tmp_path / "m.onnx"))
        lines: list[str] = []
        assert run(
            CompileOptions(tmp_path / "m.onnx", tmp_path / "net", report=True, **options),
            lines.append,
            toolkit,
        )
        report = (tmp_path / "net" / "report.txt").read_text()
        return [line for line in lines if line.startswith("not kept of the file's integers")], report

    even: dict[str, Any] = {f"s{k}": np.full(CHANNELS, 0.01, np.float32) for k in range(3)}
    lines, report = told(qdq(**even))
    assert lines == [] and "lost" not in report

    uneven = np.array([0.01] * 7 + [0.01 / 8], np.float32)
    wide = np.random.default_rng(0).integers(-128, 128, (CHANNELS, CHANNELS, 3, 3)).astype(np.int8)
    wide.reshape(-1)[:2] = -128, 127
    changed = even | {"s1": uneven, "w2": wide, "z2": np.full(CHANNELS, 100, np.int8)}
    lines, report = told(qdq(**changed))
    assert lines == [
        "not kept of the file's integers: weights of 2 layers are on one scale for all channels, which costs "
        "up to 3.0 of 8 bits (conv1, conv2)"
    ]
    assert "Conv conv1: weights w1, 8 scales on one: 3.0 of 8 bits lost, most in channel 7" in report
    assert "Conv conv2: weights w2, 8 scales on one without zero points: 0.8 of 8 bits lost" in report
    assert "Conv conv0" not in report

    lines, report = told(qdq(zero=np.uint8(64), **even))
    assert [line.partition(": ")[2] for line in lines] == [
        "ranges of 3 tensors are made symmetric for want of zero points, which costs up to 0.6 of 8 bits "
        "(c0, c1, c2)"
    ]
    assert "-1.506 to 4.494 by its zero point, -4.494 to 4.494 here: 0.6 of 8 bits lost" in report


@pytest.mark.parametrize(("bits", "signed"), [(8, True), (6, True), (4, True), (4, False)])
def test_fewer_bits(toolkit: Toolkit, bits: int, signed: bool) -> None:
    """A Clip between both, also of all but -128. Numbers beyond are cut; between there are 8 bits."""
    rng = np.random.default_rng(0)
    low, high = (1 - 2 ** (bits - 1), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    kind: Any = np.int8 if signed else np.uint8
    step = 2.0 / high
    constants = {
        "s": np.float32(step), "z": kind(0), "l": kind(low), "h": kind(high), "zw": np.zeros(8, np.int8),
        "w": rng.integers(-127, 128, (8, 3, 3, 3)).astype(np.int8), "f": np.full(8, 0.01, np.float32),
    }  # fmt: skip
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("Clip", ["q", "l", "h"], ["n"]),
        helper.make_node("DequantizeLinear", ["n", "s", "z"], ["d"]),
        helper.make_node("DequantizeLinear", ["w", "f", "zw"], ["v"], axis=0),
        helper.make_node("Conv", ["d", "v"], ["c"], pads=[1] * 4),
        helper.make_node("QuantizeLinear", ["c", "s", "z"], ["e"]),
        helper.make_node("Clip", ["e", "l", "h"], ["k"]),
        helper.make_node("DequantizeLinear", ["k", "s", "z"], ["y"]),
    ]
    constants["f"] *= np.float32(0.1)
    tensors = [numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items()]
    x = helper.make_tensor_value_info("x", 1, [1, 3, SIZE, SIZE])
    y = helper.make_tensor_value_info("y", 1, [1, CHANNELS, SIZE, SIZE])
    graph = helper.make_graph(nodes, "bits", [x], [y], tensors)
    proto = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    want, got, made = both(proto, toolkit)
    assert "CPU" not in [node.op.op for node in made.nodes]
    given = np.random.default_rng(1).standard_normal((1, 3, SIZE, SIZE)).astype(np.float32)
    cut = np.clip(given, low * step, 2.0)
    weights = constants["w"] * constants["f"][0]
    plain = np.zeros((CHANNELS, SIZE, SIZE))
    padded = np.pad(cut[0], ((0, 0), (1, 1), (1, 1)))
    for row in range(3):
        for column in range(3):
            seen = padded[:, row : row + SIZE, column : column + SIZE]
            plain += np.einsum("oc,chw->ohw", weights[:, :, row, column], seen)
    if not signed:
        plain = np.maximum(plain, 0)
    assert compared(plain, got[0]).sqnr > 27
    assert compared(want, got).sqnr > 5 * bits - 12


def test_what_cannot_be_beyond_is_not_cut(toolkit: Toolkit) -> None:
    """A GELU whose steps are all quantised: 1 + erf(x) is in integers from 0 to 2, and stays a part of it."""
    steps = {
        "xs": (8, 128),
        "es": (2, 128),
        "as": (2, 0),
        "ms": (16.0321, 8),
        "ys": (8.0173, 8),
    }
    constants: dict[str, Any] = {"root": np.float32(2**0.5), "one": np.uint8(255), "half": np.uint8(255)}
    constants |= {"ones": np.float32(1 / 255), "halfs": np.float32(0.5 / 255), "zero": np.uint8(0)}
    for name, (width, zero) in steps.items():
        constants |= {name: np.float32(width / 255), f"{name}z": np.uint8(zero)}
    make = helper.make_node

    def pair(source: str, scale: str, made: str) -> list[onnx.NodeProto]:
        return [
            make("QuantizeLinear", [source, scale, f"{scale}z"], [f"{made}_q"]),
            make("DequantizeLinear", [f"{made}_q", scale, f"{scale}z"], [made]),
        ]

    nodes = [
        *pair("x", "xs", "a"),
        make("Div", ["a", "root"], ["d"]),
        make("Erf", ["d"], ["e0"]),
        *pair("e0", "es", "e"),
        make("DequantizeLinear", ["one", "ones", "zero"], ["c1"]),
        make("Add", ["e", "c1"], ["p0"]),
        *pair("p0", "as", "p"),
        make("Mul", ["a", "p"], ["m0"]),
        *pair("m0", "ms", "m"),
        make("DequantizeLinear", ["half", "halfs", "zero"], ["c2"]),
        make("Mul", ["m", "c2"], ["y0"]),
        *pair("y0", "ys", "y"),
    ]
    tensors = [numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items()]
    x, y = (helper.make_tensor_value_info(name, 1, [1, CHANNELS, SIZE, SIZE]) for name in "xy")
    graph = helper.make_graph(nodes, "gelu", [x], [y], tensors)
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    built = build(from_proto(model), "net", toolkit=toolkit, integers=False)
    assert [node.op for node in built.model.nodes if node.op != "Identity"] == ["Gelu"]


def test_the_table_of_another_net(toolkit: Toolkit) -> None:
    x, y = (helper.make_tensor_value_info(name, 1, [1, 2, 3, 4]) for name in "xy")
    plain = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    model = from_proto(helper.make_model(plain, ir_version=8))
    table = Table({"a": Range(-1, 1, 1), "b": Range(-1, 1, 1)})
    with pytest.raises(UsageError, match="names no tensor of this net: it has a, b, and the net x, y"):
        build(model, "net", toolkit=toolkit, int8=Int8(table))


def test_a_vendors_table_says_operations(toolkit: Toolkit) -> None:
    """Its names are read as those of the tensors, also where a model has ranges of its own."""
    plain = build(from_proto(qdq(layers=2)), "net", toolkit=toolkit, integers=False).graph
    made = [name for node in plain.nodes for name in node.outputs]
    ranges = {f"{name}_Conv": Range.between(-3, 3) for name in made} | {"x": Range.between(-4, 4)}
    for table, share in ((Table(ranges, vendors=True), 1.0), (Table(ranges), 0.0)):
        assert quantise(plain, table).share == share
    done = build(
        from_proto(qdq(layers=2)), "net", toolkit=toolkit, int8=Int8(Table(ranges, vendors=True))
    ).quantised
    assert done is not None and done.share == 1.0 and done.table.vendors


def test_a_row_of_constants_with_one_scale(toolkit: Toolkit) -> None:
    """onnxruntime's quantiser writes no axis where one scale stands for all; the usual one no row has."""
    rng = np.random.default_rng(0)
    constants: dict[str, Any] = {
        "s": np.float32(0.03), "z": np.int8(0), "w": rng.integers(-127, 128, SIZE).astype(np.int8),
        "one": np.array([0.01], np.float32), "none": np.array([3], np.int8),
    }  # fmt: skip
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("DequantizeLinear", ["w", "one", "none"], ["v"]),
        helper.make_node("Add", ["d", "v"], ["a"]),
        helper.make_node("QuantizeLinear", ["a", "s", "z"], ["e"]),
        helper.make_node("DequantizeLinear", ["e", "s", "z"], ["y"]),
    ]
    tensors = [numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items()]
    x = helper.make_tensor_value_info("x", 1, [1, 3, SIZE, SIZE])
    y = helper.make_tensor_value_info("y", 1, [1, 3, SIZE, SIZE])
    graph = helper.make_graph(nodes, "row", [x], [y], tensors)
    proto = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    given = np.random.default_rng(1).standard_normal((1, 3, SIZE, SIZE)).astype(np.float32)
    for scale in (np.array([0.01], np.float32), np.float32(0.01)):
        (found,) = (one for one in proto.graph.initializer if one.name == "one")
        found.CopyFrom(numpy_helper.from_array(np.asarray(scale), "one"))
        made = Graph.from_onnx(proto, toolkit=toolkit)
        made.compile()
        want = given + (constants["w"] - 3.0) * 0.01
        assert compared(np.clip(want, -128 * 0.03, 127 * 0.03), made.run({"x": given})[0]).sqnr > 30


def test_bits_that_biases_cost_are_told(toolkit: Toolkit) -> None:
    """A file says no means, with which the bias would take back what coarser weights lose; those of noise
    are nearly as good."""
    model = qdq(layers=2)
    (conv,) = (node for node in model.graph.node if node.name == "conv1")
    conv.input.append("large")
    large = np.full(CHANNELS, 40.0, np.float32)
    model.graph.initializer.append(numpy_helper.from_array(large, "large"))
    done = build(from_proto(model), "net", toolkit=toolkit).quantised
    assert done is not None and [row.short for row in done.rows if row.op == "TPU_CONV"] == [0, 3]
    told = "weights of 1 layer gave up bits for large biases, at most 3 (conv1): means of noise"
    assert any(line.startswith(told) for line in done.lines()), done.lines()
    plain = build(from_proto(qdq(layers=2)), "net", toolkit=toolkit).quantised
    assert plain is not None and not any("gave up" in line for line in plain.lines())
    del model.graph.node[0]  # the input is in integers: there is no noise like it
    model.graph.input[0].name, model.graph.input[0].type.tensor_type.elem_type = "q0", 3
    given = build(from_proto(model), "net", toolkit=toolkit).quantised
    assert given is not None
    assert any("(conv1): means that `tpulayer calibrate`" in line for line in given.lines()), given.lines()


def test_means_of_noise(toolkit: Toolkit) -> None:
    """Weights four times as large whose biases take most of what they add up away again."""
    model = qdq(layers=2)
    tensors = {one.name: one for one in model.graph.initializer}
    arrays = {name: numpy_helper.to_array(one) for name, one in tensors.items()}
    weights = np.abs(arrays["w1"]) * arrays["s1"].reshape(-1, 1, 1, 1) * 4
    tensors["s1"].CopyFrom(numpy_helper.from_array(arrays["s1"] * np.float32(4), "s1"))
    tensors["w1"].CopyFrom(numpy_helper.from_array(np.abs(arrays["w1"]), "w1"))
    (conv,) = (node for node in model.graph.node if node.name == "conv1")
    conv.input.append("large")
    large = 3 - 1.2 * weights.sum((1, 2, 3))
    model.graph.initializer.append(numpy_helper.from_array(large.astype(np.float32), "large"))
    done = build(from_proto(model), "net", toolkit=toolkit).quantised
    assert done is not None and max(row.short for row in done.rows) >= 2
    x = np.random.default_rng(1).standard_normal((1, 3, SIZE, SIZE)).astype(np.float32)
    plain = build(from_proto(model), "net", toolkit=toolkit, integers=False).graph
    without = quantise(plain, Table({n: replace(one, mean=()) for n, one in done.table.ranges.items()}))
    found = []
    for graph in (plain, without.graph, done.graph):
        with load_net(compile_net(graph), toolkit) as runtime:
            found.append(runtime.launch("net", {"x": x})[0])
    assert compared(found[0], found[2]).sqnr > compared(found[0], found[1]).sqnr + 0.2
    (reader,) = (node for node in plain.nodes if node.name == "conv1")
    seen = calibrate(plain, [{"x": x}]).ranges[reader.inputs[0]].mean
    np.testing.assert_allclose(done.table.ranges[reader.inputs[0]].mean, seen, rtol=0.4)


def operator(op: str, shape: list[int], made: list[int], y: tuple[Any, Any], **attributes: Any) -> Any:
    """A model of onnxruntime's quantiser around one operation of x in uint8."""
    rng = np.random.default_rng(0)
    constants: dict[str, Any] = {
        "xs": np.float32(0.02), "xz": np.uint8(128), "ys": y[0], "yz": y[1],
        "bs": np.float32(0.01), "bz": np.int8(0), "B": rng.integers(-127, 128, (16, 8)).astype(np.int8),
        "C": rng.integers(-20000, 20000, 8).astype(np.int32),
    }  # fmt: skip
    inputs = ["xq", "xs", "xz", *(["B", "bs", "bz", "C"] if op == "QGemm" else []), "ys", "yz"]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "xs", "xz"], ["xq"]),
        helper.make_node(op, inputs, ["yq"], "one", domain="com.microsoft", **attributes),
        helper.make_node("DequantizeLinear", ["yq", "ys", "yz"], ["y"]),
    ]
    tensors = [
        numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items() if n in [*inputs, "xs"]
    ]
    ends = (helper.make_tensor_value_info(name, 1, one) for name, one in (("x", shape), ("y", made)))
    graph = helper.make_graph(nodes, "one", [next(ends)], [next(ends)], tensors)
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, ir_version=8, opset_imports=sets)


@pytest.mark.parametrize("alpha", [1.0, 0.5])
def test_a_bias_is_multiplied_as_well(toolkit: Toolkit, alpha: float) -> None:
    """QGemm's integers of C stand for alpha times the scales of both operands."""
    model = operator("QGemm", [4, 16], [4, 8], (np.float32(0.08), np.uint8(128)), alpha=alpha)
    x = np.random.default_rng(1).standard_normal((4, 16)).astype(np.float32)
    (want,) = open_session(model.SerializeToString()).run(None, {"x": x})
    made = Graph.from_onnx(model, toolkit=toolkit)
    made.compile()
    assert compared(want, made.run({"x": x})[0]).sqnr > 30


@pytest.mark.parametrize(("opset", "host"), [(9, True), (13, False), (17, False)])
def test_a_softmax_of_another_version(toolkit: Toolkit, opset: int, host: bool) -> None:
    """It says itself whether it goes over one dimension or over all from that one on."""
    grid = np.float32(1 / 256), np.uint8(0)
    model = operator("QLinearSoftmax", [4, 3, 16], [4, 3, 16], grid, opset=opset, axis=1)
    built = build(from_proto(model), "net", toolkit=toolkit)
    assert any(node.op.op == "CPU" or node.cpu is not None for node in built.graph.nodes) == host
    x = np.random.default_rng(1).standard_normal((4, 3, 16)).astype(np.float32)
    (want,) = open_session(model.SerializeToString()).run(None, {"x": x})
    made = Graph.from_onnx(model, toolkit=toolkit)
    made.compile()
    assert compared(want, made.run({"x": x})[0]).sqnr > 30
