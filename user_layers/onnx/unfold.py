"""Convolutions of few input channels: rows of the kernel, and planes of volumes, as channels (TPU_UNFOLD).

The tensor unit takes as long for a tap with one input channel as with sixteen or so. What loads the picture
can put the rows that a window sees beside one another as channels, and then a tap of the convolution sums up
as many times the channels. That costs transfers, for each row is loaded as often as windows see it; the clock
decides.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from firmware_sim.isa import timing
from firmware_sim.isa.bursts import straight
from firmware_sim.isa.layout import CHANNELS_MAX
from user_layers.net.phases import CHANNELS_TOLD
from user_layers.onnx.model import Array


@dataclass(frozen=True)
class Axis:
    """The windows of a node along one axis. extra: behind `after`, room for last windows that are not
    complete (ceil_mode)."""

    kernel: int
    stride: int = 1
    dilation: int = 1
    before: int = 0
    after: int = 0
    extra: int = 0


@dataclass(frozen=True)
class Problem:
    """A convolution, of one group. shape: of the input, [N, C, H, W]; of volumes [N * D, C, H, W]; made: of
    the output in the same way; planes: D; computed: another layer makes the input."""

    shape: tuple[int, ...]
    made: tuple[int, ...]
    planes: int
    d: Axis
    h: Axis
    w: Axis
    bias: bool
    computed: bool


def rows_fold(problem: Problem) -> bool:
    """Whether rows of the kernel become channels too: where there are some, and it takes fewer cycles."""
    channels = problem.shape[1] * problem.d.kernel * problem.h.kernel
    return (
        problem.h.kernel > 1 and channels <= CHANNELS_MAX and _cycles(problem, True) < _cycles(problem, False)
    )


def _cycles(problem: Problem, rows: bool) -> float:
    """Modelled cycles of the convolution and the loads of its input, which go on at the same time. rows: they
    are channels."""
    n, c, h, w = problem.shape
    times = problem.d.kernel * (problem.h.kernel if rows else 1)
    kernel = 1 if rows else problem.h.kernel, problem.w.kernel
    made_n, made_c, made_h, made_w = problem.made
    compute = timing.convolution(
        (made_n, made_c, made_h, made_w),
        0,
        max(c * times, CHANNELS_TOLD),
        kernel,
        problem.w.stride,
        bias=problem.bias,
    ).chip
    lines, line = made_n * c * times * (made_h if rows else h), 4 * w
    side = replace(straight(line), jumps=1 if rows else 0)
    load = lines * timing.system_to_local(side).chip - (lines - 1) * timing.FITTED.read_latency
    extra = 0.0
    if (
        rows and problem.computed and problem.planes == 1
    ):  # it goes through DDR, where it could stay in a group
        extra = timing.local_to_system(straight(4 * n * c * h * w)).chip
    return max(compute, load) + extra


def unfold_param(planes: int, d: Axis, h: Axis) -> dict[str, int]:
    """The parameters of TPU_UNFOLD; Axis(1) for what stays as it is."""
    return {
        "planes": planes,
        "kernel_d": d.kernel,
        "stride_d": d.stride,
        "dilation_d": d.dilation,
        "pad_front": d.before,
        "pad_back": d.after,
        "kernel_h": h.kernel,
        "stride_h": h.stride,
        "dilation_h": h.dilation,
        "pad_top": h.before,
        "pad_bottom": h.after,
    }


def unfolded_weights(weights: Array, rows: bool) -> Array:
    """[OC, C, KD, KH, KW] as those of a convolution of planes: [OC, KD * KH * C, 1, KW] with rows as
    channels, [OC, KD * C, KH, KW] without."""
    out_c, _, _, kh, kw = weights.shape
    order = (0, 2, 3, 1, 4) if rows else (0, 2, 1, 3, 4)
    return np.ascontiguousarray(weights.transpose(order)).reshape(out_c, -1, 1 if rows else kh, kw)
