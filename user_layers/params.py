"""Parameter structs from Python: values by field name <-> the bytes that the C struct has.

The structs are read from the generated header with cffi, so size and padding are the C compiler's.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firmware_sim.errors import MissingError, SourceError, UsageError
from firmware_sim.suggest import closest
from user_layers.scan.model import display_path

if TYPE_CHECKING:
    from cffi import FFI

_PARAM = re.compile(r"^typedef .*?\b(\w+)_param_(\w+);$", re.MULTILINE)
_ENUMERATOR = re.compile(r"^\s+(\w+) = (-?\d+),?$", re.MULTILINE)
_FLOAT_MAX = {4: 3.4028234663852886e38, 8: math.inf}


class FieldError(UsageError):
    """A value that a field of a parameter struct cannot hold. `field` is its path, like "before[2]"."""

    def __init__(self, op: str, field: str, message: str, hint: str = "") -> None:
        self.op, self.field = op, field
        super().__init__(f"{op}{'.' if field and field[0] != '[' else ''}{field}: {message}", hint=hint)


class ParamTypes:
    """The parameter structs of one generated header (bmtpu.h or bmbuiltin.h)."""

    def __init__(self, ffi: FFI, prefix: str, op_types: dict[str, int]) -> None:
        self._ffi = ffi
        self._prefix = prefix
        self._op_types = op_types

    @classmethod
    def from_header(cls, path: Path | str) -> ParamTypes:
        """Read a generated header. MissingError when there is none, SourceError for another file."""
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise MissingError(
                f"{display_path(path)} is missing, so the layers' parameters are unknown",
                hint="run `tpulayer build_layers`",
            ) from None
        from cffi import FFI, CDefError

        from user_layers.codegen import TYPES_BEGIN, TYPES_END

        head, begin, rest = text.partition(TYPES_BEGIN)
        body, end, _ = rest.partition(TYPES_END)
        # The enum of op_types closes the head; the enums shared with the layer headers come before it.
        shared, opening, ops = head.rpartition("typedef enum {")
        if not (begin and end and opening):
            raise SourceError(
                f"{display_path(path)}: not a header that this version generates",
                hint="run `tpulayer build_layers` again",
            )
        types = "".join(re.findall(r"^typedef enum \{[^}]*\} \w+;$", shared, re.MULTILINE)) + body
        ffi = FFI()
        try:
            for pack, part in _by_pack(types):
                ffi.cdef(part, pack=pack) if pack else ffi.cdef(part)
        except (CDefError, TypeError, ValueError) as e:
            raise SourceError(f"{display_path(path)}: cannot be read ({e})", hint="generate it again") from e
        named = _PARAM.findall(body)
        numbers = dict(_ENUMERATOR.findall(ops))
        return cls(ffi, named[0][0] if named else "", {op: int(numbers[op]) for _, op in named})

    def names(self) -> list[str]:
        """The ops ("TPU_CROP"), in order of their numbers."""
        return sorted(self._op_types, key=self._op_types.__getitem__)

    def op_type(self, op: str) -> int:
        """The number of an op; UsageError for one that the header does not know."""
        self._known(op)
        return self._op_types[op]

    def sizeof(self, op: str) -> int:
        """Bytes of an op's parameter struct; 0 for an empty one, as in C."""
        ctype = self._type(op)
        return int(self._ffi.sizeof(ctype)) if ctype.fields else 0

    def fields(self, op: str) -> dict[str, str]:
        """Names and C types of the struct's fields."""
        return {name: str(f.type.cname) for name, f in self._type(op).fields}

    def pack(self, op: str, values: Mapping[str, Any] | None = None) -> bytes:
        """The struct's bytes from values by field name; fields that are not given are zero.

        Arrays take sequences (shorter ones are filled with zeros), nested structs mappings, enums
        numbers or names, char arrays also text. FieldError (a UsageError) for an unknown field or a
        value that its field cannot hold exactly; floats are rounded to the field's precision only.
        """
        ctype = self._type(op)
        cdata = self._ffi.new(self._ffi.getctype(ctype, "*"))
        if values is not None:
            if not isinstance(values, Mapping):
                raise FieldError(op, "", f"parameters given as {_kind(values)}", "give a dict of field names")
            self._fill(op, "", cdata[0], ctype, values)
        return bytes(self._ffi.buffer(cdata, self.sizeof(op)))

    def unpack(self, op: str, data: bytes) -> dict[str, Any]:
        """Values by field name from the struct's bytes; UsageError for another number of bytes."""
        ctype = self._type(op)
        if len(data) != self.sizeof(op):
            raise UsageError(
                f"{op}: {len(data)} bytes of parameters, the struct has {self.sizeof(op)}",
                hint="the bytes come from another version of the layer",
            )
        cdata = self._ffi.new(self._ffi.getctype(ctype, "*"))
        self._ffi.buffer(cdata, len(data))[:] = bytes(data)
        result: dict[str, Any] = self._value(cdata[0], ctype)
        return result

    def _known(self, op: str) -> None:
        if op not in self._op_types:
            known = ", ".join(self.names()) or "(none)"
            raise UsageError(
                f"no layer {op}; known are {known}", hint=_similar(op, self._op_types) or "see `list_layers`"
            )

    def _type(self, op: str) -> Any:
        self._known(op)
        return self._ffi.typeof(f"{self._prefix}_param_{op}")

    # --- values -> struct ---------------------------------------------------------------------

    def _fill(self, op: str, path: str, target: Any, ctype: Any, values: Mapping[str, Any]) -> None:
        fields = _flat_fields(ctype)
        for name, value in values.items():
            where = f"{path}.{name}" if path else str(name)
            if name not in fields:
                raise FieldError(
                    op,
                    where,
                    f"unknown field; the {ctype.kind} has {', '.join(fields) or 'none'}",
                    _similar(str(name), fields),
                )
            if ctype.kind == "union" and len(values) > 1:
                raise FieldError(op, path, f"{len(values)} members of a union given", "give exactly one")
            field = fields[name]
            if field.kind in ("struct", "union"):
                if not isinstance(value, Mapping):
                    raise FieldError(op, where, f"expected a dict for {field.cname}, found {_kind(value)}")
                self._fill(op, where, getattr(target, name), field, value)
            elif field.kind == "array":
                self._fill_array(op, where, getattr(target, name), field, value)
            else:
                setattr(target, name, self._scalar(op, where, field, value))

    def _fill_array(self, op: str, path: str, target: Any, ctype: Any, value: Any) -> None:
        item = ctype.item
        if item.kind == "primitive" and item.cname == "char" and isinstance(value, (str, bytes)):
            raw = value.encode() if isinstance(value, str) else value
            if len(raw) > ctype.length:
                raise FieldError(op, path, f"text of {len(raw)} bytes, the array has {ctype.length}")
            self._ffi.buffer(target)[:] = raw.ljust(ctype.length, b"\0")
            return
        if hasattr(value, "tolist"):  # a numpy array
            value = value.tolist()
        if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
            raise FieldError(op, path, f"expected {ctype.length} values, found {_kind(value)}")
        if len(value) > ctype.length:
            raise FieldError(op, path, f"{len(value)} values, the array has {ctype.length}")
        for i, v in enumerate(value):
            where = f"{path}[{i}]"
            if item.kind == "array":
                self._fill_array(op, where, target[i], item, v)
            elif item.kind in ("struct", "union"):
                if not isinstance(v, Mapping):
                    raise FieldError(op, where, f"expected a dict for {item.cname}, found {_kind(v)}")
                self._fill(op, where, target[i], item, v)
            else:
                target[i] = self._scalar(op, where, item, v)

    def _scalar(self, op: str, path: str, ctype: Any, value: Any) -> Any:
        if hasattr(value, "item") and getattr(value, "shape", None) == ():  # a numpy scalar
            value = value.item()
        if ctype.kind == "enum":
            return self._enumerator(op, path, ctype, value)
        name = ctype.cname
        if name in ("float", "double"):
            return self._real(op, path, ctype, value)
        if name == "char" and isinstance(value, (str, bytes)) and len(value) == 1:
            return value.encode("latin-1", "replace") if isinstance(value, str) else value
        if not isinstance(value, int):
            hint = "floats are not rounded silently: use int(...)" if isinstance(value, float) else ""
            raise FieldError(op, path, f"expected an integer for {name}, found {_kind(value)}", hint)
        low, high = self._range(ctype)
        if not low <= value <= high:
            raise FieldError(op, path, f"{value} does not fit {name} ({low}..{high})")
        if name == "char":
            return bytes([value & 0xFF])
        return bool(value) if name in ("bool", "_Bool") else int(value)

    def _range(self, ctype: Any) -> tuple[int, int]:
        if ctype.cname in ("bool", "_Bool"):
            return 0, 1
        bits = 8 * self._ffi.sizeof(ctype)
        if ctype.cname == "char":  # signed on one side, unsigned on the other: only the bits are common
            return -128, 255
        if int(self._ffi.cast(ctype, -1)) < 0:
            return -(1 << (bits - 1)), (1 << (bits - 1)) - 1
        return 0, (1 << bits) - 1

    def _real(self, op: str, path: str, ctype: Any, value: Any) -> float:
        if not isinstance(value, (int, float)):
            raise FieldError(op, path, f"expected a number for {ctype.cname}, found {_kind(value)}")
        limit = _FLOAT_MAX[self._ffi.sizeof(ctype)]
        try:
            real = float(value)
        except OverflowError:
            raise FieldError(op, path, f"{value} does not fit {ctype.cname}") from None
        if math.isfinite(real) and math.isinf(self._ffi.cast(ctype, real).__float__()):
            raise FieldError(op, path, f"{value} does not fit {ctype.cname} ({-limit:g}..{limit:g})")
        return real

    def _enumerator(self, op: str, path: str, ctype: Any, value: Any) -> int:
        known: dict[str, int] = dict(ctype.relements)
        if isinstance(value, str):
            if value not in known:
                raise FieldError(op, path, f"{value!r} is none of {', '.join(known)}", _similar(value, known))
            return known[value]
        if not isinstance(value, int) or isinstance(value, bool):
            raise FieldError(op, path, f"expected one of {', '.join(known)}, found {_kind(value)}")
        if value not in known.values():
            listed = ", ".join(f"{k} = {v}" for k, v in known.items())
            raise FieldError(op, path, f"{value} is none of {listed}")
        return int(value)

    # --- struct -> values ---------------------------------------------------------------------

    def _value(self, cdata: Any, ctype: Any) -> Any:
        if ctype.kind in ("struct", "union"):
            return {name: self._value(getattr(cdata, name), t) for name, t in _flat_fields(ctype).items()}
        if ctype.kind == "array":
            return [self._value(cdata[i], ctype.item) for i in range(ctype.length)]
        if ctype.kind == "enum":
            return int(cdata)
        return cdata[0] if isinstance(cdata, bytes) else cdata


def _flat_fields(ctype: Any) -> dict[str, Any]:
    """Fields by name, those of unnamed inner structs among them, as C reaches them."""
    found: dict[str, Any] = {}
    for name, field in ctype.fields or ():
        if name:
            found[name] = field.type
        else:
            found.update(_flat_fields(field.type))
    return found


def _by_pack(text: str) -> list[tuple[int, str]]:
    """The declarations in parts, each with the alignment limit of its `#pragma pack` (0: none)."""
    parts: list[tuple[int, list[str]]] = [(0, [])]
    for line in text.splitlines():
        m = re.match(r"#pragma pack\((?:push, (\d+)|pop)\)", line)
        if m:
            parts.append((int(m[1] or 0), []))
        else:
            parts[-1][1].append(line)
    return [(pack, "\n".join(lines)) for pack, lines in parts]


def _kind(value: Any) -> str:
    """A value for a message: its type, and itself when short."""
    text = repr(value)
    name = type(value).__name__
    return f"{name} {text}" if len(text) <= 40 else name


def _similar(name: str, known: Mapping[str, Any]) -> str:
    meant = closest(name, known)
    return f"did you mean {meant}?" if meant else ""
