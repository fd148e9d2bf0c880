"""Batches that are executed again and again, as those of a net are: looked at once, and made ready once.

What a batch does is the same each time but for its data and for when it begins. So the second time that the
same descriptors come they are kept as a `Batch`, with what executes them: compiled loops that follow one
another in one call, and the times of all commands in another.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from firmware_sim.batch import U32, Batch, batch_of
from firmware_sim.instructions.instruction import Engine, Run
from firmware_sim.instructions.loops import native
from firmware_sim.queues import Where

_Key = tuple[bytes, bytes, int, int]
_ENGINES = (Engine.BD, Engine.GDMA)
_MOST = 1 << 17  # commands that are kept
_SHORT = 1e4  # cycles of commands whose loops are called at once
_SEEN = 1 << 12  # batches of which is known that they came once
TOGETHER = 64  # compiled loops that are called at once

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]


class Plan:
    """One descriptor made ready: how to run it, and its cycles on its engine. entry: of a short compiled
    loop, which may be called together with others."""

    __slots__ = ("cycles", "entry", "run")

    def __init__(self, run: Run, cycles: float) -> None:
        self.run = run
        self.cycles = cycles
        self.entry = run.entry if isinstance(run, native.Call) and cycles < _SHORT else None


@dataclass(frozen=True)
class Step:
    """Commands next to one another in the order of replay. first: the first one's place there; entries: of
    their compiled loops (native.Call.entry); run: what executes a single one that is none."""

    first: int
    count: int
    entries: bytes = b""
    run: Run | None = None

    def execute(self) -> int:
        """Execute them; how many were done before memory ran out, or all. Errors: those of a single one."""
        if self.run is None:
            return native.run(self.entries, self.count)
        self.run()
        return 1


@dataclass(frozen=True)
class Ready:
    """A batch made ready. engine (0: BD), index in its queue, cycles, wait (the place in the other engine's
    ends of what it waits for), read (bytes from DDR): of each command in the order of replay."""

    steps: tuple[Step, ...]
    engine: I64
    index: I64
    wait: I64
    cycles: F64
    read: I64

    def ends(self, start: float, issue: float) -> tuple[F64, F64]:
        """When each command ends, of BD and of GDMA, each behind `start`; issue: cycles between two
        commands that the controller issues. The same as `Tpu.execute` finds command by command."""
        of_gdma = int(self.engine.sum())
        bd, gdma = (np.full(n + 1, start, np.float64) for n in (len(self.engine) - of_gdma, of_gdma))
        begin = np.array([start, issue], np.float64)
        native.bound("timeline_ends", self.engine, self.wait, self.cycles, begin, bd, gdma)()
        return bd, gdma

    def command(self, k: int) -> tuple[Engine, int]:
        """Engine and index of the command at place k."""
        return _ENGINES[self.engine[k]], int(self.index[k])


class Again:
    """Remembers batches by their descriptors and ids."""

    def __init__(self) -> None:
        self._seen: OrderedDict[int, None] = OrderedDict()
        self._kept: OrderedDict[_Key, Batch] = OrderedDict()
        self._commands = 0

    def batch(self, bd: U32, gdma: U32, bd_id: int, gdma_id: int, where: Where | None) -> Batch:
        """As `batch_of`; the same object from the second time on."""
        key = (bd.tobytes(), gdma.tobytes(), bd_id, gdma_id)
        kept = self._kept.get(key)
        if kept is not None:
            self._kept.move_to_end(key)
            return kept
        batch = batch_of(bd, gdma, bd_id, gdma_id, where)
        name = hash(key)
        if name in self._seen and len(bd) + len(gdma) <= _MOST:
            batch = replace(batch, again=True)
            self._kept[key] = batch
            self._commands += len(bd) + len(gdma)
            while self._commands > _MOST:
                _, old = self._kept.popitem(last=False)
                self._commands -= sum(map(len, old.columns.values()))
        self._seen[name] = None
        self._seen.move_to_end(name)
        if len(self._seen) > _SEEN:
            self._seen.popitem(last=False)
        return batch


def ready(
    batch: Batch, known: Mapping[Engine, Mapping[bytes, Plan]], reads: Mapping[bytes, int]
) -> Ready | None:
    """A batch made ready; None where the plan of a command was forgotten. known: each engine's plans by
    their keys; reads: bytes from DDR of GDMA's, by the same keys."""
    order = [(engine, k) for engine, first, last in batch.segments for k in range(first, last)]
    keys = [batch.keys[engine][k] for engine, k in order]
    plans: list[Plan] = []
    for (engine, _), key in zip(order, keys, strict=True):
        if key not in known[engine]:
            return None
        plans.append(known[engine][key])
    steps: list[Step] = []
    together: list[bytes] = []
    for k, plan in enumerate(plans):
        if plan.entry is not None:
            together.append(plan.entry)
        if together and (plan.entry is None or len(together) == TOGETHER or k == len(plans) - 1):
            first = k + 1 - len(together) - (plan.entry is None)
            steps.append(Step(first, len(together), b"".join(together)))
            together = []
        if plan.entry is None:
            steps.append(Step(k, 1, run=plan.run))
    waits = {engine: batch.waited(engine) for engine in _ENGINES}
    read = [reads[key] if engine is Engine.GDMA else 0 for (engine, _), key in zip(order, keys, strict=True)]
    return Ready(
        tuple(steps),
        np.array([_ENGINES.index(engine) for engine, _ in order], np.int64),
        np.array([k for _, k in order], np.int64),
        np.array([waits[engine][k] for engine, k in order], np.int64),
        np.array([plan.cycles for plan in plans], np.float64),
        np.array(read, np.int64),
    )
