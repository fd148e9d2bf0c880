"""What both file formats of MindSpore Lite share."""

from __future__ import annotations

from typing import Any

import numpy as np

from firmware_sim.errors import ModelError
from user_layers.spelling.foreign import Array

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


def constant(raw: bytes, kind: np.dtype[Any], shape: tuple[int, ...], name: str) -> Array:
    """The elements of a constant. Errors: ModelError for bytes that are too few or too many."""
    wanted = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    if min(shape, default=0) < 0 or len(raw) != wanted:
        raise ModelError(f"the constant {name} of shape {list(shape)} and {kind} has {len(raw)} bytes")
    return np.frombuffer(raw, kind).reshape(shape)
