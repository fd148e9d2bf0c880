"""Models in which only what products read is quantised: the other ranges follow, or are not known."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import helper, numpy_helper

from tpulayer import Graph
from user_layers.onnx.build import build
from user_layers.onnx.fold import fold_constants
from user_layers.onnx.implied import implied_ranges
from user_layers.onnx.load import from_proto
from user_layers.quantize.quality import compared
from user_layers.quantize.table import Range
from user_layers.runtime.onnx_session import open_session
from user_layers.toolkit import Toolkit

CHANNELS, SIZE = 16, 16
Array = npt.NDArray[Any]


class Net:
    """Nodes and constants of a model from x to y."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, Any] = {}

    def op(self, op: str, *inputs: str, **attributes: Any) -> str:
        made = f"{op}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [made], made, **attributes))
        return made

    def constant(self, array: Any) -> str:
        name = f"k{len(self.constants)}"
        self.constants[name] = np.asarray(array)
        return name

    def quantised(self, name: str, top: float) -> str:
        """To integers and back, symmetric."""
        pair = self.constant(np.float32(top / 127)), self.constant(np.int8(0))
        return self.op("DequantizeLinear", self.op("QuantizeLinear", name, *pair), *pair)

    def conv(self, name: str, top: float, read: int = CHANNELS) -> str:
        """A convolution of a quantised tensor; its weights are rounded in the file, with a scale for each
        channel."""
        w = (self.rng.standard_normal((CHANNELS, read, 3, 3)) * 1.2 / (9 * read) ** 0.5).astype(np.float32)
        steps = np.abs(w).reshape(CHANNELS, -1).max(1) / np.float32(127)
        grid = self.constant(steps), self.constant(np.zeros(CHANNELS, np.int8))
        whole = self.op("QuantizeLinear", self.constant(w), *grid, axis=0)
        weights = self.op("DequantizeLinear", whole, *grid, axis=0)
        return self.op("Conv", self.quantised(name, top), weights, pads=[1] * 4)

    def model(self, last: str) -> onnx.ModelProto:
        self.nodes.append(helper.make_node("Identity", [last], ["y"]))
        tensors = [numpy_helper.from_array(array, name) for name, array in self.constants.items()]
        x = helper.make_tensor_value_info("x", 1, [1, 3, SIZE, SIZE])
        y = helper.make_tensor_value_info("y", 1, None)
        graph = helper.make_graph(self.nodes, "net", [x], [y], tensors)
        return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


def residual() -> tuple[onnx.ModelProto, list[str]]:
    """Two blocks with a sum each, and a convolution; the model, and the convolutions that are added."""
    net = Net()
    x, added = net.op("Relu", net.conv("x", 4.0, 3)), []
    for _ in range(2):
        inner = net.op("Relu", net.conv(x, 5.0))
        added.append(net.conv(inner, 5.0))
        x = net.op("Relu", net.op("Add", added[-1], x))
    return net.model(net.op("Relu", net.quantised(net.conv(x, 6.0), 6.0))), added


def test_what_is_added(toolkit: Toolkit) -> None:
    """All convolutions are in 8 bits, and as near to onnxruntime's as if their ranges were said."""
    proto, added = residual()
    built = build(from_proto(proto), "net", toolkit=toolkit)
    assert built.quantised is not None and built.quantised.share == 1
    known = {name: built.quantised.table.ranges[name] for name in added}
    tops = [(one.low, one.high) for one in known.values()]
    np.testing.assert_allclose(tops, [(-5.0, 5.0), (-5.0, 6.0)])
    x = np.random.default_rng(1).standard_normal((1, 3, SIZE, SIZE)).astype(np.float32)
    (want,) = open_session(proto.SerializeToString()).run(None, {"x": x})
    made = Graph.from_onnx(proto, toolkit=toolkit)
    made.compile()
    assert compared(want, made.run({"x": x})[0]).sqnr > 22  # numbers beyond a range pass the sums there


