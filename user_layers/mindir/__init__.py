"""Models of MindSpore Lite, `.ms` and `.mindir`: read, and their primitives in ONNX's words."""

from __future__ import annotations

from user_layers.mindir import (
    spell_custom,
    spell_elementwise,
    spell_matrix,
    spell_movement,
    spell_window,
)  # registers
from user_layers.mindir.load import read_model
from user_layers.mindir.words import MINDSPORE

__all__ = [
    "MINDSPORE",
    "read_model",
    "spell_custom",
    "spell_elementwise",
    "spell_matrix",
    "spell_movement",
    "spell_window",
]
