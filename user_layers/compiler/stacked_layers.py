"""Layers that can make several rows at once as channels: convolutions, and transposed ones."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from firmware_sim.chip import NPU_NUM, WINDOW_SIDE_MAX
from firmware_sim.isa import timing
from firmware_sim.isa.bursts import straight
from firmware_sim.isa.layout import CHANNELS_MAX, WINDOW_STEP_MAX
from user_layers.net.net import NetTensorInfo
from user_layers.net.nodes import LayerNode
from user_layers.net.phases import CHANNELS_TOLD, Axis, Direction, deconvolution

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Stackable(ABC):
    """A layer of one group with constant weights. unfold: the layer that makes channels of its kernel's
    rows, if there is one; source, made: what goes in before that, and what comes out; window: the layer's
    parameters."""

    node: LayerNode
    unfold: LayerNode | None
    source: NetTensorInfo
    made: NetTensorInfo
    weights: Floats
    bias: bool
    window: Mapping[str, Any]

    @abstractmethod
    def candidates(self) -> Iterable[int]:
        """How many rows at once there can be."""

    @abstractmethod
    def cycles(self, rows: int) -> tuple[float, float]:
        """Of the tensor unit; and of the DMA engine before it for what depends on the rows: the kernel and
        the unfolded input."""

    @abstractmethod
    def parameters(self, rows: int) -> dict[str, int]:
        """Those of the layer that become others, or of `unfold`."""

    @abstractmethod
    def kernel(self, rows: int) -> Floats:
        """The weights, whose output channels are [row, output channel]."""

    def _cycles(self, rows: int, kernel: tuple[int, int], ins: int, stride_w: int) -> tuple[float, float]:
        n, c, h, w = self.made.shape
        shape = n, rows * c, -(-h // rows), w
        computed = timing.convolution(
            shape, 0, max(ins, CHANNELS_TOLD), kernel, stride_w, bias=self.bias
        ).chip
        return computed, _loaded(rows * c, ins, kernel)


def _loaded(outs: int, ins: int, kernel: tuple[int, int]) -> float:
    """Cycles of the kernel's load."""
    return timing.system_to_local(straight(4 * outs * ins * kernel[0] * kernel[1])).chip


