"""fp32 convolutions from and to memory: inputs laid out for the window, then tiles of output channels."""

from __future__ import annotations

import numpy as np
from numba import njit

from firmware_sim.instructions.loops.tiles import COLUMNS, ROWS, TILE, add_chains, chain, tile_of

_loop = njit(nogil=True, cache=True, error_model="numpy")
_EVEN = np.uint64(0xFFFF_FFFF)  # of a pair of weights, the one of the even input channel


@_loop
def lay(words, x_at, strides, row_at, column_at, plane, laid, first, last):  # type: ignore[no-untyped-def]
    """Channels [first, last) of all batches into laid[batch, parity of the channel, channels / 2 * plane].

    words: f32. x_at: i64[batches, channels], where planes lie; strides: of rows and elements. row_at,
    column_at: the places of the input's rows and columns in a plane; the rest of it is zero. A channel
    that a pair lacks is zero, too.
    """
    h, w = row_at.shape[0], column_at.shape[0]
    neighbours = strides[1] == 1 and column_at[w - 1] - column_at[0] == w - 1
    for n in range(x_at.shape[0]):
        for c in range(first, last):
            to = (c >> 1) * plane
            if c >= x_at.shape[1] or h * w < plane:
                for i in range(plane):
                    laid[n, c & 1, to + i] = np.float32(0)
            if c >= x_at.shape[1]:
                continue
            for y in range(h):
                at = x_at[n, c] + y * strides[0]
                if neighbours:
                    place = to + row_at[y] + column_at[0]
                    for x in range(w):
                        laid[n, c & 1, place + x] = words[at + x]
                else:
                    for x in range(w):
                        laid[n, c & 1, to + row_at[y] + column_at[x]] = words[at + x * strides[1]]


@_loop
def _pack(pairs, w_at, step, kernel_at, count, odd, packed, r, rows):  # type: ignore[no-untyped-def]
    """The weights of output channels [r, r + rows) as packed[tap, row], pairs of input channels."""
    for i in range(count):
        for k in range(kernel_at.shape[0]):
            at, to = i * step + kernel_at[k], (k * count + i) * ROWS
            for j in range(rows):
                pair = pairs[w_at[r + j] + at]
                packed[to + j] = pair & _EVEN if odd and i == count - 1 else pair


@_loop
def _store(words, sums, old, out_at, rows, pitch, width, s, m):  # type: ignore[no-untyped-def]
    """Columns [s, s + m) of a tile without those beyond `width`; old: add what is there."""
    done, y, x = 0, s // pitch, s % pitch
    while done < m:
        count = min(pitch - x, m - done)
        inside = min(width - x, count)
        for j in range(rows):
            at, out = j * COLUMNS + done, out_at[j] + y * width + x
            if old:
                for i in range(inside):
                    words[out + i] = sums[at + i] + words[out + i]
            else:
                for i in range(inside):
                    words[out + i] = sums[at + i]
        done, y, x = done + count, y + 1, 0


@_loop
def convolve(words, laid, base, pairs, w_at, kernel_at, how, bias_at, out_at, r0, r1, s0, s1):  # type: ignore[no-untyped-def]
    """Output channels [r0, r1) and numbers [s0, s1) of all batches.

    words: f32. laid: see lay; base: i64[taps], where a tap's elements begin in it. pairs: u64, weights of
    two input channels each; for output channel c, pair p and element k of the kernel they are at
    w_at[c] + p * step + kernel_at[k]. how: i64[6], step, pairs of channels, whether the last lacks its
    second, whether the old result is added, pitch and width of the rows of numbers. bias_at: i64[channels]
    or empty. out_at: i64[batches, channels].
    """
    step, count, odd, old, pitch, width = how[0], how[1], how[2] != 0, how[3] != 0, how[4], how[5]
    has_bias = bias_at.shape[0] > 0
    xs, packed = laid.reshape(-1), np.zeros(base.shape[0] * ROWS, np.uint64)
    weights = packed.view(np.float32)
    sums, bias = np.empty(4 * TILE, np.float32), np.zeros(ROWS, np.float32)
    for r in range(r0, r1, ROWS):
        rows = min(ROWS, r1 - r)
        _pack(pairs, w_at, step, kernel_at, count, odd, packed, r, rows)
        for j in range(rows if has_bias else 0):
            bias[j] = words[bias_at[r + j]]
        for n in range(laid.shape[0]):
            to = out_at[n, r : r + rows]
            for i in range(-(-(s1 - s0) // COLUMNS)):
                s, end = tile_of(i, s0, s1)
                for c in range(4):
                    half, parity = c >> 1, c & 1
                    at, w = (2 * n + half) * laid.shape[2] + s, parity * ROWS * 2 + half
                    chain(xs, base, weights, sums, at, parity, w, 4 * ROWS, end - s, c * TILE)
                add_chains(sums, 4, bias, has_bias)
                _store(words, sums, old, to, rows, pitch, width, s, end - s)
