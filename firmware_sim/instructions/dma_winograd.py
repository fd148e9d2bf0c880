"""The GDMA's transform of 3x3 kernels into winograd tiles (special_func 6), 8-bit.

On the way into local memory each 9 bytes of a channel, a kernel g, become 16: G y(g) G', where y first
widens a weight to 10 bits by two lines. Up to x the line starts at 0 with slope0, beyond it ends at
y(128) = 512 with slope1, both in eighths, rounded to the nearest (halves up). The tile is multiplied by
coef / 32, rounded and saturated. The parameters lie in fields that are otherwise shifts and constants.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from firmware_sim.errors import DeviceError
from firmware_sim.instructions.dense import Array
from firmware_sim.instructions.dma import data_format, lane_mask, side_tensor
from firmware_sim.instructions.dma_move import gather, scatter
from firmware_sim.instructions.instruction import Engine, Instruction, Run, Semantics
from firmware_sim.instructions.saturate import saturate, shift_half_up
from firmware_sim.isa import timing
from firmware_sim.isa.bursts import straight
from firmware_sim.isa.codes import Direction, Format, Special
from firmware_sim.isa.footprint import Tensor
from firmware_sim.isa.layout import Row
from firmware_sim.memory import Memory

_KERNEL, _TILE = 9, 16
_TWICE_G = np.array([[2, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 2]], np.int32)
_SLOPE_SHIFT = 3
_X_END, _Y_END = 128, 512
_SHIFT = 7  # of the tile: 2 for twice G on both sides, 5 for coef


@dataclass(frozen=True)
class _Parameters:
    """slope0: 6 bits, slope1: 9, x: 8, coef: 5."""

    slope0: int
    slope1: int
    x: int
    coef: int

    def transform(self, kernels: Array) -> Array:
        """int8 [..., 9] -> uint8 [..., 16], the bits of int8 numbers."""
        g = kernels.astype(np.int32)
        size = np.abs(g)
        steep = (_Y_END << _SLOPE_SHIFT) - self.slope1 * (_X_END - size)
        eighths = np.sign(g) * np.where(size <= self.x, self.slope0 * size, steep)
        y = np.clip(shift_half_up(eighths, _SLOPE_SHIFT), -_Y_END, _Y_END - 1).reshape(-1, 3, 3)
        tiles = shift_half_up(_TWICE_G @ y @ _TWICE_G.T * self.coef, _SHIFT)
        return saturate(tiles, 8, signed=True).reshape(*kernels.shape[:-1], _TILE)


def _parameters(row: Row) -> _Parameters:
    return _Parameters(
        slope0=row["src_hshift"] >> 16 & 0x3F,
        slope1=row["constant_value"] & 0x1FF,
        x=row["src_wshift"],
        coef=row["dst_hshift"] & 0x1F,
    )


def _tensors(row: Row) -> tuple[Tensor, Tensor]:
    """dst, src."""
    for name in ("acc_write_enable", "common_mode", "sys_mem_type", "chw_copy"):
        if row[name]:
            raise DeviceError(f"a winograd transform with {name}: unverified, no source tells what it does")
    for side in ("src", "dst"):
        if data_format(row, side) is not Format.INT8:
            raise DeviceError(
                f"{side}: format {data_format(row, side).name}", hint="winograd tiles are 8-bit: use INT8"
            )
    dst, src = side_tensor(row, "dst", 1), side_tensor(row, "src", 1)
    (n, c, h, w), (_, _, _, tiled) = src.shape, dst.shape
    if n != 1 or h != 1 or w % _KERNEL or dst.shape != (1, c, 1, w // _KERNEL * _TILE):
        raise DeviceError(
            f"src: shape {list(src.shape)}, dst: shape {list(dst.shape)}",
            hint="n and h are 1, c is that of src, each 9 columns of src are 16 of dst",
        )
    for tensor, columns in ((src, w), (dst, tiled)):
        if tensor.strides[3] != 1 and columns > 1:
            raise DeviceError(f"{tensor.name}: a column stride of {tensor.strides[3]}", hint="it must be 1")
    return dst, src


def _bind(row: Row, memory: Memory) -> Run:
    dst, src = _tensors(row)
    load, store = gather(memory, src), scatter(memory, dst, lane_mask(row), add=False)
    transform = _parameters(row).transform
    channels = src.shape[1]

    def run() -> None:
        kernels = load().view(np.int8).reshape(channels, -1, _KERNEL)
        store(transform(kernels).reshape(dst.shape))

    return run


def _cycles(row: Row) -> timing.Cycles:
    """No figure is known: as a plain copy of what is written."""
    dst, _ = _tensors(row)
    return timing.system_to_local(straight(dst.nbytes, dst.shape[1]))


INSTRUCTIONS = (
    Instruction(
        "gdma.winograd",
        Engine.GDMA,
        {
            "special_func": frozenset({int(Special.WINOGRAD)}),
            "direction": frozenset({int(Direction.S2L)}),
        },
        "8-bit 3x3 kernels to 4x4 winograd tiles",
        Semantics(_tensors, _cycles, _bind),
        example={
            **{f"{side}_data_format": int(Format.INT8) for side in ("src", "dst")},
            **{f"{side}_hsize": 1 for side in ("src", "dst")},
            "src_wsize": 16 * _KERNEL,
            "dst_wsize": 16 * _TILE,
        },
    ),
)
