"""One readable line per descriptor."""

from __future__ import annotations

import struct

from firmware_sim.errors import DeviceError
from firmware_sim.isa.footprint import Constant, Operand, address_text
from firmware_sim.isa.instruction import Engine, Instruction
from firmware_sim.isa.layout import BD, GDMA, U32, Row
from firmware_sim.isa.table import lookup

LAYOUTS = {Engine.BD: BD, Engine.GDMA: GDMA}


def operand_text(operand: Operand) -> str:
    """`opd0=lane 0 +0x1000 [1,64,8,8] strides [64,64,8,1]`, or `opd1=0x40000000 (2.0)`."""
    if isinstance(operand, Constant):
        (value,) = struct.unpack("<f", struct.pack("<I", operand.bits))
        return f"{operand.name}=0x{operand.bits:08x} ({value:g})"
    sizes, strides = (",".join(map(str, v)) for v in (operand.shape, operand.strides))
    text = f"{operand.name}={address_text(operand.space, operand.offset)} [{sizes}] strides [{strides}]"
    if operand.itemsize != 4:
        text += f" x{operand.itemsize}B"
    if operand.h_shift or operand.w_shift:
        text += f" shifts [{operand.h_shift},{operand.w_shift}]"
    return text


def _ids(engine: Engine, row: Row) -> str:
    if engine is Engine.BD:
        return f"BD {row['cmd_id_tpu']} after GDMA {row['cmd_id_gdma']}"
    return f"GDMA {row['cmd_id']} after BD {row['eng0_sync_id']}"


def instruction_text(instruction: Instruction, row: Row) -> str:
    """The line without ids: name and operands, results first."""
    if instruction.semantics is None:
        return f"{instruction.name} ({instruction.status.value}: {instruction.reason})"
    try:
        operands = instruction.semantics.operands(row)
    except DeviceError as error:
        return f"{instruction.name} (illegal: {error.message})"
    return " ".join([instruction.name, *map(operand_text, operands)])


def disassemble_row(engine: Engine, row: Row) -> str:
    """A descriptor as one line; never raises for strange ones, it says what is strange."""
    try:
        text = instruction_text(lookup(engine, row), row)
    except DeviceError as error:
        text = error.message
    return f"{_ids(engine, row)}: {text}"


def disassemble(engine: Engine, words: U32) -> list[str]:
    """A stream, uint32[n, 32], as n lines."""
    columns = LAYOUTS[engine].columns(words)
    return [disassemble_row(engine, columns.row(i)) for i in range(len(columns))]