def test_cutting_there_changes_nothing(toolkit: Toolkit) -> None:
    """The same numbers in float, with what is added cut at its ends, beyond which many lie."""
    net = Net()
    x = net.op("Relu", net.quantised(net.conv("x", 4.0, 3), 1.5))
    inner = net.conv(net.op("Relu", net.conv(x, 1.5)), 5.0)
    last = net.quantised(net.op("Relu", net.op("Add", inner, x)), 2.0)
    proto = net.model(last)
    built = build(from_proto(proto), "net", toolkit=toolkit)
    assert built.quantised is not None
    one = built.quantised.table.ranges[inner]
    assert (one.low, one.high) == pytest.approx((-1.5, 2.0))
    clip = [
        helper.make_node("Clip", [inner, "low", "high"], ["cut"]),
        helper.make_node("Add", ["cut", x], ["s"]),
    ]
    at = next(i for i, node in enumerate(proto.graph.node) if node.op_type == "Add")
    cut = onnx.ModelProto()
    cut.CopyFrom(proto)
    clip[1].output[0] = cut.graph.node[at].output[0]
    del cut.graph.node[at]
    for k, node in enumerate(clip):
        cut.graph.node.insert(at + k, node)
    for name, end in (("low", one.low), ("high", one.high)):
        cut.graph.initializer.append(numpy_helper.from_array(np.array(end, np.float32), name))
    given = 3 * np.random.default_rng(2).standard_normal((1, 3, SIZE, SIZE)).astype(np.float32)
    whole = onnx.ModelProto()
    whole.CopyFrom(proto)
    whole.graph.output.append(helper.make_tensor_value_info(inner, 1, None))
    want, seen = open_session(whole.SerializeToString()).run(None, {"x": given})
    assert np.mean((seen < one.low) | (seen > one.high)) > 0.01
    (got,) = open_session(cut.SerializeToString()).run(None, {"x": given})
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("case", ["two convolutions", "a mean", "an output", "another reader"])
def test_what_does_not_follow(case: str, toolkit: Toolkit) -> None:
    """Nothing is guessed: those have no range."""
    net = Net()
    x = net.op("Relu", net.conv("x", 4.0, 3))
    inner = net.conv(x, 5.0)
    beside = net.conv(x, 5.0) if case == "two convolutions" else x
    last = net.op("Relu", net.op("Add", inner, beside))
    if case == "a mean":
        last = net.op("GlobalAveragePool", last)
    if case == "another reader":
        net.op("Exp", inner)
        net.nodes[-1].output[0] = "y2"
    last = net.quantised(last, 6.0) if case != "an output" else last
    proto = net.model(last)
    if case == "another reader":
        proto.graph.output.append(helper.make_tensor_value_info("y2", 1, None))
    built = build(from_proto(proto), "net", toolkit=toolkit)
    assert built.quantised is not None and inner not in built.quantised.table.ranges


def test_ends_by_hand() -> None:
    """Through a Relu, a sum with numbers that have a sign, and a reshape."""
    x, y = (helper.make_tensor_value_info(name, 1, [2, 3]) for name in "xy")
    w = numpy_helper.from_array(np.eye(3, dtype=np.float32), "w")
    shape = numpy_helper.from_array(np.array([3, 2]), "shape")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("MatMul", ["x", "w"], ["b"]),
        helper.make_node("Add", ["a", "b"], ["s"]),
        helper.make_node("Reshape", ["s", "shape"], ["r"]),
        helper.make_node("Relu", ["r"], ["t"]),
        helper.make_node("Reshape", ["t", "back"], ["y"]),
    ]
    back = numpy_helper.from_array(np.array([2, 3]), "back")
    graph = helper.make_graph(nodes, "net", [x], [y], [w, shape, back])
    proto = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    model = fold_constants(from_proto(proto))
    found = implied_ranges(model, {"t": Range(-4, 4, 4), "b": Range(-1, 2, 2)})
    assert found["a"] == Range(-2, 5, 5) and found["s"] == Range(0, 4, 4)
    assert "x" not in found and found["b"] == Range(-1, 2, 2)


def test_what_is_only_rounded_behind_a_view(toolkit: Toolkit) -> None:
    """onnxruntime's quantiser rounds what a product reads, behind the view that an exporter wrote."""
    net = Net()
    pictures = net.quantised(net.op("Gelu", net.quantised(net.conv("x", 4.0, 3), 4.0)), 4.0)
    gelu = net.op("Gelu", net.quantised(net.conv(pictures, 4.0), 4.0))
    flat = net.op("Reshape", gelu, net.constant(np.array([1, -1], np.int64)))
    matrix = net.constant(net.rng.standard_normal((CHANNELS * SIZE * SIZE, 4)).astype(np.float32) / 64)
    made = net.quantised(net.op("MatMul", net.quantised(flat, 4.0), net.quantised(matrix, 0.1)), 8.0)
    proto = net.model(made)
    proto.opset_import[0].version = 20
    proto.ir_version = 9
    found = build(from_proto(proto), "net", toolkit=toolkit).quantised
    assert found is not None and found.share == 1
    assert [row.reason for row in found.rows if row.op == "TPU_UNARY"] == [None, None]


def agreements(proto: onnx.ModelProto, toolkit: Toolkit) -> list[float]:
    """The dB of each output beside onnxruntime's."""
    x = np.random.default_rng(1).standard_normal((1, 3, SIZE, SIZE)).astype(np.float32)
    want = open_session(proto.SerializeToString()).run(None, {"x": x})
    made = Graph.from_onnx(proto, toolkit=toolkit)
    made.compile()
    return [compared(a, b).sqnr for a, b in zip(want, made.run({"x": x}), strict=True)]


