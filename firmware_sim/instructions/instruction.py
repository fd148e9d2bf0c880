"""What the instruction table states about one instruction."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from firmware_sim.instructions.function import Function
from firmware_sim.isa.footprint import Footprint, Operand, footprint_of
from firmware_sim.isa.layout import Row
from firmware_sim.isa.timing import Cycles
from firmware_sim.memory import Memory

Run = Callable[[], object]


class Engine(enum.Enum):
    """The tensor unit (BD) and the DMA engine (GDMA), each with a queue and ids of its own."""

    BD = "BD"
    GDMA = "GDMA"

    __hash__ = object.__hash__  # Enum's own is Python code: too slow for a key of every command


class Status(enum.Enum):
    """Whether the emulator executes an instruction."""

    IMPLEMENTED = "implemented"
    UNVERIFIED = "unverified"  # no source settles what it does: refused


@dataclass(frozen=True)
class Semantics:
    """How an implemented instruction is described and executed.

    operands: all operands of a descriptor, results first. Raises DeviceError when the descriptor
    is illegal. cycles: the time on its engine. bind: prepare the execution in a memory; the
    returned function may be called any number of times. Raises DeviceError on limits. functions: those that
    it performs element by element, each once; which of them, the descriptor says.
    """

    operands: Callable[[Row], tuple[Operand, ...]]
    cycles: Callable[[Row], Cycles]
    bind: Callable[[Row, Memory], Run]
    functions: tuple[Function, ...] = ()


@dataclass(frozen=True)
class Instruction:
    """One row of the table.

    match: the values of descriptor fields that select it. example: the fields in which a legal descriptor
    differs from that of most instructions (firmware_sim.instructions.example).
    """

    name: str
    engine: Engine
    match: Mapping[str, frozenset[int]]
    summary: str
    semantics: Semantics | None = None
    reason: str = field(default="")  # why it is refused; empty when implemented
    status: Status = Status.IMPLEMENTED
    example: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (self.semantics is None) == (self.status is Status.IMPLEMENTED):
            raise ValueError(f"{self.name}: status and semantics do not agree")

    def footprint(self, row: Row) -> Footprint:
        """The bytes that a descriptor of this instruction reads and writes."""
        if self.semantics is None:
            raise ValueError(f"{self.name} has no footprint: {self.status.value}")
        return footprint_of(self.semantics.operands(row))
