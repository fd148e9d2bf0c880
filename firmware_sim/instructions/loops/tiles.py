"""Tiles of sums of products: ROWS rows of up to COLUMNS results, whose sums stay in registers.

The innermost loop is written as instructions of the compiler (LLVM), because no loop in Python makes it
keep a block of sums in registers while it goes through the taps. Products are rounded, then added, tap by
tap: the order of each sum is the reference's.
"""

from __future__ import annotations

from typing import Any

from llvmlite import binding, ir
from numba import njit, types
from numba.extending import intrinsic

_WIDE = bool(binding.get_host_cpu_features().get("avx512f"))
LANES = 16 if _WIDE else 8  # fp32 numbers in a vector register
ROWS = 8 if _WIDE else 4
VECTORS = 3  # of each row: with ROWS, as many sums as there are registers for
COLUMNS = VECTORS * LANES
TILE = ROWS * COLUMNS

_I32, _I64, _F32 = ir.IntType(32), ir.IntType(64), ir.FloatType()
_VECTOR = ir.VectorType(_F32, LANES)
_MASK = ir.VectorType(ir.IntType(1), LANES)


def _constant(value: int) -> Any:
    return ir.Constant(_I64, value)


def _spread(builder: Any, value: Any) -> Any:
    """The value in all lanes of a vector."""
    undefined = ir.Constant(ir.VectorType(value.type, LANES), ir.Undefined)
    one = builder.insert_element(undefined, value, ir.Constant(_I32, 0))
    return builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(_I32, LANES), [0] * LANES))


def _masked_load(builder: Any, pointer: Any, mask: Any) -> Any:
    """The lanes that the mask has; zeros elsewhere, where nothing is read."""
    kind = ir.FunctionType(_VECTOR, [_VECTOR.as_pointer(), _I32, _MASK, _VECTOR])
    name = f"llvm.masked.load.v{LANES}f32.p0"
    function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
    zeros = ir.Constant(_VECTOR, [0.0] * LANES)
    return builder.call(function, [pointer, ir.Constant(_I32, 4), mask, zeros])


def _generate(builder: Any, data: list[Any], numbers: list[Any], rows: int, vectors: int) -> None:
    """The instructions of one chain; see `chain`. valid: those of its columns that are in the last vector."""
    xs, base, weights, sums = data
    at, first, taps, w_at, w_step, valid, to = numbers
    before = builder.block
    head, body, end = (builder.function.append_basic_block(name) for name in ("taps", "tap", "sums"))
    lanes = ir.Constant(ir.VectorType(_I64, LANES), list(range(LANES)))
    mask = builder.icmp_signed("<", lanes, _spread(builder, valid))
    builder.branch(head)

    builder.position_at_end(head)
    tap, w = builder.phi(_I64), builder.phi(_I64)
    tap.add_incoming(first, before)
    w.add_incoming(w_at, before)
    totals = [[builder.phi(_VECTOR) for _ in range(vectors)] for _ in range(rows)]
    for row in totals:
        for total in row:
            total.add_incoming(ir.Constant(_VECTOR, [0.0] * LANES), before)
    builder.cbranch(builder.icmp_signed("<", tap, taps), body, end)

    builder.position_at_end(body)
    start = builder.add(at, builder.load(builder.gep(base, [tap])))
    seen = []
    for v in range(vectors):
        place = builder.gep(xs, [builder.add(start, _constant(v * LANES))])
        pointer = builder.bitcast(place, _VECTOR.as_pointer())
        if v + 1 < vectors:
            seen.append(builder.load(pointer, align=4))
        else:
            seen.append(_masked_load(builder, pointer, mask))
    for r, row in enumerate(totals):
        weight = builder.load(builder.gep(weights, [builder.add(w, _constant(2 * r))]))
        factor = _spread(builder, weight)
        for total, x in zip(row, seen, strict=True):
            total.add_incoming(builder.fadd(total, builder.fmul(x, factor)), body)
    tap.add_incoming(builder.add(tap, _constant(2)), body)
    w.add_incoming(builder.add(w, w_step), body)
    builder.branch(head)

    builder.position_at_end(end)
    for r, row in enumerate(totals):
        for v, total in enumerate(row):
            place = builder.gep(sums, [builder.add(to, _constant(r * COLUMNS + v * LANES))])
            builder.store(total, builder.bitcast(place, _VECTOR.as_pointer()), align=4)


