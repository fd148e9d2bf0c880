"""Ranges against sets of bytes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from firmware_sim.checks.finding import Finding, Issued
from firmware_sim.checks.stored import Stored, common, united, without

I64 = npt.NDArray[np.int64]
RANGES = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 9)), max_size=8).map(
    lambda some: np.array([(at, at + size) for at, size in some], np.int64).reshape(-1, 2)
)


def places(ranges: I64) -> set[int]:
    return {at for low, high in ranges.tolist() for at in range(low, high)}


@given(RANGES, RANGES)
def test_ranges_are_sets_of_bytes(some: I64, other: I64) -> None:
    a, b = united(some), united(other)
    assert (places(a), places(b)) == (places(some), places(other))
    assert (a[1:, 0] > a[:-1, 1]).all()
    assert places(common(a, b)) == places(a) & places(b)
    assert places(without(a, b)) == places(a) - places(b)
    for found in (common(a, b), without(a, b)):
        assert (found[:, 0] < found[:, 1]).all() and (found[1:, 0] >= found[:-1, 1]).all()


@given(RANGES, st.integers(0, 60), st.integers(1, 20))
def test_what_is_stored_meets_a_range(some: I64, start: int, nbytes: int) -> None:
    stored, there = (
        Stored(united(some), Finding("init.unwritten", "x", Issued("", 0, ""))),
        set(range(start, start + nbytes)),
    )
    assert stored.overlaps(start, nbytes) == bool(places(some) & there)
    assert places(stored.outside(start, nbytes).ranges) == places(some) - there
    if len(some):
        assert stored.reach() == (min(places(some)), max(places(some)) + 1)
