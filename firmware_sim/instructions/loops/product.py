"""fp32 matrix products from and to memory, channel by channel of the right matrix, in tiles."""

from __future__ import annotations

from typing import Any

import numpy as np

from firmware_sim.instructions.loops import loop
from firmware_sim.instructions.loops.tiles import ADD_HERE, COLUMNS, ROWS, TILE, chain, line, tile_of


@loop
def pack(left: Any, m_at: Any, k_at: Any, packed: Any) -> None:
    """The left matrix, whose element (i, k) is left[m_at[i] + k_at[k]], as packed[block of rows, pair of k,
    row, parity of k]; zeros where a pair lacks its second, or a block rows."""
    rows = 1 if m_at.shape[0] == 1 else ROWS
    pairs = (k_at.shape[0] + 1) // 2
    for i in range(m_at.shape[0]):
        to = i // rows * pairs * rows * 2 + i % rows * 2
        for k in range(k_at.shape[0]):
            packed[to + (k >> 1) * rows * 2 + (k & 1)] = left[m_at[i] + k_at[k]]


@loop
def product(
    words: Any,
    packed: Any,
    base: Any,
    right_at: Any,
    bias_at: Any,
    old: Any,
    out_at: Any,
    width: Any,
    c0: Any,
    c1: Any,
) -> None:
    """Channels [c0, c1) of the result, of `width` columns each.

    words: f32. packed: the left matrix, see pack. base: i64[k], where the right matrix's rows lie, from
    right_at[channel] on. bias_at: i64[channels] or empty; old: add what is there. out_at: i64[m, channels].
    """
    m, pairs = out_at.shape[0], (base.shape[0] + 1) // 2
    block = 1 if m == 1 else ROWS
    sums, no_bias = np.empty(TILE, np.float32), np.zeros(ROWS, np.float32)
    for c in range(c0, c1):
        for i in range(-(-width // COLUMNS)):
            s, end = tile_of(i, 0, width)
            for r in range(0, m, block):
                for parity in range(2):
                    at, w = right_at[c] + s, r * pairs * 2 + parity
                    then, step, m_now = parity * ADD_HERE, 2 * block, end - s
                    if block == 1:
                        line(words, base, packed, sums, no_bias, at, parity, w, step, m_now, 0, then)
                    else:
                        chain(words, base, packed, sums, no_bias, at, parity, w, step, m_now, 0, then)
                for j in range(min(block, m - r)):
                    out = out_at[r + j, c] + s
                    for x in range(end - s):
                        total = sums[j * COLUMNS + x]
                        if bias_at.shape[0]:
                            total = total + words[bias_at[c] + s + x]
                        if old:
                            total = total + words[out + x]
                        words[out + x] = total
