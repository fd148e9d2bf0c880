"""The smallest sample that still shows a failure: one thing made simpler after the other.

What is tried next depends on nothing but the sample and what was found, so the same failure ends at the same
sample everywhere.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from user_layers.verify.sample import Fractions, Sample
from user_layers.verify.verdict import Failure

MOST_RUNS = 400
"""Samples that are tried at most for one failure."""

MOST_SECONDS = 300.0
"""And for how long at most: kernels that hang take their limit of time in each."""

Shows = Callable[[Sample], Failure | None]
"""Tries a sample: the same failure, if it shows."""


@dataclass
class Smallest:
    """sample, failure: the simplest so far; runs: how many were tried. ended: nothing simpler shows it."""

    sample: Sample
    failure: Failure
    runs: int = 0
    ended: bool = False


def smallest(
    sample: Sample,
    failure: Failure,
    shows: Shows,
    most: int = MOST_RUNS,
    clock: Callable[[], float] = time.monotonic,
) -> Smallest:
    """Make it simpler until nothing changes any more, `most` samples were tried, or MOST_SECONDS are over."""
    best = Smallest(sample, failure)
    end = clock() + MOST_SECONDS

    def left() -> bool:
        return best.runs < most and clock() < end

    def better(candidate: Sample) -> bool:
        if candidate == best.sample or not left():
            return False
        best.runs += 1
        found = shows(candidate)
        if found is None:
            return False
        best.sample, best.failure = candidate, found
        return True

    while left():
        before = best.sample
        better(replace(before, around=False))
        _cuts(best, better)
        _extents(best, better)
        _params(best, better)
        for values in ("ones", "ramp", "drawn"):
            if best.sample.values == values or better(replace(best.sample, values=values)):
                break
        if best.sample == before:
            best.ended = left()
            break
    return best


def _cuts(best: Smallest, better: Callable[[Sample], bool]) -> None:
    """No cut; none along an axis; one cut less; a cut in the middle."""
    better(replace(best.sample, cuts=((), (), ())))
    for axis in range(3):
        better(replace(best.sample, cuts=_with(best.sample.cuts, axis, ())))
        for cut in best.sample.cuts[axis]:
            rest = tuple(x for x in best.sample.cuts[axis] if x != cut)
            better(replace(best.sample, cuts=_with(best.sample.cuts, axis, rest)))
        if len(best.sample.cuts[axis]) == 1 and best.sample.cuts[axis] != (0.5,):
            better(replace(best.sample, cuts=_with(best.sample.cuts, axis, (0.5,))))


def _with(cuts: Fractions, axis: int, places: tuple[float, ...]) -> Fractions:
    n, h, w = (places if i == axis else one for i, one in enumerate(cuts))
    return n, h, w


def _extents(best: Smallest, better: Callable[[Sample], bool]) -> None:
    """Smaller extents: those that are equal together, then each by itself."""
    for places in _together(best.sample):
        shapes = best.sample.shapes
        extent = shapes[places[0][0]][places[0][1]]
        if any(shapes[i][axis] != extent for i, axis in places):
            continue  # an earlier step has changed some of them
        _least(extent, lambda n, places=places: better(_resized(best.sample, places, n)))  # type: ignore[misc]


def _together(sample: Sample) -> list[list[tuple[int, int]]]:
    """Input and axis of extents that are changed together: equal ones, equal ones of an axis, single ones."""
    every = [(i, axis) for i, shape in enumerate(sample.shapes) for axis in range(len(shape))]
    found: list[list[tuple[int, int]]] = []
    for key in (
        lambda i, axis: sample.shapes[i][axis],
        lambda i, axis: (axis, sample.shapes[i][axis]),
        lambda i, axis: (i, axis),
    ):
        groups: dict[object, list[tuple[int, int]]] = {}
        for place in every:
            groups.setdefault(key(*place), []).append(place)
        found += [group for group in groups.values() if group not in found]
    return [group for group in found if sample.shapes[group[0][0]][group[0][1]] > 1]


def _least(value: int, works: Callable[[int], bool]) -> int:
    """The least positive number that works, from one that does: 1, or by halving what lies between, as if
    all above a number that works did; then two less as long as that works."""
    if value <= 1 or works(1):
        return 1
    low, high = 1, value
    while high - low > 1:
        middle = (low + high) // 2
        if works(middle):
            high = middle
        else:
            low = middle
    while high > 2 and works(high - 2):  # only odd or only even ones may show it
        high -= 2
    return high


def _resized(sample: Sample, places: list[tuple[int, int]], extent: int) -> Sample:
    shapes = [list(shape) for shape in sample.shapes]
    for i, axis in places:
        shapes[i][axis] = extent
    return replace(sample, shapes=tuple(tuple(shape) for shape in shapes))


def _params(best: Smallest, better: Callable[[Sample], bool]) -> None:
    """Each number of the parameters: 0, 1, half of it; lists: shorter, then their elements."""
    for path in list(_leaves(best.sample.param)):
        value = _at(best.sample.param, path)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value in (0, 1):
            simpler = [0] if value is True or value == 1 else []
        else:
            simpler = [0, 1, int(value / 2), int(value) - (1 if value > 0 else -1)]
        for one in simpler:
            if one != value and better(replace(best.sample, param=_set(best.sample.param, path, one))):
                break


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _leaves(one, (*path, key))
    elif isinstance(value, (list, tuple)):
        for i, one in enumerate(value):
            yield from _leaves(one, (*path, i))
    else:
        yield path


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def _set(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    if isinstance(value, dict):
        return {k: _set(one, path[1:], new) if k == path[0] else one for k, one in value.items()}
    return [_set(one, path[1:], new) if i == path[0] else one for i, one in enumerate(value)]
