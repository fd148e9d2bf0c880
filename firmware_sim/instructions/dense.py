"""Operands of local memory as dense arrays, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from firmware_sim.isa.footprint import Access, Tensor
from firmware_sim.memory import Memory, View

Array = npt.NDArray[Any]


class Dense:
    """A tensor prepared for copying: one view of memory per rectangle of its channels, made once.

    Where indices are shifted or the tensor overlaps itself, one index per element instead.
    """

    def __init__(self, memory: Memory, tensor: Tensor, dtype: type[np.generic]) -> None:
        """Raises DeviceError when the tensor reaches out of its memory."""
        self.shape = tensor.shape
        self.dtype = dtype
        self._views: list[tuple[slice, View]] = []
        self._flat: Array | None = None
        parts = tensor.parts()
        for part in parts:
            memory.check(tensor, part, tensor.block(part))
        writes_twice = Access.WRITE in tensor.access and tensor.may_overlap_itself()
        if tensor.h_shift or tensor.w_shift or writes_twice:
            self._flat, self._at = memory.flat(tensor.space).view(dtype), tensor.indices()
            return
        for part in parts:
            channels = slice(part.first, part.first + part.slots * part.lanes)
            self._views.append((channels, memory.view(tensor, part, dtype)))

    def load(self) -> Array:
        """The elements now, [n, c, h, w], copied: writing to memory does not change them."""
        if self._flat is not None:
            picked: Array = self._flat[self._at]
            return picked
        out: Array = np.empty(self.shape, self.dtype)
        n, _, h, w = self.shape
        for channels, view in self._views:
            slots, lanes = view.shape[1:3]
            out[:, channels].reshape(n, slots, lanes, h, w)[...] = view
        return out

    def store(self, values: Array) -> None:
        """Write [n, c, h, w]; where the tensor overlaps itself, the last element stays."""
        if self._flat is not None:
            # numpy keeps the last value of an index that occurs more than once
            self._flat[self._at.reshape(-1)] = values.reshape(-1)
            return
        for channels, view in self._views:
            part = values[:, channels]
            n, _, h, w = part.shape
            view[...] = part.reshape(n, view.shape[1], view.shape[2], h, w)
