"""Which reads of the host get what depends on memory that nothing wrote."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from firmware_sim.checks.stored import expanded, strided
from firmware_sim.device.doubtful import Doubtful, Filled
from tests.support.examples import examples
from tests.support.findings_sample import RACE, UNWRITTEN

SIZE = 40
part = st.tuples(st.integers(0, SIZE - 1), st.integers(1, 8))
deeds = st.lists(st.tuples(st.sampled_from(["settle", "read"]), part), max_size=12)


def alone(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int, int, int]]:
    """Ranges of start and bytes, each by itself."""
    return [(start, nbytes, 1, 0) for start, nbytes in ranges]


@examples(200)
@given(st.lists(part, max_size=3), st.lists(part, max_size=3), deeds)
def test_beside_a_set_of_bytes(
    races: list[tuple[int, int]], unwritten: list[tuple[int, int]], then: list[tuple[str, tuple[int, int]]]
) -> None:
    doubtful = Doubtful()
    doubtful.renew([(1, RACE.to_json(), alone(races)), (1, UNWRITTEN.to_json(), alone(unwritten))])
    left = {
        one: {at for start, n in ranges for at in range(start, start + n)}
        for one, ranges in ((RACE.rule, races), (UNWRITTEN.rule, unwritten))
    }
    told: set[str] = set()
    for deed, (start, n) in then:
        here = set(range(start, start + n))
        if deed == "settle":
            doubtful.settle(start, n)
            left = {rule: places - here for rule, places in left.items()}
        else:
            found = [one.rule for one in doubtful.read(start, n)]
            want = {rule for rule, places in left.items() if places & here} - told
            assert sorted(found) == sorted(want)
            told |= want


def test_told_once_for_each_request_that_stored_it() -> None:
    doubtful = Doubtful()
    doubtful.renew([(1, RACE.to_json(), alone([(100, 4)]))])
    assert doubtful.read(0, 100) == doubtful.read(104, 9) == []
    assert doubtful.read(103, 1) == [RACE]
    doubtful.renew([(1, RACE.to_json(), alone([(100, 4)]))])  # another request that did not touch it
    assert doubtful.read(100, 4) == []
    doubtful.renew([(2, RACE.to_json(), alone([(100, 4)]))])
    assert doubtful.read(100, 4) == [RACE]
    doubtful.renew([])
    assert doubtful.read(100, 4) == []


def test_what_fills_up_the_last_words_means_nothing() -> None:
    """Five batches in 4N: of each word behind the first group one byte means something."""
    filled = Filled(64, 4, 1)
    assert filled.covers(np.array([(65, 68), (69, 70), (66, 68)])).all()
    assert not filled.covers(np.array([(64, 68), (65, 69), (61, 64), (1, 4)])).any()


@examples(300)
@given(
    st.lists(
        st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 5), st.integers(0, 4)), max_size=6
    )
)
def test_ranges_at_equal_distances_are_put_together(runs: list[tuple[int, int, int, int]]) -> None:
    """Whatever follows whatever: they come back as they were, and a tensor's words are one."""
    ranges, at = [], 0
    for gap, nbytes, count, stride in runs:
        for _ in range(count):
            at += gap
            ranges.append((at, at + nbytes))
            at += nbytes + stride
    given_ = np.array(ranges, np.int64).reshape(-1, 2)
    assert np.array_equal(expanded(strided(given_)), given_)
    words = np.arange(1000)[:, None] * 4 + np.array([101, 104])
    assert strided(words) == [(101, 3, 1000, 4)]
