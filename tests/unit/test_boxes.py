"""Rows that are moved, as boxes of them: every row written once, from where it shall come."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from user_layers.onnx.boxes import boxes_of
from user_layers.onnx.row_maps import FILLED

Array = Any


def written(boxes: Array, rows: int) -> Array:
    """What comes of boxes; each row is written once."""
    made = np.full(rows, -9)
    for to, source, *rest in boxes.tolist():
        extents, steps, from_steps = rest[:4], rest[4:8], rest[8:]
        for at in np.ndindex(*extents):
            row = to + int(np.dot(at, steps))
            assert made[row] == -9
            made[row] = FILLED if source == FILLED else source + int(np.dot(at, from_steps))
    return made


def windows(x: Array, size: int) -> Array:
    h, w = x.shape
    return x.reshape(h // size, size, w // size, size).swapaxes(1, 2).reshape(-1)


PICTURE = np.arange(28 * 28).reshape(28, 28)
# What is moved, and how many boxes that may be.
ROLLED = np.roll(PICTURE, (-3, -3), (0, 1))
AGAIN = np.argsort(windows(PICTURE, 7))[windows(np.roll(PICTURE, (3, 3), (0, 1)), 7)]
MOVED: dict[str, tuple[Array, int]] = {
    "as it is": (PICTURE.reshape(-1), 1),
    "windows": (windows(PICTURE, 7), 1),
    "back from windows": (np.argsort(windows(PICTURE, 7)), 1),
    "rolled": (ROLLED.reshape(-1), 9),
    "rolled windows": (windows(ROLLED, 7), 9),
    "windows of rolled windows": (AGAIN, 16),
    "four pixels as one": (PICTURE.reshape(14, 2, 14, 2).transpose(0, 2, 3, 1).reshape(-1), 1),
    "windows with zeros": (windows(np.pad(PICTURE, ((0, 4), (0, 4)), constant_values=FILLED), 8), 8),
    "a part": (PICTURE[3:20, 5:9].reshape(-1), 1),
    "one row often": (np.zeros(12, int), 1),
    "zeros": (np.full(7, FILLED), 1),
    "one": (np.zeros(1, int), 1),
}


@pytest.mark.parametrize("name", MOVED)
def test_few_boxes(name: str) -> None:
    index, most = MOVED[name]
    boxes = boxes_of(index.astype(np.int32), most)
    assert boxes is not None
    np.testing.assert_array_equal(written(boxes, len(index)), index)


def test_too_many() -> None:
    index = np.random.default_rng(1).permutation(1000).astype(np.int32)
    assert boxes_of(index, 64) is None


@examples(200)
@given(data=st.data())
def test_any_rows(data: st.DataObject) -> None:
    """Parts of pictures and zeros, moved about, and any rows at all."""
    shape = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    index = np.arange(int(np.prod(shape))).reshape(shape)
    for _ in range(data.draw(st.integers(0, 4))):
        axis = data.draw(st.integers(0, len(shape) - 1))
        step = data.draw(st.sampled_from(["roll", "turn", "cut", "pad", "repeat"]))
        if step == "roll":
            index = np.roll(index, data.draw(st.integers(-3, 3)), axis)
        elif step == "turn":
            index = index.transpose(data.draw(st.permutations(range(index.ndim))))
        elif step == "cut":
            index = index.take(range(data.draw(st.integers(1, index.shape[axis]))), axis)
        elif step == "pad":
            ends = [(0, 0)] * index.ndim
            ends[axis] = (data.draw(st.integers(0, 2)), 1)
            index = np.pad(index, ends, constant_values=FILLED)
        else:
            index = np.concatenate([index, index], axis)
    flat = index.reshape(-1).astype(np.int32)
    boxes = boxes_of(flat, len(flat))
    assert boxes is not None
    np.testing.assert_array_equal(written(boxes, len(flat)), flat)
