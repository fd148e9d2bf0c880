"""Small sums of products and maxima, operand by operand through tables of indices.

See firmware_sim.instructions.small. An index of -1 stands for a zero, in maxima for nothing. All results
are computed before any is written; they are written in order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from firmware_sim.instructions.loops import loop, sums

_SIGN, _MAGNITUDE = np.uint32(0x80000000), np.uint32(0x7FFFFFFF)
_SMALLEST = np.uint32(0x00800000)  # the least magnitude that is not denormal
_LOWEST = np.float32(np.finfo(np.float32).min)


@loop
def gather(values: Any, memory: Any, at: Any) -> None:
    """values[i] = memory[at[i]], 0 where at[i] is -1."""
    for i in range(at.shape[0]):
        values[i] = memory[at[i]] if at[i] >= 0 else 0


@loop
def _store(memory: Any, out_at: Any, results: Any, added_at: Any) -> None:
    for i in range(out_at.shape[0]):
        for k in range(added_at.shape[0]):
            results[i] = results[i] + memory[added_at[k, i]]
    for i in range(out_at.shape[0]):
        memory[out_at[i]] = results[i]


@loop
def products(
    memory: Any, x_memory: Any, w_memory: Any, x_at: Any, w_at: Any, out_at: Any, added_at: Any
) -> None:
    """out[g, r, s] = sum over halves and taps of x[g, half, t, s] * w[g, half, r, t].

    memory, x_memory, w_memory: f32, where results, x and w lie. x_at: i64[groups, halves, taps, columns];
    w_at: i64[groups, halves, rows, taps]; one group may stand for all. out_at: i64[results]; added_at:
    i64[k, results]: what is added one after the other. A single tap of a single half is a product, not a
    sum.
    """
    groups = max(x_at.shape[0], w_at.shape[0])
    halves, rows, taps = w_at.shape[1:]
    columns = x_at.shape[3]
    xs, ws = np.empty((halves, taps * columns), np.float32), np.empty((halves, rows, taps), np.float32)
    base = np.arange(taps) * columns
    results = np.empty((groups, rows, columns), np.float32)
    for g in range(groups):
        if g < x_at.shape[0]:
            gather(xs.reshape(-1), x_memory, x_at[g].reshape(-1))
        if g < w_at.shape[0]:
            gather(ws.reshape(-1), w_memory, w_at[g].reshape(-1))
        if halves == 1 and taps == 1:
            for r in range(rows):
                for s in range(columns):
                    results[g, r, s] = xs[0, s] * ws[0, r, 0]
        else:
            sums.shared(xs, ws, base, results[g], 0, rows, 0, columns)
    _store(memory, out_at, results.reshape(-1), added_at)


@loop
def separate_products(memory: Any, constants: Any, x_at: Any, w_at: Any, out_at: Any, added_at: Any) -> None:
    """out[g, s] = sum over taps of x[g, t, s] * w[g, t]; with a single tap the product itself.

    constants: where weights lie (it may be memory). x_at: i64[groups, taps, columns]; w_at: i64[groups,
    taps]; the rest as for products.
    """
    groups, taps, columns = x_at.shape
    x, w = np.empty((groups, taps * columns), np.float32), np.empty(w_at.shape, np.float32)
    results = np.empty((groups, columns), np.float32)
    gather(w.reshape(-1), constants, w_at.reshape(-1))
    gather(x.reshape(-1), memory, x_at.reshape(-1))
    if taps == 1:
        for g in range(groups):
            for s in range(columns):
                results[g, s] = x[g, s] * w[g, 0]
    else:
        sums.separate(x, w, np.arange(taps) * columns, results, 0, groups)
    _store(memory, out_at, results.reshape(-1), added_at)


@loop
def maxima(memory: Any, x_at: Any, out_at: Any) -> None:
    """out[i] = the greatest x[i, t], fp32, from the lowest number on; NaN is never greater."""
    results = np.empty(out_at.shape[0], np.float32)
    bits = results.view(np.uint32)
    for i in range(out_at.shape[0]):
        best = _LOWEST
        for t in range(x_at.shape[1]):
            at = x_at[i, t]
            if at >= 0 and memory[at] > best:
                best = memory[at]
        results[i] = best
        if bits[i] & _MAGNITUDE < _SMALLEST:
            bits[i] &= _SIGN
    for i in range(out_at.shape[0]):
        memory[out_at[i]] = results[i]


@loop
def fixed_maxima(memory: Any, x_at: Any, out_at: Any, signed: Any, relu: Any) -> None:
    """The same of bytes; relu: at least zero, read as signed."""
    results = np.empty(out_at.shape[0], np.uint8)
    for i in range(out_at.shape[0]):
        best = -128 if signed else 0
        for t in range(x_at.shape[1]):
            at = x_at[i, t]
            if at >= 0:
                v = np.int64(np.int8(memory[at])) if signed else np.int64(memory[at])
                best = max(best, v)
        results[i] = np.uint8(max(np.int64(np.int8(best)), 0) if relu else best)
    for i in range(out_at.shape[0]):
        memory[out_at[i]] = results[i]


@loop
def _wide(memory: Any, at: Any, signed: Any) -> Any:
    """Two bytes as an integer."""
    value = np.int64(memory[at]) | np.int64(memory[at + 1]) << 8
    return value - 65536 if signed and value >> 15 else value


@loop
def gather_bytes(values: Any, memory: Any, at: Any, signed: Any) -> None:
    """The same from a memory of uint8 into int32; signed: the bytes are two's complement."""
    gather(values, memory, at)
    if signed:
        for i in range(values.shape[0]):
            values[i] = np.int8(values[i])


