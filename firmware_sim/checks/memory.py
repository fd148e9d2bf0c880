"""Whether commands, and the controller's own code, touch only memory that they were given.

Of free kernels and of stored streams that is what the host has allocated; of a layer's function in a net its
inputs, outputs and work buffer, and its outputs have to be written whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from firmware_sim.checks.finding import Finding, Frame, Issued
from firmware_sim.checks.layer_calls import BEGINS, GLOBAL, CallTensor, LayerCall, parsed
from firmware_sim.checks.objects import KERNEL_AREAS, STREAM_AREAS, Area, Objects
from firmware_sim.checks.outside import access_record, explained, lanes_of
from firmware_sim.checks.records import I64, LIMITS, READS, WRITES, Record, Runs, numbers_of
from firmware_sim.checks.sequence import BD, GDMA
from firmware_sim.checks.sequence import Sequence as Commands
from firmware_sim.instructions.loops import native
from firmware_sim.isa.footprint import Space, address_text, locate

U64 = npt.NDArray[np.uint64]
IssuedBy = Callable[[int], Issued]
"""Who issued a command, by its place in the sequence."""
Places = Callable[[int], tuple[Frame, ...]]
"""The lines of the user's code at a code address."""


@dataclass(frozen=True)
class Arena:
    """Who issued the commands of the arenas, of BD and GDMA: address of the layer's label, 0 outside layers,
    and of the code."""

    layers: tuple[U64, U64]
    sites: tuple[U64, U64]

    def of(self, commands: Commands, what: tuple[U64, U64]) -> U64:
        """One of them for each command of a sequence."""
        found = np.zeros(len(commands), np.uint64)
        for engine in (BD, GDMA):
            mine = commands.engine == engine
            found[mine] = what[engine][commands.index[mine]]
        return found


@dataclass
class _Open:
    """A call whose outputs may still be written. writers: the records of its commands that write, by
    their addresses, each with its code address; issued: the newest command of each code address; ended:
    it has returned."""

    call: LayerCall
    writers: dict[int, tuple[Record, int]] = field(default_factory=dict)
    issued: dict[int, Issued] = field(default_factory=dict)
    ended: bool = False


class MemoryCheck:
    """Looks at the requests of one device, one after the other.

    objects: what the host has allocated. watched: accesses by the controller are known (`controller`).
    """

    def __init__(self, objects: Objects) -> None:
        self.objects = objects
        self.watched = False
        self._program = self._recorded = False
        self._host = objects
        self._calls: dict[int, _Open] = {}
        self._current: _Open | None = None
        self._known: set[tuple[int, int]] = set()
        self._may: Callable[[int], tuple[Sequence[Area], LayerCall | None] | None] = lambda k: None

    def begin(self, *, program: bool, recorded: bool) -> None:
        """A request begins: a net's program, whose layers are announced, or else a free kernel or streams."""
        self._program, self._recorded = program, recorded
        self._host = Objects() if program and recorded else self.objects  # addresses are not the device's
        self._calls, self._current = {}, None
        self._known.clear()

    def announce(self, text: str) -> None:
        """A layer's function is called or has returned, as the firmware tells it. ValueError for a text that
        it does not send."""
        phase, call = parsed(text)
        if phase == BEGINS:
            self._calls[call.key] = self._current = _Open(call)
        elif (known := self._calls.get(call.key)) is not None:
            known.call, known.ended, self._current = call, True, None

    def commands(self, commands: Commands, arena: Arena | None, issued: IssuedBy) -> list[Finding]:
        """What is wrong with commands that were handed over. arena: who issued them; None of stored
        streams."""
        self._may = lambda k: None
        if not len(commands):
            return []
        calls: list[_Open | None] = [None]
        if not self._program:
            which = np.zeros(len(commands), np.int64)
            tables = [(*(STREAM_AREAS if arena is None else KERNEL_AREAS), *self.objects.areas)]
        elif arena is None:
            return []
        else:
            distinct, which = np.unique(arena.of(commands, arena.layers), return_inverse=True)
            calls = [self._calls.get(key) for key in distinct.tolist()]
            tables = [one.call.areas if one is not None else () for one in calls]
            which = np.array([-1 if one is None else i for i, one in enumerate(calls)], np.int64)[which]
            self._note(commands, which, calls, arena.of(commands, arena.sites), issued)

        def may(k: int) -> tuple[Sequence[Area], LayerCall | None] | None:
            one = calls[which[k]]
            return (tables[which[k]], None if one is None else one.call) if which[k] >= 0 else None

        self._may = may
        found: list[Finding] = []
        for k, i in outside_areas(commands.records, commands.address, which, tables):
            one, record = calls[which[k]], commands.records[k]
            key = record.address, 0 if one is None else one.call.key
            if key not in self._known:
                self._known.add(key)
                call = None if one is None else one.call
                found.append(explained(record, i, tables[which[k]], self._host, call, issued(k)))
        return found

    def decided(self, k: int, record: Record, by: Callable[[], Issued]) -> list[Finding]:
        """What is wrong with command k of those handed over last, now that its data is known."""
        if (may := self._may(k)) is None:
            return []
        areas, call = may
        return [
            explained(record, i, areas, self._host, call, by())
            for i, block in enumerate(record.blocks)
            if not _inside(block, areas)
        ]

    def controller(
        self, space: Space, offset: int, nbytes: int, *, write: bool, by: Callable[[], Issued]
    ) -> list[Finding]:
        """What is wrong with an access by the controller's own code, in the layer's function that runs now or
        did last. offset: in its memory, of local memory over all lanes."""
        one, found = self._current, list[Finding]()
        if one is None and self._program:
            return found
        areas = (*KERNEL_AREAS, *self.objects.areas) if one is None else one.call.areas
        for block in _blocks(space, offset, nbytes, WRITES if write else READS):
            record = access_record(block)
            if one is not None and write:
                one.writers[record.address] = record, 0
            if not _inside(block, areas):
                call = None if one is None else one.call
                found.append(explained(record, 0, areas, self._host, call, by()))
        return found

    def settled(self, places: Places) -> list[Finding]:
        """What the calls that have ended left out; all their commands must have been looked at."""
        found: list[Finding] = []
        for key in [key for key, one in self._calls.items() if one.ended]:
            one = self._calls.pop(key)
            if self._recorded or self.watched or one.call.kind != GLOBAL:
                for i, output in enumerate(one.call.outputs):
                    found += _left_out(one, i, output, places)
        return found

    def _note(
        self,
        commands: Commands,
        which: I64,
        calls: Sequence[_Open | None],
        sites: U64,
        issued: IssuedBy,
    ) -> None:
        """Keep what may have written outputs."""
        for k, w, site in zip(range(len(commands)), which.tolist(), sites.tolist(), strict=True):
            one = calls[w] if w >= 0 else None
            record = commands.records[k]
            if one is None or record.address in one.writers:
                continue
            if any(block.access & WRITES for block in record.blocks):
                one.writers[record.address] = record, site
                if site not in one.issued and any(map(one.call.is_output, record.blocks)):
                    one.issued[site] = issued(k)


