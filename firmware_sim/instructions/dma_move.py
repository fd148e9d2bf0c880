"""Moving the elements of one tensor to another, between any two memories."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np
import numpy.typing as npt

from firmware_sim import chip
from firmware_sim.errors import DeviceError
from firmware_sim.instructions import fp32
from firmware_sim.instructions.elementwise import Run, slices
from firmware_sim.instructions.formats import RAW, Array, Convert, conversion
from firmware_sim.instructions.loops import native
from firmware_sim.instructions.rows import EACH, Rows, rows_of, runs
from firmware_sim.instructions.workers import COPIED, cut, in_threads, pieces, threads
from firmware_sim.isa.bursts import SystemSide, system_side
from firmware_sim.isa.codes import Format
from firmware_sim.isa.footprint import Part, Space, Tensor
from firmware_sim.memory import Memory

ALL_LANES = (1 << chip.NPU_NUM) - 1
_BOX_DIMENSIONS = 5  # of views of memory
_PYTHON_NUMBERS = 1 << 20  # so many indices at once become numbers of Python, 36 bytes each


@dataclass(frozen=True)
class Move:
    """src's elements in n, c, h, w order become dst's; transpose exchanges n and c on the way.

    at_once: where the two overlap, all of src is read before anything is written (as memmove does).
    """

    src: Tensor
    dst: Tensor
    transpose: bool = False
    at_once: bool = False

    def side(self, tensor: Tensor) -> SystemSide:
        """How the move meets system memory on the side of `tensor`, its src or its dst."""
        return system_side(tensor, min(_run_length(self.src), _run_length(self.dst)))


def _run_length(tensor: Tensor) -> int:
    """Elements of a contiguous run inside one channel (never more: a run ends with its lane)."""
    _, _, h, w = tensor.shape
    if tensor.strides[3] != 1 and w > 1:
        return 1
    return h * w if tensor.strides[2] == w else w


def _lane_runs(tensor: Tensor, part: Part, mask: int) -> list[slice]:
    """The runs of a part's lanes that the mask leaves on; system memory has no mask."""
    if mask == ALL_LANES or tensor.space is not Space.LOCAL:
        return [slice(None)]
    runs: list[slice] = []
    first: int | None = None
    for i in range(part.lanes + 1):
        on = i < part.lanes and mask >> (part.lane + i) & 1
        if on and first is None:
            first = i
        elif not on and first is not None:
            runs.append(slice(first, i))
            first = None
    return runs


def bind_fill(memory: Memory, dst: Tensor, value: int, mask: int) -> Run:
    """A function that writes `value` to dst in the lanes of `mask`."""
    dtype = RAW[dst.itemsize]
    targets = [
        memory.view(dst, part, dtype)[:, :, lanes]
        for part in dst.parts()
        for lanes in _lane_runs(dst, part, mask)
    ]

    def run() -> None:
        for target in targets:
            target[...] = value

    return run


def bind_moves(
    memory: Memory, moves: tuple[Move, ...], src_format: Format, dst_format: Format, mask: int, *, add: bool
) -> Run:
    """A function that performs the moves. `mask`: lanes that may be written; `add`: fp32 sums into dst.

    Raises DeviceError on limits, impossible conversions and overlaps that are not settled.
    """
    change: Change | None = None
    if src_format != dst_format:
        convert = conversion(src_format, dst_format)
        if convert is None:
            raise DeviceError(f"the chip does not convert {src_format.name} to {dst_format.name}")
        change = Change(src_format, dst_format, convert)
    runs = [_bind_move(memory, move, change, mask, add=add) for move in moves]
    if len(runs) == 1:
        return runs[0]

    def run() -> None:
        for one in runs:
            one()

    return run


@dataclass(frozen=True)
class Change:
    """A conversion: between which formats, and the function from raw elements to raw elements."""

    src: Format
    dst: Format
    convert: Convert


