"""All TFLite operations that ONNX can say: `TFLITE`, filled by the modules imported here."""

from __future__ import annotations

from user_layers.tflite import arithmetic, matrix, movement, windows
from user_layers.tflite.table import TFLITE

__all__ = ["TFLITE", "arithmetic", "matrix", "movement", "windows"]
