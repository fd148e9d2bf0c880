"""Element-wise operations that numpy needs several passes for, in one pass each.

Operands are rows of `width` neighbouring 32-bit elements (firmware_sim.instructions.rows): `at` holds
the index of each row's first element in the result and in each input. The reference of each is the numpy
function that it stands for in fp32, sfu, arithmetic or md. Choices are made with masks, and results collected
before they are written: branches, and rows that the compiler thinks may overlap, would keep the loops from
using vector instructions.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from firmware_sim.instructions.loops.vectors import copy as write

_SIGN = np.uint32(0x80000000)
_MAGNITUDE = np.uint32(0x7FFFFFFF)
_EXPONENT = np.uint32(0x7F800000)
_SMALLEST = np.uint32(0x00800000)  # the least magnitude that is not denormal
_ROUND = np.uint32(0x00555554)
_MAGIC = np.uint32(0x5F3759DF)
_ZERO = np.uint32(0)
_TOO_LARGE = np.float32(2147483648.0)
_BLOCK = 512  # elements of a row that are worked on at once

_loop = njit(nogil=True, cache=True, error_model="numpy")


@_loop
def _row(memory, at, width):  # type: ignore[no-untyped-def]
    return memory[at : at + width]


@_loop
def _mask(condition):  # type: ignore[no-untyped-def]
    return np.uint32(_ZERO - np.uint32(condition))


@_loop
def _float(bits):  # type: ignore[no-untyped-def]
    return np.uint32(bits).view(np.float32)


@_loop
def _bits(value):  # type: ignore[no-untyped-def]
    return np.float32(value).view(np.uint32)


@_loop
def _reciprocal_root(bits):  # type: ignore[no-untyped-def]
    x = _float(bits)
    r = _float(_MAGIC - np.uint32(np.int32(bits) >> np.int32(1)))
    h = x * np.float32(0.5)
    r = r * (np.float32(1.5) - (h * r) * r)
    r = r * (np.float32(1.5) - (h * r) * r)
    return r * (np.float32(1.5) - (h * r) * r)


@_loop
def _quotient(a, b):  # type: ignore[no-untyped-def]
    r = _reciprocal_root(np.uint32(b & _MAGNITUDE))
    return (r * r) * _float((a & _MAGNITUDE) | ((a ^ b) & _SIGN))


@_loop
def _shifted(a, count, arithmetic):  # type: ignore[no-untyped-def]
    signed = np.int32(np.uint32(count << np.uint32(26))) >> np.int32(26)
    amount = np.uint32(abs(signed)) & np.uint32(31)
    filled = np.uint32(np.int32(a) >> np.int32(amount)) if arithmetic else np.uint32(a >> amount)
    return np.uint32(a << amount) if signed > 0 else filled


@_loop
def add(out, x, y, at, width):  # type: ignore[no-untyped-def]
    """x + y in fp32."""
    results = np.empty(_BLOCK, np.uint32)
    for row in range(at.shape[1]):
        for s in range(0, width, _BLOCK):
            m = min(_BLOCK, width - s)
            a, b = _row(x, at[1, row] + s, m), _row(y, at[2, row] + s, m)
            for i in range(m):
                results[i] = _bits(_float(a[i]) + _float(b[i]))
            write(out, at[0, row] + s, results, 0, m)


@_loop
def subtract(out, x, y, at, width):  # type: ignore[no-untyped-def]
    """x - y in fp32."""
    results = np.empty(_BLOCK, np.uint32)
    for row in range(at.shape[1]):
        for s in range(0, width, _BLOCK):
            m = min(_BLOCK, width - s)
            a, b = _row(x, at[1, row] + s, m), _row(y, at[2, row] + s, m)
            for i in range(m):
                results[i] = _bits(_float(a[i]) - _float(b[i]))
            write(out, at[0, row] + s, results, 0, m)


@_loop
def multiply(out, x, y, at, width):  # type: ignore[no-untyped-def]
    """x * y in fp32."""
    results = np.empty(_BLOCK, np.uint32)
    for row in range(at.shape[1]):
        for s in range(0, width, _BLOCK):
            m = min(_BLOCK, width - s)
            a, b = _row(x, at[1, row] + s, m), _row(y, at[2, row] + s, m)
            for i in range(m):
                results[i] = _bits(_float(a[i]) * _float(b[i]))
            write(out, at[0, row] + s, results, 0, m)


@_loop
def bit_and(out, x, y, at, width):  # type: ignore[no-untyped-def]
    """x & y."""
    results = np.empty(_BLOCK, np.uint32)
    for row in range(at.shape[1]):
        for s in range(0, width, _BLOCK):
            m = min(_BLOCK, width - s)
            a, b = _row(x, at[1, row] + s, m), _row(y, at[2, row] + s, m)
            for i in range(m):
                results[i] = a[i] & b[i]
            write(out, at[0, row] + s, results, 0, m)


@_loop
def bit_or(out, x, y, at, width):  # type: ignore[no-untyped-def]
    """x | y."""
    results = np.empty(_BLOCK, np.uint32)
    for row in range(at.shape[1]):
        for s in range(0, width, _BLOCK):
            m = min(_BLOCK, width - s)
            a, b = _row(x, at[1, row] + s, m), _row(y, at[2, row] + s, m)
            for i in range(m):
                results[i] = a[i] | b[i]
            write(out, at[0, row] + s, results, 0, m)


@_loop
def bit_xor(out, x, y, at, width):  # type: ignore[no-untyped-def]
    """x ^ y."""
    results = np.empty(_BLOCK, np.uint32)
    for row in range(at.shape[1]):
        for s in range(0, width, _BLOCK):
            m = min(_BLOCK, width - s)
            a, b = _row(x, at[1, row] + s, m), _row(y, at[2, row] + s, m)
            for i in range(m):
                results[i] = a[i] ^ b[i]
            write(out, at[0, row] + s, results, 0, m)


@_loop
def copy(out, x, at, width):  # type: ignore[no-untyped-def]
    """x as it is, denormals too."""
    for row in range(at.shape[1]):
        r, a = _row(out, at[0, row], width), _row(x, at[1, row], width)
        for i in range(width):
            r[i] = a[i]


@_loop
def maximum(out, x, y, at, width):  # type: ignore[no-untyped-def]
    """x > y ? x : y in fp32, a denormal result as zero of its sign; y where one is NaN. See fp32.maximum."""
    results = np.empty(_BLOCK, np.uint32)
    for row in range(at.shape[1]):
        for s in range(0, width, _BLOCK):
            m = min(_BLOCK, width - s)
            a, b = _row(x, at[1, row] + s, m), _row(y, at[2, row] + s, m)
            for i in range(m):
                first = _mask(_float(a[i]) > _float(b[i]))
                v = (a[i] & first) | (b[i] & ~first)
                results[i] = v & (_mask((v & _MAGNITUDE) >= _SMALLEST) | _SIGN)
            write(out, at[0, row] + s, results, 0, m)


@_loop
def minimum(out, x, y, at, width):  # type: ignore[no-untyped-def]
    """x <= y ? x : y in fp32, the chosen bits kept, denormals too; y where one is NaN. See fp32.minimum."""
    results = np.empty(_BLOCK, np.uint32)
    for row in range(at.shape[1]):
        for s in range(0, width, _BLOCK):
            m = min(_BLOCK, width - s)
            a, b = _row(x, at[1, row] + s, m), _row(y, at[2, row] + s, m)
            for i in range(m):
                first = _mask(_float(a[i]) <= _float(b[i]))
                results[i] = (a[i] & first) | (b[i] & ~first)
            write(out, at[0, row] + s, results, 0, m)


@_loop
def divide(out, x, y, at, width):  # type: ignore[no-untyped-def]
    """x / y in fp32 as (1 / sqrt(|y|))**2 * x, not correctly rounded. See fp32.div."""
    results = np.empty(_BLOCK, np.uint32)
    for row in range(at.shape[1]):
        for s in range(0, width, _BLOCK):
            m = min(_BLOCK, width - s)
            a, b = _row(x, at[1, row] + s, m), _row(y, at[2, row] + s, m)
            for i in range(m):
                results[i] = _bits(_quotient(a[i], b[i]))
            write(out, at[0, row] + s, results, 0, m)


@_loop
def divide_add(out, x, y, _old, at, width):  # type: ignore[no-untyped-def]
    """The last operand is the old result, read as `r`."""
    results = np.empty(_BLOCK, np.uint32)
    for row in range(at.shape[1]):
        for s in range(0, width, _BLOCK):
            m = min(_BLOCK, width - s)
            r, a, b = _row(out, at[0, row] + s, m), _row(x, at[1, row] + s, m), _row(y, at[2, row] + s, m)
            for i in range(m):
                results[i] = _bits(_quotient(a[i], b[i]) + _float(r[i]))
            write(out, at[0, row] + s, results, 0, m)


@_loop
def multiply_add(out, x, y, _old, at, width):  # type: ignore[no-untyped-def]
    """The last operand is the old result, read as `r`."""
    results = np.empty(_BLOCK, np.uint32)
    for row in range(at.shape[1]):
        for s in range(0, width, _BLOCK):
            m = min(_BLOCK, width - s)
            r, a, b = _row(out, at[0, row] + s, m), _row(x, at[1, row] + s, m), _row(y, at[2, row] + s, m)
            for i in range(m):
                results[i] = _bits(_float(a[i]) * _float(b[i]) + _float(r[i]))
            write(out, at[0, row] + s, results, 0, m)


@_loop
def scale_bias(out, x, bias, scale, at, width):  # type: ignore[no-untyped-def]
    """One element of bias and of scale for each row, as in the next three of their second operands."""
    results = np.empty(_BLOCK, np.uint32)
    for row in range(at.shape[1]):
        b, c = _float(bias[at[2, row]]), _float(scale[at[3, row]])
        for s in range(0, width, _BLOCK):
            m = min(_BLOCK, width - s)
            a = _row(x, at[1, row] + s, m)
            for i in range(m):
                product = _float(a[i]) * c
                results[i] = _bits(product + b)
            write(out, at[0, row] + s, results, 0, m)


@_loop
def scale_bias_add(out, x, bias, scale, _old, at, width):  # type: ignore[no-untyped-def]
    """The last operand is the old result, read as `r`."""
    results = np.empty(_BLOCK, np.uint32)
    for row in range(at.shape[1]):
        b, c = _float(bias[at[2, row]]), _float(scale[at[3, row]])
        for s in range(0, width, _BLOCK):
            m = min(_BLOCK, width - s)
            r, a = _row(out, at[0, row] + s, m), _row(x, at[1, row] + s, m)
            for i in range(m):
                results[i] = _bits((_float(a[i]) * c + b) + _float(r[i]))
            write(out, at[0, row] + s, results, 0, m)


@_loop
def square_sum(out, x, y, at, width):  # type: ignore[no-untyped-def]
    """(x + y)**2 in fp32, one element of y for each row. See md.square_sum."""
    results = np.empty(_BLOCK, np.uint32)
    for row in range(at.shape[1]):
        b = _float(y[at[2, row]])
        for s in range(0, width, _BLOCK):
            m = min(_BLOCK, width - s)
            a = _row(x, at[1, row] + s, m)
            for i in range(m):
                total = _float(a[i]) + b
                results[i] = _bits(total * total)
            write(out, at[0, row] + s, results, 0, m)


@_loop
def square_diff(out, x, y, at, width):  # type: ignore[no-untyped-def]
    """(x - y)**2 in fp32, one element of y for each row. See md.square_diff."""
    results = np.empty(_BLOCK, np.uint32)
    for row in range(at.shape[1]):
        b = _float(y[at[2, row]])
        for s in range(0, width, _BLOCK):
            m = min(_BLOCK, width - s)
            a = _row(x, at[1, row] + s, m)
            for i in range(m):
                total = _float(a[i]) - b
                results[i] = _bits(total * total)
            write(out, at[0, row] + s, results, 0, m)


@_loop
def shift_logical(out, x, y, at, width):  # type: ignore[no-untyped-def]
    """x shifted by the signed low 6 bits of y, left when positive, zeros shifted in. See arithmetic.shift."""
    results = np.empty(_BLOCK, np.uint32)
    for row in range(at.shape[1]):
        for s in range(0, width, _BLOCK):
            m = min(_BLOCK, width - s)
            a, b = _row(x, at[1, row] + s, m), _row(y, at[2, row] + s, m)
            for i in range(m):
                results[i] = _shifted(a[i], b[i], False)
            write(out, at[0, row] + s, results, 0, m)


@_loop
def shift_arithmetic(out, x, y, at, width):  # type: ignore[no-untyped-def]
    """x shifted by the signed low 6 bits of y, left when positive, to the right with x's sign."""
    results = np.empty(_BLOCK, np.uint32)
    for row in range(at.shape[1]):
        for s in range(0, width, _BLOCK):
            m = min(_BLOCK, width - s)
            a, b = _row(x, at[1, row] + s, m), _row(y, at[2, row] + s, m)
            for i in range(m):
                results[i] = _shifted(a[i], b[i], True)
            write(out, at[0, row] + s, results, 0, m)


