"""Convolutions of volumes in groups of channels: which ones one layer computes (TPU_CONV3D)."""

from __future__ import annotations

from dataclasses import dataclass

from firmware_sim.chip import ALIGN_BYTES, LOCAL_BYTES, NPU_NUM, WINDOW_SIDE_MAX
from firmware_sim.isa.layout import WINDOW_STEP_MAX
from user_layers.onnx.unfold import Axis


@dataclass(frozen=True)
class Grouped:
    """A convolution of volumes, shape [N, C, D, H, W], with weights [OC, C / groups, KD, KH, KW]."""

    shape: tuple[int, ...]
    weights: tuple[int, ...]
    groups: int
    d: Axis
    h: Axis
    w: Axis


def one_layer(problem: Grouped) -> bool:
    """Whether the layer takes it: its shape function (sdk/layers/device/bm_device_conv3d.c) says the same."""
    planes = problem.shape[2]
    return (
        problem.groups > 1
        and planes > 1
        and _meets(problem.d, planes)
        and _in_instruction(problem.h)
        and _in_instruction(problem.w)
        and _room(problem) <= LOCAL_BYTES
    )


def _reach(axis: Axis) -> int:
    return (axis.kernel - 1) * axis.dilation + 1


def _meets(axis: Axis, extent: int) -> bool:
    """Whether each window sees something."""
    count = (extent + axis.before + axis.after - _reach(axis)) // axis.stride + 1
    return all(
        any(0 <= i * axis.stride - axis.before + tap * axis.dilation < extent for tap in range(axis.kernel))
        for i in range(count)
    )


def _in_instruction(axis: Axis) -> bool:
    pads = max(axis.before, axis.after)
    steps = max(pads, axis.stride, axis.dilation)
    return steps <= WINDOW_STEP_MAX and pads < _reach(axis) <= WINDOW_SIDE_MAX


def _room(problem: Grouped) -> int:
    """Bytes per lane of a tile with one element of the output in each channel; what moves has two places."""
    made, read, *taps = problem.weights
    made, (d, h, w) = made // problem.groups, taps
    group = min(problem.groups, max(1, NPU_NUM // max(read, made)))
    depthwise = read == made == 1
    slots = _up(group * made, NPU_NUM)
    words = h * w if depthwise else 2 * _up(read, 2) * h * w
    rows, columns, planes = (
        min(_reach(axis), extent)
        for axis, extent in zip(
            (problem.h, problem.w, problem.d), (*problem.shape[3:], problem.shape[2]), strict=True
        )
    )
    taken = planes * _up(group * read, NPU_NUM) * _line(rows * columns)
    beside = _line(d * slots * words) + _line(slots)
    result = slots * _line(1)
    return 2 * (taken + result + beside) + (result if depthwise else 0)


def _up(count: int, size: int) -> int:
    return -(-count // size)


def _line(words: int) -> int:
    """Bytes of words in whole lines."""
    return _up(4 * words, ALIGN_BYTES) * ALIGN_BYTES
