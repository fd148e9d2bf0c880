"""The GDMA's copies, conversions and fills.

A copy takes the elements of the source in n, c, h, w order to those of the destination in the same
order; the shapes may differ, the counts may not. In the matrix form (sys_mem_type 1) the system side
is a matrix of hsize rows and wsize columns and the local side holds its rows on n and its columns
over channels, the last channel short; transposed (special_func 1) it holds the columns on n.
localmem_mask switches off writing to lanes. tsk_lane_num and the like have no part here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from firmware_sim import chip
from firmware_sim.errors import DeviceError
from firmware_sim.instructions.dma_move import Move, bind_fill, bind_moves
from firmware_sim.instructions.instruction import Engine, Instruction, Run, Semantics
from firmware_sim.isa import timing
from firmware_sim.isa.bursts import together
from firmware_sim.isa.codes import Direction, Format, Special
from firmware_sim.isa.footprint import (
    Access,
    Constant,
    Dims4,
    Operand,
    Space,
    Tensor,
    aligned_strides,
    continuous_strides,
    locate,
)
from firmware_sim.isa.layout import Row
from firmware_sim.memory import Memory

_LOCAL_SOURCE = frozenset({Direction.L2S, Direction.L2L})
_LOCAL_TARGET = frozenset({Direction.S2L, Direction.L2L})


def data_format(row: Row, side: str) -> Format:
    """The data format of one side ("src", "dst"). Raises DeviceError for a code that does not exist."""
    code = row[f"{side}_data_format"]
    try:
        return Format(code)
    except ValueError:
        raise DeviceError(f"{side}: data format {code} does not exist", hint="formats are 0 to 4") from None


def place(row: Row, side: str, itemsize: int) -> tuple[Space, int]:
    """Memory and offset of one side; checks that the direction allows it and that it is aligned."""
    address = row[f"{side}_start_addr_h8"] << 32 | row[f"{side}_start_addr_l32"]
    space, offset = locate(address, side)
    direction = Direction(row["direction"])
    local = direction in (_LOCAL_SOURCE if side == "src" else _LOCAL_TARGET)
    if local != (space is Space.LOCAL):
        wanted = "local memory" if local else "DDR or L2"
        raise DeviceError(
            f"{side}: address 0x{address:x} is in {space.name}, but a copy {direction.name} needs {wanted}"
        )
    if offset % itemsize:
        raise DeviceError(f"{side}: address 0x{address:x} is not a multiple of the element size {itemsize}")
    return space, offset


def check_row(row: Row) -> None:
    """What every command of the engine asks of its fields."""
    if not row["pio_gdma_enable"]:
        raise DeviceError("pio_gdma_enable is 0: the engine does not start", hint="set it to 1")
    for name in ("src_hshift", "src_wshift", "dst_hshift", "dst_wshift"):
        if row[name]:
            raise DeviceError(f"{name} = {row[name]}: unverified, no source tells what it does exactly")


def sizes(row: Row, side: str) -> Dims4:
    """(n, c, h, w) of one side ("src", "dst"). Raises DeviceError when a size is zero."""
    shape = (row[f"{side}_nsize"], row[f"{side}_csize"], row[f"{side}_hsize"], row[f"{side}_wsize"])
    if 0 in shape:
        raise DeviceError(f"{side}: shape {list(shape)} has a size of zero", hint="sizes start at 1")
    return shape


def _strides(row: Row, side: str) -> Dims4:
    return row[f"{side}_nstride"], row[f"{side}_cstride"], row[f"{side}_hstride"], row[f"{side}_wstride"]


def _access(row: Row, side: str) -> Access:
    if side == "src":
        return Access.READ
    return Access.UPDATE if row["acc_write_enable"] else Access.WRITE


def side_tensor(row: Row, side: str, itemsize: int, shape: Dims4 | None = None) -> Tensor:
    """One side's tensor; shape: where the sizes in the descriptor do not count."""
    space, offset = place(row, side, itemsize)
    if shape is None:
        shape = sizes(row, side)
    if row["stride_enable"]:
        strides = _strides(row, side)
    elif space is Space.LOCAL:
        strides = aligned_strides(offset // chip.LOCAL_BYTES, shape, itemsize)
    else:
        strides = continuous_strides(shape)
    return Tensor(side, _access(row, side), space, offset, shape, strides, itemsize)


def _linear(row: Row) -> tuple[Move, ...]:
    """common_mode: src_nstride elements in a row, in one lane where local."""
    length = row["src_nstride"]
    size = data_format(row, "src").itemsize
    if not length:
        raise DeviceError("src: a copy of 0 elements", hint="sizes start at 1")
    src, dst = (
        Tensor(
            side,
            _access(row, side),
            *place(row, side, size),
            (1, 1, 1, length),
            (length, length, length, 1),
            size,
        )
        for side in ("src", "dst")
    )
    return (Move(src, dst, at_once=True),)


def check_w_strides(row: Row) -> None:
    """Raise DeviceError unless both w-strides are 1, for forms in which no source tells what others do."""
    for side in ("src", "dst"):
        if row[f"{side}_wstride"] != 1:
            raise DeviceError(
                f"{side}_wstride {row[f'{side}_wstride']}: unverified, no source tells what it does here",
                hint="the w-stride is 1",
            )


def _matrix(row: Row, *, transpose: bool) -> tuple[Move, ...]:
    """Two moves: the full channels, and the short last one."""
    direction = Direction(row["direction"])
    if direction not in (Direction.S2L, Direction.L2S) or not row["stride_enable"]:
        raise DeviceError(
            f"no matrix form with direction {direction.name} and stride_enable {row['stride_enable']}",
            hint="it copies between system and local memory with explicit strides",
        )
    system, local = ("src", "dst") if direction is Direction.S2L else ("dst", "src")
    size = data_format(row, "src").itemsize
    rows, columns = row[f"{system}_hsize"], row[f"{system}_wsize"]
    n, c, h, width = sizes(row, local)
    batch, spread = (columns, rows) if transpose else (rows, columns)
    if n != batch or h != 1 or c != -(-spread // width):
        raise DeviceError(
            f"{local}: shape {[n, c, h, width]} does not hold a matrix of {rows} rows and {columns} columns"
            f"{' transposed' if transpose else ''}",
            hint=f"expected [{batch}, {-(-spread // width)}, 1, {width}]",
        )
    system_space, offset = place(row, system, size)
    row_stride, item_stride = row[f"{system}_hstride"], row[f"{system}_wstride"]
    check_w_strides(row)
    if direction is Direction.L2S and not transpose and rows > 1 and row_stride < columns:
        raise DeviceError(
            f"dst: rows of {columns} columns lie {row_stride} elements apart and overlap",
            hint="dst_hstride is at least the number of columns",
        )
    n_str, w_str = (item_stride, row_stride) if transpose else (row_stride, item_stride)
    local_space, local_start = place(row, local, size)
    local_strides = _strides(row, local)
    moves = []
    full = spread // width
    for first, channels, w in ((0, full, width), (full, 1, spread - full * width)):
        if not channels or not w:
            continue
        shape = (batch, channels, 1, w)
        at = local_start // chip.LOCAL_BYTES + first
        start = (
            at % chip.NPU_NUM * chip.LOCAL_BYTES
            + local_start % chip.LOCAL_BYTES
            + at // chip.NPU_NUM * local_strides[1] * size
        )
        sides = {
            system: Tensor(
                system,
                _access(row, system),
                system_space,
                offset + first * width * w_str * size,
                shape,
                (n_str, width * w_str, 0, w_str),
                size,
            ),
            local: Tensor(local, _access(row, local), local_space, start, shape, local_strides, size),
        }
        moves.append(Move(sides["src"], sides["dst"]))
    return tuple(moves)


def moves_of(row: Row) -> tuple[Move, ...]:
    """What a copy, transposing copy or conversion moves."""
    check_row(row)
    if row["common_mode"]:
        return _linear(row)
    special = Special(row["special_func"])
    src_format, dst_format = data_format(row, "src"), data_format(row, "dst")
    if special is not Special.FORMAT and src_format != dst_format:
        raise DeviceError(
            f"src and dst formats differ ({src_format.name} and {dst_format.name})",
            hint="conversion is special_func 3",
        )
    if special is Special.FORMAT and src_format == dst_format:
        raise DeviceError(
            f"a conversion from {src_format.name} to itself does not exist", hint="use a plain copy"
        )
    transpose = special is Special.TRANSPOSE_NC
    if row["sys_mem_type"]:
        if special is Special.FORMAT:
            raise DeviceError("a conversion in the matrix form: unverified, no source tells what it does")
        return _matrix(row, transpose=transpose)
    direction = Direction(row["direction"])
    if direction is Direction.S2S and not row["stride_enable"]:
        raise DeviceError("a copy S2S without stride_enable does not exist", hint="give explicit strides")
    src = side_tensor(row, "src", src_format.itemsize)
    if transpose:  # whatever the descriptor says of dst's n and c; the vendor's compiler writes those of src
        n, c, h, w = src.shape
        shape = sizes(row, "dst")
        if shape[2:] != (h, w):
            raise DeviceError(f"dst: h and w of {list(shape)} are not those of src, {list(src.shape)}")
        return (Move(src, side_tensor(row, "dst", dst_format.itemsize, (c, n, h, w)), transpose=True),)
    dst = side_tensor(row, "dst", dst_format.itemsize)
    if math.prod(src.shape) != math.prod(dst.shape):
        raise DeviceError(
            f"src shape {list(src.shape)} and dst shape {list(dst.shape)} have different numbers of elements"
        )
    return (Move(src, dst),)


def _operands(row: Row) -> tuple[Operand, ...]:
    return tuple(t for move in moves_of(row) for t in (move.dst, move.src))


def lane_mask(row: Row) -> int:
    """64 bits, lane 0 lowest: which lanes the command may write."""
    return row["localmem_mask_h32"] << 32 | row["localmem_mask_l32"]


def _bind(row: Row, memory: Memory) -> Run:
    src_format = data_format(row, "src")
    dst_format = src_format if row["common_mode"] else data_format(row, "dst")
    moves = moves_of(row)
    for kind in (src_format, dst_format):
        if row["acc_write_enable"] and kind is not Format.FP32:
            raise DeviceError(f"acc_write_enable with {kind.name}: unverified, only FP32 is known")
    return bind_moves(
        memory, moves, src_format, dst_format, lane_mask(row), add=bool(row["acc_write_enable"])
    )


def _cycles(row: Row) -> timing.Cycles:
    moves = moves_of(row)
    direction = Direction(row["direction"])
    if direction is Direction.L2L:
        return timing.local_to_local(sum(max(m.src.nbytes, m.dst.nbytes) for m in moves))
    read, written = together(m.side(m.src) for m in moves), together(m.side(m.dst) for m in moves)
    if direction is Direction.S2L:
        return timing.system_to_local(read)
    if direction is Direction.L2S:
        return timing.local_to_system(written)
    return timing.system_to_system(read, written)


# --- constant fill -------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Fill:
    dst: Tensor
    value: Constant


def _fill(row: Row) -> _Fill:
    check_row(row)
    dst_format = data_format(row, "dst")
    direction = Direction(row["direction"])
    if direction not in (Direction.S2S, Direction.L2L):
        raise DeviceError(f"a fill with direction {direction.name} does not exist", hint="use S2S or L2L")
    if direction is Direction.S2S and not row["stride_enable"]:
        raise DeviceError("a fill of system memory without stride_enable does not exist", hint="give strides")
    for name in ("acc_write_enable", "common_mode", "sys_mem_type"):
        if row[name]:
            raise DeviceError(f"a fill with {name}: unverified, no source tells what it does")
    if row["src_data_format"] != row["dst_data_format"]:
        raise DeviceError("a fill with two formats: unverified, no source tells what it does")
    mask = (1 << 8 * dst_format.itemsize) - 1
    dst = replace(side_tensor(row, "dst", dst_format.itemsize), access=Access.WRITE)
    return _Fill(dst, Constant("constant_value", row["constant_value"] & mask))


def _fill_operands(row: Row) -> tuple[Operand, ...]:
    fill = _fill(row)
    return fill.dst, fill.value


def _fill_bind(row: Row, memory: Memory) -> Run:
    fill = _fill(row)
    return bind_fill(memory, fill.dst, fill.value.bits, lane_mask(row))


def _fill_cycles(row: Row) -> timing.Cycles:
    """No published case isolates fills: the time of writing as many bytes."""
    dst = _fill(row).dst
    if dst.space is Space.LOCAL:
        return timing.local_to_local(dst.nbytes)
    return timing.local_to_system(Move(dst, dst).side(dst))


_COPY = Semantics(_operands, _cycles, _bind)
_FILL = Semantics(_fill_operands, _fill_cycles, _fill_bind)
_DIRECTIONS = frozenset(int(d) for d in Direction)


def _instruction(
    name: str, special: Special, direction: Direction, summary: str, example: Mapping[str, int]
) -> Instruction:
    match = {"special_func": frozenset({int(special)}), "direction": frozenset({int(direction)})}
    name = f"gdma.{name}.{direction.name.lower()}"
    return Instruction(name, Engine.GDMA, match, f"{summary}, {direction.name}", _COPY, example=example)


INSTRUCTIONS = (
    *(_instruction("copy", Special.COPY, d, "strided copy", {}) for d in Direction),
    *(
        _instruction(
            "transpose_nc",
            Special.TRANSPOSE_NC,
            d,
            "strided copy with n and c exchanged",
            {"dst_nsize": 64, "dst_csize": 1},
        )
        for d in Direction
    ),
    *(
        _instruction(
            "convert",
            Special.FORMAT,
            d,
            "copy between data formats",
            {"dst_data_format": int(Format.FP16)},
        )
        for d in Direction
    ),
    Instruction(
        "gdma.fill",
        Engine.GDMA,
        {"special_func": frozenset({int(Special.CONSTANT)}), "direction": _DIRECTIONS},
        "write a constant",
        _FILL,
        example={"direction": int(Direction.L2L)},
    ),
)
