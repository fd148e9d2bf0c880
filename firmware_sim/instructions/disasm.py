"""One readable line per descriptor."""

from __future__ import annotations

import re
import struct
from functools import cache

from firmware_sim.errors import DeviceError
from firmware_sim.instructions.instruction import Engine, Instruction
from firmware_sim.instructions.table import lookup
from firmware_sim.isa.footprint import Constant, Operand, address_text
from firmware_sim.isa.layout import BD, GDMA, U32, Row

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


# Fields that the name, the ids and the operands say; all others are said where they differ from the default.
_SAID = {
    Engine.BD: re.compile(
        r"cmd_id_tpu|cmd_id_gdma|tsk_typ|tsk_eu_typ|\w+_addr|(res0|opd[012])_[nchw](_str)?|\w+_[hw]_shift"
        r"|opt_opd\d_const|short_\w+"
    ),
    Engine.GDMA: re.compile(
        r"cmd_id|eng0_sync_id|direction|special_func|constant_value|stride_enable|(src|dst)_([nchw](stride|size)|start_addr_\w+)"
    ),
}


@cache
def option_fields(engine: Engine) -> tuple[tuple[str, int], ...]:
    """The fields that a line says by their names, with the values that it leaves out."""
    layout, said = LAYOUTS[engine], _SAID[engine]
    return tuple(
        (f.name, layout.defaults.get(f.name, 0)) for f in layout.fields if not said.fullmatch(f.name)
    )


def _options(engine: Engine, row: Row) -> str:
    """`; opt_right_shift 8, opd0_up_pad 1`, or nothing."""
    found = [f"{name} {row[name]}" for name, usual in option_fields(engine) if row[name] != usual]
    return f"; {', '.join(found)}" if found else ""


def instruction_text(instruction: Instruction, row: Row) -> str:
    """The line without ids: name and operands, results first, then options that differ from the default."""
    options = _options(instruction.engine, row)
    if instruction.semantics is None:
        return f"{instruction.name} ({instruction.status.value}: {instruction.reason}){options}"
    try:
        operands = instruction.semantics.operands(row)
    except DeviceError as error:
        return f"{instruction.name} (illegal: {error.message}){options}"
    return " ".join([instruction.name, *map(operand_text, operands)]) + options


def disassemble_row(engine: Engine, row: Row) -> str:
    """A descriptor as one line; never raises for strange ones, it says what is strange."""
    try:
        text = instruction_text(lookup(engine, row), row)
    except DeviceError as error:
        text = error.message + _options(engine, row)
    return f"{_ids(engine, row)}: {text}"


def disassemble(engine: Engine, words: U32) -> list[str]:
    """A stream, uint32[n, 32], as n lines."""
    columns = LAYOUTS[engine].columns(words)
    return [disassemble_row(engine, columns.row(i)) for i in range(len(columns))]
