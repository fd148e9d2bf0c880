"""fp32 arithmetic as the chip's functional model does it, on whole arrays.

IEEE single precision, round to nearest even, denormals flushed to zero in inputs and results. NaN
payloads are not specified. Call inside firmware_sim.flush.flushing(): where the processor flushes as the
chip does, the operations are numpy's own, and elsewhere those of fp32_software.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from firmware_sim import flush as mode
from firmware_sim.instructions import fp32_software as software

F32 = npt.NDArray[np.float32]
Binary = Callable[[F32, F32], F32]
Comparison = Callable[[F32, F32], npt.NDArray[np.bool_]]

_SIGN = np.uint32(0x8000_0000)
_ONE = np.float32(1)
_HALF = np.float32(0.5)
_THREE_HALVES = np.float32(1.5)
_RSQRT_MAGIC = np.uint32(0x5F37_59DF)


def _flush(x: F32) -> F32:
    flushed: F32 = np.multiply(x, _ONE)  # the processor takes a denormal as zero
    return flushed


add: Binary = np.add if mode.HARDWARE else software.add
sub: Binary = np.subtract if mode.HARDWARE else software.sub
mul: Binary = np.multiply if mode.HARDWARE else software.mul
greater: Comparison = np.greater if mode.HARDWARE else software.greater
"""a > b with denormals as zero; false for NaN."""
less_equal: Comparison = np.less_equal if mode.HARDWARE else software.less_equal
flush: Callable[[F32], F32] = _flush if mode.HARDWARE else software.flush
"""Denormals replaced by zeros of their sign."""


def rsqrt(x: F32) -> F32:
    """1 / sqrt(x) from the bit trick and three Newton steps; the sign is shifted like any other bit."""
    half = (x.view(np.int32) >> np.int32(1)).view(np.uint32)
    r: F32 = (_RSQRT_MAGIC - half).view(np.float32)
    h = mul(x, _HALF)
    for _ in range(3):
        r = mul(r, sub(_THREE_HALVES, mul(mul(h, r), r)))
    return r


def div(a: F32, b: F32) -> F32:
    """a / b as (1 / sqrt(|b|))**2 * a: not the correctly rounded quotient (1 / 1 is 0.99999988)."""
    abs_bits = b.view(np.uint32) & ~_SIGN
    r = rsqrt(abs_bits.view(np.float32))
    a_bits = a.view(np.uint32)
    signed = ((a_bits & ~_SIGN) | ((a_bits ^ b.view(np.uint32)) & _SIGN)).view(np.float32)
    return mul(mul(r, r), signed)


def maximum(a: F32, b: F32) -> F32:
    """a > b ? a : b, denormals flushed in the comparison and in the result."""
    return flush(np.where(greater(a, b), a, b))


def minimum(a: F32, b: F32) -> F32:
    """a <= b ? a : b; unlike maximum, the chosen operand keeps its bits, denormals too."""
    return np.where(less_equal(a, b), a, b)