def _blocks(space: Space, offset: int, nbytes: int, access: int) -> Iterator[Runs]:
    """An access as blocks; in local memory the end of a lane is followed by the next one's begin."""
    if space is not Space.LOCAL:
        yield Runs(0, access, space, 0, offset, nbytes)
        return
    while nbytes > 0:
        lane, at = divmod(offset, LIMITS[space])
        size = min(nbytes, LIMITS[space] - at)
        yield Runs(0, access, space, 1 << lane, at, size)
        offset, nbytes = offset + size, nbytes - size


def _left_out(one: _Open, number: int, output: CallTensor, places: Places) -> Iterator[Finding]:
    call = one.call
    if output.values or call.in_place(output):
        return
    if call.kind != GLOBAL and not call.is_tile(output):
        return  # it stores a tile: which one is not told, and who reads what nobody wrote finds it
    if call.is_tile(output):
        wanted, space = output.tile_elements(0), Space.LOCAL
    else:
        space, offset = locate(output.address, f"output {number}")
        wanted = output.whole_elements(space, offset)
    missing, at, lanes = not_written([record for record, _ in one.writers.values()], wanted)
    if not missing:
        return
    whole = sum(runs.run * len(runs.starts()) * max(1, runs.lanes.bit_count()) for runs in wanted)
    if space is Space.LOCAL:
        lane = (lanes & -lanes).bit_length() - 1
        where, first = address_text(space, lane * LIMITS[space] + at), ""
    else:
        where, first = address_text(space, at), f", from element {output.element(at - wanted[0].start)} on"
    what = "is never written" if missing == whole else f"is not written in part: {missing} of {whole} bytes"
    yield Finding(
        "memory.not_written",
        f"output {number} {what}{first if missing < whole else ''}",
        by=_nearest(one, space, at, wanted, places),
        tensor=f"output {number}",
        address=where,
        lanes=tuple(lane for lane in range(64) if lanes >> lane & 1) if space is Space.LOCAL else (),
        nbytes=missing,
    )


def _nearest(one: _Open, space: Space, at: int, wanted: Sequence[Runs], places: Places) -> Issued:
    """The command that wrote the output next to its first missing byte, before it if there is one; else the
    layer's function."""
    start, end = min(runs.start for runs in wanted), max(runs.end for runs in wanted)
    near: list[tuple[bool, int, int]] = []
    for record, site in one.writers.values():
        for block in record.blocks:
            if block.space is space and block.access & WRITES and block.start < end and start < block.end:
                near.append((block.start > at, abs(at - block.start), site))
    label = one.call.label
    if near and (issued := one.issued.get(min(near)[2])) is not None:
        return replace(issued, layer=issued.layer or label)
    return Issued("", 0, "", places(one.call.function) if one.call.function else (), layer=label)


