"""Legal orders of both engines are those that a list scheduler finds; what depends on them is shown."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_sim.batch import Batch
from firmware_sim.checks import schedule
from firmware_sim.checks.schedule import Difference, Proof, bounds, orders, prove, segments_of
from firmware_sim.checks.sequence import Records
from firmware_sim.errors import DeviceError
from firmware_sim.instructions.instruction import Engine
from firmware_sim.isa.codes import Task
from firmware_sim.isa.footprint import Space
from firmware_sim.isa.layout import BD
from firmware_sim.memory import Memory
from firmware_sim.queues import Segment
from firmware_sim.tpu import Tpu
from tests.support.examples import examples
from tests.support.word_commands import NONE, TWO, add, fill, store, stream

Waits = list[int]


def batch_of(bd: Waits, gdma: Waits, first: tuple[int, int] = (0, 0)) -> Batch:
    """Only waits: those of a batch behind first[0] BD and first[1] GDMA commands."""
    waits = {
        Engine.BD: np.maximum.accumulate(np.array([w + first[1] for w in bd] or [0], np.int64))[: len(bd)],
        Engine.GDMA: np.maximum.accumulate(np.array([w + first[0] for w in gdma] or [0], np.int64))[
            : len(gdma)
        ],
    }
    return Batch({}, {}, waits, {Engine.BD: first[0], Engine.GDMA: first[1]}, [])


def scheduled(bd: Waits, gdma: Waits) -> set[str]:
    """Every order in which both queues can be worked off, as letters: the obvious way."""
    found: set[str] = set()

    def step(done: str, b: int, g: int) -> None:
        if b == len(bd) and g == len(gdma):
            found.add(done)
        if b < len(bd) and bd[b] <= g:
            step(done + "B", b + 1, g)
        if g < len(gdma) and gdma[g] <= b:
            step(done + "G", b, g + 1)

    step("", 0, 0)
    return found


def letters(segments: tuple[Segment, ...]) -> str:
    """The same of segments, which have to take each engine's commands in order."""
    done = {Engine.BD: 0, Engine.GDMA: 0}
    text = ""
    for engine, first, last in segments:
        assert done[engine] == first < last
        done[engine] = last
        text += engine.value[0] * (last - first)
    return text


def rising(least: list[int], most: list[int], start: int = 0) -> list[list[int]]:
    if not least:
        return [[]]
    firsts = range(max(start, least[0]), most[0] + 1)
    return [[k, *rest] for k in firsts for rest in rising(least[1:], most[1:], k)]


QUEUES = st.tuples(st.lists(st.integers(0, 4), max_size=4), st.lists(st.integers(0, 4), max_size=4))


@examples(300)
@given(QUEUES, st.tuples(st.integers(0, 9), st.integers(0, 9)))
def test_rising_sequences_between_the_bounds_are_all_legal_orders(
    queues: tuple[Waits, Waits], first: tuple[int, int]
) -> None:
    bd, gdma = queues
    legal = scheduled(bd, gdma)
    if not legal:
        return  # engines that wait for one another: execution says so
    batch = batch_of(bd, gdma, first)
    least, most = bounds(batch)
    found = {
        letters(segments_of(np.array(b, np.int64), len(bd))) for b in rising(least.tolist(), most.tolist())
    }
    assert found == legal
    tried = {letters(order.segments) for order in orders(batch, 6)}
    assert tried <= legal
    assert bool(tried) == (len(legal) > 1)


def test_every_pair_without_an_order_changes_places_in_one_of_two() -> None:
    batch = batch_of([0, 1, 1, 2], [0, 1, 1])
    _, most = bounds(batch)
    usual, first = letters(segments_of(most, 4)), letters(next(orders(batch)).segments)
    assert usual == "BGBBGBG"
    assert first == "GBGGBBB"


