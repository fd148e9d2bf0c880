"""Transposed convolutions as plain ones for all phases of the stride.

An output row of phase r = row mod stride needs every stride-th row of the kernel only, and input rows next to
one another: so all phases are channels of one convolution, and its result's channels become pixels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from firmware_sim.isa import timing
from firmware_sim.isa.layout import WINDOW_STEP_MAX

CHANNELS_TOLD = 4
"""Fewer input channels of a convolution have zeros beside them (bm_conv_told of
sdk/layers/lib/bm_layer_conv_plan.h)."""

_PHASE_WORTH = 32  # PHASE_WORTH of sdk/layers/lib/bm_layer_phases.h

Element = TypeVar("Element", bound=np.floating)


@dataclass(frozen=True)
class Axis:
    """One axis. size, out: elements of input and result; kernel, stride, pad (before): of the transposed
    convolution."""

    size: int
    out: int
    kernel: int
    stride: int
    pad: int

    @property
    def first(self) -> int:
        """The input element, beside the first one, that output 0 begins with."""
        return -((self.kernel - 1 - self.pad) // self.stride)

    @property
    def taps(self) -> int:
        """Input elements that the phases of one place need together."""
        return (self.stride - 1 + self.pad) // self.stride - self.first + 1

    @property
    def pads(self) -> tuple[int, int]:
        """Rows of zeros before and behind the input; below 0 where fewer rows are needed than there are."""
        squares = -(-self.out // self.stride)
        return -self.first, squares - self.size + self.first + self.taps - 1

    def kernel_index(self, phase: int, tap: int) -> int:
        """Which element of the kernel a tap of a phase is; outside of the kernel: none."""
        return phase + self.pad - self.stride * (self.first + tap)


@dataclass(frozen=True)
class Direction:
    """One direction of TPU_DECONV. before, after: positions before and behind all elements that windows see,
    zeros between elements counted."""

    kernel: int
    stride: int
    dilation: int
    before: int
    after: int

    @property
    def taps(self) -> int:
        """Of its largest phase."""
        return (self.kernel - 1) // self.stride + 1

    @property
    def has_phases(self) -> bool:
        """See bm_has_phases (sdk/layers/lib/bm_layer_phases.h)."""
        if self.stride > 1:
            few = self.taps <= WINDOW_STEP_MAX + 1
            return few and self.dilation == 1 and self.kernel >= self.stride and self.after < self.kernel
        most = max(self.before, self.after)
        return most <= WINDOW_STEP_MAX and most <= (self.kernel - 1) * self.dilation


def by_phases(channels: int, h: Direction, w: Direction) -> bool:
    """Whether TPU_DECONV of so many input channels of a group makes its phases one after the other: see
    bm_by_phases."""
    saved = h.kernel * w.kernel - h.taps * w.taps
    return h.has_phases and w.has_phases and saved * channels >= _PHASE_WORTH


def deconvolution(
    shape: tuple[int, int, int, int], channels: int, h: Direction, w: Direction, *, bias: bool
) -> float:
    """Modelled cycles of the tensor unit for TPU_DECONV with a result of this shape: phase by phase, each
    copied to its place, or over zeros between elements."""
    phased = by_phases(channels, h, w)
    down, across = (one.stride if phased else 1 for one in (h, w))
    taps = (h.taps, w.taps) if phased else (h.kernel, w.kernel)
    n, outs, rows, columns = shape
    part = n, outs, -(-rows // down), -(-columns // across)
    computed = timing.convolution(part, 0, max(channels, CHANNELS_TOLD), taps, 1, bias=bias).chip
    copied = timing.elementwise(part, 0, 1).chip if phased else 0.0
    return down * across * (computed + copied)


def phases(weights: npt.NDArray[Element], h: Axis, w: Axis) -> npt.NDArray[Element]:
    """[phase of the row, phase of the column, output channel] of kernels, from [IC, OC, KH, KW]."""
    ins, outs = weights.shape[:2]
    made = np.zeros((h.stride, w.stride, outs, ins, h.taps, w.taps), weights.dtype)
    for row, column, i, j in np.ndindex(h.stride, w.stride, h.taps, w.taps):
        y, x = h.kernel_index(row, i), w.kernel_index(column, j)
        if 0 <= y < h.kernel and 0 <= x < w.kernel:
            made[row, column, :, :, i, j] = weights[:, :, y, x].T
    return made.reshape(-1, ins, h.taps, w.taps)


def of_planes(weights: npt.NDArray[Element], d: Axis) -> npt.NDArray[Element]:
    """[tap and input channel, phase and output channel, KH, KW] of kernels, from [IC, OC, KD, KH, KW]: phases
    along d alone, whose taps are channels of what a transposed convolution of planes takes."""
    ins, outs, _, kh, kw = weights.shape
    made = np.zeros((d.taps, ins, d.stride, outs, kh, kw), weights.dtype)
    for tap, phase in np.ndindex(d.taps, d.stride):
        z = d.kernel_index(phase, tap)
        if 0 <= z < d.kernel:
            made[tap, :, phase] = weights[:, :, z]
    return made.reshape(d.taps * ins, d.stride * outs, kh, kw)
