"""What moves elements, or only gives them another shape."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from user_layers.mindir.words import (
    MINDSPORE,
    as_it_is,
    axis_of,
    given,
    int64,
    integers,
    needed,
    numbers,
    typed,
)
from user_layers.spelling.foreign import Operation
from user_layers.spelling.speller import Speller, Unspelled, to_first, to_last

_ALL = (1 << 31) - 1


@MINDSPORE.of("Reshape")
def reshape(to: Speller, op: Operation) -> None:
    """x, shape. One that is computed is the result's, where that is known: a delegate is told."""
    shape, known = needed(op, 1), to.shape(op.outputs[0])
    told = min(known, default=-1) >= 0 and math.prod(known) == math.prod(to.shape(needed(op, 0)))
    is_told = to.constant(shape) is None and told
    wanted = to.const(known, np.int64) if is_told else int64(to, shape)
    to.put(op.outputs[0], to.one("Reshape", to.own(needed(op, 0)), wanted))


@MINDSPORE.of("Flatten")
def flatten(to: Speller, op: Operation) -> None:
    """x."""
    axis = int(op.attributes.get("axis", 1))
    to.put(op.outputs[0], to.one("Flatten", to.own(needed(op, 0)), axis=axis))


@MINDSPORE.of("Squeeze", "Unsqueeze", "ExpandDims")
def squeeze(to: Speller, op: Operation) -> None:
    """x; the axes are an attribute, with ExpandDims an input."""
    x = to.own(needed(op, 0))
    if op.kind == "ExpandDims":
        axes = integers(to, given(op, 1), "axis")
    else:
        axes = numbers(op.attributes.get("axis", ()))
    name = "Squeeze" if op.kind == "Squeeze" else "Unsqueeze"
    operands = [to.const(axes, np.int64)] if axes else []
    to.put(op.outputs[0], to.one(name, x, *operands))


@MINDSPORE.of("Transpose", "FormatTranspose")
def transpose(to: Speller, op: Operation) -> None:
    """x, the order of axes. Between the two orders that a speller knows nothing moves."""
    name, out = needed(op, 0), op.outputs[0]
    rank = to.rank(name)
    if op.kind == "FormatTranspose":
        nchw = int(op.attributes["dst_format"]) == 0
        order = to_first(rank) if nchw else to_last(rank)
        if op.attributes["dst_format"] == op.attributes["src_format"]:
            order = tuple(range(rank))
    else:
        order = integers(to, given(op, 1), "order of axes")
    if sorted(order) != list(range(rank)):
        raise Unspelled(f"its order of axes is {list(order)} for {rank} dimensions")
    if order == tuple(range(rank)):
        to.put(out, to.own(name))
    elif order == to_first(rank):
        to.put(out, to.first(name))
    elif order == to_last(rank):
        to.put(out, to.own(name), first=True)
    else:
        to.put(out, to.one("Transpose", to.own(name), perm=list(order)))


@MINDSPORE.of("Concat")
def concat(to: Speller, op: Operation) -> None:
    """Any number of tensors."""
    names = [name for name in op.inputs if name is not None]
    values, first = to.alike(names, op.outputs[0])
    axis = axis_of(to, op.outputs[0], int(op.attributes["axis"]), first)
    to.put(op.outputs[0], to.one("Concat", *values, axis=axis), first=first)


@MINDSPORE.of("Stack")
def stack(to: Speller, op: Operation) -> None:
    """Any number of tensors, which get a new axis."""
    axis = axis_of(to, op.outputs[0], int(op.attributes["axis"]), False)
    axes = to.const([axis], np.int64)
    values = [to.one("Unsqueeze", to.own(name), axes) for name in op.inputs if name is not None]
    to.put(op.outputs[0], to.one("Concat", *values, axis=axis))


@MINDSPORE.of("Split")
def split(to: Speller, op: Operation) -> None:
    """x into parts of the sizes of the outputs."""
    name = needed(op, 0)
    x, first = as_it_is(to, name, name)
    axis = int(op.attributes["axis"])
    sizes = to.const(_parts(to, op, axis), np.int64)
    made = to.node("Split", [x, sizes], {"axis": axis_of(to, name, axis, first)}, outputs=len(op.outputs))
    for out, value in zip(op.outputs, made, strict=True):
        to.put(out, value, first=first)


