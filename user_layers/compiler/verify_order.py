"""Whether both engines of a parallel section are in order where they use the same local memory: the
happens-before of commands (firmware_sim/checks/hazard.py), with a step in the place of each command."""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence

import numpy as np

from firmware_sim.checks.hazard import Hazard
from firmware_sim.checks.records import READS, WRITES, Record, Runs, with_numbers
from firmware_sim.checks.sequence import in_order
from firmware_sim.instructions.instruction import Engine
from firmware_sim.isa.footprint import Space
from firmware_sim.queues import replay_order
from user_layers.compiler.verify_memory import Area


class WrongStep(Exception):
    """What is wrong with the step that is followed."""


class Section:
    """Steps of one parallel section. begin: its first step."""

    def __init__(self, begin: int) -> None:
        self._waits = dict.fromkeys(Engine, begin)  # by engine, the step up to which it waits
        self._steps: dict[Engine, list[int]] = {engine: [] for engine in Engine}
        self._after: dict[Engine, list[int]] = {engine: [] for engine in Engine}
        self._records: dict[Engine, list[Record]] = {engine: [] for engine in Engine}

    def wait(self, at: int, after: Mapping[Engine, int]) -> None:
        """Step `at` makes engines wait for the other one's commands up to these steps."""
        if max(after.values()) >= at:
            raise WrongStep(f"it waits for step {max(after.values())}, which comes later")
        for engine, step in after.items():
            self._waits[engine] = max(self._waits[engine], step)

    def add(self, at: int, engine: Engine, reads: Sequence[Area], writes: Sequence[Area]) -> None:
        """Step `at` uses local memory."""
        [other] = set(Engine) - {engine}
        self._after[engine].append(bisect.bisect_right(self._steps[other], self._waits[engine]))
        self._steps[engine].append(at)
        self._records[engine].append(_record(reads, writes))

    def end(self) -> None:
        """Raise WrongStep for two steps of both engines that use the same bytes without an order."""
        waits = {engine: np.array(after, np.int64) for engine, after in self._after.items()}
        segments = replay_order(waits, 0, 0, None)
        records = [record for engine, first, last in segments for record in self._records[engine][first:last]]
        sequence = in_order(segments, waits, dict.fromkeys(Engine, 0), records)
        for one, other in Hazard(lambda space, at: "").pairs(sequence):
            transfer, call = (int(sequence.index[k]) for k in (one, other))
            steps = self._steps[Engine.GDMA][transfer], self._steps[Engine.BD][call]
            raise WrongStep(f"steps {steps[0]} and {steps[1]} use the same local memory without an order")


def _record(reads: Sequence[Area], writes: Sequence[Area]) -> Record:
    blocks = tuple(
        Runs(0, access, Space.LOCAL, (1 << last) - (1 << first), start, end - start)
        for access, areas in ((READS, reads), (WRITES, writes))
        for start, end, (first, last) in areas
    )
    return with_numbers("step", (), blocks)
