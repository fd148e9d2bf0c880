"""Weights stored in fewer bits with scales, and a DEQUANTIZE for each that makes numbers of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from user_layers.spelling.foreign import Array, ForeignModel, Tensor


def with_stored(model: ForeignModel) -> ForeignModel:
    """The attribute `stored` of DEQUANTIZE operations made a constant that only they read.

    The tensor that they name in the file stays no array of numbers for all other operations, which would take
    its elements for plain ones. Raises ValueError for scales that do not fit.
    """
    tensors = dict(model.tensors)
    operations = []
    for operation in model.operations:
        if "stored" in operation.attributes:
            told = dict(operation.attributes)
            elements: Array = told.pop("stored")
            _fitting(elements.shape, told)
            name = f"{operation.name} (stored)"
            while name in tensors:
                name += "'"
            tensors[name] = Tensor(elements.shape, elements.dtype, elements)
            operation = replace(operation, inputs=(name,), attributes=told)
        operations.append(operation)
    return replace(model, tensors=tensors, operations=tuple(operations))


def stored(elements: Array, scales: Array, zero_points: Array, axis: int) -> dict[str, Any]:
    """Attributes of a DEQUANTIZE of a constant. scales, zero_points: one, or for each place on the axis."""
    return {"stored": elements, "scales": scales, "zero_points": zero_points, "axis": axis}


def dequantized(elements: Array, told: Mapping[str, Any]) -> Array:
    """The numbers of stored elements. Raises ValueError for scales that do not fit them."""
    scales, zeros = _fitting(elements.shape, told)
    return ((elements.astype(np.float64) - zeros) * scales.astype(np.float64)).astype(np.float32)


def _fitting(shape: tuple[int, ...], told: Mapping[str, Any]) -> tuple[Array, Array]:
    """Scales and zero points in a shape that is broadcast to the elements'."""
    scales, zeros = (np.asarray(told[name]).reshape(-1) for name in ("scales", "zero_points"))
    axis = int(told["axis"])
    if scales.size == zeros.size == 1:
        return scales, zeros
    if not 0 <= axis < len(shape) or scales.size != shape[axis] or zeros.size not in (1, shape[axis]):
        raise ValueError(
            f"{scales.size} scales and {zeros.size} zero points for axis {axis} of {list(shape)}"
        )
    rest = (1,) * (len(shape) - 1 - axis)
    return scales.reshape(-1, *rest), zeros.reshape(-1, *rest)
