"""The roofline: the least time that a net's arithmetic and its traffic with DDR can take on this chip.

It is the yardstick of modelled times, so its figures are numbers of its own, which do not follow when the
clock is fitted anew. They are those of the fastest commands of the clock (firmware_sim/isa/timing.py), for 64
lanes and 550 MHz, without what a launch costs; tests compare them with every family of commands.

The operations of a net fall into classes. A class takes the longer of two times: its operations at its peak,
and its bytes at the bandwidth of DDR. The roofline is the sum over the classes.

Bytes are those of tensors that cross the border of what is looked at: of a net its inputs, outputs and
constants, each once, however often they are moved. What lies between stays in local memory at best. What a
layer only picks from (a slice, a gathered table) counts with no more bytes than are made of it. A tensor
counts for the class that reads it first, or that makes it.

A time below the roofline is possible where operations disappear (an addition inside a convolution, Winograd's
convolutions, which multiply less) or one class computes while another one's bytes are moved.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """A class of operations."""

    PRODUCT = "products"
    PRODUCT8 = "8-bit products"
    DEPTHWISE = "depthwise"
    POOL = "pooling and sums"
    ELEMENTWISE = "element-wise"
    FUNCTION = "functions"
    COPY = "copies"


PEAKS = {
    # Multiplications of convolutions, counted directly, and of matrix products, which convolutions of one tap
    # do fastest: 16 pixels, 64 lanes and 2 input channels a cycle, by the fitted factor of 1.12.
    Kind.PRODUCT: 2048 / 1.12,
    # The same of 8-bit operands: 4 batches and 4 input channels at a time.
    Kind.PRODUCT8: 16384.0,
    # Multiplications where each result has one input channel: a tap of 16 pixels and 64 lanes a cycle.
    Kind.DEPTHWISE: 1024.0,
    # Elements that are read: the adder tree takes 32 of each lane.
    Kind.POOL: 2048.0,
    # Elements of the result, or those read where they are more: the fastest pass takes 16 of each lane.
    Kind.ELEMENTWISE: 1024.0,
    # The same, of what needs a table lookup (24 cycles for these 16), a root (27) or a quotient (30):
    # exponentials, sigmoids, logarithms, powers, softmax.
    Kind.FUNCTION: 1024 / 24,
    # Elements of the result, 2 cycles for 16 of each lane; none where only the shape changes.
    Kind.COPY: 512.0,
}
"""Operations per cycle."""
READ, WRITTEN = 64 / 1.28, 64 / 1.44
"""Bytes per cycle from DDR (27.5 GB/s) and to it (24.4 GB/s): the fitted cycles of bursts of 64."""
MULTIPLY = (Kind.PRODUCT, Kind.PRODUCT8, Kind.DEPTHWISE)


@dataclass(frozen=True)
class Demand:
    """What must be done: operations of one class, bytes read from DDR and written to it."""

    kind: Kind
    count: int
    read: int = 0
    written: int = 0

    @property
    def macs(self) -> int:
        """Multiplications with additions; 0 of the other classes."""
        return self.count if self.kind in MULTIPLY else 0

    @property
    def cycles(self) -> float:
        """The least that it takes."""
        return max(self.count / PEAKS[self.kind], self.read / READ + self.written / WRITTEN)


def roofline(demands: Iterable[Demand]) -> float:
    """Cycles: of each class the longer of arithmetic and traffic, summed up."""
    found: dict[Kind, Demand] = {}
    for one in demands:
        old = found.get(one.kind, Demand(one.kind, 0))
        found[one.kind] = Demand(
            one.kind, old.count + one.count, old.read + one.read, old.written + one.written
        )
    return sum(one.cycles for one in found.values())
