"""Whose memory is it: named areas of DDR, L2 and local memory, and what the host has allocated.

The program that uses the device keeps its `Allocations`; what changed since its last request goes with the
next one to the device process, which holds `Objects`.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from firmware_sim import chip
from firmware_sim.checks.finding import Finding
from firmware_sim.checks.records import READS, WRITES
from firmware_sim.isa.footprint import Space, address_text
from firmware_sim.l2_tables import TABLE_BYTES

BOTH = READS | WRITES
ALL_LANES = (1 << chip.NPU_NUM) - 1
Change = list[int | str]
"""[address, bytes, rights, name]; bytes 0: it was freed."""
_PAGE = 4096  # in which the device allocates
_MOST_CHANGES = 1000  # that wait for a request with this check
_MOST_FREED = 100  # allocations that are remembered when they are gone


@dataclass(frozen=True)
class Area:
    """Bytes that belong together, [start, start + nbytes) of their memory; in local memory within each of
    `lanes`. role: "input", "output", "buffer", "allocation" and so on; number: which of them; rights: READS,
    WRITES, both or 0."""

    name: str
    role: str
    space: Space
    start: int
    nbytes: int
    rights: int = BOTH
    lanes: int = 0
    number: int = 0

    @property
    def end(self) -> int:
        """Behind the last byte."""
        return self.start + self.nbytes

    def holds(self, at: int) -> bool:
        """Whether the byte at this offset is one of its bytes."""
        return self.start <= at < self.end


LOCAL = Area("local memory", "local memory", Space.LOCAL, 0, chip.LOCAL_BYTES, BOTH, ALL_LANES)
_USER_TABLE = chip.L2_TABLE_OFFSET + TABLE_BYTES - 0x800  # where the chip's own tables end
L2_SCRATCH = Area(
    "the part of L2 for kernels", "scratch", Space.L2, chip.L2_USER_OFFSET, chip.L2_USER_BYTES, BOTH
)
L2_TABLES = Area(
    "the chip's tables in L2",
    "tables",
    Space.L2,
    chip.L2_TABLE_OFFSET,
    _USER_TABLE - chip.L2_TABLE_OFFSET,
    READS,
)
L2_LOOKUP = Area(
    "the tables for users in L2", "scratch", Space.L2, _USER_TABLE, chip.L2_BYTES - _USER_TABLE, BOTH
)
L2_FREE = Area("L2", "scratch", Space.L2, 0, chip.L2_TABLE_OFFSET, BOTH)
"""Of streams of other compilers, which may have a plan of their own for what lies below the tables."""
KERNEL_AREAS = (LOCAL, L2_SCRATCH, L2_TABLES, L2_LOOKUP)
STREAM_AREAS = (LOCAL, L2_FREE, L2_TABLES, L2_LOOKUP)


class Objects:
    """What the host has allocated in DDR, and what it has freed and nobody has got since."""

    def __init__(self) -> None:
        self._used: dict[int, Area] = {}
        self._freed: list[Area] = []
        self._sorted: tuple[Area, ...] | None = None
        self._fresh: set[int] = set()

    def take_fresh(self) -> set[int]:
        """Where something was allocated since the last call."""
        fresh, self._fresh = self._fresh, set()
        return fresh

    def apply(self, changes: Iterable[Sequence[int | str]], *, anew: bool) -> None:
        """Take what `Allocations` noted, in its order; anew: nothing else is allocated."""
        if anew:
            self._used, self._freed, self._sorted = {}, [], None
        for address, nbytes, rights, name in changes:
            start = int(address) - chip.DDR_BASE
            self._sorted = None
            if not int(nbytes):
                if (gone := self._used.pop(start, None)) is not None:
                    self._freed.append(gone)
                continue
            self._used[start] = area = Area(
                str(name), "allocation", Space.DDR, start, int(nbytes), int(rights)
            )
            self._fresh.add(start)
            self._freed = [old for old in self._freed if old.end <= start or area.end <= old.start]

    @property
    def areas(self) -> tuple[Area, ...]:
        """What is allocated, by address."""
        if self._sorted is None:
            self._sorted = tuple(self._used[start] for start in sorted(self._used))
        return self._sorted

    def at(self, offset: int) -> Area | None:
        """What is allocated at this byte of DDR."""
        areas = self.areas
        i = bisect.bisect_right(areas, offset, key=lambda area: area.start) - 1
        return areas[i] if i >= 0 and areas[i].holds(offset) else None

    def freed_at(self, offset: int) -> Area | None:
        """What was allocated there last, where nothing is now."""
        return next((area for area in reversed(self._freed) if area.holds(offset)), None)


class Allocations:
    """What the program that uses the device has allocated; sizes in bytes, as it asked for them.

    What changed since the last request goes with the next one; a device process that has just started, or
    that was told nothing for long, is told everything.
    """

    def __init__(self) -> None:
        self._made = 0
        self._used: dict[int, Change] = {}
        self._changes: list[Change] = []
        self._anew = True
        self._starts: list[int] = []  # of _used, in order
        self._freed: dict[int, tuple[int, str]] = {}  # address -> end, name; the newest last

    def add(self, address: int, nbytes: int, name: str = "", rights: int = BOTH) -> None:
        """Something was allocated. name: what messages call it, else its number and size."""
        self._made += 1
        known = name or f"buffer {self._made} of {nbytes} bytes"
        change: Change = [address, nbytes, rights, known]
        if address not in self._used:
            bisect.insort(self._starts, address)
        self._used[address] = change
        end = address + nbytes
        for at in [at for at, (behind, _) in self._freed.items() if at < end and address < behind]:
            del self._freed[at]
        self._note(change)

    def remove(self, address: int) -> None:
        """It was given back."""
        if (gone := self._used.pop(address, None)) is not None:
            self._starts.remove(address)
            self._freed[address] = address + int(gone[1]), str(gone[3])
            if len(self._freed) > _MOST_FREED:
                del self._freed[next(iter(self._freed))]
            self._note([address, 0, 0, ""])

    def wrong_copy(self, address: int, nbytes: int, doing: str) -> Finding | None:
        """What is wrong with a copy of the host's that begins in a page of something allocated and leaves
        it, or begins in what was freed. doing: "reading" or "writing"."""
        copy = f"a copy of the host's, {doing} {nbytes} bytes"
        if freed := next((name for at, (end, name) in self._freed.items() if at <= address < end), ""):
            where = address_text(Space.DDR, address - chip.DDR_BASE)
            what = f"{copy}, uses {freed}, which was freed"
            return (
                Finding("memory.freed", what, tensor=freed, address=where, nbytes=nbytes) if nbytes else None
            )
        i = bisect.bisect_right(self._starts, address) - 1
        if i < 0:
            return None
        start, size, _, name = self._used[self._starts[i]]
        end = int(start) + int(size)
        over = min(nbytes, address + nbytes - end)
        if over <= 0 or address >= -(-end // _PAGE) * _PAGE:
            return None
        what = f"{copy} from byte {address - int(start)} of {name}, goes {over} bytes beyond its end"
        where = address_text(Space.DDR, max(end, address) - chip.DDR_BASE)
        return Finding("memory.beyond", what, tensor=str(name), address=where, nbytes=over)

    def forgotten(self) -> None:
        """The device process knows nothing any more."""
        self._changes, self._anew = [], True

    def take(self) -> tuple[bool, list[Change]]:
        """Whether that is everything, and what changed since the last time."""
        anew, changes = self._anew, self._changes
        self._anew, self._changes = False, []
        return anew, self.all() if anew else changes

    def all(self) -> list[Change]:
        """What is allocated now: address, bytes, rights, name."""
        return list(self._used.values())

    def _note(self, change: Change) -> None:
        if self._anew:
            return
        self._changes.append(change)
        if len(self._changes) > _MOST_CHANGES + len(self._used):
            self.forgotten()
