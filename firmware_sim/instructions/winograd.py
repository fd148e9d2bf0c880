"""8-bit winograd convolution F(2x2, 3x3) (tsk_typ 0 with opt_winograd).

Weights are 4x4 tiles that were transformed before, layout as convolution weights of a 4x4 kernel. All
arithmetic is in wide integers: y = A' [sum over input channels of U * (B' d B)] A.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from firmware_sim.errors import DeviceError
from firmware_sim.instructions import conv, sums
from firmware_sim.instructions import conv_operands as parts
from firmware_sim.instructions.dense import Array
from firmware_sim.instructions.window import Planes, Window, window_of
from firmware_sim.isa import timing
from firmware_sim.isa.codes import Precision, Task
from firmware_sim.isa.footprint import Operand
from firmware_sim.isa.instruction import Engine, Instruction, Run, Semantics, Status
from firmware_sim.isa.layout import Row
from firmware_sim.memory import Memory

_KERNEL, _TILE = 3, 4
_GROWTH = 4  # the largest factor of B' d B


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


def _input_transform(d: Array, axis: int) -> Array:
    """B' d along one axis of four."""
    d0, d1, d2, d3 = (d.take(i, axis) for i in range(_TILE))
    return np.stack([d0 - d2, d1 + d2, d2 - d1, d1 - d3], axis)


def _output_transform(m: Array, axis: int) -> Array:
    """A' m along one axis of four: two are left."""
    m0, m1, m2, m3 = (m.take(i, axis) for i in range(_TILE))
    return np.stack([m0 + m1 + m2, m1 - m2 - m3], axis)


def _tiles(planes: Planes, x: Array) -> Array:
    """Transformed input tiles of one batch: [4, 4, channels, tiles], fp32 integers."""
    rows, columns = -(-planes.rows.result // 2), -(-planes.columns.result // 2)
    laid = planes.lay(x, 0, np.float32).reshape(len(x), planes.rows.padded, planes.columns.padded)
    padded = np.zeros((len(x), 2 * rows + 2, 2 * columns + 2), np.float32)
    padded[:, : laid.shape[1], : laid.shape[2]] = laid
    view = np.lib.stride_tricks.sliding_window_view(padded, (_TILE, _TILE), axis=(1, 2))[:, ::2, ::2]
    beside = np.ascontiguousarray(view.transpose(3, 4, 0, 1, 2)).reshape(_TILE, _TILE, len(x), -1)
    return _input_transform(_input_transform(beside, 0), 1)


def _sums(planes: Planes, x: Array, weights: Array, limit: int) -> Array:
    """One batch: x [channels, h, w], weights [output channels, channels, 4, 4] -> [.., h, w]."""
    tiles = _tiles(planes, x)
    rows, columns = -(-planes.rows.result // 2), -(-planes.columns.result // 2)
    kernels = np.ascontiguousarray(weights.transpose(2, 3, 0, 1), dtype=np.float32)
    product = np.stack(
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
    pixels = _output_transform(_output_transform(product, 0), 1)  # [2, 2, output channels, tiles]
    whole = pixels.reshape(2, 2, len(weights), rows, columns).transpose(2, 3, 0, 4, 1)
    cut: Array = whole.reshape(len(weights), 2 * rows, 2 * columns)
    cropped: Array = cut[:, : planes.rows.result, : planes.columns.result]
    return cropped


def _bind(row: Row, memory: Memory) -> Run:
    planes = Planes(_window(row, "h"), _window(row, "w"), whole=True)
    # the weights' sign field is not read: they are signed, and so is the result but for relu
    fixed = conv.fixed_of(row)
    fixed = replace(fixed, weight_signed=True, signed=not fixed.relu)
    return conv.fixed_run(
        row, memory, conv.fixed_operands(row, 1), fixed, lambda x, w: _sums(planes, x, w, fixed.limit)
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


def _match(precisions: tuple[Precision, ...]) -> dict[str, frozenset[int]]:
    return {
        "tsk_typ": frozenset({int(Task.CONV)}),
        "tsk_eu_typ": frozenset(range(32)),
        "opt_res0_prec": frozenset(map(int, precisions)),
        "opt_winograd": frozenset({1}),
    }


INSTRUCTIONS = (
    Instruction(
        "conv.winograd_int8",
        Engine.BD,
        _match((Precision.INT8,)),
        "3x3 convolution of 8-bit elements (4N) by transformed 4x4 weight tiles (+ 16-bit bias)",
        Semantics(_operands, _cycles, _bind),
    ),
    Instruction(
        "conv.winograd_fp32",
        Engine.BD,
        _match((Precision.FP32, Precision.INT32, Precision.INT16)),
        "3x3 winograd convolution, fp32 or 16-bit result",
        status=Status.UNVERIFIED,
        reason="no source settles its arithmetic",
    ),
)
