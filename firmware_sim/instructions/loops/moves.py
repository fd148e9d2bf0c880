"""Moving and converting elements; see firmware_sim.instructions.dma_move and formats.

Rows of `width` neighbouring elements; `at` holds the index of each row's first element in the destination
and in the source, and rows follow in the order in which elements are written.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from firmware_sim.instructions.loops import loop
from firmware_sim.isa.codes import Format

_FP32, _FP16, _INT8 = int(Format.FP32), int(Format.FP16), int(Format.INT8)
_REBASE = np.uint32((127 - 15) << 23)
_HALF_SMALLEST, _HALF_LIMIT = np.uint32(113 << 23), np.uint32(143 << 23)  # 2**-14, 2**16


@loop
def _to_float(bits: Any, source: Any) -> Any:
    if source == _FP32:
        return np.uint32(bits).view(np.float32)
    if source == _FP16:
        half = np.uint32(bits)
        sign = np.uint32((half & np.uint32(0x8000)) << np.uint32(16))
        magnitude = np.uint32((half & np.uint32(0x7FFF)) << np.uint32(13)) + _REBASE
        return np.uint32(sign | magnitude).view(np.float32)
    return np.float32(np.int8(bits)) if source == _INT8 else np.float32(np.uint8(bits))


@loop
def _from_float(value: Any, target: Any) -> Any:
    bits = np.float32(value).view(np.uint32)
    if target == _FP32:
        return bits
    if target == _FP16:
        sign, magnitude = np.uint32(bits >> np.uint32(16)) & np.uint32(0x8000), bits & np.uint32(0x7FFFFFFF)
        half = np.uint32(magnitude - _REBASE) >> np.uint32(13)
        if magnitude < _HALF_SMALLEST:
            half = np.uint32(0)
        if magnitude >= _HALF_LIMIT:
            half = np.uint32(0x7C00)
        return np.uint32(sign | half)
    low = np.float32(-128 if target == _INT8 else 0)
    high = low + np.float32(255)
    if np.isnan(value):
        value = low if bits >> np.uint32(31) else high
    return np.uint32(np.int32(min(max(np.rint(value), low), high)))


@loop
def convert(out: Any, x: Any, at: Any, width: Any, source: Any, target: Any) -> None:
    """From one format to another, by way of fp32."""
    for row in range(at.shape[1]):
        r, a = out[at[0, row] : at[0, row] + width], x[at[1, row] : at[1, row] + width]
        for i in range(width):
            r[i] = _from_float(_to_float(a[i], source), target)


@loop
def accumulate(out: Any, x: Any, at: Any, width: Any) -> None:
    """fp32 sums; both memories as words."""
    for row in range(at.shape[1]):
        r, a = out[at[0, row] : at[0, row] + width], x[at[1, row] : at[1, row] + width]
        for i in range(width):
            total = np.uint32(r[i]).view(np.float32) + np.uint32(a[i]).view(np.float32)
            r[i] = np.float32(total).view(np.uint32)


@loop
def keep(out: Any, words: Any, at: Any, width: Any) -> Any:
    """The source's words (rows at[0]) whose mask (rows at[1]) is not zero, one after the other; how many."""
    kept = 0
    for row in range(at.shape[1]):
        a, mask = words[at[0, row] : at[0, row] + width], words[at[1, row] : at[1, row] + width]
        for i in range(width):
            if mask[i]:
                out[kept] = a[i]
                kept += 1
    return kept


@loop
def copy(out: Any, x: Any, at: Any, width: Any) -> None:
    """Each element sees what was written before it."""
    for row in range(at.shape[1]):
        r, a = out[at[0, row] : at[0, row] + width], x[at[1, row] : at[1, row] + width]
        for i in range(width):
            r[i] = a[i]