def _parts(to: Speller, op: Operation, axis: int) -> list[int]:
    """The sizes of the parts: as the attribute says, where -1 is what is left, or all alike."""
    whole, count = to.shape(needed(op, 0))[axis], len(op.outputs)
    sizes = [*numbers(op.attributes.get("size_splits") or ())]
    if not sizes:
        sizes = [whole // count] * count
    if sizes.count(-1) == 1:
        sizes[sizes.index(-1)] = whole - sum(sizes) - 1
    if len(sizes) != count or sum(sizes) != whole:
        raise Unspelled(f"its parts {sizes} are not {count} of {whole}")
    return sizes


@MINDSPORE.of("Unstack")
def unstack(to: Speller, op: Operation) -> None:
    """x along one axis, which goes."""
    name = needed(op, 0)
    axis = axis_of(to, name, int(op.attributes["axis"]), False)
    sizes = to.const([1] * len(op.outputs), np.int64)
    made = to.node("Split", [to.own(name), sizes], {"axis": axis}, outputs=len(op.outputs))
    for out, value in zip(op.outputs, made, strict=True):
        to.put(out, to.one("Squeeze", value, to.const([axis], np.int64)))


@MINDSPORE.of("SliceFusion")
def slice_fusion(to: Speller, op: Operation) -> None:
    """x, begin, size (-1: all); `axes` names the axes."""
    begin, size = integers(to, given(op, 1), "begin"), integers(to, given(op, 2), "size")
    axes = numbers(op.attributes.get("axes") or tuple(range(len(begin))))
    ends = [_ALL if n == -1 else b + n for b, n in zip(begin, size, strict=True)]
    _cut(to, op, begin, ends, axes, [1] * len(begin))


@MINDSPORE.of("StridedSlice")
def strided_slice(to: Speller, op: Operation) -> None:
    """x, begin, end, then strides, or axes and strides. Bits of masks leave an end free."""
    begin, end = [*integers(to, given(op, 1), "begin")], [*integers(to, given(op, 2), "end")]
    masks = {key: int(value) for key, value in op.attributes.items() if key.endswith("_mask")}
    if masks.get("ellipsis_mask") or masks.get("new_axis_mask"):
        raise Unspelled("its masks add axes")
    if given(op, 4) is not None:
        axes, steps = integers(to, given(op, 3), "axes"), integers(to, given(op, 4), "strides")
    else:
        axes = tuple(range(len(begin)))
        steps = integers(to, given(op, 3), "strides") if given(op, 3) else (1,) * len(begin)
    for index, step in enumerate(steps):
        if masks.get("begin_mask", 0) >> index & 1:
            begin[index] = 0 if step > 0 else _ALL
        if masks.get("end_mask", 0) >> index & 1:
            end[index] = _ALL if step > 0 else -_ALL
    gone = [axes[i] for i in range(len(begin)) if masks.get("shrink_axis_mask", 0) >> i & 1]
    for index, axis in enumerate(axes):
        if axis in gone:
            end[index] = begin[index] + 1 or _ALL
    _cut(to, op, begin, end, axes, steps, gone)


@MINDSPORE.of("PadFusion")
def pad(to: Speller, op: Operation) -> None:
    """x, pairs of low and high pads, a value."""
    name = needed(op, 0)
    x, first = as_it_is(to, name, op.outputs[0])
    rank = to.rank(name)
    pairs = np.asarray(integers(to, given(op, 1), "pads") if given(op, 1) else op.attributes["paddings"])
    pairs = pairs.reshape(-1, 2)
    full = np.zeros((rank, 2), np.int64)
    full[rank - len(pairs) :] = pairs
    if first:
        full = full[list(to_first(rank))]
    mode = {0: "constant", 1: "reflect"}.get(int(op.attributes["padding_mode"]))
    if mode is None:
        raise Unspelled("it mirrors the edge itself, which ONNX has no mode for")
    value = to.constant(given(op, 2))
    fill = float(value.reshape(-1)[0]) if value is not None else float(op.attributes["constant_value"])
    operands = [x, to.const(full.T.reshape(-1), np.int64)]
    if mode == "constant":
        operands.append(to.const(fill, to.dtype(name)))
    to.put(op.outputs[0], to.node("Pad", operands, {"mode": mode})[0], first=first)


@MINDSPORE.of("Gather")
def gather(to: Speller, op: Operation) -> None:
    """x, indices, axis."""
    (axis,) = integers(to, given(op, 2), "axis") if given(op, 2) else (0,)
    made = to.one("Gather", to.own(needed(op, 0)), to.own(needed(op, 1)), axis=axis)
    to.put(op.outputs[0], made)


@MINDSPORE.of("GatherNd")
def gather_nd(to: Speller, op: Operation) -> None:
    """x, indices."""
    made = to.one("GatherND", to.own(needed(op, 0)), int64(to, needed(op, 1)))
    to.put(op.outputs[0], made)


@MINDSPORE.of("TileFusion")
def tile(to: Speller, op: Operation) -> None:
    """x, how often along each axis."""
    name = needed(op, 0)
    times = integers(to, given(op, 1), "multiples")
    dims = numbers(op.attributes.get("dims") or ())
    full = [1] * to.rank(name)
    for index, count in enumerate(times):
        full[dims[index] if len(dims) == len(times) else len(full) - len(times) + index] = count
    to.put(op.outputs[0], to.one("Tile", to.own(name), to.const(full, np.int64)))


@MINDSPORE.of("BroadcastTo")
def broadcast(to: Speller, op: Operation) -> None:
    """x, shape, which may be an attribute."""
    shape = given(op, 1)
    wanted = int64(to, shape) if shape else to.const(numbers(op.attributes["shape"]), np.int64)
    to.put(op.outputs[0], to.one("Expand", to.own(needed(op, 0)), wanted))


@MINDSPORE.of("Shape", "Size")
def shape_of(to: Speller, op: Operation) -> None:
    """x."""
    typed(to, to.one(op.kind, to.own(needed(op, 0))), np.int64, op.outputs[0])


@MINDSPORE.of("Fill")
def fill(to: Speller, op: Operation) -> None:
    """A value, the shape."""
    made = to.one("Expand", to.own(needed(op, 0)), int64(to, needed(op, 1)))
    to.put(op.outputs[0], made)


@MINDSPORE.of("ZerosLike", "OnesLike")
def constant_like(to: Speller, op: Operation) -> None:
    """x, of which only the shape counts."""
    value = int(op.kind == "OnesLike")
    array = np.full(to.shape(needed(op, 0)), value, to.dtype(op.outputs[0]))
    to.put(op.outputs[0], to.one("Identity", to.const(array)))


@MINDSPORE.of("ReverseV2")
def reverse(to: Speller, op: Operation) -> None:
    """x, from the other end along some axes."""
    axes = numbers(op.attributes["axis"])
    _cut(to, op, [_ALL] * len(axes), [-_ALL] * len(axes), axes, [-1] * len(axes))


@MINDSPORE.of("Depend")
def depend(to: Speller, op: Operation) -> None:
    """x, and what must run before."""
    x, first = as_it_is(to, needed(op, 0), op.outputs[0])
    to.put(op.outputs[0], to.one("Identity", x), first=first)


def _cut(
    to: Speller, op: Operation, begin: Any, end: Any, axes: Any, steps: Any, gone: list[int] | None = None
) -> None:
    name = needed(op, 0)
    x, first = (to.own(name), False) if gone else as_it_is(to, name, name)
    where = [axis_of(to, name, axis, first) for axis in axes]
    constants = [to.const(list(values), np.int64) for values in (begin, end, where, steps)]
    made = to.one("Slice", x, *constants)
    if gone:
        made = to.one("Squeeze", made, to.const(gone, np.int64))
    to.put(op.outputs[0], made, first=first)
