"""The names that formulas and costs in the table of the kernel API use, as numpy has them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.support import kernel_tensors

Array = npt.NDArray[Any]


def _to_int32(x: Array) -> Array:
    with np.errstate(invalid="ignore"):
        cut = np.clip(np.trunc(x.astype(np.float64)), -(1 << 31), (1 << 31) - 1)
    found: Array = np.where(np.isnan(x), (1 << 31) - 1, cut).astype(np.int64)
    return found


def _shift(values: Any, counts: Any, bits: int, arithmetic: bool) -> Array:
    x, s = np.broadcast_arrays(np.asarray(values, np.int64), np.asarray(counts, np.int64))
    mask = (1 << bits) - 1
    s = np.where(np.abs(s) >= 32, np.sign(s) * (np.abs(s) % 32), s)
    right = x if arithmetic else x & mask
    moved = np.where(s >= 0, (x & mask) << np.maximum(s, 0), right >> np.maximum(-s, 0)) & mask
    found: Array = moved - ((moved >> (bits - 1)) << bits)
    return found


def _half_up(x: Any, rshift: int) -> Array:
    wide = np.asarray(x, np.int64)
    return (wide + (1 << rshift >> 1)) >> rshift


def _same_bits(a: Any, b: Any) -> Array:
    bits = (np.asarray(v, np.float32).view(np.uint32) for v in (a, b))
    return np.equal(*bits)


def windows(x: Array, pad: float, given: Mapping[str, Any]) -> Array:
    """All windows of x, [n, c, oh, ow, kernel_h, kernel_w]; given: padding, stride, dilation, kernel."""
    top, bottom, left, right = given["padding"]
    padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=pad)
    (sh, sw), (dh, dw), (kh, kw) = given["stride"], given["dilation"], given["kernel"]
    oh = (padded.shape[2] - dh * (kh - 1) - 1) // sh + 1
    ow = (padded.shape[3] - dw * (kw - 1) - 1) // sw + 1
    rows = np.arange(oh)[:, None] * sh + np.arange(kh) * dh
    columns = np.arange(ow)[:, None] * sw + np.arange(kw) * dw
    found: Array = padded[:, :, rows[:, None, :, None], columns[None, :, None, :]]
    return found


def names(bits: int = 32) -> dict[str, Any]:
    """What every formula may call. bits: of the result, for shifts."""
    return {
        "where": np.where,
        "exp": np.exp,
        "sqrt": np.sqrt,
        "tanh": np.tanh,
        "clip": np.clip,
        "maximum": np.maximum,
        "minimum": np.minimum,
        "einsum": np.einsum,
        "factorial": math.factorial,
        "range": range,
        "sum": sum,
        "to_int32": _to_int32,
        "half_up": _half_up,
        "same_bits": _same_bits,
        "arithmetic_shift": lambda x, s: _shift(x, s, bits, True),
        "logical_shift": lambda x, s: _shift(x, s, bits, False),
    }


def costs(n: int, c: int, h: int, w: int, start: int, **more: Any) -> dict[str, Any]:
    """What every expression of cycles and commands may use."""

    def slots(channels: int) -> int:
        return kernel_tensors.slots(start, channels)

    return {
        **dict(zip("nchw", (n, c, h, w), strict=True)),
        "L": slots(c),
        "P": -(-h * w // 16),
        "slots": slots,
        "ceil": math.ceil,
        "min": min,
        "max": max,
        **more,
    }
