"""Layers of the user's in an ONNX model, as the converter of MindSpore Lite is told about them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from firmware_sim.errors import UsageError
from user_layers.mindir.spell_custom import SHAPES
from user_layers.mindir.write import custom_text
from user_layers.onnx.model import CUSTOM_DOMAIN

_PREFIX = "TpulayerOperation"


def with_layers(source: Path, target: Path, start: int = 0) -> list[str]:
    """Write a model with names of their own for operations of the domain `tpulayer`: the converter knows
    operations by their name alone. The lines that tell it what each is; none where there are no such
    operations, and then no model is written. start: of the numbers in these names.
    Errors: UsageError for a line break or a tab in an attribute."""
    import onnx

    try:
        proto = onnx.load(str(source))
    except Exception:  # of many kinds: the converter says what it finds
        return []
    values = (*proto.graph.value_info, *proto.graph.output, *proto.graph.input)
    shapes = {value.name: _shape(value) for value in values}
    lines: list[str] = []
    for node in proto.graph.node:
        if node.domain != CUSTOM_DOMAIN:
            continue
        name = f"{_PREFIX}{start + len(lines)}"
        attributes = {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}
        texts = {key: custom_text(value).decode(errors="replace") for key, value in attributes.items()}
        texts["type"] = node.op_type
        made = [shapes.get(output, "") for output in node.output]
        if all(made):
            texts[SHAPES] = ";".join(made)
        for key, text in texts.items():
            if "\n" in text or "\t" in text or "\n" in key or "\t" in key:
                raise UsageError(f"{source}: {node.name}: its attribute {key!r} has a line break or a tab")
            lines.append(f"{name}\t{key}\t{text}")
        node.op_type, node.domain = name, ""
    if lines:
        kept = [item for item in proto.opset_import if item.domain != CUSTOM_DOMAIN]
        del proto.opset_import[:]
        proto.opset_import.extend(kept)
        onnx.save(proto, str(target))
    return lines


def _shape(value: Any) -> str:
    dims = value.type.tensor_type.shape.dim
    return "x".join(str(dim.dim_value) for dim in dims) if all(dim.dim_value > 0 for dim in dims) else ""