@loop
def finish(memory: Any, results: Any, out_at: Any, added_at: Any, how: Any) -> None:
    """results (+ 16-bit numbers) shifted right, saturated and written; see fixed_products."""
    bits, signed, shift, bias_signed, old_signed, left = how[2], how[3], how[4], how[5], how[6], how[7]
    half = (np.int64(1) << shift) >> 1
    low = -(np.int64(1) << (bits - 1)) if signed else np.int64(0)
    high = low + (np.int64(1) << bits) - 1
    for i in range(out_at.shape[0]):
        total = results[i]
        if added_at[0, i] >= 0:
            total += _wide(memory, added_at[0, i], bias_signed)
        if added_at[1, i] >= 0:
            total += _wide(memory, added_at[1, i], old_signed) << left
        results[i] = min(max((total + half) >> shift, low), high)
    for i in range(out_at.shape[0]):
        if out_at[i] >= 0:
            memory[out_at[i]] = np.uint8(results[i])
            if bits == 16:
                memory[out_at[i] + 1] = np.uint8(results[i] >> 8)


@loop
def fixed_products(
    memory: Any, constants: Any, x_at: Any, w_at: Any, out_at: Any, added_at: Any, how: Any
) -> None:
    """out[g, r, s] = sum over taps of x[g, s, t] * w[g % groups, r, t] of bytes, finished.

    memory, constants: u8. added_at: i64[2, results], 16-bit numbers: the bias, and the old result to be
    shifted left; -1: none. how: i64[8]: sign of x, of w, bits and sign of the result, right shift, sign of
    the bias, sign and left shift of the old result.
    """
    groups, columns, taps = x_at.shape
    rows = w_at.shape[1]
    x, w = np.empty(taps, np.int32), np.empty(w_at.size, np.int32)
    results = np.empty(out_at.shape[0], np.int64)
    gather_bytes(w, constants, w_at.reshape(-1), how[1])
    for g in range(groups):
        first = g % w_at.shape[0] * rows
        for s in range(columns):
            gather_bytes(x, memory, x_at[g, s], how[0])
            for r in range(rows):
                v = w[(first + r) * taps : (first + r + 1) * taps]
                total = np.int32(0)
                for t in range(taps):
                    total += x[t] * v[t]
                results[(g * rows + r) * columns + s] = total
    finish(memory, results, out_at, added_at, how)
