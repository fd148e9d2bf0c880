"""Which reads of the host get what depends on memory that nothing wrote."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from firmware_sim.device.doubtful import Doubtful, Filled
from tests.support.examples import examples
from tests.support.findings_sample import RACE, UNWRITTEN

SIZE = 40
part = st.tuples(st.integers(0, SIZE - 1), st.integers(1, 8))
deeds = st.lists(st.tuples(st.sampled_from(["settle", "read"]), part), max_size=12)


@examples(200)
@given(st.lists(part, max_size=3), st.lists(part, max_size=3), deeds)
def test_beside_a_set_of_bytes(
    races: list[tuple[int, int]], unwritten: list[tuple[int, int]], then: list[tuple[str, tuple[int, int]]]
) -> None:
    doubtful = Doubtful()
    doubtful.renew([(1, RACE.to_json(), races), (1, UNWRITTEN.to_json(), unwritten)])
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
    doubtful.renew([(1, RACE.to_json(), [(100, 4)])])
    assert doubtful.read(0, 100) == doubtful.read(104, 9) == []
    assert doubtful.read(103, 1) == [RACE]
    doubtful.renew([(1, RACE.to_json(), [(100, 4)])])  # another request that did not touch it
    assert doubtful.read(100, 4) == []
    doubtful.renew([(2, RACE.to_json(), [(100, 4)])])
    assert doubtful.read(100, 4) == [RACE]
    doubtful.renew([])
    assert doubtful.read(100, 4) == []


def test_what_fills_up_the_last_words_means_nothing() -> None:
    """Five batches in 4N: of each word behind the first group one byte means something."""
    filled = Filled(64, 4, 1)
    assert [filled.covers(*one) for one in ((65, 68), (69, 70), (66, 68))] == [True] * 3
    assert [filled.covers(*one) for one in ((64, 68), (65, 69), (61, 64), (1, 4))] == [False] * 4