@_loop
def select_greater(out, x, y, value, at, width):  # type: ignore[no-untyped-def]
    """x > y ? value : 0, compared in fp32; 0 where one is NaN."""
    results = np.empty(_BLOCK, np.uint32)
    for row in range(at.shape[1]):
        for s in range(0, width, _BLOCK):
            m = min(_BLOCK, width - s)
            a, b = _row(x, at[1, row] + s, m), _row(y, at[2, row] + s, m)
            c = _row(value, at[3, row] + s, m)
            for i in range(m):
                results[i] = c[i] & _mask(_float(a[i]) > _float(b[i]))
            write(out, at[0, row] + s, results, 0, m)


@_loop
def select_equal(out, x, y, value, at, width):  # type: ignore[no-untyped-def]
    """x == y ? value : 0, compared as bits: +0 and -0 differ, a NaN equals itself."""
    results = np.empty(_BLOCK, np.uint32)
    for row in range(at.shape[1]):
        for s in range(0, width, _BLOCK):
            m = min(_BLOCK, width - s)
            a, b = _row(x, at[1, row] + s, m), _row(y, at[2, row] + s, m)
            c = _row(value, at[3, row] + s, m)
            for i in range(m):
                results[i] = c[i] & _mask(a[i] == b[i])
            write(out, at[0, row] + s, results, 0, m)


