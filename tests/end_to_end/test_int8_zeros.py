"""Nets in 8 bits with tensors that are 0 whatever is read: blocks that begin as nothing, pruned weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from firmware_sim.errors import UsageError
from tests.end_to_end.test_int8_tokens import Net
from user_layers.onnx.build import Built, build
from user_layers.onnx.load import from_proto
from user_layers.product import compile_net
from user_layers.quantize.calibrate import calibrate
from user_layers.quantize.quality import compared
from user_layers.quantize.rewrite import Int8, as_given
from user_layers.quantize.table import Range, Table
from user_layers.quantize.zeros import with_zeros
from user_layers.runtime.references import load_net
from user_layers.toolkit import Toolkit

C, SIZE = 16, 12
RNG = np.random.default_rng(0)
X = RNG.standard_normal((1, C, SIZE, SIZE)).astype(np.float32)


def _weights(size: float) -> Any:
    return (RNG.standard_normal((C, C, 3, 3)) * size / (9 * C) ** 0.5).astype(np.float32)


def _model(blocks: int, nothing: str, last: float = 0.0) -> onnx.ModelProto:
    """Blocks x + f(conv(relu(conv(x)))); nothing: what of f is `last` times as large as it would be."""
    nodes, constants, x = [], {}, "x"
    for k in range(blocks):
        constants[f"a{k}"], constants[f"b{k}"] = (
            _weights(1.4),
            _weights(last if nothing == "weights" else 1.0),
        )
        constants[f"s{k}"] = np.full((C, 1, 1), last if nothing != "weights" else 1.0, np.float32)
        constants[f"m{k}"] = np.linspace(0.5, 2, C, dtype=np.float32).reshape(C, 1, 1)
        nodes += [
            helper.make_node("Conv", [x, f"a{k}"], [f"p{k}"], pads=[1] * 4),
            helper.make_node("Relu", [f"p{k}"], [f"q{k}"]),
            helper.make_node("Conv", [f"q{k}", f"b{k}"], [f"r{k}"], pads=[1] * 4),
            helper.make_node("Mul", [f"r{k}", f"s{k}"], [f"t{k}"]),
            *(helper.make_node("Mul", [f"t{k}", f"m{k}"], [f"d{k}"]) for _ in "x" * (nothing == "product")),
            helper.make_node("Add", [f"d{k}" if nothing == "product" else f"t{k}", x], [f"u{k}"]),
            helper.make_node("Relu", [f"u{k}"], [f"v{k}"]),
        ]
        x = f"v{k}"
    constants["e"] = _weights(1.4)
    nodes.append(helper.make_node("Conv", [x, "e"], ["y"], pads=[1] * 4))
    read = {name for node in nodes for name in node.input}
    tensors = [numpy_helper.from_array(array, name) for name, array in constants.items() if name in read]
    given = helper.make_tensor_value_info("x", 1, X.shape)
    made = helper.make_tensor_value_info("y", 1, X.shape)
    graph = helper.make_graph(nodes, "net", [given], [made], tensors)
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


def _both(proto: onnx.ModelProto, toolkit: Toolkit, table: Table | None = None) -> tuple[Built, float]:
    """The net in 8 bits, and how near it is to the float one."""
    model = from_proto(proto)
    plain = build(model, "net", toolkit=toolkit, integers=False).graph
    built = build(model, "net", toolkit=toolkit, int8=Int8(table or calibrate(plain, [{"x": X}])))
    outputs = []
    for graph in (plain, built.graph):
        with load_net(compile_net(graph), toolkit) as runtime:
            outputs.append(runtime.launch("net", {"x": X})[0])
    return built, compared(*outputs).sqnr


@pytest.mark.parametrize("last", [1e-5, 1e-3, 0.01])
def test_blocks_that_are_nearly_nothing(toolkit: Toolkit, last: float) -> None:
    """What is added keeps its size beside the other operand, however small it is."""
    _, near = _both(_model(8, "scale", last), toolkit)
    _, alone = _both(_model(0, "scale"), toolkit)
    assert near > alone - 4


@pytest.mark.parametrize("nothing", ["weights", "scale", "product"])
def test_blocks_that_are_nothing_take_no_bits(toolkit: Toolkit, nothing: str) -> None:
    """All is in 8 bits though no range is seen, and sums that change nothing do not round again."""
    built, near = _both(_model(8, nothing), toolkit)
    assert built.quantised is not None and built.quantised.share == 1
    _, alone = _both(_model(0, nothing), toolkit)
    assert near > alone - 2


def test_whatever_the_table_says_of_them(toolkit: Toolkit) -> None:
    """A quantiser's file may say any range."""
    proto = _model(3, "product")
    plain = build(from_proto(proto), "net", toolkit=toolkit, integers=False).graph
    table = calibrate(plain, [{"x": X}])
    odd = {f"{name}{k}": Range.between(-100, 100) for name in "td" for k in range(3)}
    _, near = _both(proto, toolkit, Table({**table.ranges, **odd}))
    assert near > 30


def test_what_is_not_nothing_keeps_its_range(toolkit: Toolkit) -> None:
    proto = _model(2, "weights", last=1.0)
    graph = build(from_proto(proto), "net", toolkit=toolkit, integers=False).graph
    table = calibrate(graph, [{"x": X}])
    assert with_zeros(as_given(graph, table), table.ranges, toolkit) == table.ranges
    dead = build(from_proto(_model(2, "weights")), "net", toolkit=toolkit, integers=False).graph
    found = with_zeros(as_given(dead, Table({})), {"x": Range.between(-2, 2)}, toolkit)
    assert found.keys() == {"x", "t0", "t1"} and 0 < found["t0"].threshold < 1e-4


def test_products_of_nothing_are_nothing(toolkit: Toolkit) -> None:
    """Whatever they are multiplied by, if nothing is added."""
    net = Net(toolkit, (1, 8, 16))
    zeros = net.graph.add_const("zeros", np.zeros((16, 16), np.float32))
    nothing = net.layer("TPU_MATMUL", ["x", zeros], {})
    again, more = net.product(nothing, 16, 24, bias=False), net.product(nothing, 16, 24)
    for name in (again, more):
        net.graph.add_output(name)
    table = Table({"x": Range.between(-2, 2), again: Range.between(-9, 9), more: Range.between(-3, 3)})
    found = with_zeros(as_given(net.graph, table), table.ranges, toolkit)
    assert found[again].threshold < 1e-4 and found[nothing].threshold < 1e-4
    assert found[more].threshold == 3


def test_a_net_of_nothing_has_no_scales(toolkit: Toolkit) -> None:
    graph = build(from_proto(_model(1, "weights")), "net", toolkit=toolkit, integers=False).graph
    with pytest.raises(UsageError, match="nothing but zeros"):
        calibrate(graph, [{"x": np.zeros_like(X)}])
    large = np.full_like(X, 1e38)
    with pytest.raises(UsageError, match=r"zeros, NaN or infinities, or numbers of 1e\+30 and more \(x, "):
        calibrate(graph, [{"x": large}])
