"""Weights stored in fewer bits with scales, and a DEQUANTIZE for each that makes numbers of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from user_layers.spelling.foreign import Array, ForeignModel, Tensor
from user_layers.spelling.integers import fitting


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
            fitting(elements.shape, told)
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
