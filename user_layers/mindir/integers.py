"""What MindSpore Lite's quantized tensors stand for: the tables `QuantParam` of `.ms` files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from firmware_sim.errors import ModelError
from user_layers.mindir.flat import Table
from user_layers.spelling.foreign import Array, ForeignModel, Operation, Scaled, Tensor
from user_layers.spelling.integers import Casts

CASTS = Casts("QuantDTypeCast", "QuantDTypeCast")
PLAIN, PACKED = 0, 4  # WeightQuantCompressType: NONE, BITPACKING
_DYNAMIC = "DynamicQuant"  # by scales of each run's values
_SCALE, _ZERO, _BITS, _FACTOR, _SHIFT = 0, 1, 5, 7, 8  # fields of QuantParam


def scaled(params: Sequence[Table], kind: np.dtype[Any], elements: Array | None = None) -> Scaled:
    """The scales of a tensor of integers. Which axis they go along nobody says: `placed` finds it. The means
    of weights that are quantized alone are put right by a factor and a shift (`varCorr`, `meanCorr`)."""

    def listed(field: int, code: str, usual: float = 0.0) -> Array:
        return np.array([one.scalar(field, code, usual) for one in params], np.float64)

    shifts = listed(_SHIFT, "f")
    return Scaled(
        kind,
        listed(_SCALE, "d") * listed(_FACTOR, "f", 1.0),
        listed(_ZERO, "i").astype(np.int64),
        0,
        elements,
        shifts if shifts.any() else None,
    )


def unpacked(raw: Array, params: Sequence[Table], shape: tuple[int, ...], name: str) -> Array:
    """Elements of a constant of fewer than 8 or 16 bits. They lie one behind the other, the lowest bit first,
    with half their range added. Errors: ModelError for too few bytes, or for more bits than there are."""
    bits = int(params[0].scalar(_BITS, "i", 8))
    count = int(np.prod(shape, dtype=np.int64))
    if not 1 <= bits <= 16 or min(shape, default=0) < 0 or raw.size * 8 < count * bits:
        raise ModelError(
            f"the constant {name} of shape {list(shape)} and {bits} bits has {raw.size} packed bytes"
        )
    ones = np.unpackbits(np.ascontiguousarray(raw), bitorder="little", count=count * bits)
    found = ones.reshape(count, bits) @ (1 << np.arange(bits)) - (1 << (bits - 1))
    return found.astype(np.int8 if bits <= 8 else np.int16).reshape(shape)


def placed(model: ForeignModel) -> ForeignModel:
    """The model with scales of constants along the axis that the operation which reads them has its channels
    on."""
    tensors = dict(model.tensors)
    for op in model.operations:
        for place, name in enumerate(op.inputs):
            told = None if name is None else tensors[name].scaled
            if name is not None and told is not None and told.data is not None and told.scales.size > 1:
                axis = _channels(op, place, told.data.ndim)
                tensors[name] = replace(tensors[name], scaled=replace(told, axis=axis))
    return replace(model, tensors=tensors)


def unrounded(model: ForeignModel) -> ForeignModel:
    """The model with float32 where a file has integers by scales of each run."""
    made = {op.outputs[0] for op in model.operations if op.kind == _DYNAMIC}
    floats = {name: Tensor(model.tensors[name].shape, np.dtype(np.float32)) for name in made}
    return replace(model, tensors={**model.tensors, **floats})


def _channels(op: Operation, place: int, rank: int) -> int:
    """The axis that the converter takes for channels of a constant."""
    if op.kind == "MatMulFusion" and rank > 1:
        turned = bool(op.attributes.get("transpose_b" if place else "transpose_a"))
        return rank - 1 if turned != bool(place) else rank - 2
    return 3 if op.kind == "Conv2dTransposeFusion" and rank == 4 else 0
