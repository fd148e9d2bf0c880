"""Functions that add layers which only move data, and the net's constants and outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike

from firmware_sim.errors import UsageError
from user_layers.bmcompiler.arithmetic import tensor_or_const
from user_layers.bmcompiler.calls import (
    Floats,
    Input,
    Inputs,
    Ints,
    Output,
    Outputs,
    vendor,
    vendor_spread,
)
from user_layers.bmcompiler.session import BMCompiler
from user_layers.bmcompiler.shapes import LAST, axis_of, field

DimShape = Annotated[Sequence[int], Ints("input_dim")]
DimsShape = Annotated[Sequence[int], Ints("dims")]


@vendor_spread
def add_concat_layer(
    p_bmcpl: BMCompiler,
    xs: Inputs,
    y: Output,
    concat_axis: int,
) -> None:
    """The inputs one after the other along concat_axis."""
    names = [p_bmcpl.use(name, shape) for name, shape in zip(xs.names, xs.shapes, strict=True)]
    p_bmcpl.layer("TPU_CONCAT", names, {"axis": concat_axis}, y.name, [y.shape])


@vendor_spread
def add_split_layer(
    p_bmcpl: BMCompiler,
    x: Input,
    ys: Outputs,
) -> None:
    """Caffe's Split: every output is the input."""
    source = p_bmcpl.use(x.name, x.shape)
    for name, shape in zip(ys.names, ys.shapes, strict=True):
        p_bmcpl.layer("TPU_COPY", [source], {"reserved": 0}, name, [shape])


