"""Attention between pixels: v w' for weights w = softmax(..), where pixels are columns, behind channels.

Said the other way round, (w v')', it is as all attention is written, and matrices of few channels are
transposed in the place of the weights of all pairs of pixels.
"""

from __future__ import annotations

import math
from dataclasses import replace

from user_layers.onnx.model import Model, Node, Value
from user_layers.onnx.views import last_two_swapped


def weights_first(model: Model) -> Model:
    """The model with such products turned around, where fewer elements are transposed then."""
    nodes: list[Node] = []
    values = dict(model.values)
    gone: set[str] = set()
    for node in model.nodes:
        weights = _weights(model, node)
        if weights is None:
            nodes.append(node)
            continue
        name, left = node.outputs[0], node.inputs[0]
        gone.add(node.inputs[1])
        order = last_two_swapped(len(model.value(name).fixed or ()))
        sides = {f"{name}:left": left, f"{name}:exchanged": name}
        for made, given in sides.items():
            shape = model.value(given).fixed or ()
            values[made] = Value(made, tuple(shape[i] for i in order), model.value(given).dtype)
        before, after = sides
        nodes += [
            Node("Transpose", "", f"{node.name}:left", (left,), (before,), {"perm": order}),
            Node("MatMul", "", node.name, (weights, before), (after,)),
            Node("Transpose", "", f"{node.name}:back", (after,), (name,), {"perm": order}),
        ]
    kept = tuple(node for node in nodes if gone.isdisjoint(node.outputs))
    return replace(model, nodes=kept, values=values) if gone else model


def _weights(model: Model, node: Node) -> str | None:
    """The weights of a product with their transpose, which nothing else reads."""
    if not node.is_a("MatMul"):
        return None
    left, right = (model.value(name).fixed for name in node.inputs)
    turn = model.makers.get(node.inputs[1])
    if left is None or right is None or turn is None or not turn.is_a("Transpose"):
        return None
    softmax = model.makers.get(turn.inputs[0])
    if softmax is None or not softmax.is_a("Softmax"):
        return None
    if any(model.only_reader(name) is None for name in (turn.outputs[0], softmax.outputs[0])):
        return None
    rank = len(right)
    axis = int(softmax.attributes.get("axis", -1 if model.opset >= 13 else 1))
    order = [int(i) for i in turn.attributes.get("perm", range(rank)[::-1])]
    if axis not in (-1, rank - 1) or order != last_two_swapped(rank) or left[:-2] != right[:-2]:
        return None
    turned = left[-2] * (left[-1] + right[-1])
    return softmax.outputs[0] if turned <= math.prod(right[-2:]) else None
