"""Rounding weights so that what is lost adds up to nothing.

Each weight rounded by itself loses up to half a unit, and what a convolution's result loses is the sum of
that times what it reads. What it reads has a mean above 0 behind a relu, and neighbours are alike in
pictures, so the losses' sums weigh more than the losses: of each kernel, and of all that one result channel
reads. Where calibration knows the means a bias takes that back; files of other quantisers say none. So some
weights that lie between two integers take the other one until those sums are small. The idea is that of
SQuant (Guo et al., 2022, data-free quantisation by flipping).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]
LOW, HIGH = -128, 127


def rounded(ideal: F64) -> F64:
    """The nearest integers from -128 to 127."""
    found: F64 = np.clip(np.rint(ideal), LOW, HIGH)
    return found


def balanced(ideal: F64) -> F64:
    """Integers for numbers [OC, IC, taps], each less than one unit away. The losses of each OC add up to at
    most half a unit and those of each kernel to at most one, as far as 8 bits can do it."""
    found = rounded(ideal)
    count, channels, _ = ideal.shape
    total = (found - ideal).sum(2, keepdims=True)
    found -= np.sign(total) * _first(_room(found, ideal, np.sign(total)), np.rint(np.abs(total)))
    # One weight of some kernels, those with most left: they are at least twice as many as it takes.
    loss = (found - ideal).sum(2)
    sign = np.sign(loss.sum(1)).reshape(count, 1, 1)
    one = _first(_room(found, ideal, sign), np.ones((count, channels, 1)))
    left = np.where(one.any(2) & (loss * sign[:, :, 0] > 0), loss * sign[:, :, 0], -np.inf)
    chosen = _first(left, np.rint(np.abs(loss.sum(1, keepdims=True))))
    found -= sign * (one & chosen[:, :, None])
    return found


def _room(integers: F64, ideal: F64, sign: F64) -> F64:
    """How far above what they stand for integers lie that can go a unit back (below where `sign` is
    negative); minus infinity for others."""
    loss = (integers - ideal) * sign
    inside = (integers - sign >= LOW) & (integers - sign <= HIGH)
    found: F64 = np.where((loss > 0) & inside, loss, -np.inf)
    return found


def _first(values: F64, count: F64) -> npt.NDArray[np.bool_]:
    """The largest along the last axis, so many of them; minus infinity never is one."""
    order = np.argsort(-values, axis=-1, kind="stable")
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.broadcast_to(np.arange(values.shape[-1]), order.shape), axis=-1)
    found: npt.NDArray[np.bool_] = (rank < count) & (values > -np.inf)
    return found
