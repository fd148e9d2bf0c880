"""The clock: what commands take on their engines, and what a launch costs beside them, at 550 MHz.

Two sets of figures. The estimates of the vendor's functional model: P = ceil(h * w / 16) pixel groups, L
channel slots. And those of real chips, fitted to published times of 45 launches by
benchmarks/bench_published_times.py, which also says how far off they are; where nothing was published, the
functional model's figure stands.

The rule of time, which tpu.py follows while it executes and timeline.py for recorded streams: each engine
does its commands in order; a command starts when its engine is free, the command of the other engine that it
waits for is done, and, where the controller issues commands one by one (free kernels, dynamic nets), it was
issued. Static streams are read by the engines themselves, which is not charged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from firmware_sim import chip
from firmware_sim.isa.bursts import SystemSide
from firmware_sim.isa.footprint import Dims4

_PIXELS = 16  # fp32 results per step and lane
_MEGABYTE = 1e6


@dataclass(frozen=True)
class Constants:
    """The fitted figures, in cycles where nothing else is said; behind each what it rests on."""

    launch_us: float = 22.2
    """A launch by itself. Seven launches of less than 150 us; the smallest published at all takes 40."""
    issue_us: float = 3.65
    """The controller, for each command that it issues. Strong: 100,000 commands take 356 ms."""
    first_reads_us: float = 22.5
    """For each of the first megabytes that a launch reads from DDR, beside the time of the copy. Strong: some
    twenty launches that read 1 to 9 MB; as many sums and averages that were not fitted agree. Why, nobody
    says."""
    first_reads_mb: float = 4.4
    """How many megabytes are the first ones. Fair: launches that read more lose no more."""
    read_burst: float = 1.28
    """64 bytes from DDR or L2. Strong: 27 GB/s over 100 to 400 MB."""
    write_burst: float = 1.44
    """64 bytes to DDR or L2. Good: 24 GB/s over 51 MB."""
    read_piece: float = 1.84
    """At least, for each piece that a read leaves in a lane. Fair."""
    jump: float = 8.4
    """From the end of a run of at least 64 bytes to the next. Fair: rows of 512 bytes, and parts of rows."""
    scattered: float = 2.5
    """At least, for each run of less than 64 bytes. Good: published transpositions take 2.0 to 3.6."""
    read_latency: float = 138.0
    write_latency: float = 46.0
    """The functional model's: published times cannot tell a latency from the cost of a launch."""
    local_bytes: float = 32.0
    """Bytes per cycle inside local memory, the functional model's."""
    two_channels: float = 12.4
    """A convolution's tap with one or two input channels. Strong: four launches of 27 to 418 ms."""
    three_channels: float = 7.9
    """The same with three. Strong: six launches."""
    three_channels_stride: float = 1.0
    """And for each column that the window moves on. Good: strides of 1, 2 and 4."""
    convolution: float = 1.12
    """Times the functional model's estimate where there are more channels. Good: 18 to 256 channels."""
    depthwise_stride: float = 2.6
    """Times the functional model's estimate, once more for each column above one that the window moves
    on. Fair: strides of 2 and 4."""
    product: float = 8.1
    """For each row and step of a matrix product, beside one for each summed element; the functional model
    has 6. Fair: products with up to 64 summed elements."""


FITTED = Constants()
LATENT = replace(FITTED, read_latency=1340.0)
"""With the latency of a load that published times give when it is fitted too: they cannot tell it from the
cost of a launch, so what shall be faster has to be so by both."""
MEDIAN_ERROR = 5.4
"""Per cent, over the 45 published times; of each with constants fitted to launches of other kinds alone."""


def modelled() -> str:
    """What every modelled time is stated with."""
    return f"modelled, median error {MEDIAN_ERROR} %"


def issue() -> float:
    """Cycles of the controller for a command that it issues."""
    return FITTED.issue_us * chip.CLOCK_HZ / 1e6


