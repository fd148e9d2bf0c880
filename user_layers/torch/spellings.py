"""All operators of PyTorch that ONNX can say."""

from __future__ import annotations

from user_layers.torch import elementwise, matrix, movement, quantised, window
from user_layers.torch.call import TORCH

__all__ = ["TORCH"]

MODULES = (elementwise, matrix, movement, quantised, window)  # importing them fills the table
