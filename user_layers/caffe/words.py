"""The table of Caffe's layers that ONNX can say, and what their spellings share.

An operation here is a layer as `read` makes it. `kind` is its type. Inputs are its bottoms, then its weights
(Caffe's blobs), which are constants called LAYER/blob0, LAYER/blob1; results of layers that work in place
have names of their own. Attributes are the fields of the layer's own parameters (`convolution_param`), the
schema's defaults filled in where it has one: repeated fields as tuples, enums by their names, messages as
mappings; what is neither set nor has a default is not there. `blobs` says how many of the inputs are weights.
"""

from __future__ import annotations

import math

import numpy as np

from user_layers.spelling import speller
from user_layers.spelling.foreign import Array, Operation
from user_layers.spelling.spell import Spellings
from user_layers.spelling.speller import Speller, Unspelled

CAFFE = Spellings()


def bottoms(op: Operation) -> tuple[str, ...]:
    """The inputs that are no weights."""
    names = [name for name in op.inputs if name is not None]
    return tuple(names[: len(names) - int(op.attributes.get("blobs", 0))])


def bottom(op: Operation, index: int = 0) -> str:
    """An input that is no weight. Raises Unspelled where it is missing."""
    names = bottoms(op)
    if index >= len(names):
        raise Unspelled(f"it has {len(names)} bottoms; number {index} is missing")
    return names[index]


def weights(to: Speller, op: Operation, index: int) -> Array:
    """The elements of one of its weights. Raises Unspelled where it is missing."""
    names = [name for name in op.inputs if name is not None][len(bottoms(op)) :]
    if index >= len(names):
        raise Unspelled(f"it has {len(names)} blobs of weights; number {index} is missing")
    return to.known(names[index], f"blob {index}")


def axis_of(to: Speller, name: str, axis: int) -> int:
    """An axis of a tensor, which may count from the end, from the first one on. Raises Unspelled where there
    is none."""
    return speller.axis_of(axis, to.rank(name))


def filled(to: Speller, name: str) -> tuple[int, ...]:
    """The extents of a tensor. Raises Unspelled where one is known only when the net runs."""
    shape = to.shape(name)
    if any(extent < 0 for extent in shape):
        raise Unspelled(f"{name!r} has an extent that is known only when the net runs")
    return shape


def blob(to: Speller, op: Operation, index: int, shape: tuple[int, ...]) -> str:
    """The value of one of its weights with that shape (old files have four extents for all of them), which
    may be large: it is not looked at. Raises Unspelled where it is missing or has other elements."""
    names = [name for name in op.inputs if name is not None][len(bottoms(op)) :]
    if index >= len(names):
        raise Unspelled(f"it has {len(names)} blobs of weights; number {index} is missing")
    found = to.shape(names[index])
    if found == shape:
        return to.own(names[index])
    if math.prod(found) != math.prod(shape):
        raise Unspelled(f"its blob {index} has the shape {found}, not {shape}")
    data = to.constant(names[index])
    if data is not None:
        return to.const(data.reshape(shape))
    return to.one("Reshape", to.own(names[index]), to.const(shape, np.int64))
