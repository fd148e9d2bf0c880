"""What both file formats of MindSpore Lite share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from firmware_sim.errors import ModelError
from user_layers.spelling.foreign import Array, Operation

# TypeId of the runtime, which .ms files hold too.
TYPE_IDS: dict[int, np.dtype[Any]] = {
    30: np.dtype(bool),
    31: np.dtype(np.int32),
    32: np.dtype(np.int8),
    33: np.dtype(np.int16),
    34: np.dtype(np.int32),
    35: np.dtype(np.int64),
    36: np.dtype(np.uint32),
    37: np.dtype(np.uint8),
    38: np.dtype(np.uint16),
    39: np.dtype(np.uint32),
    40: np.dtype(np.uint64),
    41: np.dtype(np.float32),
    42: np.dtype(np.float16),
    43: np.dtype(np.float32),
    44: np.dtype(np.float64),
}
WHAT = "MindSpore"


def make_operation(
    kind: str, name: str, inputs: tuple[str, ...], outputs: tuple[str, ...], attributes: Mapping[str, Any]
) -> Operation:
    """An operation as both readers give it: a Custom primitive is the layer that its `type` names, with its
    attributes by their names."""
    if kind != "Custom":
        return Operation(kind, name, inputs, outputs, attributes)
    rest = {key: _parsed(value) for key, value in attributes.items() if key != "type"}
    return Operation(str(attributes.get("type", "")), name, inputs, outputs, rest, own=True)


def _parsed(value: Any) -> Any:
    """An attribute of a Custom primitive, which is a text: a number, numbers with spaces or commas between
    them, or the text itself."""
    if not isinstance(value, bytes):
        return value
    text = value.decode(errors="replace").rstrip("\0")
    words = text.replace(",", " ").split()
    for kind in (int, float):
        try:
            numbers = tuple(kind(word) for word in words)
        except ValueError:
            continue
        return numbers[0] if len(numbers) == 1 else numbers if numbers else text
    return text


def constant(raw: bytes, kind: np.dtype[Any], shape: tuple[int, ...], name: str) -> Array:
    """The elements of a constant. Errors: ModelError for bytes that are too few or too many."""
    wanted = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    if min(shape, default=0) < 0 or len(raw) != wanted:
        raise ModelError(f"the constant {name} of shape {list(shape)} and {kind} has {len(raw)} bytes")
    return np.frombuffer(raw, kind).reshape(shape)
