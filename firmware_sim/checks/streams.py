"""Stored command groups, looked at without executing them: what is wrong whatever the data is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from firmware_sim.checks.finding import Finding, Issued
from firmware_sim.checks.hazard import Hazard
from firmware_sim.checks.sequence import ENGINES, Records, Sequence
from firmware_sim.instructions.disasm import LAYOUTS
from firmware_sim.instructions.instruction import Engine
from firmware_sim.queues import command_waits, first_id, replay_order
from firmware_sim.tpu import Batch, plan_keys
from firmware_sim.wire import CommandGroup

IssuedBy = Callable[[int, Engine, int], Issued]
"""Who issued a command: group from 1, engine, index in its queue; None where nobody knows."""


def batch_of(group: CommandGroup) -> Batch:
    """A whole group as a batch in the order of replay. Raises QueueError for wrong ids and waits."""
    words = {
        e: np.frombuffer(data, np.uint32).reshape(-1, 32)
        for e, data in zip(ENGINES, (group.bd, group.gdma), strict=True)
    }
    columns = {e: LAYOUTS[e].columns(w) for e, w in words.items()}
    waits = {e: command_waits(c, e) for e, c in columns.items()}
    first = {e: first_id(c, e, 0, None) for e, c in columns.items()}
    segments = replay_order(waits, first[Engine.BD], first[Engine.GDMA], None)
    return Batch(columns, {e: plan_keys(e, c) for e, c in columns.items()}, waits, first, segments)


def hazards(groups: Iterable[CommandGroup], issued: IssuedBy | None = None) -> Iterator[Finding]:
    """Commands of both engines that use the same local memory without an order. Raises QueueError."""
    records, hazard = Records(), Hazard(lambda space, at: "")
    for number, group in enumerate(groups, 1):
        sequence = records.sequence(batch_of(group))

        def by(k: int, sequence: Sequence = sequence, number: int = number) -> Issued:
            engine, index = ENGINES[sequence.engine[k]], int(sequence.index[k])
            if issued is not None:
                return issued(number, engine, index)
            return Issued(engine.value, int(sequence.id[k]), sequence.records[k].name, group=number)

        yield from hazard.check(sequence, by)
