"""What is known of a command by itself, whenever it runs: those with equal descriptors have it in common."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from firmware_sim.batch import plan_keys
from firmware_sim.chip import BANK_BYTES
from firmware_sim.errors import DeviceError
from firmware_sim.instructions.disasm import LAYOUTS, operand_text
from firmware_sim.instructions.instruction import Engine
from firmware_sim.instructions.table import lookup
from firmware_sim.isa.footprint import Access, Operand, Space, Tensor
from firmware_sim.isa.layout import Columns
from firmware_sim.shown import brief
from user_layers.profile.operations import computed, moved
from user_layers.report.roofline import PEAKS, READ, WRITTEN, Kind

Extent = tuple[int, int]
"""Bytes of local memory, in any lane: the first, and the one behind the last."""


@dataclass(frozen=True)
class Moved:
    """Bytes of operands, of each memory: what a command reads and what it writes. An element that it reads
    several times, as from a stride of 0, counts each time."""

    ddr_read: int = 0
    ddr_written: int = 0
    l2_read: int = 0
    l2_written: int = 0
    local_read: int = 0
    local_written: int = 0

    @property
    def ddr(self) -> int:
        """Both ways."""
        return self.ddr_read + self.ddr_written

    @property
    def ddr_cycles(self) -> float:
        """The least that DDR takes for it."""
        return self.ddr_read / READ + self.ddr_written / WRITTEN


@dataclass(frozen=True)
class Form:
    """One descriptor without its ids. cycles: on its engine; kind, operations: what it computes in the
    roofline's classes; reads, writes: extents in local memory; banks: of each operand there, as bits;
    descriptor: 128 bytes."""

    engine: Engine
    name: str
    cycles: float
    moved: Moved
    kind: Kind
    operations: int
    reads: tuple[Extent, ...]
    writes: tuple[Extent, ...]
    banks: tuple[int, ...]
    descriptor: bytes

    __repr__ = brief

    @property
    def computing(self) -> float:
        """The least cycles for its operations."""
        return self.operations / PEAKS[self.kind]

    @property
    def all_banks(self) -> int:
        """Bits of the banks of local memory that it touches."""
        found = 0
        for mask in self.banks:
            found |= mask
        return found

    @property
    def shares_banks(self) -> bool:
        """Whether two of its operands touch one bank."""
        return sum(mask.bit_count() for mask in self.banks) > self.all_banks.bit_count()

    @cached_property
    def operands(self) -> tuple[str, ...]:
        """Each as the disassembler writes it, results first."""
        columns = LAYOUTS[self.engine].columns(np.frombuffer(self.descriptor, np.uint32).reshape(1, -1))
        return tuple(map(operand_text, _operands(self.engine, columns, 0)[1]))


class Forms:
    """Forms by number, in the order in which they were first seen."""

    def __init__(self) -> None:
        self.all: list[Form] = []
        self._known: dict[tuple[Engine, bytes], int] = {}

    def of(self, engine: Engine, columns: Columns) -> list[int]:
        """The number of each command of a stream. DeviceError for commands that do not exist."""
        found = []
        for index, key in enumerate(plan_keys(engine, columns)):
            number = self._known.get((engine, key))
            if number is None:
                number = self._known[engine, key] = len(self.all)
                self.all.append(_form(engine, columns, index, key))
            found.append(number)
        return found


def _operands(engine: Engine, columns: Columns, index: int) -> tuple[float, tuple[Operand, ...]]:
    row = columns.row(index)
    instruction = lookup(engine, row)
    if instruction.semantics is None:
        raise DeviceError(f"{instruction.name}: {instruction.status.value}: {instruction.reason}")
    return instruction.semantics.cycles(row).chip, instruction.semantics.operands(row)


def _form(engine: Engine, columns: Columns, index: int, key: bytes) -> Form:
    cycles, operands = _operands(engine, columns, index)
    row = columns.row(index)
    instruction = lookup(engine, row)
    local = [one for one in operands if isinstance(one, Tensor) and one.space is Space.LOCAL]
    reach = [(one.reach(), one.access) for one in local]
    kind, operations = computed(instruction, row, operands)
    return Form(
        engine,
        instruction.name,
        cycles,
        Moved(
            *(
                moved(operands, space, written=written)
                for space in (Space.DDR, Space.L2, Space.LOCAL)
                for written in (False, True)
            )
        ),
        kind,
        operations,
        tuple(extent for extent, access in reach if Access.READ in access),
        tuple(extent for extent, access in reach if Access.WRITE in access),
        tuple(_banks(extent) for extent, _ in reach),
        key,
    )


def _banks(extent: Extent) -> int:
    first, last = extent[0] // BANK_BYTES, max(extent[1] - 1, extent[0]) // BANK_BYTES
    return (1 << last + 1) - (1 << first)
