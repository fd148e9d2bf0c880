"""All operators of PyTorch that ONNX can say."""

from __future__ import annotations

from user_layers.torch import elementwise, matrix, movement, window
from user_layers.torch.call import TORCH

__all__ = ["TORCH"]

MODULES = (elementwise, matrix, movement, window)  # importing them fills the table
