"""Reads of memory that nothing wrote.

A command may read such bytes without harm: the padding of aligned rows goes through element-wise operations,
and no result depends on it. So they are followed as poison: what a command makes of them is unwritten memory
again, and nothing is said until some reaches the host, the controller, or a command whose data decides what
it does. Then the first command that read memory nothing wrote is found by going back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from firmware_sim import chip
from firmware_sim.batch import Batch
from firmware_sim.checks.by_data import Decided
from firmware_sim.checks.finding import Finding, Issued
from firmware_sim.checks.influence import Marked, influenced, parts_of
from firmware_sim.checks.records import I64, READS, WRITES, Record, Runs
from firmware_sim.checks.sequence import ENGINES, Sequence
from firmware_sim.checks.shadow import Shadow
from firmware_sim.checks.stored import Stored, common, united
from firmware_sim.isa.footprint import Space, Tensor, address_text
from firmware_sim.isa.layout import Row

_REMEMBERED = 1 << 17  # poisoned commands that are kept to go back by
_RANGES = 1 << 12  # of DDR, of a batch that is remembered
_DECIDING = {"gather": "opd1", "gdma.filter": "mask", "sort": "opd0"}
"""Operands whose values decide what is read or written."""

Named = Callable[[Space, int], str]


@dataclass(frozen=True)
class Poisoned:
    """A command that read what nothing wrote. operand, at, nbytes, lanes: the first such byte, how many there
    are, where; blocks: what it wrote. Of that, what counts as unwritten afterwards it poisoned."""

    by: Issued
    operand: Tensor
    at: int
    nbytes: int
    lanes: tuple[int, ...]
    blocks: tuple[Runs, ...]

    def made(self, space: Space, at: int) -> bool:
        """Whether it wrote this byte."""
        return any(block.holds(space, at) for block in self.blocks)


def _unused(record: Record, tensor: Tensor, row: Row) -> int:
    """Bytes at the end of each of the last words of weights, of input channels which are not there."""
    if (
        not record.name.startswith("conv.")
        or record.name.startswith("conv.winograd")
        or tensor.name != "opd1"
    ):
        return 0
    together = 2 if record.name == "conv.fp32" else 4
    rest = row["opd0_c"] % together
    if not rest or tensor.shape[0] != -(-row["opd0_c"] // together):
        return 0
    return (together - rest) * tensor.itemsize // together


def _ranges(sequence: Sequence, access: int) -> I64:
    """What commands read, or write, of DDR for certain or perhaps, int64[k, 2] of start and end."""
    found = [np.zeros((0, 2), np.int64)]
    for record in dict.fromkeys(sequence.records):
        for block in record.blocks:
            if block.space is Space.DDR and block.access & access:
                starts = block.starts()
                found.append(np.stack([starts, starts + block.run], 1))
    return np.ascontiguousarray(united(np.concatenate(found)))


def _written(record: Record) -> tuple[Runs, ...]:
    return tuple(block for block in record.blocks if block.access & WRITES)


class _Following(WeakKeyDictionary[Batch, "_Passed"]):
    """The batches that came next and are known."""


@dataclass(frozen=True)
class _Passed:
    """A batch, behind those before it in its request, in which the check found nothing and which left no
    poison in DDR: so it will be whenever all that it reads there is written. reads, writes: ranges of DDR,
    int64[k, 2] of start and end."""

    reads: I64
    writes: I64
    following: _Following


class Init:
    """The check `init` of one device. named: what a byte belongs to, "" where nobody knows.

    Batches that come again (`Batch.again`) behind the same ones are not gone through again where that
    would find nothing; `settle` makes up for it where somebody wants to know what is written in local memory.
    """

    def __init__(self, shadow: Shadow, named: Named) -> None:
        self._shadow = shadow
        self._named = named
        self._poisoned: deque[Poisoned] = deque(maxlen=_REMEMBERED)
        self._soiled = False  # poison was stored in DDR
        self._known: tuple[int, _Following] = (-1, _Following())
        self._following: _Following | None = None  # None: this request is no known one
        self._left: list[tuple[Sequence, Batch, Callable[[int], Issued]]] = []  # not gone through

    def begin(self) -> None:
        """A request begins."""
        self._shadow.restart()
        self._poisoned.clear()
        self._left.clear()
        if self._known[0] != self._shadow.writes_of_l2:
            self._known = self._shadow.writes_of_l2, _Following()
        self._following = self._known[1]

    def settle(self) -> None:
        """Go through batches that were left out: from now on everything counts."""
        self._following = None
        left, self._left = self._left, []
        for one in left:
            deque(self._check(*one, 0, len(one[0])), maxlen=0)

    def check(
        self,
        sequence: Sequence,
        batch: Batch,
        issued: Callable[[int], Issued],
        first: int = 0,
        end: int | None = None,
    ) -> Iterator[Finding]:
        """Go through a batch, or its commands from `first` up to `end`. issued: who issued command k of the
        sequence."""
        end = len(sequence) if end is None else end
        following = self._following if batch.again and not first and end == len(sequence) else None
        if following is None:
            self.settle()
            yield from self._check(sequence, batch, issued, first, end)
            return
        known = following.get(batch)
        if known is not None and self._shadow.are_written(known.reads):
            self._shadow.write_ranges(known.writes)
            self._left.append((sequence, batch, issued))
            self._following = known.following
            return
        self.settle()
        reads, writes = (_ranges(sequence, access) for access in (READS, WRITES))
        clean = len(reads) + len(writes) <= _RANGES
        self._soiled = False
        for finding in self._check(sequence, batch, issued, first, end):
            clean = False
            yield finding
        if clean and not self._soiled:
            following[batch] = known = _Passed(reads, writes, _Following())
            self._following = known.following

    def _check(
        self, sequence: Sequence, batch: Batch, issued: Callable[[int], Issued], k: int, end: int
    ) -> Iterator[Finding]:
        carried = np.zeros((len(sequence), 4), np.int64)
        while True:
            begun, k = k, self._shadow.first_unwritten(sequence, k, end, carried)
            for i in (np.nonzero(carried[begun:k, 0])[0] + begun).tolist():
                self._carried(sequence.records[i], carried[i].tolist(), issued(i))
            if k == end:
                return
            row = batch.columns[ENGINES[sequence.engine[k]]].row(int(sequence.index[k]))
            yield from self._command(sequence.records[k], row, issued(k))
            k += 1

    def decided(self, done: Decided, row: Row, by: Issued) -> Iterator[Finding]:
        """A command whose data is known now."""
        yield from self._command(done.record, row, by, done)

    def _carried(self, record: Record, told: list[int], by: Issued) -> None:
        """An element-wise command: what it lacks of an operand, see `Shadow.first_unwritten`."""
        operand, at, nbytes, mask = told
        tensor = record.operands[operand - 1]
        assert isinstance(tensor, Tensor)
        lanes = tuple(lane for lane in range(chip.NPU_NUM) if mask >> lane & 1)
        self._poisoned.append(Poisoned(by, tensor, at, nbytes, lanes, _written(record)))

    def _command(
        self, record: Record, row: Row, by: Issued, done: Decided | None = None
    ) -> Iterator[Finding]:
        marked: list[Marked] = []
        worst: Poisoned | None = None
        read: list[tuple[Tensor, I64 | None]] = [
            (o, None) for o in {id(o): o for o in self._read(record)}.values()
        ]
        if done is not None and done.of is not None and done.read is not None:
            read.append((done.of, done.read))
        for tensor, places in read:
            parts, unused = parts_of(record.name, row, tensor), _unused(record, tensor, row)
            found = self._shadow.lacking(tensor, parts, unused, places)
            if found is None:
                continue
            marked.append(Marked(tensor, found.marks))
            if worst is None:
                worst = Poisoned(by, tensor, found.at, found.nbytes, found.lanes, _written(record))
        results = influenced(record.name, row, record.operands, marked) if marked else []
        self._shadow.write_blocks(record)
        for one in results:
            if one.marks.any():
                self._shadow.clear(one.tensor.space, *one.places())
                self._soiled = self._soiled or one.tensor.space is Space.DDR
        if worst is None:
            return
        self._poisoned.append(worst)
        decides = next((name for start, name in _DECIDING.items() if record.name.startswith(start)), "")
        if any(one.tensor.name == decides for one in marked):
            yield self._finding(worst, f"decides what {record.name} does")

    @staticmethod
    def _read(record: Record) -> Iterator[Tensor]:
        for block in record.blocks:
            operand = record.operands[block.operand]
            if block.access & READS and not block.maybe and isinstance(operand, Tensor):
                yield operand

    # ---- where poison matters ----

    def controller(self, space: Space, start: int, nbytes: int, by: Callable[[], Issued]) -> Finding | None:
        """The controller reads a range. by: gives its code."""
        self.settle()
        at = np.arange(start, start + nbytes)
        missing = at[~self._shadow.written(space, at)]
        if not len(missing):
            return None
        first = int(missing[0])
        origin = self._origin(space, first)
        if origin is not None:
            return self._finding(origin, f"the controller reads at {self._place(space, first)}", reader=by())
        what = f"the controller reads {len(missing)} bytes{self._of(space, first)} that nothing wrote"
        return Finding(
            *("init.unwritten", what, by()),
            tensor=self._named(space, first),
            address=self._place(space, first),
            nbytes=len(missing),
        )

    def stored(self) -> list[Stored]:
        """What in DDR depends on unwritten memory now, by who stored it: told when the host reads it."""
        by_story: dict[object, tuple[Poisoned, list[I64]]] = {}
        seen: set[Runs] = set()
        for poisoned in reversed(self._poisoned):
            for block in poisoned.blocks:
                if block.space is not Space.DDR or block in seen:
                    continue
                seen.add(block)
                ranges = self._shadow.unwritten(block.start, block.end - block.start)
                if len(ranges):
                    starts = block.starts()
                    ranges = common(ranges, united(np.stack([starts, starts + block.run], 1)))
                if len(ranges):
                    # The stores of one place in the code have one story.
                    story = (poisoned.by.frames, poisoned.by.layer, poisoned.by.group)
                    by_story.setdefault(story, (poisoned, []))[1].append(ranges)
        found = []
        for poisoned, parts in by_story.values():
            ranges = united(np.concatenate(parts))
            at = int(ranges[0, 0])
            origin = self._origin(Space.DDR, at) or poisoned
            where = f"ends in DDR{self._of(Space.DDR, at)} at {self._place(Space.DDR, at)}"
            found.append(Stored(ranges, self._finding(origin, where)))
        return found

    def _origin(self, space: Space, at: int) -> Poisoned | None:
        """The command that read unwritten memory first, of those by which this byte came to be poisoned."""
        found: Poisoned | None = None
        for poisoned in reversed(self._poisoned):
            if poisoned.made(space, at):
                found = poisoned
                space, at = poisoned.operand.space, poisoned.at
        return found

    def _finding(self, origin: Poisoned, how: str, *, reader: Issued | None = None) -> Finding:
        operand = origin.operand
        name = self._named(operand.space, origin.at)
        what = (
            f"{operand.name} has {origin.nbytes} bytes{self._of(operand.space, origin.at)} that nothing wrote"
        )
        return Finding(
            *("init.unwritten", what, origin.by, operand.name, name),
            self._place(operand.space, origin.at),
            origin.lanes,
            origin.nbytes,
            reader,
            more={"result": how},
        )

    def _of(self, space: Space, at: int) -> str:
        name = self._named(space, at)
        return f" of {name}" if name else ""

    @staticmethod
    def _place(space: Space, at: int) -> str:
        return address_text(space, at)
