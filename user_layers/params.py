"""Parameter structs from Python: values by field name <-> the bytes that the C struct has.

The structs come from the record that a build keeps of its scan, so names, sizes and padding are those of the
generated code.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from firmware_sim.errors import UsageError
from firmware_sim.suggest import closest
from user_layers.scan.ctype import (
    Array,
    CType,
    Enumeration,
    Record,
    Scalar,
    declare,
    record_of,
    size_of,
    spelled,
    without_typedefs,
)
from user_layers.scan.record import RecordedLayer, read_layer_record

_FLOAT_MAX = {"float": 3.4028234663852886e38, "double": math.inf}
# The struct module's letters. A char is signed on one side only: the bits are what both have in common.
_LETTERS = {
    "char": "B",
    "signed char": "b",
    "unsigned char": "B",
    "_Bool": "?",
    "short": "h",
    "unsigned short": "H",
    "int": "i",
    "unsigned int": "I",
    "long long": "q",
    "unsigned long long": "Q",
    "float": "f",
    "double": "d",
}
_ENUM_LETTER = "i"


class FieldError(UsageError):
    """A value that a field of a parameter struct cannot hold. `field` is its path, like "before[2]"."""

    def __init__(self, op: str, field: str, message: str, hint: str = "") -> None:
        self.op, self.field = op, field
        super().__init__(f"{op}{'.' if field and field[0] != '[' else ''}{field}: {message}", hint=hint)


class ParamTypes:
    """The parameter structs of one build's layers."""

    def __init__(self, layers: Sequence[RecordedLayer]) -> None:
        self._layers = {x.op: x for x in sorted(layers, key=lambda x: x.op_type)}

    @classmethod
    def from_record(cls, path: Path | str) -> ParamTypes:
        """Read what a build recorded (bmtpu.json). MissingError when there is no such file, SourceError for
        another one."""
        return cls(read_layer_record(Path(path)))

    def names(self) -> list[str]:
        """The ops ("TPU_CROP"), in order of their numbers."""
        return list(self._layers)

    def op_type(self, op: str) -> int:
        """The number of an op; UsageError for one that the record does not have."""
        return self._layer(op).op_type

    def sizeof(self, op: str) -> int:
        """Bytes of an op's parameter struct; 0 for an empty one, as in C."""
        return size_of(self._layer(op).param)

    def fields(self, op: str) -> dict[str, str]:
        """Names and C types of the struct's fields."""
        return {m.name: declare(m.type, "") for m in record_of(self._layer(op).param).members}

    def param_bytes(self, op: str, values: Mapping[str, Any] | None = None) -> bytes:
        """The struct's bytes from values by field name; fields that are not given are zero.

        Arrays take sequences (shorter ones are filled with zeros), nested structs mappings, enums
        numbers or names, char arrays also text. FieldError (a UsageError) for an unknown field or a
        value that its field cannot hold exactly; floats are rounded to the field's precision only.
        """
        record = record_of(self._layer(op).param)
        if values is not None and not isinstance(values, Mapping):
            raise FieldError(op, "", f"parameters given as {_kind(values)}", "give a dict of field names")
        packer = _Packer(op, record.size)
        packer.fill("", 0, record, values or {})
        return bytes(packer.data)

    def param_values(self, op: str, data: bytes) -> dict[str, Any]:
        """Values by field name from the struct's bytes; UsageError for another number of bytes."""
        record = record_of(self._layer(op).param)
        if len(data) != record.size:
            raise UsageError(
                f"{op}: {len(data)} bytes of parameters, the struct has {record.size}",
                hint="the bytes come from another version of the layer",
            )
        return _record_values(record, bytes(data), 0)

    def _layer(self, op: str) -> RecordedLayer:
        if op not in self._layers:
            known = ", ".join(self.names()) or "(none)"
            raise UsageError(
                f"no layer {op}; known are {known}", hint=_similar(op, self._layers) or "see `list_layers`"
            )
        return self._layers[op]