def launch(read: int) -> float:
    """Cycles of a launch beside those of its commands; read: bytes that they read from DDR."""
    first = min(read / _MEGABYTE, FITTED.first_reads_mb)
    return (FITTED.launch_us + FITTED.first_reads_us * first) * chip.CLOCK_HZ / 1e6


# The functional model's own: bytes per cycle, and latencies
_MODEL_RATE, _MODEL_L2S, _MODEL_S2L = 53.4, 46.0, 138.0


@dataclass(frozen=True)
class Cycles:
    """`chip`: of real chips; `model`: the vendor's functional model's own estimate."""

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


def system_to_local(source: SystemSide) -> Cycles:
    """A copy from DDR or L2."""
    chip_cycles = max(_transfer(source, FITTED.read_burst), FITTED.read_piece * source.pieces)
    return Cycles(
        chip_cycles + FITTED.jump * source.jumps + FITTED.read_latency,
        source.nbytes / _MODEL_RATE + _MODEL_S2L,
    )


def local_to_system(target: SystemSide) -> Cycles:
    """A copy to DDR or L2."""
    return Cycles(_written(target), target.nbytes / _MODEL_RATE + _MODEL_L2S)


def local_to_local(nbytes: int) -> Cycles:
    """A copy of nbytes inside local memory; both figures are the functional model's."""
    cycles = nbytes / FITTED.local_bytes
    return Cycles(cycles, cycles)


def system_to_system(source: SystemSide, target: SystemSide) -> Cycles:
    """A copy between DDR and L2 or inside them: it is read, then written. (A published copy of 8.39 MB, which
    was not fitted, takes 762 us; here it takes 773.)"""
    read = _transfer(source, FITTED.read_burst) + FITTED.jump * source.jumps + FITTED.read_latency
    return Cycles(read + _written(target), source.nbytes / _MODEL_RATE + _MODEL_S2L)


def _written(target: SystemSide) -> float:
    return _transfer(target, FITTED.write_burst) + FITTED.jump * target.jumps + FITTED.write_latency


def _transfer(side: SystemSide, burst: float) -> float:
    return max(burst * side.bursts, FITTED.scattered * side.scattered)


def _slots(channels: int, lane: int) -> int:
    return -(-(lane + channels) // chip.NPU_NUM)


def convolution(
    result: Dims4, lane: int, channels: int, kernel: tuple[int, int], stride_w: int, *, bias: bool
) -> Cycles:
    """fp32 convolution. Few input channels are slow on real chips.

    Nothing was published between 3 and 18 input channels: there it takes at least as long as with 3, so that
    nobody gains by telling more channels than there are.
    """
    n, c, h, w = result
    steps = n * _slots(c, lane) * math.ceil(h * w / _PIXELS)
    taps = kernel[0] * kernel[1]
    model = steps * (taps * math.ceil(channels / 2) + 3 + 2 * bias)
    if channels <= 2:
        return Cycles(steps * (FITTED.two_channels * taps + 4), model)
    three = steps * ((FITTED.three_channels + FITTED.three_channels_stride * stride_w) * taps + 4)
    return Cycles(three if channels <= 4 else max(three, model * FITTED.convolution), model)


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
    return Cycles(model * (1 + FITTED.depthwise_stride * (stride_w - 1)), model)


def matrix_product(rows: int, lane: int, columns: tuple[int, int], inner: int, *, bias: bool) -> Cycles:
    """fp32: `columns` = (channels, width) of the right matrix, `inner` the summed dimension."""
    steps = rows * _slots(columns[0], lane) * math.ceil(columns[1] / _PIXELS)
    return Cycles(steps * (inner + FITTED.product + 2 * bias), float(steps * (inner + 6 + 2 * bias)))


def matrix_product_fixed(
    rows: int, lane: int, columns: tuple[int, int], inner: int, *, bias: bool, add: bool
) -> Cycles:
    """8-bit: four times as many columns at a time."""
    steps = rows * _slots(columns[0], lane) * math.ceil(columns[1] / (4 * _PIXELS))
    cycles = steps * (inner + 5 + 2 * bias + 2 * add)
    return Cycles(cycles, cycles)
