"""The bmodel schema as data: model.fbs, parsed.

Only the parts of the schema language that model.fbs uses: one struct or table per block, fields
with ids, `required` and defaults. A schema that uses anything else is an error here, in the tests.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

SCALAR_BYTES = {"uint8": 1, "int32": 4, "uint32": 4, "float32": 4, "uint64": 8}

Kind = Literal["scalar", "struct", "string", "table"]

_BLOCK = re.compile(r"(table|struct)\s+(\w+)\s*\{([^}]*)\}")
_FIELD = re.compile(
    r"(?P<name>\w+)\s*:\s*(?P<vector>\[)?(?P<type>\w+)\]?\s*(=\s*[-\w.]+)?\s*"
    r"(\((?P<required>required,\s*)?id:\s*(?P<id>\d+)\))?"
)


@dataclass(frozen=True)
class SchemaField:
    """One field: what its slot holds, or with `vector` what the elements of its vector are.

    `type` names the struct or table; size and align are those of one element in place (a string
    or a table is in place a 4-byte offset).
    """

    name: str
    id: int
    kind: Kind
    type: str
    size: int
    align: int
    vector: bool
    required: bool


@dataclass(frozen=True)
class Schema:
    """Fields of every table by its name, and the root table's name."""

    tables: dict[str, tuple[SchemaField, ...]]
    root: str


def parse(text: str) -> Schema:
    """Read schema text. Raises ValueError for what the parser does not know."""
    text = re.sub(r"//[^\n]*", "", text)
    blocks = _BLOCK.findall(text)
    structs: dict[str, tuple[int, int]] = {}
    names = {name for keyword, name, _ in blocks if keyword == "table"}
    for keyword, name, body in blocks:
        if keyword == "struct":
            sizes = [SCALAR_BYTES[found["type"]] for found in _fields(body)]
            if len(set(sizes)) != 1:
                raise ValueError(f"struct {name}: only members of one size are laid out here")
            structs[name] = sum(sizes), sizes[0]
    tables: dict[str, tuple[SchemaField, ...]] = {}
    for keyword, name, body in blocks:
        if keyword != "table":
            continue
        fields = []
        for found in _fields(body):
            kind: Kind
            of = found["type"]
            if of in SCALAR_BYTES:
                kind, size, align = "scalar", SCALAR_BYTES[of], SCALAR_BYTES[of]
            elif of in structs:
                kind, (size, align) = "struct", structs[of]
            elif of == "string" or of in names:
                kind, size, align = ("string" if of == "string" else "table"), 4, 4
            else:
                raise ValueError(f"{name}.{found['name']}: unknown type {of}")
            fields.append(
                SchemaField(
                    name=found["name"],
                    id=int(found["id"]),
                    kind=kind,
                    type=of,
                    size=size,
                    align=align,
                    vector=found["vector"] is not None,
                    required=found["required"] is not None,
                )
            )
        if [f.id for f in fields] != list(range(len(fields))):
            raise ValueError(f"table {name}: field ids are not 0, 1, 2, ... in order")
        tables[name] = tuple(fields)
    root = re.search(r"root_type\s+(\w+)\s*;", text)
    if root is None or root.group(1) not in tables:
        raise ValueError("no root_type")
    return Schema(tables, root.group(1))


def _fields(body: str) -> list[re.Match[str]]:
    found = []
    for line in filter(None, (part.strip() for part in body.split(";"))):
        match = _FIELD.fullmatch(line)
        if match is None:
            raise ValueError(f"cannot read the schema line {line!r}")
        found.append(match)
    return found


@cache
def bmodel_schema() -> Schema:
    """The schema of the bmodel's flatbuffer."""
    return parse(Path(__file__).with_name("model.fbs").read_text())
