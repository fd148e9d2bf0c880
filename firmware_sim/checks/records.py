"""What one command reads and writes, in the form that compiled loops go through: made once per descriptor.

A record is an array of int64: the number of blocks, how unwritten bytes go on to results (`carried`), then
16 numbers for each block (`FIELDS`, and loops/check.h). A block is a set of runs of bytes: `run` bytes at
start + i0 * stride0 + i1 * stride1 + ..., in every lane of `lanes`. Strides are positive, and what lies side
by side is one run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from firmware_sim import chip
from firmware_sim.errors import DeviceError
from firmware_sim.instructions.dma import lane_mask
from firmware_sim.instructions.instruction import Engine, Instruction
from firmware_sim.instructions.table import lookup
from firmware_sim.isa.footprint import Access, Block, Operand, Space, Tensor
from firmware_sim.isa.layout import Row

I64 = npt.NDArray[np.int64]
FIELDS = 16
"""operand, access (READS, WRITES, both), space, lanes, start, run, dims, maybe, then 4 x (count, stride)."""
READS, WRITES = 1, 2
LIMITS = {Space.LOCAL: chip.LOCAL_BYTES, Space.DDR: chip.DDR_BYTES, Space.L2: chip.L2_BYTES}
"""Bytes of each memory, in local memory of one lane."""
_DIMS = 4
_ALL_LANES = (1 << chip.NPU_NUM) - 1
_MOST_RUNS = 4096  # of an operand with shifted indices; beyond, its whole reach stands for it
_MASKED = ("gdma.copy", "gdma.transpose_nc", "gdma.convert", "gdma.fill")
_BY_DATA = {"gather": ("opd0",), "table_lookup": ("opd1",), "gdma.filter": ("dst",)}
"""Operands of which the data says how much is used."""


@dataclass(frozen=True)
class Runs:
    """One block of a record. operand: its place among the command's operands; maybe: not all of it need be
    touched, the data decides. In local memory start counts within each lane."""

    operand: int
    access: int
    space: Space
    lanes: int
    start: int
    run: int
    dims: tuple[tuple[int, int], ...] = ()
    maybe: bool = False

    def packed(self) -> list[int]:
        """Its 16 numbers."""
        lanes = self.lanes - (1 << 64) if self.lanes >> 63 else self.lanes
        dims = [value for dim in self.dims for value in dim]
        head = [self.operand, self.access, int(self.space), lanes, self.start, self.run, len(self.dims)]
        return [*head, int(self.maybe), *dims, *[0] * (2 * _DIMS - len(dims))]

    def starts(self) -> I64:
        """Where each run begins, int64[runs]."""
        at = np.array([self.start], np.int64)
        for count, stride in self.dims:
            at = (at[:, None] + np.arange(count, dtype=np.int64) * stride).reshape(-1)
        return at

    def places(self) -> I64:
        """Every byte, int64[lanes * runs * run]: its offset in its memory, of local memory over all lanes."""
        at = (self.starts()[:, None] + np.arange(self.run)).reshape(-1)
        if self.space is not Space.LOCAL:
            return at
        lanes = np.array([lane for lane in range(chip.NPU_NUM) if self.lanes >> lane & 1], np.int64)
        everywhere: I64 = (lanes[:, None] * chip.LOCAL_BYTES + at).reshape(-1)
        return everywhere

    def holds(self, space: Space, at: int) -> bool:
        """Whether a byte is one of its own; at as in `places`."""
        lane, within = divmod(at, chip.LOCAL_BYTES) if space is Space.LOCAL else (0, at)
        if space is not self.space or (space is Space.LOCAL and not self.lanes >> lane & 1):
            return False
        if not self.start <= within < self.end:
            return False
        first = self.starts()
        return bool(((first <= within) & (within < first + self.run)).any())

    @property
    def end(self) -> int:
        """Behind the last byte."""
        return self.start + sum((count - 1) * stride for count, stride in self.dims) + self.run


@dataclass(frozen=True, eq=False)
class Record:
    """A command's operands and their blocks; numbers: the same for compiled loops, and where they lie."""

    name: str
    operands: tuple[Operand, ...]
    blocks: tuple[Runs, ...]
    numbers: I64
    address: int


