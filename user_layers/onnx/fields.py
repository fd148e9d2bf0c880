"""Attributes of nodes as fields of a layer's parameter struct, in C."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def c_fields(nodes: Iterable[Mapping[str, Any]]) -> list[str]:
    """What a struct needs for the attributes of these nodes, `int dilations[3]`: lists and texts as long as
    the longest. Attributes that no field holds (tensors, lists of texts) are left out."""
    types: dict[str, str] = {}
    lengths: dict[str, int] = {}
    for attributes in nodes:
        for name, value in attributes.items():
            items = value if isinstance(value, list) else [value]
            kinds = {type(item) for item in items}
            if isinstance(value, str):
                types[name], length = "char", len(value.encode()) + 1
            elif kinds <= {int, float}:
                is_float = float in kinds or types.get(name) == "float"
                types[name], length = "float" if is_float else "int", len(items) * isinstance(value, list)
            else:
                continue
            lengths[name] = max(length, lengths.get(name, 0))
    return [f"{types[name]} {name}" + (f"[{n}]" if n else "") for name, n in lengths.items()]
