"""Tensor arithmetic (AR, tsk_typ 3) on 8-bit (4N) and 16-bit (2N) elements.

Sums and products are exact, shifted right with halves rounded up, and saturated. They saturate to the
unsigned range when both inputs are unsigned; differences always to the signed one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from firmware_sim import chip
from firmware_sim.errors import DeviceError
from firmware_sim.instructions import elementwise
from firmware_sim.instructions.instruction import Engine, Instruction, Run, Semantics
from firmware_sim.instructions.local_operand import explicit_strides, is_aligned, local_offset, result_shape
from firmware_sim.instructions.loops import native
from firmware_sim.instructions.packed import DensePacked, Packed, packed_rows
from firmware_sim.instructions.saturate import saturate, shift_half_up
from firmware_sim.instructions.workers import in_threads
from firmware_sim.isa import timing
from firmware_sim.isa.codes import Eu, Precision, Task
from firmware_sim.isa.footprint import Access, Constant, Dims4, Operand, Space, aligned_strides
from firmware_sim.isa.layout import Row
from firmware_sim.memory import Memory

Array = npt.NDArray[Any]

_WORD = 4
_BITS = {Precision.INT8: 8, Precision.INT16: 16}
PRECISIONS = frozenset({int(p) for p in _BITS})


def _bits(row: Row, name: str) -> int:
    """Of an operand's elements. Raises DeviceError for precisions that this unit does not know."""
    precision = row[f"opt_{name}_prec"]
    if precision not in _BITS:
        raise DeviceError(
            f"opt_{name}_prec: {precision}", hint="fixed-point operands are 8-bit (0) or 16-bit (3)"
        )
    return _BITS[Precision(precision)]