def merged(start: int, itemsize: int, axes: list[tuple[int, int]]) -> tuple[int, int, list[tuple[int, int]]]:
    """Start, bytes of a run and the other dimensions of elements at start + sum of i * stride: strides
    positive and ascending, no dimension that another one continues."""
    dims: list[tuple[int, int]] = []
    positive = []
    for count, stride in axes:
        if count > 1 and stride:
            start += min(0, (count - 1) * stride)
            positive.append((count, abs(stride)))
    run = itemsize
    for count, stride in sorted(positive, key=lambda axis: axis[1]):
        if not dims and stride <= run:
            run += (count - 1) * stride
        elif dims and stride % dims[-1][1] == 0 and stride <= dims[-1][0] * dims[-1][1]:
            inner, step = dims[-1]
            dims[-1] = (inner + (count - 1) * (stride // step), step)
        else:
            dims.append((count, stride))
    return start, run, dims


def _block_runs(block: Block, operand: int, access: int, *, maybe: bool) -> Runs:
    n, slots, lanes, h, w = block.shape
    n_str, slot_str, lane_str, h_str, w_str = block.strides
    axes = [(n, n_str), (slots, slot_str), (h, h_str), (w, w_str)]
    if block.space is Space.LOCAL:
        lane, within = divmod(block.start, chip.LOCAL_BYTES)
        mask = ((1 << lanes) - 1) << lane
    else:
        within, mask = block.start, 0
        axes.append((lanes, lane_str))
    start, run, dims = merged(within, block.itemsize, axes)
    return Runs(operand, access, block.space, mask, start, run, tuple(dims), maybe)


def _shifted(tensor: Tensor, operand: int, access: int) -> Iterator[Runs]:
    """Shifted indices skip and repeat elements: each run of what is left is a block of its own."""
    size = tensor.itemsize
    at = np.unique(tensor.indices())
    breaks = np.nonzero(np.diff(at) != 1)[0] + 1
    firsts, lengths = at[np.r_[0, breaks]] * size, np.diff(np.r_[0, breaks, len(at)]) * size
    if len(firsts) > _MOST_RUNS:
        for block in tensor.blocks():
            yield _block_runs(block, operand, access, maybe=True)
        return
    by_place: dict[tuple[int, int], int] = {}
    for first, length in zip(firsts.tolist(), lengths.tolist(), strict=True):
        lane, within = divmod(first, chip.LOCAL_BYTES)
        by_place[within, length] = by_place.get((within, length), 0) | 1 << lane
    for (within, length), lanes in by_place.items():
        yield Runs(operand, access, tensor.space, lanes, within, length)


def _runs(instruction: Instruction, row: Row, operands: tuple[Operand, ...]) -> Iterator[Runs]:
    by_data = next((names for name, names in _BY_DATA.items() if instruction.name.startswith(name)), ())
    masked = instruction.engine is Engine.GDMA and instruction.name.startswith(_MASKED)
    for k, tensor in enumerate(operands):
        if not isinstance(tensor, Tensor):
            continue
        access = (READS if Access.READ in tensor.access else 0) | (
            WRITES if Access.WRITE in tensor.access else 0
        )
        if tensor.h_shift or tensor.w_shift:
            yield from _shifted(tensor, k, access)
            continue
        for block in tensor.blocks():
            one = _block_runs(block, k, access, maybe=tensor.name in by_data)
            if masked and access & WRITES and one.space is Space.LOCAL:
                lanes = one.lanes & lane_mask(row)
                one = Runs(k, access, one.space, lanes, one.start, one.run, one.dims, one.maybe)
            if one.lanes or one.space is not Space.LOCAL:
                yield one


def numbers_of(blocks: Sequence[Runs], carry: int = 0) -> I64:
    """A record's numbers for compiled loops."""
    return np.array([len(blocks), carry, *(value for one in blocks for value in one.packed())], np.int64)


def with_numbers(
    name: str, operands: tuple[Operand, ...], blocks: tuple[Runs, ...], carry: int = 0
) -> Record:
    """A record of these blocks, with its numbers."""
    numbers = numbers_of(blocks, carry)
    return Record(name, operands, blocks, numbers, int(numbers.ctypes.data))


_ELEMENT_WISE = ("ar.", "md_scalar.", "md_linear.", "md_cmp.", "md_sfu.")
_APART = ("ar.and", "ar.shift")  # bytes may leave, or go elsewhere
_BYTE_BY_BYTE = ("ar.copy", "ar.or", "ar.xor")


def carried(name: str, operands: tuple[Operand, ...]) -> int:
    """Bytes of an element where each element of the results depends on those in the same place of the
    operands alone, and elements are of one size; else 0."""
    sizes = {o.itemsize for o in operands if isinstance(o, Tensor) and o.space is Space.LOCAL}
    if not name.startswith(_ELEMENT_WISE) or name in _APART or name.startswith("ar.fixed") or sizes != {4}:
        return 0
    return 1 if name in _BYTE_BY_BYTE else 4


def record_of(engine: Engine, row: Row) -> Record:
    """The record of a descriptor. DeviceError for one that is illegal, refused, or leaves its memory."""
    instruction = lookup(engine, row)
    if instruction.semantics is None:
        raise DeviceError(f"{instruction.status.value}: {instruction.reason}")
    operands = instruction.semantics.operands(row)
    blocks = tuple(_runs(instruction, row, operands))
    for one in blocks:
        if one.start < 0 or one.end > LIMITS[one.space]:
            raise DeviceError(f"{operands[one.operand].name} leaves its memory")
    return with_numbers(instruction.name, operands, blocks, carried(instruction.name, operands))
