"""Modelled time of recorded streams, without executing them, by the rule of isa/timing.py.

The emulator counts by the same rule (tpu.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from firmware_sim import chip
from firmware_sim.batch import plan_keys
from firmware_sim.errors import DeviceError
from firmware_sim.instructions.disasm import LAYOUTS
from firmware_sim.instructions.instruction import Engine
from firmware_sim.instructions.table import lookup
from firmware_sim.isa import timing
from firmware_sim.isa.footprint import Access, Space, Tensor
from firmware_sim.isa.layout import Columns, Row
from firmware_sim.queues import Segment, command_waits, replay_order
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


@dataclass(frozen=True)
class Order:
    """Streams of both engines: an order in which they may be replayed, and for each command the number of
    commands of the other engine that must be done before it."""

    segments: tuple[Segment, ...]
    waits: Mapping[Engine, Sequence[int]]

    @classmethod
    def of(cls, columns: dict[Engine, Columns]) -> Order:
        """Of streams whose ids begin with 1. DeviceError for engines that wait for one another."""
        waits = {engine: command_waits(found, engine) for engine, found in columns.items()}
        segments = replay_order(waits, 0, 0, None)
        return cls(tuple(segments), {engine: found.tolist() for engine, found in waits.items()})


def schedule(
    order: Order, cycles: Mapping[Engine, Sequence[float]], issue: float, begin: float = 0.0
) -> dict[Engine, list[tuple[float, float]]]:
    """When each command begins and ends. issue: cycles of the controller for each command, 0 for streams that
    the engines read. begin: when the first may."""
    ends = {engine: [begin] for engine in Engine}
    times: dict[Engine, list[tuple[float, float]]] = {engine: [] for engine in Engine}
    issued = begin
    for engine, first, last in order.segments:
        own, others = ends[engine], ends[Engine.GDMA if engine is Engine.BD else Engine.BD]
        waits, lengths, found = order.waits[engine], cycles[engine], times[engine]
        for index in range(first, last):
            issued += issue
            start = max(own[-1], others[waits[index]], issued)
            own.append(start + lengths[index])
            found.append((start, own[-1]))
    return times


class Timer:
    """Makes timelines; remembers commands that it has seen. issued: the controller issues the commands one
    after another, as in dynamic nets and free kernels; else the engines read them by themselves."""

    def __init__(self, *, issued: bool = False) -> None:
        self._issue = timing.issue() if issued else 0.0
        self._known: dict[tuple[Engine, bytes], Command] = {}

    def timeline(self, group: CommandGroup) -> Timeline:
        """When each command of the group runs. Errors: DeviceError for commands that do not exist, and for
        engines that wait for one another."""
        columns = {
            engine: LAYOUTS[engine].columns(np.frombuffer(data, dtype=np.uint32).reshape(-1, 32))
            for engine, data in ((Engine.BD, group.bd), (Engine.GDMA, group.gdma))
        }
        commands = {
            engine: [
                self._known.get((engine, key)) or self._learn(engine, key, found.row(i))
                for i, key in enumerate(plan_keys(engine, found))
            ]
            for engine, found in columns.items()
        }
        cycles = {engine: [command.cycles for command in found] for engine, found in commands.items()}
        times = schedule(Order.of(columns), cycles, self._issue)
        spans = {
            engine: tuple(Span(*time, command) for time, command in zip(times[engine], found, strict=True))
            for engine, found in commands.items()
        }
        return Timeline(spans[Engine.BD], spans[Engine.GDMA])

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
