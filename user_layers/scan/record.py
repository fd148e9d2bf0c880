"""What a scan found of the layers' parameters, as a JSON file beside the generated header.

A build installs it with the firmware and the plugin that it belongs to, so that Python packs the structs that
those were compiled with, whatever has become of the sources.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from firmware_sim.errors import MissingError, SourceError
from user_layers.scan.ctype import CType, record_of, type_from_json, type_to_json
from user_layers.scan.model import LayerInfo, display_path

_FORMAT = 1


@dataclass(frozen=True)
class RecordedLayer:
    """A layer's name ("TPU_CROP"), its number, and the type of its parameter struct."""

    op: str
    op_type: int
    param: CType


def layer_record(layers: Iterable[LayerInfo]) -> str:
    """The file's text; `read_layer_record` reads it."""
    rows = ({"op": x.op, "op_type": x.op_type, "param": type_to_json(x.param.type)} for x in layers)
    lines = ",\n".join(json.dumps(row) for row in rows)
    return f'{{"format": {_FORMAT}, "layers": [\n{lines}\n]}}\n'


def read_layer_record(path: Path) -> list[RecordedLayer]:
    """The layers of a record. MissingError when there is no such file, SourceError for another one."""
    try:
        data = json.loads(path.read_bytes())
        if data["format"] != _FORMAT:
            raise ValueError(f"format {data['format']}, expected {_FORMAT}")
        return [_layer(row) for row in data["layers"]]
    except FileNotFoundError:
        raise MissingError(
            f"{display_path(path)} is missing, so the layers' parameters are unknown",
            hint="run `tpulayer build_layers`",
        ) from None
    except (ValueError, KeyError, TypeError, RecursionError) as e:
        raise SourceError(
            f"{display_path(path)}: not a record that this version writes ({type(e).__name__}: {e})",
            hint="run `tpulayer build_layers` again",
        ) from e


def _layer(row: dict[str, object]) -> RecordedLayer:
    op, op_type, param = row["op"], row["op_type"], row["param"]
    if not isinstance(op, str) or not isinstance(op_type, int) or not isinstance(param, dict):
        raise TypeError(f"a layer {op!r} with the number {op_type!r}")
    found = type_from_json(param)
    record_of(found)
    return RecordedLayer(op, op_type, found)
