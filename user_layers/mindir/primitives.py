"""The table of MindSpore Lite's primitives: tags and fields, as flatbuffers hold them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from firmware_sim.errors import ModelError
from user_layers.mindir.flat import Table

MOST_NUMBERS = 1 << 16  # in one attribute; writers share vectors, so a small file could unfold without end


@dataclass(frozen=True)
class Field:
    """One attribute. kind: see primitives.txt; default: its value where the file leaves it out."""

    name: str
    kind: str
    default: Any


@dataclass(frozen=True)
class Primitive:
    """One row of the table. tag: in the union PrimitiveType; fields: by id."""

    name: str
    tag: int
    fields: tuple[Field, ...]


@cache
def primitives() -> tuple[Primitive, ...]:
    """The whole table; a primitive stands at its tag - 1."""
    text = Path(__file__).with_name("primitives.txt").read_text()
    rows = [line.split() for line in text.splitlines() if not line.startswith("#")]
    return tuple(
        Primitive(name, tag, tuple(_field(word) for word in words))
        for tag, (name, *words) in enumerate(rows, 1)
    )


def attributes_of(table: Table, primitive: Primitive) -> dict[str, Any]:
    """The attributes of a flatbuffer's primitive, by name; those of `attributes` kind each by their own."""
    found: dict[str, Any] = {}
    for number, field in enumerate(primitive.fields):
        if field.kind == "attributes":
            found |= {item.text(0): bytes(item.array(1, "u1")) for item in table.tables(number)}
        else:
            found[field.name] = _value(table, number, field)
    return found


def _value(table: Table, number: int, field: Field) -> Any:
    if field.kind == "text":
        return table.text(number)
    if field.kind == "longs":
        return _listed(table, number, "<i8")
    if field.kind == "ints":
        return _listed(table, number, "<i4")
    if field.kind == "floats":
        return _listed(table, number, "<f4")
    if field.kind == "pairs":
        outer = table.table(number)
        return tuple(_listed(row, 0, "<i8") for row in outer.tables(0)) if outer else ()
    return table.scalar(number, field.kind, field.default)


def _listed(table: Table, number: int, dtype: str) -> tuple[Any, ...]:
    array = table.array(number, dtype)
    if array.size > MOST_NUMBERS:
        raise ModelError(f"an attribute has {array.size} numbers")
    return tuple(array.tolist())


def _field(word: str) -> Field:
    name, _, rest = word.partition(":")
    kind, _, text = rest.partition("=")
    usual: Any = {"f": 0.0, "?": False}.get(kind, 0)
    if text:
        usual = float(text) if kind == "f" else text == "true" if kind == "?" else int(text)
    return Field(name, kind, usual)
