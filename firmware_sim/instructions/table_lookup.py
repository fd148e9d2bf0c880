"""Table lookup (tsk_typ 6): an 8-bit index into a table of 32-bit words in L2."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from firmware_sim import chip
from firmware_sim.errors import DeviceError
from firmware_sim.instructions.dense import Dense
from firmware_sim.instructions.elementwise import check_aligned, run_rows
from firmware_sim.instructions.instruction import Engine, Instruction, Run, Semantics
from firmware_sim.instructions.local_operand import WORD, result_shape, word_tensor
from firmware_sim.instructions.loops import native
from firmware_sim.instructions.rows import rows_of
from firmware_sim.instructions.sfu import l2_table
from firmware_sim.isa import timing
from firmware_sim.isa.codes import Precision, Task
from firmware_sim.isa.footprint import Access, Operand, Space, Tensor, aligned_strides
from firmware_sim.isa.layout import Row
from firmware_sim.memory import Memory

_INDICES = 256  # with as many entries no index is beyond the table
_BLOCK = 32  # words of the table that one unit of opd1_h loads


def _parts(row: Row) -> tuple[Tensor, Tensor, Tensor]:
    """res0, the indices, the table (all of it: which entries are read the data decide)."""
    shape = result_shape(row)
    out = word_tensor(row, "res0", shape, Access.WRITE, aligned=True)
    index = word_tensor(row, "opd0", shape, Access.READ, aligned=True)
    if row["opt_opd0_prec"] not in (Precision.INT8, Precision.FP32):
        raise DeviceError(
            f"opt_opd0_prec {row['opt_opd0_prec']}: unverified, no source tells what it reads as an index",
            hint="0: bytes (4N), 2: 32-bit words",
        )
    if row["opt_opd0_prec"] == Precision.INT8:
        strides = aligned_strides(index.lane, shape, 1)
        index = replace(index, strides=strides, itemsize=1)
    return out, index, l2_table(row, row["opd1_h"] * _BLOCK)


def _operands(row: Row) -> tuple[Operand, ...]:
    return _parts(row)


def _loop() -> native.Loop:
    return native.Loop("tables_lookup")


def _bind(row: Row, memory: Memory) -> Run:
    out, index, table = _parts(row)
    for tensor in (out, index):
        check_aligned(tensor, chip.ALIGN_BYTES)
    source = Dense(memory, index, np.uint8 if index.itemsize == 1 else np.uint32)
    entries = memory.view(table, table.parts()[0], np.uint32).reshape(-1)
    target = Dense(memory, out, np.uint32)
    in_place = out.same_place(index) and index.itemsize == WORD
    apart = in_place or not out.may_overlap(index)
    rows = rows_of([out, index]) if apart and native.ready() else None
    local = memory.flat(Space.LOCAL)
    arguments = [
        local.view(np.uint32),
        local.view(np.uint32 if index.itemsize == WORD else np.uint8),
        entries,
    ]
    if rows is not None and len(entries) >= _INDICES:
        return run_rows(_loop, arguments, rows)

    def check(largest: int) -> None:
        if largest >= len(entries):
            raise DeviceError(
                f"opd0: index {largest} is beyond the table of {len(entries)} words",
                hint="load a longer table (opd1_h counts blocks of 32 words) or keep the indices below",
            )

    if rows is not None:
        largest_index = native.bound("tables_largest_index", arguments[1], rows.at, rows.width)
        write = run_rows(_loop, arguments, rows)

        def run_checked() -> None:
            check(largest_index())
            write()

        return run_checked

    def run() -> None:
        at = source.load() & 0xFF
        check(int(at.max()))
        target.store(entries[at])

    return run


def _cycles(row: Row) -> timing.Cycles:
    out = _parts(row)[0]
    return timing.elementwise(out.shape, out.lane, 24)


INSTRUCTIONS = (
    Instruction(
        "table_lookup",
        Engine.BD,
        {"tsk_typ": frozenset({int(Task.TABLE_LOOKUP)}), "tsk_eu_typ": frozenset(range(32))},
        "table[low 8 bits of opd0], opd0 32-bit or 8-bit, the table in L2",
        Semantics(_operands, _cycles, _bind),
        example={"opd1_addr": chip.L2_TABLE_OFFSET, "opd1_h": _INDICES // _BLOCK},
    ),
)
