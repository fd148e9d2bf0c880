"""Functions that add layers giving the same elements under another shape or in another order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike

from firmware_sim.chip import MAX_SHAPE_DIMS
from firmware_sim.errors import UsageError
from user_layers.bmcompiler.arithmetic import tensor_or_const
from user_layers.bmcompiler.calls import (
    Floats,
    Input,
    Ints,
    Output,
    Unread,
    same_as,
    vendor,
    vendor_spread,
)
from user_layers.bmcompiler.session import BMCompiler

DimShape = Annotated[Sequence[int], Ints("input_dim")]
DimsShape = Annotated[Sequence[int], Ints("dims")]
LAST = np.iinfo(np.int32).max


def field(values: Sequence[int], fill: int = 0, length: int = MAX_SHAPE_DIMS) -> list[int]:
    """A field of 8 numbers (or `length`) that begins with these. UsageError for more."""
    if len(values) > length:
        raise UsageError(f"{len(values)} numbers {list(values)}; there is room for {length}")
    return [*(int(v) for v in values), *[fill] * (length - len(values))]


def axis_of(axis: int, rank: int, what: str = "axis") -> int:
    """An axis counted from the start. UsageError for one that is none."""
    if not -rank <= axis < rank:
        raise UsageError(f"{what} is {axis}, and the input has {rank} dimensions")
    return axis % rank


def reshape(p: BMCompiler, source: str, shape: Sequence[int], output: str, wanted: Sequence[int]) -> None:
    """The same elements under another shape.

    So that a dynamic net takes other batches, extents that stand where the input has the same follow
    it, and the first other one is what the elements leave.
    """
    if math.prod(wanted) != math.prod(shape):
        raise UsageError(f"{list(shape)} has {math.prod(shape)} elements, {list(wanted)} {math.prod(wanted)}")
    same = [i < len(shape) and extent == shape[i] for i, extent in enumerate(wanted)]
    extents = [0 if kept else extent for kept, extent in zip(same, wanted, strict=True)]
    if False in same:
        extents[same.index(False)] = -1
    p.layer("TPU_RESHAPE", [source], {"dims": len(wanted), "shape": field(extents)}, output, [wanted])


# ---- shapes ----


@vendor_spread
def add_reshape_layer(
    p_bmcpl: BMCompiler,
    x: Input,
    y: Output,
    raw_param: Annotated[None, Unread("const int *")],
) -> None:
    """The same elements as output_shape. raw_param is not read.

    In a dynamic net extents that stand where the input has the same follow it; the first other one is what
    the elements leave.
    """
    reshape(p_bmcpl, p_bmcpl.use(x.name, x.shape), x.shape, y.name, y.shape)


add_flatten_layer = same_as(add_reshape_layer, "add_flatten_layer")


@vendor
def add_reshape_layer_v2(
    p_bmcpl: BMCompiler,
    input_name: str,
    input_shape: DimShape,
    input_dim: int,
    output_name: str,
    new_shape: Annotated[Sequence[int], Ints("new_dims")],
    new_dims: int,
) -> None:
    """The same elements as new_shape.

    Codes in new_shape: 0 is the input's extent at that place, -1, once, what the others leave, -2 all the
    rest of the input's extents, -3 the product of the next two; -4 splits the next one into the two numbers
    that follow it, one of which may be -1.
    """
    extents, wanted = _mxnet_shape(input_shape, new_shape)
    if math.prod(wanted) != math.prod(input_shape):
        raise UsageError(f"{list(input_shape)} cannot become {list(new_shape)}")
    source = p_bmcpl.use(input_name, input_shape)
    p_bmcpl.layer(
        "TPU_RESHAPE", [source], {"dims": len(wanted), "shape": field(extents)}, output_name, [wanted]
    )


def _mxnet_shape(shape: Sequence[int], new: Sequence[int]) -> tuple[list[int], list[int]]:
    """Extents as TPU_RESHAPE takes them (-2 - k: the input's k-th), and what they are for this input."""
    extents: list[int] = []
    rest, at = list(new), 0

    def input_extent() -> int:
        nonlocal at
        if at >= len(shape):
            raise UsageError(f"new_shape {list(new)} takes more dimensions than {list(shape)} has")
        at += 1
        return shape[at - 1]

    while rest:
        code = rest.pop(0)
        if code == 0:
            input_extent()
            extents.append(-1 - at)
        elif code == -2:
            extents += [-2 - k for k in range(at, len(shape))]
            at = len(shape)
        elif code == -3:
            extents.append(input_extent() * input_extent())
        elif code == -4:
            if len(rest) < 2:
                raise UsageError(f"new_shape {list(new)} has no two numbers after -4")
            whole, (one, two) = input_extent(), rest[:2]
            del rest[:2]
            extents += [
                whole // max(1, two) if one == -1 else one,
                whole // max(1, one) if two == -1 else two,
            ]
        elif code == -1 or code > 0:
            at += 1
            extents.append(code)
        else:
            raise UsageError(f"new_shape {list(new)} has {code}; extents are positive, codes -4 to 0")
    wanted = [shape[-2 - extent] if extent < -1 else extent for extent in extents]
    if wanted.count(-1) > 1:
        raise UsageError(f"new_shape {list(new)} has -1 more than once")
    if -1 in wanted:
        others = math.prod(extent for extent in wanted if extent != -1)
        wanted[wanted.index(-1)] = math.prod(shape) // max(1, others)
    return extents, wanted


@vendor
def add_flatten_layer_v2(
    p_bmcpl: BMCompiler,
    input_name: str,
    input_shape: DimShape,
    input_dim: int,
    output_name: str,
    begin_dim: int,
    end_dim: int,
) -> None:
    """Dimensions begin_dim up to, and without, end_dim become one; a negative end_dim counts from the end."""
    rank = len(input_shape)
    begin, end = axis_of(begin_dim, rank, "begin_dim"), end_dim + rank + 1 if end_dim < 0 else end_dim
    if not begin < end <= rank:
        raise UsageError(f"end_dim is {end_dim}, begin_dim {begin_dim}, and the input has {rank} dimensions")
    extents = [-2 - k for k in range(rank)]
    wanted = [*input_shape[:begin], math.prod(input_shape[begin:end]), *input_shape[end:]]
    param = {"dims": len(wanted), "shape": field([*extents[:begin], -1, *extents[end:]])}
    p_bmcpl.layer("TPU_RESHAPE", [p_bmcpl.use(input_name, input_shape)], param, output_name, [wanted])


@vendor
def add_squeeze_layer(
    p_bmcpl: BMCompiler,
    input_name: str,
    input_shape: DimShape,
    input_dim: int,
    axis_list: Annotated[Sequence[int] | None, Ints("axis_num")],
    axis_num: int,
    output_name: str,
) -> None:
    """Without the dimensions axis_list, whose extents are 1; axis_num 0: without all of extent 1."""
    rank = len(input_shape)
    axes = {axis_of(axis, rank) for axis in axis_list or ()}
    if not axis_num:
        axes = {d for d, extent in enumerate(input_shape) if extent == 1}
    wrong = [d for d in sorted(axes) if input_shape[d] != 1]
    if wrong:
        raise UsageError(f"dimension {wrong[0]} of {list(input_shape)} has more than one element")
    kept = [d for d in range(rank) if d not in axes] or [0]  # a tensor has at least one dimension
    param = {"dims": len(kept), "shape": field([-2 - d for d in kept])}
    source = p_bmcpl.use(input_name, input_shape)
    p_bmcpl.layer("TPU_RESHAPE", [source], param, output_name, [[input_shape[d] for d in kept]])


@vendor
def add_expand_dims_layer(
    p_bmcpl: BMCompiler,
    input_name: str,
    input_shape: DimShape,
    input_dim: int,
    axis: int,
    output_name: str,
) -> None:
    """A dimension of extent 1 in front of dimension `axis` (-1: at the end); fp32 when input_name is new."""
    source = p_bmcpl.use(input_name, input_shape)
    p_bmcpl.graph.add_expand_dims_layer(source, axis, output_name)


@vendor
def add_expand_ndims_layer(
    p_bmcpl: BMCompiler,
    input_name: str,
    input_shape: DimShape,
    input_dim: int,
    input_data: Annotated[ArrayLike | None, Floats("prod(input_shape)")],
    axis: int,
    ndims: int,
    output_name: str,
) -> None:
    """ndims dimensions of extent 1 in front of dimension `axis` (-1: at the end).

    input_data: the values of a constant, or NULL.
    """
    rank = len(input_shape)
    if not -rank - 1 <= axis <= rank or ndims < 1:
        raise UsageError(f"axis is {axis} and ndims {ndims}, and the input has {rank} dimensions")
    at = axis if axis >= 0 else rank + 1 + axis
    source = tensor_or_const(p_bmcpl, input_name, input_shape, input_data, int(input_data is not None))
    extents = [-2 - k for k in range(rank)]
    param = {"dims": rank + ndims, "shape": field([*extents[:at], *[1] * ndims, *extents[at:]])}
    wanted = [*input_shape[:at], *[1] * ndims, *input_shape[at:]]
    p_bmcpl.layer("TPU_RESHAPE", [source], param, output_name, [wanted])


# ---- order ----


def transpose(p: BMCompiler, source: str, shape: Sequence[int], order: Sequence[int], output: str) -> None:
    """Add TPU_TRANSPOSE: output dimension i is dimension order[i] of the input, of this shape.

    Raises UsageError for an order that is not a permutation.
    """
    if sorted(order) != list(range(len(shape))):
        raise UsageError(f"permute_order {list(order)} is not an order of {len(shape)} dimensions")
    param = {"dims": len(shape), "order": field(order)}
    p.layer("TPU_TRANSPOSE", [source], param, output, [[shape[d] for d in order]])


@vendor_spread
def add_permute_layer(
    p_bmcpl: BMCompiler,
    x: Input,
    y: Output,
    permute_order: Annotated[Sequence[int], Ints("input_shape_dim")],
) -> None:
    """Dimension d of the output is dimension permute_order[d] of the input."""
    source = p_bmcpl.use(x.name, x.shape)
    transpose(p_bmcpl, source, x.shape, permute_order, y.name)


@vendor
def add_transpose_layer(
    p_bmcpl: BMCompiler,
    input_name: str,
    output_name: str,
    shape: DimsShape,
    permute_order: Annotated[Sequence[int], Ints("dims")],
    dims: int,
) -> None:
    """Dimension d of the output is dimension permute_order[d] of the input."""
    transpose(p_bmcpl, p_bmcpl.use(input_name, shape), shape, permute_order, output_name)


@vendor
def add_transpose_layer_v2(
    p_bmcpl: BMCompiler,
    input_name: str,
    input_shape: Annotated[Sequence[int], Ints("input_dims")],
    input_dims: int,
    input_dtype: int,
    output_name: str,
    order_name: str | None,
    permute_order: Annotated[Sequence[int] | None, Ints("input_dims")],
) -> None:
    """add_transpose_layer for any type. order_name must be NULL: the order is known when compiling."""
    if order_name is not None or permute_order is None:
        raise UsageError("the order is a tensor; give permute_order, and order_name as NULL")
    source = p_bmcpl.use(input_name, input_shape, input_dtype)
    transpose(p_bmcpl, source, input_shape, permute_order, output_name)


@vendor_spread
def add_reverse_layer(
    p_bmcpl: BMCompiler,
    x: Input,
    y: Output,
    axis: int,
) -> None:
    """Dimension `axis` in reverse order."""
    d = axis_of(axis, len(x.shape))
    param = {"count": 1, "axes": field([d]), "starts": field([LAST]), "ends": field([-LAST - 1])}
    source = p_bmcpl.use(x.name, x.shape)
    p_bmcpl.layer("TPU_SLICE", [source], param | {"steps": field([-1], 1)}, y.name, [y.shape])


@vendor_spread
def add_shufflechannel_layer(
    p_bmcpl: BMCompiler,
    x: Input,
    y: Output,
    group_: int,
) -> None:
    """Channels c of group g go to place c * groups + g."""
    n, c, *rest = x.shape if len(x.shape) > 1 else (1, 0)
    if group_ < 1 or c < 1 or c % group_:
        raise UsageError(f"group_ is {group_}, which does not divide the channels of {list(x.shape)}")
    apart = [n, group_, c // group_, math.prod(rest)]
    source = p_bmcpl.use(x.name, x.shape)
    groups = p_bmcpl.fresh(f"{y.name}:groups")
    reshape(p_bmcpl, source, x.shape, groups, apart)
    turned = p_bmcpl.between("TPU_TRANSPOSE", [groups], {"dims": 4, "order": field([0, 2, 1, 3])}, y.name)
    reshape(p_bmcpl, turned, [n, c // group_, group_, math.prod(rest)], y.name, y.shape)
