"""TFLite operations that move elements: shapes, slices, pads, concatenations, gathers."""

from __future__ import annotations

import numpy as np

from user_layers.spelling.foreign import Operation
from user_layers.spelling.speller import Speller, Unspelled, to_first
from user_layers.tflite.table import (
    TFLITE,
    Value,
    activated,
    given,
    int64,
    optional,
    reshaped,
    value,
    whole,
)

_REFLECT = 0  # MIRROR_PAD's mode; the other is SYMMETRIC


@TFLITE.of("RESHAPE", "SQUEEZE", "EXPAND_DIMS")
def _reshape(to: Speller, op: Operation) -> None:
    to.put(op.outputs[0], reshaped(to, to.own(given(op, 0)), to.shape(op.outputs[0])))


@TFLITE.of("TRANSPOSE")
def _transpose(to: Speller, op: Operation) -> None:
    name, out = given(op, 0), op.outputs[0]
    wanted = whole(to, optional(op, 1), "order of axes")
    x = value(to, name)
    rank = len(wanted)
    if sorted(axis % rank for axis in wanted) != list(range(rank)) or rank != to.rank(name):
        raise Unspelled(f"{wanted} is no order of {to.rank(name)} axes")
    wanted = [axis % rank for axis in wanted]
    behind = [wanted[axis] for axis in to_first(rank)] if rank > 2 else []
    if behind == list(x.axes):  # what is there is the result with channels first
        to.put(out, x.name, first=True)
        return
    order = [x.axes.index(axis) for axis in wanted]
    to.put(out, x.name if order == sorted(order) else to.one("Transpose", x.name, perm=order))


@TFLITE.of("CONCATENATION")
def _concatenation(to: Speller, op: Operation) -> None:
    out = op.outputs[0]
    rank = to.rank(out)
    values, first = to.alike([given(op, i) for i in range(len(op.inputs))], out)
    axis = int(op.attributes.get("axis", 0)) % max(rank, 1)
    place = to_first(rank).index(axis) if first else axis
    to.put(out, activated(to, op, to.node("Concat", values, {"axis": place})[0], out), first=first)


@TFLITE.of("PACK")
def _pack(to: Speller, op: Operation) -> None:
    out = op.outputs[0]
    axis = int(op.attributes.get("axis", 0)) % to.rank(out)
    shape = [1 if i == axis else n for i, n in enumerate(to.shape(out))]
    values = [reshaped(to, to.own(given(op, i)), shape) for i in range(len(op.inputs))]
    to.put(out, values[0] if len(values) == 1 else to.node("Concat", values, {"axis": axis})[0])


@TFLITE.of("UNPACK")
def _unpack(to: Speller, op: Operation) -> None:
    name = given(op, 0)
    axis = int(op.attributes.get("axis", 0)) % to.rank(name)
    parts = _split(to, to.own(name), axis, [1] * len(op.outputs))
    for out, part in zip(op.outputs, parts, strict=True):
        to.put(out, reshaped(to, part, to.shape(out)))


@TFLITE.of("SPLIT", "SPLIT_V")
def _splits(to: Speller, op: Operation) -> None:
    name, along = (given(op, 1), optional(op, 0)) if op.kind == "SPLIT" else (given(op, 0), optional(op, 2))
    axis = whole(to, along, "axis")[0] % to.rank(name)
    x = value(to, name)
    parts = _split(to, x.name, x.at(axis), [to.shape(out)[axis] for out in op.outputs])
    for out, part in zip(op.outputs, parts, strict=True):
        to.put(out, part, first=x.first)


def _split(to: Speller, found: str, axis: int, sizes: list[int]) -> list[str]:
    if len(sizes) == 1:
        return [found]
    return to.node("Split", [found, int64(to, sizes)], {"axis": axis}, outputs=len(sizes))


@TFLITE.of("SLICE")
def _slice(to: Speller, op: Operation) -> None:
    begin = whole(to, optional(op, 1), "begin")
    x, sizes = value(to, given(op, 0)), to.shape(op.outputs[0])
    ends = [b + n for b, n in zip(begin, sizes, strict=True)]
    found = to.one("Slice", x.name, int64(to, x.permuted(begin)), int64(to, x.permuted(ends)))
    to.put(op.outputs[0], found, first=x.first)


