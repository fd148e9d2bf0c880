"""Vector correlation (tsk_typ 14): an operation on all pairs of two vectors.

res0[i, j] = f(opd0[i], opd1[j]): opd0 is a vector over its channels, the last one holding opd1_w
elements; opd1 and the rows of the result lie over res0_c channels of res0_w elements.
"""

from __future__ import annotations

import math

import numpy as np

from firmware_sim import chip
from firmware_sim.errors import DeviceError
from firmware_sim.instructions import arithmetic
from firmware_sim.instructions.dense import Dense
from firmware_sim.instructions.elementwise import check_aligned, check_lanes, run_rows
from firmware_sim.instructions.function import Function
from firmware_sim.instructions.instruction import Engine, Instruction, Run, Semantics
from firmware_sim.instructions.local_operand import WORD, local_offset
from firmware_sim.instructions.loops import native
from firmware_sim.instructions.rows import EACH, Rows
from firmware_sim.isa import timing
from firmware_sim.isa.codes import Eu, Precision, Task
from firmware_sim.isa.footprint import Access, Operand, Space, Tensor, aligned_strides
from firmware_sim.isa.layout import Row
from firmware_sim.memory import Memory


def _tensor(row: Row, name: str, access: Access, n: int, c: int, w: int) -> Tensor:
    offset = local_offset(row[f"{name}_addr"], name)
    shape = (n, c, 1, w)
    strides = aligned_strides(offset // chip.LOCAL_BYTES, shape, WORD)
    return Tensor(name, access, Space.LOCAL, offset, shape, strides, WORD)


def _length(row: Row) -> int:
    """Elements of opd0. Raises DeviceError for sizes that do not fit."""
    for name in ("opd0_c", "opd0_w", "opd1_w", "res0_c", "res0_w"):
        if row[name] == 0:
            raise DeviceError(f"{name} is zero", hint="sizes start at 1")
    if row["opd1_w"] > row["opd0_w"]:
        raise DeviceError(
            f"opd1_w: opd0's last channel holds {row['opd1_w']} elements, but a channel has {row['opd0_w']}",
            hint="opd1_w is between 1 and opd0_w",
        )
    return (row["opd0_c"] - 1) * row["opd0_w"] + row["opd1_w"]


def _operands(row: Row) -> tuple[Tensor, Tensor, Tensor]:
    """res0, opd0 (its last channel as a whole: an upper bound), opd1."""
    return (
        _tensor(row, "res0", Access.WRITE, _length(row), row["res0_c"], row["res0_w"]),
        _tensor(row, "opd0", Access.READ, 1, row["opd0_c"], row["opd0_w"]),
        _tensor(row, "opd1", Access.READ, 1, row["res0_c"], row["res0_w"]),
    )


def _rows(a: Tensor, b: Tensor, out: Tensor, length: int) -> Rows | None:
    """One row for each element of opd0 and each channel of opd1; None when they are many, or in the way."""
    if not native.ready() or math.prod(out.shape) > EACH or any(t.may_overlap(out) for t in (a, b)):
        return None
    left = np.broadcast_to(a.indices().reshape(-1)[:length, None, None, None], out.shape)
    right = np.broadcast_to(b.indices(), out.shape)
    return Rows(np.stack([i.reshape(-1) for i in (out.indices(), left, right)]), 1)


def _semantics(function: Function, factor: float) -> Semantics:
    def operands(row: Row) -> tuple[Operand, ...]:
        return _operands(row)

    def bind(row: Row, memory: Memory) -> Run:
        out, a, b = _operands(row)
        check_lanes(out, (b,))
        for tensor in (out, a, b):
            check_aligned(tensor, chip.ALIGN_BYTES)
        length = _length(row)
        rows = _rows(a, b, out, length)
        first, second, target = (Dense(memory, t, np.uint32) for t in (a, b, out))
        if rows is not None:
            words = memory.flat(Space.LOCAL).view(np.uint32)
            return run_rows(function.expression.loop, [words] * 3, rows)

        def run() -> None:
            left = first.load().reshape(-1)[:length]
            right = second.load().reshape(-1)
            target.store(function.reference(left[:, None], right[None, :]).reshape(out.shape))

        return run

    def cycles(row: Row) -> timing.Cycles:
        out = _operands(row)[0]
        return timing.elementwise(out.shape, out.lane, factor)

    return Semantics(operands, cycles, bind, (function,))


_ON_BITS = {Eu.AND, Eu.OR, Eu.XOR}

INSTRUCTIONS = tuple(
    Instruction(
        f"vector_correlation.{op.eu.name.lower()}",
        Engine.BD,
        {
            "tsk_typ": frozenset({int(Task.VECTOR_CORRELATION)}),
            "tsk_eu_typ": frozenset({int(op.eu)}),
            "opt_res0_prec": frozenset({int(Precision.INT32 if op.eu in _ON_BITS else Precision.FP32)}),
        },
        f"{op.text()} for all pairs of elements of two vectors",
        _semantics(op.function, op.factor),
        example={"opd0_c": 4, "opd1_w": 16},
    )
    for op in arithmetic.OPERATIONS
    if op.eu in {Eu.MUL, Eu.ADD, Eu.SUB, Eu.MAX, Eu.MIN, Eu.AND, Eu.OR, Eu.XOR, Eu.DIV}
)
