"""Shapes that onnxruntime makes and ONNX's inference counts otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.support.onnx_models import equals_onnxruntime, make_model
from tests.support.workspaces import builtin_toolkit
from user_layers.toolkit import Toolkit


@pytest.fixture(scope="module")
def toolkit() -> Iterator[Toolkit]:
    with builtin_toolkit() as opened:
        yield opened


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize(
    ("shape", "attributes"),
    [
        ((1, 3, 3, 4), {"kernel_shape": [1, 1], "strides": [1, 2]}),
        ((1, 3, 7), {"kernel_shape": [2], "strides": [3], "pads": [1, 1]}),
        ((1, 3, 4, 4, 4), {"kernel_shape": [2, 2, 2], "strides": [3, 3, 3], "pads": [1] * 6}),
        ((1, 3, 4, 5), {"kernel_shape": [2, 2], "strides": [3, 3], "pads": [1] * 4}),
    ],
)
@pytest.mark.parametrize("options", [{}, {"dynamic": True}])
def test_windows_that_would_begin_behind_the_data(
    toolkit: Toolkit, op: str, shape: tuple[int, ...], attributes: dict[str, Any], options: dict[str, Any]
) -> None:
    """In ceil_mode; what is behind them has its shapes from theirs."""
    rank = len(shape) - 2
    weights = np.random.default_rng(0).standard_normal((5, 3, *[1] * rank)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node(op, ["c"], ["p"], ceil_mode=1, **attributes),
        helper.make_node("Sigmoid", ["p"], ["s"]),
        helper.make_node("Add", ["p", "s"], ["y"]),
    ]
    x = {"x": np.random.default_rng(1).standard_normal(shape).astype(np.float32)}
    graph = equals_onnxruntime(toolkit, make_model(nodes, {"x": shape}, ["y"], {"w": weights}), x, **options)
    assert all(node.cpu is None for node in graph.nodes)
