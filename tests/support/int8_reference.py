"""8-bit layers as plain integers: what their commands compute, without lanes, words or tiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.support.window_layers import Pads, convolution

Array = npt.NDArray[Any]
ENDS = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767), "uint16": (0, 65535)}


def integers(shape: Sequence[int], dtype: str, seed: int = 0, largest: int = 1 << 30) -> Array:
    """Random ones of a type, at most `largest` from 0."""
    low, high = ENDS[dtype]
    rng = np.random.default_rng(seed)
    return rng.integers(max(low, -largest), min(high, largest) + 1, tuple(shape)).astype(dtype)


def shifted(sums: Array, rshift: int, dtype: str) -> Array:
    """Sums shifted to the right, rounded half up, saturated."""
    half = (1 << rshift) >> 1
    found: Array = np.clip((sums.astype(np.int64) + half) >> rshift, *ENDS[dtype]).astype(dtype)
    return found


def conv_int8(
    x: Array,
    w: Array,
    bias: Array | None,
    rshift: int,
    relu: bool,
    *,
    groups: int = 1,
    stride: Sequence[int] = (1, 1),
    dilation: Sequence[int] = (1, 1),
    pads: Pads = (0, 0, 0, 0),
) -> Array:
    """TPU_CONV_INT8; float64 holds its sums exactly."""
    sums = convolution(x, w, None, groups, stride, dilation, pads)
    if bias is not None:
        sums = sums + bias.reshape(1, -1, 1, 1)
    return shifted(sums, rshift, "uint8" if relu else "int8")
