"""The adder tree row by row; see firmware_sim.instructions.adder_tree."""

from __future__ import annotations

import numpy as np
from numba import njit

_INPUTS = 32


@njit(nogil=True, cache=True, error_model="numpy")
def total(bits, x, steps, out, r0, r1):  # type: ignore[no-untyped-def]
    """out[r] = sum of x[r] for rows [r0, r1). bits: x as uint32. steps: f64[256], see _STEPS there.

    Integers only, apart from one rounding and one scaling, so the processor's mode does not matter.
    """
    count = x.shape[1]
    one = np.empty(1, np.float32)  # the running sum, to see its bits
    sum_bits = one.view(np.uint32)
    for r in range(r0, r1):
        one[0] = 0
        for first in range(0, count, _INPUTS):
            last = min(first + _INPUTS, count)
            top = np.int32(sum_bits[0] >> np.uint32(23) & np.uint32(255))
            for i in range(first, last):
                top = max(top, np.int32(bits[r, i] >> np.uint32(23) & np.uint32(255)))
            if top == 255:
                special = one[0] if np.int32(sum_bits[0] >> np.uint32(23) & np.uint32(255)) == 255 else 0
                for i in range(first, last):
                    if np.int32(bits[r, i] >> np.uint32(23) & np.uint32(255)) == 255:
                        special += x[r, i]
                one[0] = special
                continue
            whole = np.int32(0)
            for i in range(first - 1, last):
                b = sum_bits[0] if i < first else bits[r, i]
                exponent = np.int32(b >> np.uint32(23) & np.uint32(255))
                mantissa = np.int32((b & np.uint32(0x7FFFFF)) | np.uint32(0x800000)) << np.int32(1)
                mantissa = mantissa >> min(top - exponent, np.int32(31)) if exponent != 0 else np.int32(0)
                whole += -mantissa if b >> np.uint32(31) else mantissa
            value = np.float64(np.float32(whole)) * steps[top]
            if abs(value) < 2.0**-126:
                value = -0.0 if whole < 0 else 0.0
            one[0] = value
        out[r] = one[0]
