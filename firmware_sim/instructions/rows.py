"""Rows of neighbouring elements: how compiled loops find the elements of several tensors at once.

A row is given by the index of its first element in each tensor's memory; all rows have one width, so a
loop gets one array of indices, [tensor, row], and one number. Prepared once, when a command is bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from firmware_sim.instructions import workers
from firmware_sim.isa.footprint import Dims4, Tensor

Indices = npt.NDArray[np.int64]

EACH = 1 << 12  # elements up to which every one is looked at to find rows
ROWS_MAX = 1 << 17


@dataclass(frozen=True)
class Rows:
    """at: int64[tensors, rows], indices of first elements; width: elements of a row."""

    at: Indices
    width: int

    def pieces(self) -> list[Indices]:
        """`at` in one piece, or in one for each thread where there is enough to do."""
        count = self.at.shape[1]
        pieces = workers.pieces(count * self.width * workers.COPIED)
        if pieces == 1:
            return [self.at]
        return [np.ascontiguousarray(self.at[:, i:j]) for i, j in workers.cut(count, 1, pieces)]


def planes_at(tensor: Tensor) -> Indices:
    """Where the planes of a tensor begin, [n, c]."""
    n, c, _, _ = tensor.shape
    return replace(tensor, shape=(n, c, 1, 1)).indices().reshape(n, c)


def _cut(tensors: list[Tensor]) -> Dims4 | None:
    """The shape of the first elements where planes, or else lines, are contiguous in all tensors."""
    n, c, h, w = shape = tensors[0].shape
    if any(t.shape != shape or t.h_shift or t.w_shift for t in tensors):
        return None
    if any(t.strides[3] != 1 for t in tensors) and w > 1:
        return None
    if h == 1 or all(t.strides[2] == w for t in tensors):
        return n, c, 1, 1
    return n, c, h, 1


def runs(indices: list[Indices]) -> Rows:
    """Rows of tensors whose elements, in order, have these indices."""
    every = np.stack([i.reshape(-1) for i in indices])
    if not every.size:
        return Rows(every, 1)
    breaks = np.nonzero((np.diff(every) != 1).any(axis=0))[0] + 1
    width = math.gcd(*breaks.tolist(), every.shape[1])
    return Rows(np.ascontiguousarray(every[:, ::width]), width)


def rows_of(tensors: list[Tensor]) -> Rows | None:
    """Rows of tensors of one shape; None where they are too short for their number."""
    cut = _cut(tensors)
    if cut is not None and math.prod(cut) <= ROWS_MAX:
        at = np.stack([replace(t, shape=cut).indices().reshape(-1) for t in tensors])
        return Rows(at, math.prod(tensors[0].shape) // math.prod(cut))
    if math.prod(tensors[0].shape) > EACH:
        return None
    return runs([t.indices() for t in tensors])
