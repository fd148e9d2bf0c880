"""The GDMA's exchange of channels and columns, and its masked copy."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from firmware_sim import chip
from firmware_sim.errors import DeviceError
from firmware_sim.instructions.dense import Dense
from firmware_sim.instructions.dma import (
    check_row,
    check_w_strides,
    data_format,
    lane_mask,
    place,
    side_tensor,
    sizes,
)
from firmware_sim.instructions.dma_move import ALL_LANES
from firmware_sim.instructions.elementwise import check_aligned
from firmware_sim.instructions.instruction import Engine, Instruction, Run, Semantics
from firmware_sim.instructions.local_operand import local_offset
from firmware_sim.instructions.loops import native
from firmware_sim.instructions.rows import EACH, rows_of, runs
from firmware_sim.isa import timing
from firmware_sim.isa.bursts import straight
from firmware_sim.isa.codes import Direction, Special
from firmware_sim.isa.footprint import Access, Space, Tensor, aligned_strides
from firmware_sim.isa.layout import Row
from firmware_sim.memory import Memory

_FILTER_ALIGN = 512  # bytes, of the masked copy's destination


def _no_mask(row: Row) -> None:
    if lane_mask(row) != ALL_LANES:
        raise DeviceError(
            "localmem_mask: unverified here, no source tells what it does", hint="set all lanes"
        )


# --- exchange of c and w -------------------------------------------------------------------------


def _exchange_operands(row: Row) -> tuple[Tensor, Tensor]:
    check_row(row)
    check_w_strides(row)
    src_format, dst_format = data_format(row, "src"), data_format(row, "dst")
    if src_format is not dst_format:
        raise DeviceError(f"src has format {src_format.name}, dst {dst_format.name}: no conversion here")
    src, dst = (side_tensor(row, side, src_format.itemsize) for side in ("src", "dst"))
    if src.shape[0] != 1 or src.shape[2] != 1:
        raise DeviceError(
            f"src: shape {list(src.shape)}", hint="channels and columns are exchanged with n = h = 1"
        )
    if dst.shape != (1, src.shape[3], 1, src.shape[1]):
        raise DeviceError(f"dst: shape {list(dst.shape)} is not that of src with c and w exchanged")
    if dst.shape[1] > 1 and dst.strides[1] < dst.shape[3]:
        raise DeviceError(
            f"dst: channels of {dst.shape[3]} columns lie {dst.strides[1]} elements apart",
            hint="dst_cstride is at least dst_wsize",
        )
    return dst, src


def _exchange_bind(row: Row, memory: Memory) -> Run:
    _no_mask(row)
    dst, src = _exchange_operands(row)
    kind = np.dtype(f"u{src.itemsize}").type
    source, target = Dense(memory, src, kind), Dense(memory, dst, kind)
    if native.ready() and not src.may_overlap(dst) and math.prod(dst.shape) <= EACH:
        rows = runs([dst.indices(), src.indices().transpose(0, 3, 2, 1)])
        local = memory.flat(Space.LOCAL).view(kind)
        return native.bound("moves_copy", local, local, rows.at, rows.width)
    return lambda: target.store(source.load().transpose(0, 3, 2, 1))


# --- masked copy ---------------------------------------------------------------------------------


def _filter_operands(row: Row) -> tuple[Tensor, Tensor, Tensor]:
    """dst (all it can hold: how much is written the mask decides), src, mask."""
    check_row(row)
    space, offset = place(row, "src", 4)
    shape = n, c, h, w = sizes(row, "src")
    src = Tensor(
        "src",
        Access.READ,
        space,
        offset,
        shape,
        aligned_strides(offset // chip.LOCAL_BYTES, shape, 4),
        4,
    )
    at = local_offset(row["dst_nstride"], "mask")
    mask = Tensor(
        "mask", Access.READ, Space.LOCAL, at, shape, aligned_strides(at // chip.LOCAL_BYTES, shape, 4), 4
    )
    if row["src_nstride"] != n * c * h * w:
        raise DeviceError(
            f"src_nstride: {row['src_nstride']}, but the source has {n * c * h * w} elements",
            hint="the field holds the number of elements",
        )
    space, offset = place(row, "dst", _FILTER_ALIGN)
    count = n * c * h * w
    dst = Tensor("dst", Access.WRITE, space, offset, (1, 1, 1, count), (0, 0, 0, 1), 4)
    return dst, src, mask


def _filter_bind(row: Row, memory: Memory) -> Run:
    _no_mask(row)
    dst, src, mask = _filter_operands(row)
    for tensor in (src, mask):
        check_aligned(tensor, chip.ALIGN_BYTES)
    source, chosen = Dense(memory, src, np.uint32), Dense(memory, mask, np.uint32)
    target = memory.view(dst, dst.parts()[0], np.uint32).reshape(-1)
    rows = rows_of([src, mask]) if native.ready() else None
    if rows is not None:
        words = memory.flat(Space.LOCAL).view(np.uint32)
        one_by_one = native.bound("moves_keep", target, words, rows.at, rows.width)

        def run_compiled() -> None:
            memory.filtered = one_by_one()

        return run_compiled

    def run() -> None:
        kept = source.load()[chosen.load() != 0]
        target[: len(kept)] = kept
        memory.filtered = len(kept)

    return run


def _cycles(operands: Callable[[Row], tuple[Tensor, ...]]) -> Callable[[Row], timing.Cycles]:
    """As a plain copy of the source: no figure is known."""

    def cycles(row: Row) -> timing.Cycles:
        dst, src, *_ = operands(row)
        if dst.space is Space.LOCAL:
            return timing.local_to_local(src.nbytes)
        return timing.local_to_system(straight(src.nbytes))

    return cycles


INSTRUCTIONS = (
    Instruction(
        "gdma.transpose_cw",
        Engine.GDMA,
        {
            "special_func": frozenset({int(Special.TRANSPOSE_CW)}),
            "direction": frozenset({int(Direction.L2L)}),
        },
        "local copy with channels and columns exchanged",
        Semantics(_exchange_operands, _cycles(_exchange_operands), _exchange_bind),
        example={"src_hsize": 1, "dst_csize": 16, "dst_hsize": 1, "dst_wsize": 64},
    ),
    Instruction(
        "gdma.filter",
        Engine.GDMA,
        {
            "special_func": frozenset({int(Special.FILTER)}),
            "direction": frozenset({int(Direction.L2S)}),
        },
        "copy of the words whose mask is not zero, one after the other; their number is kept",
        Semantics(_filter_operands, _cycles(_filter_operands), _filter_bind),
        example={"src_nstride": 1 * 64 * 16 * 16, "dst_nstride": chip.LOCAL_BASE + 0x8000},
    ),
)