@TFLITE.of("STRIDED_SLICE")
def _strided_slice(to: Speller, op: Operation) -> None:
    name, out = given(op, 0), op.outputs[0]
    begin, end, step = (
        whole(to, optional(op, i + 1), what) for i, what in enumerate(("begin", "end", "strides"))
    )
    masks = {
        what: int(op.attributes.get(what + "_mask", 0))
        for what in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
    }
    index = []
    for i, (low, high, stride) in enumerate(zip(begin, end, step, strict=True)):
        if masks["ellipsis"] >> i & 1:
            index += [slice(None)] * (to.rank(name) - _sliced(len(begin), masks))
        elif masks["new_axis"] >> i & 1:
            continue
        elif masks["shrink_axis"] >> i & 1:
            place = low % to.shape(name)[len(index)]
            index.append(slice(place, place + 1))
        else:
            start = None if masks["begin"] >> i & 1 else low
            stop = None if masks["end"] >> i & 1 else high
            if op.attributes.get("offset"):  # `end` counts from where it begins, and has no mask
                stop = slice(start, None, stride).indices(to.shape(name)[len(index)])[0] + high
                stop = None if stop < 0 and stride < 0 else max(stop, 0)
            index.append(slice(start, stop, stride))
    index += [slice(None)] * (to.rank(name) - len(index))
    x = value(to, name)
    ranges = [part.indices(extent) for part, extent in zip(index, to.shape(name), strict=True)]
    lows, highs, strides = (list(items) for items in zip(*ranges, strict=True))
    # Down to the first element: ONNX counts -1 from the end, so a number below all is told.
    highs = [-(1 << 31) if high < 0 else high for high in highs]
    found = x.name
    if any(r != (0, extent, 1) for r, extent in zip(ranges, to.shape(name), strict=True)):
        every = int64(to, list(range(len(lows))))
        told = [int64(to, x.permuted(items)) for items in (lows, highs)]
        found = to.one("Slice", found, *told, every, int64(to, x.permuted(strides)))
    if masks["new_axis"] or masks["shrink_axis"]:
        sizes = [len(range(*r)) for r in ranges]
        if x.first:
            found = to.one("Transpose", found, perm=[x.axes.index(axis) for axis in range(len(sizes))])
        to.put(out, reshaped(to, found, to.shape(out)))
    else:
        to.put(out, found, first=x.first)


def _sliced(count: int, masks: dict[str, int]) -> int:
    """How many axes of the input the entries of a STRIDED_SLICE stand for, without the ellipsis."""
    return sum(not (masks["ellipsis"] | masks["new_axis"]) >> i & 1 for i in range(count))


@TFLITE.of("REVERSE_V2")
def _reverse(to: Speller, op: Operation) -> None:
    x = value(to, given(op, 0))
    axes = [x.at(axis) for axis in whole(to, optional(op, 1), "list of axes")]
    told = [int64(to, [n] * len(axes)) for n in (-1, -(1 << 31))]
    found = to.one("Slice", x.name, *told, int64(to, axes), int64(to, [-1] * len(axes)))
    to.put(op.outputs[0], found, first=x.first)


def _amounts(to: Speller, op: Operation, x: Value) -> tuple[list[int], list[int]]:
    """How much is put before and behind each axis of a value."""
    pairs = to.known(optional(op, 1), "paddings").reshape(-1, 2)
    if pairs.min(initial=0) < 0:
        raise Unspelled("its paddings are below 0")
    return x.permuted(pairs[:, 0].tolist()), x.permuted(pairs[:, 1].tolist())


@TFLITE.of("PAD", "PADV2")
def _pad(to: Speller, op: Operation) -> None:
    x = value(to, given(op, 0))
    before, after = _amounts(to, op, x)
    filler = optional(op, 2)
    filled = to.const(0, to.dtype(given(op, 0))) if filler is None else to.own(filler)
    if filler is not None and to.rank(filler):
        filled = reshaped(to, filled, ())
    to.put(op.outputs[0], to.one("Pad", x.name, int64(to, before + after), filled), first=x.first)


@TFLITE.of("MIRROR_PAD")
def _mirror_pad(to: Speller, op: Operation) -> None:
    x = value(to, given(op, 0))
    before, after = _amounts(to, op, x)
    found = x.name
    if op.attributes.get("mode", _REFLECT) == _REFLECT:
        found = to.one("Pad", found, int64(to, before + after), mode="reflect")
    else:  # ONNX mirrors without the element at the edge only
        for place, (low, high) in enumerate(zip(before, after, strict=True)):
            if low or high:
                extent = to.shape(given(op, 0))[x.axes[place]]
                order = np.pad(np.arange(extent), (low, high), mode="symmetric")
                found = to.one("Gather", found, int64(to, order), axis=place)
    to.put(op.outputs[0], found, first=x.first)


@TFLITE.of("GATHER", "EMBEDDING_LOOKUP")
def _gather(to: Speller, op: Operation) -> None:
    if op.kind == "GATHER":
        name, indices, axis = given(op, 0), given(op, 1), int(op.attributes.get("axis", 0))
    else:
        name, indices, axis = given(op, 1), given(op, 0), 0
    if op.attributes.get("batch_dims", 0):
        raise Unspelled("it has batch_dims")
    to.put(op.outputs[0], to.one("Gather", to.own(name), to.own(indices), axis=axis % to.rank(name)))


@TFLITE.of("GATHER_ND")
def _gather_nd(to: Speller, op: Operation) -> None:
    import onnx

    indices = to.one("Cast", to.own(given(op, 1)), to=int(onnx.TensorProto.INT64))
    to.put(op.outputs[0], to.one("GatherND", to.own(given(op, 0)), indices))


