"""How ATen's elementwise operators are spelled."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from user_layers.spelling.foreign import Array
from user_layers.spelling.speller import Unspelled
from user_layers.torch.call import Call, aten, fixed

_F32 = np.dtype(np.float32)
_BOOL = np.dtype(np.bool_)
_UNARY = {  # by ATen's name
    "abs": "Abs",
    "neg": "Neg",
    "ceil": "Ceil",
    "floor": "Floor",
    "round": "Round",
    "sign": "Sign",
    "sgn": "Sign",
    "sqrt": "Sqrt",
    "exp": "Exp",
    "log": "Log",
    "erf": "Erf",
    "reciprocal": "Reciprocal",
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "relu": "Relu",
    "sin": "Sin",
    "cos": "Cos",
    "tan": "Tan",
    "asin": "Asin",
    "acos": "Acos",
    "atan": "Atan",
    "sinh": "Sinh",
    "cosh": "Cosh",
    "asinh": "Asinh",
    "acosh": "Acosh",
    "atanh": "Atanh",
    "mish": "Mish",
}
_COMPARISONS = {"eq": "Equal", "lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual"}
_LOGICAL = {"and": "And", "or": "Or", "xor": "Xor"}


def _unary(op: str) -> Any:
    def spelled(c: Call) -> str:
        return c.one(op, c.x(0, c.out_dtype))

    return spelled


for _name, _op in _UNARY.items():
    aten(_name, f"{_name}_")(_unary(_op))


# ---- activations ----


@aten("relu6")
def _relu6(c: Call) -> str:
    return c.one("Clip", c.x(), c.const(0), c.const(6))


@aten("hardtanh", "hardtanh_")
def _hardtanh(c: Call) -> str:
    kind = c.out_dtype
    return c.one("Clip", c.x(), c.const(c.get("min_val"), kind), c.const(c.get("max_val"), kind))


@aten("hardswish", "hardswish_")
def _hardswish(c: Call) -> str:
    return c.one("HardSwish", c.x())


@aten("hardsigmoid", "hardsigmoid_")
def _hardsigmoid(c: Call) -> str:
    return c.one("HardSigmoid", c.x(), alpha=1 / 6, beta=0.5)


@aten("silu", "silu_")
def _silu(c: Call) -> str:
    value = c.x()
    return c.one("Mul", value, c.one("Sigmoid", value))


@aten("gelu")
def _gelu(c: Call) -> str:
    return c.one("Gelu", c.x(), approximate=c.get("approximate", "none"))


@aten("elu", "elu_")
def _elu(c: Call) -> str:
    scale, inner = float(c.get("scale", 1)), float(c.get("input_scale", 1))
    alpha = float(c.get("alpha", 1))
    if inner != 1:
        raise Unspelled(f"its input_scale is {inner:g}")
    if scale != 1:
        return c.one("Selu", c.x(), alpha=alpha, gamma=scale)
    return c.one("Elu", c.x(), alpha=alpha)


@aten("celu")
def _celu(c: Call) -> str:
    return c.one("Celu", c.x(), alpha=float(c.get("alpha", 1)))


@aten("selu")
def _selu(c: Call) -> str:
    return c.one("Selu", c.x(), alpha=1.6732632423543772, gamma=1.0507009873554805)


@aten("leaky_relu", "leaky_relu_")
def _leaky_relu(c: Call) -> str:
    return c.one("LeakyRelu", c.x(), alpha=float(c.get("negative_slope", 0.01)))


@aten("prelu", "_prelu_kernel")
def _prelu(c: Call) -> str:
    slope, rank = c.shape(1), c.rank()
    if rank > 1 and len(slope) == 1 and slope[0] > 1:  # one for each channel
        return c.one("PRelu", c.x(), c.reshaped(c.x(1), [slope[0], *[1] * (rank - 2)]))
    return c.one("PRelu", c.x(), c.x(1))


@aten("softplus")
def _softplus(c: Call) -> str:
    beta, threshold = float(c.get("beta", 1)), float(c.get("threshold", 20))
    value = c.x()
    inner = value if beta == 1 else c.one("Mul", value, c.const(beta))
    made = c.one("Softplus", inner)
    if beta != 1:
        made = c.one("Mul", made, c.const(1 / beta))
    if threshold >= 15:  # from there on both are the same number
        return made
    return c.one("Where", c.one("Greater", inner, c.const(threshold)), value, made)


@aten("log_sigmoid", "log_sigmoid_forward")
def _log_sigmoid(c: Call) -> list[str | None]:
    return [c.one("Neg", c.one("Softplus", c.one("Neg", c.x())))]


@aten("threshold")
def _threshold(c: Call) -> str:
    kind = c.dtype()
    above = c.one("Greater", c.x(), c.const(c.get("threshold"), kind))
    return c.one("Where", above, c.x(), c.const(c.get("value"), kind))


@aten("glu")
def _glu(c: Call) -> str:
    axis = c.axis()
    left, right = c.to.node("Split", [c.x()], {"axis": axis, "num_outputs": 2}, outputs=2)
    return c.one("Mul", left, c.one("Sigmoid", right))


# ---- roots, logarithms, powers ----


@aten("rsqrt")
def _rsqrt(c: Call) -> str:
    return c.one("Reciprocal", c.one("Sqrt", c.x(0, c.out_dtype)))


@aten("log1p")
def _log1p(c: Call) -> str:
    return c.one("Log", c.one("Add", c.x(0, c.out_dtype), c.const(1, c.out_dtype)))


@aten("expm1")
def _expm1(c: Call) -> str:
    return c.one("Sub", c.one("Exp", c.x(0, c.out_dtype)), c.const(1, c.out_dtype))


@aten("log2", "log10")
def _log_to(c: Call) -> str:
    base = 2 if "log2" in c.op.kind else 10
    value = c.one("Log", c.x(0, c.out_dtype))
    return c.one("Mul", value, c.const(1 / math.log(base), c.out_dtype))


@aten("exp2")
def _exp2(c: Call) -> str:
    return c.one("Exp", c.one("Mul", c.x(0, c.out_dtype), c.const(math.log(2), c.out_dtype)))


@aten("square")
def _square(c: Call) -> str:
    return c.one("Mul", c.x(), c.x())


@aten("pow.Tensor_Scalar", "pow.Tensor_Tensor")
def _pow(c: Call) -> str:
    return c.one("Pow", *c.pair(other="exponent"))


@aten("pow.Scalar")
def _pow_of_number(c: Call) -> str:  # the exponent is its only tensor
    return c.one("Pow", c.const(c.get("self"), c.out_dtype), c.x(0, c.out_dtype))


@aten("trunc", "fix")
def _trunc(c: Call) -> str:
    return _truncated(c, c.x())


def _truncated(c: Call, value: str) -> str:
    return c.one("Mul", c.one("Sign", value), c.one("Floor", c.one("Abs", value)))


# ---- arithmetic ----


@aten("add.Tensor", "add.Scalar", "add_.Tensor", "sub.Tensor", "sub.Scalar", "sub_.Tensor")
def _add(c: Call) -> str:
    kind = c.out_dtype
    if kind == _BOOL:
        return c.one("Or", *c.pair())
    left, right = c.pair()
    alpha = c.get("alpha", 1)
    if alpha != 1:
        right = c.one("Mul", right, c.const(alpha, kind))
    return c.one("Add" if "add" in c.op.kind else "Sub", left, right)


@aten("rsub.Scalar", "rsub.Tensor")
def _rsub(c: Call) -> str:
    left, right = c.pair()
    alpha = c.get("alpha", 1)
    if alpha != 1:
        left = c.one("Mul", left, c.const(alpha, c.out_dtype))
    return c.one("Sub", right, left)


@aten("mul.Tensor", "mul.Scalar", "mul_.Tensor")
def _mul(c: Call) -> str:
    return c.one("And" if c.out_dtype == _BOOL else "Mul", *c.pair())


@aten("div.Tensor", "div.Scalar", "true_divide.Tensor", "div_.Tensor")
def _div(c: Call) -> str:
    return c.one("Div", *c.pair())


@aten("div.Tensor_mode", "div.Scalar_mode", "floor_divide")
def _rounded_div(c: Call) -> str:
    mode = c.get("rounding_mode", "floor" if "floor_divide" in c.op.kind else None)
    if c.out_dtype.kind != "f":
        left, right = _whole_pair(c)
        if mode == "floor":
            left = c.one("Sub", left, c.one("Mod", left, right))
        return _as_result(c, c.one("Div", left, right))
    left, right = c.pair()
    if mode == "floor":
        return _floored(c, left, right)
    found = c.one("Div", left, right)
    return found if mode is None else _truncated(c, found)


def _floored(c: Call, left: str, right: str) -> str:
    """What remains is exact, so that the quotient without it is a whole number but for its last bits: a
    rounded quotient alone may be the next one (1 // 0.1 is 9)."""
    rest = c.one("Mod", left, right, fmod=1)
    found = c.one("Round", c.one("Div", c.one("Sub", left, rest), right))
    found = c.one("Where", _against(c, rest, right), c.one("Sub", found, c.const(1, c.out_dtype)), found)
    divisor = _divisor(c)
    if divisor is not None and divisor.all():
        return found
    nothing = c.one("Equal", right, c.const(0, c.out_dtype))
    return c.one("Where", nothing, c.one("Div", left, right), found)


def _against(c: Call, rest: str, right: str) -> str:
    """Where what remains is not 0, and its sign is not the divisor's."""
    zero = c.const(0, c.out_dtype)
    other = c.one("Xor", c.one("Less", rest, zero), c.one("Less", right, zero))
    return c.one("And", other, c.one("Not", c.one("Equal", rest, zero)))


def _divisor(c: Call) -> Array | None:
    """The second operand where it is known."""
    return c.to.constant(c.name(1)) if c.has(1) else np.asarray(c.get("other"))


def _whole_pair(c: Call) -> tuple[str, str]:
    """Two operands that are whole numbers, in a type in which ONNX divides. Raises Unspelled for divisors
    that may end a process: 0, and -1 of the smallest number."""
    divisor = _divisor(c)
    if divisor is None:
        raise Unspelled("it divides whole numbers by others that are computed")
    if np.isin(divisor, (0, -1)).any():
        raise Unspelled("it divides whole numbers by 0 or -1")
    return c.pair(c.out_dtype if c.out_dtype.itemsize >= 4 else np.dtype(np.int32))


def _as_result(c: Call, value: str) -> str:
    return value if c.out_dtype.itemsize >= 4 else c.cast(value, c.out_dtype)


@aten("remainder.Tensor", "remainder.Scalar", "fmod.Tensor", "fmod.Scalar")
def _remainder(c: Call) -> str:
    floored = "remainder" in c.op.kind
    if c.out_dtype.kind != "f":
        return _as_result(c, c.one("Mod", *_whole_pair(c), fmod=int(not floored)))
    left, right = c.pair()
    rest = c.one("Mod", left, right, fmod=1)
    if not floored:
        return rest
    return c.one("Where", _against(c, rest, right), c.one("Add", rest, right), rest)


@aten("maximum", "max.other")
def _maximum(c: Call) -> str:
    return c.one("Max", *c.pair())


@aten("minimum", "min.other")
def _minimum(c: Call) -> str:
    return c.one("Min", *c.pair())


@aten("addcmul", "addcdiv")
def _addc(c: Call) -> str:
    kind = c.out_dtype
    product = c.one("Mul" if "mul" in c.op.kind else "Div", c.x(1, kind), c.x(2, kind))
    value = c.get("value", 1)
    if value != 1:
        product = c.one("Mul", product, c.const(value, kind))
    return c.one("Add", c.x(0, kind), product)


@aten("clamp", "clamp_", "clamp_min", "clamp_max", "clip")
def _clamp(c: Call) -> str:
    kind, value = c.out_dtype, c.x(0, c.out_dtype)
    low, high = c.get("min"), c.get("max")
    bounds = [c.const(low, kind) if low is not None else ""]
    if high is not None:
        bounds.append(c.const(high, kind))
    return c.one("Clip", value, *bounds)


@aten("clamp.Tensor")
def _clamp_by_tensors(c: Call) -> str:
    value = c.x(0, c.out_dtype)
    for index, op in ((1, "Max"), (2, "Min")):
        if c.has(index):
            value = c.one(op, value, c.x(index, c.out_dtype))
    return value


# ---- truth values ----


def _comparison(op: str) -> Any:
    def spelled(c: Call) -> str:
        kind = c.promoted()
        if kind == _BOOL and op != "Equal":
            kind = _F32
        return c.one(op, *c.pair(kind))

    return spelled


for _name, _op in _COMPARISONS.items():
    aten(f"{_name}.Tensor", f"{_name}.Scalar")(_comparison(_op))


@aten("ne.Tensor", "ne.Scalar")
def _not_equal(c: Call) -> str:
    return c.one("Not", c.one("Equal", *c.pair(c.promoted())))


def _logical(op: str) -> Any:
    def spelled(c: Call) -> str:
        if c.op.kind.startswith("aten.bitwise") and c.out_dtype != _BOOL:
            raise Unspelled(f"it works on the bits of {c.out_dtype}")
        return c.one(op, *c.pair(_BOOL))

    return spelled


for _name, _op in _LOGICAL.items():
    aten(f"logical_{_name}", f"bitwise_{_name}.Tensor", f"bitwise_{_name}.Scalar")(_logical(_op))


@aten("logical_not", "bitwise_not")
def _not(c: Call) -> str:
    if "bitwise" in c.op.kind and c.out_dtype != _BOOL:
        raise Unspelled(f"it works on the bits of {c.out_dtype}")
    return c.one("Not", c.x(0, _BOOL))


@aten("isnan", "isinf")
def _is_special(c: Call) -> str:
    return c.one("IsNaN" if "nan" in c.op.kind else "IsInf", c.x())


@aten("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def _where(c: Call) -> str:
    kind = c.out_dtype
    numbers = iter([c.get(name) for name in ("self", "other") if c.get(name) is not None])
    index = 1
    values = []
    for scalar in ("self", "other"):
        if c.get(scalar) is not None:
            values.append(c.const(next(numbers), kind))
        else:
            values.append(c.x(index, kind))
            index += 1
    return c.one("Where", c.x(0, _BOOL), *values)


@aten("masked_fill.Scalar", "masked_fill.Tensor", "masked_fill_.Scalar")
def _masked_fill(c: Call) -> str:
    kind = c.out_dtype
    value = c.x(2, kind) if c.has(2) else c.const(c.get("value"), kind)
    return c.one("Where", c.x(1, _BOOL), value, c.x(0, kind))


# ---- copies ----

COPIES = (
    "_to_copy",
    "to.dtype",
    "to.dtype_layout",
    "to.device",
    "to.other",
    "type_as",
    "clone",
    "contiguous",
    "alias",
    "alias_copy",
    "detach",
    "detach_copy",
    "detach_",
    "lift_fresh_copy",
    "dropout",
    "feature_dropout",
    "_assert_tensor_metadata",
    "dim_order_ops._to_dim_order_copy",
    "dim_order_ops._clone_dim_order",
)


@aten(*COPIES)
def _copy(c: Call) -> str:
    if c.get("train"):
        raise Unspelled("it drops elements at random: export the module in eval()")
    value = c.x()
    if c.dtype() == c.out_dtype:
        return c.one("Identity", value)
    return c.cast(value, c.out_dtype)


@aten("copy")
def _copy_from(c: Call) -> str:
    return c.expanded(c.x(1, c.out_dtype), c.shape(1), c.out_shape)


@aten("native_dropout")
def _native_dropout(c: Call) -> list[str | None]:
    if c.get("train"):
        raise Unspelled("it drops elements at random: export the module in eval()")
    return [c.one("Identity", c.x()), None]


# ---- constants ----


@aten("full", "full_like", "scalar_tensor", "new_full")
def _full(c: Call) -> str:
    return c.const(np.full(fixed(c.out_shape), c.get("fill_value", c.get("s"))), c.out_dtype)


@aten(
    "zeros", "zeros_like", "new_zeros", "ones", "ones_like", "new_ones", "empty.memory_format", "empty_like"
)
def _zeros(c: Call) -> str:
    return c.const(np.full(fixed(c.out_shape), 1 if "ones" in c.op.kind else 0), c.out_dtype)


@aten("arange.start_step", "arange.start", "arange")
def _arange(c: Call) -> str:
    first, step = c.get("start", 0), c.get("step", 1)
    return c.const(first + step * np.arange(*fixed(c.out_shape)), c.out_dtype)
