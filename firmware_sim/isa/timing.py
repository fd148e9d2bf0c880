"""Cycles of one instruction on its engine, at 550 MHz.

Two sets. The estimates of the vendor's functional model: P = ceil(h * w / 16) pixel groups, L
channel slots. And the figures fitted to published times of real chips (see docs/architecture.md):
the arithmetic is the same there, the DMA is slower.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from firmware_sim import chip
from firmware_sim.isa.footprint import Dims4

_PIXELS = 16  # fp32 results per step and lane

# GDMA, fitted; bytes per cycle
_S2L_RATE, _L2S_RATE, _L2L_RATE = 52.8, 46.8, 32.0
_S2L_LATENCY = 7.9e-6 * chip.CLOCK_HZ
_PIECE_CYCLES = 2.9  # per contiguous piece inside a lane
_BOTH_WAYS = 1.12  # reading and writing DDR at the same time
# GDMA, the functional model's own
_MODEL_RATE, _MODEL_L2S, _MODEL_S2L = 53.4, 46.0, 138.0


@dataclass(frozen=True)
class Cycles:
    """`chip`: fitted to real chips; `model`: the vendor's functional model's own estimate."""

    chip: float
    model: float


def elementwise(shape: Dims4, lane: int, factor: float) -> Cycles:
    """Arithmetic on (n, c, h, w): `factor` cycles per 16 pixels."""
    n, c, h, w = shape
    slots = -(-(lane + c) // chip.NPU_NUM)
    cycles = factor * n * slots * math.ceil(h * w / _PIXELS)
    return Cycles(cycles, cycles)


def adder_tree(shape: Dims4, lane: int, inputs: int) -> Cycles:
    """Sums over the h * w elements of (n, c, h, w): `inputs` elements per cycle and lane."""
    n, c, h, w = shape
    cycles = float(n * _slots(c, lane) * math.ceil(h * w / inputs))
    return Cycles(cycles, cycles)


def system_to_local(nbytes: int, pieces: int) -> Cycles:
    """A copy from DDR or L2 of nbytes that fall into `pieces` contiguous pieces inside a lane.

    chip: a latency, then bytes or pieces, whichever takes longer.
    """
    return Cycles(
        _S2L_LATENCY + max(nbytes / _S2L_RATE, _PIECE_CYCLES * pieces), nbytes / _MODEL_RATE + _MODEL_S2L
    )


def local_to_system(nbytes: int) -> Cycles:
    """A copy of nbytes to DDR or L2; how they are cut makes no difference in the published times."""
    return Cycles(nbytes / _L2S_RATE, nbytes / _MODEL_RATE + _MODEL_L2S)


def local_to_local(nbytes: int) -> Cycles:
    """A copy of nbytes inside local memory; both figures are the fitted one."""
    return Cycles(nbytes / _L2L_RATE, nbytes / _L2L_RATE)


def system_to_system(nbytes: int, pieces: int) -> Cycles:
    """No published case isolates it: the slower of both directions, reading and writing DDR."""
    return Cycles(
        max(nbytes / _L2S_RATE, _PIECE_CYCLES * pieces) * _BOTH_WAYS, nbytes / _MODEL_RATE + _MODEL_S2L
    )


def _slots(channels: int, lane: int) -> int:
    return -(-(lane + channels) // chip.NPU_NUM)


def convolution(
    result: Dims4, lane: int, channels: int, kernel: tuple[int, int], stride_w: int, *, bias: bool
) -> Cycles:
    """fp32 convolution. Few input channels are slow on real chips, by the fitted figures."""
    n, c, h, w = result
    steps = n * _slots(c, lane) * math.ceil(h * w / _PIXELS)
    taps = kernel[0] * kernel[1]
    model = steps * (taps * math.ceil(channels / 2) + 3 + 2 * bias)
    if channels <= 2:
        fitted = steps * (12.1 * taps + 4)
    elif channels == 3:
        fitted = steps * ((7.84 + 1.09 * stride_w) * taps + 4)
    else:
        fitted = model * 1.18
    return Cycles(fitted, model)


def convolution_fixed(
    result: Dims4, lane: int, channels: int, kernel: tuple[int, int], *, bias: bool
) -> Cycles:
    """8-bit convolution, four batches and four input channels at a time."""
    n, c, h, w = result
    steps = math.ceil(n / 4) * _slots(c, lane) * math.ceil(h * w / _PIXELS)
    cycles = steps * (kernel[0] * kernel[1] * math.ceil(channels / 4) + 8 + 2 * bias)
    return Cycles(cycles, cycles)


def depthwise(result: Dims4, lane: int, kernel: tuple[int, int], stride_w: int, *, bias: bool) -> Cycles:
    """Depthwise convolution and pooling: one input channel per output channel."""
    n, c, h, w = result
    steps = n * _slots(c, lane) * math.ceil(h * w / _PIXELS)
    model = steps * (kernel[0] * kernel[1] + 3 + 2 * bias)
    return Cycles(model * (1 + 0.6 * (stride_w - 1)), model)


def matrix_product(rows: int, lane: int, columns: tuple[int, int], inner: int, *, bias: bool) -> Cycles:
    """fp32: `columns` = (channels, width) of the right matrix, `inner` the summed dimension."""
    steps = rows * _slots(columns[0], lane) * math.ceil(columns[1] / _PIXELS)
    cycles = steps * (inner + 6 + 2 * bias)
    return Cycles(cycles, cycles)


def matrix_product_fixed(
    rows: int, lane: int, columns: tuple[int, int], inner: int, *, bias: bool, add: bool
) -> Cycles:
    """8-bit: four times as many columns at a time."""
    steps = rows * _slots(columns[0], lane) * math.ceil(columns[1] / (4 * _PIXELS))
    cycles = steps * (inner + 5 + 2 * bias + 2 * add)
    return Cycles(cycles, cycles)
