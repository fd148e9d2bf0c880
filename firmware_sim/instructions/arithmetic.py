"""Tensor arithmetic (AR, tsk_typ 3) on 32-bit elements: fp32 and integer words.

The result's precision only chooses between this unit and the fixed-point one: fp32 (2) and int32 (4)
mean the same here, the operation decides how the bits are read; the operands' precisions do not count.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from firmware_sim.errors import DeviceError
from firmware_sim.instructions import elementwise, fp32
from firmware_sim.instructions.function import Function, Words, of_floats, of_words, on_floats
from firmware_sim.instructions.instruction import Engine, Instruction, Run, Semantics
from firmware_sim.instructions.local_operand import WORD, is_aligned, result_shape, word_operand, word_tensor
from firmware_sim.isa import timing
from firmware_sim.isa.codes import Eu, Precision, Task
from firmware_sim.isa.footprint import Access, Constant, Dims4, Operand, Tensor, aligned_strides
from firmware_sim.isa.layout import Row
from firmware_sim.memory import Memory

WORD_PRECISIONS = frozenset({int(Precision.FP32), int(Precision.INT32)})


def _select(condition: npt.NDArray[np.bool_], value: Words) -> Words:
    return np.where(condition, value, np.uint32(0))


def _select_greater(a: Words, b: Words, value: Words) -> Words:
    return _select(fp32.greater(a.view(np.float32), b.view(np.float32)), value)


def _select_equal(a: Words, b: Words, value: Words) -> Words:
    """Equal bits, so +0 and -0 differ and a NaN equals itself."""
    return _select(np.equal(a, b), value)


def shift(a: Words, count: Words, *, arithmetic: bool) -> Words:
    """The low 6 bits of the count, signed: positive is left; bits shifted out are lost, 32 moves nothing."""
    signed = (count & np.uint32(63)).view(np.int32)
    signed = np.where(signed >= 32, signed - np.int32(64), signed)
    amount = np.abs(signed) & np.int32(31)
    if arithmetic:
        right = np.right_shift(a.view(np.int32), amount).view(np.uint32)
    else:
        right = np.right_shift(a, amount.view(np.uint32))
    out: Words = np.where(signed > 0, np.left_shift(a, amount.view(np.uint32)), right)
    return out


def _shift_arithmetic(a: Words, count: Words) -> Words:
    return shift(a, count, arithmetic=True)


def _shift_logical(a: Words, count: Words) -> Words:
    return shift(a, count, arithmetic=False)


def _copy(a: Words) -> Words:
    return a


@dataclass(frozen=True)
class Operation:
    """One operation of the unit, from which its row of the instruction table is made.

    summary: where the expression does not say it well; inputs: the operands that it takes, by their names in
    the descriptor; factor: by the vendor's functional model's estimate (timing.elementwise).
    """

    eu: Eu
    function: Function
    summary: str = ""
    inputs: tuple[str, ...] = ("opd0", "opd1")
    old: bool = False  # the result's old value is the last argument
    value: bool = False  # the constant opd2 is the last argument
    factor: float = 2  # cycles per 16 pixels

    def text(self) -> str:
        """What it computes."""
        return self.summary or str(self.function.expression)


_MULTIPLY = of_floats(fp32.mul, "opd0 * opd1")

OPERATIONS = (
    Operation(Eu.MUL, _MULTIPLY),
    Operation(
        Eu.MAC,
        _MULTIPLY.plus_old(),
        "old + opd0 * opd1, fp32, the product rounded first",
        old=True,
        factor=5,
    ),
    Operation(Eu.ADD, of_floats(fp32.add, "opd0 + opd1")),
    Operation(Eu.SUB, of_floats(fp32.sub, "opd0 - opd1")),
    Operation(
        Eu.MAX,
        of_words(on_floats(fp32.maximum), "flushed(chosen(number(opd0) > number(opd1), opd0, opd1))"),
        "opd0 > opd1 ? opd0 : opd1, fp32",
    ),
    Operation(
        Eu.MIN,
        of_words(on_floats(fp32.minimum), "chosen(number(opd0) <= number(opd1), opd0, opd1)"),
        "opd0 <= opd1 ? opd0 : opd1, fp32",
    ),
    Operation(
        Eu.SHIFT,
        of_words(_shift_logical, "shifted(opd0, opd1, false)"),
        "opd0 shifted by opd1, left when positive",
    ),
    Operation(Eu.AND, of_words(np.bitwise_and, "opd0 & opd1")),
    Operation(Eu.OR, of_words(np.bitwise_or, "opd0 | opd1")),
    Operation(Eu.XOR, of_words(np.bitwise_xor, "opd0 ^ opd1")),
    Operation(
        Eu.SELECT_GT,
        of_words(_select_greater, "chosen(number(opd0) > number(opd1), opd2, ZERO)"),
        "opd0 > opd1 ? opd2 : 0, fp32",
        value=True,
    ),
    Operation(
        Eu.SELECT_EQ,
        of_words(_select_equal, "chosen(opd0 == opd1, opd2, ZERO)"),
        "opd0 == opd1 ? opd2 : 0, on bits",
        value=True,
    ),
    Operation(
        Eu.DIV,
        of_floats(fp32.div, "quotient(opd0, opd1)"),
        "opd0 / opd1, fp32, by reciprocal square root",
        factor=30,
    ),
    Operation(Eu.COPY, of_words(_copy, "opd0"), inputs=("opd0",)),
)
BY_EU = {op.eu: op for op in OPERATIONS}

_SHIFT_ARITHMETIC = of_words(_shift_arithmetic, "shifted(opd0, opd1, true)")
"""What Eu.SHIFT computes with opt_shift_typ set."""


def _input(row: Row, name: str, shape: Dims4) -> Operand:
    """An input tensor or constant. In the aligned layout, opd1 broadcasts along n, h and w where the
    stride field is 0: its layout is then that of a tensor of size 1 there."""
    aligned = is_aligned(row, name)
    operand = word_operand(row, name, shape, aligned=aligned)
    if name != "opd1" or not aligned or isinstance(operand, Constant):
        return operand
    spread = [row["opd1_n_str"] == 0, False, row["opd1_h_str"] == 0, row["opd1_w_str"] == 0]
    n, c, h, w = (1 if s else size for s, size in zip(spread, shape, strict=True))
    strides = aligned_strides(operand.lane, (n, c, h, w), WORD)
    n_str, c_str, h_str, w_str = (0 if s else stride for s, stride in zip(spread, strides, strict=True))
    return replace(operand, strides=(n_str, c_str, h_str, w_str))


def _with_shifts(operand: Operand, row: Row) -> Operand:
    if isinstance(operand, Constant):
        return operand
    h_shift, w_shift = row[f"{operand.name}_h_shift"], row[f"{operand.name}_w_shift"]
    return replace(operand, h_shift=h_shift, w_shift=w_shift) if h_shift or w_shift else operand


def _semantics(op: Operation) -> Semantics:
    def result(row: Row) -> Tensor:
        access = Access.UPDATE if op.old else Access.WRITE
        out = word_tensor(row, "res0", result_shape(row), access, aligned=is_aligned(row, "res0"))
        shifted = _with_shifts(out, row)
        assert isinstance(shifted, Tensor)
        return shifted

    def inputs(row: Row, out: Tensor) -> tuple[Operand, ...]:
        found = [_with_shifts(_input(row, name, out.shape), row) for name in op.inputs]
        if op.value:
            if not row["opt_opd2_const"]:
                raise DeviceError(
                    "opd2: a tensor", hint="the selected value of this instruction is a constant"
                )
            found.append(Constant("opd2", row["opd2_addr"]))
        return tuple(found)

    def operands(row: Row) -> tuple[Operand, ...]:
        out = result(row)
        return (out, *inputs(row, out))

    def cycles(row: Row) -> timing.Cycles:
        out = result(row)
        return timing.elementwise(out.shape, out.lane, op.factor)

    functions = (op.function, _SHIFT_ARITHMETIC) if op.eu is Eu.SHIFT else (op.function,)

    def bind(row: Row, memory: Memory) -> Run:
        out, *found = operands(row)
        assert isinstance(out, Tensor)
        for operand in (out, *found):
            if isinstance(operand, Tensor):
                elementwise.check_aligned(operand, WORD)
        if op.old:
            found.append(out)
        function = functions[-1] if row["opt_shift_typ"] else op.function
        return function.bind(memory, tuple(found), out)

    return Semantics(operands, cycles, bind, functions)


def _match(eu: Eu, precisions: frozenset[int]) -> dict[str, frozenset[int]]:
    return {
        "tsk_typ": frozenset({int(Task.ARITHMETIC)}),
        "tsk_eu_typ": frozenset({int(eu)}),
        "opt_res0_prec": precisions,
    }


INSTRUCTIONS = tuple(
    Instruction(
        name=f"ar.{op.eu.name.lower()}",
        engine=Engine.BD,
        match=_match(op.eu, WORD_PRECISIONS),
        summary=op.text(),
        semantics=_semantics(op),
        example={"opt_opd2_const": 1} if op.value else {},
    )
    for op in OPERATIONS
)
