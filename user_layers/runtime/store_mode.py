"""Tensors in device memory whose batches are interleaved, as layers of 8 and 16 bits want them.

1N is the plain array. In 4N, four batches of 8-bit elements share each 32-bit word; in 2N, two of 16-bit
elements. The last word is filled up with zeros. Callers always see the plain array.
"""

from __future__ import annotations

import math

import numpy as np

from firmware_sim.device.api import Array
from firmware_sim.errors import ModelError
from firmware_sim.wire import DType, Format, StoreMode
from user_layers.bmodel.model import Tensor


def format_of(tensor: Tensor) -> Format:
    """Type and store mode. ModelError for a mode that the type does not have."""
    found = Format.of_codes(tensor.dtype, tensor.store_mode if tensor.shape else StoreMode.N1)
    if found is not None:
        return found
    raise ModelError(
        f"{tensor.name!r}, {DType(tensor.dtype).numpy_name}, is stored in mode {tensor.store_mode}; known "
        "are 1N (0), 2N (1) of 16-bit types and 4N (2) of 8-bit types"
    )


def batches_together(tensor: Tensor) -> int:
    """How many batches are interleaved: 1, 2 or 4. Errors: as of format_of."""
    return format_of(tensor).together


def stored_bytes(tensor: Tensor) -> int:
    """Its size in memory, with what fills up the last words."""
    return format_of(tensor).nbytes(tensor.shape)


def stored_shape(shape: tuple[int, ...], together: int) -> tuple[int, ...]:
    """The array in memory: [groups, elements of a batch, batches of a group], or the shape itself."""
    if together == 1:
        return shape
    return (-(-shape[0] // together), math.prod(shape[1:]), together)


def interleave(array: Array, together: int) -> Array:
    """A plain array, [n, ...], in the shape that `stored_shape` gives, filled up with zeros."""
    if together == 1:
        return array
    groups, rest, _ = stored_shape(array.shape, together)
    plain = np.zeros((groups * together, rest), array.dtype)
    plain[: len(array)] = array.reshape(-1, rest)
    return np.ascontiguousarray(plain.reshape(groups, together, rest).transpose(0, 2, 1))


def separate(stored: Array, shape: tuple[int, ...], together: int) -> Array:
    """What interleave() made of an array of this shape, plain again."""
    if together == 1:
        return stored
    groups, rest, _ = stored.shape
    plain = stored.transpose(0, 2, 1).reshape(groups * together, rest)
    return np.ascontiguousarray(plain[: shape[0]].reshape(shape))
