"""Element-wise operations that numpy needs several passes for, in one pass each.

Operands are rows of `width` neighbouring 32-bit elements of one flat memory, given by the index of each
row's first element. The reference of each is the numpy function of the same name in fp32 or sfu. Choices
are made with masks: branches would keep the loops from using vector instructions.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_SIGN = np.uint32(0x80000000)
_MAGNITUDE = np.uint32(0x7FFFFFFF)
_SMALLEST = np.uint32(0x00800000)  # the least magnitude that is not denormal
_ZERO = np.uint32(0)
_TOO_LARGE = np.float32(2147483648.0)


@njit(nogil=True, cache=True, error_model="numpy")
def maximum(words, floats, out, a, b, width):  # type: ignore[no-untyped-def]
    for row in range(out.shape[0]):
        r = words[out[row] : out[row] + width]
        x, xs = floats[a[row] : a[row] + width], words[a[row] : a[row] + width]
        y, ys = floats[b[row] : b[row] + width], words[b[row] : b[row] + width]
        for i in range(width):
            first = _ZERO - np.uint32(x[i] > y[i])
            v = (xs[i] & first) | (ys[i] & ~first)
            normal = _ZERO - np.uint32((v & _MAGNITUDE) >= _SMALLEST)
            r[i] = v & (normal | _SIGN)


@njit(nogil=True, cache=True, error_model="numpy")
def minimum(words, floats, out, a, b, width):  # type: ignore[no-untyped-def]
    for row in range(out.shape[0]):
        r = words[out[row] : out[row] + width]
        x, xs = floats[a[row] : a[row] + width], words[a[row] : a[row] + width]
        y, ys = floats[b[row] : b[row] + width], words[b[row] : b[row] + width]
        for i in range(width):
            first = _ZERO - np.uint32(x[i] <= y[i])
            r[i] = (xs[i] & first) | (ys[i] & ~first)


@njit(nogil=True, cache=True, error_model="numpy")
def fp32_to_int(words, floats, out, a, b, width):  # type: ignore[no-untyped-def]
    """b is not used."""
    for row in range(out.shape[0]):
        r = words[out[row] : out[row] + width]
        x, xs = floats[a[row] : a[row] + width], words[a[row] : a[row] + width]
        for i in range(width):
            v = x[i]
            inside = (v < _TOO_LARGE) & (v > -_TOO_LARGE)
            kept = v if inside else np.float32(0)
            limit = _SIGN if xs[i] & _SIGN else _MAGNITUDE
            r[i] = np.uint32(np.int32(kept)) if inside else limit


@njit(nogil=True, cache=True, error_model="numpy")
def lookup(words, table, out, a, width):  # type: ignore[no-untyped-def]
    """Each result the entry at the low byte of an index; the table has all 256 entries."""
    for row in range(out.shape[0]):
        r, x = words[out[row] : out[row] + width], words[a[row] : a[row] + width]
        for i in range(width):
            r[i] = table[x[i] & np.uint32(255)]
