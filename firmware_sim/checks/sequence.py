"""A batch of commands as checks go through it: in replay order, each with its record."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Several
from dataclasses import dataclass
from operator import attrgetter
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from firmware_sim.batch import Batch
from firmware_sim.checks.by_data import by_data
from firmware_sim.checks.overlap import Replaced, replaced
from firmware_sim.checks.records import I64, Record, record_of
from firmware_sim.errors import DeviceError
from firmware_sim.instructions.instruction import Engine
from firmware_sim.isa.footprint import Tensor
from firmware_sim.isa.layout import Row
from firmware_sim.queues import Segment

ENGINES = (Engine.BD, Engine.GDMA)
BD, GDMA = range(2)
_MOST = 20_000  # records kept of an engine
_ADDRESS = attrgetter("address")


@dataclass(frozen=True)
class Sequence:
    """Commands 0 .. n - 1 in an order in which they may be executed.

    engine: BD or GDMA; index: place in its engine's queue; id: the engine's number of it, from 1; after:
    how many commands of the other engine, of this batch, are done before it by the waits; address: of its
    record's numbers. All int64[n]. position[engine]: int64, where in the order the engine's i-th command is.
    """

    records: tuple[Record, ...]
    engine: I64
    index: I64
    id: I64
    after: I64
    address: I64
    position: tuple[I64, I64]

    def __len__(self) -> int:
        return len(self.records)

    def nbytes(self) -> int:
        """Bytes that all operands touch, those of several commands counted for each."""
        return sum(
            operand.nbytes for one in self.records for operand in one.operands if isinstance(operand, Tensor)
        )


def in_order(
    segments: Several[Segment],
    waits: Mapping[Engine, npt.NDArray[np.int64]],
    first: Mapping[Engine, int],
    records: Several[Record],
) -> Sequence:
    """Commands in an order of execution, as many as there are records. waits, first: as those of a batch."""
    engine = np.concatenate([np.full(last - begin, ENGINES.index(e)) for e, begin, last in segments])
    index = np.concatenate([np.arange(begin, last) for _, begin, last in segments])
    engine, index = engine[: len(records)].astype(np.int64), index[: len(records)].astype(np.int64)
    base = np.array([first[e] for e in ENGINES], np.int64)
    counts = [int((engine == k).sum()) for k in (BD, GDMA)]
    awaited = np.zeros(len(records), np.int64)
    for k, e in enumerate(ENGINES):
        mine = engine == k
        awaited[mine] = waits[e][index[mine]]
    other = 1 - engine
    return Sequence(
        tuple(records),
        engine,
        index,
        index + base[engine] + 1,
        np.clip(awaited - base[other], 0, np.array(counts, np.int64)[other]),
        np.fromiter(map(_ADDRESS, records), np.int64, len(records)),
        (np.nonzero(engine == BD)[0], np.nonzero(engine == GDMA)[0]),
    )


class Records:
    """Makes sequences; keeps the records of descriptors that come again."""

    def __init__(self) -> None:
        self.by_data = False
        """Whether any so far was one whose data decides what it touches."""
        self.replaced: dict[Record, Replaced] = {}
        """Those that may read what they have replaced."""
        self._known: dict[Engine, dict[bytes, Record]] = {engine: {} for engine in Engine}
        self._again: WeakKeyDictionary[Batch, Sequence] = WeakKeyDictionary()

    def sequence(self, batch: Batch) -> Sequence:
        """The batch up to the first command that is illegal: executing it will say what is wrong."""
        known = self._again.get(batch)
        if known is not None:
            return known
        made = in_order(batch.segments, batch.waits, batch.first, self._records(batch))
        if batch.again:
            self._again[batch] = made
        return made

    def _records(self, batch: Batch) -> list[Record]:
        found: list[Record] = []
        for engine, first, last in batch.segments:
            keys = batch.keys[engine][first:last]
            known = list(map(self._known[engine].get, keys))
            if None in known:
                for k, record in enumerate(known):
                    if record is None:
                        try:
                            known[k] = self._new(engine, keys[k], batch.columns[engine].row(first + k))
                        except DeviceError:
                            return found + [one for one in known[:k] if one is not None]
            found += [one for one in known if one is not None]
        return found

    def _new(self, engine: Engine, key: bytes, row: Row) -> Record:
        known = self._known[engine]
        if key not in known:
            record = record_of(engine, row)
            if len(known) >= _MOST:
                for one in known.values():
                    self.replaced.pop(one, None)
                known.clear()
                self._again.clear()
            known[key] = record
            self.by_data = self.by_data or by_data(record)
            if (found := replaced(record, row)) is not None:
                self.replaced[record] = found
        return known[key]
