"""The model of a C type: what it is made of, where its members lie, how C spells it.

The scanner makes it from the sources. The generated code, the identity of a layer, the values that Python
packs and the messages about them all come from it. It is plain data and travels as JSON.

The controller is a 32-bit ARM (ARM EABI), the host a 64-bit machine (LP64). Sizes and offsets are the host's;
`size_on_controller` tells where the controller's differ, and a parameter struct has no such member.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

# Bytes on the host, which are also the alignment, on both machines.
_SIZES = {
    "char": 1,
    "signed char": 1,
    "unsigned char": 1,
    "_Bool": 1,
    "short": 2,
    "unsigned short": 2,
    "int": 4,
    "unsigned int": 4,
    "long": 8,
    "unsigned long": 8,
    "long long": 8,
    "unsigned long long": 8,
    "float": 4,
    "double": 8,
    "long double": 16,
}
_SIZES_ON_CONTROLLER = {**_SIZES, "long": 4, "unsigned long": 4, "long double": 8}
_ENUM_SIZE = 4


@dataclass(frozen=True)
class Scalar:
    """A number. base: its normal form ("unsigned int"); name: how it is spelled ("uint32_t", "bool")."""

    base: str
    name: str

    @property
    def signed(self) -> bool:
        """Whether it holds negative numbers; char does on the host and does not on the controller."""
        return not self.base.startswith(("unsigned", "_Bool"))


@dataclass(frozen=True)
class Enumeration:
    """An enum of 32 bits. tag: "" when it has none; values: (name, number), in order."""

    tag: str
    values: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Array:
    """`count` items, one behind the other; an array of arrays has a rank."""

    count: int
    item: CType


@dataclass(frozen=True)
class Member:
    """A member of a struct or union; offset in bytes. One without a name holds members that C reaches
    as if they were the outer type's."""

    name: str
    offset: int
    type: CType


@dataclass(frozen=True)
class Record:
    """A struct or union (`kind`). tag: "" when it has none; size and align in bytes; pack: the limit of its
    members' alignment, 0 for none."""

    kind: str
    tag: str
    members: tuple[Member, ...]
    size: int
    align: int
    pack: int = 0


@dataclass(frozen=True)
class Typedef:
    """A name for a type."""

    name: str
    type: CType


CType = Scalar | Enumeration | Array | Record | Typedef


def scalar_base(words: Sequence[str]) -> str:
    """Normal form of a builtin type: ["unsigned", "long", "long", "int"] -> "unsigned long long"."""
    unsigned = "unsigned" in words
    rest = [w for w in words if w not in ("signed", "unsigned")]
    if "char" in rest:
        return "unsigned char" if unsigned else ("signed char" if "signed" in words else "char")
    if "double" in rest or "float" in rest or "_Bool" in rest or "void" in rest:
        return " ".join(sorted(rest, key=lambda w: w != "long"))
    base = "short" if "short" in rest else " ".join(w for w in rest if w == "long") or "int"
    if any(w not in ("short", "long", "int") for w in rest):
        return " ".join(words)
    return f"unsigned {base}" if unsigned else base


def scalar(base: str) -> Scalar | None:
    """The builtin type with this normal form; None when there is none with a size."""
    return Scalar(base, "bool" if base == "_Bool" else base) if base in _SIZES else None


def without_typedefs(t: CType) -> Scalar | Enumeration | Array | Record:
    """The type that a chain of typedefs names."""
    while isinstance(t, Typedef):
        t = t.type
    return t


def record_of(t: CType) -> Record:
    """The struct or union that a type is; TypeError for any other."""
    found = without_typedefs(t)
    if not isinstance(found, Record):
        raise TypeError(f"{spelled(t)} is not a struct")
    return found


# --- layout -------------------------------------------------------------------------------------------


def size_of(t: CType) -> int:
    """Bytes on the host."""
    return _size(t, _SIZES)


def size_on_controller(t: CType) -> int:
    """Bytes on the controller."""
    return _size(t, _SIZES_ON_CONTROLLER)


def _size(t: CType, scalars: dict[str, int]) -> int:
    t = without_typedefs(t)
    if isinstance(t, Array):
        return t.count * _size(t.item, scalars)
    if isinstance(t, Scalar):
        return scalars[t.base]
    return t.size if isinstance(t, Record) else _ENUM_SIZE


def align_of(t: CType) -> int:
    """Alignment in bytes."""
    t = without_typedefs(t)
    if isinstance(t, Array):
        return align_of(t.item)
    return t.align if isinstance(t, Record) else size_of(t)


