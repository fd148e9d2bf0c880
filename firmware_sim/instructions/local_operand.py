"""Operands of the tensor engine, from descriptor fields."""

from __future__ import annotations

from firmware_sim import chip
from firmware_sim.errors import DeviceError
from firmware_sim.isa.codes import Stride
from firmware_sim.isa.footprint import (
    Access,
    Constant,
    Dims4,
    Operand,
    Space,
    Tensor,
    aligned_strides,
    locate,
)
from firmware_sim.isa.layout import Row

WORD = 4


def result_shape(row: Row) -> Dims4:
    """(n, c, h, w) of the result. Raises DeviceError when a size is zero."""
    shape = (row["res0_n"], row["res0_c"], row["res0_h"], row["res0_w"])
    if 0 in shape:
        raise DeviceError(f"res0: shape {list(shape)} has a size of zero", hint="sizes start at 1")
    return shape


def local_offset(address: int, operand: str) -> int:
    """The offset in flat local memory of a descriptor address. Raises DeviceError for other memories."""
    space, offset = locate(address, operand)
    if space is not Space.LOCAL:
        raise DeviceError(
            f"{operand}: address 0x{address:x} is in {space.name}",
            hint="the tensor engine works on local memory (0x8000000 + lane * 0x80000 + offset)",
        )
    return offset


def explicit_strides(row: Row, name: str) -> Dims4:
    """The (n, c, h, w) strides in the descriptor, in elements; in words where batches share them.

    Those of h and w are signed.
    """
    h, w = ((row[f"{name}_{axis}_str"] ^ 1 << 31) - (1 << 31) for axis in "hw")
    return row[f"{name}_n_str"], row[f"{name}_c_str"], h, w


def word_tensor(row: Row, name: str, shape: Dims4, access: Access, *, aligned: bool) -> Tensor:
    """An operand of 32-bit words with implied aligned or explicit strides."""
    offset = local_offset(row[f"{name}_addr"], name)
    if aligned:
        strides = aligned_strides(offset // chip.LOCAL_BYTES, shape, WORD)
    else:
        strides = explicit_strides(row, name)
    return Tensor(name, access, Space.LOCAL, offset, shape, strides, WORD)


def word_operand(row: Row, name: str, shape: Dims4, *, aligned: bool) -> Operand:
    """An input of 32-bit words, or the constant in its address field."""
    if row[f"opt_{name}_const"]:
        return Constant(name, row[f"{name}_addr"])
    return word_tensor(row, name, shape, Access.READ, aligned=aligned)


def is_aligned(row: Row, name: str) -> bool:
    """Whether the operand has the 128-byte aligned layout, whatever its stride fields hold."""
    return row[f"short_{name}_str"] == Stride.ALIGNED
