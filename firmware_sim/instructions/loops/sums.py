"""Sums of products in the chip's order: each chain adds every second tap, the product rounded first.

The inner loop runs over neighbouring results, which are independent of each other, so the order of each
sum stays. Four taps of a chain are added per pass: the partial sums stay in registers meanwhile.
"""

from __future__ import annotations

import numpy as np
from numba import njit

BLOCK = 512  # results worked on at once: chains and inputs stay in the first-level cache


@njit(nogil=True, cache=True, error_model="numpy")
def _chain_two(x, w, base, first, r, s, out, m):  # type: ignore[no-untyped-def]
    """out[0..1, :m] += taps first, first + 2, ... of rows r and r + 1."""
    taps = base.shape[0]
    a, b = out[0], out[1]
    t = first
    while t + 6 < taps:
        x0 = x[base[t] + s : base[t] + s + m]
        x1 = x[base[t + 2] + s : base[t + 2] + s + m]
        x2 = x[base[t + 4] + s : base[t + 4] + s + m]
        x3 = x[base[t + 6] + s : base[t + 6] + s + m]
        a0, a1, a2, a3 = w[r, t], w[r, t + 2], w[r, t + 4], w[r, t + 6]
        b0, b1, b2, b3 = w[r + 1, t], w[r + 1, t + 2], w[r + 1, t + 4], w[r + 1, t + 6]
        for i in range(m):
            v0, v1, v2, v3 = x0[i], x1[i], x2[i], x3[i]
            a[i] = (((a[i] + v0 * a0) + v1 * a1) + v2 * a2) + v3 * a3
            b[i] = (((b[i] + v0 * b0) + v1 * b1) + v2 * b2) + v3 * b3
        t += 8
    while t < taps:
        x0 = x[base[t] + s : base[t] + s + m]
        a0, b0 = w[r, t], w[r + 1, t]
        for i in range(m):
            a[i] += x0[i] * a0
            b[i] += x0[i] * b0
        t += 2


@njit(nogil=True, cache=True, error_model="numpy")
def _chain_one(x, w, base, first, r, s, out, m):  # type: ignore[no-untyped-def]
    """out[:m] += taps first, first + 2, ... of row r."""
    taps = base.shape[0]
    t = first
    while t + 6 < taps:
        x0 = x[base[t] + s : base[t] + s + m]
        x1 = x[base[t + 2] + s : base[t + 2] + s + m]
        x2 = x[base[t + 4] + s : base[t + 4] + s + m]
        x3 = x[base[t + 6] + s : base[t + 6] + s + m]
        w0, w1, w2, w3 = w[r, t], w[r, t + 2], w[r, t + 4], w[r, t + 6]
        for i in range(m):
            out[i] = (((out[i] + x0[i] * w0) + x1[i] * w1) + x2[i] * w2) + x3[i] * w3
        t += 8
    while t < taps:
        x0 = x[base[t] + s : base[t] + s + m]
        w0 = w[r, t]
        for i in range(m):
            out[i] += x0[i] * w0
        t += 2


@njit(nogil=True, cache=True, error_model="numpy")
def shared(xs, ws, base, out, r0, r1, s0, s1):  # type: ignore[no-untyped-def]
    """Rows [r0, r1) and columns [s0, s1) of out[rows, columns]; all rows see the same inputs.

    xs: f32[halves, ...]; ws: f32[halves, rows, taps]; base: i64[taps]. Result number s of a half is the
    sum over taps of xs[half, base[t] + s] * ws[half, row, t], in two chains by the parity of t; chains
    and halves are then added in this order. One half: matrix products. Two: convolutions.
    """
    chains = 2 * xs.shape[0]
    sums = np.empty((chains, 2, BLOCK), np.float32)
    for s in range(s0, s1, BLOCK):
        m = min(BLOCK, s1 - s)
        for r in range(r0, r1, 2):
            two = r + 1 < r1
            for c in range(chains):
                part = sums[c]  # whole rows: a slice would lose that elements are neighbours
                for j in range(2):
                    for i in range(m):
                        part[j, i] = np.float32(0)
                if two:
                    _chain_two(xs[c >> 1], ws[c >> 1], base, c & 1, r, s, part, m)
                else:
                    _chain_one(xs[c >> 1], ws[c >> 1], base, c & 1, r, s, part[0], m)
            for j in range(2 if two else 1):
                for i in range(m):
                    total = sums[0, j, i] + sums[1, j, i]
                    if chains == 4:
                        total = total + (sums[2, j, i] + sums[3, j, i])
                    out[r + j, s + i] = total


@njit(nogil=True, cache=True, error_model="numpy")
def separate(x, w, base, out, r0, r1):  # type: ignore[no-untyped-def]
    """Rows [r0, r1) of out[rows, columns]; row r sees its own inputs x[r] and weights w[r, taps].

    Two chains by the parity of the tap, added in this order: depthwise convolution.
    """
    sums = np.empty((2, BLOCK), np.float32)
    columns = out.shape[1]
    for r in range(r0, r1):
        for s in range(0, columns, BLOCK):
            m = min(BLOCK, columns - s)
            for c in range(2):
                sums[c] = np.float32(0)
                _chain_one(x[r], w, base, c, r, s, sums[c], m)
            for i in range(m):
                out[r, s + i] = sums[0, i] + sums[1, i]


@njit(nogil=True, cache=True, error_model="numpy")
def maxima(x, base, out, r0, r1):  # type: ignore[no-untyped-def]
    """Rows [r0, r1) of out: the greatest of out and of x[row, base[t] + s] over taps; NaN is never greater.

    A denormal that wins is left in `out`; the caller flushes.
    """
    columns = out.shape[1]
    for r in range(r0, r1):
        for t in range(base.shape[0]):
            values, best = x[r, base[t] :], out[r]
            for s in range(columns):
                v = values[s]
                best[s] = v if v > best[s] else best[s]
