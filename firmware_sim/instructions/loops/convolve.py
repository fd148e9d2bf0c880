"""fp32 convolutions from and to memory: inputs laid out for the window, then tiles of output channels."""

from __future__ import annotations

from typing import Any

import numpy as np

from firmware_sim.instructions.loops import loop
from firmware_sim.instructions.loops.tiles import (
    ADD_BIAS,
    ADD_FIRST,
    ADD_HERE,
    COLUMNS,
    ROWS,
    TILE,
    chain,
    pick,
    tile_of,
)
from firmware_sim.instructions.loops.vectors import copy

_EVEN = np.uint64(0xFFFF_FFFF)  # of a pair of weights, the one of the even input channel


@loop
def lay_plane(
    words: Any,
    at: Any,
    how: Any,
    row_from: Any,
    row_at: Any,
    column_from: Any,
    column_at: Any,
    plane: Any,
    fill: Any,
    to: Any,
    start: Any,
) -> None:
    """One plane into to[start : start + plane]; see lay. What is not needed of it holds `fill`."""
    row_step, step, whole, one = how[0], how[1], how[2] != 0, how[3] != 0
    h, w = row_at.shape[0], column_at.shape[0]
    if h * w < plane:
        for i in range(start, start + plane):
            to[i] = fill
    if one:
        source = at + row_from[0] * w + column_from[0]
        copy(to, start + row_at[0] + column_at[0], words, source, h * w)
        return
    for y in range(h):
        source, place = at + row_from[y] * row_step, start + row_at[y]
        if whole:
            copy(to, place + column_at[0], words, source + column_from[0], w)
        else:
            for x in range(w):
                to[place + column_at[x]] = words[source + column_from[x] * step]


@loop
def lay(
    words: Any,
    x_at: Any,
    how: Any,
    row_from: Any,
    row_at: Any,
    column_from: Any,
    column_at: Any,
    plane: Any,
    laid: Any,
    first: Any,
    last: Any,
) -> None:
    """Channels [first, last) of all batches into laid[batch, parity of the channel, channels / 2 * plane].

    words: f32. x_at: i64[batches, channels], where planes lie. how: i64[4], strides of rows and elements;
    whether the elements of a row stay neighbours, and whether those of all rows do. row_from, column_from:
    the rows and columns that are needed; row_at, column_at: their places in a plane. The rest of it is zero.
    A channel that a pair lacks is zero, too.
    """
    to, zero = laid.reshape(-1), np.float32(0)
    for n in range(x_at.shape[0]):
        for c in range(first, last):
            start = (2 * n + (c & 1)) * laid.shape[2] + (c >> 1) * plane
            if c >= x_at.shape[1]:
                for i in range(start, start + plane):
                    to[i] = zero
                continue
            at = x_at[n, c]
            lay_plane(words, at, how, row_from, row_at, column_from, column_at, plane, zero, to, start)


@loop
def _pack(
    pairs: Any, w_at: Any, step: Any, kernel_at: Any, count: Any, odd: Any, packed: Any, r: Any
) -> None:
    """The weights of ROWS output channels from r on as packed[tap, row], pairs of input channels."""
    for i in range(count):
        for k in range(kernel_at.shape[0]):
            pick(packed, (k * count + i) * ROWS, pairs, w_at, r, i * step + kernel_at[k])
    if odd:
        for k in range(kernel_at.shape[0]):
            for j in range(ROWS):
                packed[((k + 1) * count - 1) * ROWS + j] &= _EVEN


@loop
def _store(
    words: Any, sums: Any, old: Any, out_at: Any, rows: Any, pitch: Any, width: Any, s: Any, m: Any
) -> None:
    """Columns [s, s + m) of a tile's second chain without those beyond `width`; old: add what is there."""
    done, y, x = 0, s // pitch, s % pitch
    while done < m:
        count = min(pitch - x, m - done)
        inside = min(width - x, count)
        for j in range(rows if inside > 0 else 0):
            at, out = TILE + j * COLUMNS + done, out_at[j] + y * width + x
            if old:
                for i in range(inside):
                    sums[at + i] = sums[at + i] + words[out + i]
            copy(words, out, sums, at, inside)
        done, y, x = done + count, y + 1, 0


@loop
def convolve(
    words: Any,
    laid: Any,
    base: Any,
    pairs: Any,
    w_at: Any,
    kernel_at: Any,
    how: Any,
    bias_at: Any,
    out_at: Any,
    r0: Any,
    r1: Any,
    s0: Any,
    s1: Any,
) -> None:
    """Output channels [r0, r1) and numbers [s0, s1) of all batches.

    words: f32. laid: see lay; base: i64[taps], where a tap's elements begin in it. pairs: u64, weights of
    two input channels each; for output channel c, pair p and element k of the kernel they are at
    w_at[c] + p * step + kernel_at[k]; w_at has a multiple of ROWS. how: i64[6], step, pairs of channels,
    whether the last lacks its second, whether the old result is added, pitch and width of the rows of
    numbers. bias_at: i64[channels] or empty. out_at: i64[batches, channels].
    """
    step, count, odd, old, pitch, width = how[0], how[1], how[2] != 0, how[3] != 0, how[4], how[5]
    has_bias = bias_at.shape[0] > 0
    xs, packed = laid.reshape(-1), np.zeros(base.shape[0] * ROWS, np.uint64)
    weights = packed.view(np.float32)
    sums, bias = np.empty(2 * TILE, np.float32), np.zeros(ROWS, np.float32)
    for r in range(r0, r1, ROWS):
        rows = min(ROWS, r1 - r)
        _pack(pairs, w_at, step, kernel_at, count, odd, packed, r)
        for j in range(rows if has_bias else 0):
            bias[j] = words[bias_at[r + j]]
        for n in range(laid.shape[0]):
            for i in range(-(-(s1 - s0) // COLUMNS)):
                s, end = tile_of(i, s0, s1)
                for half in range(2):
                    at, to = (2 * n + half) * laid.shape[2] + s, half * TILE
                    chain(xs, base, weights, sums, bias, at, 0, half, 4 * ROWS, end - s, to, 0)
                    then = ADD_HERE
                    if half:
                        then |= ADD_FIRST | ADD_BIAS if has_bias else ADD_FIRST
                    chain(xs, base, weights, sums, bias, at, 1, 2 * ROWS + half, 4 * ROWS, end - s, to, then)
                _store(words, sums, old, out_at[n, r : r + rows], rows, pitch, width, s, end - s)
