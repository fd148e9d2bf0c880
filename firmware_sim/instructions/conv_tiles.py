"""fp32 convolutions by compiled loops that read and write local memory themselves.

Reference: the general way in conv, which also takes over where the result overlaps weights or bias, and
where the processor does not flush as the chip does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from firmware_sim.instructions import workers
from firmware_sim.instructions.instruction import Run
from firmware_sim.instructions.loops import native
from firmware_sim.instructions.rows import Indices, planes_at
from firmware_sim.instructions.window import Planes
from firmware_sim.isa.footprint import Constant, Operand, Space, Tensor
from firmware_sim.memory import Memory


@dataclass(frozen=True)
class Weights:
    """operand: pairs of input channels, or a constant. kernel_at: elements from a pair to each of the
    kernel's, in the order in which they meet the input."""

    operand: Operand
    kernel_at: Indices


def bind(
    memory: Memory,
    planes: Planes,
    out: Tensor,
    x: Tensor,
    weights: Weights,
    bias: Tensor | None,
    *,
    adds_old: bool,
) -> Run | None:
    """A function that performs the convolution, or None; the operands must lie in their memories."""
    others = [t for t in (weights.operand, bias) if isinstance(t, Tensor)]
    if not native.ready() or any(out.may_overlap(t) for t in others):
        return None
    (batches, channels), pairs = x.shape[:2], -(-x.shape[1] // 2)
    words = memory.flat(Space.LOCAL).view(np.float32)
    out_at, x_at = planes_at(out), planes_at(x)
    base = (planes.offsets[:, None] + np.arange(pairs) * planes.plane).reshape(1, -1)
    bias_at = planes_at(bias)[0] if bias is not None else np.zeros(0, np.int64)
    if isinstance(weights.operand, Constant):
        value = np.full(2, weights.operand.bits, np.uint32).view(np.uint64)
        source, step, w_at = value, 0, np.zeros(out.shape[1], np.int64)
    else:
        assert isinstance(weights.operand, Tensor)
        source, step = memory.flat(Space.LOCAL).view(np.uint64), weights.operand.strides[0]
        w_at = planes_at(replace(weights.operand, shape=(1, *weights.operand.shape[1:])))[0]
        # in the order in which their weights lie in memory: several slots of a lane are neighbours
        order = np.argsort(w_at, kind="stable")
        w_at, out_at = w_at[order], np.ascontiguousarray(out_at[:, order])
        bias_at = bias_at[order] if bias is not None else bias_at
    w_at = np.resize(w_at, -(-len(w_at) // native.rows()) * native.rows())  # a full block reads some twice
    pitch, width = planes.pitch, planes.columns.result
    if pitch == width:  # nothing to leave out: one long row
        pitch = width = planes.count
    how = np.array([step, pairs, channels % 2, adds_old, pitch, width], np.int64)
    layout, *places = layout_of(planes, x)

    pieces = workers.pieces(out_at.size * planes.count * 2 * base.size)
    row_cuts = workers.cut(out.shape[1], native.rows(), pieces)
    column_cuts = workers.cut(planes.count, native.columns(), -(-pieces // len(row_cuts)))
    copies = workers.pieces(x_at.size * planes.plane * workers.COPIED)
    copy_cuts = workers.cut(2 * pairs, 2, copies)

    to = source, w_at, weights.kernel_at, how, bias_at, out_at
    if not channels % 2 and _lies_ready(planes, x) and not out.may_overlap(x):
        every = np.ascontiguousarray(x_at.reshape(batches, pairs, 2).transpose(0, 2, 1)).reshape(-1, pairs)
        return workers.in_threads(
            [
                native.bound("convolve_convolve", words, words, every, *to, r0, r1, s0, s1)
                for r0, r1 in row_cuts
                for s0, s1 in column_cuts
            ]
        )
    if pieces == copies == 1:
        at: native.Arguments = (words, x_at, layout, *places, planes.plane)
        return native.bound("convolve_whole", *at, base, *to, planes.count)

    def run() -> None:
        laid = np.empty((batches, 2, pairs * planes.plane), np.float32)
        at: native.Arguments = (words, x_at, layout, *places, planes.plane, laid)
        workers.run([native.bound("convolve_lay", *at, c0, c1) for c0, c1 in copy_cuts])
        workers.run(
            [
                native.bound("convolve_convolve", words, laid, base, *to, r0, r1, s0, s1)
                for r0, r1 in row_cuts
                for s0, s1 in column_cuts
            ]
        )

    return run


def _lies_ready(planes: Planes, x: Tensor) -> bool:
    """Whether what the window sees of a plane lies in memory as it would be laid out."""
    (_, _, h, w), one = x.shape, (planes.rows, planes.columns)
    plain = all(
        (window.kernel, window.stride, window.insert, window.before, window.after) == (1, 1, 0, 0, 0)
        for window in one
    )
    return plain and x.strides[3] == 1 and (h == 1 or x.strides[2] == w)


def layout_of(planes: Planes, x: Tensor) -> tuple[Indices, ...]:
    """Arguments of the loop convolve_lay for planes of x: how, row_from, row_at, column_from, column_at."""
    row_from, row_at, column_from, column_at = planes.places()
    # whether neighbours stay neighbours, in each row and from row to row
    any_seen = row_from.size > 0 and column_from.size > 0
    whole = any_seen and x.strides[3] == 1 and _follow(column_from, 1) and _follow(column_at, 1)
    one = (
        whole and x.strides[2] == len(column_at) and _follow(row_from, 1) and _follow(row_at, len(column_at))
    )
    how = np.array([*x.strides[2:], whole, one], np.int64)
    return how, row_from, row_at, column_from, column_at


def _follow(places: Indices, step: int) -> bool:
    """Whether each lies `step` behind the one before."""
    return bool(np.all(np.diff(places) == step))
