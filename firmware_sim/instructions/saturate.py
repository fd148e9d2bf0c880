"""Rounding and saturation of fixed-point results: half up, then the range of the result."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[Any]


def shift_half_up(values: Integers, shift: int) -> Integers:
    """values / 2**shift, halves rounded up."""
    if shift == 0:
        return values
    out: Integers = (values + values.dtype.type(1 << (shift - 1))) >> values.dtype.type(shift)
    return out


def saturate(values: Integers, bits: int, signed: bool) -> Integers:
    """Integers clipped to the range of `bits` bits, as the unsigned type that holds them."""
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    clipped = np.clip(values, low, high)
    return clipped.astype({8: np.uint8, 16: np.uint16}[bits])
