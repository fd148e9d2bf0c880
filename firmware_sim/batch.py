"""Batches of descriptors as the engines work on them, and those that come again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from firmware_sim.instructions.disasm import LAYOUTS
from firmware_sim.instructions.instruction import Engine
from firmware_sim.isa.layout import Columns
from firmware_sim.queues import ID_FIELDS, Segment, Where, command_waits, first_id, replay_order

U32 = npt.NDArray[np.uint32]
# Fields that only steer the queues: descriptors that differ in nothing else do the same.
_QUEUE_FIELDS = {
    Engine.BD: (*ID_FIELDS[Engine.BD], "cmd_end", "cmd_intr_en", "cmd_keep"),
    Engine.GDMA: (*ID_FIELDS[Engine.GDMA], "chain_end", "intr_en", "barrier_enable"),
}
_KEPT = {engine: ~LAYOUTS[engine].mask(*names) for engine, names in _QUEUE_FIELDS.items()}


@dataclass(frozen=True, eq=False)
class Batch:
    """Commands that both engines work on together, in a valid order: what whoever watches them is given.

    keys: of each engine's commands, equal for equal effects; waits: the other engine's id that each command
    waits for; first: the id before each engine's first command of the batch; again: the same object comes
    for the same commands with the same ids, which may be executed many times.
    """

    columns: dict[Engine, Columns]
    keys: dict[Engine, list[bytes]]
    waits: dict[Engine, npt.NDArray[np.int64]]
    first: dict[Engine, int]
    segments: list[Segment]
    again: bool = False

    def waited(self, engine: Engine) -> npt.NDArray[np.int64]:
        """How many of the other engine's commands of this batch are done before each of this one's begins."""
        other = Engine.GDMA if engine is Engine.BD else Engine.BD
        return np.maximum(self.waits[engine] - self.first[other], 0)


def batch_of(bd: U32, gdma: U32, bd_id: int = 0, gdma_id: int = 0, where: Where | None = None) -> Batch:
    """Commands as they are executed: uint32[n, 32] and uint32[m, 32]; bd_id, gdma_id: the last ids before
    them, after which, or after 0, theirs count on. Raises QueueError for wrong ids and waits."""
    columns = {e: LAYOUTS[e].columns(w) for e, w in ((Engine.BD, bd), (Engine.GDMA, gdma))}
    last = {Engine.BD: bd_id, Engine.GDMA: gdma_id}
    first = {e: first_id(c, e, last[e], where) for e, c in columns.items()}
    waits = {e: command_waits(c, e) for e, c in columns.items()}
    segments = replay_order(waits, first[Engine.BD], first[Engine.GDMA], where)
    return Batch(columns, {e: plan_keys(e, c) for e, c in columns.items()}, waits, first, segments)


def queues(bd: U32, gdma: U32) -> Batch:
    """Commands as they stand in their queues, uint32[n, 32] and uint32[m, 32], one engine's behind the
    other's: for those that look at each command by itself."""
    columns = {e: LAYOUTS[e].columns(w) for e, w in ((Engine.BD, bd), (Engine.GDMA, gdma))}
    segments = [(e, 0, len(one)) for e, one in columns.items()]
    first = {e: int(one[ID_FIELDS[e][0]][0]) - 1 if len(one) else 0 for e, one in columns.items()}
    keys = {e: plan_keys(e, c) for e, c in columns.items()}
    return Batch(columns, keys, {e: command_waits(c, e) for e, c in columns.items()}, first, segments)


def plan_keys(engine: Engine, columns: Columns) -> list[bytes]:
    """The 128 bytes of each descriptor, ids and flags of the queues as zeros: equal keys, equal effects."""
    data = (columns.words & _KEPT[engine]).tobytes()
    return [data[i : i + 128] for i in range(0, len(data), 128)]