@_loop
def choose(out, x, y, then, other, at, width):  # type: ignore[no-untyped-def]
    """x > y ? then : other, compared in fp32; other where one is NaN. See md.choose."""
    results = np.empty(_BLOCK, np.uint32)
    for row in range(at.shape[1]):
        for s in range(0, width, _BLOCK):
            m = min(_BLOCK, width - s)
            a, b = _row(x, at[1, row] + s, m), _row(y, at[2, row] + s, m)
            c, d = _row(then, at[3, row] + s, m), _row(other, at[4, row] + s, m)
            for i in range(m):
                first = _mask(_float(a[i]) > _float(b[i]))
                results[i] = (c[i] & first) | (d[i] & ~first)
            write(out, at[0, row] + s, results, 0, m)


@_loop
def fp32_to_int(out, x, at, width):  # type: ignore[no-untyped-def]
    """fp32 to int32, truncated and saturated; NaN as an infinity of its sign. See sfu.fp32_to_int."""
    results = np.empty(_BLOCK, np.uint32)
    for row in range(at.shape[1]):
        for s in range(0, width, _BLOCK):
            m = min(_BLOCK, width - s)
            a = _row(x, at[1, row] + s, m)
            for i in range(m):
                v = _float(a[i])
                inside = (v < _TOO_LARGE) & (v > -_TOO_LARGE)
                kept = v if inside else np.float32(0)
                limit = _SIGN if a[i] & _SIGN else _MAGNITUDE
                results[i] = np.uint32(np.int32(kept)) if inside else limit
            write(out, at[0, row] + s, results, 0, m)


