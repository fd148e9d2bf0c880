"""Sums per channel (tsk_typ 7), by the adder tree.

The numbers of a channel, batch after batch, go through the tree in the order of memory; each batch starts
a new step of the tree. The old result is added at the end.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from firmware_sim import chip
from firmware_sim.errors import DeviceError
from firmware_sim.instructions import adder_tree, fp32, small
from firmware_sim.instructions import conv_operands as parts
from firmware_sim.instructions.dense import Dense
from firmware_sim.instructions.elementwise import check_aligned
from firmware_sim.instructions.instruction import Engine, Instruction, Run, Semantics
from firmware_sim.instructions.local_operand import WORD, local_offset
from firmware_sim.instructions.loops import native
from firmware_sim.isa import timing
from firmware_sim.isa.codes import Task
from firmware_sim.isa.footprint import Access, Operand, Space, Tensor, aligned_strides
from firmware_sim.isa.layout import Row
from firmware_sim.memory import Memory


def _tensors(row: Row) -> tuple[Tensor, Tensor]:
    """res0, one word per channel, and opd0. Raises DeviceError when a size is zero."""
    shape = (row["opd0_n"], row["res0_c"], row["opd0_h"], row["opd0_w"])
    if 0 in shape:
        raise DeviceError(f"opd0: shape {list(shape)} has a size of zero", hint="sizes start at 1")
    access = Access.UPDATE if row["opt_res_add"] else Access.WRITE
    out = replace(parts.per_channel(row, "res0", (1, shape[1], 1, 1), WORD), access=access)
    offset = local_offset(row["opd0_addr"], "opd0")
    strides = aligned_strides(offset // chip.LOCAL_BYTES, shape, WORD)
    return out, Tensor("opd0", Access.READ, Space.LOCAL, offset, shape, strides, WORD)


def _operands(row: Row) -> tuple[Operand, ...]:
    return _tensors(row)


def _bind(row: Row, memory: Memory) -> Run:
    out, x = _tensors(row)
    check_aligned(out, WORD)
    check_aligned(x, chip.ALIGN_BYTES)
    source, target = Dense(memory, x, np.float32), Dense(memory, out, np.float32)
    n, c, h, w = x.shape
    missing = -h * w % adder_tree.INPUTS

    if small.wanted(math.prod(x.shape)):
        at = x.indices().reshape(n, c, h * w).transpose(1, 0, 2)
        if n > 1:
            at = np.pad(at, ((0, 0), (0, 0), (0, missing)), constant_values=small.NOTHING)
        local, adds_old = memory.flat(Space.LOCAL).view(np.float32), Access.READ in out.access
        to, rows = out.indices().reshape(-1), np.ascontiguousarray(at.reshape(c, -1))
        return native.bound("adder_tree_gathered", local, adder_tree.STEPS, rows, to, adds_old)

    def run() -> None:
        numbers = source.load().reshape(n, c, h * w).transpose(1, 0, 2)
        if n > 1 and missing:  # fills up the last step of a batch: +0 changes nothing
            numbers = np.pad(numbers, ((0, 0), (0, 0), (0, missing)))
        results = adder_tree.total(numbers.reshape(c, -1)).reshape(out.shape)
        if Access.READ in out.access:
            results = fp32.add(results, target.load())
        target.store(results)

    return run


def _cycles(row: Row) -> timing.Cycles:
    x = _tensors(row)[1]
    return timing.adder_tree(x.shape, x.lane, adder_tree.INPUTS)


INSTRUCTIONS = (
    Instruction(
        "md_sum",
        Engine.BD,
        {"tsk_typ": frozenset({int(Task.MD_SUM)}), "tsk_eu_typ": frozenset(range(32))},
        "sum per channel over batches, rows and columns (+ old with opt_res_add), fp32",
        Semantics(_operands, _cycles, _bind),
    ),
)
