"""Convolution (tsk_typ 0): fp32, 8-bit, and 8-bit with a 16-bit result.

Weights hold, per element, a pair of input channels (fp32, 8 bytes) or four (8-bit, 4 bytes); an input
channel that a group lacks counts as zero. fp32 taps are numbered (kh * KW + kw) * pairs + pair: per
parity of the input channel two chains by the parity of the tap, then bias, then the old result.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from firmware_sim import chip
from firmware_sim.errors import DeviceError
from firmware_sim.instructions import conv_fixed_tiles, conv_tiles, fp32, small, sums
from firmware_sim.instructions import conv_operands as parts
from firmware_sim.instructions.dense import Array, Dense
from firmware_sim.instructions.instruction import Engine, Instruction, Run, Semantics
from firmware_sim.instructions.packed import DensePacked, Packed
from firmware_sim.instructions.saturate import saturate, shift_half_up
from firmware_sim.instructions.window import EXAMPLE, Planes, window_of
from firmware_sim.isa import timing
from firmware_sim.isa.codes import Precision, Task
from firmware_sim.isa.footprint import Access, Constant, Operand, Tensor
from firmware_sim.isa.layout import Row
from firmware_sim.memory import Memory


def _planes(row: Row) -> Planes:
    return Planes(window_of(row, "h"), window_of(row, "w"), whole=True)


def channels_of(row: Row) -> int:
    """Input channels of a descriptor. Raises DeviceError when there are none."""
    channels = row["opd0_c"]
    if channels == 0:
        raise DeviceError("opd0: no channels", hint="sizes start at 1")
    return channels


def _weight(row: Row, group: int, itemsize: int, kernel: tuple[int, int]) -> Operand:
    if row["opt_opd1_const"]:
        return Constant("opd1", row["opd1_addr"])
    h, w = kernel
    channels, out = -(-channels_of(row) // group), row["res0_c"]
    slots = -(-(parts.lane_of(row) + out) // chip.NPU_NUM)  # weights start on the result's lane
    return parts.weight(row, (channels, out, h, w), itemsize, default=(h * w * slots, h * w, w, 1))


def kernel_of(row: Row) -> tuple[int, int]:
    """The kernel's (height, width) in taps, without dilation."""
    return row["opd1_h"], row["opd1_w"]


def _turned(row: Row, weights: Array) -> Array:
    """Weights [..., h, w] as they meet the input."""
    turned: Array = weights[..., ::-1, ::-1] if row["opt_kernel_rotate"] else weights
    return turned


# --- fp32 ----------------------------------------------------------------------------------------


def _fp32_operands(row: Row) -> tuple[Operand, ...]:
    access = Access.UPDATE if row["opt_res_add"] else Access.WRITE
    return (
        parts.result(row, access),
        parts.neuron(row, channels_of(row), explicit=True),
        _weight(row, 2, parts.PAIR, kernel_of(row)),
        *parts.bias(row, parts.WORD),
    )


