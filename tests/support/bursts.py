"""How a copy meets DDR or L2, counted address by address; isa/bursts.py has it from shape and strides."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from firmware_sim.isa.bursts import BURST_BYTES, SystemSide

Offsets = npt.NDArray[np.int64]
"""Byte offsets of all elements, [n, c, h, w]."""


def counted_side(own: Offsets, others: Sequence[Offsets], size: int) -> SystemSide:
    """The side that lies at `own`, of a copy with the others; elements of `size` bytes."""
    pieces = []
    for plane in np.ndindex(own.shape[:2]):
        sides = [side[plane].reshape(-1).tolist() for side in (own, *others)]
        pieces += [[at[i] for i in piece] for at in sides[:1] for piece in _together(sides, size)]
    beginnings = range(0, BURST_BYTES, size)
    if len({piece[0] % BURST_BYTES for piece in pieces}) == 1:
        beginnings = range(1)
    bursts = 0.0
    for piece in pieces:
        touched = [len({(b + i * size) // BURST_BYTES for i in range(len(piece))}) for b in beginnings]
        bursts += sum(touched) / len(touched)
    runs = _together([own.reshape(-1).tolist()], size)
    long = len(runs[0]) * size >= BURST_BYTES
    jumps = len(runs) - 1 if long else 0
    return SystemSide(own.size * size, len(pieces), bursts, jumps, 0 if long or len(runs) == 1 else len(runs))


def _together(sides: Sequence[Sequence[int]], size: int) -> list[list[int]]:
    """The elements, by number, in parts that are without gaps on all sides."""
    parts = [[0]]
    for i, j in pairwise(range(len(sides[0]))):
        if all(side[j] - side[i] == size for side in sides):
            parts[-1].append(j)
        else:
            parts.append([j])
    return parts
