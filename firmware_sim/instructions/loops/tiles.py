"""Tiles of sums of products: ROWS rows of up to COLUMNS results, whose sums stay in registers.

The innermost loop is written as instructions of the compiler (LLVM), because no loop in Python makes it
keep a block of sums in registers while it goes through the taps. Products are rounded, then added, tap by
tap: the order of each sum is the reference's.
"""

from __future__ import annotations

from typing import Any

from llvmlite import binding, ir
from numba import config, njit, types
from numba.core import cgutils
from numba.extending import intrinsic

if config.CPU_FEATURES is None:
    _WIDE = bool(binding.get_host_cpu_features().get("avx512f"))
else:  # another processor is compiled for
    _WIDE = "+avx512f" in config.CPU_FEATURES
LANES = 16 if _WIDE else 8  # fp32 numbers in a vector register
ROWS = 8 if _WIDE else 4
VECTORS = 3  # of each row: with ROWS, as many sums as there are registers for
COLUMNS = VECTORS * LANES
TILE = ROWS * COLUMNS
ADD_HERE, ADD_FIRST, ADD_BIAS = 1, 2, 4  # what becomes of the sums of a chain

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


def _data(context: Any, builder: Any, kinds: Any, values: Any) -> list[Any]:
    """Pointers to the elements of arrays."""
    return [
        context.make_array(kind)(context, builder, value).data
        for kind, value in zip(kinds, values, strict=True)
    ]


def _generate(builder: Any, data: list[Any], numbers: list[Any], rows: int, vectors: int) -> None:
    """The instructions of one chain; see `chain`. valid: those of its columns that are in the last vector."""
    xs, base, weights, sums, bias = data
    at, first, taps, w_at, w_step, valid, to, then = numbers
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
        first_x = builder.gep(xs, [builder.add(start, _constant(v * LANES))])
        pointer = builder.bitcast(first_x, _VECTOR.as_pointer())
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

    def place(start: Any, r: int, v: int) -> Any:
        offset = builder.add(start, _constant(r * COLUMNS + v * LANES))
        return builder.bitcast(builder.gep(sums, [offset]), _VECTOR.as_pointer())

    def sum_before(start: Any) -> Any:
        return lambda r, v: builder.load(place(start, r, v), align=4)

    def bias_of(r: int, v: int) -> Any:
        return _spread(builder, builder.load(builder.gep(bias, [_constant(r)])))

    steps = ((ADD_HERE, sum_before(to)), (ADD_FIRST, sum_before(_constant(0))), (ADD_BIAS, bias_of))
    for bit, other in steps:
        wanted = builder.icmp_signed("!=", builder.and_(then, _constant(bit)), _constant(0))
        without = builder.block
        added, after = (builder.function.append_basic_block(name) for name in ("add", "added"))
        builder.cbranch(wanted, added, after)
        builder.position_at_end(added)
        plus = [[builder.fadd(other(r, v), t) for v, t in enumerate(row)] for r, row in enumerate(totals)]
        builder.branch(after)
        builder.position_at_end(after)
        for r, row in enumerate(totals):
            for v, total in enumerate(row):
                either = builder.phi(_VECTOR)
                either.add_incoming(total, without)
                either.add_incoming(plus[r][v], added)
                row[v] = either
    for r, row in enumerate(totals):
        for v, total in enumerate(row):
            builder.store(total, place(to, r, v), align=4)


def _chain(rows: int, vectors: int) -> Any:
    @intrinsic
    def chain(typing, xs, base, weights, sums, bias, at, first, taps, w_at, w_step, valid, to, then):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, values):  # type: ignore[no-untyped-def]
            data = _data(context, builder, signature.args[:5], values[:5])
            _generate(builder, data, list(values[5:]), rows, vectors)
            return context.get_dummy_value()

        return types.void(xs, base, weights, sums, bias, *(types.int64,) * 8), generate

    return chain


