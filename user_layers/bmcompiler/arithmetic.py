"""Functions that add layers working element by element."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray

from firmware_sim.errors import UsageError
from user_layers.bmcompiler import codes
from user_layers.bmcompiler.calls import (
    Called,
    Floats,
    Input,
    Inputs,
    Ints,
    Output,
    Tag,
    same_as,
    vendor,
    vendor_spread,
)
from user_layers.bmcompiler.session import BMCompiler
from user_layers.graph.graph import BINARY_OPS
from user_layers.net.functions import BINARY, unary_param
from user_layers.net.nodes import check_dtype

# ---- what several of them are made of ----


def unary(p: BMCompiler, source: str, kind: str, output: str, a: float = 0.0, b: float = 0.0) -> None:
    """Add TPU_UNARY; kind: a key of UNARY in the ONNX converters, a and b: its parameters."""
    p.layer("TPU_UNARY", [source], unary_param(kind, a, b), output)


def between_unary(p: BMCompiler, source: str, kind: str, output: str) -> str:
    """Add TPU_UNARY with a and b 0 in the middle of a function of the vendor's.

    Returns the name of its tensor, a free one made from `output`.
    """
    param = unary_param(kind)
    return p.between("TPU_UNARY", [source], param, output)


_BINARIES = {
    codes.BINARY_ADD: "ADD",
    codes.BINARY_SUB: "SUB",
    codes.BINARY_MUL: "MUL",
    codes.BINARY_DIV: "DIV",
    codes.BINARY_MAX: "MAX",
    codes.BINARY_MIN: "MIN",
    codes.BINARY_GT: "GREATER",
    codes.BINARY_GE: "GREATER_OR_EQUAL",
    codes.BINARY_LT: "LESS",
    codes.BINARY_LE: "LESS_OR_EQUAL",
    codes.BINARY_EQ: "EQUAL",
    codes.BINARY_FLOOR_MOD: "MOD",
}
# What follows another operation.
_CHAINS = {
    codes.BINARY_NE: ("EQUAL", "NOT"),
    codes.BINARY_SQUARED_DIFF: ("SUB", "SQUARE"),
    codes.BINARY_FLOOR_DIV: ("DIV", "FLOOR"),
}


def binary(p: BMCompiler, left: str, right: str, binary_op: int, output: str) -> None:
    """left OP right with broadcasting. UsageError for an operation that is none."""
    if binary_op in _CHAINS:
        first, then = _CHAINS[binary_op]
        made = p.between("TPU_BINARY", [left, right], {"binary_op": BINARY[first]}, output)
        unary(p, made, then, output)
        return
    if binary_op not in _BINARIES:
        known = ", ".join(f"{name} {value}" for name, value in codes.CODES["BmBinaryType"].items())
        raise UsageError(f"binary_op {binary_op} is not a binary operation", hint=f"there are {known}")
    p.layer("TPU_BINARY", [left, right], {"binary_op": BINARY[_BINARIES[binary_op]]}, output)


def tensor_or_const(
    p: BMCompiler, name: str | None, shape: Sequence[int], data: ArrayLike | None, is_coeff: int
) -> str:
    """An operand that is a tensor, or fp32 numbers of the program; these are known under its name later."""
    if not is_coeff:
        if name is None:
            raise UsageError("an operand that is not a coeff has no name (NULL)")
        return p.use(name, shape)
    assert data is not None
    values = np.asarray(data, np.float32).reshape(tuple(shape))
    if name and not p.graph.has_tensor(name):
        return p.graph.add_const(name, values)
    return p.const(values, name or "coeff")


# ---- binary ----


@dataclass(frozen=True)
class Operand:
    """A tensor, or (is_coeff) numbers of the program."""

    name: Annotated[str | None, Called("input_{}_name")]
    shape: Annotated[Sequence[int], Ints("input_{}_dim"), Called("input_{}_shape")]
    dims: Annotated[int, Called("input_{}_dim")]
    is_coeff: Annotated[int, Called("{}_is_coeff")]
    data: Annotated[ArrayLike | None, Floats("prod(input_{}_shape)", when="{}_is_coeff"), Called("{}_data")]


@dataclass(frozen=True)
class OperandOfRank:
    """An Operand with as many dimensions as the other one."""

    name: Annotated[str | None, Called("input_{}_name")]
    shape: Annotated[Sequence[int], Ints("input_dim"), Called("input_{}_shape")]
    is_coeff: Annotated[int, Called("{}_is_coeff")]
    data: Annotated[ArrayLike | None, Floats("prod(input_{}_shape)", when="{}_is_coeff"), Called("{}_data")]


@dataclass(frozen=True)
class OperandOfShape:
    """An Operand of the same shape as the other one."""

    name: Annotated[str | None, Called("input_{}_name")]
    is_coeff: Annotated[int, Called("{}_is_coeff")]
    data: Annotated[ArrayLike | None, Floats("prod(input_shape)", when="{}_is_coeff"), Called("{}_data")]


def _binary_of(
    p: BMCompiler, operands: Sequence[Operand | OperandOfRank], binary_op: int, output: str
) -> None:
    names = [tensor_or_const(p, o.name, o.shape, o.data, o.is_coeff) for o in operands]
    binary(p, names[0], names[1], binary_op, output)


@vendor_spread
def add_binary_layer_v2(
    p_bmcpl: BMCompiler,
    left: Annotated[Operand, Tag("A")],
    right: Annotated[Operand, Tag("B")],
    output_name: str,
    binary_op: int,
) -> None:
    """A OP B for each element, fp32, with broadcasting; an operand marked as coeff is the data given.

    binary_op: BmBinaryType of bmcompiler_op_code.h. Comparisons give 1.0 and 0.0.
    """
    _binary_of(p_bmcpl, (left, right), binary_op, output_name)


add_broadcast_binary_layer_v2 = same_as(add_binary_layer_v2, "add_broadcast_binary_layer_v2")


@vendor_spread
def add_binary_layer(
    p_bmcpl: BMCompiler,
    left: Annotated[OperandOfRank, Tag("A")],
    right: Annotated[OperandOfRank, Tag("B")],
    input_dim: int,
    output_name: str,
    binary_op: int,
) -> None:
    """add_binary_layer_v2 for operands with the same number of dimensions."""
    _binary_of(p_bmcpl, (left, right), binary_op, output_name)


add_broadcast_binary_layer = same_as(add_binary_layer, "add_broadcast_binary_layer")


@vendor_spread
def add_eltwise_binary_layer(
    p_bmcpl: BMCompiler,
    left: Annotated[OperandOfShape, Tag("A")],
    right: Annotated[OperandOfShape, Tag("B")],
    input_shape: Annotated[Sequence[int], Ints("input_dim")],
    input_dim: int,
    output_name: str,
    binary_op: int,
) -> None:
    """add_binary_layer_v2 for operands of the same shape."""
    operands = [OperandOfRank(o.name, input_shape, o.is_coeff, o.data) for o in (left, right)]
    _binary_of(p_bmcpl, operands, binary_op, output_name)


@vendor
def add_const_binary_layer(
    p_bmcpl: BMCompiler,
    input_A_name: str,
    input_A_shape: Annotated[Sequence[int], Ints("input_A_dim")],
    input_A_dim: int,
    B_value: float,
    output_name: str,
    binary_op: int,
    inversed: int,
) -> None:
    """A OP B_value for each element (inversed: B_value OP A), fp32."""
    source = p_bmcpl.use(input_A_name, input_A_shape)
    if binary_op in BINARY_OPS:
        p_bmcpl.graph.add_const_binary_layer(source, B_value, output_name, binary_op, inversed)
        return
    value = p_bmcpl.const(np.array([B_value], np.float32), f"{output_name}:value")
    left, right = (value, source) if inversed else (source, value)
    binary(p_bmcpl, left, right, binary_op, output_name)


ELTWISE_PRODUCT, ELTWISE_SUM, ELTWISE_MAX = range(3)


@vendor_spread
def add_eltwise_layer(
    p_bmcpl: BMCompiler,
    xs: Inputs,
    y: Output,
    op_code: int,
    coefficients: Annotated[ArrayLike | None, Floats("input_num")],
) -> None:
    """The product, the sum or the maximum of all inputs.

    op_code 0: product, 1: sum of the inputs times their coefficients (NULL: 1), 2: maximum.
    """
    if op_code not in (ELTWISE_PRODUCT, ELTWISE_SUM, ELTWISE_MAX):
        raise UsageError(f"op_code is {op_code}; it is 0 (product), 1 (sum) or 2 (maximum)")
    names = [p_bmcpl.use(name, shape) for name, shape in zip(xs.names, xs.shapes, strict=True)]
    if op_code == ELTWISE_SUM and coefficients is not None:
        for i, factor in enumerate(np.asarray(coefficients, np.float32)):
            if factor != 1:
                made = p_bmcpl.fresh(f"{y.name}:term")
                p_bmcpl.graph.add_const_binary_layer(names[i], float(factor), made, codes.BINARY_MUL)
                names[i] = made
    if len(names) == 1:
        p_bmcpl.layer("TPU_COPY", names, {"reserved": 0}, y.name, [y.shape])
        return
    param = {"binary_op": BINARY[("MUL", "ADD", "MAX")[op_code]]}
    so_far = names[0]
    for name in names[1:-1]:
        so_far = p_bmcpl.between("TPU_BINARY", [so_far, name], param, y.name)
    p_bmcpl.layer("TPU_BINARY", [so_far, names[-1]], param, y.name, [y.shape])


# ---- activations ----

_ACTIVE = {
    codes.ACTIVE_TANH: ("TANH", 0.0),
    codes.ACTIVE_SIGMOID: ("SIGMOID", 0.0),
    codes.ACTIVE_RELU: ("RELU", 0.0),
    codes.ACTIVE_EXP: ("EXP", 0.0),
    codes.ACTIVE_ELU: ("ELU", 1.0),
    codes.ACTIVE_SQRT: ("SQRT", 0.0),
    codes.ACTIVE_SQUARE: ("SQUARE", 0.0),
    codes.ACTIVE_ABSVAL: ("ABS", 0.0),
    codes.ACTIVE_LN: ("LOG", 0.0),
    codes.ACTIVE_ROUND: ("ROUND", 0.0),
    codes.ACTIVE_CEIL: ("CEIL", 0.0),
    codes.ACTIVE_FLOOR: ("FLOOR", 0.0),
    codes.ACTIVE_MISH: ("MISH", 0.0),
    codes.ACTIVE_SWISH: ("SWISH", 1.0),
    codes.ACTIVE_HSWISH: ("HARD_SWISH", 0.0),
    codes.ACTIVE_SILU: ("SWISH", 1.0),
}


@vendor_spread
def add_active_layer(
    p_bmcpl: BMCompiler,
    x: Input,
    y: Output,
    active_type_id: int,
) -> None:
    """A function of each element, fp32.

    active_type_id: BmActiveType of bmcompiler_op_code.h, but not ACTIVE_SIN, ACTIVE_COS and
    ACTIVE_IS_FINITE.
    """
    source = p_bmcpl.use(x.name, x.shape)
    if active_type_id == codes.ACTIVE_RSQRT:
        root = between_unary(p_bmcpl, source, "SQRT", y.name)
        unary(p_bmcpl, root, "RECIPROCAL", y.name)
        return
    if active_type_id not in _ACTIVE:
        name = codes.code_name("BmActiveType", active_type_id)
        known = sorted((*_ACTIVE, codes.ACTIVE_RSQRT))
        raise UsageError(
            f"no layer computes active_type_id {name}",
            hint=f"there are {', '.join(codes.code_name('BmActiveType', code) for code in known)}",
        )
    kind, a = _ACTIVE[active_type_id]
    param = unary_param(kind, a)
    p_bmcpl.layer("TPU_UNARY", [source], param, y.name, [y.shape])


@vendor_spread
def add_relu_layer(
    p_bmcpl: BMCompiler,
    x: Input,
    y: Output,
    negative_slope: float,
    upper_limit: float,
) -> None:
    """x where it is positive, else negative_slope times x; at most upper_limit, unless that is negative."""
    source = p_bmcpl.use(x.name, x.shape)
    limited = upper_limit >= 0
    if negative_slope != 0:
        kind, a, b = "LEAKY_RELU", negative_slope, 0.0
    elif limited:
        kind, a, b, limited = "CLIP", 0.0, upper_limit, False
    else:
        kind, a, b = "RELU", 0.0, 0.0
    param = unary_param(kind, a, b)
    if limited:
        made = p_bmcpl.between("TPU_UNARY", [source], param, y.name)
        p_bmcpl.graph.add_const_binary_layer(made, upper_limit, y.name, codes.BINARY_MIN)
    else:
        p_bmcpl.layer("TPU_UNARY", [source], param, y.name, [y.shape])


@vendor_spread
def add_prelu_layer(
    p_bmcpl: BMCompiler,
    x: Input,
    y: Output,
    layer_name: str | None,
    channel_shared: int,
    slope_: Annotated[ArrayLike, Floats("input_shape[1]", single="channel_shared")],
) -> None:
    """x where it is positive, else its slope times x; one slope for each channel (dimension 1) or for all."""
    source = p_bmcpl.use(x.name, x.shape)
    slopes = np.asarray(slope_, np.float32)
    if channel_shared:
        param = unary_param("LEAKY_RELU", float(slopes[0]))
        p_bmcpl.layer("TPU_UNARY", [source], param, y.name, [y.shape], layer_name)
        return
    slope = p_bmcpl.const(of_channels(slopes, len(x.shape), 1), f"{y.name}:slope")
    param = {"binary_op": BINARY["PRELU"]}
    p_bmcpl.layer("TPU_BINARY", [source, slope], param, y.name, [y.shape], layer_name)


# ---- scale and bias of channels ----


def of_channels(values: ArrayLike, rank: int, axis: int) -> NDArray[np.float32]:
    """Numbers for dimension `axis` of a tensor, shaped to be broadcast over it."""
    shape = [1] * rank
    shape[axis] = -1
    return np.asarray(values, np.float32).reshape(shape)


def scale_shift(
    p: BMCompiler, source: str, y: Output, factors: ArrayLike, summands: ArrayLike,
    *, axis: int = 1, name: str | None = None,
) -> None:  # fmt: skip
    """A factor and a summand for each index of dimension `axis`."""
    constants = [
        p.const(np.asarray(values, np.float32), f"{y.name}:{what}")
        for what, values in (("factor", factors), ("summand", summands))
    ]
    p.layer("TPU_SCALE_SHIFT", [source, *constants], {"axis": axis, "relu": 0}, y.name, [y.shape], name)


@vendor_spread
def add_scale_layer(
    p_bmcpl: BMCompiler,
    xs: Inputs,
    y: Output,
    layer_name: str | None,
    scale_factor: Annotated[ArrayLike | None, Floats("span(input_shape, axis_, num_axes)")],
    bias_factor: Annotated[ArrayLike | None, Floats("span(input_shape, axis_, num_axes)")],
    num_axes: int,
    axis_: int,
    have_bias: int,
) -> None:
    """x * scale + bias, both with the extents of num_axes dimensions of x from axis_ on (-1: all the rest).

    Numbers given as NULL are further inputs instead, scale before bias; their shapes are these extents, too.
    """
    rank = len(xs.shapes[0]) if xs.number else 0
    missing = [what for what, values in _wanted(scale_factor, bias_factor, have_bias) if values is None]
    if xs.number != 1 + len(missing):
        raise UsageError(
            f"input_num is {xs.number}, but {1 + len(missing)} inputs are needed: the data"
            + "".join(f" and the {what}" for what in missing)
        )
    if not -rank <= axis_ < rank:
        raise UsageError(f"axis_ is {axis_}, and the input has {rank} dimensions")
    axis = axis_ % rank
    extents = xs.shapes[0][axis:] if num_axes < 0 else xs.shapes[0][axis : axis + num_axes]
    source = p_bmcpl.use(xs.names[0], xs.shapes[0])
    if len(extents) == 1 and not missing:
        zeros = np.zeros(extents[0], np.float32)
        summands = bias_factor if have_bias and bias_factor is not None else zeros
        assert scale_factor is not None
        scale_shift(p_bmcpl, source, y, scale_factor, summands, axis=axis, name=layer_name)
        return
    broadcast = [1] * axis + list(extents) + [1] * (rank - axis - len(extents))
    others = iter(range(1, xs.number))
    made = source
    steps = _wanted(scale_factor, bias_factor, have_bias)
    for i, (what, values) in enumerate(steps):
        if values is None:
            other = next(others)
            name = p_bmcpl.use(xs.names[other], xs.shapes[other])
            reshape = {"dims": rank, "shape": [*broadcast, *[0] * (8 - rank)]}
            operand = p_bmcpl.between("TPU_RESHAPE", [name], reshape, y.name)
        else:
            operand = p_bmcpl.const(np.reshape(values, broadcast), f"{y.name}:{what}")
        param = {"binary_op": BINARY["MUL" if what == "scale" else "ADD"]}
        if i + 1 < len(steps):
            made = p_bmcpl.between("TPU_BINARY", [made, operand], param, y.name)
        else:
            p_bmcpl.layer("TPU_BINARY", [made, operand], param, y.name, [y.shape], layer_name)


def _wanted(
    scale: ArrayLike | None, bias: ArrayLike | None, have_bias: int
) -> list[tuple[str, ArrayLike | None]]:
    return [("scale", scale), *([("bias", bias)] if have_bias else [])]


@vendor_spread
def add_biasadd_layer(
    p_bmcpl: BMCompiler,
    x: Input,
    y: Output,
    layer_name: str | None,
    num_output_neuron: int,
    bias: Annotated[ArrayLike, Floats("num_output_neuron")],
    bIsCoefInt8: bool,
) -> None:
    """A number for each channel (dimension 1) added."""
    if bIsCoefInt8:
        raise UsageError("bIsCoefInt8 is true; only fp32 is computed")
    if len(x.shape) < 2 or x.shape[1] != num_output_neuron:
        raise UsageError(f"num_output_neuron is {num_output_neuron}, the channels of {list(x.shape)} are not")
    source = p_bmcpl.use(x.name, x.shape)
    ones = np.ones(num_output_neuron, np.float32)
    scale_shift(p_bmcpl, source, y, ones, bias, name=layer_name)


@vendor_spread
def add_batchnorm_layer(
    p_bmcpl: BMCompiler,
    x: Input,
    y: Output,
    layer_name: str | None,
    mean_param: Annotated[ArrayLike, Floats("input_shape[1]")],
    variance_param: Annotated[ArrayLike, Floats("input_shape[1]")],
    scale_val: float,
    epsilon: float,
    NormMethod: int,
    is_var_need_calc: int = 1,
) -> None:
    """(x - mean) / sqrt(variance + epsilon) for each channel; mean and variance are times scale_val first.

    Only NormMethod 0 and is_var_need_calc 1: what the others mean is not public.
    """
    if NormMethod != 0 or is_var_need_calc != 1:
        raise UsageError(
            f"NormMethod is {NormMethod} and is_var_need_calc {is_var_need_calc}; only 0 and 1 are known",
            hint="compute factors and summands, and call add_scale_layer",
        )
    mean, variance = (np.asarray(v, np.float64) * scale_val for v in (mean_param, variance_param))
    factors = 1 / np.sqrt(variance + epsilon)
    source = p_bmcpl.use(x.name, x.shape)
    scale_shift(p_bmcpl, source, y, factors, -mean * factors, name=layer_name)


# ---- choosing and converting ----


@vendor
def add_select_layer(
    p_bmcpl: BMCompiler,
    cond_name: str,
    s0_name: str | None,
    s0_is_scalar: int,
    s0_scalar: float,
    s1_name: str | None,
    s1_is_scalar: int,
    s1_scalar: float,
    output_name: str,
    shape: Annotated[Sequence[int], Ints("dims")],
    dims: int,
) -> None:
    """s0 where cond is not 0, else s1; each a tensor of this shape or a number."""
    names = [p_bmcpl.use(cond_name, shape)]
    for what, name, is_scalar, number in (
        ("s0", s0_name, s0_is_scalar, s0_scalar),
        ("s1", s1_name, s1_is_scalar, s1_scalar),
    ):
        if is_scalar:
            names.append(p_bmcpl.const(np.array([number], np.float32), f"{output_name}:{what}"))
        elif name is None:
            raise UsageError(f"{what}_name is missing (NULL), and {what}_is_scalar is 0")
        else:
            names.append(p_bmcpl.use(name, shape))
    p_bmcpl.layer("TPU_WHERE", names, {"reserved": 0}, output_name, [shape])


@vendor_spread
def add_dtype_convert_layer(
    p_bmcpl: BMCompiler,
    x: Input,
    output_name: str,
    src_dtype: int,
    dst_dtype: int,
) -> None:
    """The numbers in another type; both are codes of bmcompiler_defs.h: 0 fp32, 6 int32, ..."""
    source = p_bmcpl.use(x.name, x.shape, src_dtype)
    wanted = check_dtype(dst_dtype, "dst_dtype")
    op, param = ("TPU_COPY", {"reserved": 0}) if src_dtype == dst_dtype else ("TPU_CAST", {"to": int(wanted)})
    p_bmcpl.layer(op, [source], param, output_name, [x.shape])