@dataclass(frozen=True)
class Convolution(Stackable):
    """TPU_CONV. taps, stride, top: of the whole kernel along h."""

    taps: int
    stride: int
    top: int

    def candidates(self) -> Iterable[int]:
        """Those for which there are lanes and which one instruction makes."""
        c, h = self.made.shape[1:3]
        return (rows for rows in range(2, min(NPU_NUM // c, h) + 1) if self._takes(rows))

    def cycles(self, rows: int) -> tuple[float, float]:
        """See Stackable."""
        n, channels = self.made.shape[0], self.source.shape[1]
        reach, kernel_w, stride_w = self._reach(rows), self.window["kernel_w"], self.window["stride_w"]
        if self.unfold is None:
            computed, loaded = self._cycles(rows, (reach, kernel_w), channels, stride_w)
            if max(self.top, self._below(rows)) > WINDOW_STEP_MAX:  # the input is copied between its pads
                _, _, h, w = self.source.shape
                computed += timing.elementwise((n, channels, h, w), 0, 1).chip
            return computed, loaded
        computed, loaded = self._cycles(rows, (1, kernel_w), channels * reach, stride_w)
        lines = n * channels * reach * -(-self.made.shape[2] // rows)
        line = replace(straight(4 * self.source.shape[3]), jumps=1)
        return computed, loaded + lines * (timing.system_to_local(line).chip - timing.FITTED.read_latency)

    def parameters(self, rows: int) -> dict[str, int]:
        """See Stackable."""
        below = self._below(rows)
        found = {"kernel_h": self._reach(rows), "stride_h": rows * self.stride, "pad_bottom": below}
        return found | {"dilation_h": 1}

    def kernel(self, rows: int) -> Floats:
        """[row and output channel, input channel, KH, KW], or with rows of the kernel as channels."""
        c, channels, kernel_w = self.made.shape[1], self.source.shape[1], self.weights.shape[3]
        if self.unfold is None:
            by_tap = self.weights.transpose(0, 2, 1, 3)
        else:
            by_tap = self.weights.reshape(c, self.taps, channels, kernel_w)
        whole = np.zeros((rows, c, self._reach(rows), channels, kernel_w), np.float32)
        for row in range(rows):
            whole[row, :, row * self.stride : row * self.stride + self.taps] = by_tap
        if self.unfold is None:
            return np.ascontiguousarray(whole.transpose(0, 1, 3, 2, 4)).reshape(
                rows * c, channels, -1, kernel_w
            )
        return whole.reshape(rows * c, -1, 1, kernel_w)

    def _reach(self, rows: int) -> int:
        """Rows of the kernel for so many of the output."""
        return self.taps + (rows - 1) * self.stride

    def _below(self, rows: int) -> int:
        """Rows that windows of so many output rows reach over the input's lower edge."""
        steps = -(-self.made.shape[2] // rows) * rows - 1
        return max(steps * self.stride + self.taps - self.top - self.source.shape[2], 0)

    def _takes(self, rows: int) -> bool:
        reach = self._reach(rows)
        if self.unfold is not None:
            return self.source.shape[1] * reach <= CHANNELS_MAX
        return (
            rows * self.stride <= WINDOW_STEP_MAX
            and reach <= WINDOW_SIDE_MAX
            and max(self.top, self._below(rows)) < reach
        )


@dataclass(frozen=True)
class Continued(Convolution):
    """TPU_CONV of what has several rows as channels: its kernel goes over blocks of so many (`given`), with
    zeros where a row's own window is not."""

    given: int

    def candidates(self) -> Iterable[int]:
        """Those, 1 among them, with which windows begin at whole blocks."""
        c, h = self.made.shape[1:3]
        most = max(min(NPU_NUM // c, h), 1)
        whole = self.source.shape[2] % self.given == 0 and self.given * self.source.shape[1] <= CHANNELS_MAX
        return (rows for rows in range(1, most + 1) if whole and self._takes(rows))

    def cycles(self, rows: int) -> tuple[float, float]:
        """See Stackable."""
        kernel = self._blocks(rows)[1], self.window["kernel_w"]
        return self._cycles(rows, kernel, self.given * self.source.shape[1], self.window["stride_w"])

    def parameters(self, rows: int) -> dict[str, int]:
        """See Stackable."""
        first, count = self._blocks(rows)
        step = rows * self.stride // self.given
        return {
            "kernel_h": count,
            "stride_h": step,
            "dilation_h": 1,
            "pad_top": -first,
            "pad_bottom": self._behind(rows),
        }

    def kernel(self, rows: int) -> Floats:
        """[row and output channel, row of the block and input channel, blocks, KW]."""
        first, count = self._blocks(rows)
        c, ins, _, kernel_w = self.weights.shape
        whole = np.zeros((rows, c, self.given, ins, count, kernel_w), np.float32)
        for row, tap in np.ndindex(rows, self.taps):
            block, phase = divmod(row * self.stride + tap - self.top, self.given)
            whole[row, :, phase, :, block - first] = self.weights[:, :, tap]
        return whole.reshape(rows * c, self.given * ins, count, kernel_w)

    def _blocks(self, rows: int) -> tuple[int, int]:
        """The first block beside the one with which the first row is, and how many the kernel goes over."""
        first = -self.top // self.given
        return first, (self._reach(rows) - 1 - self.top) // self.given - first + 1

    def _behind(self, rows: int) -> int:
        """Blocks behind the last one that windows see."""
        first, count = self._blocks(rows)
        steps = -(-self.made.shape[2] // rows) - 1
        return max(
            steps * (rows * self.stride // self.given) + first + count - self.source.shape[2] // self.given, 0
        )

    def _takes(self, rows: int) -> bool:
        if rows * self.stride % self.given != 0 or rows * self.stride // self.given > WINDOW_STEP_MAX:
            return False
        first, count = self._blocks(rows)
        return max(-first, self._behind(rows)) < min(count, WINDOW_STEP_MAX + 1)


def continued(reader: Convolution, given: int) -> Continued:
    """A convolution that takes so many rows as channels."""
    return Continued(**_fields(reader), given=given)


def _fields(one: Convolution) -> dict[str, Any]:
    return {f.name: getattr(one, f.name) for f in fields(one)}


@dataclass(frozen=True)
class Turned(Continued):
    """TPU_CONV of one channel, whose samples along a line become channels in blocks of `given` before it
    (TPU_TURN). columns: the lines are rows of a picture; here rows and columns are exchanged then."""

    columns: bool

    def candidates(self) -> Iterable[int]:
        """The least numbers of results that begin at whole blocks: all that lanes have room for."""
        c, h = self.made.shape[1:3]
        least = self.given // math.gcd(self.given, self.stride)
        most = min(max(NPU_NUM // c, least), h, CHANNELS_MAX // c)
        return (rows for rows in range(least, most + 1, least) if self._takes(rows))

    def cycles(self, rows: int) -> tuple[float, float]:
        """See Stackable. What turns the samples is waited for."""
        computed, loaded = super().cycles(rows)
        return computed + timing.local_to_local(4 * math.prod(self.source.shape)).chip, loaded

    def parameters(self, rows: int) -> dict[str, int]:
        """See Stackable."""
        found = {**self.window, **super().parameters(rows)}
        return _exchanged(found) if self.columns else found

    def kernel(self, rows: int) -> Floats:
        """See Stackable."""
        found = super().kernel(rows)
        return np.ascontiguousarray(found.swapaxes(2, 3)) if self.columns else found


_LEAST_BLOCK, _MOST_BLOCK = 4, NPU_NUM  # samples: below, lanes of channels are as empty as before


def turned(layer: Convolution) -> Iterator[Turned]:
    """What a convolution can be whose samples become channels."""
    columns = layer.source.shape[3] > 1
    one = _of_rows(layer) if columns else layer
    if layer.unfold is not None or layer.source.shape[1] != 1 or one.window["dilation_h"] > 1:
        return
    line = one.source.shape[2]
    for given in range(_LEAST_BLOCK, min(line, _MOST_BLOCK) + 1):
        if line % given == 0:
            yield Turned(**_fields(one), given=given, columns=columns)


def _of_rows(layer: Convolution) -> Convolution:
    """A convolution with rows and columns exchanged."""
    window = _exchanged(layer.window)
    source, made = (
        replace(one, shape=(*one.shape[:2], one.shape[3], one.shape[2])) for one in (layer.source, layer.made)
    )
    along = {"taps": window["kernel_h"], "stride": window["stride_h"], "top": window["pad_top"]}
    weights = layer.weights.swapaxes(2, 3)
    return replace(layer, source=source, made=made, weights=weights, window=window, **along)


_OTHER = {"top": "left", "left": "top", "bottom": "right", "right": "bottom", "h": "w", "w": "h"}


def _exchanged(window: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of rows as those of columns."""
    parted = {name: name.rpartition("_") for name in window}
    return {
        f"{what}_{_OTHER[axis]}" if axis in _OTHER else name: window[name]
        for name, (what, _, axis) in parted.items()
    }


_ROWS, _COLUMNS = ("top", "bottom"), ("left", "right")


def _direction(window: Mapping[str, Any], axis: str, low: str, high: str) -> Direction:
    """Of the parameters of TPU_DECONV."""
    kernel, dilation = window[f"kernel_{axis}"], window[f"dilation_{axis}"]
    reach = (kernel - 1) * dilation
    after = reach - window[f"pad_{high}"] + window[f"output_pad_{axis}"]
    return Direction(kernel, window[f"stride_{axis}"], dilation, reach - window[f"pad_{low}"], after)


@dataclass(frozen=True)
class Transposed(Stackable):
    """TPU_DECONV. Its rows at once are those of all phases of the stride, for which there are more lanes."""

    @cached_property
    def _axis(self) -> Axis:
        window = self.window
        return Axis(
            *(self.source.shape[2], self.made.shape[2], window["kernel_h"], window["stride_h"]),
            window["pad_top"],
        )

    def candidates(self) -> Iterable[int]:
        """The stride, if pads let it be."""
        axis = self._axis
        fits = axis.stride * self.made.shape[1] <= CHANNELS_MAX and axis.pads[1] < axis.taps
        return [axis.stride] if axis.stride > 1 and fits and max(axis.pads) <= WINDOW_STEP_MAX else []

    def cycles(self, rows: int) -> tuple[float, float]:
        """See Stackable."""
        n, c, h, w = self.made.shape
        ins = self.source.shape[1]
        values = {**self.window, **(self.parameters(rows) if rows > 1 else {})}
        along = [_direction(values, axis, *pads) for axis, pads in (("h", _ROWS), ("w", _COLUMNS))]
        computed = deconvolution((n, rows * c, -(-h // rows), w), ins, *along, bias=self.bias)
        return computed, _loaded(rows * c, ins, (along[0].kernel, along[1].kernel))

    def parameters(self, rows: int) -> dict[str, int]:
        """See Stackable. Of a stride of 1, so that pads are what the kernel reaches over less those of a
        convolution."""
        axis = self._axis
        before, after = axis.pads
        return {
            "kernel_h": axis.taps,
            "stride_h": 1,
            "dilation_h": 1,
            "pad_top": axis.taps - 1 - before,
            "pad_bottom": axis.taps - 1 - after,
            "output_pad_h": 0,
        }

    def kernel(self, rows: int) -> Floats:
        """[input channel, row and output channel, KH, KW]; the layer's taps run against those of a
        convolution."""
        axis = self._axis
        ins, outs, _, kernel_w = self.weights.shape
        whole = np.zeros((ins, rows, outs, axis.taps, kernel_w), np.float32)
        for row, tap in np.ndindex(rows, axis.taps):
            y = axis.kernel_index(row, tap)
            if 0 <= y < axis.kernel:
                whole[:, row, :, axis.taps - 1 - tap] = self.weights[:, :, y]
        return whole.reshape(ins, rows * outs, axis.taps, kernel_w)