@_loop
def int_normalize(out, x, at, width):  # type: ignore[no-untyped-def]
    """The biased exponent of x, rounded as the functional model does. See sfu.int_normalize."""
    results = np.empty(_BLOCK, np.uint32)
    for row in range(at.shape[1]):
        for s in range(0, width, _BLOCK):
            m = min(_BLOCK, width - s)
            a = _row(x, at[1, row] + s, m)
            for i in range(m):
                v = a[i]
                rounded = np.uint32(v & _MAGNITUDE) if v & _SIGN else np.uint32(v + _ROUND)
                results[i] = rounded >> np.uint32(23)
            write(out, at[0, row] + s, results, 0, m)


@_loop
def fp32_normalize(out, x, at, width):  # type: ignore[no-untyped-def]
    """The power of two with x's sign, rounded as the functional model does. See sfu.fp32_normalize."""
    results = np.empty(_BLOCK, np.uint32)
    for row in range(at.shape[1]):
        for s in range(0, width, _BLOCK):
            m = min(_BLOCK, width - s)
            a = _row(x, at[1, row] + s, m)
            for i in range(m):
                v = a[i]
                rounded = v if v & _SIGN else np.uint32(v + _ROUND)
                results[i] = (rounded & _EXPONENT) | (v & _SIGN)
            write(out, at[0, row] + s, results, 0, m)


