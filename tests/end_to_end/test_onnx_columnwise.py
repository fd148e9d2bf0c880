"""Attention between pixels, whose channels come first: one layer, and the same values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from tests.support.examples import examples
from tests.support.onnx_models import equals_onnxruntime, make_model
from user_layers.onnx.columnwise import weights_first
from user_layers.onnx.load import load_model
from user_layers.toolkit import Toolkit


def node(op: str, inputs: str, output: str, **attributes: Any) -> Any:
    return helper.make_node(op, inputs.split(), output.split(), **attributes)


def swapped(rank: int) -> list[int]:
    return [*range(rank - 2), rank - 1, rank - 2]


def between_pixels(lead: tuple[int, ...], size: int, width: int, pixels: int, keys: int) -> tuple[Any, Any]:
    """v softmax(q' k / 2)', and its inputs."""
    perm = swapped(len(lead) + 2)
    nodes = [
        node("Transpose", "q", "qt", perm=perm),
        node("MatMul", "qt k", "s"),
        node("Mul", "s half", "scaled"),
        node("Softmax", "scaled", "w", axis=-1),
        node("Transpose", "w", "wt", perm=perm),
        node("MatMul", "v wt", "y"),
    ]
    shapes = {"q": (*lead, size, pixels), "k": (*lead, size, keys), "v": (*lead, width, keys)}
    rng = np.random.default_rng(pixels)
    inputs = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    return make_model(nodes, shapes, ["y"], {"half": np.float32(0.5)}), inputs


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("lead", [(1,), (2,), (1, 3)])
def test_one_layer(toolkit: Toolkit, lead: tuple[int, ...], dynamic: bool) -> None:
    model, inputs = between_pixels(lead, 8, 6, 100, 100)
    graph = equals_onnxruntime(toolkit, model, inputs, dynamic=dynamic)
    assert "ATTENTION" in {one.op.short for one in graph.nodes}


@examples(8)
@given(
    lead=st.lists(st.integers(1, 3), max_size=2),
    sizes=st.tuples(st.integers(1, 12), st.integers(1, 12)),
    pixels=st.integers(1, 40),
    keys=st.integers(1, 40),
)
def test_the_same_values(
    toolkit: Toolkit, lead: list[int], sizes: tuple[int, int], pixels: int, keys: int
) -> None:
    equals_onnxruntime(toolkit, *between_pixels(tuple(lead), *sizes, pixels, keys))


def test_weights_that_others_read_or_that_are_few_stay() -> None:
    model, _ = between_pixels((1,), 8, 6, 100, 100)
    model.graph.output.append(helper.make_tensor_value_info("w", 1, None))
    few, _ = between_pixels((1,), 8, 60, 20, 20)
    for proto in (model, few):
        loaded = load_model(proto)
        assert weights_first(loaded) is loaded
