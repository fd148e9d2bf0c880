"""Reading a flatbuffer by field ids: every offset is checked before it is followed.

No package has classes for MindSpore's schema; primitives.txt has the ids. Files of TFLite, for whose hundreds
of tables there is one, are read by that (user_layers/tflite/read.py).
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from firmware_sim.errors import ModelError
from user_layers.spelling.foreign import Array

_U16 = struct.Struct("<H")
_I32 = struct.Struct("<i")
_U32 = struct.Struct("<I")


class Table:
    """A table at byte `start`. Fields that are not there give their default. Errors: ModelError."""

    def __init__(self, data: bytes, start: int) -> None:
        self.data = data
        self.start = start
        vtable = start - self._unpack(_I32, start)
        size = self._unpack(_U16, vtable)
        self._need(vtable, size)
        self._slots = struct.unpack_from(f"<{max(size // 2 - 2, 0)}H", data, vtable + 4) if size > 4 else ()

    @classmethod
    def root(cls, data: bytes) -> Table:
        """The table that a buffer begins with."""
        if len(data) < 8:
            raise ModelError(f"it has only {len(data)} bytes")
        return cls(data, _U32.unpack_from(data, 0)[0])

    def scalar(self, field: int, code: str, default: Any = 0) -> Any:
        """A number; code: as struct has it."""
        at = self._at(field)
        return default if at is None else self._unpack(struct.Struct("<" + code), at)

    def text(self, field: int) -> str:
        """A string; "" when it is not there."""
        at = self._at(field)
        return "" if at is None else self._string(self._follow(at))

    def table(self, field: int) -> Table | None:
        """Another table."""
        at = self._at(field)
        return None if at is None else Table(self.data, self._follow(at))

    def tables(self, field: int) -> list[Table]:
        """A vector of tables."""
        at = self._at(field)
        if at is None:
            return []
        start, count = self._vector(at, 4)
        return [Table(self.data, self._follow(start + 4 * index)) for index in range(count)]

    def array(self, field: int, dtype: Any) -> Array:
        """A vector of numbers, without a copy; of no elements when it is not there."""
        at = self._at(field)
        kind = np.dtype(dtype)
        if at is None:
            return np.empty(0, kind)
        start, count = self._vector(at, kind.itemsize)
        return np.frombuffer(self.data, kind, count, start)

    def _at(self, field: int) -> int | None:
        slot = self._slots[field] if field < len(self._slots) else 0
        return self.start + slot if slot else None

    def _follow(self, at: int) -> int:
        step: int = self._unpack(_U32, at)
        return at + step

    def _vector(self, at: int, size: int) -> tuple[int, int]:
        start = self._follow(at)
        count = self._unpack(_U32, start)
        self._need(start + 4, count * size)
        return start + 4, count

    def _string(self, start: int) -> str:
        count = self._unpack(_U32, start)
        self._need(start + 4, count)
        return bytes(self.data[start + 4 : start + 4 + count]).decode(errors="replace")

    def _unpack(self, kind: struct.Struct, at: int) -> Any:
        self._need(at, kind.size)
        return kind.unpack_from(self.data, at)[0]

    def _need(self, start: int, count: int) -> None:
        if start < 0 or start + count > len(self.data):
            raise ModelError(f"byte {start} with {count} bytes is outside its {len(self.data)} bytes")
