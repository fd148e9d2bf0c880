"""Custom primitives: layers of the user's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from user_layers.mindir.words import MINDSPORE
from user_layers.spelling.foreign import Operation
from user_layers.spelling.speller import Speller, Unspelled

SHAPES = "tpulayer_shapes"  # what the converter was told of the layer's outputs; no parameter


@MINDSPORE.of("Custom")
def custom(to: Speller, op: Operation) -> None:
    """The layer that `type` names; its other attributes are parameters by name."""
    kind = op.attributes.get("type")
    if not isinstance(kind, str) or not kind:
        raise Unspelled("it has no type, which names the layer")
    attributes = {
        name: _parsed(value) for name, value in op.attributes.items() if name not in ("type", SHAPES)
    }
    values = [to.own(name) for name in op.inputs if name is not None]
    layer = replace(op, kind=kind, own=True)
    for name, value in zip(op.outputs, to.own_layer(layer, values, attributes), strict=True):
        to.put(name, value)


def _parsed(value: Any) -> Any:
    """What a text says: a number, numbers with spaces or commas between them, or the text itself."""
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    if not isinstance(value, str):
        return value
    text = value.rstrip("\0")
    words = text.replace(",", " ").split()
    for kind in (int, float):
        try:
            numbers: list[float] = [kind(word) for word in words]
        except ValueError:
            continue
        return numbers[0] if len(numbers) == 1 else numbers or text
    return text
