"""How Caffe's layers that only move data are spelled, and those that are constants."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from user_layers.caffe.words import CAFFE, axis_of, bottom, bottoms, filled, weights
from user_layers.spelling.foreign import Operation
from user_layers.spelling.speller import Speller, Unspelled


def _axis(to: Speller, op: Operation, old: str) -> int:
    """The field axis, or the older one of another name; both have the default 1."""
    axis, other = int(op.attributes.get("axis", 1)), int(op.attributes.get(old, 1))
    if 1 not in (axis, other):
        raise Unspelled(f"it has both axis and {old}")
    return axis_of(to, bottom(op), other if axis == 1 else axis)


@CAFFE.of("Concat")
def concat(to: Speller, op: Operation) -> None:
    """Bottoms one after the other."""
    values = [to.own(name) for name in bottoms(op)]
    axis = _axis(to, op, "concat_dim")
    rest = {(*to.shape(name)[:axis], *to.shape(name)[axis + 1 :]) for name in bottoms(op)}
    if len(rest) > 1:
        shapes = ", ".join(str(to.shape(name)) for name in bottoms(op))
        raise Unspelled(f"its bottoms differ not only along axis {axis}: {shapes}")
    to.put(op.outputs[0], to.one("Concat", *values, axis=axis))


@CAFFE.of("Slice")
def slice_(to: Speller, op: Operation) -> None:
    """Cut at slice_point, or into equal parts."""
    name, axis = bottom(op), _axis(to, op, "slice_dim")
    extent, count = filled(to, name)[axis], len(op.outputs)
    points = [int(point) for point in op.attributes.get("slice_point", ())]
    if points and len(points) != count - 1:
        raise Unspelled(f"it has {len(points)} points for {count} tops")
    if not points and extent % count:
        raise Unspelled(f"{extent} elements cannot be cut into {count} equal parts")
    edges = [0, *points, extent] if points else range(0, extent + 1, extent // count)
    sizes = [after - before for before, after in itertools.pairwise(edges)]
    if min(sizes) < 1:
        raise Unspelled(f"its points {points} do not grow up to {extent}")
    if count == 1:
        to.put(op.outputs[0], to.one("Identity", to.own(name)))
        return
    parts = to.node("Split", [to.own(name), to.const(sizes, np.int64)], {"axis": axis}, outputs=count)
    for top, part in zip(op.outputs, parts, strict=True):
        to.put(top, part)


@CAFFE.of("Flatten")
def flatten(to: Speller, op: Operation) -> None:
    """The axes from `axis` to end_axis as one."""
    name = bottom(op)
    first, last = (
        axis_of(to, name, int(op.attributes.get(key, n))) for key, n in (("axis", 1), ("end_axis", -1))
    )
    shape = to.shape(name)
    if first > last:
        raise Unspelled(f"its axes {first} to {last} are none")
    if (first, last) == (1, len(shape) - 1):
        to.put(op.outputs[0], to.one("Flatten", to.own(name), axis=1))
        return
    target = [*[0] * first, math.prod(filled(to, name)[first : last + 1]), *shape[last + 1 :]]
    to.put(op.outputs[0], to.one("Reshape", to.own(name), to.const(target, np.int64)))


@CAFFE.of("Reshape")
def reshape(to: Speller, op: Operation) -> None:
    """Extents for the num_axes axes from `axis` on; 0 is the bottom's there, -1 what is left."""
    name = bottom(op)
    shape, told = filled(to, name), _extents(op.attributes.get("shape", {}))
    axis, count = int(op.attributes.get("axis", 0)), int(op.attributes.get("num_axes", -1))
    first = axis if axis >= 0 else len(shape) + axis + 1
    last = len(shape) if count == -1 else first + count
    if not 0 <= first <= last <= len(shape):
        raise Unspelled(f"there are no {count} axes from axis {axis} of {shape} on")
    if (
        min(told, default=0) < -1
        or told.count(-1) > 1
        or any(first + i >= len(shape) for i, n in enumerate(told) if n == 0)
    ):
        raise Unspelled(f"its shape {tuple(told)} does not say how {shape} is to be")
    target = [*[0] * first, *told, *shape[last:]]
    known = [shape[i] if n == 0 and i < first + len(told) else n for i, n in enumerate(target)]
    elements, rest = math.prod(shape), math.prod(n for n in known if n != -1)
    if -1 in known and rest and elements % rest == 0:
        known[known.index(-1)] = elements // rest
    if math.prod(known) != elements or -1 in known:
        raise Unspelled(f"{shape} has {elements} elements, which do not make {tuple(target)}")
    if not known:
        target = []
    to.put(op.outputs[0], to.one("Reshape", to.own(name), to.const(target, np.int64)))


def _extents(shape: Any) -> list[int]:
    """The extents of a BlobShape."""
    return [int(n) for n in shape.get("dim", ())]


@CAFFE.of("Permute")
def permute(to: Speller, op: Operation) -> None:
    """Axes in another order; those that are not told follow."""
    rank, order = to.rank(bottom(op)), [int(n) for n in op.attributes.get("order", ())]
    if len(set(order)) != len(order) or any(not 0 <= n < rank for n in order):
        raise Unspelled(f"its order {tuple(order)} is not one of {rank} axes")
    order += [axis for axis in range(rank) if axis not in order]
    to.put(op.outputs[0], to.one("Transpose", to.own(bottom(op)), perm=order))


