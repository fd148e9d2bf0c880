"""Products of one row with several constant matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.support.onnx_models import build_graph, equals_onnxruntime, make_model
from user_layers.onnx.load import from_proto
from user_layers.toolkit import Toolkit


def product(left: list[int], right: list[int]) -> Any:
    constants = {"w": np.random.default_rng(3).standard_normal(right).astype(np.float32)}
    return make_model([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": left}, ["y"], constants)


@pytest.mark.parametrize(
    ("left", "right", "columns"),
    [
        ([1, 18, 1, 1, 8], [1, 18, 10, 8, 16], (1, 18, 8, 160)),  # a capsule's, for ten classes
        ([3, 1, 1, 1, 70], [4, 5, 70, 33], (1, 70, 660)),
        ([1, 20], [4, 20, 9], (20, 36)),
        ([2, 6, 1, 1, 20], [6, 4, 20, 9], (1, 6, 20, 36)),
        ([6, 1, 2, 20], [6, 4, 20, 9], (6, 4, 20, 9)),  # two rows would lie apart
        ([6, 4, 1, 20], [6, 4, 20, 9], (6, 4, 20, 9)),  # each matrix has a row of its own
    ],
)
def test_the_columns_of_all_are_those_of_one(
    toolkit: Toolkit, left: list[int], right: list[int], columns: tuple[int, ...]
) -> None:
    proto = product(left, right)
    graph, _ = build_graph(from_proto(proto), toolkit=toolkit)
    (made,) = (one for one in graph.nodes if one.op.short == "MATMUL")
    assert graph.tensors[made.inputs[1]].shape == columns
    equals_onnxruntime(
        toolkit, proto, {"x": np.random.default_rng(4).standard_normal(left).astype(np.float32)}
    )
