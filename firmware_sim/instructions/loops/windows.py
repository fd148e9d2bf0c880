"""fp32 depthwise convolutions and maximum pools from and to memory, plane by plane."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from firmware_sim.instructions.loops import loop
from firmware_sim.instructions.loops import vectors as code
from firmware_sim.instructions.loops.convolve import lay_plane
from firmware_sim.instructions.loops.tiles import ADD_BIAS, ADD_HERE, LINE, LINE_VECTORS, line
from firmware_sim.instructions.loops.vectors import I64, LANES, VECTOR, copy, number

_LOWEST = np.float32(np.finfo(np.float32).min)
_SMALLEST = 0x0080_0000  # the least magnitude that is not denormal
_BITS = ir.VectorType(code.I32, LANES)


def _all(value: int) -> Any:
    return ir.Constant(_BITS, [value] * LANES)


def _generate(builder: Any, data: list[Any], numbers: list[Any]) -> None:
    """The instructions of `_greatest`."""
    xs, base, out = data
    at, taps, columns, to = numbers
    before = builder.block
    head, body, end = (builder.function.append_basic_block(name) for name in ("taps", "tap", "end"))
    masks = [code.first_lanes(builder, builder.sub(columns, number(v * LANES))) for v in range(LINE_VECTORS)]
    builder.branch(head)

    builder.position_at_end(head)
    tap = builder.phi(I64)
    tap.add_incoming(number(0), before)
    found = [builder.phi(VECTOR) for _ in masks]
    for one in found:
        one.add_incoming(ir.Constant(VECTOR, [float(_LOWEST)] * LANES), before)
    builder.cbranch(builder.icmp_signed("<", tap, taps), body, end)

    builder.position_at_end(body)
    start = builder.add(at, builder.load(builder.gep(base, [tap])))
    for v, mask in enumerate(masks):
        place = code.vector_at(builder, xs, builder.add(start, number(v * LANES)))
        x = code.masked_load(builder, place, mask)
        greater = builder.fcmp_ordered(">", x, found[v])  # never of NaN
        found[v].add_incoming(builder.select(greater, x, found[v]), body)
    tap.add_incoming(builder.add(tap, number(1)), body)
    builder.branch(head)

    builder.position_at_end(end)
    for v, one in enumerate(found):
        bits = builder.bitcast(one, _BITS)
        denormal = builder.icmp_unsigned("<", builder.and_(bits, _all(0x7FFF_FFFF)), _all(_SMALLEST))
        flushed = builder.select(denormal, builder.and_(bits, _all(0x8000_0000)), bits)
        place = code.vector_at(builder, out, builder.add(to, number(v * LANES)))
        builder.store(builder.bitcast(flushed, VECTOR), place, align=4)


@intrinsic
def _greatest(typing, xs, base, out, at, taps, columns, to):  # type: ignore[no-untyped-def]
    """out[to + s] = the greatest xs[at + base[t] + s] over taps t, or the lowest number, for s < columns.

    Up to LINE columns; all LINE elements of `out` are written. NaN is never greater; denormals become zero.
    """

    def generate(context, builder, signature, values):  # type: ignore[no-untyped-def]
        data = code.pointers(context, builder, signature.args[:3], values[:3])
        _generate(builder, data, list(values[3:]))
        return context.get_dummy_value()

    return types.void(xs, base, out, *(types.int64,) * 4), generate


@loop
def _write(words: Any, numbers: Any, out: Any, pitch: Any, width: Any, count: Any) -> None:
    """Rows of a plane, `pitch` numbers apart, `width` of them to write one after the other."""
    for y in range(-(-count // pitch)):
        copy(words, out + y * width, numbers, y * pitch, width)


@loop
def depthwise(
    words: Any,
    weights: Any,
    x_at: Any,
    how: Any,
    row_from: Any,
    row_at: Any,
    column_from: Any,
    column_at: Any,
    base: Any,
    w_at: Any,
    bias_at: Any,
    out_at: Any,
    first: Any,
    last: Any,
) -> None:
    """Planes [first, last): sums over taps in two chains by their parity, then bias.

    words: f32. x_at, out_at: i64[planes]. how: i64[8], the first four and the arrays up to column_at as for
    convolve.lay, then elements of a laid plane, pitch and width of the rows of numbers and their count.
    base: i64[taps]. Weight t of a plane is weights[w_at[plane] + t]. bias_at: i64[planes] or empty.
    """
    plane, pitch, width, count = how[4], how[5], how[6], how[7]
    laid, numbers = np.empty(plane, np.float32), np.empty(count + LINE, np.float32)
    bias = np.zeros(1, np.float32)
    then = ADD_HERE
    for i in range(first, last):
        if bias_at.shape[0]:
            then, bias[0] = ADD_HERE | ADD_BIAS, words[bias_at[i]]
        zero = np.float32(0)
        lay_plane(words, x_at[i], how, row_from, row_at, column_from, column_at, plane, zero, laid, 0)
        for s in range(0, count, LINE):
            m = min(LINE, count - s)
            line(laid, base, weights, numbers, bias, s, 0, w_at[i], 2, m, s, 0)
            line(laid, base, weights, numbers, bias, s, 1, w_at[i] + 1, 2, m, s, then)
        _write(words, numbers, out_at[i], pitch, width, count)


@loop
def maxima(
    words: Any,
    x_at: Any,
    how: Any,
    row_from: Any,
    row_at: Any,
    column_from: Any,
    column_at: Any,
    base: Any,
    out_at: Any,
    first: Any,
    last: Any,
) -> None:
    """Planes [first, last): the greatest over taps, where the window lies in the padding the lowest number.

    Arguments as for depthwise.
    """
    plane, pitch, width, count = how[4], how[5], how[6], how[7]
    laid, numbers = np.empty(plane, np.float32), np.empty(count + LINE, np.float32)
    for i in range(first, last):
        lay_plane(words, x_at[i], how, row_from, row_at, column_from, column_at, plane, _LOWEST, laid, 0)
        for s in range(0, count, LINE):
            _greatest(laid, base, numbers, s, base.shape[0], min(LINE, count - s), s)
        _write(words, numbers, out_at[i], pitch, width, count)
