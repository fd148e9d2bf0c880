"""Convolutions and pools of volumes: which ones one layer computes (TPU_CONV3D, TPU_POOL_PLANES)."""

from __future__ import annotations

from dataclasses import dataclass

from firmware_sim.chip import ALIGN_BYTES, LOCAL_BYTES, NPU_NUM, WINDOW_SIDE_MAX
from firmware_sim.isa.layout import WINDOW_STEP_MAX
from user_layers.net.phases import CHANNELS_TOLD

Three = tuple[int, int, int]
"""Along depth, height and width."""


@dataclass(frozen=True)
class Planes:
    """Windows along the depth of volumes: planes of the input and of the output."""

    count: int
    made: int
    kernel: int
    stride: int
    dilation: int
    before: int

    @property
    def met(self) -> bool:
        """Whether each window sees one at least."""
        return all(
            any(
                0 <= i * self.stride - self.before + tap * self.dilation < self.count
                for tap in range(self.kernel)
            )
            for i in range(self.made)
        )

    @property
    def pooled(self) -> bool:
        """Whether one layer pools them (TPU_POOL_PLANES): its shape function says the same."""
        return self.count > 1 and self.met and self.count + self.made <= LOCAL_BYTES // (2 * ALIGN_BYTES)


@dataclass(frozen=True)
class Volumes:
    """A convolution of volumes, shape [N, C, D, H, W], with weights [OC, C / groups, KD, KH, KW]."""

    shape: tuple[int, ...]
    weights: tuple[int, ...]
    groups: int
    stride: Three
    dilation: Three
    before: Three
    after: Three

    @property
    def param(self) -> dict[str, int]:
        """The layer's parameters."""
        found = {"groups": self.groups, "planes": self.shape[2]}
        for name, values in (
            ("kernel", self.weights[2:]),
            ("stride", self.stride),
            ("dilation", self.dilation),
        ):
            found |= dict(zip((f"{name}_{axis}" for axis in "dhw"), values, strict=True))
        found |= dict(zip(("pad_front", "pad_top", "pad_left"), self.before, strict=True))
        return found | dict(zip(("pad_back", "pad_bottom", "pad_right"), self.after, strict=True))

    @property
    def one_layer(self) -> bool:
        """Whether the layer takes it: its shape function (sdk/layers/device/bm_device_conv3d.c) says the
        same."""
        return (
            (self.groups > 1 or self.weights[1] >= CHANNELS_TOLD)
            and self.shape[2] > 1
            and self._meets
            and all(self._in_instruction(axis) for axis in (1, 2))
            and self._room <= LOCAL_BYTES
        )

    def _reach(self, axis: int) -> int:
        return (self.weights[2 + axis] - 1) * self.dilation[axis] + 1

    @property
    def _meets(self) -> bool:
        """Whether each window sees some plane."""
        planes, before = self.shape[2], self.before[0]
        made = (planes + before + self.after[0] - self._reach(0)) // self.stride[0] + 1
        return Planes(planes, made, self.weights[2], self.stride[0], self.dilation[0], before).met

    def _in_instruction(self, axis: int) -> bool:
        pads = max(self.before[axis], self.after[axis])
        steps = max(pads, self.stride[axis], self.dilation[axis])
        return steps <= WINDOW_STEP_MAX and pads < self._reach(axis) <= WINDOW_SIDE_MAX

    @property
    def _room(self) -> int:
        """Bytes per lane of a tile with one element of the output in each channel; what moves has two
        places."""
        made, read, d, h, w = self.weights
        made //= self.groups
        group = min(self.groups, max(1, NPU_NUM // max(read, made)))
        depthwise = self.groups > 1 and read == made == 1
        slots = _up(group * made, NPU_NUM)
        words = h * w if depthwise else 2 * _up(read, 2) * h * w
        planes, rows, columns = (min(self._reach(i), extent) for i, extent in enumerate(self.shape[2:]))
        taken = planes * _up(group * read, NPU_NUM) * _line(rows * columns)
        beside = _line(d * slots * words) + _line(slots)
        result = slots * _line(1)
        return 2 * (taken + result + beside) + (result if depthwise else 0)


def _up(count: int, size: int) -> int:
    return -(-count // size)


def _line(words: int) -> int:
    """Bytes of words in whole lines."""
    return _up(4 * words, ALIGN_BYTES) * ALIGN_BYTES
