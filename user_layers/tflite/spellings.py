"""All TFLite operations that ONNX can say: `TFLITE`, filled by the modules imported here."""

from __future__ import annotations

from dataclasses import replace

from user_layers.spelling.foreign import ForeignModel, Operation
from user_layers.tflite import arithmetic, matrix, movement, windows
from user_layers.tflite.integers import CASTS
from user_layers.tflite.read import with_options
from user_layers.tflite.stored import with_stored
from user_layers.tflite.table import TFLITE

TFLITE.prepared = CASTS.in_float

__all__ = ["TFLITE", "arithmetic", "from_message", "matrix", "movement", "windows"]


def from_message(model: ForeignModel) -> ForeignModel:
    """A model as LiteRT's compiler plugin sends it: parameters of CUSTOM operations are bytes there.
    Raises ValueError for scales that do not fit."""
    return with_stored(
        replace(model, operations=tuple(_decoded(operation) for operation in model.operations))
    )


def _decoded(operation: Operation) -> Operation:
    if not operation.own:
        return operation
    return with_options(operation, operation.attributes["custom_options"])