class _Packer:
    """Puts values into the bytes of one struct, which begin as zeros. path: of a field, for messages; at: its
    offset."""

    def __init__(self, op: str, size: int) -> None:
        self.op = op
        self.data = bytearray(size)

    def fill(self, path: str, at: int, record: Record, values: Mapping[str, Any]) -> None:
        """A struct or union from a mapping."""
        fields = _fields(record, at)
        for name in values:
            if name not in fields:
                raise self._error(
                    f"{path}.{name}" if path else str(name),
                    f"unknown field; the {record.kind} has {', '.join(fields) or 'none'}",
                    _similar(str(name), fields),
                )
        self._refuse_alternatives(path, [(name, *fields[name]) for name in values])
        for name, value in values.items():
            self._field(f"{path}.{name}" if path else str(name), *fields[name], value)

    def _refuse_alternatives(self, path: str, given: Sequence[tuple[str, int, CType]]) -> None:
        """Of a union's members, also one without a name, at most one can be given."""
        spans = [(name, at, at + size_of(t)) for name, at, t in given]
        shared = [a for a, begin, end in spans if any(a != b and begin < e and s < end for b, s, e in spans)]
        if shared:
            what = f"{len(shared)} members of a union given ({', '.join(shared)})"
            raise self._error(path, what, "give exactly one")

    def _field(self, path: str, at: int, t: CType, value: Any) -> None:
        plain = without_typedefs(t)
        if isinstance(plain, Record):
            if not isinstance(value, Mapping):
                name = f"{plain.kind} {{...}}" if t is plain and not plain.tag else spelled(t)
                raise self._error(path, f"expected a dict for {name}, found {_kind(value)}")
            self.fill(path, at, plain, value)
        elif isinstance(plain, Array):
            self._array(path, at, plain, value)
        else:
            if hasattr(value, "item") and getattr(value, "shape", None) == ():  # a numpy scalar
                value = value.item()
            if isinstance(plain, Enumeration):
                self._put(_ENUM_LETTER, at, self._enumerator(path, plain, value))
            elif plain.base in _FLOAT_MAX:
                self._real(path, at, plain, value)
            else:
                self._put(_LETTERS[plain.base], at, self._integer(path, plain, value))

    def _array(self, path: str, at: int, array: Array, value: Any) -> None:
        item = without_typedefs(array.item)
        is_text = isinstance(item, Scalar) and item.base == "char"
        if is_text and isinstance(value, (str, bytes)):
            raw = value.encode() if isinstance(value, str) else value
            if len(raw) > array.count:
                raise self._error(path, f"text of {len(raw)} bytes, the array has {array.count}")
            self.data[at : at + len(raw)] = raw
            return
        if hasattr(value, "tolist"):  # a numpy array
            value = value.tolist()
        if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
            raise self._error(path, f"expected {array.count} values, found {_kind(value)}")
        if len(value) > array.count:
            raise self._error(path, f"{len(value)} values, the array has {array.count}")
        for i, v in enumerate(value):
            self._field(f"{path}[{i}]", at + i * size_of(item), array.item, v)

    def _integer(self, path: str, t: Scalar, value: Any) -> int:
        if t.base == "char" and isinstance(value, (str, bytes)) and len(value) == 1:
            return (value.encode("latin-1", "replace") if isinstance(value, str) else value)[0]
        if not isinstance(value, int):
            hint = "floats are not rounded silently: use int(...)" if isinstance(value, float) else ""
            raise self._error(path, f"expected an integer for {t.name}, found {_kind(value)}", hint)
        low, high = _limits(t)
        if not low <= value <= high:
            raise self._error(path, f"{value} does not fit {t.name} ({low}..{high})")
        return value & 0xFF if t.base == "char" else int(value)

    def _real(self, path: str, at: int, t: Scalar, value: Any) -> None:
        if not isinstance(value, (int, float)):
            raise self._error(path, f"expected a number for {t.name}, found {_kind(value)}")
        try:
            real = float(value)
        except OverflowError:
            raise self._error(path, f"{value} does not fit {t.name}") from None
        try:
            self._put(_LETTERS[t.base], at, real)
        except OverflowError:
            limit = _FLOAT_MAX[t.base]
            raise self._error(path, f"{value} does not fit {t.name} ({-limit:g}..{limit:g})") from None

    def _enumerator(self, path: str, t: Enumeration, value: Any) -> int:
        known = dict(t.values)
        if isinstance(value, str):
            if value not in known:
                raise self._error(path, f"{value!r} is none of {', '.join(known)}", _similar(value, known))
            return known[value]
        if not isinstance(value, int) or isinstance(value, bool):
            raise self._error(path, f"expected one of {', '.join(known)}, found {_kind(value)}")
        if value not in known.values():
            listed = ", ".join(f"{k} = {v}" for k, v in known.items())
            raise self._error(path, f"{value} is none of {listed}")
        return int(value)

    def _put(self, letter: str, at: int, value: float) -> None:
        struct.pack_into(f"<{letter}", self.data, at, value)

    def _error(self, path: str, message: str, hint: str = "") -> FieldError:
        return FieldError(self.op, path, message, hint)


def _limits(t: Scalar) -> tuple[int, int]:
    """The smallest and the largest number that an integer type holds."""
    if t.base == "_Bool":
        return 0, 1
    if t.base == "char":
        return -128, 255
    bits = 8 * size_of(t)
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if t.signed else (0, (1 << bits) - 1)


def _fields(record: Record, at: int) -> dict[str, tuple[int, CType]]:
    """Offset and type of fields by name, those of unnamed inner structs among them, as C reaches them."""
    found: dict[str, tuple[int, CType]] = {}
    for m in record.members:
        if m.name:
            found[m.name] = at + m.offset, m.type
        else:
            found.update(_fields(record_of(m.type), at + m.offset))
    return found


def _record_values(record: Record, data: bytes, at: int) -> dict[str, Any]:
    return {name: _value(t, data, offset) for name, (offset, t) in _fields(record, at).items()}


def _value(t: CType, data: bytes, at: int) -> Any:
    t = without_typedefs(t)
    if isinstance(t, Record):
        return _record_values(t, data, at)
    if isinstance(t, Array):
        return [_value(t.item, data, at + i * size_of(t.item)) for i in range(t.count)]
    letter = _ENUM_LETTER if isinstance(t, Enumeration) else _LETTERS[t.base]
    return struct.unpack_from(f"<{letter}", data, at)[0]


def _kind(value: Any) -> str:
    """A value for a message: its type, and itself when short."""
    text = repr(value)
    name = type(value).__name__
    return f"{name} {text}" if len(text) <= 40 else name


def _similar(name: str, known: Mapping[str, Any]) -> str:
    meant = closest(name, known)
    return f"did you mean {meant}?" if meant else ""
