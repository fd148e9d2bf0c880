"""Commands of both engines, or of an engine and the controller, that use the same memory without an order.

Each engine works in order; between them only waits for ids say what comes first, and a poll waits for
everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Sequence as Several

import numpy as np

from firmware_sim import chip
from firmware_sim.checks.finding import Finding, Issued
from firmware_sim.checks.overlap import Replaced
from firmware_sim.checks.records import I64, READS, WRITES, Record, Runs
from firmware_sim.checks.sequence import BD, GDMA, Sequence
from firmware_sim.instructions.loops import native
from firmware_sim.isa.footprint import Space, Tensor, address_text

LINE = 128


def common(one: Runs, other: Runs) -> I64:
    """The bytes that two blocks share, in order."""
    if one.space is not other.space or (one.space is Space.LOCAL and not one.lanes & other.lanes):
        return np.zeros(0, np.int64)
    return np.intersect1d(one.places(), other.places())


def conflicts(one: Record, other: Record) -> Iterator[tuple[Runs, Runs]]:
    """Blocks of two commands that share bytes and of which one is written: the reference of the loop."""
    for x in one.blocks:
        for y in other.blocks:
            if (x.access | y.access) & WRITES and len(common(x, y)):
                yield x, y


def plainly(sequence: Sequence) -> list[tuple[int, int]]:
    """All pairs (GDMA command, BD command) of a sequence that conflict without an order: by comparing all."""
    found = []
    for g in sequence.position[GDMA].tolist():
        for count, b in enumerate(sequence.position[BD].tolist(), 1):
            place = sequence.index[g] + 1  # g's number among the GDMA commands of the batch
            ordered = count <= sequence.after[g] or place <= sequence.after[b]
            if not ordered and next(conflicts(sequence.records[g], sequence.records[b]), None) is not None:
                found.append((g, b))
    return found


class Hazard:
    """The check `hazard` of one device."""

    def __init__(self, named: Callable[[Space, int], str]) -> None:
        lines = chip.LOCAL_BYTES // LINE
        self._named = named
        self._read, self._written = np.zeros(lines, np.int64), np.zeros(lines, np.int64)
        self._system = np.zeros(1, np.int64)
        self._marks = np.zeros(chip.LOCAL_BYTES // 64, np.uint64)
        self._base = 0

    def pairs(self, sequence: Sequence) -> Iterator[tuple[int, int]]:
        """GDMA commands that are not in order with a BD command that uses the same memory, and the latest of
        these. Batches before are done."""
        if not native.ready():
            latest: dict[int, int] = {}
            for g, b in plainly(sequence):
                latest[g] = max(b, latest.get(g, b))
            yield from latest.items()
            return
        found = np.zeros(3, np.int64)
        bd = np.ascontiguousarray(sequence.position[BD])
        tables = (self._read, self._written, self._system)
        k = 0
        while True:
            where = (sequence.address, sequence.engine, sequence.after, bd, self._base, *tables, k)
            k = native.bound("check_hazard", *where, self._marks, found)()
            if k == len(sequence):
                break
            yield k, int(found[0])
            k += 1
        self._base += len(bd)

    def check(self, sequence: Sequence, issued: Callable[[int], Issued]) -> Iterator[Finding]:
        """Go through a batch. issued: who issued command k of the sequence."""
        for g, b in self.pairs(sequence):
            x, y = next(conflicts(sequence.records[g], sequence.records[b]))
            # In the order of replay the BD command comes first.
            if y.access & WRITES:
                rule = "hazard.waw" if x.access & WRITES and not x.access & READS else "hazard.raw"
            else:
                rule = "hazard.war"
            yield self._finding(rule, sequence.records[g], x, issued(g), y, issued(b), sequence.records[b])

    def _finding(
        self, rule: str, record: Record, x: Runs, by: Issued, y: Runs, other: Issued, others: Record
    ) -> Finding:
        shared = common(x, y)
        first = int(shared[0])
        doing = "writes" if x.access & WRITES else "reads"
        done = "writes" if y.access & WRITES else "reads"
        operand, that = _name(record, x), _name(others, y)
        what = (
            f"{record.name} {doing} {operand} while {others.name} {done} {that}: "
            f"{len(shared)} bytes in common, and neither waits for the other"
        )
        local = x.space is Space.LOCAL
        lanes = tuple(np.unique(shared // chip.LOCAL_BYTES).tolist()) if local else ()
        place = address_text(x.space, first)
        return Finding(rule, what, by, operand, self._named(x.space, first), place, lanes, len(shared), other)

    def over(
        self, sequence: Sequence, replaced: Mapping[Record, Replaced], issued: Callable[[int], Issued]
    ) -> Iterator[Finding]:
        """Commands of a batch whose results lie over what they read."""
        for k, record in enumerate(sequence.records):
            one = replaced.get(record)
            if one is None:
                continue
            operand, result = one.operand, one.result
            what = (
                f"{record.name} writes {result.name} over {one.nbytes} bytes of {operand.name} before it has "
                "read them"
            )
            name, place = self._named(operand.space, one.at), address_text(operand.space, one.at)
            lanes = (one.at // chip.LOCAL_BYTES,)
            yield Finding("hazard.overlap", what, issued(k), operand.name, name, place, lanes, one.nbytes)

    def controller(
        self,
        sequence: Sequence,
        accesses: Several[tuple[Space, int, int, bool, int, int]],
        issued: Callable[[int], Issued],
        controller: Callable[[int], Issued],
    ) -> Iterator[tuple[int, Finding]]:
        """Accesses of the controller beside commands that it had issued, and not waited for yet: which one,
        and what is wrong.

        accesses: (memory, offset, bytes, whether it writes, BD and GDMA commands issued before). controller:
        who made access i.
        """
        ends = [[block.end for block in record.blocks] for record in sequence.records]
        for i, (space, start, nbytes, write, *before) in enumerate(accesses):
            at = np.arange(start, start + nbytes)
            for engine, count in enumerate(before):
                for k in sequence.position[engine][:count].tolist():
                    record = sequence.records[k]
                    for block, end in zip(record.blocks, ends[k], strict=True):
                        if block.space is not space or not (write or block.access & WRITES):
                            continue
                        if not _near(block, end, space, start, nbytes):
                            continue
                        shared = np.intersect1d(block.places(), at)
                        if len(shared):
                            yield (
                                i,
                                self._beside(record, block, shared, issued(k), controller(i), write=write),
                            )

    def _beside(
        self, record: Record, block: Runs, shared: I64, by: Issued, other: Issued, *, write: bool
    ) -> Finding:
        first, operand = int(shared[0]), _name(record, block)
        doing = "writes" if block.access & WRITES else "reads"
        what = (
            f"the controller {'writes' if write else 'reads'} {len(shared)} bytes that {record.name} "
            f"{doing} as {operand}, and has not waited for it"
        )
        name, place = self._named(block.space, first), address_text(block.space, first)
        return Finding("hazard.controller", what, other, operand, name, place, (), len(shared), by)


def _near(block: Runs, end: int, space: Space, start: int, nbytes: int) -> bool:
    """Whether a block may share bytes with a range of its memory; never wrongly false."""
    if space is Space.LOCAL:
        lane, start = divmod(start, chip.LOCAL_BYTES)
        if start + nbytes > chip.LOCAL_BYTES:
            return True
        if not block.lanes >> lane & 1:
            return False
    return block.start < start + nbytes and start < end


def _name(record: Record, block: Runs) -> str:
    operand = record.operands[block.operand]
    return operand.name if isinstance(operand, Tensor) else ""
