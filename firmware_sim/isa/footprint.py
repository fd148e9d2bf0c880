"""Which bytes an instruction touches: operands as strided blocks of one memory.

An operand is a tensor (n, c, h, w) somewhere in memory, or a constant. Its blocks are the exact
statement of the bytes it covers; execution views memory through the same blocks, so what an
instruction says it touches is what it touches.

Local layout: channel c of a tensor that starts on lane s lies on lane (s + c) % 64 in slot
(s + c) // 64, at n * n_stride + slot * c_stride + h * h_stride + w * w_stride elements from the
tensor's offset in that lane.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from firmware_sim import chip
from firmware_sim.errors import DeviceError

Dims4 = tuple[int, int, int, int]
Dims5 = tuple[int, int, int, int, int]


class Space(enum.IntEnum):
    """The three memories that descriptors address. The numbers are those in files of test vectors."""

    LOCAL = 0
    DDR = 1
    L2 = 2


class Access(enum.Flag):
    """What an instruction does with an operand; UPDATE: a result that is added to what is there."""

    READ = enum.auto()
    WRITE = enum.auto()
    UPDATE = READ | WRITE


_SPACES = (
    (Space.LOCAL, chip.LOCAL_BASE, chip.NPU_NUM * chip.LOCAL_BYTES),
    (Space.L2, chip.L2_BASE, chip.L2_BYTES),
    (Space.DDR, chip.DDR_BASE, chip.DDR_BYTES),
)


def locate(address: int, operand: str) -> tuple[Space, int]:
    """The memory of a 40-bit device address and the byte offset in it (local: over all lanes).

    Raises DeviceError naming the operand when nothing is there.
    """
    for space, base, size in _SPACES:
        if base <= address < base + size:
            return space, address - base
    raise DeviceError(
        f"{operand}: no memory at address 0x{address:x}",
        hint="local memory is at 0x8000000 (32 MiB), L2 at 0x10000000 (4 MiB), DDR at 0x100000000 (12 GiB)",
    )


def address_text(space: Space, offset: int) -> str:
    """A readable address: `lane 3 +0x1000`, `ddr +0x200`."""
    if space is Space.LOCAL:
        lane, within = divmod(offset, chip.LOCAL_BYTES)
        return f"lane {lane} +0x{within:x}"
    return f"{space.name.lower()} +0x{offset:x}"


@dataclass(frozen=True, slots=True)
class Block:
    """A rectangle of elements: `shape` and byte `strides` over (n, slot, lane, h, w) from byte `start`.

    In local memory `start` counts over all lanes and the stride of the lane axis is one lane.
    """

    space: Space
    start: int
    shape: Dims5
    strides: Dims5
    itemsize: int

    def span(self) -> int:
        """Bytes from `start` to the last one touched; in local memory, within each lane."""
        n = sum(max(0, (count - 1) * stride) for count, stride in zip(self.shape, self.strides, strict=True))
        if self.space is Space.LOCAL:
            n -= (self.shape[2] - 1) * chip.LOCAL_BYTES
        return n + self.itemsize

    def before(self) -> int:
        """Bytes touched in front of `start`: strides of rows and columns may lead backwards."""
        return -sum(
            min(0, (count - 1) * stride) for count, stride in zip(self.shape, self.strides, strict=True)
        )

    @property
    def count(self) -> int:
        """Number of elements; where strides are 0 or overlap, more than there are places."""
        n, s, lanes, h, w = self.shape
        return n * s * lanes * h * w


@dataclass(frozen=True, slots=True)
class Part:
    """Channels [first, first + slots * lanes) of a tensor, as a rectangle of slots and lanes."""

    first: int
    slot: int
    slots: int
    lane: int
    lanes: int


def local_parts(start_lane: int, channels: int) -> tuple[Part, ...]:
    """Cut the channels of a local tensor into at most three rectangles."""
    parts = []
    done = 0
    if start_lane:
        done = min(channels, chip.NPU_NUM - start_lane)
        parts.append(Part(0, 0, 1, start_lane, done))
    slots, rest = divmod(channels - done, chip.NPU_NUM)
    slot = len(parts)
    if slots:
        parts.append(Part(done, slot, slots, 0, chip.NPU_NUM))
        done += slots * chip.NPU_NUM
    if rest:
        parts.append(Part(done, slot + slots, 1, 0, rest))
    return tuple(parts)


def system_parts(channels: int) -> tuple[Part, ...]:
    """All channels of a tensor in system memory at once."""
    return (Part(0, 0, channels, 0, 1),)


def aligned_strides(start_lane: int, shape: Dims4, itemsize: int) -> Dims4:
    """Element strides of the 128-byte aligned layout."""
    _, c, h, w = shape
    line = chip.ALIGN_BYTES // itemsize
    c_stride = -(-h * w // line) * line
    slots = -(-(start_lane + c) // chip.NPU_NUM)
    return slots * c_stride, c_stride, w, 1


def continuous_strides(shape: Dims4) -> Dims4:
    """Element strides of a tensor without gaps, as in DDR."""
    _, c, h, w = shape
    return c * h * w, h * w, w, 1


@dataclass(frozen=True)
class Tensor:
    """One operand in memory. Strides are in elements.

    Shifts (arithmetic operands): element (h, w) lies at ((h * h_stride) >> h_shift) +
    ((w * w_stride) >> w_shift) instead of the plain products.
    """

    name: str
    access: Access
    space: Space
    offset: int
    shape: Dims4
    strides: Dims4
    itemsize: int
    h_shift: int = 0
    w_shift: int = 0

    @property
    def lane(self) -> int:
        """The lane of channel 0; 0 in DDR and L2, which have no lanes."""
        return self.offset // chip.LOCAL_BYTES if self.space is Space.LOCAL else 0

    @property
    def nbytes(self) -> int:
        """Size of all elements together."""
        return math.prod(self.shape) * self.itemsize

    def parts(self) -> tuple[Part, ...]:
        """The channels cut into rectangles of slots and lanes: up to three in local memory, one elsewhere."""
        if self.space is Space.LOCAL:
            return local_parts(self.lane, self.shape[1])
        return system_parts(self.shape[1])

    def block(self, part: Part) -> Block:
        """The bytes of the channels in `part`; with shifts, an upper bound: the rows and columns
        that the shifted indices reach, without the gaps between them."""
        n, _, h, w = self.shape
        size = self.itemsize
        n_str, c_str, h_str, w_str = (s * size for s in self.strides)
        if self.h_shift:
            h, h_str = ((h - 1) * self.strides[2] >> self.h_shift) + 1, size
        if self.w_shift:
            w, w_str = ((w - 1) * self.strides[3] >> self.w_shift) + 1, size
        if self.space is Space.LOCAL:
            start = part.lane * chip.LOCAL_BYTES + self.offset % chip.LOCAL_BYTES + part.slot * c_str
            slot_str, lane_str = c_str, chip.LOCAL_BYTES
        else:
            start = self.offset + part.first * c_str
            slot_str, lane_str = part.lanes * c_str, c_str
        return Block(
            self.space,
            start,
            (n, part.slots, part.lanes, h, w),
            (n_str, slot_str, lane_str, h_str, w_str),
            size,
        )

    def blocks(self) -> tuple[Block, ...]:
        """The bytes of all channels, one block per part."""
        return tuple(self.block(part) for part in self.parts())

    def indices(self) -> npt.NDArray[np.int64]:
        """The index of every element, [n, c, h, w], in its flat memory counted in elements."""
        n, c, h, w = (np.arange(size, dtype=np.int64) for size in self.shape)
        n_str, c_str, h_str, w_str = self.strides
        if self.space is Space.LOCAL:
            lanes = self.lane + c
            lane_items = chip.LOCAL_BYTES // self.itemsize
            channels = lanes % chip.NPU_NUM * lane_items + lanes // chip.NPU_NUM * c_str
            base = self.offset % chip.LOCAL_BYTES // self.itemsize
        else:
            channels, base = c * c_str, self.offset // self.itemsize
        rows = h * h_str >> self.h_shift
        columns = w * w_str >> self.w_shift
        at: npt.NDArray[np.int64] = (
            base
            + (n * n_str)[:, None, None, None]
            + channels[None, :, None, None]
            + rows[None, None, :, None]
            + columns[None, None, None, :]
        )
        return at

    def reach(self) -> tuple[int, int]:
        """First and last-plus-one byte touched in its memory (local: in any lane)."""
        starts, ends = [], []
        for part in self.parts():
            block = self.block(part)
            start = block.start - part.lane * chip.LOCAL_BYTES if self.space is Space.LOCAL else block.start
            starts.append(start - block.before())
            ends.append(start + block.span())
        return min(starts), max(ends)

    def same_place(self, other: Tensor) -> bool:
        """Whether equal indices mean equal bytes."""
        return (self.space, self.offset, self.strides, self.h_shift, self.w_shift) == (
            other.space,
            other.offset,
            other.strides,
            other.h_shift,
            other.w_shift,
        )

    def may_overlap(self, other: Tensor) -> bool:
        """Never wrongly false."""
        if self.space is not other.space:
            return False
        (a0, a1), (b0, b1) = self.reach(), other.reach()
        return a0 < b1 and b0 < a1

    def may_overlap_itself(self) -> bool:
        """Whether two elements may share bytes; never wrongly false."""
        if self.h_shift or self.w_shift:
            return True
        n, c, h, w = self.shape
        channels = -(-(self.lane + c) // chip.NPU_NUM) if self.space is Space.LOCAL else c
        reach = 1
        for stride, count in sorted(zip(map(abs, self.strides), (n, channels, h, w), strict=True)):
            if count > 1:
                if stride < reach:
                    return True
                reach += stride * (count - 1)
        return False


@dataclass(frozen=True)
class Constant:
    """An operand that is a raw 32-bit value in the descriptor."""

    name: str
    bits: int


Operand = Tensor | Constant


@dataclass(frozen=True)
class Footprint:
    """All bytes that an instruction may read, and all that it may write."""

    reads: tuple[Block, ...]
    writes: tuple[Block, ...]


def footprint_of(operands: tuple[Operand, ...]) -> Footprint:
    """What the operands of one instruction read and write; constants touch no memory."""
    tensors = [o for o in operands if isinstance(o, Tensor)]
    return Footprint(
        reads=tuple(b for t in tensors if Access.READ in t.access for b in t.blocks()),
        writes=tuple(b for t in tensors if Access.WRITE in t.access for b in t.blocks()),
    )
