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

import numpy as np

from firmware_sim import chip
from firmware_sim.checks.finding import Finding, Issued
from firmware_sim.checks.influence import Marked, Marks, influenced, parts_of
from firmware_sim.checks.records import READS, Record, Runs
from firmware_sim.checks.sequence import ENGINES, Sequence
from firmware_sim.checks.shadow import Shadow
from firmware_sim.isa.footprint import Access, Space, Tensor, address_text
from firmware_sim.isa.layout import Row
from firmware_sim.tpu import Batch

_REMEMBERED = 64 << 20  # elements of poisoned results that are kept to go back by
_DECIDING = {"gather": "opd1", "gdma.filter": "mask", "sort": "opd0"}
"""Operands whose values decide what is read or written."""

Named = Callable[[Space, int], str]


@dataclass(frozen=True)
class Poisoned:
    """A command that read what nothing wrote. operand, at, nbytes, lanes: the first such byte, how many there
    are, where; results: the elements that it poisoned, or blocks, among which they are."""

    by: Issued
    operand: Tensor
    at: int
    nbytes: int
    lanes: tuple[int, ...]
    results: tuple[Marked, ...] = ()
    blocks: tuple[Runs, ...] = ()

    @property
    def size(self) -> int:
        """About how much memory it takes."""
        return 1000 + sum(one.marks.size for one in self.results)

    def made(self, space: Space, at: int) -> bool:
        """Whether it poisoned this byte."""
        if any(block.holds(space, at) for block in self.blocks):
            return True
        within = at % chip.LOCAL_BYTES if space is Space.LOCAL else at
        for one in self.results:
            if one.tensor.space is space:
                low, high = one.tensor.reach()
                if low <= within < high and (one.bytes() == at).any():
                    return True
        return False


@dataclass(frozen=True)
class Stored:
    """Bytes of DDR that hold what depends on unwritten memory when a request ends: offset, how many."""

    start: int
    nbytes: int
    finding: Finding

    def overlaps(self, start: int, nbytes: int) -> bool:
        """Whether some of its bytes lie in a range."""
        return start < self.start + self.nbytes and self.start < start + nbytes


