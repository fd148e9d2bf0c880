"""Convolutions whose weights are computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.support.onnx_models import build_graph, equals_onnxruntime, make_model
from user_layers.onnx.load import from_proto
from user_layers.toolkit import Toolkit


def convolution(x: list[int], weights: list[int], bias: str = "", **attributes: Any) -> Any:
    """Of x, with weights that come from another input. bias: "input", "constant" or none."""
    inputs = {"x": x, "w": weights}
    constants: dict[str, Any] = {}
    if bias == "input":
        inputs["b"] = weights[:1]
    elif bias:
        constants["b"] = np.arange(weights[0], dtype=np.float32)
    nodes = [
        helper.make_node("Tanh", ["w"], ["v"]),
        helper.make_node("Conv", ["x", "v", *(["b"] if bias else [])], ["y"], **attributes),
    ]
    return make_model(nodes, inputs, ["y"], constants)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    ("x", "weights", "bias", "attributes"),
    [
        ([2, 6, 9, 8], [5, 6, 3, 3], "", {"pads": [1, 1, 1, 1]}),
        ([1, 6, 9, 8], [4, 3, 3, 2], "constant", {"group": 2, "strides": [2, 1]}),
        ([1, 6, 9, 8], [6, 1, 3, 3], "input", {"group": 6, "auto_pad": "SAME_UPPER"}),
        ([3, 4, 20], [7, 4, 5], "input", {"pads": [3, 1], "dilations": [2]}),
        ([1, 8, 5, 5], [6, 8, 1, 1], "", {}),
    ],
)
def test_they_are_products(
    toolkit: Toolkit,
    x: list[int],
    weights: list[int],
    bias: str,
    attributes: dict[str, Any],
    dynamic: bool,
) -> None:
    proto = convolution(x, weights, bias, **attributes)
    _, built = build_graph(from_proto(proto), toolkit=toolkit)
    assert not built.on_cpu and "MatMul" in {one.op for one in built.model.nodes}
    rng = np.random.default_rng(6)
    given = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in proto.graph.input}
    feed = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in given.items()}
    equals_onnxruntime(toolkit, proto, feed, dynamic=dynamic)


def unfolded(shape: list[int], rows: Any, columns: Any) -> Any:
    """As torch's unfold is exported."""
    constants = {"i": np.array(rows), "j": np.array(columns), "shape": np.array([shape[0], -1, 2])}
    nodes = [
        helper.make_node("Gather", ["x", "i"], ["r"], axis=2),
        helper.make_node("Gather", ["r", "j"], ["c"], axis=4),
        helper.make_node("Transpose", ["c"], ["t"], perm=[0, 1, 2, 4, 3, 5]),
        helper.make_node("Reshape", ["t", "shape"], ["y"]),
    ]
    return make_model(nodes, {"x": shape}, ["y"], constants)


def windows(taps: int, count: int, stride: int = 1, dilation: int = 1) -> Any:
    return np.arange(taps)[:, None] * dilation + np.arange(count) * stride


@pytest.mark.parametrize(
    ("shape", "rows", "columns", "convolution"),
    [
        ([2, 5, 8, 6], windows(3, 6), windows(3, 4), True),
        ([1, 5, 8, 9], windows(2, 4, 2), windows(3, 3, 2, 2), True),
        ([1, 5, 8, 6], windows(1, 8), windows(6, 1), True),
        ([1, 5, 8, 6], windows(3, 5), windows(3, 4), False),  # the last row of windows is missing
        ([1, 5, 8, 6], windows(3, 6), windows(3, 4)[::-1], False),
    ],
)
@pytest.mark.parametrize("dynamic", [False, True])
def test_windows_that_are_cut_out(
    toolkit: Toolkit, shape: list[int], rows: Any, columns: Any, convolution: bool, dynamic: bool
) -> None:
    proto = unfolded(shape, rows, columns)
    _, built = build_graph(from_proto(proto), toolkit=toolkit)
    ops = {one.op for one in built.model.nodes}
    assert ("Conv" in ops) == convolution and ("Gather" in ops) == (not convolution)
    x = np.random.default_rng(8).standard_normal(shape).astype(np.float32)
    equals_onnxruntime(toolkit, proto, {"x": x}, dynamic=dynamic)
