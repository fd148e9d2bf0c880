"""Waits and polls: commands that wait for ever, commands behind the last poll, waits that order nothing.

Waits that never end, and ids that do not count up, are errors of the queues (firmware_sim/queues.py):
nothing of the batch is executed. Here they become findings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from firmware_sim.batch import Batch
from firmware_sim.checks.finding import Finding, Issued
from firmware_sim.checks.records import I64, WRITES, Record, Runs
from firmware_sim.checks.sequence import BD, ENGINES, GDMA, Sequence
from firmware_sim.instructions.disasm import LAYOUTS
from firmware_sim.instructions.instruction import Engine
from firmware_sim.isa.footprint import Space
from firmware_sim.queues import ID_FIELDS, NeverDone, QueueError

MOST_PAIRS = 1 << 16
"""Blocks of commands that are compared for one wait; one that concerns more is taken for needed."""
_REACH = np.dtype(
    [("local", "?"), ("space", "i1"), ("writes", "?"), ("lanes", "u8"), ("start", "i8"), ("end", "i8")]
)
Reach = npt.NDArray[np.void]


def wrong_queue(error: QueueError, issued: Callable[[Engine, int], Issued]) -> Finding:
    """The finding of an error of the queues. issued: who issued a command of the batch."""
    by, *others = (issued(engine, index) for engine, index in error.commands)
    rule = "sync.never" if isinstance(error, NeverDone) else "sync.ids"
    return Finding(rule, error.message, by, other=others[0] if others else None)


def last_command(bd: npt.NDArray[np.uint32], gdma: npt.NDArray[np.uint32]) -> tuple[Engine, int]:
    """The newest of two queues of descriptors, uint32[n, 32], of which one at least has commands: outside
    parallel sections each waits for all before."""
    if not len(gdma):
        return Engine.BD, len(bd) - 1
    if len(bd):
        tensor, copy = LAYOUTS[Engine.BD].columns(bd), LAYOUTS[Engine.GDMA].columns(gdma)
        if int(copy[ID_FIELDS[Engine.GDMA][1]][-1]) < int(tensor[ID_FIELDS[Engine.BD][0]][-1]):
            return Engine.BD, len(bd) - 1
    return Engine.GDMA, len(gdma) - 1


def no_poll(request: str, count: int, by: Issued) -> Finding:
    """A kernel that returned with `count` commands behind its last poll. by: who issued the last one."""
    commands = f"{count} commands" if count > 1 else "command"
    what = f"{request} returned without okk_poll after its last {commands}; on the chip the host may read "
    return Finding("sync.no_poll", f"{what}their results too early", by)


def _reach(record: Record) -> Reach:
    """Of each block the bytes from its first to its last one: more than it uses, never less."""

    def one(block: Runs) -> tuple[bool, int, bool, int, int, int]:
        local = block.space is Space.LOCAL
        return local, int(block.space), bool(block.access & WRITES), block.lanes, block.start, block.end

    return np.array([one(block) for block in record.blocks], _REACH)


def _meet(some: Reach, others: Reach) -> bool:
    """Whether one may write what another one uses."""
    x, y = some[:, None], others[None, :]
    same = (x["space"] == y["space"]) & (~x["local"] | ((x["lanes"] & y["lanes"]) != 0))
    touch = (x["start"] < y["end"]) & (y["start"] < x["end"])
    return bool(np.any(same & touch & (x["writes"] | y["writes"])))


class Waits:
    """Looks for waits without which a batch would do the same."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Record, Reach]] = {}

    def superfluous(self, sequence: Sequence, batch: Batch) -> Iterator[tuple[int, int]]:
        """Commands whose wait orders nothing, and what they wait for, as positions in the sequence.

        A wait orders commands up to the next one of its engine that waits for as much itself, behind commands
        of the other engine that no earlier wait names. If none of the first touches what one of the second
        writes, or writes what it touches, the wait is superfluous; without all of those found here together
        the batch is still in order.
        """
        for engine in (BD, GDMA):
            mine, others = sequence.position[engine], sequence.position[1 - engine]
            fields = batch.columns[ENGINES[engine]][ID_FIELDS[ENGINES[engine]][1]][: len(mine)]
            waits = np.clip(fields.astype(np.int64) - batch.first[ENGINES[1 - engine]], 0, len(others))
            until = _as_much(waits)
            known = 0  # commands of the other engine that needed waits name
            for i in np.nonzero(waits > 0)[0].tolist():
                wait = int(waits[i])
                if wait <= known:
                    continue
                if self._needed(sequence, mine[i : until[i]], others[known:wait]):
                    known = wait
                else:
                    yield int(mine[i]), int(others[wait - 1])

    def _needed(self, sequence: Sequence, later: I64, earlier: I64) -> bool:
        if len(later) * len(earlier) > MOST_PAIRS:
            return True
        some, others = (
            np.concatenate([self._of(sequence.records[k]) for k in ks]) for ks in (later, earlier)
        )
        return len(some) * len(others) > MOST_PAIRS or _meet(some, others)

    def _of(self, record: Record) -> Reach:
        known = self._known.get(id(record))
        if known is None or known[0] is not record:
            known = self._known[id(record)] = record, _reach(record)
        return known[1]

    def check(self, sequence: Sequence, batch: Batch, issued: Callable[[int], Issued]) -> Iterator[Finding]:
        """Go through a batch. issued: who issued command k of the sequence."""
        self._known.clear()
        for k, awaited in self.superfluous(sequence, batch):
            by, other = issued(k), issued(awaited)
            what = (
                f"{by.name} waits for {other.engine} command {other.id} ({other.name}); neither it nor what "
                f"follows uses memory in common with what it waits for"
            )
            yield Finding("sync.superfluous", what, by, other=other)


def _as_much(waits: I64) -> list[int]:
    """For each command the next one of its engine that waits for as much or more; behind the last: none."""
    found = [len(waits)] * len(waits)
    open_: list[int] = []
    for i, wait in enumerate(waits.tolist()):
        while open_ and waits[open_[-1]] <= wait:
            found[open_.pop()] = i
        open_.append(i)
    return found
