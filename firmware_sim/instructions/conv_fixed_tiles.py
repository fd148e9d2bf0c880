"""Convolutions of 8-bit elements by compiled loops that read and write local memory themselves.

Reference: the general way in conv, which also takes over where sums may leave 32 bits, where the result
overlaps weights or bias, and where an input does not begin at a word.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from firmware_sim.instructions import workers
from firmware_sim.instructions.conv_tiles import Weights, layout_of
from firmware_sim.instructions.instruction import Run
from firmware_sim.instructions.loops import native
from firmware_sim.instructions.packed import Packed
from firmware_sim.instructions.rows import planes_at
from firmware_sim.instructions.small import Finish
from firmware_sim.instructions.window import Planes
from firmware_sim.isa.footprint import Constant, Space, Tensor
from firmware_sim.memory import Memory

_PAIRS, _UNSIGNED_INPUT, _UNSIGNED_WEIGHTS = 0, 1, 2  # tiles_fixed.h
_MIDDLE = 0x80808080
_WORD, _BATCHES = 4, 4
_WORTH = 8  # products as quick as one of fp32


def bind(
    memory: Memory,
    planes: Planes,
    out: Packed,
    x: Packed,
    weights: Weights,
    bias: Tensor | None,
    signs: tuple[bool, bool],
    finish: Finish,
) -> Run | None:
    """A function that performs the convolution, or None; the operands must lie in their memories. signs: of
    input and weights."""
    if not native.ready() or x.offset % _WORD:
        return None
    (batches, channels), groups = x.shape[:2], -(-x.shape[0] // _BATCHES)
    quads, kernel = -(-channels // _WORD), len(planes.offsets)
    if not finish.fits(quads * _WORD * kernel):
        return None
    result, source = out.words(groups), x.words(groups)
    others = [t for t in (weights.operand, bias) if isinstance(t, Tensor)]
    if any(result.may_overlap(t) for t in others):
        return None
    way, fill = _way(*signs)
    local = memory.flat(Space.LOCAL)
    out_at, x_at = planes_at(result), planes_at(source)
    base = (planes.offsets[:, None] + np.arange(quads) * planes.plane).reshape(-1)
    bias_at = planes_at(bias)[0] if bias is not None else np.zeros(0, np.int64)
    if isinstance(weights.operand, Constant):
        every = np.full(1, weights.operand.bits & 0xFF, np.uint32) * np.uint32(0x01010101)
        step, w_at = 0, np.zeros(out.shape[1], np.int64)
    else:
        assert isinstance(weights.operand, Tensor)
        every, step = local.view(np.uint32), weights.operand.strides[0]
        w_at = planes_at(replace(weights.operand, shape=(1, *weights.operand.shape[1:])))[0]
    pieces = workers.pieces(batches * out.shape[1] * planes.count * len(base) * _WORD // _WORTH)
    row_cuts = workers.cut(out.shape[1], native.rows(), pieces)
    column_cuts = workers.cut(planes.count, native.columns(), -(-pieces // len(row_cuts)))
    w_at = np.resize(w_at, -(-len(w_at) // native.rows()) * native.rows())  # a full block reads some twice
    pitch, width = planes.pitch, planes.columns.result
    if pitch == width:  # nothing to leave out: one long row
        pitch = width = planes.count
    how, then = np.array([step, quads, pitch, width, way, *signs], np.int64), finish.of_words()
    layout, *places = layout_of(planes, source)
    words = local.view(np.uint32)

    def run() -> None:
        room = np.empty(batches * quads * planes.plane + native.columns(), np.uint32)
        laid = room[: batches * quads * planes.plane].reshape(batches, -1)
        at: native.Arguments = (words, x_at, layout, *places, planes.plane, laid, fill)
        native.bound("convolve_fixed_lay", *at, 0, quads)()
        to = local, laid, base, every, w_at, weights.kernel_at, how, then, bias_at, out_at
        workers.run(
            [
                native.bound("convolve_fixed", *to, r0, r1, s0, s1)
                for r0, r1 in row_cuts
                for s0, s1 in column_cuts
            ]
        )

    return run


def _way(input_signed: bool, weight_signed: bool) -> tuple[int, int]:
    """How bytes are multiplied, and what is added to those of the input by exclusive or."""
    if not native.at_once() or not (input_signed or weight_signed):
        return _PAIRS, 0
    if input_signed and weight_signed:
        return _UNSIGNED_INPUT, _MIDDLE
    return (_UNSIGNED_WEIGHTS, 0) if input_signed else (_UNSIGNED_INPUT, 0)
