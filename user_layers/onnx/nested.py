"""Concatenations that begin as another one does: of that one's result and the rest.

Where every layer adds channels to all that were there before, the whole would be copied each time; so each
concatenation is the beginning of the next and nothing is copied twice.
"""

from __future__ import annotations

from dataclasses import replace

from user_layers.onnx.model import Model, Node


def nest_concatenations(model: Model) -> Model:
    """Each Concat reads the longest earlier one whose inputs its own begin with."""
    known: dict[tuple[str, ...], tuple[str, int]] = {}  # by inputs: the result and the axis
    nodes: list[Node] = []
    for node in model.nodes:
        if node.is_a("Concat"):
            shape = model.value(node.outputs[0]).shape
            axis = int(node.attributes.get("axis", 1))  # before opset 4 it had a default
            axis += len(shape) if axis < 0 and shape is not None else 0
            given = node.inputs
            for count in range(len(given) - 1, 1, -1):
                before = known.get(given[:count])
                if before is not None and before[1] == axis:
                    node = replace(node, inputs=(before[0], *given[count:]), proto=None)
                    break
            known.setdefault(given, (node.outputs[0], axis))
        nodes.append(node)
    return replace(model, nodes=tuple(nodes))
