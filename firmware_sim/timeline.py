"""Modelled time of recorded streams, without executing them.

Both engines run at the same time, each in the order of its queue; a command starts when its engine is free
and the command of the other engine that it waits for is done. The emulator counts by the same rule (tpu.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from firmware_sim import chip
from firmware_sim.errors import DeviceError
from firmware_sim.instructions.disasm import LAYOUTS
from firmware_sim.instructions.instruction import Engine
from firmware_sim.instructions.table import lookup
from firmware_sim.isa.footprint import Access, Space, Tensor
from firmware_sim.isa.layout import Row
from firmware_sim.queues import command_waits
from firmware_sim.tpu import plan_keys
from firmware_sim.wire import CommandGroup

_BYTES = {Space.LOCAL: chip.LOCAL_BYTES, Space.DDR: chip.DDR_BYTES, Space.L2: chip.L2_BYTES}  # of a lane


@dataclass(frozen=True)
class Transfer:
    """What one command reads from DDR or writes to it: bytes from a byte offset in DDR on."""

    offset: int
    nbytes: int
    written: bool


@dataclass(frozen=True)
class Command:
    """One command: its cycles on its engine, its traffic with DDR, and the bytes of local memory that it
    touches: from, to (the first one behind) of each operand, in any lane."""

    cycles: float
    transfers: tuple[Transfer, ...]
    local: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Span:
    """When a command runs, in cycles from the start of its group, and what it is."""

    start: float
    end: float
    command: Command


@dataclass(frozen=True)
class Timeline:
    """The commands of one group of streams, each engine's in its order."""

    bd: tuple[Span, ...]
    gdma: tuple[Span, ...]

    @property
    def cycles(self) -> float:
        """From the start of the group until both engines are done."""
        return max((spans[-1].end for spans in (self.bd, self.gdma) if spans), default=0.0)

    @property
    def bd_busy(self) -> float:
        """Cycles in which the tensor unit works."""
        return sum(s.end - s.start for s in self.bd)

    @property
    def gdma_busy(self) -> float:
        """Cycles in which the DMA engine works."""
        return sum(s.end - s.start for s in self.gdma)

    def transfers(self) -> Iterable[Transfer]:
        """All traffic with DDR, of both engines."""
        return (t for spans in (self.bd, self.gdma) for s in spans for t in s.command.transfers)


class Timer:
    """Makes timelines; remembers commands that it has seen."""

    def __init__(self) -> None:
        self._known: dict[tuple[Engine, bytes], Command] = {}

    def timeline(self, group: CommandGroup) -> Timeline:
        """When each command of the group runs. Errors: DeviceError for commands that do not exist, and for
        engines that wait for one another."""
        commands: dict[Engine, list[Command]] = {}
        waits: dict[Engine, list[int]] = {}
        for engine, data in ((Engine.BD, group.bd), (Engine.GDMA, group.gdma)):
            columns = LAYOUTS[engine].columns(np.frombuffer(data, dtype=np.uint32).reshape(-1, 32))
            waits[engine] = command_waits(columns, engine).tolist()
            commands[engine] = [
                self._known.get((engine, key)) or self._learn(engine, key, columns.row(i))
                for i, key in enumerate(plan_keys(engine, columns))
            ]
        spans: dict[Engine, list[Span]] = {e: [] for e in Engine}
        moved = True
        while moved:
            moved = False
            for engine, other in ((Engine.GDMA, Engine.BD), (Engine.BD, Engine.GDMA)):
                own, others, to_do, wait = spans[engine], spans[other], commands[engine], waits[engine]
                while len(own) < len(to_do) and wait[len(own)] <= len(others):
                    waited = wait[len(own)]
                    free = own[-1].end if own else 0.0
                    start = max(free, others[waited - 1].end) if waited else free
                    command = to_do[len(own)]
                    own.append(Span(start, start + command.cycles, command))
                    moved = True
        for engine in Engine:
            if len(spans[engine]) < len(commands[engine]):
                raise DeviceError(
                    f"{engine.value} command {len(spans[engine]) + 1} waits for one that never comes"
                )
        return Timeline(tuple(spans[Engine.BD]), tuple(spans[Engine.GDMA]))

    def _learn(self, engine: Engine, key: bytes, row: Row) -> Command:
        instruction = lookup(engine, row)
        if instruction.semantics is None:
            raise DeviceError(f"{instruction.name}: {instruction.status.value}: {instruction.reason}")
        tensors = [t for t in instruction.semantics.operands(row) if isinstance(t, Tensor)]
        for t in tensors:
            if t.reach()[1] > _BYTES[t.space]:
                raise DeviceError(
                    f"{instruction.name}: {t.name} reaches to byte {t.reach()[1]} of {t.space.name} memory, "
                    f"which has {_BYTES[t.space]}",
                    hint="make the tensor smaller or split it",
                )
        transfers = tuple(
            Transfer(t.offset, t.nbytes, access is Access.WRITE)
            for t in tensors
            if t.space is Space.DDR
            for access in (Access.READ, Access.WRITE)
            if access in t.access
        )
        local = tuple(t.reach() for t in tensors if t.space is Space.LOCAL)
        command = Command(instruction.semantics.cycles(row).chip, transfers, local)
        self._known[engine, key] = command
        return command
