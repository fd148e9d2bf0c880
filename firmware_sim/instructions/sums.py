"""Sums of products: fp32 in the chip's order, integers exactly.

fp32: products are rounded, then added, in two chains by the parity of the tap; the chains are added at
the end. The functions here hand pieces to compiled loops; the *_reference functions say the same plainly
and are used where the processor does not flush denormals as the chip does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from firmware_sim.instructions import fp32, workers
from firmware_sim.instructions.loops import native

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]

_FLOAT_EXACT = 1 << 24  # integers up to this magnitude are exact in fp32


def shared_reference(xs: F32, ws: F32, base: I64, out: F32) -> None:
    """What `shared` computes, in numpy and with `fp32`'s rules for denormals."""
    count = out.shape[1]
    total: F32 | None = None
    for x, w in zip(xs, ws, strict=True):
        chains = [np.zeros_like(out), np.zeros_like(out)]
        for t, at in enumerate(base.tolist()):
            chains[t & 1] = fp32.add(chains[t & 1], fp32.mul(w[:, t, None], x[None, at : at + count]))
        both = fp32.add(*chains)
        total = both if total is None else fp32.add(total, both)
    out[...] = total


def separate_reference(x: F32, w: F32, base: I64, out: F32) -> None:
    """What `separate` computes, in numpy and with `fp32`'s rules for denormals."""
    count = out.shape[1]
    chains = [np.zeros_like(out), np.zeros_like(out)]
    for t, at in enumerate(base.tolist()):
        chains[t & 1] = fp32.add(chains[t & 1], fp32.mul(w[:, t, None], x[:, at : at + count]))
    out[...] = fp32.add(*chains)


def shared(xs: F32, ws: F32, base: I64, out: F32) -> None:
    """out[row, s] = sum over halves and taps of xs[half, base[t] + s] * ws[half, row, t].

    xs: [halves, elements]; ws: [halves, rows, taps]; out: [rows, columns], C-contiguous in the last
    axis. Chains of a half are added first, then the halves.
    """
    if not native.ready():
        shared_reference(xs, ws, base, out)
        return
    rows, columns = out.shape
    pieces = workers.pieces(ws.size * columns)
    row_cuts = workers.cut(rows, native.rows(), pieces)
    column_cuts = workers.cut(columns, native.columns(), -(-pieces // len(row_cuts)))
    workers.run(
        [
            native.bound("sums_shared", xs, ws, base, out, r0, r1, s0, s1)
            for r0, r1 in row_cuts
            for s0, s1 in column_cuts
        ]
    )


def separate(x: F32, w: F32, base: I64, out: F32) -> None:
    """out[row, s] = sum over taps of x[row, base[t] + s] * w[row, t], in two chains.

    x: [rows, elements]; w: [rows, taps]; out: [rows, columns].
    """
    if not native.ready():
        separate_reference(x, w, base, out)
        return
    pieces = workers.pieces(w.size * out.shape[1])
    workers.run(
        [
            native.bound("sums_separate", x, w, base, out, r0, r1)
            for r0, r1 in workers.cut(len(out), 1, pieces)
        ]
    )


def matrix_product(left: F32, right: F32) -> F32:
    """left [m, k] times right [k, n] in the chip's order, [m, n]."""
    (m, k), n = left.shape, right.shape[1]
    if n < m:  # products commute: let the longer side be the one that neighbours in memory
        turned: F32 = matrix_product(right.T, left.T).T
        return turned
    out: F32 = np.empty((m, n), np.float32)
    x = np.ascontiguousarray(right).reshape(1, -1)
    shared(x, np.ascontiguousarray(left)[None], np.arange(k, dtype=np.int64) * n, out)
    return out


def integer_product(left: npt.NDArray[Any], right: npt.NDArray[Any], limit: int) -> npt.NDArray[Any]:
    """left [m, k] times right [k, n] of integers, exactly, as int32 or int64 [m, n].

    limit: the largest |product| of two elements, at most 2**23. Floating-point matrix products of few
    enough terms are exact, whatever their order.
    """
    k = left.shape[1]
    terms = max(_FLOAT_EXACT // limit, 1)
    wide: type[np.signedinteger[Any]] = np.int32 if k * limit < 1 << 31 else np.int64
    total = np.zeros((left.shape[0], right.shape[1]), wide)
    for at in range(0, k, terms):
        product = np.matmul(
            left[:, at : at + terms].astype(np.float32, copy=False),
            right[at : at + terms].astype(np.float32, copy=False),
        )
        total += product.astype(wide)
    return total
