"""Functions that add layers which only move data, and the net's constants and outputs."""

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
    InputDims,
    InputNames,
    InputShape,
    InputShapes,
    Ints,
    OutputDims,
    OutputNames,
    OutputShape,
    OutputShapes,
    Unread,
    same_as,
    vendor,
)
from user_layers.bmcompiler.session import BMCompiler

DimShape = Annotated[Sequence[int], Ints("input_dim")]
DimsShape = Annotated[Sequence[int], Ints("dims")]
_LAST = np.iinfo(np.int32).max


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


def reshape_param(shape: Sequence[int]) -> dict[str, object]:
    return {"dims": len(shape), "shape": field(shape)}


def reshape(p: BMCompiler, source: str, shape: Sequence[int], output: str, wanted: Sequence[int]) -> None:
    """The same elements under another shape. In dynamic nets, what is as in the input follows it, and the one
    other extent, where it is one, is what the elements leave."""
    if math.prod(wanted) != math.prod(shape):
        raise UsageError(f"{list(shape)} has {math.prod(shape)} elements, {list(wanted)} {math.prod(wanted)}")
    same = [i < len(shape) and extent == shape[i] for i, extent in enumerate(wanted)]
    extents = [0 if kept else extent for kept, extent in zip(same, wanted, strict=True)]
    if same.count(False) == 1:
        extents[same.index(False)] = -1
    p.layer("TPU_RESHAPE", [source], {"dims": len(wanted), "shape": field(extents)}, output, [wanted])


# ---- shapes ----


@vendor
def add_reshape_layer(
    p_bmcpl: BMCompiler,
    input_shape: InputShape,
    input_shape_dim: int,
    input_name: str,
    output_shape: OutputShape,
    output_shape_dim: int,
    output_name: str,
    raw_param: Annotated[None, Unread("const int *")],
) -> None:
    """The same elements as output_shape.

    In a dynamic net extents that stand where the input has the same follow it. raw_param is not read.
    """
    reshape(p_bmcpl, p_bmcpl.use(input_name, input_shape), input_shape, output_name, output_shape)


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
    """The same elements as new_shape, where 0 is the input's extent at that place, -1, once, what the others
    leave, -2 all the rest of the input's extents, -3 the product of the next two, and -4 splits the
    next one into the two numbers that follow (one may be -1).
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
    """ndims dimensions of extent 1 in front of dimension `axis` (-1:

    at the end). input_data: of a constant.
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
    if sorted(order) != list(range(len(shape))):
        raise UsageError(f"permute_order {list(order)} is no order of {len(shape)} dimensions")
    param = {"dims": len(shape), "order": field(order)}
    p.layer("TPU_TRANSPOSE", [source], param, output, [[shape[d] for d in order]])


@vendor
def add_permute_layer(
    p_bmcpl: BMCompiler,
    input_shape: InputShape,
    input_shape_dim: int,
    input_name: str,
    output_shape: OutputShape,
    output_shape_dim: int,
    output_name: str,
    permute_order: Annotated[Sequence[int], Ints("input_shape_dim")],
) -> None:
    """Dimension d of the output is dimension permute_order[d] of the input."""
    source = p_bmcpl.use(input_name, input_shape)
    transpose(p_bmcpl, source, input_shape, permute_order, output_name)


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


@vendor
def add_reverse_layer(
    p_bmcpl: BMCompiler,
    input_shape: InputShape,
    input_shape_dim: int,
    input_name: str,
    output_shape: OutputShape,
    output_shape_dim: int,
    output_name: str,
    axis: int,
) -> None:
    """Dimension `axis` in reverse order."""
    d = axis_of(axis, len(input_shape))
    param = {"count": 1, "axes": field([d]), "starts": field([_LAST]), "ends": field([-_LAST - 1])}
    source = p_bmcpl.use(input_name, input_shape)
    p_bmcpl.layer("TPU_SLICE", [source], param | {"steps": field([-1], 1)}, output_name, [output_shape])


