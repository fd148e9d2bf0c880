"""Commands whose data decides what they touch: how much a masked copy writes, which elements a gather reads.

That is known when everything before them is done, so they are looked at just before they are executed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from firmware_sim.checks.records import I64, Record, with_numbers
from firmware_sim.isa.footprint import Space, Tensor
from firmware_sim.memory import Memory


@dataclass(frozen=True)
class Decided:
    """record: with what it writes; read: where each element lies that it reads of `of`, one for each of the
    result."""

    record: Record
    of: Tensor | None = None
    read: I64 | None = None


def by_data(record: Record) -> bool:
    """Whether a command is one of these."""
    return record.name.startswith(("gather", "gdma.filter"))


def decided(record: Record, memory: Memory) -> Decided:
    """What the data that is in memory now makes of a command."""
    tensors = {operand.name: operand for operand in record.operands if isinstance(operand, Tensor)}
    if record.name.startswith("gather"):
        data = tensors["opd0"]
        read = data.offset + _words(tensors["opd1"], memory) * data.itemsize
        inside = bool((read < memory.flat(data.space).size).all())  # else executing it is an error
        shape = (1, 1, 1, read.size)
        of = replace(data, shape=shape)
        return Decided(record, of, read.reshape(shape)) if inside else Decided(record)
    written = np.count_nonzero(_words(tensors["mask"], memory)) * tensors["dst"].itemsize
    blocks = tuple(
        replace(block, run=written, dims=(), maybe=False) if block.maybe else block
        for block in record.blocks
        if written or not block.maybe
    )
    return Decided(with_numbers(record.name, record.operands, blocks))


def _words(tensor: Tensor, memory: Memory) -> I64:
    assert tensor.itemsize == 4 and tensor.space is not Space.DDR
    words: I64 = memory.flat(tensor.space).view(np.uint32)[tensor.indices()].astype(np.int64)
    return words
