"""A slow, obvious model of the elementwise and DMA instructions: one element at a time.

Written apart from firmware_sim.instructions, from the rules: exact rational arithmetic rounded once,
addresses computed per element, memory as a dictionary of bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from fractions import Fraction

NAN = 0x7FC0_0000
INF = 0x7F80_0000
SIGN = 0x8000_0000

Memory = dict[tuple[str, int], int]
Dims = tuple[int, int, int, int]


def is_nan(bits: int) -> bool:
    return (bits & ~SIGN) > INF


def is_inf(bits: int) -> bool:
    return (bits & ~SIGN) == INF


def flush(bits: int) -> int:
    """A denormal counts as the zero of its sign."""
    return bits & SIGN if not bits & INF else bits


def value(bits: int) -> Fraction:
    """Of a finite number; denormals are zero."""
    return Fraction(struct.unpack("<f", struct.pack("<I", flush(bits)))[0])


def rounded(x: Fraction, zero_sign: int) -> int:
    """The float32 nearest to x, ties to even; too small for a normal number: a zero of x's sign."""
    if x == 0:
        return zero_sign
    sign = SIGN if x < 0 else 0
    x = abs(x)
    exponent = x.numerator.bit_length() - x.denominator.bit_length()
    if x < Fraction(2) ** exponent:
        exponent -= 1
    mantissa = round(x / Fraction(2) ** (exponent - 23))  # Python rounds halves to even
    if mantissa == 1 << 24:
        mantissa, exponent = 1 << 23, exponent + 1
    if exponent < -126:
        return sign
    if exponent > 127:
        return sign | INF
    return sign | (exponent + 127) << 23 | mantissa - (1 << 23)


def add(a: int, b: int) -> int:
    a, b = flush(a), flush(b)
    if is_nan(a) or is_nan(b) or (is_inf(a) and is_inf(b) and a != b):
        return NAN
    if is_inf(a) or is_inf(b):
        return a if is_inf(a) else b
    both_negative_zero = a == b == SIGN
    return rounded(value(a) + value(b), SIGN if both_negative_zero else 0)


def tree(numbers: list[int]) -> int:
    """One step of the adder tree: each number cut to whole steps of the largest, added exactly."""
    numbers = [flush(b) for b in numbers]
    special = {b for b in numbers if b & INF == INF}
    if special:
        return special.pop() if len(special) == 1 else NAN
    unit = Fraction(2) ** (max(b >> 23 & 255 for b in numbers) - 127 - 24)  # a bit below the largest's last
    return rounded(sum((int(value(b) / unit) * unit for b in numbers), Fraction(0)), 0)


def sub(a: int, b: int) -> int:
    return add(a, b if is_nan(b) else b ^ SIGN)


def mul(a: int, b: int) -> int:
    a, b = flush(a), flush(b)
    sign = (a ^ b) & SIGN
    zero = not a & ~SIGN or not b & ~SIGN
    if is_nan(a) or is_nan(b) or (zero and (is_inf(a) or is_inf(b))):
        return NAN
    if is_inf(a) or is_inf(b):
        return sign | INF
    return rounded(value(a) * value(b), sign)


def greater(a: int, b: int) -> bool:
    def key(bits: int) -> Fraction:
        return Fraction(2) ** 200 * (-1 if bits & SIGN else 1) if is_inf(bits) else value(bits)

    return not (is_nan(a) or is_nan(b)) and key(a) > key(b)


def maximum(a: int, b: int) -> int:
    return flush(a if greater(a, b) else b)


def minimum(a: int, b: int) -> int:
    return b if is_nan(a) or is_nan(b) or greater(a, b) else a


def div(a: int, b: int) -> int:
    half, three_halves = 0x3F00_0000, 0x3FC0_0000
    magnitude = b & ~SIGN
    r = 0x5F37_59DF - (magnitude >> 1)
    h = mul(magnitude, half)
    for _ in range(3):
        r = mul(r, sub(three_halves, mul(mul(h, r), r)))
    return mul(mul(r, r), (a & ~SIGN) | ((a ^ b) & SIGN))


def shift(a: int, count: int, *, arithmetic: bool) -> int:
    count &= 63
    if count >= 32:
        count -= 64
    if count > 0:
        return a << count & 0xFFFF_FFFF
    amount = -count & 31
    return (a - (1 << 32) if arithmetic and a & SIGN else a) >> amount & 0xFFFF_FFFF


def select_greater(a: int, b: int, chosen: int) -> int:
    return chosen if greater(a, b) else 0


def select_equal(a: int, b: int, chosen: int) -> int:
    return chosen if a == b else 0


# --- tensors -------------------------------------------------------------------------------------

LANE_BYTES = 512 * 1024
LANES = 64


def elements(shape: Dims) -> Iterator[Dims]:
    for n in range(shape[0]):
        for c in range(shape[1]):
            for h in range(shape[2]):
                for w in range(shape[3]):
                    yield n, c, h, w


def local_byte(start: int, at: Dims, strides: Dims, size: int, shifts: tuple[int, int] = (0, 0)) -> int:
    """The flat byte offset of an element of a tensor that starts at flat local offset `start`."""
    lane, within = divmod(start, LANE_BYTES)
    slot, lane = divmod(lane + at[1], LANES)
    element = at[0] * strides[0] + slot * strides[1]
    element += (at[2] * strides[2] >> shifts[0]) + (at[3] * strides[3] >> shifts[1])
    return lane * LANE_BYTES + within + element * size


def system_byte(start: int, at: Dims, strides: Dims, size: int) -> int:
    return start + sum(i * s for i, s in zip(at, strides, strict=True)) * size


def aligned(start: int, shape: Dims, size: int) -> Dims:
    line = 128 // size
    c_stride = (shape[2] * shape[3] + line - 1) // line * line
    slots = (start // LANE_BYTES + shape[1] + LANES - 1) // LANES
    return slots * c_stride, c_stride, shape[3], 1
