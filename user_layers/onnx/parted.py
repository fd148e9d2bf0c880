"""Batches and heads that views make one dimension, for a transpose or a product: transposes and products of
both dimensions. So exporters of PyTorch write attention; what it sees through views is not moved in DDR."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from user_layers.onnx.fold import needed
from user_layers.onnx.model import Model, Node, Value

Shape = tuple[int, ...]
_JOINED = 3  # dimensions of matrices with batches and heads in one


def part_transposes(model: Model) -> Model:
    """Put one transpose in the place of two views and the one between, where nothing else reads these."""
    instead: dict[str, list[Node]] = {}
    for last in model.nodes:
        turn = _alone(model, last, "Reshape", "Transpose")
        first = _alone(model, turn, "Transpose", "Reshape") if turn is not None else None
        if turn is None or first is None or first.outputs[0] in instead:
            continue
        shapes = [model.value(name).fixed for name in (first.inputs[0], first.outputs[0], last.outputs[0])]
        if any(shape is None for shape in shapes) or model.value(last.outputs[0]).dtype != np.float32:
            continue
        before, joined, after = (shape or () for shape in shapes)
        perm = [int(i) for i in turn.attributes.get("perm", reversed(range(len(joined))))]
        order = _order(before, joined, after, perm)
        if order is not None:
            instead |= {first.outputs[0]: [], turn.outputs[0]: []}
            made = replace(turn, inputs=first.inputs[:1], outputs=last.outputs, attributes={"perm": order})
            instead[last.outputs[0]] = [replace(made, proto=None)]
    return model.with_instead(instead, model.constants, model.values)


def part_products(model: Model) -> Model:
    """Put products of values with two dimensions before those of the matrices in the place of products whose
    operands are seen with one, and a view behind it."""
    values, constants = dict(model.values), dict(model.constants)
    instead: dict[str, list[Node]] = {}
    for node in model.nodes:
        made = node.outputs[0] if node.is_a("MatMul") else ""
        shape = model.value(made).fixed if made else None
        if shape is None or len(shape) != _JOINED or model.value(made).dtype != np.float32:
            continue
        left, right = (_before_joined(model, name) for name in node.inputs)
        if left is None or right is None or left[1] != right[1]:
            continue
        name, nodes, inputs = f"{made}:apart", list[Node](), list[str]()
        for k, (source, lead, turned) in enumerate((left, right)):
            inputs.append(f"{name}:{k}" if turned else source)
            if turned:
                rows = model.value(node.inputs[k]).fixed or ()
                values[inputs[k]] = Value(inputs[k], (*lead, *rows[1:]), np.dtype(np.float32))
                nodes.append(Node("Transpose", "", "", (source,), (inputs[k],), {"perm": [0, 1, 3, 2]}))
        values[name] = Value(name, (*left[1], *shape[1:]), np.dtype(np.float32))
        constants[f"{name}:as"] = np.array([-1, *shape[1:]], np.int64)
        nodes.append(replace(node, inputs=tuple(inputs), outputs=(name,), proto=None))
        instead[made] = [*nodes, Node("Reshape", "", "", (name, f"{name}:as"), (made,))]
    return needed(model.with_instead(instead, constants, values)) if instead else model


def _before_joined(model: Model, name: str) -> tuple[str, Shape, bool] | None:
    """What an operand with batches and heads in one dimension was with two: that value, both, and whether its
    matrices are transposed on the way."""
    maker, turned = model.makers.get(name), False
    if maker is not None and maker.is_a("Transpose"):
        if [int(i) for i in maker.attributes.get("perm", ())] != [0, 2, 1]:
            return None
        maker, turned = model.makers.get(maker.inputs[0]), True
    if maker is None or not maker.is_a("Reshape"):
        return None
    before, after = (model.value(one).fixed for one in (maker.inputs[0], maker.outputs[0]))
    if before is None or after is None or len(before) != _JOINED + 1 or before[2:] != after[1:]:
        return None
    return maker.inputs[0], before[:2], turned


def _alone(model: Model, node: Node, op: str, before: str) -> Node | None:
    """What makes the first input of an operation, for it alone."""
    if not node.is_a(op) or model.only_reader(node.inputs[0]) is None:
        return None
    maker = model.makers.get(node.inputs[0])
    return maker if maker is not None and maker.is_a(before) else None


def _order(before: Shape, joined: Shape, after: Shape, perm: list[int]) -> list[int] | None:
    """The order of the dimensions before, where some that lie together are joined into one, which is brought
    elsewhere and parted as it was."""
    count = len(before) - len(joined) + 1
    if count < 2 or len(before) != len(after) or sorted(perm) != list(range(len(joined))):
        return None
    for at in range(len(joined)):
        own = before[at : at + count]
        if (*before[:at], math.prod(own), *before[at + count :]) != joined:
            continue
        places = [list(range(d, d + count)) if d == at else [d if d < at else d + count - 1] for d in perm]
        order = [d for group in places for d in group]
        if tuple(before[d] for d in order) == after:
            return order
    return None
