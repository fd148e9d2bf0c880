"""Quantized models: float operations between casts, which say what the file's integers stand for.

So ONNX says them too, and user_layers/onnx/quantised.py makes 8-bit layers of them. Weights and biases are
the numbers that they stand for. An operation that looks at integers themselves gets those.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from firmware_sim.shown import count
from user_layers.spelling.foreign import Array, ForeignModel, Operation, Scaled, Tensor
from user_layers.spelling.speller import Speller

BYTES = (np.dtype(np.int8), np.dtype(np.uint8))
_WIDE = "is quantized in {} bits; 8-bit integers are computed here, and float32"
_MANY = "is quantized with several scales, though it is computed"


@dataclass(frozen=True)
class Casts:
    """How a framework calls what makes integers of numbers (to) and numbers of integers (back).
    raw: operations that look at the integers themselves."""

    to: str
    back: str
    raw: tuple[str, ...] = ()

    def in_float(self, model: ForeignModel) -> tuple[ForeignModel, Sequence[int]]:
        """The model with float operations, and for each of which of the model's it is a part, -1 for the
        edge. What is quantized in other than 8 bits stays odd, and says so. Raises ValueError for scales
        that do not fit."""
        if all(tensor.scaled is None or tensor.dtype is not None for tensor in model.tensors.values()):
            return model, range(len(model.operations))
        return _Rewriting(model, self).result()


def dequantized(elements: Array, told: Mapping[str, Any]) -> Array:
    """The numbers of stored elements. told: `scales`, `zero_points` and perhaps `shifts`, one or for each
    place on the `axis`. Raises ValueError for scales that do not fit them."""
    scales, zeros = fitting(elements.shape, told)
    numbers = (elements.astype(np.float64) - zeros) * scales.astype(np.float64)
    if told.get("shifts") is not None:
        numbers += np.reshape(told["shifts"], scales.shape)
    return numbers.astype(np.float32)


def fitting(shape: tuple[int, ...], told: Mapping[str, Any]) -> tuple[Array, Array]:
    """Scales and zero points in a shape that is broadcast to the elements'. Raises ValueError for others."""
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


def grid(to: Speller, op: Operation) -> tuple[str, str]:
    """Scale and zero point of a cast that a rewriting made, as constants."""
    scale, zero = (np.asarray(op.attributes[name]).reshape(()) for name in ("scales", "zero_points"))
    return to.const(scale, np.float32), to.const(zero)


class _Rewriting:
    """tensors: of the model that is made. An integer tensor keeps its name; its numbers have another one."""

    def __init__(self, model: ForeignModel, casts: Casts) -> None:
        self._model = model
        self._casts = casts
        self._tensors = dict(model.tensors)
        self._floats: dict[str, str] = {}
        self._computed = 0

    def result(self) -> tuple[ForeignModel, Sequence[int]]:
        for name, tensor in self._model.tensors.items():
            if tensor.scaled is not None:
                self._take(name, tensor, tensor.scaled)
        raw = self._casts.raw
        read = {n for op in self._model.operations if op.kind not in raw for n in op.inputs if n is not None}
        made: list[Operation] = []
        for name in self._model.inputs:
            made += self._dequantize(name, read)
        origins = [-1] * len(made)
        for index, operation in enumerate(self._model.operations):
            made += self._operation(operation, read)
            origins += [index] * (len(made) - len(origins))
        model = replace(
            self._model,
            tensors=self._tensors,
            operations=tuple(made),
            notes=(*self._model.notes, self._note()),
        )
        return model, origins

    def _note(self) -> str:
        if self._computed:
            return f"quantized model: {count(self._computed, 'tensor')} in 8 bits"
        return "quantized weights are computed with in float: the model has no scales of what it computes"

    def _take(self, name: str, tensor: Tensor, told: Scaled) -> None:
        """Numbers of a constant; integers for what is computed in 8 bits."""
        if told.data is not None:
            numbers = {
                "scales": told.scales,
                "zero_points": told.zero_points,
                "axis": told.axis,
                "shifts": told.shifts,
            }
            self._tensors[name] = Tensor(tensor.shape, np.dtype(np.float32), dequantized(told.data, numbers))
            return
        if told.dtype not in BYTES:
            self._tensors[name] = replace(tensor, odd=_WIDE.format(8 * told.dtype.itemsize))
            return
        if told.scales.size != 1 or told.zero_points.size != 1:
            self._tensors[name] = replace(tensor, odd=_MANY)
            return
        self._computed += 1
        self._tensors[name] = Tensor(tensor.shape, told.dtype, scaled=told)
        self._floats[name] = self._named(f"{name} (float)", tensor.shape)

    def _named(self, name: str, shape: tuple[int, ...]) -> str:
        """A new float tensor."""
        while name in self._tensors:
            name += "'"
        self._tensors[name] = Tensor(shape, np.dtype(np.float32))
        return name

    def _scales(self, name: str) -> dict[str, object]:
        told = self._tensors[name].scaled
        assert told is not None
        return {"scales": told.scales, "zero_points": told.zero_points.astype(told.dtype), "axis": told.axis}

    def _dequantize(self, name: str, read: set[str]) -> Iterator[Operation]:
        """Numbers of a tensor, if something wants them."""
        if name in self._floats and name in read:
            found = self._floats[name]
            yield Operation(self._casts.back, found, (name,), (found,), self._scales(name))

    def _operation(self, op: Operation, read: set[str]) -> Iterator[Operation]:
        if op.kind in self._casts.raw:
            yield op
            return
        inputs = tuple(n if n is None else self._floats.get(n, n) for n in op.inputs)
        if op.kind == self._casts.to and op.outputs[0] in self._floats:
            yield replace(op, inputs=inputs, attributes=self._scales(op.outputs[0]))
            yield from self._dequantize(op.outputs[0], read)
            return
        if op.kind == self._casts.back and op.inputs[0] in self._floats:
            yield replace(op, attributes=self._scales(op.inputs[0]), inputs=op.inputs)
            return
        made = tuple(
            self._named(f"{n} (made)", self._tensors[n].shape) if n in self._floats else n for n in op.outputs
        )
        yield replace(op, inputs=inputs, outputs=made)
        for name, whole in zip(op.outputs, made, strict=True):
            if name in self._floats:
                yield Operation(self._casts.to, name, (whole,), (name,), self._scales(name))
                yield from self._dequantize(name, read)
