"""Which bytes are written: the compiled loop against sets of bytes, and ranges against single bytes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_sim import chip
from firmware_sim.checks.records import READS, WRITES, Record, Runs, numbers_of
from firmware_sim.checks.sequence import Sequence
from firmware_sim.checks.shadow import PAGE, Shadow
from firmware_sim.instructions.loops import native
from firmware_sim.isa.footprint import Access, Space, Tensor
from tests.support.examples import examples

DDR_BYTES = 1 << 20
NUMBERS = np.zeros(0, np.int64)
SPACES = st.sampled_from(list(Space))


@st.composite
def blocks(draw: st.DrawFn) -> Runs:
    space = draw(SPACES)
    local = space is Space.LOCAL
    lanes = draw(st.sampled_from([1, 1 << 63, 3 << 20])) if local else 0
    start = draw(st.sampled_from([0, 100, 128, 4000, 4096, 8100])) + draw(st.integers(0, 5))
    run = draw(st.sampled_from([1, 4, 27, 128, 256, 300] if local else [1, 4, 27, 64, 300, 4096, 4500]))
    dims = tuple(
        (draw(st.integers(2, 3)), run + draw(st.integers(1, 200))) for _ in range(draw(st.integers(0, 1)))
    )
    return Runs(0, draw(st.sampled_from([READS, WRITES, WRITES, 3])), space, lanes, start, run, dims)


def sequence_of(records: list[list[Runs]]) -> Sequence:
    made = []
    for one in records:
        numbers = numbers_of(one)
        made.append(Record("a command", (), tuple(one), numbers, int(numbers.ctypes.data)))
    addresses = np.array([record.address for record in made], np.int64)
    return Sequence(tuple(made), NUMBERS, NUMBERS, NUMBERS, NUMBERS, addresses, (NUMBERS, NUMBERS))


@dataclass
class Plain:
    """Sets of bytes."""

    written: set[tuple[Space, int]]

    def first_unwritten(self, records: list[list[Runs]], first: int) -> int:
        def places(block: Runs) -> set[tuple[Space, int]]:
            lanes = [lane for lane in range(chip.NPU_NUM) if block.lanes >> lane & 1] or [0]
            at = [s + i for s in block.starts().tolist() for i in range(block.run)]
            return {(block.space, lane * chip.LOCAL_BYTES + x) for lane in lanes for x in at}

        for k in range(first, len(records)):
            if any(b.access & READS and not places(b) <= self.written for b in records[k]):
                return k
            for block in records[k]:
                if block.access & WRITES:
                    self.written |= places(block)
        return len(records)


@pytest.mark.skipif(not native.ready(), reason="no compiled loops here")
@given(st.lists(st.lists(blocks(), min_size=1, max_size=2), max_size=5))
def test_the_loop_equals_sets_of_bytes(records: list[list[Runs]]) -> None:
    sequence = sequence_of(records)
    fast, slow, plain = Shadow(DDR_BYTES), Shadow(DDR_BYTES), Plain(set())
    k = 0
    while k < len(records):
        found = fast.first_unwritten(sequence, k, len(records), np.zeros((len(records), 4), np.int64))
        assert found == plain.first_unwritten(records, k) == slow.plainly(sequence.records, k)
        k = found + 1
    for space, at in sorted(plain.written)[::97]:
        assert fast.is_written(space, at, 1) and slow.is_written(space, at, 1)
    for one in records:
        for block in one:
            some = np.unique(block.places())[::7]
            want = [(block.space, x) in plain.written for x in some.tolist()]
            assert fast.written(block.space, some).tolist() == want
            assert slow.written_plainly(block.space, some).tolist() == want


@given(SPACES, st.integers(0, 9000), st.integers(1, 9000), st.integers(0, 9000), st.integers(1, 300))
def test_ranges_are_written_and_cleared(space: Space, start: int, size: int, hole: int, bytes_: int) -> None:
    shadow = Shadow(DDR_BYTES)
    shadow.write(space, start, size)
    holes = np.arange(hole, hole + bytes_)
    shadow.clear(space, holes)
    at = np.arange(0, 20_000)
    want = (at >= start) & (at < start + size) & ~np.isin(at, holes)
    assert np.array_equal(shadow.written(space, at), want)
    shadow.mark(space, holes)
    assert np.array_equal(shadow.written(space, at), want | np.isin(at, holes))


@given(SPACES, st.lists(st.tuples(st.booleans(), st.integers(0, 9000), st.integers(1, 5000)), max_size=5))
def test_marking_equals_its_reference(space: Space, steps: list[tuple[bool, int, int]]) -> None:
    fast, slow = Shadow(DDR_BYTES), Shadow(DDR_BYTES)
    fast.write(space, 0, 4096)
    slow.write(space, 0, 4096)
    for written, start, size in steps:
        at = np.arange(start, start + size, 3)
        (fast.mark if written else fast.clear)(space, at)
        slow.note_plainly(space, at, written=written)
    everything = np.arange(0, 16_000)
    assert np.array_equal(fast.written(space, everything), slow.written_plainly(space, everything))


@st.composite
def tensors(draw: st.DrawFn) -> Tensor:
    space, item = draw(SPACES), draw(st.sampled_from([1, 2, 4, 8]))
    lane = draw(st.sampled_from([0, 1, 63])) if space is Space.LOCAL else 0
    first = draw(st.sampled_from([0, 96, 128, 4064, 4096])) + draw(st.sampled_from([0, item, 3]))
    h, w = draw(st.integers(1, 3)), draw(st.sampled_from([1, 5, 33, 70]))
    column = draw(st.sampled_from([1, 1, 1, 2, 0]))
    rows = draw(st.sampled_from([w, w + 3, 0]))
    shape = draw(st.integers(1, 3)), draw(st.sampled_from([1, 3, 66])), h, w
    strides = draw(st.sampled_from([0, 700, 999])), draw(st.sampled_from([0, 230, 256])), rows, column
    return Tensor("opd0", Access.READ, space, lane * chip.LOCAL_BYTES + first, shape, strides, item)


@pytest.mark.skipif(not native.ready(), reason="no compiled loops here")
@given(tensors(), st.data())
@examples(60)
def test_what_an_operand_lacks_is_found_by_the_loop_and_plainly(tensor: Tensor, data: st.DataObject) -> None:
    places = tensor.indices() * tensor.itemsize
    everything = np.unique(places.reshape(-1, 1) + np.arange(tensor.itemsize))
    shadow = Shadow(1 << 24)
    rng = np.random.default_rng(data.draw(st.integers(0, 3)))
    holes = data.draw(st.sampled_from([0, 1, 5, len(everything)]))
    shadow.mark(tensor.space, everything)
    if data.draw(st.booleans()):  # whole lines and pages
        wide = np.unique(everything // PAGE) * PAGE
        shadow.mark(tensor.space, np.unique(wide.reshape(-1, 1) + np.arange(PAGE)))
    shadow.clear(tensor.space, rng.choice(everything, min(holes, len(everything)), replace=False))
    parts = data.draw(st.sampled_from([1, tensor.itemsize]))
    unused = data.draw(st.sampled_from([0, tensor.itemsize // 2]))
    got, want = shadow.lacking(tensor, parts, unused), shadow.lacking_plainly(tensor, parts, unused, places)
    assert (got is None) == (want is None)
    if got is not None and want is not None:
        assert np.array_equal(got.marks, want.marks)
        assert (got.at, got.nbytes, got.lanes) == (want.at, want.nbytes, want.lanes)


def test_requests_begin_with_empty_local_memory_and_the_tables() -> None:
    shadow = Shadow(DDR_BYTES)
    tables = range(chip.L2_TABLE_OFFSET + 0x400, chip.L2_TABLE_OFFSET + 0x404)
    for space in Space:
        shadow.write(space, 5000, 300)
    shadow.host_l2(9000, 4)
    shadow.restart()
    assert not shadow.is_written(Space.LOCAL, 5000, 1) and not shadow.is_written(Space.L2, 5000, 1)
    assert shadow.is_written(Space.DDR, 5000, 300) and shadow.is_written(Space.L2, 9000, 4)
    assert shadow.is_written(Space.L2, tables.start, len(tables))


def test_memory_handed_out_again_is_unwritten() -> None:
    shadow = Shadow(DDR_BYTES)
    shadow.write(Space.DDR, 0, 10 * PAGE)
    shadow.clear_range(PAGE - 10, 3 * PAGE)
    at = np.arange(0, 6 * PAGE)
    want = (at < PAGE - 10) | (at >= 4 * PAGE - 10)
    assert np.array_equal(shadow.written(Space.DDR, at), want)
    shadow.forget()
    assert shadow.written(Space.DDR, at).all()
