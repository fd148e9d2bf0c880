"""The constant tables in L2 from offset 0x30_0000 on, computed from their formulas.

Order and formulas follow the vendor's functional model: its tables are reproduced byte for byte.
The last 2 KiB (the start of the user table) are zero until a kernel writes them.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]

TABLE_BYTES = 0x2_4000
EXP_LOW, EXP_HIGH = -103, 88  # where exp(i) is neither zero nor infinite in float32

_TERMS = 64  # coefficients of each series


def _exp_series() -> F32:
    """1 / (k + 1)!, each divided in float32 from the one before."""
    out = np.empty(_TERMS, np.float32)
    value = np.float32(1)
    for k in range(_TERMS):
        value = value / np.float32(k + 1)
        out[k] = value
    return out


def _arcsin_series() -> F32:
    """At even k = 2m: (2m-1)!! / (2m)!! / (2m+1), the products in float32 (so inf/inf at the end)."""
    out = np.zeros(_TERMS, np.float32)
    odd = even = np.float32(1)
    for m in range(_TERMS // 2):
        if m:
            odd = odd * np.float32(2 * m - 1)
            even = even * np.float32(2 * m)
        out[2 * m] = odd / even / np.float32(2 * m + 1)
    return out


@lru_cache(maxsize=1)
def l2_tables() -> npt.NDArray[np.uint8]:
    """The bytes at L2 offset 0x30_0000, uint8[TABLE_BYTES], read-only."""
    byte = np.arange(256)
    signed = np.where(byte < 128, byte, byte - 256)
    in_range = (signed >= EXP_LOW) & (signed <= EXP_HIGH)
    k = np.arange(_TERMS)
    with np.errstate(all="ignore"):
        exp_series = _exp_series()
        arcsin_series = _arcsin_series()
    sin_series = np.where(k % 2 == 0, np.where(k % 4 == 0, exp_series, -exp_series), 0)
    floats = (
        np.where(in_range, signed, 0),  # 0x0000 the exponents themselves
        np.where(in_range, np.exp(np.where(in_range, signed, 0)), 0),  # 0x0400 exp of an int8
        (byte - 127) * np.log(2.0),  # 0x0800 logarithms of the powers of two, by biased exponent
        exp_series,  # 0x0c00
        np.where(k % 2 == 0, 1, -1) / (k + 1),  # 0x0d00 ln(1 + x) series
        arcsin_series,  # 0x0e00
        byte,  # 0x0f00 uint8 -> float
        signed,  # 0x1300 int8 -> float
        sin_series,  # 0x1700
        np.arange(2048),  # 0x1800 serial numbers
    )
    bytes_ = (
        np.tile(byte, 256),  # 0x3800 warp table: column, then row of a 256 x 256 picture
        np.repeat(byte, 256),  # 0x13800
    )
    parts = [np.asarray(part, np.float32).view(np.uint8) for part in floats]
    parts += [part.astype(np.uint8) for part in bytes_]
    table = np.zeros(TABLE_BYTES, np.uint8)
    data = np.concatenate(parts)
    table[: len(data)] = data
    table.setflags(write=False)
    return table