def test_random_orders_differ_and_come_again() -> None:
    batch = batch_of([0] * 40, [0] * 40)
    tried = [letters(order.segments) for order in orders(batch, 8)]
    assert len(set(tried)) == 9
    assert tried == [letters(order.segments) for order in orders(batch, 8)]
    turns = [sum(a != b for a, b in pairwise(order)) for order in tried]
    assert max(turns) > 8


# ---- proofs ----


class Prover:
    """Proves every batch; keeps what memory held before and after proving."""

    def __init__(self, tpu: Tpu) -> None:
        self.tpu, self.proofs = tpu, list[Proof]()
        self._records = Records()
        tpu.watcher = self

    def before(self, batch: Batch) -> None:
        memory = self.tpu.memory
        old = memory.local.copy(), memory.ddr.copy(), memory.l2.copy()
        self.proofs.append(prove(self.tpu, batch, self._records.sequence(batch)))
        for then, now in zip(old, (memory.local, memory.ddr, memory.l2), strict=True):
            np.testing.assert_array_equal(then, now)


@pytest.fixture
def prover() -> Prover:
    return Prover(Tpu(Memory.create(ddr_bytes=1 << 16)))


def test_a_race_is_shown_with_its_first_element_in_ddr(prover: Prover) -> None:
    """BD 1 reads what GDMA 1 fills, without waiting for it; its result is stored."""
    bd = stream(add(1, 0, 0x100, 0))
    gdma = stream(fill(1, 0, 0, TWO), store(2, 1, 0x100, 0x40))
    prover.tpu.execute(bd, gdma)
    [proof] = prover.proofs
    assert proof.difference == Difference(
        "GDMA first", Space.DDR, 0x40, "0x3f800000 (1)", "0x40400000 (3)", nbytes=2
    )
    assert proof.text("output[0]") == (
        "in another legal order, GDMA first, output[0] at ddr +0x40 ends as 0x40400000 (3) instead of "
        "0x3f800000 (1); 2 bytes of DDR differ"
    )
    # the usual order's result is left by the execution itself
    assert prover.tpu.memory.ddr[0x40:0x44].view(np.float32)[0] == 1


def test_local_memory_is_told_where_nothing_else_differs(prover: Prover) -> None:
    prover.tpu.execute(stream(add(1, 0, 0x100, 0)), stream(fill(1, 0, 0, TWO)))
    [proof] = prover.proofs
    assert proof.difference is not None
    assert (proof.difference.space, proof.difference.offset) == (Space.LOCAL, 0x100)
    assert "lane 0 +0x100" in proof.text()


def test_results_that_do_not_depend_on_the_order(prover: Prover) -> None:
    prover.tpu.execute(stream(add(1, 0, 0x100, 0x80)), stream(fill(1, 0, 0, TWO)))
    assert prover.proofs[0].difference is None
    assert "GDMA first" in prover.proofs[0].tried
    assert "results are the same in" in prover.proofs[0].text()


def test_batches_with_one_legal_order_are_not_tried(prover: Prover) -> None:
    prover.tpu.execute(stream(add(1, 1, 0x100, 0)), stream(fill(1, 0, 0, TWO)))
    prover.tpu.execute(stream(add(2, 1, 0x100, 0)), NONE)
    assert prover.proofs == [Proof(), Proof()]


def test_batches_that_fail_or_are_too_large_are_said(prover: Prover, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "MOST_BYTES", 4)
    bd, gdma = stream(add(1, 0, 0x100, 0)), stream(fill(1, 0, 0, TWO), store(2, 0, 0, 0, words=2))
    prover.tpu.execute(bd, gdma)
    assert "commands write among 8 bytes of DDR; at most 4 are kept" in prover.proofs[0].text()
    illegal = BD.encode(**{**BD.defaults, "tsk_typ": Task.DECOMPRESS, "cmd_id_tpu": 2, "cmd_id_gdma": 0})
    with pytest.raises(DeviceError, match="unverified"):
        prover.tpu.execute(stream(illegal), stream(fill(3, 0, 0, TWO)))
    assert "cannot be executed" in prover.proofs[1].text()
