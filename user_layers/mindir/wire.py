"""Reading protobuf messages by field numbers, without a schema compiler."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from firmware_sim.errors import ModelError

_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5
_SIZES = {_EIGHT: 8, _FOUR: 4}


class Message:
    """The fields of one message. Errors: ModelError for bytes that are none."""

    def __init__(self, data: memoryview) -> None:
        self._fields: dict[int, list[int | memoryview]] = {}
        for number, value in _fields(data):
            self._fields.setdefault(number, []).append(value)

    def number(self, field: int, default: int = 0) -> int:
        """A whole number with its sign."""
        return next(reversed(self.numbers(field)), default)

    def numbers(self, field: int) -> list[int]:
        """All whole numbers of a field, packed or not."""
        found = []
        for value in self._fields.get(field, []):
            if isinstance(value, int):
                found.append(_signed(value))
            else:
                at = 0
                while at < len(value):
                    one, at = _varint(value, at)
                    found.append(_signed(one))
        return found

    def floats(self, field: int, code: str = "f") -> list[float]:
        """All numbers of a field of floats, packed or not; code: f or d."""
        kind = struct.Struct("<" + code)
        found = []
        for value in self._fields.get(field, []):
            if isinstance(value, int) or len(value) % kind.size:
                raise ModelError(f"field {field} does not hold floating-point numbers")
            found += [one for (one,) in kind.iter_unpack(value)]
        return found

    def bytes_(self, field: int) -> memoryview:
        """The last value of a field of bytes; empty when it is not there."""
        return next(reversed(self._parts(field)), memoryview(b""))

    def text(self, field: int) -> str:
        """A text; "" when it is not there."""
        return bytes(self.bytes_(field)).decode(errors="replace")

    def texts(self, field: int) -> list[str]:
        """All texts of a field."""
        return [bytes(part).decode(errors="replace") for part in self._parts(field)]

    def messages(self, field: int) -> list[Message]:
        """All messages of a field."""
        return [Message(part) for part in self._parts(field)]

    def message(self, field: int) -> Message | None:
        """One message."""
        return next(reversed(self.messages(field)), None)

    def has(self, field: int) -> bool:
        """Whether the field is there."""
        return field in self._fields

    def _parts(self, field: int) -> list[memoryview]:
        found = []
        for value in self._fields.get(field, []):
            if isinstance(value, int):
                raise ModelError(f"field {field} is a number, not bytes")
            found.append(value)
        return found


def _fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if number == 0:
            raise ModelError("field 0 does not exist")
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield number, value
            continue
        if kind == _BYTES:
            size, at = _varint(data, at)
        elif kind in _SIZES:
            size = _SIZES[kind]
        else:
            raise ModelError(f"field {number} has the unknown wire type {kind}")
        if size > len(data) - at:
            raise ModelError(f"field {number} has {size} bytes, {len(data) - at} are left")
        yield number, data[at : at + size]
        at += size


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise ModelError("it ends within a number")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ModelError("a number has more than ten bytes")


def _signed(value: int) -> int:
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value
