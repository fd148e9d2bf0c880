"""How a copy meets DDR or L2: in bursts of 64 bytes, piece by piece.

A piece is what lies together on both sides of a copy; a run is what lies together in system memory, and may
hold many pieces.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from firmware_sim.isa.footprint import Tensor

BURST_BYTES = 64


@dataclass(frozen=True)
class SystemSide:
    """The side of a copy that lies in DDR or L2.

    bursts: how many the pieces touch, each piece for itself; where they begin at no multiple of 64 bytes, on
    the average over all beginnings. jumps: from the end of a run of at least a burst to the next one.
    scattered: runs that are shorter than a burst.
    """

    nbytes: int
    pieces: int
    bursts: float
    jumps: int
    scattered: int

    def __add__(self, other: SystemSide) -> SystemSide:
        return SystemSide(
            self.nbytes + other.nbytes,
            self.pieces + other.pieces,
            self.bursts + other.bursts,
            self.jumps + other.jumps,
            self.scattered + other.scattered,
        )


_EMPTY = SystemSide(0, 0, 0.0, 0, 0)


def together(sides: Iterable[SystemSide]) -> SystemSide:
    """Of several moves of one command."""
    return sum(sides, _EMPTY)


def straight(nbytes: int, pieces: int = 1) -> SystemSide:
    """nbytes in one run, read or written in so many pieces of equal size."""
    return SystemSide(nbytes, pieces, max(math.ceil(nbytes / BURST_BYTES), pieces), 0, 0)


def system_side(tensor: Tensor, piece: int) -> SystemSide:
    """The side of `tensor`, whose elements are taken in n, c, h, w order and in pieces of `piece` elements.

    It depends on shape and strides, not on the address.
    """
    n, c, h, w = tensor.shape
    size, strides = tensor.itemsize, tensor.strides
    pieces = math.prod(tensor.shape) // piece
    inside = 4 if piece == 1 else 2 if piece == h * w else 3  # dimensions whose steps lead to another piece
    steps = [step for step, count in zip(strides[:inside], (n, c, h, w), strict=False) if count > 1]
    if any(step * size % BURST_BYTES for step in steps):
        each = 1 + (piece - 1) * size / BURST_BYTES
    else:
        each = math.ceil(piece * size / BURST_BYTES)
    runs, length = _runs(tensor)
    long = length * size >= BURST_BYTES
    return SystemSide(
        tensor.nbytes, pieces, pieces * each, runs - 1 if long else 0, 0 if long or runs == 1 else runs
    )


def _runs(tensor: Tensor) -> tuple[int, int]:
    """How many runs the elements make in their order, and of how many elements."""
    length = 1
    sizes = list(zip(tensor.shape, tensor.strides, strict=True))
    while sizes:
        count, stride = sizes.pop()
        if count > 1 and stride != length:
            return count * math.prod(size for size, _ in sizes), length
        length *= count
    return 1, length