@vendor_spread
def add_tf_split_layer(
    p_bmcpl: BMCompiler,
    x: Input,
    ys: Outputs,
    shape_dim: int,
    axis: int,
    split_size: Annotated[Sequence[int], Ints("split_num")],
    split_num: int,
) -> None:
    """Pieces along an axis, of the extents split_size; a single one is the number of equal pieces instead."""
    d = axis_of(axis, len(x.shape))
    sizes = list(split_size)
    if len(sizes) == 1:
        if sizes[0] < 1 or x.shape[d] % sizes[0]:
            raise UsageError(f"dimension {d} of {list(x.shape)} has no {sizes[0]} equal pieces")
        sizes = [x.shape[d] // sizes[0]] * sizes[0]
    if len(sizes) != ys.number:
        raise UsageError(f"output_num is {ys.number}, and there are {len(sizes)} pieces")
    source = p_bmcpl.use(x.name, x.shape)
    param = {"axis": d, "sizes": field(sizes, length=16)}
    p_bmcpl.layer("TPU_SPLIT", [source], param, ys.names, ys.shapes)


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


@vendor_spread
def add_crop_layer(
    p_bmcpl: BMCompiler,
    x: Input,
    shape_name: str | None,
    y: Output,
    offsets: Annotated[Sequence[int], Ints("input_shape_dim")],
) -> None:
    """output_shape elements from offsets on. shape_name must be NULL: the shape is known when compiling."""
    if shape_name is not None:
        raise UsageError("the shape is a tensor; give output_shape, and shape_name as NULL")
    if len(y.shape) != len(x.shape):
        raise UsageError(f"output_shape {list(y.shape)} has not the {len(x.shape)} dimensions of the input")
    ends = [start + extent for start, extent in zip(offsets, y.shape, strict=True)]
    source = p_bmcpl.use(x.name, x.shape)
    _sliced(p_bmcpl, source, offsets, ends, [1] * len(ends), y.name, [y.shape])


IndexSize = Annotated[Sequence[int], Ints("index_size")]


def _masked(
    begin: Sequence[int], end: Sequence[int], step: Sequence[int], begin_mask: int, end_mask: int
) -> tuple[list[int], list[int]]:
    """Starts and ends, where a mask's bit stands for the edge."""
    starts, ends = list(begin), list(end)
    for d, s in enumerate(step):
        first, last = (0, LAST) if s > 0 else (LAST, -LAST - 1)
        if begin_mask >> d & 1:
            starts[d] = first
        if end_mask >> d & 1:
            ends[d] = last
    return starts, ends


@vendor_spread
def add_stride_slice_layer(
    p_bmcpl: BMCompiler,
    x: Input,
    y: Output,
    shape_size: int,
    begin_mask: int,
    end_mask: int,
    begin_index: Annotated[Sequence[int], Ints("shape_size")],
    end_index: Annotated[Sequence[int], Ints("shape_size")],
    stride: Annotated[Sequence[int], Ints("shape_size")],
) -> None:
    """Of each dimension d the elements begin_index[d], begin_index[d] + stride[d], ... before end_index[d].

    Negative ones count from the end. Bit d of begin_mask or end_mask: from the first, or to the last element.
    """
    source = p_bmcpl.use(x.name, x.shape)
    starts, ends = _masked(begin_index, end_index, stride, begin_mask, end_mask)
    _sliced(p_bmcpl, source, starts, ends, stride, y.name, [y.shape])


@vendor
def add_stride_slice_layer_v2(
    p_bmcpl: BMCompiler,
    input_name: str,
    input_shape: Annotated[Sequence[int], Ints("input_shape_dim")],
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
    """add_stride_slice_layer with more masks.

    Bit d of shrink_axis_mask: element begin_index[d] alone, without its dimension. Bit d of
    ellipsis_mask: the whole dimension. new_axis_mask must be 0.
    """
    if new_axis_mask:
        raise UsageError(f"new_axis_mask is {new_axis_mask}", hint="call add_expand_dims_layer for it")
    begin_mask, end_mask = begin_mask | ellipsis_mask, end_mask | ellipsis_mask
    gone = [d for d in range(len(begin_index)) if shrink_axis_mask >> d & 1]
    source = p_bmcpl.use(input_name, input_shape)
    starts, ends = _masked(begin_index, end_index, strides, begin_mask, end_mask)
    steps = list(strides)
    for d in gone:
        starts[d], ends[d], steps[d] = begin_index[d], begin_index[d] + 1 or LAST, 1
    if not gone:
        _sliced(p_bmcpl, source, starts, ends, steps, output_name, None)
        return
    made = p_bmcpl.fresh(f"{output_name}:slice")
    _sliced(p_bmcpl, source, starts, ends, steps, made, None)
    kept = [d for d in range(len(input_shape)) if d not in gone] or [0]
    param = {"dims": len(kept), "shape": field([-2 - d for d in kept])}
    p_bmcpl.layer("TPU_RESHAPE", [made], param, output_name)


# ---- more of it ----


@vendor_spread
def add_pad_layer(
    p_bmcpl: BMCompiler,
    x: Input,
    y: Output,
    paddings_: Annotated[Sequence[int], Ints("pad_dim")],
    pad_dim: int,
    pad_val: float,
    pad_mode: int,
) -> None:
    """More elements at the ends: paddings_ has, for each dimension, how many before and behind.

    pad_mode 0: pad_val, 1: mirrored without the edge. The vendor's 2, mirrored with the edge, is not
    computed.
    """
    if len(paddings_) != 2 * len(x.shape):
        raise UsageError(f"pad_dim is {pad_dim}; two for each of {len(x.shape)} dimensions are needed")
    if pad_mode not in (0, 1):
        raise UsageError(f"pad_mode is {pad_mode}; 0 (constant) and 1 (mirrored) are computed")
    param = {"mode": pad_mode, "before": field(paddings_[::2]), "after": field(paddings_[1::2])}
    source = p_bmcpl.use(x.name, x.shape)
    p_bmcpl.layer("TPU_PAD", [source], param | {"value": pad_val, "bits": 0}, y.name, [y.shape])


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


@vendor_spread
def add_dropout_layer(
    p_bmcpl: BMCompiler,
    x: Input,
    y: Output,
) -> None:
    """The input: nothing is left out when a net is used."""
    source = p_bmcpl.use(x.name, x.shape)
    p_bmcpl.layer("TPU_COPY", [source], {"reserved": 0}, y.name, [y.shape])


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
def add_const_data_layer(
    p_bmcpl: BMCompiler,
    input_name: str | None,
    output_name: str,
    shape: Annotated[Sequence[int], Ints("dims")],
    data: Annotated[ArrayLike, Floats("prod(shape)")],
    dims: int,
) -> None:
    """A constant tensor, fp32, called output_name; input_name is not needed here."""
    p_bmcpl.graph.add_const(output_name, np.asarray(data, np.float32).reshape(tuple(shape)))


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