def _unused(record: Record, tensor: Tensor, row: Row) -> Marks | None:
    """Bytes of weights that belong to input channels which are not there: [n, c, h, w, itemsize]."""
    if (
        not record.name.startswith("conv.")
        or record.name.startswith("conv.winograd")
        or tensor.name != "opd1"
    ):
        return None
    together = 2 if record.name == "conv.fp32" else 4
    size = tensor.itemsize // together
    rest = row["opd0_c"] % together
    if not rest or tensor.shape[0] != -(-row["opd0_c"] // together):
        return None
    unused = np.zeros((*tensor.shape, tensor.itemsize), bool)
    unused[-1, ..., rest * size :] = True
    return unused


class Init:
    """The check `init` of one device. named: what a byte belongs to, "" where nobody knows."""

    def __init__(self, shadow: Shadow, named: Named) -> None:
        self._shadow = shadow
        self._named = named
        self._poisoned: deque[Poisoned] = deque()
        self._size = 0

    def begin(self) -> None:
        """A request begins."""
        self._shadow.restart()
        self._poisoned.clear()
        self._size = 0

    def check(self, sequence: Sequence, batch: Batch, issued: Callable[[int], Issued]) -> Iterator[Finding]:
        """Go through a batch. issued: who issued command k of the sequence."""
        k = 0
        carried = np.zeros((len(sequence), 4), np.int64)
        while True:
            begun, k = k, self._shadow.first_unwritten(sequence, k, carried)
            for i in (np.nonzero(carried[begun:k, 0])[0] + begun).tolist():
                self._carried(sequence.records[i], carried[i].tolist(), issued(i))
            if k == len(sequence):
                return
            row = batch.columns[ENGINES[sequence.engine[k]]].row(int(sequence.index[k]))
            yield from self._command(sequence.records[k], row, issued(k))
            k += 1

    def _carried(self, record: Record, told: list[int], by: Issued) -> None:
        """An element-wise command: what it lacks of an operand, see `Shadow.first_unwritten`."""
        operand, at, nbytes, mask = told
        tensor = record.operands[operand - 1]
        assert isinstance(tensor, Tensor)
        lanes = tuple(lane for lane in range(chip.NPU_NUM) if mask >> lane & 1)
        blocks = tuple(block for block in record.blocks if block.access & ~READS)
        self._remember(Poisoned(by, tensor, at, nbytes, lanes, blocks=blocks))

    def _command(self, record: Record, row: Row, by: Issued) -> Iterator[Finding]:
        marked: list[Marked] = []
        worst: Poisoned | None = None
        for tensor in {id(o): o for o in self._read(record)}.values():
            at = tensor.indices()[..., None] * tensor.itemsize + np.arange(tensor.itemsize)
            missing = ~self._shadow.written(tensor.space, at)
            unused = _unused(record, tensor, row)
            if unused is not None:
                missing &= ~unused
            if not missing.any():
                continue
            places = at[missing]
            parts = parts_of(record.name, row, tensor)
            apart = np.asarray(missing.reshape(*tensor.shape, parts, -1).any(-1))
            marks = np.moveaxis(apart, -1, 1).reshape(-1, *tensor.shape[1:])
            marked.append(Marked(tensor, marks))
            if worst is None:
                local = tensor.space is Space.LOCAL
                lanes = tuple(np.unique(places // chip.LOCAL_BYTES).tolist()) if local else ()
                worst = Poisoned(by, tensor, int(places.flat[0]), len(np.unique(places)), lanes)
        results = influenced(record.name, row, record.operands, marked) if marked else []
        for block in record.blocks:
            if block.access & ~READS:
                self._shadow.mark(block.space, block.places())
        for one in results:
            if one.marks.any():
                self._shadow.clear(one.tensor.space, one.bytes())
        if worst is None:
            return
        self._remember(Poisoned(by, worst.operand, worst.at, worst.nbytes, worst.lanes, tuple(results)))
        decides = next((name for start, name in _DECIDING.items() if record.name.startswith(start)), "")
        if any(one.tensor.name == decides for one in marked):
            yield self._finding(worst, f"decides what {record.name} does")

    @staticmethod
    def _read(record: Record) -> Iterator[Tensor]:
        for block in record.blocks:
            operand = record.operands[block.operand]
            if block.access & READS and not block.maybe and isinstance(operand, Tensor):
                yield operand

    def _remember(self, poisoned: Poisoned) -> None:
        self._poisoned.append(poisoned)
        self._size += poisoned.size
        while self._size > _REMEMBERED and len(self._poisoned) > 1:
            self._size -= self._poisoned.popleft().size

    # ---- where poison matters ----

    def controller(self, space: Space, start: int, nbytes: int, by: Callable[[], Issued]) -> Finding | None:
        """The controller reads a range. by: gives its code."""
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
        found = []
        told: dict[object, Finding] = {}
        for poisoned in self._poisoned:
            for one in poisoned.results:
                if one.tensor.space is not Space.DDR or Access.WRITE not in one.tensor.access:
                    continue
                at = np.unique(one.bytes())
                at = at[~self._shadow.written(Space.DDR, at)]
                if not len(at):
                    continue
                breaks = np.nonzero(np.diff(at) != 1)[0] + 1
                firsts, lasts = at[np.r_[0, breaks]], at[np.r_[breaks - 1, len(at) - 1]]
                # The stores of one place in the code have one story.
                finding = told.get((poisoned.by.frames, poisoned.by.layer, poisoned.by.group))
                if finding is None:
                    origin = self._origin(Space.DDR, int(at[0])) or poisoned
                    place = self._place(Space.DDR, int(at[0]))
                    finding = self._finding(
                        origin, f"ends in DDR{self._of(Space.DDR, int(at[0]))} at {place}"
                    )
                    told[poisoned.by.frames, poisoned.by.layer, poisoned.by.group] = finding
                found += [
                    Stored(int(a), int(b) - int(a) + 1, finding) for a, b in zip(firsts, lasts, strict=True)
                ]
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
