"""How ATen's operators that move elements are spelled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from user_layers.spelling.speller import Unspelled
from user_layers.torch.call import Call, aten, fixed, is_same
from user_layers.torch.program import is_free

_END = np.iinfo(np.int64).max


@aten("view", "view_copy", "reshape", "_unsafe_view", "_reshape_alias", "flatten.using_ints", "unflatten.int")
@aten("view_as", "reshape_as", "_reshape_copy", "ravel")
def _reshape(c: Call) -> str:
    return _shaped(c)


def _shaped(c: Call) -> str:
    if 0 in c.shape():
        raise Unspelled("it has no elements")
    return c.reshaped(c.x(), c.out_shape, c.shape())


@aten("unsqueeze", "unsqueeze_copy")
def _unsqueeze(c: Call) -> str:
    if not is_free(c.shape()):
        return _shaped(c)
    return c.one("Unsqueeze", c.x(), c.ints([c.axis(rank=c.rank() + 1)]))


@aten("squeeze", "squeeze.dim", "squeeze.dims", "squeeze_copy", "squeeze_copy.dim", "squeeze_copy.dims")
def _squeeze(c: Call) -> str:
    shape = c.shape()
    if not is_free(shape):
        return _shaped(c)
    ones = [axis for axis in c.axes() if is_same(shape[axis], 1)]
    return c.one("Squeeze", c.x(), c.ints(ones)) if ones else c.one("Identity", c.x())


@aten("as_strided", "as_strided_copy")
def _as_strided(c: Call) -> str:
    """As means over whole planes have it: (n, c, 1, 1), which every order of axes in memory has alike."""
    shape, steps = c.out_shape, c.get("stride")
    wanted = [int(np.prod(shape[axis + 1 :])) for axis in range(len(shape))]
    plain = all(n == 1 or s == w for n, s, w in zip(shape, steps, wanted, strict=True))
    whole = np.prod(c.shape()) == np.prod(shape) and not c.get("storage_offset")
    if not (plain and whole) or set(c.shape()[2:]) - {1}:
        raise Unspelled("it looks at memory in another order than its tensor has")
    return c.reshaped(c.x(), shape, c.shape())


@aten("permute", "permute_copy")
def _permute(c: Call) -> str:
    rank = c.rank()
    return c.one("Transpose", c.x(), perm=[int(axis) % rank for axis in c.get("dims")])


@aten("transpose.int", "transpose_copy.int", "t", "t_copy", "swapaxes", "numpy_T")
def _transpose(c: Call) -> str:
    rank = c.rank()
    order = list(range(rank))
    if c.get("dim0") is None and c.get("axis0") is None:
        return c.one("Transpose", c.x(), perm=order[::-1])
    left, right = (int(c.get(f"dim{i}", c.get(f"axis{i}"))) % rank for i in (0, 1))
    order[left], order[right] = right, left
    return c.one("Transpose", c.x(), perm=order)


@aten("expand", "expand_copy", "expand_as", "broadcast_to")
def _expand(c: Call) -> str:
    return c.expanded(c.x(), c.shape(), c.out_shape)


@aten("repeat", "tile")
def _repeat(c: Call) -> str:
    times = [int(n) for n in c.get("repeats", c.get("dims"))]
    rank = c.rank()
    times = [1] * (rank - len(times)) + times
    value = c.x()
    if len(times) > rank:
        value = c.one("Unsqueeze", value, c.ints(list(range(len(times) - rank))))
    return c.one("Tile", value, c.ints(times))


@aten("cat", "concat", "concatenate")
def _cat(c: Call) -> str:
    kept = [i for i in range(len(c.op.inputs)) if c.shape(i) != (0,)]
    axis = int(c.get("dim", 0)) % len(c.out_shape)
    return c.one("Concat", *(c.x(i, c.out_dtype) for i in kept), axis=axis)


@aten("stack")
def _stack(c: Call) -> str:
    axis = int(c.get("dim", 0)) % len(c.out_shape)
    values = [c.one("Unsqueeze", c.x(i, c.out_dtype), c.ints([axis])) for i in range(len(c.op.inputs))]
    return c.one("Concat", *values, axis=axis)


@aten(
    "split.Tensor", "split_copy.Tensor", "split_with_sizes", "split_with_sizes_copy", "chunk", "unsafe_chunk"
)
@aten("tensor_split.sections", "tensor_split.indices", "unsafe_split.Tensor")
def _split(c: Call) -> list[str | None]:
    axis = c.axis(default=0)
    sizes = [c.to.shape(name)[axis] for name in c.op.outputs]
    if len(sizes) == 1:
        return [c.one("Identity", c.x())]
    return list(c.to.node("Split", [c.x(), c.ints(sizes)], {"axis": axis}, outputs=len(sizes)))


@aten("unbind.int", "unbind_copy.int")
def _unbind(c: Call) -> list[str | None]:
    axis = c.axis(default=0)
    return [_taken(c, axis, index) for index in range(len(c.op.outputs))]


@aten("slice.Tensor", "slice_copy.Tensor")
def _slice(c: Call) -> str:
    axis, step = c.axis(default=0), int(c.get("step", 1))
    given = c.op.attributes.get("end")
    whole = is_free(given) and is_same(given, c.shape()[axis])
    return _sliced(c, int(c.get("start", 0)), _END if whole else int(c.get("end", _END)), axis, step)


def _sliced(c: Call, start: int, end: int, axis: int, step: int = 1) -> str:
    return c.one("Slice", c.x(), c.ints([start]), c.ints([end]), c.ints([axis]), c.ints([step]))


@aten("narrow", "narrow_copy")
def _narrow(c: Call) -> str:
    start = int(c.get("start"))
    return _sliced(c, start, start + int(c.get("length")), c.axis())


@aten("select.int", "select_copy.int")
def _select(c: Call) -> str:
    axis, index = c.axis(), int(c.get("index"))
    extent = c.shape()[axis]
    return _taken(c, axis, index if is_free(extent) else index % extent)  # counted from a free end


def _taken(c: Call, axis: int, index: int) -> str:
    end = _END if index == -1 else index + 1
    return c.one("Squeeze", _sliced(c, index, end, axis), c.ints([axis]))


@aten("flip")
def _flip(c: Call) -> str:
    axes = c.axes("dims")
    begin, end, step = [-1] * len(axes), [-_END] * len(axes), [-1] * len(axes)
    return c.one("Slice", c.x(), c.ints(begin), c.ints(end), c.ints(axes), c.ints(step))


@aten("roll")
def _roll(c: Call) -> str:
    shifts = [int(n) for n in c.get("shifts")]
    dims = list(c.get("dims", ()))
    value = c.x() if dims else c.reshaped(c.x(), [-1])
    shape = c.shape() if dims else (int(np.prod(fixed(c.shape()))),)
    for shift, dim in zip(shifts, dims or [0], strict=True):
        axis = int(dim) % len(shape)
        (extent,) = fixed([shape[axis]])
        cut = -shift % extent
        if cut:
            parts = {"axis": axis}
            left, right = c.to.node("Split", [value, c.ints([cut, extent - cut])], parts, outputs=2)
            value = c.one("Concat", right, left, axis=axis)
    return value if dims else c.reshaped(value, c.shape())


@aten("index_select")
def _index_select(c: Call) -> str:
    return c.one("Gather", c.x(), c.x(1), axis=c.axis())


@aten("embedding")
def _embedding(c: Call) -> str:
    return c.one("Gather", c.x(), c.x(1), axis=0)


@aten("gather")
def _gather(c: Call) -> str:
    return c.one("GatherElements", c.x(), c.x(1), axis=c.axis())


@aten("index.Tensor", "_unsafe_index.Tensor")
def _index(c: Call) -> str:
    given = [i for i in range(1, len(c.op.inputs)) if c.has(i)]
    if len(given) != 1:
        if given and given == list(range(given[0], given[0] + len(given))):
            return _index_many(c, given)
        raise Unspelled(f"it has indices for {len(given)} dimensions")
    if c.dtype(given[0]) == np.bool_:
        raise Unspelled("its index is a mask: how much it takes is known only when it runs")
    return c.one("Gather", c.x(), c.x(given[0]), axis=given[0] - 1)


def _index_many(c: Call, given: Sequence[int]) -> str:
    """Indices for neighbouring dimensions, as one tensor: these go to the front, what is taken goes back."""
    if any(c.dtype(i) == np.bool_ for i in given):
        raise Unspelled("its index is a mask: how much it takes is known only when it runs")
    wide = np.broadcast_shapes(*(tuple(fixed(c.shape(i))) for i in given))
    parts = [c.one("Unsqueeze", c.one("Expand", c.x(i), c.ints(wide)), c.ints([len(wide)])) for i in given]
    lead, rank = given[0] - 1, c.rank()
    taken = list(range(lead, lead + len(given)))
    order = [*taken, *(axis for axis in range(rank) if axis not in taken)]
    value = c.one("Transpose", c.x(), perm=order) if lead else c.x()
    made = c.one("GatherND", value, c.one("Concat", *parts, axis=len(wide)))
    if not lead:
        return made
    count = len(wide) + rank - len(given)
    back = [*range(len(wide), len(wide) + lead), *range(len(wide)), *range(len(wide) + lead, count)]
    return c.one("Transpose", made, perm=back)


# ---- padding ----


@aten("constant_pad_nd")
def _constant_pad(c: Call) -> str:
    return _padded(c, "constant", c.const(c.get("value", 0), c.out_dtype))


@aten("pad")
def _pad(c: Call) -> str:
    mode = c.get("mode", "constant")
    if mode == "circular":
        return _padded(c, "wrap")
    if mode == "constant":
        return _padded(c, mode, c.const(c.get("value", 0), c.out_dtype))
    return _padded(c, "edge" if mode == "replicate" else mode)


@aten("reflection_pad1d", "reflection_pad2d", "reflection_pad3d")
def _reflection_pad(c: Call) -> str:
    return _padded(c, "reflect", name="padding")


@aten("replication_pad1d", "replication_pad2d", "replication_pad3d")
def _replication_pad(c: Call) -> str:
    return _padded(c, "edge", name="padding")


def _padded(c: Call, mode: str, *value: str, name: str = "pad") -> str:
    given = [int(n) for n in c.get(name)]  # pairs, from the last axis to the front
    rank = c.rank()
    begin, end = [0] * rank, [0] * rank
    for i in range(len(given) // 2):
        begin[rank - 1 - i], end[rank - 1 - i] = given[2 * i], given[2 * i + 1]
    return c.one("Pad", c.x(), c.ints([*begin, *end]), *value, mode=mode)


# ---- channels ----


@aten("pixel_shuffle")
def _pixel_shuffle(c: Call) -> str:
    return c.one("DepthToSpace", c.x(), blocksize=int(c.get("upscale_factor")), mode="CRD")


@aten("pixel_unshuffle")
def _pixel_unshuffle(c: Call) -> str:
    shape = c.shape()
    *lead, channels = shape[:-2]
    height, width = fixed(shape[-2:])
    r, rank = int(c.get("downscale_factor")), len(lead)
    inner = [*lead, channels, height // r, r, width // r, r]
    order = [*range(rank + 1), rank + 2, rank + 4, rank + 1, rank + 3]
    turned = c.one("Transpose", c.reshaped(c.x(), inner, shape), perm=order)
    return c.reshaped(turned, c.out_shape, [inner[axis] for axis in order])


@aten("channel_shuffle", "native_channel_shuffle")
def _channel_shuffle(c: Call) -> str:
    shape, groups = c.shape(), int(c.get("groups"))
    parts = c.reshaped(c.x(), [shape[0], groups, fixed(shape[1:2])[0] // groups, -1], shape)
    return c.reshaped(c.one("Transpose", parts, perm=[0, 2, 1, 3]), shape, shape[:1])


@aten("triu", "tril")
def _triangle(c: Call) -> str:
    kept: Any = (np.triu if "triu" in c.op.kind else np.tril)(
        np.ones(fixed(c.shape()[-2:]), bool), int(c.get("diagonal", 0))
    )
    return c.one("Where", c.const(kept, np.bool_), c.x(), c.const(0, c.out_dtype))