@CAFFE.of("Crop")
def crop(to: Speller, op: Operation) -> None:
    """As large as the second bottom from `axis` on, from the offsets on."""
    name, shape, wanted = bottom(op), filled(to, bottom(op)), filled(to, bottom(op, 1))
    first = axis_of(to, name, int(op.attributes.get("axis", 2)))
    offsets = [int(n) for n in op.attributes.get("offset", ())]
    count = len(shape) - first
    if len(offsets) not in (0, 1, count) or len(wanted) != len(shape):
        raise Unspelled(f"{len(offsets)} offsets for {count} axes of {shape}, cut to {wanted}")
    starts = offsets if len(offsets) == count else (offsets or [0]) * count
    ends = [start + extent for start, extent in zip(starts, wanted[first:], strict=True)]
    if any(end > extent for end, extent in zip(ends, shape[first:], strict=True)):
        raise Unspelled(f"from {tuple(starts)} on {shape} is smaller than {wanted}")
    axes = list(range(first, len(shape)))
    made = to.one("Slice", to.own(name), *(to.const(n, np.int64) for n in (starts, ends, axes)))
    to.put(op.outputs[0], made)


@CAFFE.of("Tile")
def tile(to: Speller, op: Operation) -> None:
    """Several times along one axis."""
    name, times = bottom(op), int(op.attributes.get("tiles", 0))
    axis = axis_of(to, name, int(op.attributes.get("axis", 1)))
    if times < 1:
        raise Unspelled(f"its tiles are {times}")
    repeats = [times if i == axis else 1 for i in range(to.rank(name))]
    to.put(op.outputs[0], to.one("Tile", to.own(name), to.const(repeats, np.int64)))


@CAFFE.of("Padding")
def padding(to: Speller, op: Operation) -> None:
    """A number around planes."""
    get = op.attributes.get
    if get("pad_method", "CONSTANT") != "CONSTANT" or to.rank(bottom(op)) != 4:
        raise Unspelled(
            f"its method is {get('pad_method', 'CONSTANT')}, for {to.rank(bottom(op))} dimensions"
        )
    pads = [
        0,
        0,
        int(get("pad_t", 0)),
        int(get("pad_l", 0)),
        0,
        0,
        int(get("pad_b", 0)),
        int(get("pad_r", 0)),
    ]
    value = to.const(float(get("pad_value", 0)), np.float32)
    to.put(op.outputs[0], to.one("Pad", to.own(bottom(op)), to.const(pads, np.int64), value))


@CAFFE.of("Reorg")
def reorg(to: Speller, op: Operation) -> None:
    """Darknet's: pixels of squares become channels, of planes as they are before the next reverse one;
    reverse: channels become pixels."""
    name, stride = bottom(op), int(op.attributes.get("stride", 0))
    shape = filled(to, name)
    if len(shape) != 4 or stride < 1 or shape[1] % stride**2:
        raise Unspelled(
            f"a stride of {stride} for {shape}: its square divides the channels of four dimensions"
        )
    if op.attributes.get("reverse", False):
        to.put(op.outputs[0], to.one("DepthToSpace", to.own(name), blocksize=stride))
        return
    n, c, h, w = shape
    if h % stride or w % stride:
        raise Unspelled(f"a stride of {stride} does not divide {h} and {w}")
    wide = to.const([n, c // stride**2, h * stride, w * stride], np.int64)
    value = to.one("SpaceToDepth", to.one("Reshape", to.own(name), wide), blocksize=stride)
    target = to.const([n, c * stride**2, h // stride, w // stride], np.int64)
    to.put(op.outputs[0], to.one("Reshape", value, target))


@CAFFE.of("ShuffleChannel")
def shuffle_channel(to: Speller, op: Operation) -> None:
    """The first channel of each group, then the second ones, and so on."""
    name, group = bottom(op), int(op.attributes.get("group", 1))
    shape = filled(to, name)
    if len(shape) < 2 or group < 1 or shape[1] % group:
        raise Unspelled(f"its {group} groups do not divide the channels of {shape}")
    parts = to.one("Reshape", to.own(name), to.const([0, group, shape[1] // group, -1], np.int64))
    turned = to.one("Transpose", parts, perm=[0, 2, 1, 3])
    to.put(op.outputs[0], to.one("Reshape", turned, to.const([0, *shape[1:]], np.int64)))


# ---- constants ----


@CAFFE.of("Parameter")
def parameter(to: Speller, op: Operation) -> None:
    """Its weights."""
    shape = _extents(op.attributes.get("shape", {}))
    data = weights(to, op, 0)
    if data.size != math.prod(shape):
        raise Unspelled(f"its blob 0 has {data.size} elements, not those of {tuple(shape)}")
    to.put(op.outputs[0], to.const(data.reshape(shape), np.float32))


@CAFFE.of("DummyData")
def dummy_data(to: Speller, op: Operation) -> None:
    """A number everywhere, where the fillers are constant."""
    count, get = len(op.outputs), op.attributes.get
    if any(get(name) for name in ("num", "channels", "height", "width")):
        sides = [_of_each(get(name, ()), count, name) for name in ("num", "channels", "height", "width")]
        shapes = [[int(side[i]) for side in sides] for i in range(count)]
    else:
        shapes = [_extents(shape) for shape in _of_each(get("shape", ()), count, "shape")]
    fillers = _of_each(get("data_filler", ()) or ({},), count, "data_filler")
    for top, shape, filler in zip(op.outputs, shapes, fillers, strict=True):
        if filler.get("type", "constant") != "constant":
            raise Unspelled(f"its filler {filler['type']!r} draws random numbers")
        to.put(top, to.const(np.full(shape, filler.get("value", 0)), np.float32))


def _of_each(values: Any, count: int, what: str) -> Any:
    """A repeated field that stands once, or once for each top."""
    if len(values) not in (1, count):
        raise Unspelled(f"it has {len(values)} of {what} for {count} tops")
    return values if len(values) == count else values * count
