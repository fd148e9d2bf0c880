"""Operands of the kernel API's calls in the memories of the test harness, in the layouts of the table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from firmware_sim.chip import ALIGN_BYTES, DDR_BASE, LOCAL_BYTES, NPU_NUM

Array = npt.NDArray[Any]


def slots(start: int, channels: int) -> int:
    """Channel slots of an NPU for a tensor that starts on NPU `start`."""
    return -(-(start + channels) // NPU_NUM)


def aligned(start: int, shape: Sequence[int], itemsize: int = 4) -> list[int]:
    """Strides of the aligned layout, in elements."""
    _, c, h, w = shape
    unit = ALIGN_BYTES // itemsize
    channel = -(-h * w // unit) * unit
    return [slots(start, c) * channel, channel, w, 1]


def compact(start: int, shape: Sequence[int]) -> list[int]:
    """Strides of the compact layout."""
    _, c, h, w = shape
    return [slots(start, c) * h * w, h * w, w, 1]


def continuous(shape: Sequence[int]) -> list[int]:
    """Strides of the continuous layout."""
    return [math.prod(shape[1:]), math.prod(shape[2:]), shape[3], 1]


@dataclass(frozen=True)
class Placed:
    """A tensor [n, c, h, w] in a memory. addr: as the kernel gives it; strides: in units of `itemsize` bytes;
    dtype: of an element; per_word: elements of neighbouring batches that share a unit (4N, 2N).
    """

    addr: int
    shape: tuple[int, int, int, int]
    strides: tuple[int, ...]
    dtype: str = "float32"
    itemsize: int = 4
    per_word: int = 1

    def offsets(self) -> npt.NDArray[np.int64]:
        """Byte offsets of all elements in their memory, [n, c, h, w]."""
        n, c, h, w = (np.arange(extent).reshape(-1, *(1,) * (3 - i)) for i, extent in enumerate(self.shape))
        if self.addr >= DDR_BASE:
            base, lane, slot = self.addr - DDR_BASE, 0 * c, c
        else:
            start, base = divmod(self.addr, LOCAL_BYTES)
            lane, slot = (start + c) % NPU_NUM, (start + c) // NPU_NUM
        s = self.strides
        units = (n // self.per_word) * s[0] + slot * s[1] + h * s[2] + w * s[3]
        inside = (n % self.per_word) * (self.itemsize // self.per_word)
        found: npt.NDArray[np.int64] = base + lane * LOCAL_BYTES + units * self.itemsize + inside
        return found

    def read(self, memory: Array) -> Array:
        """The elements, out of the memory as bytes."""
        size = np.dtype(self.dtype).itemsize
        found = memory[self.offsets()[..., None] + np.arange(size)]
        return np.ascontiguousarray(found).view(self.dtype)[..., 0]

    def write(self, memory: Array, values: Array) -> None:
        """Put the elements there."""
        size = np.dtype(self.dtype).itemsize
        data = np.ascontiguousarray(np.broadcast_to(values, self.shape).astype(self.dtype))
        memory[self.offsets()[..., None] + np.arange(size)] = data[..., None].view(np.uint8)
