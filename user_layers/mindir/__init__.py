"""Models of MindSpore Lite, `.ms` and `.mindir`: read, and their primitives in ONNX's words."""

from __future__ import annotations

from user_layers.mindir import (
    spell_custom,
    spell_elementwise,
    spell_matrix,
    spell_movement,
    spell_window,
)  # registers
from user_layers.mindir.integers import CASTS, placed
from user_layers.mindir.load import read_model
from user_layers.mindir.words import MINDSPORE
from user_layers.spelling.foreign import ForeignModel
from user_layers.spelling.infer import with_shapes

MINDSPORE.prepared = CASTS.in_float

__all__ = [
    "MINDSPORE",
    "read_model",
    "spell_custom",
    "spell_elementwise",
    "spell_matrix",
    "spell_movement",
    "spell_window",
]


def from_message(model: ForeignModel) -> ForeignModel:
    """A model as a delegate tells it, with the shapes that it left open (-1). Errors: as of `with_shapes`."""
    model = placed(model)
    extents = (
        n for operation in model.operations for name in operation.outputs for n in model.tensors[name].shape
    )
    return with_shapes(model, MINDSPORE) if min(extents, default=0) < 0 else model
