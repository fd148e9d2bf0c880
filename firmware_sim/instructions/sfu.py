"""The special function unit md_sfu (tsk_typ 9) on aligned 32-bit tensors, one input and one result."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from firmware_sim import chip
from firmware_sim.errors import DeviceError
from firmware_sim.instructions import elementwise, fp32
from firmware_sim.instructions.function import F32, Function, Words, of_floats, of_words
from firmware_sim.instructions.instruction import Engine, Instruction, Run, Semantics
from firmware_sim.instructions.local_operand import WORD, result_shape, word_tensor
from firmware_sim.instructions.loops import native
from firmware_sim.isa import timing
from firmware_sim.isa.codes import Eu, Task
from firmware_sim.isa.footprint import Access, Operand, Space, Tensor
from firmware_sim.isa.layout import Row
from firmware_sim.memory import Memory

_SIGN = np.uint32(0x8000_0000)
_EXPONENT = np.uint32(0x7F80_0000)
_ROUND = np.uint32(0x0055_5554)
_INT_MIN, _INT_MAX = np.int32(-0x8000_0000), np.int32(0x7FFF_FFFF)


def fp32_to_int(x: Words) -> Words:
    """Truncated and saturated; NaN counts as an infinity of its sign."""
    values = x.view(np.float32)
    fits = np.abs(values) < np.float32(2.0**31)
    out = np.where(fits, values, np.float32(0)).astype(np.int32)
    large = np.where(x & _SIGN, _INT_MIN, _INT_MAX)
    result: Words = np.where(fits, out, large).view(np.uint32)
    return result


def _rounded(x: Words) -> Words:
    """Bits whose exponent is that of the power of two next to x.

    The functional model rounds positive numbers up from the second one above 4/3 on, as many bits as that
    takes, and negative ones towards zero.
    """
    result: Words = np.where(x & _SIGN, x, x + _ROUND)
    return result


def int_normalize(x: Words) -> Words:
    """The biased exponent, rounded."""
    result: Words = np.where(x & _SIGN, x & ~_SIGN, _rounded(x)) >> np.uint32(23)
    return result


def fp32_normalize(x: Words) -> Words:
    """The power of two with the sign of x, rounded."""
    result: Words = (_rounded(x) & _EXPONENT) | (x & _SIGN)
    return result


def taylor(x: F32, coefficients: F32) -> F32:
    """sum of coefficients[k] * x**(k + 1), from the highest power down."""
    total = np.zeros_like(x)
    for coefficient in coefficients[::-1]:
        total = fp32.mul(fp32.add(total, np.array([coefficient], np.float32)), x)
    return total


def _input_and_result(row: Row) -> tuple[Tensor, Tensor]:
    shape = result_shape(row)
    out = word_tensor(row, "res0", shape, Access.WRITE, aligned=True)
    return out, word_tensor(row, "opd0", shape, Access.READ, aligned=True)


def _check(operands: tuple[Tensor, ...]) -> None:
    for tensor in operands:
        elementwise.check_aligned(tensor, chip.ALIGN_BYTES)


def _plain(function: Function, factor: float) -> Semantics:
    def bind(row: Row, memory: Memory) -> Run:
        out, x = _input_and_result(row)
        _check((out, x))
        return function.bind(memory, (x,), out)

    def cycles(row: Row) -> timing.Cycles:
        out, _ = _input_and_result(row)
        return timing.elementwise(out.shape, out.lane, factor)

    return Semantics(_input_and_result, cycles, bind, (function,))


def l2_table(row: Row, count: int, access: Access = Access.READ) -> Tensor:
    """opd1 as a table of `count` words in L2; its address is an offset there.

    Raises DeviceError when it is not a word's address or the table is empty.
    """
    offset = row["opd1_addr"]
    if offset % WORD:
        raise DeviceError(
            f"opd1: L2 offset 0x{offset:x} is not a multiple of 4", hint="align the table to 4 bytes"
        )
    if count == 0:
        raise DeviceError("opd1: a table without entries", hint="give its length")
    if offset + count * WORD > chip.L2_BYTES:
        raise DeviceError(
            f"opd1: a table of {count} words at L2 offset 0x{offset:x} reaches beyond 0x{chip.L2_BYTES:x}",
            hint="tables lie in L2 memory",
        )
    return Tensor("opd1", access, Space.L2, offset, (1, 1, 1, count), (0, 0, 0, 1), WORD)


def _taylor_operands(row: Row) -> tuple[Operand, ...]:
    return (*_input_and_result(row), l2_table(row, row["opd1_n"]))


def _taylor_bind(row: Row, memory: Memory) -> Run:
    out, x = _input_and_result(row)
    _check((out, x))
    table = l2_table(row, row["opd1_n"])
    coefficients = memory.view(table, table.parts()[0], np.float32).reshape(-1)

    def kernel(words: Words) -> Words:
        result: Words = taylor(words.view(np.float32), coefficients).view(np.uint32)
        return result

    def loop() -> native.Loop:
        return native.Loop("tables_taylor", coefficients)

    return elementwise.bind(memory, kernel, (x,), out, loop)


def _taylor_cycles(row: Row) -> timing.Cycles:
    out, _ = _input_and_result(row)
    return timing.elementwise(out.shape, out.lane, 2 + 4 * row["opd1_n"])


def _instruction(
    eu: Eu, name: str, summary: str, semantics: Semantics, example: Mapping[str, int] = MappingProxyType({})
) -> Instruction:
    match = {"tsk_typ": frozenset({int(Task.MD_SFU)}), "tsk_eu_typ": frozenset({int(eu)})}
    return Instruction(f"md_sfu.{name}", Engine.BD, match, summary, semantics, example=example)


INSTRUCTIONS = (
    _instruction(
        Eu.TAYLOR,
        "taylor",
        "sum of table[k] * opd0**(k + 1), the table in L2, fp32",
        Semantics(_taylor_operands, _taylor_cycles, _taylor_bind),
        example={"opd1_addr": chip.L2_TABLE_OFFSET, "opd1_n": 32},
    ),
    _instruction(
        Eu.FP32_TO_INT,
        "fp32_to_int",
        "fp32 to int32, truncated and saturated",
        _plain(of_words(fp32_to_int, "truncated(opd0)"), 1),
    ),
    _instruction(
        Eu.INT_NORMALIZE,
        "int_normalize",
        "biased exponent of fp32, rounded",
        _plain(
            of_words(
                int_normalize,
                f"chosen((opd0 & SIGN) != 0, opd0 & MAGNITUDE, opd0 + {_ROUND}) >> 23",
            ),
            1,
        ),
    ),
    _instruction(
        Eu.FP32_NORMALIZE,
        "fp32_normalize",
        "power of two of fp32, with its sign",
        _plain(
            of_words(
                fp32_normalize,
                f"chosen((opd0 & SIGN) != 0, opd0 & (SIGN | EXPONENT), (opd0 + {_ROUND}) & EXPONENT)",
            ),
            1,
        ),
    ),
    _instruction(
        Eu.RSQRT,
        "rsqrt",
        "1 / sqrt(opd0) in three Newton steps, fp32",
        _plain(of_floats(fp32.rsqrt, "reciprocal_root(bits(opd0))"), 27),
    ),
)
