"""Transposes of dimensions that a view before them joins and one behind them parts again: transposes of the
dimensions themselves. So exporters of PyTorch write the keys of attention; what attention sees through views
does not go through DDR."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from user_layers.onnx.model import Model, Node

Shape = tuple[int, ...]


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
