"""Operands of local memory as dense arrays, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from firmware_sim.isa.footprint import Tensor
from firmware_sim.memory import Memory, View

Array = npt.NDArray[Any]


class Dense:
    """A tensor prepared for copying: one view of memory per rectangle of its channels, made once."""

    def __init__(self, memory: Memory, tensor: Tensor, dtype: type[np.generic]) -> None:
        """Raises DeviceError when the tensor reaches out of its memory."""
        self.shape = tensor.shape
        self.dtype = dtype
        self._views: list[tuple[slice, View]] = [
            (slice(part.first, part.first + part.slots * part.lanes), memory.view(tensor, part, dtype))
            for part in tensor.parts()
        ]

    def load(self) -> Array:
        """A copy, [n, c, h, w]."""
        out: Array = np.empty(self.shape, self.dtype)
        n, _, h, w = self.shape
        for channels, view in self._views:
            slots, lanes = view.shape[1:3]
            out[:, channels].reshape(n, slots, lanes, h, w)[...] = view
        return out

    def store(self, values: Array) -> None:
        """Write [n, c, h, w]; where the tensor overlaps itself, the last element stays."""
        for channels, view in self._views:
            part = values[:, channels]
            n, _, h, w = part.shape
            view[...] = part.reshape(n, view.shape[1], view.shape[2], h, w)
