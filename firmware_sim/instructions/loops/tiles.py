"""Tiles of sums of products: ROWS rows of up to COLUMNS results, whose sums stay in registers.

Products are rounded, then added, tap by tap: the order of each sum is the reference's.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic

from firmware_sim.instructions.loops import loop
from firmware_sim.instructions.loops import vectors as code
from firmware_sim.instructions.loops.vectors import I64, LANES, VECTOR, WIDE, ZEROS, number

ROWS = 8 if WIDE else 4
VECTORS = 3  # of each row: with ROWS, as many sums as there are registers for
COLUMNS = VECTORS * LANES
TILE = ROWS * COLUMNS
LINE_VECTORS = 8
LINE = LINE_VECTORS * LANES  # columns of a tile of a single row
ADD_HERE, ADD_FIRST, ADD_BIAS = 1, 2, 4  # what becomes of the sums of a chain


def _generate(builder: Any, data: list[Any], numbers: list[Any], rows: int, vectors: int) -> None:
    """The instructions of one chain; see `chain`. Of a single row, any number of vectors may be in use."""
    xs, base, weights, sums, bias = data
    at, first, taps, w_at, w_step, columns, to, then = numbers
    before = builder.block
    head, body, end = (builder.function.append_basic_block(name) for name in ("taps", "tap", "sums"))
    masks = [
        code.first_lanes(builder, builder.sub(columns, number(v * LANES)))
        if rows == 1 or v == vectors - 1
        else None
        for v in range(vectors)
    ]
    builder.branch(head)

    builder.position_at_end(head)
    tap, w = builder.phi(I64), builder.phi(I64)
    tap.add_incoming(first, before)
    w.add_incoming(w_at, before)
    totals = [[builder.phi(VECTOR) for _ in range(vectors)] for _ in range(rows)]
    for row in totals:
        for total in row:
            total.add_incoming(ZEROS, before)
    builder.cbranch(builder.icmp_signed("<", tap, taps), body, end)

    builder.position_at_end(body)
    start = builder.add(at, builder.load(builder.gep(base, [tap])))
    seen = []
    for v, mask in enumerate(masks):
        x = code.vector_at(builder, xs, builder.add(start, number(v * LANES)))
        seen.append(code.masked_load(builder, x, mask) if mask else builder.load(x, align=4))
    for r, row in enumerate(totals):
        weight = builder.load(builder.gep(weights, [builder.add(w, number(2 * r))]))
        factor = code.spread(builder, weight)
        for total, x in zip(row, seen, strict=True):
            total.add_incoming(builder.fadd(total, builder.fmul(x, factor)), body)
    tap.add_incoming(builder.add(tap, number(2)), body)
    w.add_incoming(builder.add(w, w_step), body)
    builder.branch(head)

    builder.position_at_end(end)

    def place(start: Any, r: int, v: int) -> Any:
        return code.vector_at(builder, sums, builder.add(start, number(r * COLUMNS + v * LANES)))

    def sum_before(start: Any) -> Any:
        return lambda r, v: builder.load(place(start, r, v), align=4)

    def bias_of(r: int, v: int) -> Any:
        return code.spread(builder, builder.load(builder.gep(bias, [number(r)])))

    steps = ((ADD_HERE, sum_before(to)), (ADD_FIRST, sum_before(number(0))), (ADD_BIAS, bias_of))
    for bit, other in steps:
        wanted = builder.icmp_signed("!=", builder.and_(then, number(bit)), number(0))
        without = builder.block
        added, after = (builder.function.append_basic_block(name) for name in ("add", "added"))
        builder.cbranch(wanted, added, after)
        builder.position_at_end(added)
        plus = [[builder.fadd(other(r, v), t) for v, t in enumerate(row)] for r, row in enumerate(totals)]
        builder.branch(after)
        builder.position_at_end(after)
        for r, row in enumerate(totals):
            for v, total in enumerate(row):
                either = builder.phi(VECTOR)
                either.add_incoming(total, without)
                either.add_incoming(plus[r][v], added)
                row[v] = either
    for r, row in enumerate(totals):
        for v, total in enumerate(row):
            builder.store(total, place(to, r, v), align=4)


def _chain(rows: int, vectors: int) -> Any:
    @intrinsic
    def chain(typing, xs, base, weights, sums, bias, at, first, taps, w_at, w_step, columns, to, then):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, values):  # type: ignore[no-untyped-def]
            data = code.pointers(context, builder, signature.args[:5], values[:5])
            _generate(builder, data, list(values[5:]), rows, vectors)
            return context.get_dummy_value()

        return types.void(xs, base, weights, sums, bias, *(types.int64,) * 8), generate

    return chain


@intrinsic
def pick(typing, target, to, source, places, first, at):  # type: ignore[no-untyped-def]
    """target[to + j] = source[places[first + j] + at] for each j < ROWS."""

    def generate(context, builder, signature, values):  # type: ignore[no-untyped-def]
        kinds = signature.args
        data = code.pointers(
            context, builder, (kinds[0], kinds[2], kinds[3]), (values[0], values[2], values[3])
        )
        target, source, places = data
        _, to, _, _, first, at = values
        for j in range(ROWS):
            place = builder.load(builder.gep(places, [builder.add(first, number(j))]))
            value = builder.load(builder.gep(source, [builder.add(place, at)]))
            builder.store(value, builder.gep(target, [builder.add(to, number(j))]))
        return context.get_dummy_value()

    return types.void(target, types.int64, source, places, types.int64, types.int64), generate


_one, _two, _three = (_chain(ROWS, vectors) for vectors in range(1, VECTORS + 1))
_row_one, _row_two, _row_four, _row_eight = (_chain(1, vectors) for vectors in (1, 2, 4, LINE_VECTORS))


@loop
def chain(
    xs: Any,
    base: Any,
    weights: Any,
    sums: Any,
    bias: Any,
    at: Any,
    first: Any,
    w_at: Any,
    w_step: Any,
    columns: Any,
    to: Any,
    then: Any,
) -> None:
    """One chain of a tile: [ROWS, COLUMNS] numbers at sums[to], of which `columns` in each row count.

    Number (r, s) is the sum over taps t = first, first + 2, ... of xs[at + base[t] + s] times
    weights[w_at + (t - first) / 2 * w_step + 2 * r]. Then, as far as the bits of `then` say so and in this
    order: what was in its place is added (ADD_HERE), the same number of sums[0] (ADD_FIRST), bias[r]
    (ADD_BIAS). xs, weights, sums, bias: f32; base: i64; all of one dimension and contiguous.
    """
    taps = base.shape[0]
    if columns <= LANES:
        _one(xs, base, weights, sums, bias, at, first, taps, w_at, w_step, columns, to, then)
    elif columns <= 2 * LANES:
        _two(xs, base, weights, sums, bias, at, first, taps, w_at, w_step, columns, to, then)
    else:
        _three(xs, base, weights, sums, bias, at, first, taps, w_at, w_step, columns, to, then)


@loop
def line(
    xs: Any,
    base: Any,
    weights: Any,
    sums: Any,
    bias: Any,
    at: Any,
    first: Any,
    w_at: Any,
    w_step: Any,
    columns: Any,
    to: Any,
    then: Any,
) -> None:
    """One chain of a tile of a single row, of LINE numbers; see chain."""
    taps = base.shape[0]
    if columns <= LANES:
        _row_one(xs, base, weights, sums, bias, at, first, taps, w_at, w_step, columns, to, then)
    elif columns <= 2 * LANES:
        _row_two(xs, base, weights, sums, bias, at, first, taps, w_at, w_step, columns, to, then)
    elif columns <= 4 * LANES:
        _row_four(xs, base, weights, sums, bias, at, first, taps, w_at, w_step, columns, to, then)
    else:
        _row_eight(xs, base, weights, sums, bias, at, first, taps, w_at, w_step, columns, to, then)


@loop
def tile_of(i: Any, s0: Any, s1: Any) -> Any:
    """Columns of tile number i of [s0, s1): tiles have as many vectors each, or one more."""
    tiles, vectors = -(-(s1 - s0) // COLUMNS), -(-(s1 - s0) // LANES)
    start = s0 + i * vectors // tiles * LANES
    return start, min(s0 + (i + 1) * vectors // tiles * LANES, s1)
