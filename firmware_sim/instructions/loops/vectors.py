"""Instructions of the compiler (LLVM) for vectors of fp32 numbers: what the modules beside it are made of.

No loop in Python makes the compiler keep a block of sums in registers while it goes through the taps, so
the innermost loops are written as its instructions.
"""

from __future__ import annotations

from typing import Any

from llvmlite import binding, ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

if config.CPU_FEATURES is None:
    WIDE = bool(binding.get_host_cpu_features().get("avx512f"))
else:  # another processor is compiled for
    WIDE = "+avx512f" in config.CPU_FEATURES
LANES = 16 if WIDE else 8  # fp32 numbers in a vector register

I32, I64 = ir.IntType(32), ir.IntType(64)
VECTOR = ir.VectorType(ir.FloatType(), LANES)
ZEROS = ir.Constant(VECTOR, [0.0] * LANES)
_MASK = ir.VectorType(ir.IntType(1), LANES)


def number(value: int) -> Any:
    """A 64-bit integer constant."""
    return ir.Constant(I64, value)


def spread(builder: Any, value: Any) -> Any:
    """The value in all lanes of a vector."""
    undefined = ir.Constant(ir.VectorType(value.type, LANES), ir.Undefined)
    one = builder.insert_element(undefined, value, ir.Constant(I32, 0))
    return builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(I32, LANES), [0] * LANES))


def vector_at(builder: Any, data: Any, at: Any) -> Any:
    """The place of a vector, from the index of its first number."""
    return builder.bitcast(builder.gep(data, [at]), VECTOR.as_pointer())


def first_lanes(builder: Any, count: Any) -> Any:
    """A mask of the lanes below count."""
    lanes = ir.Constant(ir.VectorType(I64, LANES), list(range(LANES)))
    return builder.icmp_signed("<", lanes, spread(builder, count))


def masked_load(builder: Any, place: Any, mask: Any) -> Any:
    """The lanes that the mask has; zeros elsewhere, where nothing is read."""
    kind = ir.FunctionType(VECTOR, [VECTOR.as_pointer(), I32, _MASK, VECTOR])
    name = f"llvm.masked.load.v{LANES}f32.p0"
    function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
    return builder.call(function, [place, ir.Constant(I32, 4), mask, ZEROS])


def pointers(context: Any, builder: Any, kinds: Any, values: Any) -> list[Any]:
    """Pointers to the elements of arrays."""
    return [
        context.make_array(kind)(context, builder, value).data
        for kind, value in zip(kinds, values, strict=True)
    ]


@intrinsic
def copy(typing, target, to, source, at, count):  # type: ignore[no-untyped-def]
    """target[to : to + count] = source[at : at + count], for arrays of one type that do not overlap."""

    def generate(context, builder, signature, values):  # type: ignore[no-untyped-def]
        kinds = signature.args
        target, source = pointers(context, builder, (kinds[0], kinds[2]), (values[0], values[2]))
        size = context.get_abi_sizeof(context.get_data_type(kinds[0].dtype))
        places = builder.gep(target, [values[1]]), builder.gep(source, [values[3]])
        cgutils.raw_memcpy(builder, *places, values[4], size)
        return context.get_dummy_value()

    return types.void(target, types.int64, source, types.int64, types.int64), generate