@pytest.mark.parametrize("source", ["a convolution", "the input"])
@pytest.mark.parametrize("tops", [(5.0, 1.5), (1.5, 5.0)])
def test_a_scale_for_each_reader(source: str, tops: tuple[float, float], toolkit: Toolkit) -> None:
    """The tensor itself holds what the widest does; each other one is cut, in whichever order they come."""
    net = Net()
    inner = net.conv("x", 4.0, 3) if source == "a convolution" else "x"
    read = CHANNELS if source == "a convolution" else 3
    made = [net.quantised(net.conv(inner, top, read), 6.0) for top in tops]
    proto = net.model(made[0])
    proto.graph.output.append(helper.make_tensor_value_info(made[1], 1, None))
    assert min(agreements(proto, toolkit)) > 27
    if source == "a convolution":
        found = build(from_proto(proto), "net", toolkit=toolkit).quantised
        assert found is not None and found.share == 1
        assert found.table.ranges[inner].high == pytest.approx(5.0)


def test_one_quantiser_behind_another(toolkit: Toolkit) -> None:
    """Integers never go further than what they are made of, and are cut where they go less far."""
    net = Net()
    inner = net.quantised(net.quantised(net.conv("x", 4.0, 3), 1.0), 8.0)
    last = net.conv(inner, 6.0)
    wide = net.model(net.quantised(net.quantised(net.quantised(last, 6.0), 2.0), 4.0))
    assert agreements(wide, toolkit)[0] > 30
    built = build(from_proto(wide), "net", toolkit=toolkit, integers=False)
    assert [node.op for node in built.model.nodes if node.op != "Identity"] == ["Conv", "Conv", "Clip"]


def test_fewer_bits_stay_those_where_integers_are_read(toolkit: Toolkit) -> None:
    """The product's scale is that of all 8 bits."""
    net = Net()
    scale, zero = net.constant(np.float32(0.1)), net.constant(np.int8(0))
    ends = (net.constant(np.int8(end)) for end in (-7, 7))
    few = net.op("Clip", net.op("QuantizeLinear", "x", scale, zero), *ends)
    weights = net.constant(net.rng.integers(-127, 128, (CHANNELS, 3, 1, 1)).astype(np.int8))
    made = net.op("QLinearConv", few, scale, zero, weights, net.constant(np.float32(0.01)), zero, scale, zero)
    proto = net.model(net.op("DequantizeLinear", made, scale, zero))
    found = build(from_proto(proto), "net", toolkit=toolkit).quantised
    assert found is not None and found.table.ranges[few].high == pytest.approx(0.7)


@pytest.mark.parametrize("given", [1, 10])
def test_half_floats(given: int, toolkit: Toolkit) -> None:
    """A scale in float16, behind a Cast or of an input that is float16 itself, is that of what is cast."""
    net = Net()
    half = net.op("Cast", "x", to=10) if given == 1 else "x"
    step, zero = net.constant(np.float16(4 / 127)), net.constant(np.int8(0))

    def rounded(name: str) -> str:
        return net.op("DequantizeLinear", net.op("QuantizeLinear", name, step, zero), step, zero)

    weights = net.constant((net.rng.standard_normal((CHANNELS, 3, 3, 3)) / 5).astype(np.float16))
    made = rounded(net.op("Conv", rounded(half), weights, pads=[1] * 4))
    proto = net.model(net.op("Cast", made, to=1))
    proto.opset_import[0].version = 19
    proto.ir_version = 9
    proto.graph.input[0].type.tensor_type.elem_type = given
    done = build(from_proto(proto), "net", toolkit=toolkit).quantised
    assert done is not None
    assert done.share == 1 and all(row.reason is None for row in done.rows if row.op != "TPU_CAST")
    x = np.random.default_rng(1).standard_normal((1, 3, SIZE, SIZE)).astype(np.float32)
    kind = np.float32 if given == 1 else np.float16
    (want,) = open_session(proto.SerializeToString()).run(None, {"x": x.astype(kind)})
    made_net = Graph.from_onnx(proto, toolkit=toolkit)
    made_net.compile()
    assert compared(want, made_net.run({"x": x.astype(kind)})[0]).sqnr > 30


@pytest.mark.parametrize("point", [0, -20])
@pytest.mark.parametrize("shared", [False, True])
def test_a_relu_of_integers(shared: bool, point: int, toolkit: Toolkit) -> None:
    """It cuts what stands for less than the integer 0, and only for those who read it."""
    net = Net()
    pair = net.constant(np.float32(4 / 127)), net.constant(np.int8(point))
    whole = net.op("QuantizeLinear", net.conv("x", 4.0, 3), *pair)
    cut = net.op("DequantizeLinear", net.op("Relu", whole), *pair)
    other = net.op("DequantizeLinear", whole, *pair) if shared else ""
    proto = net.model(net.quantised(net.conv(cut, 4.0), 4.0))
    if shared:
        proto.graph.output.append(helper.make_tensor_value_info(other, 1, None))
    built = build(from_proto(proto), "net", toolkit=toolkit)
    assert not built.on_cpu and built.quantised is not None and built.quantised.share == 1
    assert min(agreements(proto, toolkit)) > 27
