"""Sums of products in the chip's order: each chain adds every second tap, the product rounded first.

Inner loops run over neighbouring results, which are independent of each other, so the order of each sum
stays. Where every row sees the same inputs, tiles of results (loops.tiles) share what is loaded. Where
not, four taps of a chain are added per pass: the partial sums stay in registers meanwhile.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from firmware_sim.instructions.loops.tiles import ADD_FIRST, ADD_HERE, COLUMNS, ROWS, TILE, chain, tile_of

BLOCK = 512  # results worked on at once: chains and inputs stay in the first-level cache


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
    halves, _, taps = ws.shape
    pairs = (taps + 1) // 2
    weights = np.zeros(halves * pairs * ROWS * 2, np.float32)
    sums, bias = np.empty(halves * TILE, np.float32), np.zeros(ROWS, np.float32)
    every = xs.reshape(-1)
    for r in range(r0, r1, ROWS):
        rows = min(ROWS, r1 - r)
        for half in range(halves):
            for j in range(rows):
                for t in range(taps):
                    weights[((half * pairs + (t >> 1)) * ROWS + j) * 2 + (t & 1)] = ws[half, r + j, t]
        for i in range(-(-(s1 - s0) // COLUMNS)):
            s, end = tile_of(i, s0, s1)
            for half in range(halves):
                at, w_at, to = half * xs.shape[1] + s, half * pairs * ROWS * 2, half * TILE
                chain(every, base, weights, sums, bias, at, 0, w_at, 2 * ROWS, end - s, to, 0)
                then = ADD_HERE | ADD_FIRST if half else ADD_HERE
                chain(every, base, weights, sums, bias, at, 1, w_at + 1, 2 * ROWS, end - s, to, then)
            for j in range(rows):
                for k in range(end - s):
                    out[r + j, s + k] = sums[to + j * COLUMNS + k]


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
