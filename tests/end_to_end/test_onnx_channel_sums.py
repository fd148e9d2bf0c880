"""Sums of all channels: convolutions that make one channel, which work in local memory; sums and maxima of
rows of one-dimensional nets: pools."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx.helper import make_node as make

from tests.support.onnx_models import build_graph, equals_onnxruntime, make_model
from tpulayer import Graph
from user_layers.onnx.check import TOLERANCE, compare, reference
from user_layers.onnx.load import from_proto
from user_layers.toolkit import Toolkit

SUMS: dict[str, tuple[list[Any], str]] = {
    "of a convolution": ([], "c"),
    "of what functions and pools make of it": (
        [make("Relu", ["c"], ["r"]), make("MaxPool", ["r"], ["m"], kernel_shape=[2, 2]),
         make("ReduceL2", ["m", "planes"], ["n"]), make("Mul", ["half", "n"], ["v"])],
        "v",
    ),
    "of a power": ([make("Pow", ["c", "cube"], ["v"])], "v"),
    "of what it is multiplied by": (
        [make("GlobalAveragePool", ["c"], ["g"]), make("Mul", ["g", "c"], ["v"])],
        "v",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kept", [0, 1])
@pytest.mark.parametrize("op", ["ReduceMean", "ReduceSum", "ReduceSumSquare", "ReduceL2"])
@pytest.mark.parametrize("name", SUMS)
def test_sums_of_all_channels(toolkit: Toolkit, name: str, op: str, kept: int) -> None:
    """A convolution, where one with constant weights says how many there are; else the extent may be another
    one in each run."""
    before, value = SUMS[name]
    nodes = [
        make("Conv", ["x", "w"], ["c"], pads=[1] * 4),
        *before,
        make(op, [value, "first"], ["y"], keepdims=kept),
        make(op, ["x", "first"], ["z"], keepdims=kept),
    ]
    constants = {
        "w": np.random.default_rng(1).standard_normal((70, 5, 3, 3)).astype(np.float32),
        "half": np.float32(0.5),
        "cube": np.float32(3),
        "planes": np.array([2, 3]),
        "first": np.array([-3]),
    }
    used = {each for one in nodes for each in one.input}
    constants = {each: values for each, values in constants.items() if each in used}
    proto = make_model(nodes, {"x": (2, 5, 9, 8)}, ["y", "z"], constants, opset=18)
    x = {"x": np.random.default_rng(2).standard_normal((2, 5, 9, 8)).astype(np.float32)}
    equals_onnxruntime(toolkit, proto, x)
    ops = [node.op.op for node in build_graph(from_proto(proto), toolkit=toolkit)[0].nodes]
    assert ops.count("TPU_REDUCE") == 1
    assert ops.count("TPU_CONV") == 2


@pytest.mark.parametrize("kept", [0, 1])
@pytest.mark.parametrize("op", ["ReduceMean", "ReduceMax", "ReduceSum", "ReduceL2"])
def test_rows_of_one_dimensional_nets(toolkit: Toolkit, op: str, kept: int) -> None:
    """Rows of tokens stay reductions."""
    nodes = [
        make("Conv", ["x", "w"], ["c"], pads=[1, 1]),
        make("Relu", ["c"], ["r"]),
        make(op, ["r", "last"], ["y"], keepdims=kept),
        make(op, ["x", "last"], ["z"], keepdims=kept),
    ]
    weights = np.random.default_rng(1).standard_normal((70, 5, 3)).astype(np.float32)
    proto = make_model(
        nodes, {"x": (2, 5, 300)}, ["y", "z"], {"w": weights, "last": np.array([-1])}, opset=18
    )
    x = {"x": np.random.default_rng(2).standard_normal((2, 5, 300)).astype(np.float32)}
    equals_onnxruntime(toolkit, proto, x)
    ops = [node.op.op for node in build_graph(from_proto(proto), toolkit=toolkit)[0].nodes]
    assert ops.count("TPU_REDUCE") == ops.count("TPU_POOL") == 1


@pytest.mark.parametrize("axis", [2, -1])
@pytest.mark.parametrize("kept", [1, 0])
@pytest.mark.parametrize("op", ["ReduceMean", "ReduceMax", "ReduceSum"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_columns_and_rows(toolkit: Toolkit, op: str, kept: int, axis: int, dynamic: bool) -> None:
    """Averages and maxima are pools where channels fill lanes; smaller inputs give what they should."""
    nodes = [
        make("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        make(op, ["c", "along"], ["y"], keepdims=kept),
        make(op, ["x", "along"], ["z"], keepdims=kept),
    ]
    weights = np.random.default_rng(1).standard_normal((70, 5, 3, 3)).astype(np.float32)
    constants = {"w": weights, "along": np.array([axis])}
    whole = (2, 5, 9, 14)
    proto = make_model(nodes, {"x": whole}, ["y", "z"], constants, opset=18)
    graph = Graph.from_onnx(proto, toolkit=toolkit)
    ops = [node.op.op for node in graph.nodes]
    assert ops.count("TPU_POOL") == (op != "ReduceSum") and ops.count("TPU_REDUCE") == 1 + (op == "ReduceSum")
    graph.compile(dynamic=dynamic, opt=1)
    for shape in (whole, (1, 5, 7, 6)) if dynamic else (whole,):
        x = {"x": np.random.default_rng(2).standard_normal(shape).astype(np.float32)}
        for found in compare(["y", "z"], graph.run(x), reference(from_proto(proto, {"x": shape}), x)):
            assert found.relative <= TOLERANCE
