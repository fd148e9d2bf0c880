"""Rounding and saturation of fixed-point results: half up, then the range of the result."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
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


_marking = False


@contextlib.contextmanager
def marking() -> Iterator[None]:
    """Inside, results are 1 where they would be clipped, 2 where that is at the lower end, else 0: so a
    command's reference tells whoever looks for saturated elements."""
    global _marking
    _marking = True
    try:
        yield
    finally:
        _marking = False


def saturate(values: Integers, bits: int, signed: bool) -> Integers:
    """Integers clipped to the range of `bits` bits, as the unsigned type that holds them."""
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    kind = {8: np.uint8, 16: np.uint16}[bits]
    if _marking:
        marks: Integers = (values > high).astype(kind) + (values < low).astype(kind) * kind(2)
        return marks
    clipped: Integers = np.clip(values, low, high).astype(kind)
    return clipped