@vendor
def add_shufflechannel_layer(
    p_bmcpl: BMCompiler,
    input_shape: InputShape,
    input_shape_dim: int,
    input_name: str,
    output_shape: OutputShape,
    output_shape_dim: int,
    output_name: str,
    group_: int,
) -> None:
    """Channels c of group g go to place c * groups + g."""
    n, c, *rest = input_shape if len(input_shape) > 1 else (1, 0)
    if group_ < 1 or c < 1 or c % group_:
        raise UsageError(f"group_ is {group_}, which does not divide the channels of {list(input_shape)}")
    apart = [n, group_, c // group_, math.prod(rest)]
    source = p_bmcpl.use(input_name, input_shape)
    groups = p_bmcpl.between("TPU_RESHAPE", [source], reshape_param(apart), output_name)
    turned = p_bmcpl.between(
        "TPU_TRANSPOSE", [groups], {"dims": 4, "order": field([0, 2, 1, 3])}, output_name
    )
    p_bmcpl.layer("TPU_RESHAPE", [turned], reshape_param(output_shape), output_name, [output_shape])


# ---- joining and cutting ----


@vendor
def add_concat_layer(
    p_bmcpl: BMCompiler,
    input_num: int,
    input_shape: InputShapes,
    input_shape_dim: InputDims,
    input_name: InputNames,
    output_shape: OutputShape,
    output_shape_dim: int,
    output_name: str,
    concat_axis: int,
) -> None:
    """The inputs one after the other along concat_axis."""
    names = [p_bmcpl.use(name, shape) for name, shape in zip(input_name, input_shape, strict=True)]
    p_bmcpl.layer("TPU_CONCAT", names, {"axis": concat_axis}, output_name, [output_shape])


@vendor
def add_split_layer(
    p_bmcpl: BMCompiler,
    input_shape: InputShape,
    input_shape_dim: int,
    input_name: str,
    output_num: int,
    output_shape: OutputShapes,
    output_shape_dim: OutputDims,
    output_name: OutputNames,
) -> None:
    """Caffe's Split: every output is the input."""
    source = p_bmcpl.use(input_name, input_shape)
    for name, shape in zip(output_name, output_shape, strict=True):
        p_bmcpl.layer("TPU_COPY", [source], {"reserved": 0}, name, [shape])


@vendor
def add_tf_split_layer(
    p_bmcpl: BMCompiler,
    input_shape: InputShape,
    input_shape_dim: int,
    input_name: str,
    output_num: int,
    output_shape: OutputShapes,
    output_shape_dim: OutputDims,
    output_name: OutputNames,
    shape_dim: int,
    axis: int,
    split_size: Annotated[Sequence[int], Ints("split_num")],
    split_num: int,
) -> None:
    """Pieces along an axis, of the extents split_size; a single one is the number of equal pieces instead."""
    d = axis_of(axis, len(input_shape))
    sizes = list(split_size)
    if len(sizes) == 1:
        if sizes[0] < 1 or input_shape[d] % sizes[0]:
            raise UsageError(f"dimension {d} of {list(input_shape)} has no {sizes[0]} equal pieces")
        sizes = [input_shape[d] // sizes[0]] * sizes[0]
    if len(sizes) != output_num:
        raise UsageError(f"output_num is {output_num}, and there are {len(sizes)} pieces")
    source = p_bmcpl.use(input_name, input_shape)
    param = {"axis": d, "sizes": field(sizes, length=16)}
    p_bmcpl.layer("TPU_SPLIT", [source], param, output_name, output_shape)


def _sliced(
    p: BMCompiler,
    source: str,
    begin: Sequence[int],
    end: Sequence[int],
    step: Sequence[int],
    output: str,
    shapes: Sequence[Sequence[int]] | None,
) -> None:
    param = {"count": len(begin), "axes": field(list(range(len(begin)))), "starts": field(begin)}
    p.layer("TPU_SLICE", [source], param | {"ends": field(end), "steps": field(step, 1)}, output, shapes)


@vendor
def add_crop_layer(
    p_bmcpl: BMCompiler,
    input_shape: InputShape,
    input_shape_dim: int,
    input_name: str,
    shape_name: str | None,
    output_shape: OutputShape,
    output_shape_dim: int,
    output_name: str,
    offsets: Annotated[Sequence[int], Ints("input_shape_dim")],
) -> None:
    """output_shape elements from offsets on. shape_name must be NULL: the shape is known when compiling."""
    if shape_name is not None:
        raise UsageError("the shape is a tensor; give output_shape, and shape_name as NULL")
    if len(output_shape) != len(input_shape):
        raise UsageError(
            f"output_shape {list(output_shape)} has not the {len(input_shape)} dimensions of the input"
        )
    ends = [start + extent for start, extent in zip(offsets, output_shape, strict=True)]
    source = p_bmcpl.use(input_name, input_shape)
    _sliced(p_bmcpl, source, offsets, ends, [1] * len(ends), output_name, [output_shape])


IndexSize = Annotated[Sequence[int], Ints("index_size")]


def _masked(
    begin: Sequence[int], end: Sequence[int], step: Sequence[int], begin_mask: int, end_mask: int
) -> tuple[list[int], list[int]]:
    """Starts and ends, where a mask's bit stands for the edge."""
    starts, ends = list(begin), list(end)
    for d, s in enumerate(step):
        first, last = (0, _LAST) if s > 0 else (_LAST, -_LAST - 1)
        if begin_mask >> d & 1:
            starts[d] = first
        if end_mask >> d & 1:
            ends[d] = last
    return starts, ends


@vendor
def add_stride_slice_layer(
    p_bmcpl: BMCompiler,
    input_shape: InputShape,
    input_shape_dim: int,
    input_name: str,
    output_shape: OutputShape,
    output_shape_dim: int,
    output_name: str,
    shape_size: int,
    begin_mask: int,
    end_mask: int,
    begin_index: Annotated[Sequence[int], Ints("shape_size")],
    end_index: Annotated[Sequence[int], Ints("shape_size")],
    stride: Annotated[Sequence[int], Ints("shape_size")],
) -> None:
    """Elements begin_index[d], + stride[d], ...

    before end_index[d] of each dimension; negative ones count from the end. Bit d of begin_mask or
    end_mask: from the first, or to the last element.
    """
    source = p_bmcpl.use(input_name, input_shape)
    starts, ends = _masked(begin_index, end_index, stride, begin_mask, end_mask)
    _sliced(p_bmcpl, source, starts, ends, stride, output_name, [output_shape])


@vendor
def add_stride_slice_layer_v2(
    p_bmcpl: BMCompiler,
    input_name: str,
    input_shape: InputShape,
    input_shape_dim: int,
    output_name: str,
    begin_index: IndexSize,
    end_index: IndexSize,
    strides: IndexSize,
    index_size: int,
    begin_mask: int,
    end_mask: int,
    shrink_axis_mask: int,
    new_axis_mask: int,
    ellipsis_mask: int,
) -> None:
    """add_stride_slice_layer; bit d of shrink_axis_mask: element begin_index[d] alone, without its dimension.
    new_axis_mask must be 0; bit d of ellipsis_mask: the whole dimension."""
    if new_axis_mask:
        raise UsageError(f"new_axis_mask is {new_axis_mask}", hint="call add_expand_dims_layer for it")
    begin_mask, end_mask = begin_mask | ellipsis_mask, end_mask | ellipsis_mask
    gone = [d for d in range(len(begin_index)) if shrink_axis_mask >> d & 1]
    source = p_bmcpl.use(input_name, input_shape)
    starts, ends = _masked(begin_index, end_index, strides, begin_mask, end_mask)
    steps = list(strides)
    for d in gone:
        starts[d], ends[d], steps[d] = begin_index[d], begin_index[d] + 1 or _LAST, 1
    if not gone:
        _sliced(p_bmcpl, source, starts, ends, steps, output_name, None)
        return
    made = p_bmcpl.fresh(f"{output_name}:slice")
    _sliced(p_bmcpl, source, starts, ends, steps, made, None)
    kept = [d for d in range(len(input_shape)) if d not in gone] or [0]
    param = {"dims": len(kept), "shape": field([-2 - d for d in kept])}
    p_bmcpl.layer("TPU_RESHAPE", [made], param, output_name)


# ---- more of it ----


@vendor
def add_pad_layer(
    p_bmcpl: BMCompiler,
    input_shape: InputShape,
    input_shape_dim: int,
    input_name: str,
    output_shape: OutputShape,
    output_shape_dim: int,
    output_name: str,
    paddings_: Annotated[Sequence[int], Ints("pad_dim")],
    pad_dim: int,
    pad_val: float,
    pad_mode: int,
) -> None:
    """Elements around:

    paddings_ has, for each dimension, how many before and behind. pad_mode 0: pad_val, 1: mirrored
    without the edge; the vendor's 2, mirrored with the edge, is not computed.
    """
    if len(paddings_) != 2 * len(input_shape):
        raise UsageError(f"pad_dim is {pad_dim}; two for each of {len(input_shape)} dimensions are needed")
    if pad_mode not in (0, 1):
        raise UsageError(f"pad_mode is {pad_mode}; 0 (constant) and 1 (mirrored) are computed")
    param = {"mode": pad_mode, "before": field(paddings_[::2]), "after": field(paddings_[1::2])}
    source = p_bmcpl.use(input_name, input_shape)
    p_bmcpl.layer("TPU_PAD", [source], param | {"value": pad_val, "bits": 0}, output_name, [output_shape])


InputData = Annotated[ArrayLike | None, Floats("prod(input_shape)", when="input_is_coeff")]


@vendor
def add_tile_layer_v2(
    p_bmcpl: BMCompiler,
    input_name: str,
    input_shape: DimShape,
    input_dim: int,
    input_is_coeff: int,
    input_data: InputData,
    coeff_is_fixed: int,
    coeff_name: str | None,
    tile_coeff: Annotated[Sequence[int] | None, Ints("input_dim")],
    output_name: str,
    type: int,
) -> None:
    """Dimension d tile_coeff[d] times.

    type 0: 1 2 becomes 1 2 1 2, type 1: 1 1 2 2. coeff_is_fixed must be 1.
    """
    if not coeff_is_fixed or tile_coeff is None:
        raise UsageError("the numbers of repeats are a tensor; give tile_coeff, and coeff_is_fixed as 1")
    if type not in (0, 1):
        raise UsageError(f"type is {type}; it is 0 (tile) or 1 (repeat)")
    source = tensor_or_const(p_bmcpl, input_name, input_shape, input_data, input_is_coeff)
    wanted = [extent * times for extent, times in zip(input_shape, tile_coeff, strict=True)]
    if type == 0:
        p_bmcpl.layer("TPU_TILE", [source], {"repeats": field(tile_coeff, 1)}, output_name, [wanted])
        return
    _repeat(p_bmcpl, source, input_shape, tile_coeff, output_name)


def _repeat(p: BMCompiler, source: str, shape: Sequence[int], times: Sequence[int], output: str) -> None:
    """Each element of a dimension several times, by gathering along it."""
    axes = [d for d, count in enumerate(times) if count != 1]
    if not axes:
        p.layer("TPU_COPY", [source], {"reserved": 0}, output, [shape])
    for d in axes:
        if times[d] < 1:
            raise UsageError(f"tile_coeff {list(times)} has a number below 1")
        indices = p.const(np.repeat(np.arange(shape[d], dtype=np.int32), times[d]), f"{output}:indices")
        made = output if d == axes[-1] else p.fresh(f"{output}:repeat")
        p.layer("TPU_GATHER", [source, indices], {"axis": d, "scalar": 0}, made)
        source = made


@vendor
def add_repeat_layer(
    p_bmcpl: BMCompiler,
    input_name: str,
    input_shape: DimShape,
    is_coeff: int,
    data: Annotated[ArrayLike | None, Floats("prod(input_shape)", when="is_coeff")],
    tile_coeff: Annotated[Sequence[int], Ints("input_dim")],
    input_dim: int,
    output_name: str,
) -> None:
    """Each element of dimension d tile_coeff[d] times: 1 2 becomes 1 1 2 2."""
    source = tensor_or_const(p_bmcpl, input_name, input_shape, data, is_coeff)
    _repeat(p_bmcpl, source, input_shape, tile_coeff, output_name)


@vendor
def add_expand_layer(
    p_bmcpl: BMCompiler,
    input_name: str,
    input_shape: DimShape,
    input_dim: int,
    input_is_coeff: int,
    input_data: InputData,
    output_shape_is_fixed: int,
    output_shape_name: str | None,
    output_shape: Annotated[Sequence[int] | None, Ints("output_dim")],
    output_dim: int,
    output_name: str,
) -> None:
    """Broadcast to output_shape. output_shape_is_fixed must be 1."""
    if not output_shape_is_fixed or output_shape is None:
        raise UsageError("the shape is a tensor; give output_shape, and output_shape_is_fixed as 1")
    source = tensor_or_const(p_bmcpl, input_name, input_shape, input_data, input_is_coeff)
    param = {"dims": len(output_shape), "shape": field(output_shape)}
    p_bmcpl.layer("TPU_EXPAND", [source], param, output_name)


# ---- as they are ----


@vendor
def add_identity_layer(
    p_bmcpl: BMCompiler,
    input_name: str,
    input_shape: Annotated[Sequence[int], Ints("input_dims")],
    input_dims: int,
    output_name: str,
) -> None:
    """The input."""
    source = p_bmcpl.use(input_name, input_shape)
    p_bmcpl.layer("TPU_COPY", [source], {"reserved": 0}, output_name, [input_shape])


@vendor
def add_dropout_layer(
    p_bmcpl: BMCompiler,
    input_shape: InputShape,
    input_shape_dim: int,
    input_name: str,
    output_shape: OutputShape,
    output_shape_dim: int,
    output_name: str,
) -> None:
    """The input: nothing is left out when a net is used."""
    source = p_bmcpl.use(input_name, input_shape)
    p_bmcpl.layer("TPU_COPY", [source], {"reserved": 0}, output_name, [output_shape])


# ---- constants and outputs ----


@vendor
def add_coeff_layer(
    p_bmcpl: BMCompiler,
    name: str,
    shape: DimsShape,
    data: Annotated[ArrayLike, Floats("prod(shape)")],
    dims: int,
) -> None:
    """A constant tensor, fp32."""
    p_bmcpl.graph.add_const(name, np.asarray(data, np.float32).reshape(tuple(shape)))


@vendor
def add_output_layer_v2(p_bmcpl: BMCompiler, name: str) -> None:
    """Make a layer's output an output of the net; without such calls all that no layer uses are."""
    p_bmcpl.graph.add_output(name)


@vendor
def add_output_layer(
    p_bmcpl: BMCompiler,
    io_shape: Annotated[Sequence[int], Ints("io_shape_dim")],
    io_shape_dim: int,
    input_name: str,
    output_name: str,
) -> None:
    """Make a tensor an output of the net, under another name when that differs."""
    if output_name != input_name:
        source = p_bmcpl.use(input_name, io_shape)
        p_bmcpl.layer("TPU_COPY", [source], {"reserved": 0}, output_name, [io_shape])
    p_bmcpl.graph.add_output(output_name)
