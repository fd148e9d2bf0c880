"""Operands that convolutions, depthwise convolutions and pools have in common."""

from __future__ import annotations

from firmware_sim import chip
from firmware_sim.errors import DeviceError
from firmware_sim.instructions.elementwise import check_aligned, check_lanes
from firmware_sim.instructions.local_operand import explicit_strides, is_aligned, local_offset, result_shape
from firmware_sim.instructions.packed import Packed, group_strides
from firmware_sim.isa.codes import Stride
from firmware_sim.isa.footprint import Access, Dims4, Operand, Space, Tensor, aligned_strides
from firmware_sim.isa.layout import Row

WORD, PAIR = 4, 8
BATCHES = 4  # of one 32-bit word of 8-bit elements ("4N")


def result(row: Row, access: Access) -> Tensor:
    """res0 of 32-bit elements in the aligned layout."""
    shape = result_shape(row)
    offset = local_offset(row["res0_addr"], "res0")
    strides = aligned_strides(offset // chip.LOCAL_BYTES, shape, WORD)
    return Tensor("res0", access, Space.LOCAL, offset, shape, strides, WORD)


def lane_of(row: Row) -> int:
    """The lane that the result starts on."""
    return local_offset(row["res0_addr"], "res0") // chip.LOCAL_BYTES


def packed_result(row: Row, itemsize: int) -> Packed:
    """res0 of 8-bit elements (4N) in the aligned layout, or of 16-bit ones, four batches to 64 bits."""
    shape = result_shape(row)
    offset = local_offset(row["res0_addr"], "res0")
    strides = group_strides(offset, shape, BATCHES, BATCHES * itemsize)
    if itemsize == 2:
        # 16-bit results: planes of 32 pixels, not of 128 bytes (observed in the functional model)
        slots, plane = strides[0] // strides[1], -(-shape[2] * shape[3] // 32) * 32
        strides = (slots * plane, plane, shape[3], 1)
    return Packed("res0", Access.WRITE, offset, shape, strides, itemsize, BATCHES)


def _neuron_shape(row: Row, channels: int) -> Dims4:
    return row["res0_n"], channels, row["opd0_h"], row["opd0_w"]


def _has_strides(row: Row) -> bool:
    """Whether opd0's strides are in their fields, not implied."""
    if row["short_opd0_str"] not in (Stride.ALIGNED, Stride.EXPLICIT):
        raise DeviceError(
            f"short_opd0_str {row['short_opd0_str']}: unverified, no source tells what it does here",
            hint="0: the aligned layout, 3: strides in their fields",
        )
    return not is_aligned(row, "opd0")


def neuron(row: Row, channels: int, *, explicit: bool) -> Tensor:
    """opd0 of 32-bit elements with the result's batches."""
    shape = _neuron_shape(row, channels)
    offset = local_offset(row["opd0_addr"], "opd0")
    if explicit and _has_strides(row):
        strides = explicit_strides(row, "opd0")
    else:
        strides = aligned_strides(offset // chip.LOCAL_BYTES, shape, WORD)
    return Tensor("opd0", Access.READ, Space.LOCAL, offset, shape, strides, WORD)


def packed_neuron(row: Row, channels: int, *, explicit: bool) -> Packed:
    """opd0 of 8-bit elements (4N) with the result's batches."""
    shape = _neuron_shape(row, channels)
    offset = local_offset(row["opd0_addr"], "opd0")
    if explicit and _has_strides(row):
        strides = explicit_strides(row, "opd0")
    else:
        strides = group_strides(offset, shape, BATCHES)
    return Packed("opd0", Access.READ, offset, shape, strides, 1, BATCHES)


def weight(row: Row, shape: Dims4, itemsize: int, *, default: Dims4) -> Tensor:
    """opd1, [input channel groups, output channels, h, w] of elements that hold a group."""
    offset = local_offset(row["opd1_addr"], "opd1")
    strides = explicit_strides(row, "opd1") if row["short_opd1_str"] == Stride.EXPLICIT else default
    return Tensor("opd1", Access.READ, Space.LOCAL, offset, shape, strides, itemsize)


def per_channel(row: Row, name: str, shape: Dims4, itemsize: int) -> Tensor:
    """A compact tensor: per channel slot h * w elements (bias, depthwise weights)."""
    h, w = shape[2:]
    offset = local_offset(row[f"{name}_addr"], name)
    return Tensor(name, Access.READ, Space.LOCAL, offset, shape, (0, h * w, w, 1), itemsize)


def bias(row: Row, itemsize: int) -> tuple[Tensor, ...]:
    """opd2 when the instruction has three operands, one element per output channel."""
    if row["tsk_opd_num"] < 3:
        return ()
    return (per_channel(row, "opd2", (1, row["res0_c"], 1, 1), itemsize),)


def check(row: Row, operands: tuple[Operand, ...]) -> None:
    """Alignment of all operands, and one start lane of the weights and the result, which comes first.

    Raises DeviceError naming the operand.
    """
    tensors = [o for o in operands if isinstance(o, Tensor)]
    out = tensors[0]
    checked = set()
    for t in tensors:
        if t.name in checked:
            continue  # the single elements after the words
        checked.add(t.name)
        whole = t is out or (t.name == "opd0" and is_aligned(row, "opd0"))
        check_aligned(t, chip.ALIGN_BYTES if whole else t.itemsize)
        if t.name == "opd1":
            check_lanes(out, (t,))


def no_result_add(row: Row) -> None:
    """Raise DeviceError where opt_res_add is set, for instructions that cannot add to their old result."""
    if row["opt_res_add"]:
        raise DeviceError(
            "opt_res_add: adding to the old result is not possible here",
            hint="only fp32 convolutions and matrix products add to the old result",
        )
