"""Small winograd convolutions through tables of indices; see firmware_sim.instructions.winograd and small.

x_at: i64[batches, tiles, channels, 16], -1 for zero; w_at: i64[output channels, channels, 16]. A transformed
element is what is at terms[k, :2] together, plus or minus (minus[k]) what is at terms[k, 2:].
"""

from __future__ import annotations

from typing import Any

import numpy as np

from firmware_sim.instructions.loops import adder_tree, loop, small


@loop
def _transform(out: Any, tile: Any, terms: Any, minus: Any) -> None:
    for k in range(16):
        first = tile[terms[k, 0]] + tile[terms[k, 1]]
        second = tile[terms[k, 2]] + tile[terms[k, 3]]
        out[k] = first - second if minus[k] else first + second


@loop
def fp32(
    memory: Any,
    steps: Any,
    x_at: Any,
    w_at: Any,
    out_at: Any,
    bias_at: Any,
    terms: Any,
    minus: Any,
    places: Any,
    factors: Any,
    add: Any,
) -> None:
    """memory: f32. out_at: i64[batches, output channels, tiles, 4], -1 for pixels beyond the result.

    places: i64[4, 9], of which products a pixel is the sum, by factors (f32). bias_at: i64[output
    channels] or nothing; add: the old result is added last.
    """
    channels = x_at.shape[2]
    tile, terms_of = np.empty(16, np.float32), np.empty(9, np.float32)
    bits = terms_of.view(np.uint32)
    v, u = np.empty((channels, 16), np.float32), np.empty(w_at.shape, np.float32)
    even, odd = np.empty(16, np.float32), np.empty(16, np.float32)
    results = np.empty(out_at.shape, np.float32)
    small.gather(u.reshape(-1), memory, w_at.reshape(-1))
    for n in range(x_at.shape[0]):
        for s in range(x_at.shape[1]):
            for c in range(channels):
                small.gather(tile, memory, x_at[n, s, c])
                _transform(v[c], tile, terms, minus)
            for oc in range(w_at.shape[0]):
                even[:] = np.float32(0)
                odd[:] = np.float32(0)
                for c in range(0, channels, 2):
                    for k in range(16):
                        even[k] += v[c, k] * u[oc, c, k]
                for c in range(1, channels, 2):
                    for k in range(16):
                        odd[k] += v[c, k] * u[oc, c, k]
                for k in range(16):
                    even[k] = even[k] + odd[k]
                bias = memory[bias_at[oc]] if bias_at.shape[0] else np.float32(0)
                for p in range(4):
                    for i in range(9):
                        terms_of[i] = even[places[p, i]] * factors[p, i]
                    total = adder_tree.row(bits, terms_of, steps) + bias
                    if add and out_at[n, oc, s, p] >= 0:
                        total = total + memory[out_at[n, oc, s, p]]
                    results[n, oc, s, p] = total
    to, values = out_at.reshape(-1), results.reshape(-1)
    for i in range(to.shape[0]):
        if to[i] >= 0:
            memory[to[i]] = values[i]


@loop
def fixed(
    memory: Any,
    x_at: Any,
    w_at: Any,
    out_at: Any,
    added_at: Any,
    how: Any,
    terms: Any,
    minus: Any,
    places: Any,
    factors: Any,
) -> None:
    """memory: u8. out_at, added_at, how: as for small.fixed_products, the results in the order [batches,
    output channels, tiles, 4]; factors: i64."""
    batches, tiles, channels = x_at.shape[:3]
    rows = w_at.shape[0]
    tile = np.empty(16, np.int32)
    v, u = np.empty((channels, 16), np.int32), np.empty(w_at.shape, np.int32)
    products = np.empty(16, np.int32)
    results = np.empty((batches, rows, tiles, 4), np.int64)
    small.gather_bytes(u.reshape(-1), memory, w_at.reshape(-1), how[1])
    for n in range(batches):
        for s in range(tiles):
            for c in range(channels):
                small.gather_bytes(tile, memory, x_at[n, s, c], how[0])
                _transform(v[c], tile, terms, minus)
            for oc in range(rows):
                products[:] = 0
                for c in range(channels):
                    for k in range(16):
                        products[k] += v[c, k] * u[oc, c, k]
                for p in range(4):
                    total = np.int64(0)
                    for i in range(9):
                        total += products[places[p, i]] * factors[p, i]
                    results[n, oc, s, p] = total
    small.finish(memory, results.reshape(-1), out_at, added_at, how)
