"""What is repeated only for an operation that repeats it by itself: `x * scale.expand_as(x)`, as many write
gates of channels, reads and writes a whole tensor of copies."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from user_layers.onnx.fold import needed
from user_layers.onnx.model import ARITHMETIC, Model, Node

_REPEATING = (*ARITHMETIC, "Pow", "Max", "Min", "Where", "Equal", "Less", "Greater", "LessOrEqual")


def without_repeats(model: Model) -> Model:
    """Operations of elements read what an Expand repeats, where their results have the same shape so."""
    found: dict[str, Node] = {}
    for node in model.nodes:
        inputs = _shorter(model, node)
        if inputs is not None:
            found[node.outputs[0]] = replace(node, inputs=inputs, proto=None)
    if not found:
        return model
    nodes = (found.get(node.outputs[0], node) if node.outputs else node for node in model.nodes)
    return needed(replace(model, nodes=tuple(nodes)))


def _shorter(model: Model, node: Node) -> tuple[str, ...] | None:
    """The inputs of a node without what repeats them; None where they stay."""
    if not node.is_a(*_REPEATING) or "axis" in node.attributes:
        return None
    inputs = list(node.inputs)
    wanted = model.value(node.outputs[0]).fixed
    for i, name in enumerate(node.inputs):
        maker = model.makers.get(name)
        if maker is None or not maker.is_a("Expand"):
            continue
        shorter = [*inputs[:i], maker.inputs[0], *inputs[i + 1 :]]
        shapes = [model.value(each).fixed for each in shorter]
        known = [shape for shape in shapes if shape is not None]
        if len(known) == len(shapes) and np.broadcast_shapes(*known) == wanted:
            inputs = shorter
    return tuple(inputs) if inputs != list(node.inputs) else None
