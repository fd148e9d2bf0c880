"""Winograd convolution F(2x2, 3x3) (tsk_typ 0 with opt_winograd): y = A' [sum of U * (B' d B)] A.

Weights U are 4x4 tiles that were transformed before, one per output and input channel. 8-bit: layout as
convolution weights of a 4x4 kernel, all arithmetic in wide integers. fp32: one word per element, not in
pairs of input channels; an element of B' d B is the sum of its added terms minus the sum of its
subtracted ones; products are summed over input channels in two chains by their parity; the nine terms of
a pixel go through the adder tree at once; then bias, then the old result.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from firmware_sim import chip
from firmware_sim.errors import DeviceError
from firmware_sim.instructions import adder_tree, conv, fp32, small, sums
from firmware_sim.instructions import conv_operands as parts
from firmware_sim.instructions.dense import Array, Dense
from firmware_sim.instructions.instruction import Engine, Instruction, Run, Semantics
from firmware_sim.instructions.loops import native
from firmware_sim.instructions.window import EXAMPLE, Planes, Window, window_of
from firmware_sim.isa import timing
from firmware_sim.isa.codes import Precision, Task
from firmware_sim.isa.footprint import Access, Operand, Space, Tensor
from firmware_sim.isa.layout import Row
from firmware_sim.memory import Memory

_KERNEL, _TILE = 3, 4
_GROWTH = 4  # the largest factor of B' d B

_INPUT_ROWS = ((0, 2, fp32.sub), (1, 2, fp32.add), (2, 1, fp32.sub), (1, 3, fp32.sub))
"""B': a row takes one of four elements, and adds or subtracts another."""

_ZERO = np.zeros(1, np.float32)

_OUTPUT_ROWS = ((1, 1, 1, 0), (0, 1, -1, -1))
"""A'."""


def _window(row: Row, axis: str) -> Window:
    """Of the 3x3 kernel that the 4x4 tiles stand for. Raises DeviceError for other tiles or strides."""
    if row[f"opd1_{axis}"] != _TILE:
        raise DeviceError(
            f"opd1: {axis} is {row[f'opd1_{axis}']}", hint="winograd weights are tiles of 4 x 4 elements"
        )
    window = replace(window_of(row, axis), kernel=_KERNEL)
    if window.stride != 1 or window.dilation != 1:
        raise DeviceError("winograd works with stride 1 and dilation 1 only", hint="use a plain convolution")
    return window


def _operands(row: Row) -> tuple[Operand, ...]:
    return conv.fixed_operands(row, 1).all()


_Row = tuple[int, int, fp32.Binary]


def _terms(d: Array, above: _Row, beside: _Row) -> tuple[tuple[Any, ...], fp32.Binary]:
    """Of an element of B' d B: four elements of d, and whether the first two and the last two are added or
    subtracted; the first two are added to each other, and so are the last two."""
    (p, q, rows), (r, s, columns) = above, beside
    if columns is fp32.add:
        return (d[p, r], d[p, s], d[q, r], d[q, s]), rows
    if rows is fp32.add:
        return (d[p, r], d[q, r], d[p, s], d[q, s]), columns
    return (d[p, r], d[q, s], d[p, s], d[q, r]), columns


def _input_transform(d: Array) -> Array:
    """B' d B of fp32 [4, 4, ...]."""
    out = np.empty_like(d)
    for (a, (p, q, rows)), (b, (r, s, columns)) in product(enumerate(_INPUT_ROWS), repeat=2):
        terms, last = _terms(d, (p, q, rows), (r, s, columns))
        out[a, b] = last(fp32.add(*terms[:2]), fp32.add(*terms[2:]))
    return out


def _output_transform(m: Array, axis: int) -> Array:
    """A' m along one axis of four: two are left."""
    m0, m1, m2, m3 = (m.take(i, axis) for i in range(_TILE))
    return np.stack([m0 + m1 + m2, m1 - m2 - m3], axis)


