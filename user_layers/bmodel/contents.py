"""What is in a bmodel, field by field: tpu_model --print, --weight and --dump."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from firmware_sim.errors import UsageError
from user_layers.bmodel.container import unpack
from user_layers.bmodel.schema import SchemaField, bmodel_schema
from user_layers.files import write_atomic


def as_json(path: Path) -> str:
    """Every field of the flatbuffer as JSON, in the names of the format. ModelError for a damaged file."""
    return json.dumps(_table(bmodel_schema().root, unpack(path).model), indent=2)


def weights(path: Path) -> str:
    """Where the constants of each layer lie, in the vendor tool's lines; only its compiler stores that."""
    lines = []
    for i, net in enumerate(unpack(path).model.net):
        for k, parameter in enumerate(net.parameter):
            lines += [f'net {i} : "{_value(net.name)}", stage:{k}', "-" * 31]
            coeff = parameter.coeffMem
            for place in (coeff.location or ()) if coeff is not None else ():
                end = place.offset + place.size
                lines.append(f"{_value(place.name)} : [{place.offset:#x}, {end:#x})")
            lines.append("=" * 42)
    return "\n".join(lines)


def dump(path: Path, start: int, size: int, target: Path) -> None:
    """Write bytes of the binary part into a file. UsageError for bytes that it does not have."""
    binary = unpack(path).binary
    if start < 0 or size < 1 or start + size > len(binary):
        raise UsageError(
            f"{path} has {len(binary)} bytes of binary data; asked for are {size} from {start}",
            hint="--print shows where each piece starts and how long it is",
        )
    write_atomic(target, bytes(binary[start : start + size]))


def _table(name: str, part: Any) -> dict[str, Any]:
    """One table as a dict of the fields that it has."""
    found: dict[str, Any] = {}
    for field in bmodel_schema().tables[name]:
        value = getattr(part, _attribute(field.name))
        if value is not None:
            found[field.name] = [_one(field, v) for v in value] if field.vector else _one(field, value)
    return found


def _one(field: SchemaField, value: Any) -> Any:
    if field.kind == "table":
        return _table(field.type, value)
    if field.kind == "struct":
        return {name: int(number) for name, number in vars(value).items()}
    return _value(value)


def _value(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    return value.item() if hasattr(value, "item") else value


def _attribute(name: str) -> str:
    """What flatc calls a field in Python."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