def lay_out(kind: str, tag: str, members: Sequence[tuple[str, CType]], pack: int = 0) -> Record:
    """The struct or union of members (name, type) as the C ABI places them, all alignments at most `pack`.
    Without members it has no bytes, as in C."""
    placed: list[Member] = []
    end, align = 0, 1
    for name, t in members:
        own = min(align_of(t), pack or align_of(t))
        offset = 0 if kind == "union" else _up(end, own)
        placed.append(Member(name, offset, t))
        end, align = max(end, offset + size_of(t)), max(align, own)
    return Record(kind, tag, tuple(placed), _up(end, align), align, pack)


def _up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def signature(t: CType) -> str:
    """The layout as text, for a layer's identity: names and offsets of members and the numbers they are made
    of, but no name of a type."""
    t = without_typedefs(t)
    if isinstance(t, Array):
        return f"[{t.count}]{signature(t.item)}"
    if isinstance(t, Scalar):
        return t.base
    if isinstance(t, Enumeration):
        return "enum"
    members = ";".join(f"{m.name}@{m.offset}:{signature(m.type)}" for m in t.members)
    return f"{t.kind}{{{members}}}{t.size}"


# --- C text -------------------------------------------------------------------------------------------


def spelled(t: CType) -> str:
    """The type as it stands before a declarator; an array's extents follow the name."""
    if isinstance(t, Array):
        return spelled(t.item)
    if isinstance(t, Enumeration):
        return f"enum {t.tag}" if t.tag else f"enum {_enumerators(t)}"
    if isinstance(t, Record):
        return f"{t.kind} {t.tag}" if t.tag else f"{t.kind} {_body(t)}"
    return t.name


def declare(t: CType, name: str) -> str:
    """ "float x[2][3]" from a type and a name; "float[2][3]" without a name."""
    extents = ""
    inner = t
    while isinstance(inner, Array):
        extents += f"[{inner.count}]"
        inner = inner.item
    return f"{spelled(inner)} {name}{extents}" if name else f"{spelled(inner)}{extents}"


def define(t: Record | Enumeration) -> str:
    """The definition of a type with a tag."""
    return _in_pack(t, f"{spelled(t)} {_body(t) if isinstance(t, Record) else _enumerators(t)};")


def define_typedef(t: Typedef) -> str:
    """The definition of a typedef, and with it of a type without a tag that it names."""
    text = f"typedef {declare(t.type, t.name)};"
    return text if isinstance(t.type, Record) and t.type.tag else _in_pack(t.type, text)


def _in_pack(t: CType, text: str) -> str:
    """`text`, which holds the members of t, between the pragmas that their alignment needs."""
    if isinstance(t, Record) and t.pack:
        return f"#pragma pack(push, {t.pack})\n{text}\n#pragma pack(pop)"
    return text


def _body(t: Record) -> str:
    lines = (f"{declare(m.type, m.name)};".replace("\n", "\n    ") for m in t.members)
    return "{\n" + "".join(f"    {line}\n" for line in lines) + "}"


def _enumerators(t: Enumeration) -> str:
    return "{ " + ", ".join(f"{name} = {number}" for name, number in t.values) + " }"


# --- JSON ---------------------------------------------------------------------------------------------


def type_to_json(t: CType) -> dict[str, Any]:
    """The type as JSON values; `type_from_json` is the inverse."""
    if isinstance(t, Scalar):
        return {"scalar": t.base, "name": t.name}
    if isinstance(t, Enumeration):
        return {"enum": t.tag, "values": [list(v) for v in t.values]}
    if isinstance(t, Array):
        return {"array": t.count, "of": type_to_json(t.item)}
    if isinstance(t, Typedef):
        return {"typedef": t.name, "of": type_to_json(t.type)}
    members = [[m.name, m.offset, type_to_json(m.type)] for m in t.members]
    return {t.kind: t.tag, "size": t.size, "align": t.align, "pack": t.pack, "members": members}


def type_from_json(data: dict[str, Any]) -> CType:
    """The type that `type_to_json` gave. ValueError, KeyError or TypeError for damaged values, also
    for members that lie outside their struct."""
    if "scalar" in data:
        if data["scalar"] not in _SIZES:
            raise ValueError(f"no number {data['scalar']!r}")
        return Scalar(data["scalar"], data["name"])
    if "enum" in data:
        return Enumeration(data["enum"], tuple((str(name), int(number)) for name, number in data["values"]))
    if "array" in data:
        return Array(int(data["array"]), type_from_json(data["of"]))
    if "typedef" in data:
        return Typedef(data["typedef"], type_from_json(data["of"]))
    kind = "struct" if "struct" in data else "union"
    members = tuple(Member(str(name), int(at), type_from_json(of)) for name, at, of in data["members"])
    size = int(data["size"])
    if any(m.offset < 0 or m.offset + size_of(m.type) > size for m in members):
        raise ValueError(f"a {kind} of {size} bytes whose members are not inside")
    return Record(kind, data[kind], members, size, int(data["align"]), int(data["pack"]))