def _bind_move(memory: Memory, move: Move, change: Change | None, mask: int, *, add: bool) -> Run:
    src, dst = move.src, move.dst
    for tensor in (src, dst):
        for part in tensor.parts():
            memory.check(tensor, part, tensor.block(part))
    overlap = src.may_overlap(dst) and not (src.same_place(dst) and src.shape == dst.shape)
    if overlap or dst.may_overlap_itself():
        if change or add or move.transpose or mask != ALL_LANES:
            raise DeviceError(
                "src and dst overlap, or dst itself: only a plain copy between overlapping places is settled",
                hint="copy through another place",
            )
        if move.at_once:
            return _bind_through_buffer(memory, move, None, mask, add=False)
        return _bind_in_order(memory, src, dst)
    compiled = _bind_rows(memory, move, change, mask, add=add)
    if compiled is not None:
        return compiled
    convert = change.convert if change else None
    both_local = src.space is Space.LOCAL and dst.space is Space.LOCAL
    if move.transpose or src.shape != dst.shape or (both_local and src.lane != dst.lane) or mask != ALL_LANES:
        return _bind_through_buffer(memory, move, convert, mask, add=add)
    return _bind_direct(memory, src, dst, convert, add=add)


def _move_rows(move: Move, mask: int) -> Rows | None:
    """Rows of dst and src in the order of dst's elements, those of lanes that are off left out."""
    src, dst = move.src, move.dst
    masked = mask != ALL_LANES and dst.space is Space.LOCAL
    if not masked and not move.transpose and src.shape == dst.shape:
        return rows_of([dst, src])
    if math.prod(dst.shape) > EACH:
        return None
    to, from_ = dst.indices(), src.indices()
    from_ = (from_.swapaxes(0, 1) if move.transpose else from_).reshape(dst.shape)
    if masked:
        lanes = (dst.lane + np.arange(dst.shape[1])) % chip.NPU_NUM
        on = [bool(mask >> lane & 1) for lane in lanes.tolist()]
        to, from_ = to[:, on], from_[:, on]
    return runs([to, from_])


def _bind_rows(memory: Memory, move: Move, change: Change | None, mask: int, *, add: bool) -> Run | None:
    """The move as a compiled loop, where rows are long enough and a processor that flushes is needed."""
    plain = not (change or add or move.transpose) and mask == ALL_LANES and move.src.shape == move.dst.shape
    if not native.ready() or (plain and move.src.lane == move.dst.lane):  # views of memory are as fast
        return None
    if (change or move.transpose) and move.src.may_overlap(move.dst):
        return None  # in place: all is read before anything is written
    rows = _move_rows(move, mask)
    if rows is None:
        return None
    memories = [memory.flat(t.space).view(RAW[t.itemsize]) for t in (move.dst, move.src)]
    if change:
        loop, codes = "moves_convert", [int(change.src), int(change.dst)]
    else:
        loop, codes = ("moves_accumulate" if add else "moves_copy"), []
    return in_threads([native.bound(loop, *memories, at, rows.width, *codes) for at in rows.pieces()])


def _combine(target: Array, values: Array) -> None:
    target[...] = fp32.add(target.view(np.float32), values.view(np.float32)).view(np.uint32)


def _bind_direct(memory: Memory, src: Tensor, dst: Tensor, convert: Convert | None, *, add: bool) -> Run:
    """Views of both sides cut alike: the local side says how."""
    parts = (dst if dst.space is Space.LOCAL else src).parts()
    pairs = [
        (memory.view(dst, part, RAW[dst.itemsize]), memory.view(src, part, RAW[src.itemsize]))
        for part in parts
    ]
    if not convert and not add:
        if pieces(math.prod(dst.shape) * COPIED) > 1:
            return in_threads([partial(np.copyto, *piece) for pair in pairs for piece in _split(*pair)])
        boxes = _boxes(memory, src, dst, pairs) if native.ready() else None
        if boxes is not None:
            flat = (memory.flat(t.space).view(RAW[t.itemsize]) for t in (dst, src))
            return native.bound("moves_boxes", *flat, boxes)

        def copy() -> None:
            for target, source in pairs:
                target[...] = source

        return copy
    chunks = [(target[piece], source[piece]) for target, source in pairs for piece in slices(target.shape)]

    def run() -> None:
        for target, source in chunks:
            values = convert(source) if convert else source
            if add:
                _combine(target, values)
            else:
                target[...] = values

    return run


