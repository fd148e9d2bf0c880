"""What only moves in 8 bits: pads beyond their input's range, channels that a product chooses."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.support.onnx_models import make_model
from user_layers.graph import GraphBuilder
from user_layers.onnx.build import build
from user_layers.onnx.check import reference
from user_layers.onnx.load import from_proto
from user_layers.onnx.model import Model
from user_layers.product import compile_net
from user_layers.quantize.calibrate import calibrate
from user_layers.quantize.quality import compared
from user_layers.quantize.rewrite import Int8
from user_layers.runtime.references import load_net
from user_layers.toolkit import Toolkit

C, SIZE = 16, 10


def model(fill: float) -> onnx.ModelProto:
    rng = np.random.default_rng(0)

    def weights(out: int, size: float) -> Any:
        return (rng.standard_normal((out, C, 1, 1)) * size / C**0.5).astype(np.float32)

    constants: dict[str, Any] = {
        "a": weights(C, 0.02),
        "pads": np.array([0, 0, 0, 0, 0, 1, 0, 0]),
        "fill": np.float32(fill),
        "b": np.concatenate([weights(C, 1.0), np.full((C, 1, 1, 1), 0.003, np.float32)], axis=1),
        "c": weights(C, 1.0),
    }
    nodes = [
        helper.make_node("Conv", ["x", "a"], ["small"]),
        helper.make_node("Pad", ["small", "pads", "fill"], ["padded"]),
        helper.make_node("Conv", ["small", "c"], ["beside"]),
        helper.make_node("Conv", ["padded", "b"], ["whole"]),
    ]
    return make_model(nodes, {"x": (1, C, SIZE, SIZE)}, ["beside", "whole"], constants, opset=13)


def results_of(toolkit: Toolkit, read: Model, x: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """A net's outputs in fp32 and in integers, all of whose products are in 8 bits."""
    plain = build(read, "net", toolkit=toolkit, integers=False).graph
    done = build(read, "net", toolkit=toolkit, int8=Int8(calibrate(plain, [x]))).quantised
    assert done is not None and done.share == 1.0
    return launched(toolkit, plain, x), launched(toolkit, done.graph, x)


def launched(toolkit: Toolkit, graph: GraphBuilder, x: dict[str, Any]) -> list[Any]:
    """The outputs of a net."""
    with load_net(compile_net(graph), toolkit) as runtime:
        return list(runtime.launch("net", x))


@pytest.mark.parametrize("fill", [1.0, -2.0, 0.01])
def test_what_is_before_them_keeps_its_bits(toolkit: Toolkit, fill: float) -> None:
    read = from_proto(model(fill))
    x = {"x": np.random.default_rng(1).standard_normal((1, C, SIZE, SIZE)).astype(np.float32)}
    wanted, made = results_of(toolkit, read, x)
    assert compared(wanted[0], made[0]).sqnr > 30  # what reads the small numbers themselves


@pytest.mark.parametrize("factor", [2.5, 9.0, 90.0])
def test_what_is_joined_to_larger_values_keeps_its_bits(toolkit: Toolkit, factor: float) -> None:
    """For others that read it: the input of a net, a sum, both far below what they are joined to."""
    rng = np.random.default_rng(0)
    sizes = {"a": 1.0, "b": factor, "c": 1.0, "d": 1.0}
    weights = {
        n: (rng.standard_normal((C, C, 1, 1)) * f / C**0.5).astype(np.float32) for n, f in sizes.items()
    }
    weights["f"] = (rng.standard_normal((C, 3 * C, 1, 1)) / C).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "a"], ["p"]),
        helper.make_node("Conv", ["x", "b"], ["large"]),
        helper.make_node("Add", ["x", "p"], ["sum"]),
        helper.make_node("Concat", ["large", "sum", "x"], ["joined"], axis=1),
        helper.make_node("Conv", ["sum", "c"], ["beside"]),
        helper.make_node("Conv", ["x", "d"], ["also"]),
        helper.make_node("Conv", ["joined", "f"], ["whole"]),
    ]
    outputs = ["beside", "also", "whole"]
    read = from_proto(make_model(nodes, {"x": (2, C, SIZE, SIZE)}, outputs, weights, opset=13))
    x = {"x": rng.standard_normal((2, C, SIZE, SIZE)).astype(np.float32)}
    wanted, made = results_of(toolkit, read, x)
    for want, got in zip(wanted, made, strict=True):
        assert compared(want, got).sqnr > 29


def test_sums_of_far_finer_steps_than_the_results(toolkit: Toolkit) -> None:
    """A sum that has the scale of much larger values, whose operands are far apart, too."""
    rng = np.random.default_rng(0)
    sizes = {"a": 1.0, "b": 0.05, "c": 100.0}
    weights = {
        n: (rng.standard_normal((C, C, 1, 1)) * f / C**0.5).astype(np.float32) for n, f in sizes.items()
    }
    nodes = [
        helper.make_node("Conv", ["x", "a"], ["p"]),
        helper.make_node("Tanh", ["p"], ["one"]),
        helper.make_node("Conv", ["one", "b"], ["two"]),
        helper.make_node("Add", ["one", "two"], ["sum"]),
        helper.make_node("Conv", ["x", "c"], ["large"]),
        helper.make_node("Concat", ["sum", "large"], ["y"], axis=1),
    ]
    read = from_proto(make_model(nodes, {"x": (2, C, SIZE, SIZE)}, ["y"], weights, opset=13))
    x = {"x": rng.standard_normal((2, C, SIZE, SIZE)).astype(np.float32)}
    _, (made,) = results_of(toolkit, read, x)
    assert compared(reference(read, x)[0], made).sqnr > 30


