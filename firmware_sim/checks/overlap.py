"""Commands of the tensor engine that read what they have replaced: a result over an operand elsewhere.

Where a result lies exactly where an operand lies, each element is read before it is replaced. Where they
overlap in another way the order of the elements decides: by n, slot, h and w, in all lanes at once. A result
that lies over what no later one depends on, as the mean of a map at its beginning, harms nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from firmware_sim import chip
from firmware_sim.checks.influence import Marked, influenced, parts_of
from firmware_sim.checks.records import I64, READS, WRITES, Record, Runs
from firmware_sim.isa.footprint import Space, Tensor
from firmware_sim.isa.layout import Row

_ELEMENT_WISE = ("ar.", "md_scalar.", "md_linear.", "md_cmp.", "md_sfu.")
_OF_SEVERAL = ("conv.fp32", "depthwise.fp32", "max_pool.fp32", "matmul.fp32")
_WORD = 4
_LOOKS = 16  # moments at which a command of windows or products is looked at
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Replaced:
    """operand: which is read; result: that lies over it; at: the first byte that is replaced too early, of
    local memory over all lanes; nbytes: how many there are."""

    operand: Tensor
    result: Tensor
    at: int
    nbytes: int


def replaced(record: Record, row: Row) -> Replaced | None:
    """What a command reads of its own results instead of an operand, if it does."""
    for block in record.blocks:
        if not block.access & WRITES or block.space is not Space.LOCAL:
            continue
        for other in record.blocks:
            if other.operand == block.operand or not other.access & READS or other.maybe:
                continue
            operand, result = record.operands[other.operand], record.operands[block.operand]
            if _touch(block, other) and isinstance(operand, Tensor) and isinstance(result, Tensor):
                late = _late(record, row, operand, result)
                if late.size:
                    return Replaced(operand, result, int(late[0]), late.size * _WORD)
    return None


def _touch(one: Runs, other: Runs) -> bool:
    """Whether two blocks may share bytes; never wrongly false."""
    return (
        one.space is other.space
        and bool(one.lanes & other.lanes)
        and one.start < other.end
        and other.start < one.end
    )


def _late(record: Record, row: Row, operand: Tensor, result: Tensor) -> I64:
    """The words that are replaced before they have been read, in order."""
    none = np.zeros(0, np.int64)
    each = record.name.startswith(_ELEMENT_WISE)
    if result.itemsize != _WORD or not (each or record.name in _OF_SEVERAL):
        return none
    if each and (operand.itemsize != _WORD or operand.shape != result.shape):
        return none
    if each and operand.same_place(result) and not result.may_overlap_itself():
        return none
    order = _order(result)
    made, first = np.unique(result.indices() * _WORD, return_index=True)
    written = order.reshape(-1)[first]  # np.unique gives the first place, and the order only grows in a lane
    words = operand.indices()[..., None] * operand.itemsize + np.arange(0, operand.itemsize, _WORD)
    at = np.searchsorted(made, words).clip(max=made.size - 1)
    when = np.where(made[at] == words, written[at], _NEVER)
    if each:
        return np.unique(words[when < order[..., None]])
    if parts_of(record.name, row, operand) != 1:
        return none
    since = when.min(-1)
    moments = np.unique(since[since < _NEVER])
    for moment in moments[:: -(-len(moments) // _LOOKS) or 1].tolist():
        gone = since <= moment
        for one in influenced(record.name, row, record.operands, [Marked(operand, gone)]):
            if one.tensor is result and bool((one.marks & (order > moment)).any()):
                return np.unique(words[when <= moment])
    return none


def _order(result: Tensor) -> I64:
    """When each element is written, [n, c, h, w]: those of all lanes at once."""
    n, c, h, w = result.shape
    slots = (result.lane + np.arange(c)) // chip.NPU_NUM
    place = np.arange(n)[:, None] * (slots[-1] + 1) + slots
    order: I64 = place[:, :, None, None] * (h * w) + np.arange(h * w).reshape(h, w)
    return order
