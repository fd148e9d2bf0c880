"""Rows that are moved, as few boxes of them: what TPU_REARRANGE does with a command or two for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from user_layers.onnx.model import Array
from user_layers.onnx.row_maps import FILLED

_DIMS = 4  # of a box
_AHEAD = 64  # runs that are looked at for the next dimension of a box

Run = tuple[int, int, int]
"""First row that is written, first that is read, rows; FILLED and a step of 0 for zeros."""
Step = tuple[int, int, int]
"""Of a dimension of a box: repetitions, rows from one to the next that are written, and that are read."""


def boxes_of(index: Array, most: int) -> Array | None:
    """The boxes [count, 14] that write row i from row index[i], for all i: numbers as TPU_REARRANGE takes
    them. None where they are more than `most`."""
    left = {run[0]: run for run in _runs(index)}
    order = sorted(left)
    at = {start: i for i, start in enumerate(order)}
    boxes: list[list[int]] = []
    for start in order:
        if start not in left:
            continue
        if len(boxes) == most:
            return None
        boxes.append(_box(left, order, at[start]))
    return np.array(boxes, np.int32)


def _runs(index: Array) -> Iterator[Run]:
    """Rows that are read one after the other, or are all zeros. Longer runs are cut into such as there are
    most of, where they are several: the last row of one place may lie before the first of the next one."""
    filled = index == FILLED
    goes_on = np.where(filled[1:], filled[:-1], ~filled[:-1] & (np.diff(index) == 1))
    begins = np.flatnonzero(np.append(True, ~goes_on))
    lengths = np.diff(np.append(begins, len(index)))
    usual = int(np.bincount(lengths).argmax())
    for begin, length in zip(begins.tolist(), lengths.tolist(), strict=True):
        each = usual if length % usual == 0 else length
        for start in range(begin, begin + length, each):
            yield start, int(index[start]), each


def _box(left: dict[int, Run], order: Sequence[int], first: int) -> list[int]:
    """The largest box that begins with a run, which is taken from those that are left."""
    to, source, length = left[order[first]]
    steps: list[Step] = []
    if length == 1:
        steps = [max(_steps(left, order, first, []), key=_reach, default=(1, 1, 0))]
    while len(steps) < _DIMS - (length > 1):
        step = max(_steps(left, order, first, steps), key=_reach, default=(1, 0, 0))
        if step[0] < 2:
            break
        steps.append(step)
    for extra in _places(steps):
        del left[to + extra[0]]
    dims = [step for step in steps if step[0] > 1]
    if length > 1:
        dims.append((length, 1, 0 if source == FILLED else 1))
    dims = [(1, 0, 0)] * (_DIMS - len(dims)) + dims
    return [to, source, *(n for n, _, _ in dims), *(d for _, d, _ in dims), *(s for _, _, s in dims)]


def _reach(step: Step) -> tuple[int, int]:
    """Of two that are repeated as often the nearer one: others go along two dimensions at once."""
    return step[0], -step[1]


def _places(steps: Sequence[Step]) -> list[tuple[int, int]]:
    """Where the runs of a box lie beside its first one, as written and as read."""
    found = [(0, 0)]
    for count, to, source in steps:
        found = [(a + i * to, b + i * source) for i in range(count) for a, b in found]
    return found


def _steps(left: dict[int, Run], order: Sequence[int], first: int, steps: Sequence[Step]) -> Iterator[Step]:
    """The dimensions by which a box of these could be repeated."""
    to, source, length = left[order[first]]
    inner = _places(steps)
    inside = {to + a for a, _ in inner}
    seen = 0
    for start in order[first + 1 :]:
        if start not in left or start in inside:
            continue
        _, there, long = left[start]
        if long == length and (there >= source if source != FILLED else there == FILLED):
            step = (start - to, 0 if source == FILLED else there - source)
            count = 1
            while all(
                left.get(to + count * step[0] + a)
                == (to + count * step[0] + a, _read(source, count * step[1] + b), length)
                and (to + count * step[0] + a) not in inside
                for a, b in inner
            ):
                count += 1
            if count > 1:
                yield count, *step
        seen += 1
        if seen == _AHEAD:
            return


def _read(source: int, more: int) -> int:
    return FILLED if source == FILLED else source + more
