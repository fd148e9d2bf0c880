"""Commands of the tensor engine that may read what they have replaced: a result over an operand elsewhere.

Where a result lies exactly where an operand lies, each element is read before it is replaced. Where they
overlap in another way the order of the elements decides: by n, slot, h and w, in all lanes at once. Windows
and products read elements several times, so no result may lie over any.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from firmware_sim.checks.records import I64, READS, WRITES, Record, Runs
from firmware_sim.isa.footprint import Space, Tensor

_ELEMENT_WISE = ("ar.", "md_scalar.", "md_linear.", "md_cmp.", "md_sfu.")
_SEVERAL_TIMES = ("conv.", "depthwise.", "max_pool.", "matmul.")


@dataclass(frozen=True)
class Replaced:
    """operand: which is read; result: that lies over it; at: the first byte that is replaced too early, of
    local memory over all lanes; nbytes: how many there are."""

    operand: Tensor
    result: Tensor
    at: int
    nbytes: int


def replaced(record: Record) -> Replaced | None:
    """What a command may read of its own results instead of an operand."""
    for result in record.blocks:
        if not result.access & WRITES or result.space is not Space.LOCAL:
            continue
        for operand in record.blocks:
            if operand.operand == result.operand or not operand.access & READS or operand.maybe:
                continue
            if _touch(result, operand):
                found = _of(record, record.operands[operand.operand], record.operands[result.operand])
                if found is not None:
                    return found
    return None


def _touch(one: Runs, other: Runs) -> bool:
    """Whether two blocks may share bytes; never wrongly false."""
    return (
        one.space is other.space
        and bool(one.lanes & other.lanes)
        and one.start < other.end
        and other.start < one.end
    )


def _of(record: Record, operand: object, result: object) -> Replaced | None:
    if not isinstance(operand, Tensor) or not isinstance(result, Tensor):
        return None
    read, made = (one.indices() * one.itemsize for one in (operand, result))
    if record.name.startswith(_SEVERAL_TIMES):
        size = min(operand.itemsize, result.itemsize)
        shared = np.intersect1d(_words(read, operand.itemsize, size), _words(made, result.itemsize, size))
    elif record.name.startswith(_ELEMENT_WISE):
        if operand.itemsize != result.itemsize or operand.shape != result.shape:
            return None
        size = result.itemsize
        if operand.same_place(result) and not result.may_overlap_itself():
            return None
        places, first = np.unique(made, return_index=True)  # the first element that is written to each place
        at = np.searchsorted(places, read.reshape(-1)).clip(max=places.size - 1)
        late = (places[at] == read.reshape(-1)) & (first[at] < np.arange(read.size))
        shared = np.unique(read.reshape(-1)[late])
    else:
        return None
    return Replaced(operand, result, int(shared[0]), shared.size * size) if shared.size else None


def _words(places: I64, itemsize: int, size: int) -> I64:
    """Every `size` bytes of elements at these places."""
    words: I64 = (places.reshape(-1, 1) + np.arange(0, itemsize, size)).reshape(-1)
    return words
