"""The aligned element-wise units: md_scalar (8), md_linear (10), md_cmp (13), on fp32.

All tensors are in the 128-byte aligned layout; md_linear's scale and bias are one word per channel.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from firmware_sim import chip
from firmware_sim.errors import DeviceError
from firmware_sim.instructions import elementwise, fp32
from firmware_sim.instructions.arithmetic import BY_EU
from firmware_sim.instructions.function import F32, Function, Words, of_floats, of_words
from firmware_sim.instructions.instruction import Engine, Instruction, Run, Semantics
from firmware_sim.instructions.local_operand import (
    WORD,
    local_offset,
    result_shape,
    word_operand,
    word_tensor,
)
from firmware_sim.isa import timing
from firmware_sim.isa.codes import Eu, Task
from firmware_sim.isa.footprint import Access, Constant, Operand, Space, Tensor
from firmware_sim.isa.layout import Row
from firmware_sim.memory import Memory


def _match(task: Task, *eus: int) -> dict[str, frozenset[int]]:
    return {"tsk_typ": frozenset({int(task)}), "tsk_eu_typ": frozenset(eus)}


def _result(row: Row, name: str, *, update: bool = False) -> Tensor:
    access = Access.UPDATE if update else Access.WRITE
    return word_tensor(row, name, result_shape(row), access, aligned=True)


def _check(operands: tuple[Operand, ...]) -> None:
    """Whole tensors start on a line; the words per channel of md_linear on a word."""
    for operand in operands:
        if isinstance(operand, Tensor):
            per_channel = operand.strides[1] == 1 and operand.strides[0] == 0
            elementwise.check_aligned(operand, WORD if per_channel else chip.ALIGN_BYTES)


def _check_lanes(row: Row, out: Tensor) -> None:
    """md_scalar heeds the lanes that are switched off, alone among the instructions."""
    lanes = {(out.lane + c) % chip.NPU_NUM for c in range(min(out.shape[1], chip.NPU_NUM))}
    off = sorted(lane for lane in lanes if not row["tsk_lane_num"] >> lane & 1)
    if off:
        raise DeviceError(
            f"tsk_lane_num switches off lane {off[0]}, which has channels of res0: unverified here",
            hint="set all its bits",
        )


def _one_result(
    inputs: Callable[[Row], tuple[Operand, ...]],
    function: Function,
    factor: float,
    adding: Function | None = None,
) -> Semantics:
    """res0 = function(*inputs); adding: the same plus the old res0, where opt_res_add counts."""

    def function_of(row: Row) -> Function:
        return adding if adding and row["opt_res_add"] else function

    def adds(row: Row) -> bool:
        return function_of(row) is adding

    def operands(row: Row) -> tuple[Operand, ...]:
        return (_result(row, "res0", update=adds(row)), *inputs(row))

    def cycles(row: Row) -> timing.Cycles:
        out = _result(row, "res0")
        return timing.elementwise(out.shape, out.lane, factor)

    def bind(row: Row, memory: Memory) -> Run:
        out, *found = every = operands(row)
        assert isinstance(out, Tensor)
        _check(every)
        if adds(row):
            found.append(out)
        return function_of(row).bind(memory, tuple(found), out)

    functions = (function, adding) if adding else (function,)
    return Semantics(operands, cycles, bind, functions)


def _scalar_inputs(row: Row) -> tuple[Operand, ...]:
    shape = result_shape(row)
    _check_lanes(row, _result(row, "res0"))
    return tuple(word_operand(row, name, shape, aligned=True) for name in ("opd0", "opd1"))


def _per_channel(row: Row, name: str) -> Operand:
    """One word per channel, compact, broadcast over n, h and w."""
    if row[f"opt_{name}_const"]:
        return Constant(name, row[f"{name}_addr"])
    offset = local_offset(row[f"{name}_addr"], name)
    return Tensor(name, Access.READ, Space.LOCAL, offset, result_shape(row), (0, 1, 0, 0), WORD)


def _linear_inputs(row: Row) -> tuple[Operand, ...]:
    tensor = word_tensor(row, "opd0", result_shape(row), Access.READ, aligned=True)
    return tensor, _per_channel(row, "opd1"), _per_channel(row, "opd2")


def _square_inputs(row: Row) -> tuple[Operand, ...]:
    return _linear_inputs(row)[:2]


def scale_bias(a: F32, bias: F32, scale: F32) -> F32:
    """a * scale + bias, the product rounded first."""
    return fp32.add(fp32.mul(a, scale), bias)


def square_sum(a: F32, b: F32) -> F32:
    """(a + b)**2, the sum rounded first."""
    s = fp32.add(a, b)
    return fp32.mul(s, s)


def square_diff(a: F32, b: F32) -> F32:
    """(a - b)**2, the difference rounded first."""
    s = fp32.sub(a, b)
    return fp32.mul(s, s)


def choose(a: Words, b: Words, c: Words, d: Words) -> Words:
    """a > b ? c : d, compared in fp32."""
    return np.where(fp32.greater(a.view(np.float32), b.view(np.float32)), c, d)


_SCALE_BIAS = of_floats(scale_bias, "opd0 * opd2 + opd1", each=("opd1", "opd2"))
_SQUARE_SUM = of_floats(square_sum, "square(opd0 + opd1)", each=("opd1",))
_SQUARE_DIFF = of_floats(square_diff, "square(opd0 - opd1)", each=("opd1",))
_MAXIMUM = BY_EU[Eu.MAX].function
_CHOOSE = of_words(choose, "chosen(number(opd0) > number(opd1), opd2, opd3)")


def _in_turn(first: Run, second: Run) -> Run:
    def run() -> None:
        first()
        second()

    return run


# --- md_cmp: two results -------------------------------------------------------------------------

_CMP_NAMES = ("opd0", "opd1", "opd2", "opd3")


def _cmp_semantics(*, maximum: bool, select: bool) -> Semantics:
    names = _CMP_NAMES if select else _CMP_NAMES[:2]

    def outputs(row: Row) -> tuple[Tensor, ...]:
        results = (("res0", maximum), ("res1", select))
        return tuple(_result(row, name) for name, used in results if used)

    def inputs(row: Row) -> tuple[Operand, ...]:
        shape = result_shape(row)
        return tuple(word_operand(row, name, shape, aligned=True) for name in names)

    def operands(row: Row) -> tuple[Operand, ...]:
        return (*outputs(row), *inputs(row))

    def cycles(row: Row) -> timing.Cycles:
        out = outputs(row)[0]
        return timing.elementwise(out.shape, out.lane, int(maximum) + int(select))

    def bind(row: Row, memory: Memory) -> Run:
        for axis in "nhw":
            if row[f"opd0_{axis}_str"] == 0 and row[f"res0_{axis}"] > 1:
                raise DeviceError(
                    f"opd0_{axis}_str is 0 with {axis} > 1: unverified, what is compared then is undefined",
                    hint="write the stride, or leave the field at 1",
                )
        found = inputs(row)
        outs = outputs(row)
        _check((*outs, *found))
        a, b = found[:2]
        choices = ([(a, b)] if maximum else []) + ([(found[2], found[3])] if select else [])
        if not select:  # alone, the maximum flushes denormals; beside a selection it keeps them
            return _MAXIMUM.bind(memory, (a, b), outs[0])
        whole = [(a, b, *choice) for choice in choices]
        later = [t for every in whole[1:] for t in every if isinstance(t, Tensor)]
        if not any(t.may_overlap(outs[0]) for t in later):
            first, *more = (_CHOOSE.bind(memory, every, out) for out, every in zip(outs, whole, strict=True))
            return _in_turn(first, more[0]) if more else first
        bound = [elementwise.Bound(memory, choose, e, out) for out, e in zip(outs, whole, strict=True)]

        def run() -> None:
            results = [one.compute() for one in bound]
            for one, result in zip(bound, results, strict=True):
                one.store(result)

        return run

    return Semantics(operands, cycles, bind, (_CHOOSE if select else _MAXIMUM,))


def _scalar(eu: Eu, summary: str, factor: float) -> Instruction:
    """The operation of the arithmetic unit, which can add its result to the old one."""
    function = BY_EU[eu].function
    return Instruction(
        f"md_scalar.{eu.name.lower()}",
        Engine.BD,
        _match(Task.MD_SCALAR, eu),
        f"{summary}, fp32, aligned",
        _one_result(_scalar_inputs, function, factor, function.plus_old()),
    )


INSTRUCTIONS = (
    _scalar(Eu.MUL, "opd0 * opd1 (+ old with opt_res_add)", 1),
    _scalar(Eu.ADD, "opd0 + opd1 (+ old with opt_res_add)", 1),
    _scalar(Eu.SUB, "opd0 - opd1 (+ old with opt_res_add)", 1),
    _scalar(Eu.DIV, "opd0 / opd1 (+ old with opt_res_add), by reciprocal square root", 30),
    Instruction(
        "md_linear.mac",
        Engine.BD,
        _match(Task.MD_LINEAR, Eu.MAC),
        "opd0 * opd2 + opd1 (+ old with opt_res_add), opd1 and opd2 per channel, fp32, aligned",
        _one_result(_linear_inputs, _SCALE_BIAS, 4, _SCALE_BIAS.plus_old()),
    ),
    Instruction(
        "md_linear.square_sum",
        Engine.BD,
        _match(Task.MD_LINEAR, Eu.SQUARE_SUM),
        "(opd0 + opd1)**2, opd1 per channel, fp32, aligned",
        _one_result(_square_inputs, _SQUARE_SUM, 4),
    ),
    Instruction(
        "md_linear.square_diff",
        Engine.BD,
        _match(Task.MD_LINEAR, Eu.SQUARE_DIFF),
        "(opd0 - opd1)**2, opd1 per channel, fp32, aligned",
        _one_result(_square_inputs, _SQUARE_DIFF, 4),
    ),
    Instruction(
        "md_cmp.max",
        Engine.BD,
        _match(Task.MD_CMP, Eu.CMP),
        "res0 = opd0 > opd1 ? opd0 : opd1, fp32, aligned",
        _cmp_semantics(maximum=True, select=False),
    ),
    Instruction(
        "md_cmp.select",
        Engine.BD,
        _match(Task.MD_CMP, Eu.SELECT),
        "res1 = opd0 > opd1 ? opd2 : opd3, fp32 comparison, aligned",
        _cmp_semantics(maximum=False, select=True),
    ),
    Instruction(
        "md_cmp.max_select",
        Engine.BD,
        _match(Task.MD_CMP, Eu.CMP_SELECT),
        "res0 = opd0 > opd1 ? opd0 : opd1; res1 = opd0 > opd1 ? opd2 : opd3, fp32, aligned",
        _cmp_semantics(maximum=True, select=True),
    ),
)
