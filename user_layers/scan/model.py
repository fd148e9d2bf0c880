"""What a scan finds: plain records, each with the place in the source it comes from.

Nothing here imports the C parser, so that a scan answered from the cache stays fast.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from firmware_sim.errors import SourceError
from user_layers.scan.ctype import (
    CType,
    Member,
    align_of,
    record_of,
    signature,
    size_of,
    spelled,
    type_from_json,
    type_to_json,
)

DEVICE_KINDS = ("PARAM", "GLOBAL", "LOCAL", "SHAPE")
KINDS = (*DEVICE_KINDS, "DESC")
SDK_TYPES_KEY = "sdk types"  # the declaration that stands for the enums of the layer headers


def marker(kind: str, op: str) -> str:
    """The marker as the user writes it."""
    return f"__BM_{kind}__({op})"


@dataclass(frozen=True, order=True)
class Location:
    """A place in a source file; line and column count from 1."""

    file: Path
    line: int
    column: int

    def __str__(self) -> str:
        return f"{display_path(self.file)}:{self.line}:{self.column}"


def display_path(path: Path) -> str:
    """`path` as messages show it: relative when it lies under the current folder."""
    try:
        relative = os.path.relpath(path)
    except ValueError:  # another drive
        return str(path)
    return str(path) if relative.startswith("..") else relative


@dataclass(frozen=True, order=True)
class Problem:
    """One error of a scan: where, what was found and what is expected, how to mend it."""

    location: Location
    message: str
    hint: str = ""

    def __str__(self) -> str:
        text = f"{self.location}: {self.message}"
        return f"{text}\n  hint: {self.hint}" if self.hint else text


class ScanError(SourceError):
    """Every problem of a scan in one error, sorted by place; `problems` holds them one by one."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(set(problems)))
        first = self.problems[0]
        if len(self.problems) == 1:
            super().__init__(f"{first.location}: {first.message}", hint=first.hint)
        else:
            body = "\n".join(str(p) for p in self.problems)
            super().__init__(f"{len(self.problems)} errors in the layer sources\n{body}")


@dataclass(frozen=True)
class Symbol:
    """A C function or a C++ class by its name (qualified for a class), and where it is defined."""

    name: str
    location: Location


@dataclass(frozen=True)
class Declaration:
    """A C definition that bmtpu.h carries: `key` names what it defines ("struct x", "typedef y",
    "enumerator Z"...), `names` every identifier it claims at file scope, `text` is the C."""

    key: str
    names: tuple[str, ...]
    text: str
    location: Location


@dataclass(frozen=True)
class ParamStruct:
    """A layer's parameter struct; its layout is the same on the controller and on the host.

    type   a struct with a tag, or the typedef of a struct
    needs  the definitions it is made of, itself last, in an order that compiles
    """

    type: CType
    needs: tuple[Declaration, ...]
    location: Location

    @property
    def c_type(self) -> str:
        """How C and C++ spell it: "tpu_crop_param_t" or "struct crop"."""
        return spelled(self.type)

    @property
    def size(self) -> int:
        """Bytes; 0 for an empty one, as in C."""
        return size_of(self.type)

    @property
    def align(self) -> int:
        """Alignment in bytes."""
        return align_of(self.type)

    @property
    def hash(self) -> int:
        """64 bits over field names, types and offsets, nested ones included."""
        digest = hashlib.blake2b(signature(self.type).encode(), digest_size=8).digest()
        return int.from_bytes(digest, "little")

    @property
    def fields(self) -> tuple[Member, ...]:
        """The struct's members, in order."""
        return record_of(self.type).members


@dataclass(frozen=True)
class LayerInfo:
    """One custom layer, complete: every marker found and checked.

    op is the marker's name ("TPU_CROP"), name its short form ("crop"), op_type its number.
    """

    op: str
    name: str
    op_type: int
    param: ParamStruct
    global_fn: Symbol
    local_fn: Symbol | None
    shape_fn: Symbol
    descriptor: Symbol

    @property
    def files(self) -> tuple[Path, ...]:
        """Every file that holds a part of the layer, each once, sorted."""
        parts = [self.param.location, self.global_fn.location, self.shape_fn.location]
        parts += [self.descriptor.location]
        if self.local_fn:
            parts.append(self.local_fn.location)
        return tuple(sorted({p.file for p in parts}))


