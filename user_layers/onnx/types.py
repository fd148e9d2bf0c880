"""What of a model's values the device can hold, and the arrays at the edge of a net."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from firmware_sim.chip import MAX_SHAPE_DIMS
from firmware_sim.errors import UsageError
from user_layers.net.nodes import MAX_ELEMENTS
from user_layers.onnx.model import Array, Value

_HELD = {
    name: np.dtype(held)
    for name, held in {
        "float32": "float32",
        "int32": "int32",
        "int64": "int32",
        "bool": "float32",  # 0 and 1
        "float16": "float16",
        "bfloat16": "float32",  # which has all its numbers
        "int8": "int8",
        "uint8": "uint8",
        "int16": "int16",
        "uint16": "uint16",
        "uint32": "uint32",
    }.items()
}
_COMPUTED = frozenset({"float32", "int32", "int64", "bool"})
_INT32 = np.iinfo(np.int32)


def held_as(dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    """The type of the device's tensors that hold values of this type; None for one that has none."""
    return _HELD.get(dtype.name)


def is_computed(dtype: np.dtype[Any] | None) -> bool:
    """Whether built-in layers take values of this type."""
    return dtype is not None and dtype.name in _COMPUTED


def obstacle(value: Value) -> str | None:
    """Why the device cannot hold a value ("is float64, ..."); None where it can."""
    if value.kind != "tensor" or value.dtype is None:
        return f"is {value.what}, which no tensor of the device holds"
    if held_as(value.dtype) is None:
        return f"is {value.what}, which no tensor of the device holds"
    if value.fixed is None:
        return "has a shape that is known only when the model runs"
    if min(value.fixed, default=1) < 0:
        return f"has the shape {list(value.fixed)}, which no tensor has"
    if 0 in value.fixed:
        return "has no elements"
    if len(value.fixed) > MAX_SHAPE_DIMS:
        return f"has {len(value.fixed)} dimensions; tensors of the device have {MAX_SHAPE_DIMS}"
    if (count := math.prod(value.fixed)) > MAX_ELEMENTS:
        return f"has {count} elements; tensors of the device have at most {MAX_ELEMENTS}"
    return None


def net_shape(value: Value) -> tuple[int, ...]:
    """The shape of a value in a net: one number without dimensions is (1,)."""
    assert value.fixed is not None
    return value.fixed or (1,)


def to_net(array: Array, value: Value) -> Array:
    """An array of the model as the net takes it. UsageError for whole numbers beyond 32 bits."""
    array = np.asarray(array)
    held = held_as(array.dtype)
    if held is None:
        raise UsageError(f"{value.name!r} is {array.dtype}, which no tensor of the device holds")
    if array.dtype == np.int64 and array.size and (array.min() < _INT32.min or array.max() > _INT32.max):
        raise UsageError(f"{value.name!r} has values beyond 32 bits")
    return array.astype(held).reshape(array.shape or (1,))


def from_net(array: Array, value: Value) -> Array:
    """An array of the net in the type and shape of the model's value."""
    found = array.astype(value.dtype) if value.dtype is not None else array
    return found.reshape(()) if value.shape == () else found
