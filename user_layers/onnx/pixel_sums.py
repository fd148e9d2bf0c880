"""Sums of pixels that constant indices pick, as exporters write averages over windows of several sizes (an
adaptive pool whose output does not divide its input): a gather of all windows, masked, each pixel cut out and
added. They are weighted sums along h, and then along w."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from user_layers.onnx.fold import needed
from user_layers.onnx.model import DOMAIN, Array, Model, Node, reduced_axes

PIXEL_SUMS = "PixelSums"  # of [n, c, h, w] with matrices [made, h] and [made, w]: of this compiler alone
_MOST = 1 << 24  # numbers of the matrix from pixels to pixels
_TERMS = 1 << 20  # of one value
_TAPS = 64  # of TPU_RESIZE
_NEAR = 1e-9
_BATCH, _CHANNEL, _PIXEL = "n", "c", "p"


@dataclass(frozen=True)
class _Picked:
    """A value whose elements are sums of pixels of their channel.

    dims: what each of its dimensions is. places, weights: [*extents of its dimensions of pixels, terms], the
    pixels as numbers in a plane of `source`, and their factors.
    """

    source: str
    dims: tuple[str, ...]
    places: Array
    weights: Array

    def spread(self, values: Array) -> Array | None:
        """Numbers that broadcast against the value, against the terms; None where channels differ in them."""
        full: Array = values.reshape((1,) * (len(self.dims) - values.ndim) + values.shape)
        if any(extent != 1 for what, extent in zip(self.dims, full.shape, strict=True) if what != _PIXEL):
            return None
        kept = [extent for what, extent in zip(self.dims, full.shape, strict=True) if what == _PIXEL]
        return full.reshape(*kept, 1)


def sum_pixels(model: Model) -> Model:
    """Put a node of weighted sums in the place of those that pick pixels and add them up."""
    seen: dict[str, _Picked] = {}
    for node in model.nodes:
        made = _made(model, node, seen)
        if made is not None and made.places.size <= _TERMS:
            seen[node.outputs[0]] = made
    instead: dict[str, list[Node]] = {}
    constants = dict(model.constants)
    for name, value in seen.items():
        if name not in model.results and all(n.outputs[0] in seen for n in model.consumers.get(name, ())):
            continue
        matrices = _matrices(model, value)
        if matrices is None:
            continue
        names = (f"{name}:rows", f"{name}:columns")
        constants.update(zip(names, matrices, strict=True))
        node = model.makers[name]
        instead[name] = [Node(PIXEL_SUMS, DOMAIN, node.name, (value.source, *names), (name,))]
    return needed(model.with_instead(instead, constants, model.values)) if instead else model


def _made(model: Model, node: Node, seen: dict[str, _Picked]) -> _Picked | None:
    if not node.is_plain or len(node.makes) != 1 or model.value(node.outputs[0]).dtype != np.float32:
        return None
    if node.op in ("GatherND", "Gather"):
        return _gathered(model, node, seen.get(node.inputs[0]) or _pixels(model, node.inputs[0]))
    known = [name for name in node.inputs if name in seen]
    if not known:
        return None
    given = seen[known[0]]
    if node.op == "Transpose":
        return _transposed(node, given)
    if node.op == "Where" and len(known) == 1:
        return _masked(model, node, given)
    if node.op == "Add" and len(known) == 2:
        other = seen[known[1]]
        if (given.source, given.dims, given.places.shape[:-1]) != (
            other.source,
            other.dims,
            other.places.shape[:-1],
        ):
            return None
        places, weights = (
            np.concatenate(both, -1)
            for both in ((given.places, other.places), (given.weights, other.weights))
        )
        return replace(given, places=places, weights=weights)
    if node.op in ("ReduceSum", "ReduceMean"):
        return _reduced(model, node, given)
    if node.op in ("Mul", "Div") and len(known) == 1:
        return _scaled(model, node, given)
    return None


def _pixels(model: Model, name: str) -> _Picked | None:
    """A picture, perhaps behind a transpose, where nothing is picked or added yet."""
    maker = model.makers.get(name)
    if maker is not None and maker.is_a("Transpose"):
        given = _pixels_of(model, maker.inputs[0])
        return None if given is None else _transposed(maker, given)
    return _pixels_of(model, name)


def _pixels_of(model: Model, name: str) -> _Picked | None:
    shape = model.value(name).fixed
    if name in model.constants or shape is None or len(shape) != 4 or math.prod(shape[2:]) > _TERMS:
        return None
    places = np.arange(math.prod(shape[2:])).reshape(*shape[2:], 1)
    return _Picked(name, (_BATCH, _CHANNEL, _PIXEL, _PIXEL), places, np.ones(places.shape))


def _transposed(node: Node, given: _Picked) -> _Picked:
    rank = len(given.dims)
    order = [int(i) for i in node.attributes.get("perm", range(rank)[::-1])]
    numbers = [given.dims[:i].count(_PIXEL) for i in order if given.dims[i] == _PIXEL]
    last = given.places.ndim - 1
    dims = tuple(given.dims[i] for i in order)
    places, weights = (array.transpose(*numbers, last) for array in (given.places, given.weights))
    return replace(given, dims=dims, places=places, weights=weights)


def _gathered(model: Model, node: Node, given: _Picked | None) -> _Picked | None:
    indices = model.constants.get(node.inputs[1])
    if given is None or indices is None or given.places.size > _TERMS:
        return None
    if node.op == "Gather":
        axis = int(node.attributes.get("axis", 0)) % len(given.dims)
        at, new = (indices,), indices.ndim
    else:
        axis, new = 0, indices.ndim - 1
        at = tuple(np.moveaxis(indices, -1, 0))
        if int(node.attributes.get("batch_dims", 0)):
            return None
    gone = given.dims[axis : axis + len(at)]
    if any(what != _PIXEL for what in gone) or math.prod(at[0].shape) * given.places.size > _MOST:
        return None
    number = given.dims[:axis].count(_PIXEL)
    extents = given.places.shape[number : number + len(at)]
    if any(i.size and (i.min() < 0 or i.max() >= n) for i, n in zip(at, extents, strict=True)):
        return None  # it goes by extents of another run
    index: Any = (*(slice(None),) * number, *at)
    dims = (*given.dims[:axis], *(_PIXEL,) * new, *given.dims[axis + len(at) :])
    return replace(given, dims=dims, places=given.places[index], weights=given.weights[index])


def _reduced(model: Model, node: Node, given: _Picked) -> _Picked | None:
    """Sums along dimensions of pixels."""
    gone = sorted(reduced_axes(node, model.constants, len(given.dims)) or ())
    if not gone or node.attributes.get("keepdims", 1) or any(given.dims[axis] != _PIXEL for axis in gone):
        return None
    numbers = [given.dims[:axis].count(_PIXEL) for axis in gone]
    kept = [n for n in range(given.places.ndim - 1) if n not in numbers]
    order = (*kept, *numbers, given.places.ndim - 1)
    shape = [given.places.shape[n] for n in kept]
    count = math.prod(given.places.shape[n] for n in numbers) if node.op == "ReduceMean" else 1
    places, weights = (a.transpose(order).reshape(*shape, -1) for a in (given.places, given.weights / count))
    dims = tuple(what for axis, what in enumerate(given.dims) if axis not in gone)
    return replace(given, dims=dims, places=places, weights=weights)


def _masked(model: Model, node: Node, given: _Picked) -> _Picked | None:
    """Zeros in the place of some."""
    condition, *sides = node.inputs
    which = sides[0] in model.constants
    zero = model.constants.get(sides[0 if which else 1])
    keep = model.constants.get(condition)
    if zero is None or keep is None or np.any(zero) or np.size(zero) != 1:
        return None
    spread = given.spread(np.asarray(~keep if which else keep))
    return None if spread is None else replace(given, weights=given.weights * spread)


def _scaled(model: Model, node: Node, given: _Picked) -> _Picked | None:
    left, right = node.inputs
    values = model.constants.get(left if left in model.constants else right)
    if values is None or (node.op == "Div" and left in model.constants):
        return None
    shape = model.value(node.outputs[0]).fixed
    if shape is None or values.ndim > len(given.dims):
        return None
    spread = given.spread(values.astype(np.float64))
    if spread is None or (node.op == "Div" and not np.all(spread)):
        return None
    weights = given.weights * spread if node.op == "Mul" else given.weights / spread
    return replace(given, weights=weights) if weights.shape == given.places.shape else None


def _matrices(model: Model, value: _Picked) -> tuple[Array, Array] | None:
    """What sums up the rows of pixels, and what the columns; None where it cannot be said so."""
    shape = model.value(value.source).fixed or ()
    made = value.places.shape[:-1]
    if value.dims != (_BATCH, _CHANNEL, _PIXEL, _PIXEL) or value.places.shape[-1] < 2:
        return None
    count = math.prod(made)
    if count * math.prod(shape[2:]) > _MOST:
        return None
    matrix = np.zeros((count, math.prod(shape[2:])))
    np.add.at(
        matrix, (np.arange(count)[:, None], value.places.reshape(count, -1)), value.weights.reshape(count, -1)
    )
    matrix = matrix.reshape(*made, *shape[2:])
    total = matrix.sum()
    if not total or not np.isfinite(total):
        return None
    rows, columns = matrix.sum((1, 3)), matrix.sum((0, 2)) / total
    if not np.allclose(
        np.einsum("ah,bw->abhw", rows, columns), matrix, rtol=_NEAR, atol=_NEAR * abs(matrix).max()
    ):
        return None
    if any(np.count_nonzero(side, 1).max() > _TAPS for side in (rows, columns)):
        return None
    scale = np.abs(columns.sum(1)).max() or 1.0  # so that an average is one along both
    return (rows * scale).astype(np.float32), (columns / scale).astype(np.float32)