@pytest.mark.parametrize("signed", [False, True])
def test_channels_that_are_chosen_are_not_rounded_again(toolkit: Toolkit, signed: bool) -> None:
    """A convolution with ones, as compilers write shuffles: the same integers."""
    rng = np.random.default_rng(0)
    ones = np.zeros((C, C, 1, 1), np.float32)
    ones[np.arange(C), rng.permutation(C)] = 1
    nodes = [
        helper.make_node("Conv", ["x", "a"], ["made"]),
        helper.make_node("Relu", ["made"], ["cut"]),
        helper.make_node("Conv", ["made" if signed else "cut", "ones"], ["chosen"]),
        helper.make_node("Conv", ["chosen", "c"], ["y"]),
    ]
    weights = {n: (rng.standard_normal((C, C, 1, 1)) / C**0.5).astype(np.float32) for n in "ac"}
    proto = make_model(nodes, {"x": (1, C, SIZE, SIZE)}, ["y"], {"ones": ones, **weights}, opset=13)
    x = {"x": rng.standard_normal((1, C, SIZE, SIZE)).astype(np.float32)}
    read = from_proto(proto)
    plain = build(read, "net", toolkit=toolkit, integers=False).graph
    done = build(read, "net", toolkit=toolkit, int8=Int8(calibrate(plain, [x]))).quantised
    assert done is not None and done.share == 1.0
    source, chosen = (done.integers[name] for name in ("made" if signed else "cut", "chosen"))
    assert source[1] == chosen[1]
    for name in (source[0], chosen[0]):
        done.graph.add_output(name)
    with load_net(compile_net(done.graph), toolkit) as runtime:
        _, before, after = runtime.launch("net", x)
    np.testing.assert_array_equal(before[:, ones[:, :, 0, 0].argmax(1)], after)


@pytest.mark.parametrize(
    ("op", "how", "reason"),
    [
        ("AveragePool", {"kernel_shape": [16, 16], "strides": [16, 16]}, "a stride above 15"),
        ("MaxPool", {"kernel_shape": [2, 2], "strides": [1, 17]}, "a stride above 15"),
        ("MaxPool", {"kernel_shape": [2, 2], "dilations": [2, 2]}, "a dilation"),
        ("AveragePool", {"kernel_shape": [2, 2100]}, "means of so many numbers"),
        ("AveragePool", {"kernel_shape": [2, 2], "strides": [15, 15]}, None),
    ],
)
def test_pools_that_have_no_layer_stay_in_fp32(
    toolkit: Toolkit, op: str, how: dict[str, Any], reason: str | None
) -> None:
    wide = 2101 if how["kernel_shape"][1] > 100 else 34
    weights = np.random.default_rng(0).standard_normal((C, C, 1, 1)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node(op, ["c"], ["p"], **how),
        helper.make_node("Conv", ["p", "w"], ["y"]),
    ]
    read = from_proto(make_model(nodes, {"x": (1, C, 34, wide)}, ["y"], {"w": weights}))
    x = {"x": np.random.default_rng(1).standard_normal((1, C, 34, wide)).astype(np.float32)}
    plain = build(read, "net", toolkit=toolkit, integers=False).graph
    done = build(read, "net", toolkit=toolkit, int8=Int8(calibrate(plain, [x]))).quantised
    assert done is not None
    (row,) = (row for row in done.rows if row.layer == plain.nodes[1].name)
    assert row.reason == reason
    (wanted,), (made,) = launched(toolkit, plain, x), launched(toolkit, done.graph, x)
    assert compared(wanted, made).sqnr > 30


@pytest.mark.parametrize("volumes", [2, 4])
@pytest.mark.parametrize("options", [{"opt": 0}, {"opt": 2}, {"dynamic": True}])
def test_volumes_of_one_plane(toolkit: Toolkit, volumes: int, options: dict[str, Any]) -> None:
    """Pads along the depth make two planes of each, which are batches: not those of a word."""
    weights = np.random.default_rng(0).standard_normal((8, 3, 2, 1, 1)).astype(np.float32)
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 0, 0, 1, 0, 0])]
    read = from_proto(make_model(nodes, {"x": (volumes, 3, 1, 4, 4)}, ["y"], {"w": weights}))
    x = {"x": np.random.default_rng(1).standard_normal((volumes, 3, 1, 4, 4)).astype(np.float32)}
    plain = build(read, "net", toolkit=toolkit, integers=False).graph
    done = build(read, "net", toolkit=toolkit, int8=Int8(calibrate(plain, [x]))).quantised
    assert done is not None and done.share == 1.0
    with load_net(compile_net(done.graph, **options), toolkit) as runtime:
        (got,) = runtime.launch("net", x)
    (want,) = reference(read, x)
    assert compared(want, got).sqnr > 30
