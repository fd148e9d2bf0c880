"""Depthwise convolution and pooling (tsk_typ 1): each output channel sees one input channel.

tsk_eu_typ 1 multiplies and adds (depthwise convolution; average and sum pools with a constant weight),
any other takes the maximum. fp32: two chains of sums by the parity of the tap, then bias. A maximum
starts at the lowest number, which is also what padding holds, and passes over NaN.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from firmware_sim.errors import DeviceError
from firmware_sim.instructions import conv_operands as parts
from firmware_sim.instructions import conv_tiles, fp32, small, sums, workers
from firmware_sim.instructions.conv import Fixed, bias_of, fixed_of, kernel_of
from firmware_sim.instructions.dense import Array, Dense
from firmware_sim.instructions.instruction import Engine, Instruction, Run, Semantics
from firmware_sim.instructions.loops import native
from firmware_sim.instructions.packed import DensePacked, Packed
from firmware_sim.instructions.rows import planes_at
from firmware_sim.instructions.window import EXAMPLE, Planes, Window, window_of
from firmware_sim.isa import timing
from firmware_sim.isa.codes import Eu, Precision, Task
from firmware_sim.isa.footprint import Access, Constant, Operand, Space, Tensor
from firmware_sim.isa.layout import Row
from firmware_sim.memory import Memory

_LOWEST = np.float32(np.finfo(np.float32).min)
_MAXIMA = frozenset(range(32)) - {int(Eu.MAC)}
_COST = 8  # of a product here, in those of a convolution
_AVERAGE_TABLE = 256  # kernel sizes for which 8-bit average pools have a weight of their own
_AVERAGE_KNOWN = 225  # beyond, up to the table's end, that weight is zero


def _weight(row: Row, itemsize: int) -> Operand:
    if row["opt_opd1_const"]:
        return Constant("opd1", row["opd1_addr"])
    return parts.per_channel(row, "opd1", (1, row["res0_c"], *kernel_of(row)), itemsize)


def _planes(row: Row) -> Planes:
    """The windows as the functional model takes them: a maximum has no dilation, and in fp32 no inserted
    zeros; an 8-bit average covers the whole extent of its dilated kernel."""
    rows, columns = window_of(row, "h"), window_of(row, "w")
    maximum = row["tsk_eu_typ"] != Eu.MAC
    fixed = row["opt_res0_prec"] in (Precision.INT8, Precision.INT16)
    if maximum:
        rows, columns = replace(rows, dilation=1), replace(columns, dilation=1)
        if not fixed:
            rows, columns = replace(rows, insert=0), replace(columns, insert=0)
    elif fixed and row["opt_opd1_const"]:
        rows, columns = _filled(rows), _filled(columns)
    return Planes(rows, columns, whole=False)


def _filled(window: Window) -> Window:
    return replace(window, kernel=(window.kernel - 1) * window.dilation + 1, dilation=1)


def _cycles(row: Row) -> timing.Cycles:
    n, packed = row["res0_n"], row["opt_res0_prec"] in (Precision.INT8, Precision.INT16)
    return timing.depthwise(
        (-(-n // parts.BATCHES) if packed else n, row["res0_c"], row["res0_h"], row["res0_w"]),
        parts.lane_of(row),
        kernel_of(row),
        row["res_op_x_str"],
        bias=row["tsk_opd_num"] == 3,
    )


def _maximum(planes: Planes, laid: Array, lowest: Array) -> Array:
    """Maximum over all taps of planes [rows, plane] -> [rows, count]; NaN is never greater."""
    out = np.full((len(laid), planes.count), lowest, laid.dtype)
    for at in planes.offsets.tolist():
        x = laid[:, at : at + planes.count]
        if x.dtype == np.float32:
            np.copyto(out, fp32.flush(x), where=fp32.greater(x, out))
        else:
            np.maximum(out, x, out=out)
    return out


def _cropped(planes: Planes, numbers: Array, lead: tuple[int, int]) -> Array:
    """[n * c, count] -> [n, c, h, w]."""
    whole = np.empty((len(numbers), planes.room), numbers.dtype)
    whole[:, : planes.count] = numbers
    pixels = planes.crop(whole)
    return pixels.reshape(*lead, *pixels.shape[1:])


# --- fp32 ----------------------------------------------------------------------------------------


def _fp32_operands(row: Row) -> tuple[Operand, ...]:
    out = parts.result(row, Access.WRITE)
    x = parts.neuron(row, row["res0_c"], explicit=False)
    if row["tsk_eu_typ"] != Eu.MAC:
        return out, x
    return out, x, _weight(row, parts.WORD), *parts.bias(row, parts.WORD)


def _fp32_bind(row: Row, memory: Memory) -> Run:
    operands = _fp32_operands(row)
    parts.check(row, operands)
    out, x = operands[:2]
    assert isinstance(out, Tensor) and isinstance(x, Tensor)
    planes = _planes(row)
    source, target = Dense(memory, x, np.float32), Dense(memory, out, np.float32)
    n, c = out.shape[:2]

    x_at = None
    if small.wanted(math.prod(out.shape) * len(planes.offsets)):
        x_at = small.seen(planes, x.indices())
        if len(operands) == 2:
            return small.bind_maxima(memory, x_at, out)

    def laid(fill: float) -> Array:
        values = planes.lay(source.load(), fill, np.float32)
        return values.reshape(n * c, planes.plane)

    def run_maximum() -> None:
        target.store(_cropped(planes, _maximum(planes, laid(_LOWEST), _LOWEST), (n, c)))

    if len(operands) == 2:
        return _fp32_planes(memory, planes, operands) or run_maximum
    weight = operands[2]
    taps = len(planes.offsets)
    weights = Dense(memory, weight, np.float32) if isinstance(weight, Tensor) else None
    constant = np.array([weight.bits if isinstance(weight, Constant) else 0], np.uint32).view(np.float32)
    added = [Dense(memory, b, np.float32) for b in operands[3:] if isinstance(b, Tensor)]

    if x_at is not None:
        w_at = weight.indices() if isinstance(weight, Tensor) else np.zeros((1, taps), np.int64)
        return small.bind_products(
            memory,
            x_at.reshape(n * c, -1, taps).swapaxes(1, 2),
            np.tile(np.broadcast_to(w_at.reshape(-1, taps), (c, taps)), (n, 1)),
            weight.bits if isinstance(weight, Constant) else None,
            out,
            [b.indices() for b in operands[3:] if isinstance(b, Tensor)],
        )

    compiled = _fp32_planes(memory, planes, operands)
    if compiled is not None:
        return compiled

    def run() -> None:
        one = weights.load().reshape(c, taps) if weights else np.broadcast_to(constant, (c, taps))
        every = np.ascontiguousarray(np.tile(one, (n, 1)))
        if taps == 1:  # no sum: a product of -0 stays
            numbers = fp32.mul(laid(0)[:, : planes.count], every)
        else:
            numbers = np.empty((n * c, planes.count), np.float32)
            sums.separate(laid(0), every, planes.offsets, numbers)
        results = _cropped(planes, numbers, (n, c))
        for b in added:
            results = fp32.add(results, b.load())
        target.store(results)

    return run


def _fp32_planes(memory: Memory, planes: Planes, operands: tuple[Operand, ...]) -> Run | None:
    """A function that performs the operation by compiled loops which read and write local memory themselves,
    one plane after the other; the operands must lie in their memories. None where it is not a sum, where the
    result overlaps an operand, and where the processor does not flush as the chip does."""
    out, x, *more = operands
    assert isinstance(out, Tensor) and isinstance(x, Tensor)
    if not native.ready() or any(out.may_overlap(t) for t in (x, *more) if isinstance(t, Tensor)):
        return None
    if more and len(planes.offsets) == 1:
        return None
    words = memory.flat(Space.LOCAL).view(np.float32)
    n, c = out.shape[:2]
    layout, *places = conv_tiles.layout_of(planes, x)
    pitch, width = planes.pitch, planes.columns.result
    if pitch == width:  # nothing to leave out: one long row
        pitch = width = planes.count
    how = np.array([*layout, planes.plane, pitch, width, planes.count], np.int64)
    x_at, out_at = planes_at(x).reshape(-1), planes_at(out).reshape(-1)
    cuts = workers.cut(n * c, 1, workers.pieces(_COST * out_at.size * planes.count * len(planes.offsets)))
    if not more:
        given: native.Arguments = (words, x_at, how, *places, planes.offsets, out_at)
        return workers.in_threads([native.bound("windows_maxima", *given, i, j) for i, j in cuts])
    weight, *bias = more
    if isinstance(weight, Tensor):
        source, w_at = words, np.tile(planes_at(weight).reshape(-1), n)
    else:
        assert isinstance(weight, Constant)
        source = np.full(len(planes.offsets), weight.bits, np.uint32).view(np.float32)
        w_at = np.zeros(n * c, np.int64)
    bias_at = [np.tile(planes_at(b).reshape(-1), n) for b in bias if isinstance(b, Tensor)]
    added = bias_at[0] if bias_at else np.zeros(0, np.int64)
    at: native.Arguments = (x_at, how, *places, planes.offsets, w_at, added, out_at)
    operation = words, source, *at
    return workers.in_threads([native.bound("windows_depthwise", *operation, i, j) for i, j in cuts])


# --- 8-bit ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _FixedOperands:
    out: Packed
    x: Packed
    weight: Operand | None  # none for a maximum
    bias: tuple[Tensor, ...]

    def all(self) -> tuple[Operand, ...]:
        weight = () if self.weight is None else (self.weight,)
        return (*self.out.tensors(), *self.x.tensors(), *weight, *self.bias)


def _fixed_operands(row: Row, itemsize: int) -> _FixedOperands:
    out = parts.packed_result(row, itemsize)
    x = parts.packed_neuron(row, row["res0_c"], explicit=False)
    if row["tsk_eu_typ"] != Eu.MAC:
        return _FixedOperands(out, x, None, ())
    weight = _weight(row, 1)
    # an average takes no bias
    return _FixedOperands(out, x, weight, () if isinstance(weight, Constant) else parts.bias(row, 2))


def average_weight(size: int, constant: int) -> int:
    """The 8-bit weight of an average pool over `size` elements: the odd part of 2**e / size, rounded, with
    e such that it lies in 128..255 (a shift later makes up for 2**e). The functional model looks it up
    in a table that ends at 225; past the table's room of 256 the descriptor's constant counts."""
    if size >= _AVERAGE_TABLE:
        return constant & 0xFF
    if size > _AVERAGE_KNOWN:
        return 0
    value, power = 1, 1
    while value < 128:
        power *= 2
        value = (2 * power + size) // (2 * size)
    while value % 2 == 0:
        value //= 2
    return value


def _average(row: Row) -> int:
    h, w = kernel_of(row)
    return average_weight(h * w, row["opd1_addr"])


def _fixed_sums(planes: Planes, laid: Array, weights: Array) -> Array:
    """laid int32 [rows, plane], weights int32 [rows, taps] -> int32 [rows, count]."""
    out = np.zeros((len(laid), planes.count), np.int32)
    for t, at in enumerate(planes.offsets.tolist()):
        out += laid[:, at : at + planes.count] * weights[:, t, None]
    return out


def _fixed_weights(load: Dense | None, row: Row, fixed: Fixed, channels: int, taps: int) -> Array:
    kind = np.int8 if fixed.weight_signed else np.uint8
    if load is not None:
        return load.load().view(kind).reshape(channels, taps).astype(np.int32)
    value = np.array([_average(row)], np.uint8).view(kind)
    return np.broadcast_to(value.astype(np.int32), (channels, taps))


def _fixed_bind(row: Row, memory: Memory, bits: int) -> Run:
    if row["opt_opd0_prec"] != Precision.INT8:
        raise DeviceError(
            f"opt_opd0_prec: {row['opt_opd0_prec']}",
            hint="the input of this instruction is 8-bit: set it to 0",
        )
    operands = _fixed_operands(row, bits // 8)
    parts.check(row, operands.all())
    planes, fixed = _planes(row), fixed_of(row, bits)
    if row["opt_opd1_const"]:  # the result of an average has its input's sign
        fixed = replace(fixed, signed=fixed.input_signed and not fixed.relu)
    n, c, _, _ = operands.out.shape
    kind = np.int8 if fixed.input_signed else np.uint8
    source = DensePacked(memory, operands.x, kind)
    target = DensePacked(memory, operands.out, np.uint8 if bits == 8 else np.uint16)
    weight = operands.weight

    def run_maximum() -> None:
        lowest = np.array(np.iinfo(kind).min, kind)
        laid = planes.lay(source.load(), lowest, kind).reshape(n * c, planes.plane)
        results = _cropped(planes, _maximum(planes, laid, lowest), (n, c))
        if fixed.relu:  # the sign bit counts also where the input is unsigned
            results = np.maximum(results.view(np.int8), np.int8(0))
        target.store(results.view(np.uint8))

    x_at = None
    if small.wanted(math.prod(operands.out.shape) * len(planes.offsets)):
        x_at = small.seen(planes, small.element_bytes(operands.x))
    if weight is None:
        if row["opt_right_shift"]:
            raise DeviceError(
                f"opt_right_shift: {row['opt_right_shift']}", hint="a maximum is not shifted: set it to 0"
            )
        if x_at is None:
            return _fixed_planes(memory, planes, operands, fixed, None) or run_maximum
        signed = fixed.input_signed
        return small.bind_fixed_maxima(memory, x_at, operands.out, signed=signed, relu=fixed.relu)
    taps = len(planes.offsets)
    weights = Dense(memory, weight, np.uint8) if isinstance(weight, Tensor) else None
    added = Dense(memory, operands.bias[0], np.uint16) if operands.bias else None
    constant = None if isinstance(weight, Tensor) else _average(row)
    if x_at is not None:
        w_at = weight.indices() if isinstance(weight, Tensor) else np.zeros((1, taps), np.int64)
        return small.bind_fixed_products(
            memory,
            (x_at.reshape(n * c, -1, taps), fixed.input_signed),
            (w_at.reshape(-1, 1, taps), fixed.weight_signed),
            constant,
            operands.out,
            operands.bias[0] if operands.bias else None,
            fixed.small(),
        )
    compiled = _fixed_planes(memory, planes, operands, fixed, constant)
    if compiled is not None:
        return compiled

    def run() -> None:
        laid = planes.lay(source.load(), 0, np.int32).reshape(n * c, planes.plane)
        one = _fixed_weights(weights, row, fixed, c, taps)
        numbers = _fixed_sums(planes, laid, np.tile(one, (n, 1)))
        total = _cropped(planes, numbers, (n, c))
        target.store(fixed.finish(total, bias_of(added, fixed.bias_signed)))

    return run


def _fixed_planes(
    memory: Memory, planes: Planes, operands: _FixedOperands, fixed: Fixed, constant: int | None
) -> Run | None:
    """A function that performs the operation by compiled loops which read and write local memory
    themselves, one plane after the other; the operands must lie in their memories. constant: the byte of all
    weights. None where sums may leave 32 bits, where the result overlaps an operand, and where no word
    begins."""
    finish, taps = fixed.small(), len(planes.offsets)
    if not native.ready() or operands.x.offset % parts.WORD or not finish.fits(taps):
        return None
    (n, c), groups = operands.out.shape[:2], -(-operands.out.shape[0] // parts.BATCHES)
    out, x = operands.out.words(groups), operands.x.words(groups)
    weight, bias = operands.weight, operands.bias[0] if operands.bias else None
    if any(out.may_overlap(t) for t in (x, weight, bias) if isinstance(t, Tensor)):
        return None
    local = memory.flat(Space.LOCAL)
    layout, *places = conv_tiles.layout_of(planes, x)
    pitch, width = planes.pitch, planes.columns.result
    if pitch == width:  # nothing to leave out: one long row
        pitch = width = planes.count
    how = np.array([*layout, planes.plane, pitch, width, planes.count, c, n], np.int64)
    x_at, out_at = planes_at(x).reshape(-1), planes_at(out).reshape(-1)
    seen: native.Arguments = (x_at, how, *places, planes.offsets)
    cuts = workers.cut(groups * c, 1, workers.pieces(_COST * out_at.size * planes.count * taps))
    if weight is None:
        given = local, *seen, out_at, fixed.input_signed, fixed.relu
        return workers.in_threads([native.bound("windows_fixed_maxima", *given, i, j) for i, j in cuts])
    if isinstance(weight, Tensor):
        source, w_at = local, np.tile(planes_at(weight).reshape(-1), groups)
    else:
        source, w_at = np.full(taps, constant, np.uint8), np.zeros(groups * c, np.int64)
    added = np.zeros(0, np.int64) if bias is None else np.tile(planes_at(bias).reshape(-1), groups)
    signs = fixed.input_signed, fixed.weight_signed
    operation = local, source, *seen, w_at, added, out_at, *signs, finish.of_words()
    return workers.in_threads([native.bound("windows_fixed_sums", *operation, i, j) for i, j in cuts])


def _fixed_semantics(bits: int) -> Semantics:
    return Semantics(
        lambda row: _fixed_operands(row, bits // 8).all(),
        _cycles,
        lambda row, memory: _fixed_bind(row, memory, bits),
    )


def _match(eu: frozenset[int], *precisions: Precision) -> dict[str, frozenset[int]]:
    return {
        "tsk_typ": frozenset({int(Task.DEPTHWISE)}),
        "tsk_eu_typ": eu,
        "opt_res0_prec": frozenset(map(int, precisions)),
    }


_MAC = frozenset({int(Eu.MAC)})
_FIXED_EXAMPLE = {**EXAMPLE, "opt_opd0_prec": int(Precision.INT8)}

INSTRUCTIONS = (
    Instruction(
        "depthwise.fp32",
        Engine.BD,
        _match(_MAC, Precision.FP32, Precision.INT32),
        "depthwise convolution, average or sum pool (constant weight) (+ bias), fp32",
        Semantics(_fp32_operands, _cycles, _fp32_bind),
        example=EXAMPLE,
    ),
    Instruction(
        "max_pool.fp32",
        Engine.BD,
        _match(_MAXIMA, Precision.FP32, Precision.INT32),
        "maximum over a window, fp32",
        Semantics(_fp32_operands, _cycles, _fp32_bind),
        example=EXAMPLE,
    ),
    Instruction(
        "depthwise.int8",
        Engine.BD,
        _match(_MAC, Precision.INT8),
        "depthwise convolution or average pool of 8-bit elements (4N) (+ 16-bit bias)",
        _fixed_semantics(8),
        example=_FIXED_EXAMPLE,
    ),
    Instruction(
        "max_pool.int8",
        Engine.BD,
        _match(_MAXIMA, Precision.INT8),
        "maximum over a window of 8-bit elements (4N)",
        _fixed_semantics(8),
        example=_FIXED_EXAMPLE,
    ),
    Instruction(
        "depthwise.int8_to_int16",
        Engine.BD,
        {**_match(_MAC, Precision.INT16), "opt_opd1_const": frozenset({0})},
        "depthwise convolution of 8-bit elements (4N) (+ 16-bit bias), 16-bit result, four batches "
        "to 64 bits",
        _fixed_semantics(16),
        example=_FIXED_EXAMPLE,
    ),
)
