"""Sums of products in the chip's order: each chain adds every second tap, the product rounded first.

Tiles of neighbouring results (loops.tiles) are independent of each other, so the order of each sum stays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from firmware_sim.instructions.loops import loop
from firmware_sim.instructions.loops.tiles import (
    ADD_FIRST,
    ADD_HERE,
    COLUMNS,
    LINE,
    ROWS,
    TILE,
    chain,
    line,
    tile_of,
)


@loop
def shared(xs: Any, ws: Any, base: Any, out: Any, r0: Any, r1: Any, s0: Any, s1: Any) -> None:
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


@loop
def separate(x: Any, w: Any, base: Any, out: Any, r0: Any, r1: Any) -> None:
    """Rows [r0, r1) of out[rows, columns]; row r sees its own inputs x[r] and weights w[r, taps].

    Two chains by the parity of the tap, added in this order: depthwise convolution.
    """
    columns, elements, taps = out.shape[1], x.shape[1], base.shape[0]
    sums, bias = np.empty(LINE, np.float32), np.zeros(1, np.float32)
    every, weights = x.reshape(-1), w.reshape(-1)
    for r in range(r0, r1):
        for s in range(0, columns, LINE):
            m = min(LINE, columns - s)
            line(every, base, weights, sums, bias, r * elements + s, 0, r * taps, 2, m, 0, 0)
            line(every, base, weights, sums, bias, r * elements + s, 1, r * taps + 1, 2, m, 0, ADD_HERE)
            for i in range(m):
                out[r, s + i] = sums[i]
