"""The adder tree row by row; see firmware_sim.instructions.adder_tree."""

from __future__ import annotations

from typing import Any

import numpy as np

from firmware_sim.instructions.loops import loop

_INPUTS = 32


@loop
def row(bits: Any, x: Any, steps: Any) -> Any:
    """The sum of one row. bits: x as uint32. steps: f64[256], see STEPS there.

    Integers only, apart from one rounding and one scaling, so the processor's mode does not matter.
    """
    one = np.empty(1, np.float32)  # the running sum, to see its bits
    sum_bits = one.view(np.uint32)
    one[0] = 0
    count = x.shape[0]
    for first in range(0, count, _INPUTS):
        last = min(first + _INPUTS, count)
        top = np.int32(sum_bits[0] >> np.uint32(23) & np.uint32(255))
        for i in range(first, last):
            top = max(top, np.int32(bits[i] >> np.uint32(23) & np.uint32(255)))
        if top == 255:
            special = one[0] if np.int32(sum_bits[0] >> np.uint32(23) & np.uint32(255)) == 255 else 0
            for i in range(first, last):
                if np.int32(bits[i] >> np.uint32(23) & np.uint32(255)) == 255:
                    special += x[i]
            one[0] = special
            continue
        whole = np.int32(0)
        for i in range(first - 1, last):
            b = sum_bits[0] if i < first else bits[i]
            exponent = np.int32(b >> np.uint32(23) & np.uint32(255))
            mantissa = np.int32((b & np.uint32(0x7FFFFF)) | np.uint32(0x800000)) << np.int32(1)
            mantissa = mantissa >> min(top - exponent, np.int32(31)) if exponent != 0 else np.int32(0)
            whole += -mantissa if b >> np.uint32(31) else mantissa
        value = np.float64(np.float32(whole)) * steps[top]
        if abs(value) < 2.0**-126:
            value = -0.0 if whole < 0 else 0.0
        one[0] = value
    return one[0]


@loop
def total(bits: Any, x: Any, steps: Any, out: Any, r0: Any, r1: Any) -> None:
    """out[r] = sum of x[r] for rows [r0, r1). bits: x as uint32. steps: f64[256], see STEPS there."""
    for r in range(r0, r1):
        out[r] = row(bits[r], x[r], steps)


@loop
def gathered(memory: Any, steps: Any, at: Any, out_at: Any, add: Any) -> None:
    """out[r] = sum of the numbers at at[r] (+ old with add). memory: f32; at: i64[rows, numbers], -1: +0."""
    x = np.empty(at.shape[1], np.float32)
    bits = x.view(np.uint32)
    results = np.empty(at.shape[0], np.float32)
    for r in range(at.shape[0]):
        for i in range(at.shape[1]):
            x[i] = memory[at[r, i]] if at[r, i] >= 0 else np.float32(0)
        results[r] = row(bits, x, steps)
        if add:
            results[r] += memory[out_at[r]]
    for r in range(at.shape[0]):
        memory[out_at[r]] = results[r]


@loop
def correlated(memory: Any, steps: Any, x_at: Any, w_at: Any, out_at: Any) -> None:
    """out[g, r, s] = sum over t of x[g, s, t] * w[r, t]. memory: f32; x_at: i64[groups, columns, taps],
    -1 for zero; w_at: i64[rows, taps]; out_at: i64[groups, rows, columns]."""
    taps = w_at.shape[1]
    x, w, terms = np.empty(taps, np.float32), np.empty(w_at.shape, np.float32), np.empty(taps, np.float32)
    bits = terms.view(np.uint32)
    results = np.empty(out_at.shape, np.float32)
    for r in range(w_at.shape[0]):
        for t in range(taps):
            w[r, t] = memory[w_at[r, t]]
    for g in range(x_at.shape[0]):
        for s in range(x_at.shape[1]):
            for t in range(taps):
                x[t] = memory[x_at[g, s, t]] if x_at[g, s, t] >= 0 else np.float32(0)
            for r in range(w_at.shape[0]):
                for t in range(taps):
                    terms[t] = w[r, t] * x[t]
                results[g, r, s] = row(bits, terms, steps)
    to, values = out_at.reshape(-1), results.reshape(-1)
    for i in range(to.shape[0]):
        memory[to[i]] = values[i]