# ---- areas: the compiled loop and its reference ----


def outside_areas(
    records: Sequence[Record], addresses: I64, which: I64, tables: Sequence[Sequence[Area]]
) -> Iterator[tuple[int, int]]:
    """Which commands have a block that is not where their table permits it: (command, block), the first block
    of each. which: table of each command, negative for none."""
    if not native.ready():
        yield from outside_areas_reference(records, which, tables)
        return
    packed = [
        (area.space, _signed(area.lanes), area.start, area.end, area.rights)
        for table in tables
        for area in table
    ]
    counts = [len(table) for table in tables]
    begins = np.cumsum([0, *counts[:-1]])
    spans = np.array(list(zip(begins.tolist(), counts, strict=True)), np.int64)
    areas = np.array(packed, np.int64).reshape(-1, 5)
    found, first = np.zeros(1, np.int64), 0
    which = np.ascontiguousarray(which, np.int64)
    while True:
        k = native.bound("check_memory", addresses, which, spans, areas, first, found)()
        if k >= len(records):
            return
        yield k, int(found[0])
        first = k + 1


def outside_areas_reference(
    records: Sequence[Record], which: I64, tables: Sequence[Sequence[Area]]
) -> Iterator[tuple[int, int]]:
    """The slow and obvious twin of `outside_areas`."""
    for k, record in enumerate(records):
        if which[k] < 0:
            continue
        areas = tables[which[k]]
        bad = (i for i, block in enumerate(record.blocks) if not _inside(block, areas))
        if (i := next(bad, None)) is not None:
            yield k, i


def _inside(block: Runs, areas: Sequence[Area]) -> bool:
    """In DDR and L2 a block lies in one area, in local memory each of its bytes in any."""
    permit = [area for area in areas if area.space is block.space and not block.access & ~area.rights]
    if block.space is not Space.LOCAL:
        end = block.start + 1 if block.maybe else block.end
        return any(area.start <= block.start and end <= area.end for area in permit)
    starts = block.starts()[:1] if block.maybe else block.starts()
    lanes = lanes_of(permit, block.start, block.end)
    wanted = np.uint64(block.lanes)
    return all(
        bool((lanes[at : at + (1 if block.maybe else block.run)] & wanted == wanted).all())
        for at in (starts - block.start).tolist()
    )


def not_written(records: Sequence[Record], wanted: Sequence[Runs]) -> tuple[int, int, int]:
    """Of the bytes that should be written (of one memory), how many the commands leave out, in all lanes; the
    first one's offset and its lanes."""
    if any(list(wanted) == [_plain(block)] for record in records for block in record.blocks):
        return 0, 0, 0
    if not native.ready():
        return not_written_reference(records, wanted)
    start, end = min(runs.start for runs in wanted), max(runs.end for runs in wanted)
    size = end - start
    marks = np.zeros(size if wanted[0].space is Space.LOCAL else size // 64 + 1, np.uint64)
    addresses = np.array([record.address for record in records], np.int64)
    target = numbers_of(wanted)
    found = np.zeros(2, np.int64)
    missing = native.bound("check_outputs", addresses, target, marks, start, size, found)()
    return missing, int(found[0]), int(found[1]) & (1 << 64) - 1


def _plain(block: Runs) -> Runs | None:
    if not block.access & WRITES:
        return None
    return Runs(0, WRITES, block.space, block.lanes, block.start, block.run, block.dims)


def not_written_reference(records: Sequence[Record], wanted: Sequence[Runs]) -> tuple[int, int, int]:
    """The slow and obvious twin of `not_written`."""
    space = wanted[0].space
    left: dict[int, int] = {}
    for runs in wanted:
        for at in runs.starts().tolist():
            for byte in range(at, at + runs.run):
                left[byte] = left.get(byte, 0) | (runs.lanes if space is Space.LOCAL else 1)
    for block in (b for record in records for b in record.blocks):
        if block.space is space and block.access & WRITES:
            for at in block.starts().tolist():
                for byte in range(at, at + block.run):
                    if byte in left:
                        left[byte] &= ~(block.lanes if space is Space.LOCAL else 1)
    gone = {byte: lanes for byte, lanes in left.items() if lanes}
    first = min(gone, default=0)
    return sum(lanes.bit_count() for lanes in gone.values()), first, gone.get(first, 0)


def _signed(bits: int) -> int:
    return bits - (1 << 64) if bits >> 63 else bits