@_loop
def rsqrt(out, x, at, width):  # type: ignore[no-untyped-def]
    """1 / sqrt(x) by the bit trick and three Newton steps, in fp32. See fp32.rsqrt."""
    results = np.empty(_BLOCK, np.uint32)
    for row in range(at.shape[1]):
        for s in range(0, width, _BLOCK):
            m = min(_BLOCK, width - s)
            a = _row(x, at[1, row] + s, m)
            for i in range(m):
                results[i] = _bits(_reciprocal_root(a[i]))
            write(out, at[0, row] + s, results, 0, m)


@_loop
def taylor(out, x, coefficients, at, width):  # type: ignore[no-untyped-def]
    """coefficients: f32[terms], all in use."""
    total, values = np.empty(_BLOCK, np.float32), np.empty(_BLOCK, np.float32)
    for row in range(at.shape[1]):
        for first in range(0, width, _BLOCK):
            m = min(_BLOCK, width - first)
            r, a = _row(out, at[0, row] + first, m), _row(x, at[1, row] + first, m)
            for i in range(m):
                total[i] = 0
                values[i] = _float(a[i])
            for k in range(coefficients.shape[0] - 1, -1, -1):
                c = coefficients[k]
                for i in range(m):
                    total[i] = (total[i] + c) * values[i]
            for i in range(m):
                r[i] = _bits(total[i])


@_loop
def largest_index(x, at, width):  # type: ignore[no-untyped-def]
    """The largest low byte of the indices, which are at[1]."""
    largest = 0
    for row in range(at.shape[1]):
        for index in _row(x, at[1, row], width):
            largest = max(largest, index & 255)
    return largest


@_loop
def lookup(out, x, table, at, width):  # type: ignore[no-untyped-def]
    """Each result the entry at the low byte of an index; none is beyond the table. x: words or bytes."""
    for row in range(at.shape[1]):
        r, a = _row(out, at[0, row], width), _row(x, at[1, row], width)
        for i in range(width):
            r[i] = table[np.uint32(a[i]) & np.uint32(255)]
