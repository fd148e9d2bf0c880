"""The queues of both engines: ids, waits, the order in which commands are executed, and what is wrong.

Each engine works on its queue in order; a command may wait for an id of the other engine. Ids are 16 bits and
count up by one in each queue.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from firmware_sim.chip import ID_MAX
from firmware_sim.errors import DeviceError
from firmware_sim.instructions.instruction import Engine
from firmware_sim.isa.layout import Columns

Where = Callable[[Engine, int], str]
"""Tells where a descriptor of the batch was issued, for messages: (engine, index) -> text."""
Segment = tuple[Engine, int, int]
"""Commands [first, last) of one engine, done one after the other."""
ID_FIELDS = {
    Engine.BD: ("cmd_id_tpu", "cmd_id_gdma"),
    Engine.GDMA: ("cmd_id", "eng0_sync_id", "eng1_sync_id", "eng3_sync_id"),
}
"""Of a descriptor: its id, then the ids that it waits for."""


class QueueError(DeviceError):
    """Ids or waits are wrong, and nothing of the batch is executed. commands: engine and index of those
    that the message names, the one to blame first."""

    def __init__(
        self, message: str, *, hint: str = "", commands: tuple[tuple[Engine, int], ...] = ()
    ) -> None:
        super().__init__(message, hint=hint)
        self.commands = commands


class WrongId(QueueError):
    """An id is not the one behind that of the command before."""


class NeverDone(QueueError):
    """A command waits for one that never comes, or that waits for it itself."""


def other(engine: Engine) -> Engine:
    """The engine whose ids an engine's commands wait for."""
    return Engine.GDMA if engine is Engine.BD else Engine.BD


def first_id(columns: Columns, engine: Engine, last: int, where: Where | None) -> int:
    """The id before the batch's first; last: that of the batch before. Raises WrongId unless the ids count up
    by one, from last or from 1."""
    if not len(columns):
        return last
    ids = columns[ID_FIELDS[engine][0]].astype(np.int64)
    first = int(ids[0])
    expected = last + 1 if first != 1 else 1
    wrong = np.nonzero(ids != expected + np.arange(len(ids)))[0]
    if len(wrong):
        i = int(wrong[0])
        command = located(f"{engine.value} command {int(ids[i])}", engine, i, where)
        due = f"{expected + i}, ids of an engine count up by one"
        hint = "every command takes the next id of its engine; okk_initialize begins at 1, "
        if expected + i > ID_MAX:
            due = f"{expected + i}, which 16 bits do not hold: {ID_MAX} is the last"
            hint = "begin again at 1 before: a static net continues in another command group, "
        raise WrongId(
            f"{command}: its id should be {due}",
            hint=hint + "okk_set_id_node anywhere",
            commands=((engine, i), (engine, i - 1))[: 2 if i else 1],
        )
    return first - 1


def command_waits(columns: Columns, engine: Engine) -> npt.NDArray[np.int64]:
    """The other engine's id that each command waits for; engines work in order, so it never falls."""
    waits = columns[ID_FIELDS[engine][1]].astype(np.int64)
    return np.maximum.accumulate(waits) if len(waits) else waits


def located(text: str, engine: Engine, index: int, where: Where | None) -> str:
    """The text behind the place of a command."""
    return f"{where(engine, index)}: {text}" if where else text


def replay_order(
    waits: dict[Engine, npt.NDArray[np.int64]], bd_first: int, gdma_first: int, where: Where | None
) -> list[Segment]:
    """A valid order: GDMA commands by id, after each the BD commands that wait for it.

    waits: see `command_waits`; bd_first, gdma_first: the ids before the batch. Raises NeverDone for a wait
    on an id that never comes (also: two commands waiting for each other).
    """
    bd_waits, gdma_waits = waits[Engine.BD], waits[Engine.GDMA]
    n, m = len(bd_waits), len(gdma_waits)
    # BD commands done before GDMA command i: those that wait for an earlier id
    before = np.searchsorted(bd_waits, gdma_first + 1 + np.arange(m), side="left")
    if (n and bd_waits[-1] > gdma_first + m) or np.any(gdma_waits > bd_first + before):
        raise _never_done(waits, {Engine.BD: bd_first, Engine.GDMA: gdma_first}, where)
    if not m:
        return [(Engine.BD, 0, n)]
    segments: list[Segment] = []
    done = begun = 0
    for i, b in enumerate(before.tolist()):
        if b > done:
            segments += [(Engine.GDMA, begun, i), (Engine.BD, done, b)]
            done, begun = b, i
    return [*segments, (Engine.GDMA, begun, m), (Engine.BD, done, n)]


@dataclass(frozen=True)
class _Stuck:
    """Where both queues stop for good. done: commands of each engine that are done; last: ids that come."""

    waits: dict[Engine, npt.NDArray[np.int64]]
    first: dict[Engine, int]
    done: dict[Engine, int]
    where: Where | None

    def waiting(self, engine: Engine) -> bool:
        """Whether a command of this engine waits for ever."""
        return self.done[engine] < len(self.waits[engine])

    def head(self, engine: Engine) -> tuple[int, int]:
        """The id of this command, and the one that it waits for."""
        index = self.done[engine]
        return self.first[engine] + index + 1, int(self.waits[engine][index])

    def missing(self, engine: Engine) -> bool:
        """Whether what it waits for is not in the other queue at all."""
        that = other(engine)
        return self.head(engine)[1] > self.first[that] + len(self.waits[that])

    def line(self, engine: Engine) -> str:
        """Who waits for whom, and why that does not come."""
        that = other(engine)
        number, wait = self.head(engine)
        text = located(f"{engine.value} command {number}", engine, self.done[engine], self.where)
        text += f" waits for {that.value} command {wait}"
        if self.missing(engine):
            return f"{text}, which nobody issues"
        index, head = wait - self.first[that] - 1, self.head(that)[0]
        if head == wait:
            return text
        behind = located(f"{that.value} command {wait}", that, index, self.where)
        return f"{text}: {behind} comes after {that.value} command {head}"


def _never_done(
    waits: dict[Engine, npt.NDArray[np.int64]], first: dict[Engine, int], where: Where | None
) -> NeverDone:
    """The error of queues that stop: the chain of waits, the command to blame first."""
    done = dict.fromkeys(Engine, -1)
    now = dict.fromkeys(Engine, 0)
    while now != done:
        done = dict(now)
        for engine in Engine:
            ready = first[other(engine)] + now[other(engine)]
            now[engine] = int(np.searchsorted(waits[engine], ready, side="right"))
    stuck = _Stuck(waits, first, done, where)
    heads = [engine for engine in (Engine.GDMA, Engine.BD) if stuck.waiting(engine)]
    blamed = next((engine for engine in heads if stuck.missing(engine)), heads[0])
    chain = [blamed, *(engine for engine in heads if engine is not blamed)]
    that = other(blamed)
    number, wait = stuck.head(blamed)
    command = located(f"{blamed.value} command {number}", blamed, done[blamed], where)
    message = (
        f"{command}: waits for {that.value} command {wait}, which never comes: {that.value} gets to "
        f"{first[that] + done[that]} before it"
    )
    if len(chain) > 1:
        message += "".join(f"\n  {stuck.line(engine)}" for engine in chain)
    return NeverDone(
        message,
        hint="wait only for commands that were issued, and that do not wait for this one",
        commands=tuple((engine, done[engine]) for engine in chain),
    )