@TFLITE.of("TILE")
def _tile(to: Speller, op: Operation) -> None:
    x = value(to, given(op, 0))
    repeats = whole(to, optional(op, 1), "multiples")
    to.put(op.outputs[0], to.one("Tile", x.name, int64(to, x.permuted(repeats))), first=x.first)


@TFLITE.of("BROADCAST_TO")
def _broadcast_to(to: Speller, op: Operation) -> None:
    out = op.outputs[0]
    to.put(out, to.one("Expand", to.own(given(op, 0)), int64(to, to.shape(out))))


@TFLITE.of("FILL")
def _fill(to: Speller, op: Operation) -> None:
    out = op.outputs[0]
    to.put(out, to.one("Expand", to.own(given(op, 1)), int64(to, to.shape(out))))


@TFLITE.of("SHAPE", "RANK")
def _shape(to: Speller, op: Operation) -> None:
    shape = to.shape(given(op, 0))
    to.put(op.outputs[0], to.const(shape if op.kind == "SHAPE" else len(shape), to.dtype(op.outputs[0])))


@TFLITE.of("RANGE")
def _range(to: Speller, op: Operation) -> None:
    parts = [to.known(optional(op, i), what).reshape(()) for i, what in enumerate(("start", "limit", "step"))]
    start, limit, step = (part.item() for part in parts)
    to.put(op.outputs[0], to.const(np.arange(start, limit, step), to.dtype(op.outputs[0])))


@TFLITE.of("ONE_HOT")
def _one_hot(to: Speller, op: Operation) -> None:
    """By a comparison: an index outside is off everywhere, where ONNX's OneHot counts from the end."""
    name, out = given(op, 0), op.outputs[0]
    depth = whole(to, optional(op, 1), "depth")[0]
    axis = int(op.attributes.get("axis", -1)) % to.rank(out)
    shape = list(to.shape(name))
    indices = reshaped(to, to.own(name), [*shape[:axis], 1, *shape[axis:]])
    places = np.arange(depth, dtype=to.dtype(name)).reshape(-1, *[1] * (to.rank(out) - 1 - axis))
    to.put(
        out,
        to.one(
            "Where", to.one("Equal", indices, to.const(places)), to.own(given(op, 2)), to.own(given(op, 3))
        ),
    )


@TFLITE.of("SPACE_TO_BATCH_ND")
def _space_to_batch(to: Speller, op: Operation) -> None:
    """[n, h, w, c] -> [h blocks, w blocks, n, ...] after zeros around it."""
    name, out = given(op, 0), op.outputs[0]
    blocks = whole(to, optional(op, 1), "block shape")
    pairs = to.known(optional(op, 2), "paddings").reshape(-1, 2).tolist()
    shape, count = to.shape(name), len(blocks)
    rest = len(shape) - 1 - count
    before = [0, *(low for low, _ in pairs), *[0] * rest]
    after = [0, *(high for _, high in pairs), *[0] * rest]
    found = to.one("Pad", to.own(name), int64(to, before + after), to.const(0, to.dtype(name)))
    padded = [n + low + high for n, low, high in zip(shape, before, after, strict=True)]
    split = [padded[0]]
    for extent, block in zip(padded[1 : 1 + count], blocks, strict=True):
        split += [extent // block, block]
    split += padded[1 + count :]
    tail = list(range(1 + 2 * count, len(split)))
    order = [*(2 + 2 * i for i in range(count)), 0, *(1 + 2 * i for i in range(count)), *tail]
    found = to.one("Transpose", reshaped(to, found, split), perm=order)
    to.put(out, reshaped(to, found, to.shape(out)))


@TFLITE.of("BATCH_TO_SPACE_ND")
def _batch_to_space(to: Speller, op: Operation) -> None:
    """The opposite of SPACE_TO_BATCH_ND; crops instead of zeros."""
    name, out = given(op, 0), op.outputs[0]
    blocks = whole(to, optional(op, 1), "block shape")
    pairs = to.known(optional(op, 2), "crops").reshape(-1, 2).tolist()
    shape, count = to.shape(name), len(blocks)
    batch = shape[0] // int(np.prod(blocks))
    found = reshaped(to, to.own(name), (*blocks, batch, *shape[1:]))
    order = [count]
    for i in range(count):
        order += [count + 1 + i, i]
    order += range(2 * count + 1, count + len(shape))
    full = [batch, *(n * b for n, b in zip(shape[1:], blocks, strict=False)), *shape[1 + count :]]
    found = reshaped(to, to.one("Transpose", found, perm=order), full)
    if any(low or high for low, high in pairs):
        lows = [0, *(low for low, _ in pairs), *[0] * (len(shape) - 1 - count)]
        ends = [low + n for low, n in zip(lows, to.shape(out), strict=True)]
        found = to.one("Slice", found, int64(to, lows), int64(to, ends))
    to.put(out, found)
