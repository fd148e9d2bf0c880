"""Values that have the rows of another one in other places: reshaped, transposed, cut, joined, padded with
zeros.

A row is what lies along the last dimension of the value that they come from. Windows of pictures whose
channels come last are such values, and pictures that are rolled around their edges, and pixels that are put
together to one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from user_layers.onnx.model import Array, Model, Node
from user_layers.onnx.views import RESHAPES

FILLED = -1
"""In the place of a row's number: zeros."""
MOST_ROWS = 1 << 18
"""Of a value that is looked at."""


@dataclass(frozen=True)
class Rows:
    """source: the value that has the rows; index: which of them, [..., k], k in the last dimension of the
    value with this index; moves: nodes, one after the other, that copy them."""

    source: str
    index: Array
    moves: int


def moved_rows(model: Model) -> dict[str, Rows]:
    """All such values by name, whatever number of nodes lies between."""
    found: dict[str, Rows] = {}
    for node in model.nodes:
        if node.is_plain:
            _see(model, node, found)
    return found


def _see(model: Model, node: Node, found: dict[str, Rows]) -> None:
    """Note what a node moves."""
    if node.is_a("Concat"):
        parts = [_rows(model, name, found) for name in node.inputs]
        known = [part for part in parts if part is not None]
        if len(known) == len(parts) and len({part.source for part in known}) == 1:
            _note(model, node, node.outputs[0], known, found, int(node.attributes["axis"]))
        return
    if not node.is_a(*RESHAPES, "Identity", "Transpose", "Slice", "Split", "Gather", "Pad"):
        return
    rows = _rows(model, node.inputs[0], found)
    for name in node.makes if rows is not None else ():
        assert rows is not None
        _note(model, node, name, [rows], found)


def _rows(model: Model, name: str, found: dict[str, Rows]) -> Rows | None:
    """A value's rows, of another one or its own."""
    if name in found:
        return found[name]
    value = model.value(name)
    if name in model.constants or value.fixed is None or value.dtype != np.float32 or len(value.fixed) < 2:
        return None
    count = math.prod(value.fixed[:-1])
    if not 0 < count <= MOST_ROWS or value.fixed[-1] < 1:
        return None
    return Rows(name, np.arange(count, dtype=np.int32).reshape(*value.fixed[:-1], 1), 0)


def _note(
    model: Model, node: Node, name: str, parts: Sequence[Rows], found: dict[str, Rows], axis: int = 0
) -> None:
    made, source = model.value(name).fixed, model.value(parts[0].source).fixed
    if made is None or source is None or not made or made[-1] % source[-1] != 0:
        return
    shape = (*made[:-1], made[-1] // source[-1])
    if node.op == "Concat":
        index = _joined(parts, axis)
    elif node.is_a(*RESHAPES, "Identity"):
        index = parts[0].index.reshape(shape) if parts[0].index.size == math.prod(shape) else None
    else:
        index = _part(model, node, name, parts[0].index, source[-1])
    if index is not None and index.shape == shape and 0 < index.size <= MOST_ROWS:
        copies = not node.is_a(*RESHAPES, "Identity")
        found[name] = Rows(parts[0].source, index, max(part.moves for part in parts) + copies)


def _joined(parts: Sequence[Rows], axis: int) -> Array | None:
    shapes = [list(part.index.shape) for part in parts]
    if len({len(shape) for shape in shapes}) > 1 or not -len(shapes[0]) <= axis < len(shapes[0]):
        return None
    for shape in shapes:
        shape[axis] = 0
    return np.concatenate([part.index for part in parts], axis) if shapes[:-1] == shapes[1:] else None


def _part(model: Model, node: Node, name: str, index: Array, width: int) -> Array | None:
    """What a node makes of numbers of rows; None where it takes these apart. width: elements of a row."""
    rank = index.ndim
    if node.op == "Transpose":
        order = [int(d) for d in node.attributes.get("perm", range(rank)[::-1])]
        return index.transpose(order) if sorted(order) == [*range(rank)] and order[-1] == rank - 1 else None
    if node.op == "Split":
        axis = int(node.attributes.get("axis", 0)) % rank
        sizes = [(model.value(one).fixed or ())[axis : axis + 1] for one in node.makes]
        if node.makes != node.outputs or any(not size for size in sizes):
            return None
        ends = np.cumsum([0, *(size[0] for size in sizes)])
        at = node.makes.index(name)
        return _cut(index, axis, int(ends[at]), int(ends[at + 1]), 1, width)
    known = [model.constants.get(one) if one else None for one in node.inputs[1:]]
    if any(array is None and one for array, one in zip(known, node.inputs[1:], strict=True)):
        return None
    if node.op == "Gather":
        axis = int(node.attributes.get("axis", 0)) % rank
        places = known[0]
        if places is None or axis == rank - 1 or (np.abs(places) >= index.shape[axis]).any():
            return None
        taken: Array = index.take(places.astype(np.int64) % index.shape[axis], axis)
        return taken
    return _slice(known, index, width) if node.op == "Slice" else _pad(node, known, index)


def _slice(known: Sequence[Array | None], index: Array, width: int) -> Array | None:
    numbers = [None if array is None else array.reshape(-1).tolist() for array in (*known, *[None] * 4)[:4]]
    starts, ends, axes, steps = numbers
    if starts is None or ends is None:  # before opset 10
        return None
    axes = list(range(len(starts))) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    made: Array | None = index
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        if made is None or not -index.ndim <= axis < index.ndim or step < 1:
            return None
        made = _cut(made, axis % index.ndim, start, end, step, width)
    return made


def _cut(index: Array, axis: int, start: int, end: int, step: int, width: int) -> Array | None:
    if axis == index.ndim - 1:
        extent = index.shape[axis] * width
        start, end, _ = slice(start, end).indices(extent)
        if start % width or end % width or (step != 1 and end - start > 1):
            return None
        start, end = start // width, end // width
    return np.moveaxis(np.moveaxis(index, axis, 0)[start:end:step], 0, axis)


def _pad(node: Node, known: Sequence[Array | None], index: Array) -> Array | None:
    pads, value, axes = (*known, *[None] * 3)[:3]
    if node.attributes.get("mode", "constant") not in ("constant", b"constant") or pads is None:
        return None
    if value is not None and value.size and value.reshape(-1)[0] != 0:
        return None
    along = range(index.ndim) if axes is None else [int(a) % index.ndim for a in axes.reshape(-1)]
    ends = [int(end) for end in pads.reshape(-1)]
    if len(ends) != 2 * len(along) or min(ends) < 0:
        return None
    around = [(0, 0)] * index.ndim
    for i, axis in enumerate(along):
        around[axis] = (ends[i], ends[i + len(along)])
    if any(around[-1]):
        return None
    return np.pad(index, around, constant_values=FILLED)
