"""Functions that add matrix products, reductions and what normalizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike

from firmware_sim.errors import UsageError
from user_layers.bmcompiler import codes
from user_layers.bmcompiler.arithmetic import between_unary, of_channels, tensor_or_const
from user_layers.bmcompiler.calls import (
    Called,
    Floats,
    Input,
    Ints,
    Output,
    Shapes,
    Tag,
    Texts,
    vendor,
    vendor_spread,
)
from user_layers.bmcompiler.session import BMCompiler
from user_layers.bmcompiler.shapes import axis_of, field, reshape
from user_layers.bmcompiler.windows import planes
from user_layers.net.functions import BINARY

# ---- matrix products ----


@vendor_spread
def add_fc_layer(
    p_bmcpl: BMCompiler,
    x: Input,
    y: Output,
    layer_name: str | None,
    num_input_neuron: int,
    num_output_neuron: int,
    weight: Annotated[ArrayLike, Floats("num_input_neuron", "num_output_neuron")],
    bias: Annotated[ArrayLike | None, Floats("num_output_neuron", when="have_bias")],
    have_bias: int,
    weight_col_is_in_neruon_num: int,
) -> None:
    """x * weight + bias, where x is seen as [M, num_input_neuron].

    weight: [num_input_neuron, num_output_neuron], or transposed when weight_col_is_in_neruon_num is not
    0.
    """
    k, n = num_input_neuron, num_output_neuron
    values = np.reshape(weight, (n, k)).T if weight_col_is_in_neruon_num else np.reshape(weight, (k, n))
    constants = [p_bmcpl.const(np.ascontiguousarray(values), f"{y.name}:weight")]
    if bias is not None:
        constants.append(p_bmcpl.const(np.asarray(bias), f"{y.name}:bias"))
    source = p_bmcpl.use(x.name, x.shape)
    _rows(p_bmcpl, source, x, y, layer_name, constants, k=k, n=n)


def _rows(
    p: BMCompiler, source: str, x: Input, y: Output, name: str | None, others: Sequence[str],
    *, k: int, n: int, turned: int = 0,
) -> None:  # fmt: skip
    """x [M, k] * another [k, n] (turned: [n, k]), reshaped before and after as the shapes given ask for."""
    shape, wanted, output = x.shape, y.shape, y.name
    count = math.prod(shape)
    if k < 1 or count % k:
        raise UsageError(
            f"num_input_neuron is {k}, which does not divide the {count} elements of {list(shape)}"
        )
    rows = count // k
    if list(shape) != [rows, k]:
        made = p.fresh(f"{output}:rows")
        reshape(p, source, shape, made, [rows, k])
        source = made
    param = {"trans_a": 0, "trans_b": turned, "alpha": 1.0}
    if list(wanted) == [rows, n]:
        p.layer("TPU_MATMUL", [source, *others], param, output, [wanted], name)
        return
    made = p.between("TPU_MATMUL", [source, *others], param, output)
    reshape(p, made, [rows, n], output, wanted)


@vendor_spread
def add_fc_weight_layer(
    p_bmcpl: BMCompiler,
    x: Input,
    y: Output,
    layer_name: str | None,
    weight_shape: Annotated[Sequence[int], Ints("weight_shape_dim")],
    weight_shape_dim: int,
    weight_name: str,
    num_input_neuron: int,
    bias: Annotated[ArrayLike | None, Floats("prod(weight_shape)", per="num_input_neuron", when="have_bias")],
    have_bias: int,
    weight_col_is_in_neruon_num: int,
) -> None:
    """add_fc_layer with a tensor [num_input_neuron, output neurons] (or transposed) as the weight."""
    k, turned = num_input_neuron, int(bool(weight_col_is_in_neruon_num))
    if len(weight_shape) != 2 or weight_shape[1 if turned else 0] != k:
        raise UsageError(f"weight_shape is {list(weight_shape)}, and num_input_neuron {k}")
    source = p_bmcpl.use(x.name, x.shape)
    others = [p_bmcpl.use(weight_name, weight_shape)]
    if bias is not None:
        others.append(p_bmcpl.const(np.asarray(bias), f"{y.name}:bias"))
    n = weight_shape[0 if turned else 1]
    _rows(p_bmcpl, source, x, y, layer_name, others, k=k, n=n, turned=turned)


@dataclass(frozen=True)
class Factor:
    """A factor of a product of matrices: a tensor, or numbers of the program."""

    name: Annotated[str | None, Called("input{}_name")]
    shape: Annotated[Sequence[int], Ints("input{}_shape_dim"), Called("input{}_shape")]
    dims: Annotated[int, Called("input{}_shape_dim")]
    is_const: Annotated[int, Called("input{}_is_const")]
    data: Annotated[
        ArrayLike | None, Floats("prod(input{}_shape)", when="input{}_is_const"), Called("input{}_data")
    ]


@vendor_spread
def add_batch_matmul_layer(
    p_bmcpl: BMCompiler,
    left: Annotated[Factor, Tag("0")],
    right: Annotated[Factor, Tag("1")],
    output_name: str,
) -> None:
    """Products of the matrices in the last two dimensions; the dimensions before are broadcast."""
    names = [tensor_or_const(p_bmcpl, f.name, f.shape, f.data, f.is_const) for f in (left, right)]
    p_bmcpl.layer("TPU_MATMUL", names, {"trans_a": 0, "trans_b": 0, "alpha": 1.0}, output_name)


# ---- softmax and reductions ----


@dataclass(frozen=True)
class ThreeExtents:
    """x seen as three dimensions, of which the middle one counts."""

    inner: Annotated[int, Called("inner_num")]
    outer: Annotated[int, Called("outer_num")]
    own: Annotated[int, Called("softmax_dim")]


def _softmax(p: BMCompiler, x: Input, y: Output, extents: ThreeExtents, *, log: int) -> None:
    """Over one dimension where the extents are those around it, else over a reshaped tensor."""
    sizes = (extents.outer, extents.own, extents.inner)
    source = p.use(x.name, x.shape)
    param = {"axis": 1, "flatten": 0, "log": log}
    for d in range(len(x.shape)):
        if (math.prod(x.shape[:d]), x.shape[d], math.prod(x.shape[d + 1 :])) == sizes:
            p.layer("TPU_SOFTMAX", [source], param | {"axis": d}, y.name, [y.shape])
            return
    if min(sizes) < 1 or math.prod(sizes) != math.prod(x.shape):
        raise UsageError(
            f"outer_num {extents.outer} * softmax_dim {extents.own} * inner_num {extents.inner} is not the "
            f"number of elements of {list(x.shape)}"
        )
    apart = p.fresh(f"{y.name}:apart")
    reshape(p, source, x.shape, apart, sizes)
    made = p.between("TPU_SOFTMAX", [apart], param, y.name)
    reshape(p, made, sizes, y.name, y.shape)


@vendor_spread
def add_softmax_layer(p_bmcpl: BMCompiler, x: Input, y: Output, extents: ThreeExtents) -> None:
    """Softmax of x seen as [outer_num, softmax_dim, inner_num], over the middle dimension."""
    _softmax(p_bmcpl, x, y, extents, log=0)


@vendor_spread
def add_log_softmax_layer(p_bmcpl: BMCompiler, x: Input, y: Output, extents: ThreeExtents) -> None:
    """The logarithm of add_softmax_layer."""
    _softmax(p_bmcpl, x, y, extents, log=1)


# REDUCE_... of TPU_REDUCE for BmReduceType.
_REDUCTIONS = {
    codes.REDUCE_SUM: 0,
    codes.REDUCE_MEAN: 1,
    codes.REDUCE_MAX: 2,
    codes.REDUCE_MIN: 3,
    codes.REDUCE_PROD: 4,
}
_SUM_OF_SQUARES = 7


def _reduce_param(kind: int, axes: Sequence[int], keep: int) -> dict[str, object]:
    return {"kind": kind, "keep_dims": keep, "axes_num": len(axes), "axes": field(axes)}


def _reduction(reduce_method: int) -> int:
    if reduce_method not in _REDUCTIONS:
        names = ", ".join(codes.code_name("BmReduceType", code) for code in _REDUCTIONS)
        raise UsageError(
            f"no layer computes reduce_method {codes.code_name('BmReduceType', reduce_method)}",
            hint=f"there are {names}",
        )
    return _REDUCTIONS[reduce_method]


@vendor
def add_reduce_full_layer(
    p_bmcpl: BMCompiler,
    input_name: str,
    output_name: str,
    input_shape: Annotated[Sequence[int], Ints("input_dims")],
    input_dims: int,
    axis_list: Annotated[Sequence[int] | None, Ints("axis_num")],
    axis_num: int,
    reduce_method: int,
    need_keep_dims: int,
) -> None:
    """Sum, mean, maximum, minimum or product over dimensions; axis_num 0: over all.

    reduce_method: BmReduceType of bmcompiler_op_code.h, but not REDUCE_ALL and REDUCE_ANY.
    """
    axes = [axis_of(axis, len(input_shape)) for axis in axis_list or ()]
    param = _reduce_param(_reduction(reduce_method), axes, int(bool(need_keep_dims)))
    p_bmcpl.layer("TPU_REDUCE", [p_bmcpl.use(input_name, input_shape)], param, output_name)


@vendor_spread
def add_reduce_layer(
    p_bmcpl: BMCompiler,
    x: Input,
    y: Output,
    reduce_method: int,
) -> None:
    """Sum, mean, maximum, minimum or product of [N, C, H, W] over N, H and W, or over W.

    reduce_method: the low 16 bits are BmReduceType, the others 0 for N, H and W, 1 for W.
    """
    planes(x.shape, "input_shape")
    where = reduce_method >> 16
    if where not in (0, 1):
        raise UsageError(f"reduce_method is {reduce_method:#x}; its upper bits are 0 (N, H, W) or 1 (W)")
    axes = [3] if where else [0, 2, 3]
    param = _reduce_param(_reduction(reduce_method & 0xFFFF), axes, int(len(y.shape) == 4))
    source = p_bmcpl.use(x.name, x.shape)
    kept = [extent for d, extent in enumerate(x.shape) if d not in axes]
    if len(y.shape) in (4, len(kept)):
        p_bmcpl.layer("TPU_REDUCE", [source], param, y.name, [y.shape])
        return
    made = p_bmcpl.between("TPU_REDUCE", [source], param, y.name)
    reshape(p_bmcpl, made, kept, y.name, y.shape)


@vendor_spread
def add_arg_layer(
    p_bmcpl: BMCompiler,
    x: Input,
    y: Output,
    axis: int,
    method: int,
) -> None:
    """Where along an axis the largest (method 1: smallest) number stands, the first of equal ones; int32."""
    if method not in (0, 1):
        raise UsageError(f"method is {method}; it is 0 (largest) or 1 (smallest)")
    keep = int(len(y.shape) == len(x.shape))
    param = {"axis": axis_of(axis, len(x.shape)), "keep_dims": keep, "select_last": 0, "smallest": method}
    source = p_bmcpl.use(x.name, x.shape)
    p_bmcpl.layer("TPU_ARG", [source], param, y.name, [y.shape])


@vendor_spread
def add_topk_layer(
    p_bmcpl: BMCompiler,
    x: Input,
    k: int,
    dim: int,
    output_shape: Annotated[Sequence[Sequence[int]], Shapes("2", "output_shape_dim")],
    output_shape_dim: Annotated[Sequence[int], Ints("2")],
    output_name: Annotated[Sequence[str], Texts("2")],
) -> None:
    """The k largest numbers along a dimension, falling, and where they stand (int32): two outputs."""
    param = {"axis": axis_of(dim, len(x.shape), "dim"), "k": k, "smallest": 0}
    source = p_bmcpl.use(x.name, x.shape)
    p_bmcpl.layer("TPU_TOPK", [source], param, output_name, output_shape)


# ---- what normalizes ----


@vendor_spread
def add_lrn_layer(
    p_bmcpl: BMCompiler,
    x: Input,
    y: Output,
    alpha_: float,
    size_: int,
    beta_: float,
    k_: float,
) -> None:
    """x / (k_ + alpha_ / size_ * the sum of squares of size_ channels around it) ^ beta_."""
    param = {"size": size_, "alpha": alpha_, "beta": beta_, "bias": k_}
    source = p_bmcpl.use(x.name, x.shape)
    p_bmcpl.layer("TPU_LRN", [source], param, y.name, [y.shape])


@vendor_spread
def add_normalize_layer(
    p_bmcpl: BMCompiler,
    x: Input,
    y: Output,
    layer_name: str | None,
    across_spatial: int,
    channel_shared: int,
    scale_data: Annotated[ArrayLike, Floats("input_shape[1]", single="channel_shared")],
    eps: float,
) -> None:
    """x / sqrt(the sum of its squares + eps) * scale.

    The sum is over the channels, across_spatial: over everything but N. The scale is one number for each
    channel, channel_shared: one for all.
    """
    rank = len(x.shape)
    axes = list(range(1, rank)) if across_spatial else [1]
    p, source = p_bmcpl, p_bmcpl.use(x.name, x.shape)
    total = p.between("TPU_REDUCE", [source], _reduce_param(_SUM_OF_SQUARES, axes, 1), y.name)
    more = p.fresh(f"{y.name}:eps")
    p.graph.add_const_binary_layer(total, eps, more, codes.BINARY_ADD)
    length = between_unary(p, more, "SQRT", y.name)
    unit = p.between("TPU_BINARY", [source, length], {"binary_op": BINARY["DIV"]}, y.name)
    values = np.asarray(scale_data, np.float32)
    scale = p.const(values if channel_shared else of_channels(values, rank, 1), f"{y.name}:scale")
    p.layer("TPU_BINARY", [unit, scale], {"binary_op": BINARY["MUL"]}, y.name, [y.shape], layer_name)
