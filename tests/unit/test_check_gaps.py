"""What nothing has written of the host's buffers when a kernel has returned."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware_sim import chip
from firmware_sim.checks.finding import Frame, Issued
from firmware_sim.checks.gaps import Gaps
from firmware_sim.checks.objects import BOTH, Objects
from firmware_sim.checks.records import READS, WRITES, Record, Runs, numbers_of
from firmware_sim.checks.sequence import Sequence
from firmware_sim.checks.shadow import Shadow
from firmware_sim.checks.stored import Stored
from firmware_sim.isa.footprint import Space

START = 0x5100000
FUNCTION = (Frame("k.c", 3, "kernel"),)


def commands(*blocks: Runs) -> Sequence:
    """GDMA commands of one block each."""
    numbers = [numbers_of([block]) for block in blocks]
    records = tuple(
        Record("copy", (), (block,), one, int(one.ctypes.data))
        for block, one in zip(blocks, numbers, strict=True)
    )
    n = np.arange(len(records), dtype=np.int64)
    addresses = np.array([record.address for record in records], np.int64)
    return Sequence(records, np.ones_like(n), n, n + 1, np.zeros_like(n), addresses, (n[:0], n))


def wrote(start: int, nbytes: int, access: int = WRITES) -> Runs:
    return Runs(0, access, Space.DDR, 0, start, nbytes)


class Kernels:
    """A buffer of 300 bytes named y, and launches that write some of it."""

    def __init__(self) -> None:
        self.shadow, self.objects = Shadow(), Objects()
        self.gaps = Gaps(self.objects, self.shadow)
        self.allocate(300)

    def allocate(self, nbytes: int) -> None:
        self.objects.apply([[chip.DDR_BASE + START, nbytes, BOTH, "y"]], anew=True)
        self.shadow.clear_range(START, nbytes)

    def launch(self, *blocks: Runs, doubtful: tuple[Stored, ...] = ()) -> list[Stored]:
        self.gaps.begin()
        sequence = commands(*blocks)
        self.gaps.commands(sequence, lambda k: Issued("GDMA", k + 1, "copy"))
        self.shadow.plainly(sequence.records, 0)
        return self.gaps.end(lambda: FUNCTION, list(doubtful))


def text(left: list[Stored]) -> list[tuple[int, int]]:
    return [(low - START, high - low) for one in left for low, high in one.ranges.tolist()]


def test_a_buffer_that_is_never_written_names_the_kernel() -> None:
    left = Kernels().launch()
    assert text(left) == [(0, 300)]
    finding = left[0].finding
    assert finding.what == "y is never written, and the host reads it"
    assert finding.by is not None and finding.by.frames == FUNCTION


def test_what_the_host_wrote_meanwhile_is_not_left_out() -> None:
    """Also by a launch that does not touch the buffer, for which nothing is looked at again."""
    kernels = Kernels()
    assert text(kernels.launch(wrote(START, 24))) == [(24, 276)]
    kernels.shadow.write(Space.DDR, START, 48)
    kernels.gaps.wrote(START, 48)
    assert text(kernels.launch()) == [(48, 252)]
    kernels.gaps.wrote(START, 300)
    assert text(kernels.launch()) == []


def test_what_is_left_names_the_newest_command_that_writes_the_buffer() -> None:
    kernels = Kernels()
    left = kernels.launch(wrote(START, 100), wrote(START + 120, 80), wrote(START, 300, READS))
    assert text(left) == [(100, 20), (200, 100)]
    assert left[0].finding.by == Issued("GDMA", 2, "copy")
    assert left[0].finding.nbytes == 120
    assert text(kernels.launch(wrote(START + 100, 20))) == [(200, 100)]
    assert text(kernels.launch(wrote(START + 200, 100))) == []
    assert kernels.gaps.left() == []


def test_memory_that_is_handed_out_anew_is_unwritten_again() -> None:
    kernels = Kernels()
    assert kernels.launch(wrote(START, 300)) == []
    kernels.allocate(300)
    assert text(kernels.launch()) == [(0, 300)]
    kernels.objects.apply([[chip.DDR_BASE + START, 0, 0, ""]], anew=False)
    assert kernels.gaps.left() == []


def test_what_depends_on_unwritten_memory_is_another_finding() -> None:
    kernels = Kernels()
    doubtful = Stored(np.array([[START + 50, START + 150]]), Kernels().launch()[0].finding)
    assert text(kernels.launch(wrote(START + 200, 100), doubtful=(doubtful,))) == [(0, 50), (150, 50)]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 9000), st.integers(1, 5000)), max_size=6),
    st.integers(0, 9000),
    st.integers(1, 9000),
)
def test_unwritten_ranges_are_those_of_single_bytes(
    writes: list[tuple[int, int]], start: int, nbytes: int
) -> None:
    shadow = Shadow()
    for at, size in writes:
        shadow.write(Space.DDR, START + at, size)
    places = np.arange(START + start, START + start + nbytes)
    unwritten = places[~shadow.written_plainly(Space.DDR, places)]
    ranges = shadow.unwritten(START + start, nbytes)
    found = [np.arange(*one) for one in ranges.tolist()]
    assert np.array_equal(np.concatenate([places[:0], *found]), unwritten)
    assert all(a[-1] + 1 < b[0] for a, b in itertools.pairwise(found))
    for most in (1, 2, 100):
        few = shadow.unwritten(START + start, nbytes, most)
        assert np.array_equal(few, shadow.unwritten_plainly(START + start, nbytes, most))
        assert len(few) == min(most, len(ranges)) and np.array_equal(few[: most - 1], ranges[: most - 1])
        assert not len(ranges) or few[-1, 1] == ranges[-1, 1]
