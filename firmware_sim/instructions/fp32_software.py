"""fp32 arithmetic with denormals flushed to zero, for processors that do not flush in the chip's way.

IEEE single precision, round to nearest even, except that denormal inputs count as zero and denormal
results become zero, both with their sign. numpy computes with denormals: each operation first computes
plainly, looks whether a denormal can have mattered (cheap passes), and only then takes the careful path.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]
U32 = npt.NDArray[np.uint32]

_SIGN = np.uint32(0x8000_0000)
_EXPONENT = np.uint32(0x7F80_0000)
_ONE = np.uint32(1)

# Thresholds for `(bits << 1) - 1 < limit`: true for 0 < |x| <= limit; zeros wrap around to the top.
_NORMAL_MIN = (0x0080_0000 << 1) - 1  # |x| < 2**-126
_MUL_DOUBT = 0x0080_0000 << 1  # |x| <= 2**-126, see mul
_ADD_DOUBT = ((127 - 100) << 24) - 1  # |x| < 2**-100, see add


def _any_below(x: F32, limit: int) -> bool:
    """Whether any nonzero |x| is below the threshold."""
    return bool(((x.view(np.uint32) << _ONE) - _ONE).min() < limit)


def has_denormals(x: F32) -> bool:
    """Whether any element is denormal: nonzero and below 2**-126 in magnitude."""
    return _any_below(x, _NORMAL_MIN)


def flush(x: F32) -> F32:
    """Denormals replaced by zeros of their sign."""
    bits = x.view(np.uint32)
    return np.where((bits & _EXPONENT) == 0, bits & _SIGN, bits).view(np.float32)


def add(a: F32, b: F32) -> F32:
    """a + b, denormal inputs as zeros and denormal sums as zeros of their sign."""
    # A denormal changes a sum only when the sum is below 2**-100: above, it is less than half a
    # unit in the last place of the other operand. A sum that is exactly zero stays the same zero.
    r = np.add(a, b)
    if _any_below(r, _ADD_DOUBT):
        r = flush(np.add(flush(a), flush(b)))
    return r


def sub(a: F32, b: F32) -> F32:
    """a - b, denormal inputs as zeros and denormal differences as zeros of their sign."""
    r = np.subtract(a, b)
    if _any_below(r, _ADD_DOUBT):
        r = flush(np.subtract(flush(a), flush(b)))
    return r


def mul(a: F32, b: F32) -> F32:
    """a * b, denormal inputs as zeros and products below 2**-126 as zeros of their sign."""
    r = np.multiply(a, b)
    if _any_below(r, _MUL_DOUBT) or has_denormals(a) or has_denormals(b):
        a, b = flush(a), flush(b)
        r = np.multiply(a, b)
        # Whether a result is too small is decided on the value rounded to 24 bits: products in the
        # last quarter step below 2**-126 round to it on the denormal grid, but are flushed.
        limit = 2.0**-126 * (1 - 2.0**-25)
        product = np.abs(np.multiply(a, b, dtype=np.float64))
        bits = r.view(np.uint32)
        r = np.where(product < limit, bits & _SIGN, bits).view(np.float32)
    return r


def greater(a: F32, b: F32) -> npt.NDArray[np.bool_]:
    """a > b with denormals as zero; false for NaN."""
    if has_denormals(a) or has_denormals(b):
        a, b = flush(a), flush(b)
    return np.greater(a, b)


def less_equal(a: F32, b: F32) -> npt.NDArray[np.bool_]:
    """a <= b with denormals as zero; false for NaN."""
    if has_denormals(a) or has_denormals(b):
        a, b = flush(a), flush(b)
    return np.less_equal(a, b)