@intrinsic
def copy(typing, target, to, source, at, count):  # type: ignore[no-untyped-def]
    """target[to : to + count] = source[at : at + count], for arrays of one type that do not overlap."""

    def generate(context, builder, signature, values):  # type: ignore[no-untyped-def]
        kinds = signature.args
        target, source = _data(context, builder, (kinds[0], kinds[2]), (values[0], values[2]))
        size = context.get_abi_sizeof(context.get_data_type(kinds[0].dtype))
        places = builder.gep(target, [values[1]]), builder.gep(source, [values[3]])
        cgutils.raw_memcpy(builder, *places, values[4], size)
        return context.get_dummy_value()

    return types.void(target, types.int64, source, types.int64, types.int64), generate


@intrinsic
def pick(typing, target, to, source, places, first, at):  # type: ignore[no-untyped-def]
    """target[to + j] = source[places[first + j] + at] for each j < ROWS."""

    def generate(context, builder, signature, values):  # type: ignore[no-untyped-def]
        kinds = signature.args
        data = _data(context, builder, (kinds[0], kinds[2], kinds[3]), (values[0], values[2], values[3]))
        target, source, places = data
        _, to, _, _, first, at = values
        for j in range(ROWS):
            place = builder.load(builder.gep(places, [builder.add(first, _constant(j))]))
            value = builder.load(builder.gep(source, [builder.add(place, at)]))
            builder.store(value, builder.gep(target, [builder.add(to, _constant(j))]))
        return context.get_dummy_value()

    return types.void(target, types.int64, source, places, types.int64, types.int64), generate


_one, _two, _three = (_chain(ROWS, vectors) for vectors in range(1, VECTORS + 1))
_single_one, _single_two, _single_three = (_chain(1, vectors) for vectors in range(1, VECTORS + 1))
_loop = njit(nogil=True, cache=True, error_model="numpy")


@_loop
def chain(xs, base, weights, sums, bias, at, first, w_at, w_step, columns, to, then):  # type: ignore[no-untyped-def]
    """One chain of a tile: [ROWS, COLUMNS] numbers at sums[to], of which `columns` in each row count.

    Number (r, s) is the sum over taps t = first, first + 2, ... of xs[at + base[t] + s] times
    weights[w_at + (t - first) / 2 * w_step + 2 * r]. Then, as far as the bits of `then` say so and in this
    order: what was in its place is added (ADD_HERE), the same number of sums[0] (ADD_FIRST), bias[r]
    (ADD_BIAS). xs, weights, sums, bias: f32; base: i64; all of one dimension and contiguous.
    """
    taps, vectors = base.shape[0], (columns + LANES - 1) // LANES
    valid = columns - (vectors - 1) * LANES
    if vectors == 1:
        _one(xs, base, weights, sums, bias, at, first, taps, w_at, w_step, valid, to, then)
    elif vectors == 2:
        _two(xs, base, weights, sums, bias, at, first, taps, w_at, w_step, valid, to, then)
    else:
        _three(xs, base, weights, sums, bias, at, first, taps, w_at, w_step, valid, to, then)


@_loop
def single(xs, base, weights, sums, bias, at, first, w_at, w_step, columns, to, then):  # type: ignore[no-untyped-def]
    """The first row of a chain, where there is no other."""
    taps, vectors = base.shape[0], (columns + LANES - 1) // LANES
    valid = columns - (vectors - 1) * LANES
    if vectors == 1:
        _single_one(xs, base, weights, sums, bias, at, first, taps, w_at, w_step, valid, to, then)
    elif vectors == 2:
        _single_two(xs, base, weights, sums, bias, at, first, taps, w_at, w_step, valid, to, then)
    else:
        _single_three(xs, base, weights, sums, bias, at, first, taps, w_at, w_step, valid, to, then)


@_loop
def tile_of(i, s0, s1):  # type: ignore[no-untyped-def]
    """Columns of tile number i of [s0, s1): tiles have as many vectors each, or one more."""
    tiles, vectors = -(-(s1 - s0) // COLUMNS), -(-(s1 - s0) // LANES)
    start = s0 + i * vectors // tiles * LANES
    return start, min(s0 + (i + 1) * vectors // tiles * LANES, s1)
