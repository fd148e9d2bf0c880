"""The chip's memories as numpy byte arrays, and checked views of operands in them."""

from __future__ import annotations

import math
import mmap
from typing import Any

import numpy as np
import numpy.typing as npt

from firmware_sim import chip
from firmware_sim.errors import DeviceError
from firmware_sim.isa.footprint import Access, Block, Part, Space, Tensor, address_text
from firmware_sim.l2_tables import l2_tables

U8 = npt.NDArray[np.uint8]
_MAP_NORESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)  # Linux; older Pythons do not name it

_MOST_SHARED = 1 << 25  # elements of a result that share bytes: as many as local memory has bytes

View = npt.NDArray[Any]


class Memory:
    """DDR, local memory of all lanes, and L2.

    ddr: uint8[size], size up to 12 GiB; local: uint8[64, 512 Ki]; l2: uint8[4 Mi]. All C-contiguous;
    they stay in place for the life of the object, because plans hold views of them. reserved: bytes at the
    start of DDR that no command may write.
    """

    def __init__(self, ddr: U8, local: U8, l2: U8, reserved: int = 0) -> None:
        if local.shape != (chip.NPU_NUM, chip.LOCAL_BYTES) or l2.shape != (chip.L2_BYTES,) or ddr.ndim != 1:
            raise ValueError(f"wrong memory shapes: ddr {ddr.shape}, local {local.shape}, l2 {l2.shape}")
        self.ddr = ddr
        self.local = local
        self.l2 = l2
        self._flat = {Space.LOCAL: local.reshape(-1), Space.DDR: ddr, Space.L2: l2}
        if not np.shares_memory(self._flat[Space.LOCAL][:1], local):
            raise ValueError("local memory must be contiguous")
        self._reserved = reserved
        self._limit = {Space.LOCAL: chip.LOCAL_BYTES, Space.DDR: len(ddr), Space.L2: chip.L2_BYTES}
        self.filtered = 0
        """How many words the newest masked copy wrote: a register of the GDMA."""
        self.load_tables()

    @classmethod
    def create(cls, ddr_bytes: int = chip.DDR_BYTES) -> Memory:
        """Private memories, all zero except the L2 tables; pages are allocated when touched."""
        sizes = (ddr_bytes, chip.NPU_NUM * chip.LOCAL_BYTES, chip.L2_BYTES)
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
        ddr, local, l2 = (np.frombuffer(mmap.mmap(-1, size, flags=flags), np.uint8) for size in sizes)
        return cls(ddr, local.reshape(chip.NPU_NUM, chip.LOCAL_BYTES), l2)

    def load_tables(self) -> None:
        """Write the constant tables into L2, as at power-up."""
        tables = l2_tables()
        self.l2[chip.L2_TABLE_OFFSET : chip.L2_TABLE_OFFSET + len(tables)] = tables

    def flat(self, space: Space) -> U8:
        """A whole memory as uint8[bytes]; local memory lane after lane."""
        return self._flat[space]

    def check(self, tensor: Tensor, part: Part, block: Block) -> None:
        """Raise DeviceError naming the operand and the limit unless the block lies in its memory.

        Results whose elements share bytes are limited in number, too: no memory limits them.
        """
        count = math.prod(tensor.shape)
        if count > _MOST_SHARED and tensor.access is not Access.READ and tensor.may_overlap_itself():
            raise DeviceError(
                f"{tensor.name} at {address_text(tensor.space, tensor.offset)}: "
                f"shape {list(tensor.shape)} with strides {list(tensor.strides)} "
                f"writes {count} elements over one another; {_MOST_SHARED} at most",
                hint="give the result strides of its own elements",
            )
        limit = self._limit[block.space]
        first = block.start - part.lane * chip.LOCAL_BYTES if block.space is Space.LOCAL else block.start
        end = first + block.span()
        if first < block.before():
            raise DeviceError(
                f"{tensor.name} at {address_text(tensor.space, tensor.offset)}: "
                f"shape {list(tensor.shape)} with strides {list(tensor.strides)} "
                f"({tensor.itemsize}-byte elements) reaches {block.before() - first} bytes below its memory",
                hint="a stride below 0 leads backwards; place the tensor at a higher address",
            )
        written = tensor.access is not Access.READ
        if written and block.space is Space.DDR and first - block.before() < self._reserved:
            raise DeviceError(
                f"{tensor.name} writes to {address_text(tensor.space, tensor.offset)}, where the firmware's "
                f"own memory is, up to {address_text(Space.DDR, self._reserved - 1)}",
                hint="give commands addresses of memory that the device has allocated",
            )
        if end <= limit:
            return
        where = "each lane's memory ends" if block.space is Space.LOCAL else f"{block.space.name} ends"
        channels = f"channels {part.first}..{part.first + part.slots * part.lanes - 1}"
        raise DeviceError(
            f"{tensor.name} at {address_text(tensor.space, tensor.offset)}: "
            f"shape {list(tensor.shape)} with strides {list(tensor.strides)} "
            f"({tensor.itemsize}-byte elements) reaches offset 0x{end:x} in {channels}, "
            f"but {where} at 0x{limit:x}",
            hint="make the tensor smaller or split it, or place it at a lower address",
        )

    def view(self, tensor: Tensor, part: Part, dtype: type[np.generic]) -> View:
        """The elements of `part`'s channels, [n, slots, lanes, h, w], as a view of memory."""
        block = tensor.block(part)
        self.check(tensor, part, block)
        flat = self._flat[block.space]
        view: View = np.ndarray(
            block.shape, dtype, buffer=flat.data, offset=block.start, strides=block.strides
        )
        return view