def _boxes(
    memory: Memory, src: Tensor, dst: Tensor, pairs: Sequence[tuple[Array, Array]]
) -> npt.NDArray[np.int64] | None:
    """Pairs of views as `moves_boxes` takes them, int64[pairs, 17]: dimensions that are one in both memories
    together, a row in both at the end; None where elements are not at multiples of their size."""
    found = []
    for views in pairs:
        first = [
            view.__array_interface__["data"][0] - memory.flat(t.space).__array_interface__["data"][0]
            for view, t in zip(views, (dst, src), strict=True)
        ]
        if any(at % dst.itemsize for at in first):
            return None
        dims: list[tuple[int, int, int]] = []
        for n, *strides in zip(views[0].shape, *(view.strides for view in views), strict=True):
            to, from_ = (stride // dst.itemsize for stride in strides)
            if dims and (dims[-1][1], dims[-1][2]) == (n * to, n * from_):
                dims[-1] = dims[-1][0] * n, to, from_
            elif n != 1:
                dims.append((n, to, from_))
        dims.sort(key=lambda dim: dim[1:] == (1, 1))
        dims = [*[(1, 0, 0)] * (_BOX_DIMENSIONS - len(dims)), *dims]
        found.append([*chain.from_iterable(dims), *(at // dst.itemsize for at in first)])
    return np.array(found, np.int64)


def _split(target: Array, source: Array) -> list[tuple[Array, Array]]:
    """Views of two arrays of one shape, cut along their longest axis into one for each thread."""
    axis = max(range(target.ndim), key=lambda i: target.shape[i])
    cuts = cut(target.shape[axis], 1, threads())
    places = [(slice(None),) * axis + (slice(i, j),) for i, j in cuts]
    return [(target[place], source[place]) for place in places]


def _bind_in_order(memory: Memory, src: Tensor, dst: Tensor) -> Run:
    """Element after element in n, c, h, w order, each seeing what was written before it."""
    dtype = RAW[src.itemsize]
    source, target = memory.flat(src.space).view(dtype), memory.flat(dst.space).view(dtype)
    from_, to = src.indices().reshape(-1), dst.indices().reshape(-1)

    def run() -> None:
        for start in range(0, from_.size, _PYTHON_NUMBERS):
            some = slice(start, start + _PYTHON_NUMBERS)
            for i, j in zip(from_[some].tolist(), to[some].tolist(), strict=True):
                target[j] = source[i]

    return run


def _bind_through_buffer(memory: Memory, move: Move, convert: Convert | None, mask: int, *, add: bool) -> Run:
    """Gather all of src, rearrange, scatter into dst."""
    load = gather(memory, move.src)
    store = scatter(memory, move.dst, mask, add=add)

    def run() -> None:
        values = load()
        if move.transpose:
            values = values.swapaxes(0, 1)
        if convert:
            values = convert(values)
        store(np.ascontiguousarray(values).reshape(move.dst.shape))

    return run


def gather(memory: Memory, tensor: Tensor) -> Callable[[], Array]:
    """A function that gives a copy of a tensor, [n, c, h, w]."""
    dtype = RAW[tensor.itemsize]
    views = [(part, memory.view(tensor, part, dtype)) for part in tensor.parts()]

    def load() -> Array:
        out: Array = np.empty(tensor.shape, dtype)
        for part, view in views:
            out[:, part.first : part.first + part.slots * part.lanes].reshape(view.shape)[...] = view
        return out

    return load


def scatter(memory: Memory, tensor: Tensor, mask: int, *, add: bool) -> Callable[[Array], None]:
    """A function that writes [n, c, h, w] to a tensor in the lanes of `mask`; `add`: fp32 sums into it."""
    dtype = RAW[tensor.itemsize]
    targets = [
        (part, memory.view(tensor, part, dtype), lanes)
        for part in tensor.parts()
        for lanes in _lane_runs(tensor, part, mask)
    ]

    def store(values: Array) -> None:
        for part, view, lanes in targets:
            piece = values[:, part.first : part.first + part.slots * part.lanes].reshape(view.shape)
            if add:
                _combine(view[:, :, lanes], piece[:, :, lanes])
            else:
                view[:, :, lanes] = piece[:, :, lanes]

    return store