def _fp32_weights(row: Row, load: Dense | None, constant: int, channels: int) -> Array:
    """[parity of the input channel, output channel, tap], missing input channels zero."""
    h, w = kernel_of(row)
    pairs = -(-channels // 2)
    if load is None:
        both = np.full((2, row["res0_c"], h * w * pairs), constant, np.uint32).view(np.float32)
    else:
        words = np.ascontiguousarray(_turned(row, load.load())).view(np.float32)
        pair = words.reshape(pairs, row["res0_c"], h, w, 2)
        both = np.ascontiguousarray(pair.transpose(4, 1, 2, 3, 0)).reshape(2, row["res0_c"], -1)
    if channels % 2:
        both[1].reshape(row["res0_c"], h * w, pairs)[:, :, -1] = 0
    return both


def _fp32_sums(planes: Planes, x: Array, weights: Array) -> Array:
    """One batch: x [channels, h, w] -> [output channels, h, w] without bias."""
    channels = len(x)
    pairs = -(-channels // 2)
    laid = np.zeros((2 * pairs, planes.plane), np.float32)
    laid[:channels] = planes.lay(x, 0, np.float32)
    halves = np.ascontiguousarray(laid.reshape(pairs, 2, planes.plane).transpose(1, 0, 2)).reshape(2, -1)
    base = (planes.offsets[:, None] + np.arange(pairs)[None, :] * planes.plane).reshape(-1)
    numbers = np.empty((weights.shape[1], planes.room), np.float32)
    sums.shared(halves, weights, base, numbers[:, : planes.count])
    return planes.crop(numbers)


def _fp32_small(
    row: Row, memory: Memory, planes: Planes, operands: tuple[Operand, ...], adds_old: bool
) -> Run | None:
    """The convolution through tables of indices, or None when it is not small."""
    out, x, weight, *bias = operands
    assert isinstance(out, Tensor) and isinstance(x, Tensor)
    n, channels = x.shape[:2]
    pairs, (h, w), oc = -(-channels // 2), kernel_of(row), row["res0_c"]
    if not small.wanted(math.prod(out.shape) * 2 * pairs * h * w):
        return None
    at = np.full((n, 2 * pairs, *x.shape[2:]), small.NOTHING)
    at[:, :channels] = x.indices()
    x_at = small.seen(planes, at).reshape(n, pairs, 2, -1, h * w).transpose(0, 2, 4, 1, 3)
    constant = weight.bits if isinstance(weight, Constant) else None
    if isinstance(weight, Constant):
        w_at = np.zeros((2, oc, h * w, pairs), np.int64)
    else:
        both = _turned(row, weight.indices())[..., None] * 2 + np.arange(2)
        w_at = both.transpose(4, 1, 2, 3, 0).reshape(2, oc, h * w, pairs)
    if channels % 2:
        w_at[1, :, :, -1] = small.NOTHING
    added = [b.indices() for b in bias if isinstance(b, Tensor)] + ([out.indices()] if adds_old else [])
    return small.bind_products(
        memory,
        x_at.reshape(n, 2, h * w * pairs, -1),
        w_at.reshape(2, oc, -1),
        constant,
        out,
        added,
    )


def _fp32_bind(row: Row, memory: Memory) -> Run:
    operands = out, x, weight, *bias = _fp32_operands(row)
    assert isinstance(out, Tensor) and isinstance(x, Tensor)
    parts.check(row, operands)
    planes = _planes(row)
    source = Dense(memory, x, np.float32)
    weights = Dense(memory, weight, np.uint64) if isinstance(weight, Tensor) else None
    constant = weight.bits if isinstance(weight, Constant) else 0
    added = [Dense(memory, b, np.float32) for b in bias if isinstance(b, Tensor)]
    target = Dense(memory, out, np.float32)
    adds_old = Access.READ in out.access
    quick = _fp32_small(row, memory, planes, operands, adds_old)
    if quick is None:
        first = next((b for b in bias if isinstance(b, Tensor)), None)
        quick = conv_tiles.bind(memory, planes, out, x, _tiled(row, weight), first, adds_old=adds_old)
    if quick is not None:
        return quick

    def run() -> None:
        values = source.load()
        w = _fp32_weights(row, weights, constant, x.shape[1])
        results = np.stack([_fp32_sums(planes, one, w) for one in values])
        for b in added:
            results = fp32.add(results, b.load())
        if adds_old:
            results = fp32.add(results, target.load())
        target.store(results)

    return run


def _tiled(row: Row, weight: Operand) -> conv_tiles.Weights:
    """The weights as loops over tiles take them."""
    h, w = kernel_of(row)
    kernel_at = np.zeros(h * w, np.int64)
    if isinstance(weight, Tensor):
        steps = np.arange(h)[:, None] * weight.strides[2] + np.arange(w) * weight.strides[3]
        kernel_at = np.ascontiguousarray(_turned(row, steps)).reshape(-1)
    return conv_tiles.Weights(weight, kernel_at)


def _fp32_cycles(row: Row) -> timing.Cycles:
    return timing.convolution(
        (row["res0_n"], row["res0_c"], row["res0_h"], row["res0_w"]),
        parts.lane_of(row),
        row["opd0_c"],
        kernel_of(row),
        row["res_op_x_str"],
        bias=row["tsk_opd_num"] == 3,
    )


# --- 8-bit ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fixed:
    """How 8-bit sums become results of `bits` bits; shift: to the right, rounding half up."""

    input_signed: bool
    weight_signed: bool
    bias_signed: bool
    shift: int
    relu: bool
    bits: int
    signed: bool

    @property
    def limit(self) -> int:
        """The largest |input * weight|."""
        return (128 if self.input_signed else 255) * (128 if self.weight_signed else 255)

    def small(self) -> small.Finish:
        """The same rules for the path through tables of indices."""
        return small.Finish(self.bits, self.signed, self.shift, self.bias_signed)

    def finish(self, total: Array, bias: Array | None) -> Array:
        """Sums (+ bias, broadcast) rounded, clamped by relu and saturated: uint8 or uint16."""
        if bias is not None:
            total = total + bias
        rounded = shift_half_up(total, self.shift)
        return saturate(rounded, self.bits, self.signed)


def fixed_of(row: Row, bits: int = 8) -> Fixed:
    """Signs, shift and saturation of a descriptor: the result is signed when any operand is, except with
    relu, which clamps at zero and saturates to the unsigned range."""
    input_signed, weight_signed = bool(row["opt_opd0_sign"]), bool(row["opt_opd1_sign"])
    bias_signed = bool(row["opt_opd2_sign"])
    relu = bool(row["opt_relu"])
    signed = input_signed or weight_signed or (row["tsk_opd_num"] == 3 and bias_signed)
    return Fixed(
        input_signed,
        weight_signed,
        bias_signed,
        row["opt_right_shift"],
        relu,
        bits,
        signed and not relu,
    )


def bias_of(load: Dense | None, signed: bool) -> Array | None:
    """16-bit biases as wide integers, [1, c, 1, 1]."""
    if load is None:
        return None
    words = load.load()
    return words.view(np.int16).astype(np.int32) if signed else words.astype(np.int32)


@dataclass(frozen=True)
class FixedOperands:
    """8-bit operands: 4N input, words of four input channels' weights, a 16-bit bias or none."""

    out: Packed
    x: Packed
    weight: Operand
    bias: tuple[Tensor, ...]

    def all(self) -> tuple[Operand, ...]:
        """Every operand by its exact bytes, the result first; packed ones in up to two parts."""
        return (*self.out.tensors(), *self.x.tensors(), self.weight, *self.bias)


def fixed_operands(row: Row, itemsize: int) -> FixedOperands:
    """The operands of a descriptor; itemsize: bytes of a result, 1 or 2, four batches to a word of either.

    Raises DeviceError for sizes of zero and addresses outside local memory.
    """
    return FixedOperands(
        parts.packed_result(row, itemsize),
        parts.packed_neuron(row, channels_of(row), explicit=True),
        _weight(row, 4, parts.WORD, kernel_of(row)),
        parts.bias(row, 2),
    )


def fixed_weights(row: Row, load: Dense | None, constant: int, channels: int, *, signed: bool) -> Array:
    """[output channel, input channel, h, w]"""
    h, w = kernel_of(row)
    kind = np.int8 if signed else np.uint8
    if load is None:
        value = np.array([constant & 0xFF], np.uint8).view(kind)[0]
        return np.full((row["res0_c"], channels, h, w), value, kind)
    words = np.ascontiguousarray(_turned(row, load.load())).view(kind)
    four = words.reshape(-1, row["res0_c"], h, w, 4)
    all_channels = four.transpose(1, 0, 4, 2, 3).reshape(row["res0_c"], -1, h, w)
    wanted: Array = all_channels[:, :channels]
    return wanted


def integer_sums(planes: Planes, x: Array, weights: Array, limit: int) -> Array:
    """One batch: x [channels, h, w], weights [output channels, channels, h, w] -> int [.., h, w]."""
    laid = planes.lay(x, 0, np.float32)
    rows, columns = planes.rows.result, planes.columns.result
    matrix = np.ascontiguousarray(weights.transpose(0, 2, 3, 1), dtype=np.float32)
    matrix = matrix.reshape(len(weights), -1)
    # what each tap sees: [tap, channel, pixel]
    seen = np.empty((len(planes.offsets), len(x), rows, columns), np.float32)
    for k, at in enumerate(planes.offsets.tolist()):
        pitch = planes.pitch * laid.itemsize
        seen[k] = np.ndarray(
            (len(x), rows, columns),
            np.float32,
            buffer=laid.data,
            offset=at * laid.itemsize,
            strides=(laid.strides[0], pitch, laid.itemsize),
        )
    product = sums.integer_product(matrix, seen.reshape(matrix.shape[1], -1), limit)
    return product.reshape(len(weights), rows, columns)


def fixed_run(
    row: Row,
    memory: Memory,
    operands: FixedOperands,
    fixed: Fixed,
    sums_of: Callable[[Array, Array], Array],
) -> Run:
    """sums_of: one batch of input and the weights, [oc, ic, h, w] -> wide integers [oc, h, w]."""
    parts.check(row, operands.all())
    source = DensePacked(memory, operands.x, np.int8 if fixed.input_signed else np.uint8)
    weight = operands.weight
    weights = Dense(memory, weight, np.uint32) if isinstance(weight, Tensor) else None
    constant = weight.bits if isinstance(weight, Constant) else 0
    added = Dense(memory, operands.bias[0], np.uint16) if operands.bias else None
    target = DensePacked(memory, operands.out, np.uint8 if fixed.bits == 8 else np.uint16)
    channels = operands.x.shape[1]

    def run() -> None:
        w = fixed_weights(row, weights, constant, channels, signed=fixed.weight_signed)
        total = np.stack([sums_of(one, w) for one in source.load()])
        target.store(fixed.finish(total, bias_of(added, fixed.bias_signed)))

    return run


def _fixed_small(
    row: Row, memory: Memory, planes: Planes, operands: FixedOperands, fixed: Fixed
) -> Run | None:
    """The convolution through tables of indices, or None when it is not small."""
    (n, channels), (h, w), oc = operands.x.shape[:2], kernel_of(row), row["res0_c"]
    if not small.wanted(math.prod(operands.out.shape) * channels * h * w):
        return None
    x_at = small.seen(planes, small.element_bytes(operands.x)).transpose(0, 2, 1, 3)
    constant = operands.weight.bits if isinstance(operands.weight, Constant) else None
    return small.bind_fixed_products(
        memory,
        (x_at.reshape(n, -1, channels * h * w), fixed.input_signed),
        (fixed_weights_at(row, operands.weight, channels).reshape(1, oc, -1), fixed.weight_signed),
        constant,
        operands.out,
        operands.bias[0] if operands.bias else None,
        fixed.small(),
    )


def fixed_weights_at(row: Row, weight: Operand, channels: int) -> Array:
    """Where each weight lies, bytes, [output channel, input channel, h, w]; 0 for a constant."""
    shape = row["res0_c"], -1, *kernel_of(row)
    if isinstance(weight, Constant):
        return np.zeros((shape[0], channels, *shape[2:]), np.int64)
    four = _turned(row, weight.indices())[..., None] * parts.WORD + np.arange(parts.WORD)
    at: Array = four.transpose(1, 0, 4, 2, 3).reshape(shape)[:, :channels]
    return at


def _fixed_semantics(bits: int) -> Semantics:
    def operands(row: Row) -> tuple[Operand, ...]:
        return fixed_operands(row, bits // 8).all()

    def bind(row: Row, memory: Memory) -> Run:
        parts.no_result_add(row)
        planes, fixed = _planes(row), fixed_of(row, bits)
        found = fixed_operands(row, bits // 8)
        general = fixed_run(
            row,
            memory,
            found,
            fixed,
            lambda x, w: integer_sums(planes, x, w, fixed.limit),
        )
        bias = found.bias[0] if found.bias else None
        signs, weights = (fixed.input_signed, fixed.weight_signed), _tiled(row, found.weight)
        return (
            _fixed_small(row, memory, planes, found, fixed)
            or conv_fixed_tiles.bind(memory, planes, found.out, found.x, weights, bias, signs, fixed.small())
            or general
        )

    def cycles(row: Row) -> timing.Cycles:
        return timing.convolution_fixed(
            (row["res0_n"], row["res0_c"], row["res0_h"], row["res0_w"]),
            parts.lane_of(row),
            row["opd0_c"],
            kernel_of(row),
            bias=row["tsk_opd_num"] == 3,
        )

    return Semantics(operands, cycles, bind)


def _match(precisions: tuple[Precision, ...], winograd: int) -> dict[str, frozenset[int]]:
    return {
        "tsk_typ": frozenset({int(Task.CONV)}),
        "tsk_eu_typ": frozenset(range(32)),
        "opt_res0_prec": frozenset(map(int, precisions)),
        "opt_winograd": frozenset({winograd}),
    }


INSTRUCTIONS = (
    Instruction(
        "conv.fp32",
        Engine.BD,
        _match((Precision.FP32, Precision.INT32), 0),
        "convolution, weights in pairs of input channels (+ bias) (+ old with opt_res_add), fp32",
        Semantics(_fp32_operands, _fp32_cycles, _fp32_bind),
        example=EXAMPLE,
    ),
    Instruction(
        "conv.int8",
        Engine.BD,
        _match((Precision.INT8,), 0),
        "convolution of 8-bit elements (4N), weights by four input channels (+ 16-bit bias), 8-bit result",
        _fixed_semantics(8),
        example=EXAMPLE,
    ),
    Instruction(
        "conv.int8_to_int16",
        Engine.BD,
        _match((Precision.INT16,), 0),
        "convolution of 8-bit elements (4N), weights by four input channels (+ 16-bit bias), "
        "16-bit result, four batches to 64 bits",
        _fixed_semantics(16),
        example=EXAMPLE,
    ),
)
