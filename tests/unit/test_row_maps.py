"""Rows that nodes move: as numpy moves their numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.support.onnx_models import make_model
from user_layers.onnx.load import load_model
from user_layers.onnx.row_maps import FILLED, moved_rows

Array = Any


def node(op: str, inputs: str, output: str, **attributes: Any) -> Any:
    return helper.make_node(op, inputs.split(), output.split(), **attributes)


CONSTANTS: dict[str, Array] = {
    "five": np.array([2, 3, 2, 4, 6]),
    "flat": np.array([-1, 6]),
    "wide": np.array([2, 6, 24]),
    "half": np.array([2, 6, 4, 2, 3]),
    "one": np.array([1]),
    "two": np.array([2]),
    "three": np.array([3]),
    "last": np.array([-1]),
    "end": np.array([99]),
    "most": np.array([2**63 - 1]),
    "zero": np.array([0]),
    "six": np.array([6]),
    "places": np.array([[3, 0], [-1, 0]]),
    "around": np.array([0, 1, 0, 0, 0, 0, 2, 0]),
    "columns": np.array([0, 0, 0, 1, 0, 0, 0, 0]),
    "nothing": np.float32(0),
    "much": np.float32(3),
}
SHAPE = (2, 6, 4, 6)


def rows(shape: tuple[int, ...] = SHAPE) -> Array:
    return np.arange(int(np.prod(shape[:-1]))).reshape(*shape[:-1], 1)


WIDE = node("Reshape", "x wide", "a")
# The nodes that make y of x [2, 6, 4, 6], and which rows these are; None where rows are taken apart.
MOVES: dict[str, tuple[list[Any], Callable[[Array], Array] | None, int]] = {
    "reshaped": ([node("Reshape", "x five", "y")], lambda r: r.reshape(2, 3, 2, 4, 1), 0),
    "windows": (
        [node("Reshape", "x five", "a"), node("Transpose", "a", "y", perm=[0, 2, 1, 3, 4])],
        lambda r: r.reshape(2, 3, 2, 4, 1).swapaxes(1, 2), 1,
    ),
    "rolled": (
        [node("Slice", "x one most one", "a"), node("Slice", "x zero one one", "b"),
         node("Concat", "a b", "y", axis=1)],
        lambda r: np.roll(r, -1, 1), 2,
    ),
    "behind one another": (
        [node("Slice", "x zero end two two", "a"), node("Slice", "x one end two two", "b"),
         node("Concat", "a b", "y", axis=-1)],
        lambda r: np.concatenate([r[:, :, ::2], r[:, :, 1::2]], -1), 2,
    ),
    "parts": (
        [node("Split", "x", "a b", axis=2), node("Concat", "b a", "y", axis=2)],
        lambda r: np.concatenate([r[:, :, 2:], r[:, :, :2]], 2), 2,
    ),
    "chosen": ([node("Gather", "x places", "y", axis=1)], lambda r: r[:, [[3, 0], [-1, 0]]], 1),
    "zeros around": (
        [node("Pad", "x around nothing", "y")],
        lambda r: np.pad(r, ((0, 0), (1, 0), (0, 2), (0, 0)), constant_values=FILLED), 1,
    ),
    "of wider rows": ([WIDE, node("Slice", "a six end last", "y")], lambda r: r.reshape(2, 6, 4)[..., 1:], 1),
    "other numbers around": ([node("Pad", "x around much", "y")], None, 0),
    "columns around": ([node("Pad", "x columns nothing", "y")], None, 0),
    "columns turned": ([node("Transpose", "x", "y", perm=[0, 1, 3, 2])], None, 0),
    "narrower rows": ([node("Reshape", "x half", "y")], None, 0),
    "cut out of rows": ([WIDE, node("Slice", "a three end last", "y")], None, 0),
    "backwards": ([node("Slice", "x last zero one last", "y")], None, 0),
    "chosen columns": ([node("Gather", "x places", "y", axis=-1)], None, 0),
    "of two": ([node("Relu", "x", "a"), node("Concat", "a x", "y", axis=1)], None, 0),
    "with itself": ([node("Concat", "x x", "y", axis=0)], lambda r: np.concatenate([r, r]), 1),
}  # fmt: skip


def test_old_slices_are_no_rows() -> None:
    """Before opset 10 what they cut is in attributes."""
    cut = helper.make_node("Slice", ["x"], ["y"], axes=[1], starts=[0], ends=[2])
    assert "y" not in moved_rows(load_model(make_model([cut], {"x": SHAPE}, ["y"], {}, opset=9)))


@pytest.mark.parametrize("name", MOVES)
def test_rows(name: str) -> None:
    nodes, want, moves = MOVES[name]
    used = {one for each in nodes for one in each.input}
    model = load_model(
        make_model(nodes, {"x": SHAPE}, ["y"], {n: v for n, v in CONSTANTS.items() if n in used}, opset=17)
    )
    found = moved_rows(model).get("y")
    if want is None:
        assert found is None
        return
    assert found is not None
    assert (found.source, found.moves) == ("x", moves)
    np.testing.assert_array_equal(found.index, want(rows()))
