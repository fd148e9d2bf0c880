"""Quantized models of TFLite, in float operations between QUANTIZE and DEQUANTIZE."""

from __future__ import annotations

from pathlib import Path

from firmware_sim.errors import ModelError
from user_layers.spelling.foreign import ForeignModel
from user_layers.spelling.integers import Casts
from user_layers.tflite.read import read_tflite

CASTS = Casts("QUANTIZE", "DEQUANTIZE", raw=("CAST", "BITCAST"))


def read_model(path: str | Path) -> ForeignModel:
    """A file as `read_tflite` reads it, in float where it is quantized. Errors: those of `read_tflite`."""
    model = read_tflite(path)
    try:
        return CASTS.in_float(model)[0]
    except ValueError as error:
        raise ModelError(f"{path} is a damaged TFLite model: {error}") from None
