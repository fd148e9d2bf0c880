"""Stored command groups, looked at without executing them: what is wrong whatever the data is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from firmware_sim.batch import Batch, batch_of
from firmware_sim.checks.finding import Finding, Issued
from firmware_sim.checks.hazard import Hazard
from firmware_sim.checks.sequence import ENGINES, Records, Sequence
from firmware_sim.instructions.instruction import Engine
from firmware_sim.wire import CommandGroup

IssuedBy = Callable[[int, Engine, int], Issued]
"""Who issued a command: group from 1, engine, index in its queue; None where nobody knows."""


def batch_of_group(group: CommandGroup) -> Batch:
    """A whole group as a batch in the order of replay. Raises QueueError for wrong ids and waits."""
    bd, gdma = (np.frombuffer(data, np.uint32).reshape(-1, 32) for data in (group.bd, group.gdma))
    return batch_of(bd, gdma)


def hazards(groups: Iterable[CommandGroup], issued: IssuedBy | None = None) -> Iterator[Finding]:
    """Commands of both engines that use the same local memory without an order. Raises QueueError."""
    records, hazard = Records(), Hazard(lambda space, at: "")
    for number, group in enumerate(groups, 1):
        sequence = records.sequence(batch_of_group(group))

        def by(k: int, sequence: Sequence = sequence, number: int = number) -> Issued:
            engine, index = ENGINES[sequence.engine[k]], int(sequence.index[k])
            if issued is not None:
                return issued(number, engine, index)
            return Issued(engine.value, int(sequence.id[k]), sequence.records[k].name, group=number)

        yield from hazard.check(sequence, by)