def _tile_counts(planes: Planes) -> tuple[int, int]:
    return -(-planes.rows.result // 2), -(-planes.columns.result // 2)


def _whole(planes: Planes, pixels: Array) -> Array:
    """Pixels of tiles, [2, 2, output channels, tiles], as [output channels, h, w]."""
    rows, columns = _tile_counts(planes)
    channels = pixels.shape[2]
    whole = pixels.reshape(2, 2, channels, rows, columns).transpose(2, 3, 0, 4, 1)
    cut: Array = whole.reshape(channels, 2 * rows, 2 * columns)
    cropped: Array = cut[:, : planes.rows.result, : planes.columns.result]
    return cropped


def _tiles(planes: Planes, x: Array) -> Array:
    """Transformed input tiles of one batch, x [channels, h, w]: fp32 [4, 4, channels, tiles]."""
    rows, columns = _tile_counts(planes)
    laid = planes.lay(x, 0, np.float32).reshape(len(x), planes.rows.padded, planes.columns.padded)
    padded = np.zeros((len(x), 2 * rows + 2, 2 * columns + 2), np.float32)
    padded[:, : laid.shape[1], : laid.shape[2]] = laid
    view = np.lib.stride_tricks.sliding_window_view(padded, (_TILE, _TILE), axis=(1, 2))[:, ::2, ::2]
    beside = np.ascontiguousarray(view.transpose(3, 4, 0, 1, 2)).reshape(_TILE, _TILE, len(x), -1)
    return _input_transform(beside)


def _sums(planes: Planes, x: Array, weights: Array, limit: int) -> Array:
    """One batch: x [channels, h, w], weights [output channels, channels, 4, 4] -> [.., h, w]."""
    tiles = _tiles(planes, x)
    kernels = np.ascontiguousarray(weights.transpose(2, 3, 0, 1), dtype=np.float32)
    products = np.stack(
        [
            np.stack(
                [
                    sums.integer_product(kernels[a, b], tiles[a, b], limit * _GROWTH).astype(np.int64)
                    for b in range(_TILE)
                ]
            )
            for a in range(_TILE)
        ]
    )
    pixels = _output_transform(_output_transform(products, 0), 1)  # [2, 2, output channels, tiles]
    return _whole(planes, pixels)


def _transforms() -> tuple[Array, Array, Array, Array]:
    """For the compiled loops: of which elements of a tile each transformed one consists, whether the
    second two are subtracted; of which products a pixel consists, and their factors."""
    number = np.arange(_TILE * _TILE).reshape(_TILE, _TILE)
    terms, minus, places, factors = [], [], [], []
    for (p, q, rows), (r, s, columns) in product(_INPUT_ROWS, repeat=2):
        chosen, last = _terms(number, (p, q, rows), (r, s, columns))
        terms.append(chosen)
        minus.append(last is fp32.sub)
    for above, beside in product(_OUTPUT_ROWS, repeat=2):
        outer = np.outer(above, beside)
        places.append(number[outer != 0])
        factors.append(outer[outer != 0])
    return np.array(terms), np.array(minus), np.array(places), np.array(factors)


def _tiles_at(planes: Planes, at: Array) -> Array:
    """[n, channels, h, w], where elements lie -> [n, tiles, channels, 16]."""
    rows, columns = _tile_counts(planes)
    laid = planes.lay(at, small.NOTHING, np.int64)
    laid = laid.reshape(*at.shape[:2], planes.rows.padded, planes.columns.padded)
    padded = np.full((*at.shape[:2], 2 * rows + 2, 2 * columns + 2), small.NOTHING)
    padded[:, :, : laid.shape[2], : laid.shape[3]] = laid
    view = np.lib.stride_tricks.sliding_window_view(padded, (_TILE, _TILE), axis=(2, 3))[:, :, ::2, ::2]
    moved = view.transpose(0, 2, 3, 1, 4, 5)
    return np.ascontiguousarray(moved).reshape(len(at), rows * columns, at.shape[1], _TILE * _TILE)


def _pixels_at(planes: Planes, at: Array) -> Array:
    """[n, output channels, h, w], where results lie -> [n, output channels, tiles, 4]."""
    rows, columns = _tile_counts(planes)
    padded = np.full((*at.shape[:2], 2 * rows, 2 * columns), small.NOTHING)
    padded[:, :, : at.shape[2], : at.shape[3]] = at
    moved = padded.reshape(*at.shape[:2], rows, 2, columns, 2).transpose(0, 1, 2, 4, 3, 5)
    return np.ascontiguousarray(moved).reshape(*at.shape[:2], rows * columns, 4)


def _is_small(row: Row, planes: Planes) -> bool:
    rows, columns = _tile_counts(planes)
    return small.wanted(row["res0_n"] * rows * columns * row["opd0_c"] * row["res0_c"] * _TILE * _TILE)


def _planes(row: Row) -> Planes:
    return Planes(_window(row, "h"), _window(row, "w"), whole=True)


def _no_constant(row: Row) -> None:
    if row["opt_opd1_const"]:
        raise DeviceError(
            "opt_opd1_const: constant weights do not exist here", hint="use a plain convolution"
        )


def _bind(row: Row, memory: Memory) -> Run:
    _no_constant(row)
    planes = _planes(row)
    # the weights' sign field is not read: they are signed, and so is the result but for relu
    fixed = conv.fixed_of(row)
    fixed = replace(fixed, weight_signed=True, signed=not fixed.relu)
    operands = conv.fixed_operands(row, 1)
    run = conv.fixed_run(row, memory, operands, fixed, lambda x, w: _sums(planes, x, w, fixed.limit))
    return _fixed_small(row, memory, planes, operands, fixed) if _is_small(row, planes) else run


def _fixed_small(
    row: Row, memory: Memory, planes: Planes, operands: conv.FixedOperands, fixed: conv.Fixed
) -> Run:
    channels = operands.x.shape[1]
    oc, finish = row["res0_c"], fixed.small()
    to = _pixels_at(planes, small.element_bytes(operands.out))
    added = np.full((2, *to.shape), small.NOTHING)
    if operands.bias:
        added[0] = small.element_bytes(operands.bias[0]).reshape(1, oc, 1, 1)
    weights = conv.fixed_weights_at(row, operands.weight, channels).reshape(oc, channels, -1)
    return native.bound(
        "winograd_fixed",
        memory.flat(Space.LOCAL),
        _tiles_at(planes, small.element_bytes(operands.x)),
        np.ascontiguousarray(weights),
        to.reshape(-1),
        added.reshape(2, -1),
        finish.how(fixed.input_signed, fixed.weight_signed),
        *_transforms(),
    )


def _cycles(row: Row) -> timing.Cycles:
    """As the plain 3x3 convolution with 16 multiplications for each 36."""
    return timing.convolution_fixed(
        (row["res0_n"], row["res0_c"], row["res0_h"], row["res0_w"]),
        parts.lane_of(row),
        row["opd0_c"],
        (2, 2),
        bias=row["tsk_opd_num"] == 3,
    )


# --- fp32 ----------------------------------------------------------------------------------------


def _fp32_operands(row: Row) -> tuple[Tensor, ...]:
    access = Access.UPDATE if row["opt_res_add"] else Access.WRITE
    return (
        parts.result(row, access),
        parts.neuron(row, conv.channels_of(row), explicit=True),
        _fp32_weight(row),
        *parts.bias(row, parts.WORD),
    )


def _fp32_weight(row: Row) -> Tensor:
    """[input channels, output channels, 4, 4]; strides of its own are not read."""
    _no_constant(row)
    shape = (conv.channels_of(row), row["res0_c"], _TILE, _TILE)
    slots = -(-(parts.lane_of(row) + shape[1]) // chip.NPU_NUM)
    tensor = parts.per_channel(row, "opd1", shape, parts.WORD)
    return replace(tensor, strides=(slots * _TILE * _TILE, *tensor.strides[1:]))


def _fp32_sums(planes: Planes, x: Array, weights: Array) -> Array:
    """One batch: x [channels, h, w], weights [4, 4, output channels, channels] -> [.., h, w]."""
    tiles = _tiles(planes, x)
    products = {
        (a, b): sums.matrix_product(weights[a, b], tiles[a, b]) for a, b in product(range(_TILE), repeat=2)
    }
    pixels = np.empty((2, 2, len(weights[0, 0]), tiles.shape[-1]), np.float32)
    for (i, rows), (j, columns) in product(enumerate(_OUTPUT_ROWS), repeat=2):
        terms = [
            m * np.float32(rows[a] * columns[b]) for (a, b), m in products.items() if rows[a] and columns[b]
        ]
        flat = np.stack(terms, -1).reshape(-1, len(terms))
        pixels[i, j] = adder_tree.total(flat).reshape(pixels.shape[2:])
    return _whole(planes, pixels)


def _fp32_bind(row: Row, memory: Memory) -> Run:
    operands = out, x, weight, *bias = _fp32_operands(row)
    parts.check(row, operands)
    planes = _planes(row)
    source, target = Dense(memory, x, np.float32), Dense(memory, out, np.float32)
    weights = Dense(memory, weight, np.float32)
    added = Dense(memory, bias[0], np.float32) if bias else None
    adds_old = Access.READ in out.access
    if _is_small(row, planes):
        terms, minus, places, factors = _transforms()
        return native.bound(
            "winograd_fp32",
            memory.flat(Space.LOCAL).view(np.float32),
            adder_tree.STEPS,
            _tiles_at(planes, x.indices()),
            np.ascontiguousarray(weight.indices().swapaxes(0, 1)).reshape(row["res0_c"], x.shape[1], -1),
            _pixels_at(planes, out.indices()),
            bias[0].indices().reshape(-1) if bias else np.zeros(0, np.int64),
            terms,
            minus,
            places,
            factors.astype(np.float32),
            adds_old,
        )

    def run() -> None:
        w = np.ascontiguousarray(weights.load().transpose(2, 3, 1, 0))
        results = np.stack([_fp32_sums(planes, one, w) for one in source.load()])
        # without a bias a zero is added in its place: -0 becomes +0
        results = fp32.add(results, added.load() if added else _ZERO)
        if adds_old:
            results = fp32.add(results, target.load())
        target.store(results)

    return run


def _fp32_cycles(row: Row) -> timing.Cycles:
    """No source gives them: as the plain 3x3 convolution with 16 multiplications for each 36."""
    return timing.convolution(
        (row["res0_n"], row["res0_c"], row["res0_h"], row["res0_w"]),
        parts.lane_of(row),
        row["opd0_c"],
        (2, 2),
        row["res_op_x_str"],
        bias=row["tsk_opd_num"] == 3,
    )


def _match(precisions: tuple[Precision, ...]) -> dict[str, frozenset[int]]:
    return {
        "tsk_typ": frozenset({int(Task.CONV)}),
        "tsk_eu_typ": frozenset(range(32)),
        "opt_res0_prec": frozenset(map(int, precisions)),
        "opt_winograd": frozenset({1}),
    }


_EXAMPLE = {**EXAMPLE, "opd1_h": _TILE, "opd1_w": _TILE}

INSTRUCTIONS = (
    Instruction(
        "conv.winograd_int8",
        Engine.BD,
        _match((Precision.INT8, Precision.INT16)),  # the result is 8-bit with either
        "3x3 convolution of 8-bit elements (4N) by transformed 4x4 weight tiles (+ 16-bit bias)",
        Semantics(_operands, _cycles, _bind),
        example=_EXAMPLE,
    ),
    Instruction(
        "conv.winograd_fp32",
        Engine.BD,
        _match((Precision.FP32, Precision.INT32)),
        "3x3 convolution by transformed 4x4 weight tiles (+ bias) (+ old with opt_res_add), fp32",
        Semantics(_fp32_operands, _fp32_cycles, _fp32_bind),
        example=_EXAMPLE,
    ),
)