@dataclass(frozen=True)
class LayerTable:
    """All layers of a workspace, by op_type. `host_dir` is the folder that descriptor headers are
    included from; `op_base` the number that the first layer gets."""

    layers: tuple[LayerInfo, ...]
    host_dir: Path
    op_base: int = 0

    @property
    def included_sources(self) -> tuple[Path, ...]:
        """Host .cpp files that hold a descriptor class: the generated host entry includes them,
        so the build must not compile them a second time."""
        found = {x.descriptor.location.file for x in self.layers}
        return tuple(sorted(f for f in found if f.suffix not in HEADER_SUFFIXES))

    def layer(self, op: str) -> LayerInfo:
        """The layer with this op ("TPU_CROP") or short name ("crop"); KeyError when there is none."""
        for x in self.layers:
            if op in (x.op, x.name):
                return x
        raise KeyError(op)


HEADER_SUFFIXES = (".h", ".hpp", ".hh", ".hxx")


@dataclass(frozen=True)
class Mark:
    """A marker and what it stands before: a function, a parameter struct or a descriptor class.

    `symbol` is None when the target was refused (a problem says why).
    """

    kind: str
    op: str
    location: Location
    symbol: Symbol | None = None
    param: ParamStruct | None = None


@dataclass(frozen=True)
class HostClass:
    """A C++ class of a host file: qualified name and the names of its public bases."""

    name: str
    bases: tuple[str, ...]
    hidden_bases: tuple[str, ...]


@dataclass(frozen=True)
class HostMethod:
    """A method, or a data member, that a class of a host file declares; called: the class's users can call
    it, or their base class calls it (it is public or virtual)."""

    of: str  # the class, qualified
    name: str
    location: Location
    called: bool
    virtual: bool
    data: bool = False  # a data member


@dataclass
class FileFacts:
    """What one file contributes. `depends` maps every file that was read or looked for to the
    digest of its content, "" for one that does not exist."""

    marks: list[Mark] = field(default_factory=list)
    classes: list[HostClass] = field(default_factory=list)
    methods: list[HostMethod] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    depends: dict[str, str] = field(default_factory=dict)


# --- JSON, for the cache ------------------------------------------------------------------------


def _place(x: Location) -> list[Any]:
    return [str(x.file), x.line, x.column]


def _unplace(x: Sequence[Any]) -> Location:
    return Location(Path(x[0]), x[1], x[2])


def _param_json(p: ParamStruct) -> dict[str, Any]:
    return {
        "type": type_to_json(p.type),
        "needs": [[d.key, list(d.names), d.text, _place(d.location)] for d in p.needs],
        "at": _place(p.location),
    }


def _param_from(x: dict[str, Any]) -> ParamStruct:
    return ParamStruct(
        type=type_from_json(x["type"]),
        needs=tuple(Declaration(k, tuple(n), t, _unplace(p)) for k, n, t, p in x["needs"]),
        location=_unplace(x["at"]),
    )


def to_json(facts: FileFacts) -> dict[str, Any]:
    """Facts as JSON values; `from_json` is the inverse."""
    return {
        "marks": [
            [
                m.kind,
                m.op,
                _place(m.location),
                [m.symbol.name, _place(m.symbol.location)] if m.symbol else None,
                _param_json(m.param) if m.param else None,
            ]
            for m in facts.marks
        ],
        "classes": [[c.name, list(c.bases), list(c.hidden_bases)] for c in facts.classes],
        "methods": [[m.of, m.name, _place(m.location), m.called, m.virtual, m.data] for m in facts.methods],
        "problems": [[_place(p.location), p.message, p.hint] for p in facts.problems],
        "depends": facts.depends,
    }


def from_json(data: dict[str, Any]) -> FileFacts:
    """Facts from what `to_json` gave. Damaged values raise ValueError, KeyError, TypeError or IndexError."""
    return FileFacts(
        marks=[
            Mark(
                kind,
                op,
                _unplace(at),
                Symbol(symbol[0], _unplace(symbol[1])) if symbol else None,
                _param_from(param) if param else None,
            )
            for kind, op, at, symbol, param in data["marks"]
        ],
        classes=[HostClass(n, tuple(b), tuple(h)) for n, b, h in data["classes"]],
        methods=[HostMethod(of, n, _unplace(at), c, v, d) for of, n, at, c, v, d in data["methods"]],
        problems=[Problem(_unplace(at), m, h) for at, m, h in data["problems"]],
        depends=dict(data["depends"]),
    )
