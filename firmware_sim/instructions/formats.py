"""The DMA engine's data formats and the conversions between them.

As in the chip's functional model: fp16 has no denormals, infinities or NaNs on the way in (its
exponent is only rebased, so even fp16 zero becomes 2**-15), and fp32 is truncated on the way out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from firmware_sim.isa.codes import Format

Array = npt.NDArray[Any]

_REBASE = np.uint32((127 - 15) << 23)
_HALF_INF = np.uint32(0x7C00)

RAW: dict[int, type[np.generic]] = {1: np.uint8, 2: np.uint16, 4: np.uint32}
"""Element type by size, for moving bits."""


def _half_to_float(x: Array) -> Array:
    bits = x.astype(np.uint32)
    sign = (bits & np.uint32(0x8000)) << np.uint32(16)
    magnitude = ((bits & np.uint32(0x7FFF)) << np.uint32(13)) + _REBASE
    out: Array = sign | magnitude
    return out


def _float_to_half(x: Array) -> Array:
    bits = x.astype(np.uint32)
    sign = (bits >> np.uint32(16)) & np.uint32(0x8000)
    magnitude = bits & np.uint32(0x7FFF_FFFF)
    half = (magnitude - _REBASE) >> np.uint32(13)
    half = np.where(magnitude < np.uint32(113 << 23), np.uint32(0), half)  # below 2**-14
    half = np.where(magnitude >= np.uint32(143 << 23), _HALF_INF, half)  # 2**16 and above, NaN
    out: Array = (sign | half).astype(np.uint16)
    return out


def _float_to_byte(x: Array, low: int, high: int) -> Array:
    """Round half to even, saturate; NaN gives the limit of its sign."""
    values = x.view(np.float32)
    limit = np.where(np.signbit(values), np.float32(low), np.float32(high))
    rounded = np.clip(np.rint(values), low, high)
    return np.where(np.isnan(values), limit, rounded).astype(np.int16).astype(np.uint8)


def _float_to_int8(x: Array) -> Array:
    return _float_to_byte(x, -128, 127)


def _float_to_uint8(x: Array) -> Array:
    return _float_to_byte(x, 0, 255)


def _int8_to_float(x: Array) -> Array:
    return x.view(np.int8).astype(np.float32).view(np.uint32)


def _uint8_to_float(x: Array) -> Array:
    return x.astype(np.float32).view(np.uint32)


Convert = Callable[[Array], Array]

_VIA_FLOAT: dict[Format, tuple[Convert, Convert]] = {
    Format.FP16: (_half_to_float, _float_to_half),
    Format.INT8: (_int8_to_float, _float_to_int8),
    Format.UINT8: (_uint8_to_float, _float_to_uint8),
}


def conversion(src: Format, dst: Format) -> Convert | None:
    """The function from raw src elements to raw dst elements (arrays of RAW types), or None where
    the chip has no such conversion (to or from int16, between int8 and uint8)."""
    if Format.INT16 in (src, dst) or {src, dst} == {Format.INT8, Format.UINT8} or src == dst:
        return None
    if src is Format.FP32:
        return _VIA_FLOAT[dst][1]
    if dst is Format.FP32:
        return _VIA_FLOAT[src][0]
    to_float, from_float = _VIA_FLOAT[src][0], _VIA_FLOAT[dst][1]
    return lambda x: from_float(to_float(x))