def _chain(rows: int, vectors: int) -> Any:
    @intrinsic
    def chain(typing, xs, base, weights, sums, at, first, taps, w_at, w_step, valid, to):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, values):  # type: ignore[no-untyped-def]
            data = [
                context.make_array(kind)(context, builder, value).data
                for kind, value in zip(signature.args[:4], values[:4], strict=True)
            ]
            _generate(builder, data, list(values[4:]), rows, vectors)
            return context.get_dummy_value()

        return types.void(xs, base, weights, sums, *(types.int64,) * 7), generate

    return chain


_one, _two, _three = (_chain(ROWS, vectors) for vectors in range(1, VECTORS + 1))
_single_one, _single_two, _single_three = (_chain(1, vectors) for vectors in range(1, VECTORS + 1))
_loop = njit(nogil=True, cache=True, error_model="numpy")


@_loop
def chain(xs, base, weights, sums, at, first, w_at, w_step, columns, to):  # type: ignore[no-untyped-def]
    """One chain of a tile: [ROWS, COLUMNS] numbers at sums[to], of which `columns` in each row count.

    Number (r, s) is the sum over taps t = first, first + 2, ... of xs[at + base[t] + s] times
    weights[w_at + (t - first) / 2 * w_step + 2 * r]. xs, weights, sums: f32; base: i64; all of one
    dimension and contiguous.
    """
    taps, vectors = base.shape[0], (columns + LANES - 1) // LANES
    valid = columns - (vectors - 1) * LANES
    if vectors == 1:
        _one(xs, base, weights, sums, at, first, taps, w_at, w_step, valid, to)
    elif vectors == 2:
        _two(xs, base, weights, sums, at, first, taps, w_at, w_step, valid, to)
    else:
        _three(xs, base, weights, sums, at, first, taps, w_at, w_step, valid, to)


@_loop
def single(xs, base, weights, sums, at, first, w_at, w_step, columns, to):  # type: ignore[no-untyped-def]
    """The first row of a chain, where there is no other."""
    taps, vectors = base.shape[0], (columns + LANES - 1) // LANES
    valid = columns - (vectors - 1) * LANES
    if vectors == 1:
        _single_one(xs, base, weights, sums, at, first, taps, w_at, w_step, valid, to)
    elif vectors == 2:
        _single_two(xs, base, weights, sums, at, first, taps, w_at, w_step, valid, to)
    else:
        _single_three(xs, base, weights, sums, at, first, taps, w_at, w_step, valid, to)


@_loop
def add_chains(sums, chains, bias, has_bias):  # type: ignore[no-untyped-def]
    """The chains of a tile, two or four, added into the first one; then the bias, f32[ROWS]."""
    for r in range(ROWS):
        b = bias[r]
        for i in range(r * COLUMNS, (r + 1) * COLUMNS):
            total = sums[i] + sums[TILE + i]
            if chains == 4:
                total = total + (sums[2 * TILE + i] + sums[3 * TILE + i])
            sums[i] = total + b if has_bias else total


@_loop
def tile_of(i, s0, s1):  # type: ignore[no-untyped-def]
    """Columns of tile number i of [s0, s1): tiles have as many vectors each, or one more."""
    tiles, vectors = -(-(s1 - s0) // COLUMNS), -(-(s1 - s0) // LANES)
    start = s0 + i * vectors // tiles * LANES
    return start, min(s0 + (i + 1) * vectors // tiles * LANES, s1)
