"""The GDMA's shift over channels (special_func 2), for sums over neighbouring channels.

A local tensor is copied, and lrn_shift_num channels of zeros are written after its last channel
(lrn_shift_dir 0, to the left) or before its first (1, to the right), last of all. With acc_write_enable it
is added to what is there, as fp32, and nothing is done for the channels of zeros. The addresses make the
shift: with the destination a few lanes further on, every lane holds its neighbour's channel. Sizes and
strides are those of the source on both sides.
"""

from __future__ import annotations

from dataclasses import replace

from firmware_sim import chip
from firmware_sim.errors import DeviceError
from firmware_sim.instructions.dma import check_row, data_format, lane_mask, place, side_tensor
from firmware_sim.instructions.dma_move import Move, bind_fill, bind_moves
from firmware_sim.instructions.instruction import Engine, Instruction, Run, Semantics
from firmware_sim.isa import timing
from firmware_sim.isa.codes import Direction, Format, Special
from firmware_sim.isa.footprint import Access, Operand, Tensor
from firmware_sim.isa.layout import Row
from firmware_sim.memory import Memory

_RIGHT = 1


def _tensors(row: Row) -> tuple[Tensor, Tensor]:
    """dst, src."""
    check_row(row)
    for name in ("common_mode", "sys_mem_type"):
        if row[name]:
            raise DeviceError(f"a shift over channels with {name}: unverified, no source tells what it does")
    src_format, dst_format = data_format(row, "src"), data_format(row, "dst")
    if src_format is not dst_format:
        raise DeviceError(f"src has format {src_format.name}, dst {dst_format.name}: no conversion here")
    src = side_tensor(row, "src", src_format.itemsize)
    if row["acc_write_enable"] and src_format is not Format.FP32:
        raise DeviceError(f"acc_write_enable with {src_format.name}: unverified, only FP32 is known")
    _, offset = place(row, "dst", src.itemsize)
    dst = replace(
        src, name="dst", access=Access.UPDATE if row["acc_write_enable"] else Access.WRITE, offset=offset
    )
    if src.may_overlap(dst):
        raise DeviceError("src and dst overlap", hint="shift into another place")
    return dst, src


def _zeros(row: Row, dst: Tensor) -> tuple[Tensor, ...]:
    """The channels of zeros, none for lrn_shift_num 0."""
    count = row["lrn_shift_num"]
    if not count or row["acc_write_enable"]:
        return ()
    n, c, h, w = dst.shape
    at = dst.lane + (-count if row["lrn_shift_dir"] == _RIGHT else c)
    within = dst.offset % chip.LOCAL_BYTES + at // chip.NPU_NUM * dst.strides[1] * dst.itemsize
    if within < 0:
        raise DeviceError(
            f"dst: {count} channels before its first one reach out of local memory",
            hint="start on a later lane, or at an address with room for one more channel below",
        )
    offset = at % chip.NPU_NUM * chip.LOCAL_BYTES + within
    return (replace(dst, name="zeros", offset=offset, shape=(n, count, h, w)),)


def _operands(row: Row) -> tuple[Operand, ...]:
    dst, src = _tensors(row)
    return (dst, *_zeros(row, dst), src)


def _bind(row: Row, memory: Memory) -> Run:
    dst, src = _tensors(row)
    kind, mask = data_format(row, "src"), lane_mask(row)
    copy = bind_moves(memory, (Move(src, dst),), kind, kind, mask, add=bool(row["acc_write_enable"]))
    fills = [bind_fill(memory, zeros, 0, mask) for zeros in _zeros(row, dst)]

    def run() -> None:
        copy()
        for fill in fills:
            fill()

    return run


def _cycles(row: Row) -> timing.Cycles:
    """No figure is known: as a plain copy of as many bytes as are written."""
    dst, _ = _tensors(row)
    return timing.local_to_local(dst.nbytes + sum(zeros.nbytes for zeros in _zeros(row, dst)))


INSTRUCTIONS = (
    Instruction(
        "gdma.lrn_shift",
        Engine.GDMA,
        {
            "special_func": frozenset({int(Special.LRN_SHIFT)}),
            "direction": frozenset({int(Direction.L2L)}),
        },
        "local copy with channels of zeros before or after it",
        Semantics(_operands, _cycles, _bind),
    ),
)
