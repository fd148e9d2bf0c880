"""Recurrences with batches first, as those with steps first between transpositions: the layer has these, and
onnxruntime, which runs what the layer does not have, runs no others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from user_layers.onnx.load import infer_values
from user_layers.onnx.model import Model, Node

_TURNED = (0, 5, 6)  # of the inputs: X, initial_h, initial_c
_SWAPPED = (1, 0, 2)


def with_steps_first(model: Model) -> Model:
    """The model without layout = 1."""
    nodes: list[Node] = []
    made: list[Node] = []
    for node in model.nodes:
        if node.is_a("LSTM", "GRU", "RNN") and node.attributes.get("layout", 0) == 1:
            written = _written(node)
            made += written
            nodes += written
        else:
            nodes.append(node)
    return infer_values(replace(model, nodes=tuple(nodes)), made) if made else model


def _written(node: Node) -> list[Node]:
    def turned(before: str, after: str, order: Sequence[int]) -> Node:
        return Node("Transpose", "", "", (before,), (after,), {"perm": list(order)})

    before, after, inputs, outputs = [], [], list(node.inputs), list(node.outputs)
    for at in _TURNED:
        if at < len(inputs) and inputs[at]:
            inputs[at] = f"{node.makes[0]}:turned{at}"
            before.append(turned(node.inputs[at], inputs[at], _SWAPPED))
    for at, name in enumerate(node.outputs):
        if name:
            outputs[at] = f"{name}:steps"
            after.append(turned(outputs[at], name, _SWAPPED if at else (2, 0, 1, 3)))
    attributes = {key: value for key, value in node.attributes.items() if key != "layout"}
    inner = replace(
        node,
        name=node.name or node.makes[0],  # by which messages call it
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        attributes=attributes,
        proto=None,
    )
    return [*before, inner, *after]