def _packed(row: Row, name: str, access: Access, shape: Dims4, bits: int) -> Packed:
    offset = local_offset(row[f"{name}_addr"], name)
    per_word = 32 // bits
    if name != "res0" and row[f"{name}_neq1"]:
        shape = (1, *shape[1:])  # one batch for all
    strides = explicit_strides(row, name)
    if is_aligned(row, name):
        for axis, stride in zip("nchw", strides, strict=True):
            if name == "opd1" and axis != "c" and not stride:
                raise DeviceError(
                    f"opd1_{axis}_str is 0 beside implied strides: unverified, what is repeated is not known",
                    hint="to repeat opd1, write its strides out (short_opd1_str 3)",
                )
        n, c, h, w = shape
        strides = aligned_strides(offset // chip.LOCAL_BYTES, (-(-n // per_word), c, h, w), _WORD)
    return Packed(
        name,
        access,
        offset,
        shape,
        strides,
        bits // 8,
        per_word,
        row[f"{name}_h_shift"],
        row[f"{name}_w_shift"],
    )


def _input(row: Row, name: str, shape: Dims4) -> Packed | Constant:
    if row[f"opt_{name}_const"]:
        return Constant(name, row[f"{name}_addr"])
    return _packed(row, name, Access.READ, shape, _bits(row, name))


class _Source:
    """An input ready to load as wide integers that broadcast to the result's shape."""

    def __init__(self, row: Row, memory: Memory, operand: Packed | Constant) -> None:
        bits, signed = _bits(row, operand.name), bool(row[f"opt_{operand.name}_sign"])
        kind = np.dtype(f"{'i' if signed else 'u'}{bits // 8}").type
        self._load: Callable[[], Array]
        if isinstance(operand, Constant):
            value = np.array([operand.bits & ((1 << bits) - 1)], f"u{bits // 8}").view(kind).astype(np.int32)
            self._load = value.reshape(1, 1, 1, 1).copy
        else:
            self._load = DensePacked(memory, operand, kind).load

    def load(self) -> Array:
        return self._load().astype(np.int32)


@dataclass(frozen=True)
class _Finish:
    """How the exact value becomes a result."""

    bits: int
    unsigned_inputs: bool
    shift: int

    def __call__(self, values: Array, *, signed: bool | None = None) -> Array:
        to_signed = not self.unsigned_inputs if signed is None else signed
        return saturate(shift_half_up(values.astype(np.int64), self.shift), self.bits, to_signed)


def _wrapped(values: Array, bits: int) -> Array:
    """The low bits, as the unsigned type that holds them."""
    return (values & ((1 << bits) - 1)).astype(f"u{bits // 8}")


def _shifted(a: Array, count: Array) -> Array:
    """a << count or a >> -count by the low 8 bits of the count, signed.

    `a` holds its sign, so the shift to the right is arithmetic where signed.
    """
    count = ((count & 0xFF) ^ 0x80) - 0x80
    left = np.left_shift(a, np.clip(count, 0, 31))
    right = np.right_shift(a, np.clip(-count, 0, 31))
    out: Array = np.where(count > 0, left, right)
    return out


Widths = frozenset[tuple[int, ...]]

# bits of the inputs and of the result that an operation takes; with others nobody tells what it does
_ALIKE: Widths = frozenset({(8, 8, 8), (16, 16, 16)})
_PRODUCT: Widths = frozenset({(8, 8, 8), (8, 8, 16)})


@dataclass(frozen=True)
class _Operation:
    eu: Eu
    summary: str
    result: Callable[[Array, Array, Array, _Finish, Row], Array]
    inputs: tuple[str, ...] = ("opd0", "opd1")
    old: bool = False
    factor: float = 2
    widths: Widths | None = None  # None: all


_OPERATIONS = (
    _Operation(Eu.MUL, "opd0 * opd1", lambda a, b, old, finish, row: finish(a * b), widths=_PRODUCT),
    _Operation(
        Eu.MAC,
        "opd0 * opd1 + (old << opt_left_shift), old 16-bit",
        lambda a, b, old, finish, row: finish(a * b + (old << row["opt_left_shift"])),
        old=True,
        factor=5,
        widths=frozenset({(8, 8, 16)}),
    ),
    _Operation(Eu.ADD, "opd0 + opd1", lambda a, b, old, finish, row: finish(a + b)),
    _Operation(Eu.SUB, "opd0 - opd1", lambda a, b, old, finish, row: finish(a - b, signed=True)),
    _Operation(
        Eu.MAX,
        "the greater of opd0 and opd1",
        lambda a, b, old, finish, row: _wrapped(np.maximum(a, b), finish.bits),
        widths=_ALIKE,
    ),
    _Operation(
        Eu.MIN,
        "the smaller of opd0 and opd1",
        lambda a, b, old, finish, row: _wrapped(np.minimum(a, b), finish.bits),
        widths=_ALIKE,
    ),
    _Operation(
        Eu.SHIFT,
        "opd0 shifted by opd1, left when positive",
        lambda a, b, old, finish, row: _wrapped(_shifted(a, b), finish.bits),
        widths=frozenset({(16, 16, 16)}),
    ),
    _Operation(
        Eu.AND, "opd0 & opd1", lambda a, b, old, finish, row: _wrapped(a & b, finish.bits), widths=_ALIKE
    ),
    _Operation(
        Eu.OR, "opd0 | opd1", lambda a, b, old, finish, row: _wrapped(a | b, finish.bits), widths=_ALIKE
    ),
    _Operation(
        Eu.XOR, "opd0 ^ opd1", lambda a, b, old, finish, row: _wrapped(a ^ b, finish.bits), widths=_ALIKE
    ),
    _Operation(
        Eu.COPY,
        "opd0",
        lambda a, b, old, finish, row: _wrapped(a, finish.bits),
        inputs=("opd0",),
        widths=frozenset({(8, 8), (16, 16)}),
    ),
)


def _apart(out: Packed, inputs: list[Packed], *, old: bool) -> bool:
    """Whether elements can be worked on one after the other: no result is read later as an input."""
    written = out.tensors()
    itself = any(t.may_overlap_itself() for t in written)
    if old and itself:
        return False
    for each in inputs:
        alike = (each.offset, each.shape, each.strides, each.itemsize, each.h_shift, each.w_shift)
        same = alike == (out.offset, out.shape, out.strides, out.itemsize, out.h_shift, out.w_shift)
        if (itself or not same) and any(t.may_overlap(o) for t in each.tensors() for o in written):
            return False
    return True


def _bind_rows(
    row: Row,
    memory: Memory,
    op: _Operation,
    out: Packed,
    inputs: list[Packed | Constant],
    *,
    signed: bool,
    old_signed: bool,
) -> Run | None:
    """The operation as a compiled loop; None for large operands that overlap in other ways than in place."""
    if not native.ready():
        return None
    packed = [operand for operand in inputs if isinstance(operand, Packed)]
    if math.prod(out.shape) > native.fixed_block() and not _apart(out, packed, old=op.old):
        return None
    prepared = packed_rows([out, *packed])
    if prepared is None:
        return None
    rows, (out_step, *steps) = prepared
    local = memory.flat(Space.LOCAL)
    first, *found = rows.at
    starts, arguments, how = [first], [local], [int(op.eu)]
    for operand in inputs:
        step = 0 if isinstance(operand, Constant) else steps.pop(0)
        if isinstance(operand, Constant):
            starts.append(np.zeros_like(first))
            arguments.append(np.array([operand.bits], np.uint32).view(np.uint8))
        else:
            starts.append(found.pop(0))
            arguments.append(local)
        how += [_bits(row, operand.name), row[f"opt_{operand.name}_sign"], step]
    if len(inputs) == 1:
        starts.append(starts[1])
        arguments.append(arguments[1])
        how += how[1:4]
    how += [_bits(row, "res0"), signed, out_step, row["opt_right_shift"], row["opt_left_shift"], old_signed]
    parameters = np.array(how, np.int64)
    return in_threads(
        [
            native.bound("fixed_arithmetic", *arguments, at, rows.width, parameters)
            for at in replace(rows, at=np.stack(starts)).pieces()
        ]
    )


def _semantics(op: _Operation) -> Semantics:
    def packed(row: Row) -> tuple[Packed, list[Packed | Constant]]:
        shape = result_shape(row)
        access = Access.UPDATE if op.old else Access.WRITE
        out = _packed(row, "res0", access, shape, _bits(row, "res0"))
        return out, [_input(row, name, shape) for name in op.inputs]

    def operands(row: Row) -> tuple[Operand, ...]:
        out, inputs = packed(row)
        found: list[Operand] = list(out.tensors())
        for operand in inputs:
            found += (operand,) if isinstance(operand, Constant) else operand.tensors()
        return tuple(found)

    def check_widths(row: Row) -> None:
        names = (*op.inputs, "res0")
        bits = tuple(_bits(row, name) for name in names)
        if op.widths is not None and bits not in op.widths:
            given = ", ".join(f"{name} {b}-bit" for name, b in zip(names, bits, strict=True))
            known = " or ".join("/".join(map(str, widths)) for widths in sorted(op.widths))
            raise DeviceError(
                f"{given}: unverified, no source tells what it does with these widths",
                hint=f"{'/'.join(names)} are {known} bits wide here (opt_*_prec)",
            )

    def bind(row: Row, memory: Memory) -> Run:
        check_widths(row)
        out, inputs = packed(row)
        first = out.tensors()[0]
        elementwise.check_aligned(first, _WORD)
        for operand in inputs:
            if isinstance(operand, Packed):
                elementwise.check_aligned(operand.tensors()[0], _WORD)
        sources = [_Source(row, memory, operand) for operand in inputs]
        if op.eu in (Eu.MAX, Eu.MIN) and row["opt_opd0_sign"] != row["opt_opd1_sign"]:
            raise DeviceError(
                "opt_opd0_sign and opt_opd1_sign differ",
                hint="a maximum or minimum compares two signed or two unsigned operands",
            )
        unsigned = not any(row[f"opt_{name}_sign"] for name in op.inputs)
        finish = _Finish(_bits(row, "res0"), unsigned, row["opt_right_shift"])
        target = DensePacked(memory, out, np.dtype(f"u{out.itemsize}").type)
        old_kind = np.uint16 if unsigned else np.int16  # opt_res_add_sign does not count
        none = np.zeros((1, 1, 1, 1), np.int32)
        signed = op.eu == Eu.SUB or not unsigned
        compiled = _bind_rows(row, memory, op, out, inputs, signed=signed, old_signed=not unsigned)
        if compiled is not None:
            return compiled

        def run() -> None:
            a, *more = [source.load() for source in sources]
            old = target.load().view(old_kind).astype(np.int64) if op.old else none
            result = op.result(a, more[0] if more else none, old, finish, row)
            target.store(np.broadcast_to(result, out.shape))

        return run

    def cycles(row: Row) -> timing.Cycles:
        out, _ = packed(row)
        n, c, h, w = out.shape
        return timing.elementwise((-(-n // out.per_word), c, h, w), out.offset // chip.LOCAL_BYTES, op.factor)

    return Semantics(operands, cycles, bind)


def _example(op: _Operation) -> dict[str, int]:
    """All widths the least that it takes, signed inputs."""
    precisions = {bits: precision for precision, bits in _BITS.items()}
    widths = min(op.widths or _ALIKE)
    names = (*op.inputs, "res0")
    given = {f"opt_{name}_prec": int(precisions[bits]) for name, bits in zip(names, widths, strict=True)}
    return {**given, "opt_opd0_sign": 1}


INSTRUCTIONS = tuple(
    Instruction(
        f"ar.fixed.{op.eu.name.lower()}",
        Engine.BD,
        {
            "tsk_typ": frozenset({int(Task.ARITHMETIC)}),
            "tsk_eu_typ": frozenset({int(op.eu)}),
            "opt_res0_prec": PRECISIONS,
        },
        f"{op.summary}, 8-bit (4N) and 16-bit (2N) elements",
        _semantics(op),
        example=_example(op),
    )
    for op in _OPERATIONS
)
