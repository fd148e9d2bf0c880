"""Places along an axis, one by one: a recurrence that is written out step by step takes x[:, :, t] for each t
and stacks what it makes along the same axis.

With the axis first each place lies in one piece, so that nothing is copied for it; one transposition brings
it there, or puts what was stacked where it belongs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from user_layers.onnx.model import Model, Node, Value
from user_layers.onnx.work import DDR_BYTES

_ROW = 4  # cycles more for each row that is copied alone
_FEWEST = 8  # places


def put_places_first(model: Model) -> Model:
    """Take places from the front of a transposed tensor, and stack them there, where that is faster."""
    constants, values = dict(model.constants), dict(model.values)
    taken: dict[tuple[str, int], list[Node]] = {}
    for node in model.nodes:
        axis = _axis_of_one_place(model, node)
        if axis is not None:
            taken.setdefault((node.inputs[0], axis), []).append(node)
    instead: dict[str, list[Node]] = {}
    for (source, axis), places in taken.items():
        shape = model.value(source).fixed
        assert shape is not None  # as of all that have such an axis
        if not _pays(shape, axis, len(places)):
            continue
        front, order = f"{source}:axis{axis}", _first(axis, len(shape))
        values[front] = replace(model.value(source), name=front, shape=tuple(shape[d] for d in order))
        before = [Node("Transpose", "", places[0].name, (source,), (front,), {"perm": order})]
        for node in places:
            moved = replace(node, inputs=(front, node.inputs[1]), attributes={"axis": 0}, proto=None)
            instead[node.outputs[0]] = [*before, moved]
            before = []
    for node in model.nodes:
        axis = _axis_of_a_stack(model, node)
        if axis is not None:
            instead[node.outputs[0]] = _stacked(model, node, axis, values)
    return model.with_instead(instead, constants, values)


def _first(axis: int, rank: int) -> tuple[int, ...]:
    return (axis, *(d for d in range(rank) if d != axis))


def _pays(shape: Sequence[int], axis: int, count: int) -> bool:
    """Whether as many copies of single places take longer than a transposition."""
    rows = count * math.prod(shape[:axis])
    return count >= _FEWEST and axis > 0 and rows * _ROW > 8 * math.prod(shape) / DDR_BYTES


def _axis_of_one_place(model: Model, node: Node) -> int | None:
    """The axis that a Gather with one constant index takes away."""
    if not node.is_a("Gather") or node.inputs[0] in model.constants:
        return None
    index, shape = model.constants.get(node.inputs[1]), model.value(node.inputs[0]).fixed
    if index is None or index.ndim or shape is None:
        return None
    axis = int(node.attributes.get("axis", 0))
    return axis + len(shape) if axis < 0 else axis


def _axis_of_a_stack(model: Model, node: Node) -> int | None:
    """The axis of a Concat whose parts have one place each, where it is not to be the first only for them."""
    if not node.is_a("Concat"):
        return None
    shape = model.value(node.outputs[0]).fixed
    if shape is None or model.value(node.outputs[0]).dtype != np.float32:
        return None
    axis = int(node.attributes.get("axis", 1))
    axis += len(shape) if axis < 0 else 0
    if shape[axis] != len(node.inputs) or any(name in model.constants for name in node.inputs):
        return None
    return axis if _pays(shape, axis, len(node.inputs)) else None


def _stacked(model: Model, node: Node, axis: int, values: dict[str, Value]) -> list[Node]:
    """The parts behind one another, and their transposition."""
    shape = model.value(node.outputs[0]).fixed
    assert shape is not None
    made: list[Node] = []
    fronts: list[str] = []
    order = _first(axis, len(shape))
    for name in node.inputs:
        front = f"{name}:first{len(fronts)}:{node.outputs[0]}"
        part = model.value(name)
        assert part.fixed is not None
        values[front] = replace(part, name=front, shape=tuple(part.fixed[d] for d in order))
        made.append(Node("Transpose", "", node.name, (name,), (front,), {"perm": order}))
        fronts.append(front)
    whole = f"{node.outputs[0]}:first"
    values[whole] = replace(model.value(node.outputs[0]), name=whole, shape=tuple(shape[d] for d in order))
    back = tuple(int(d) for d in np.argsort(order))
    return [
        *made,
        Node("Concat", "", node.name, tuple(fronts), (whole,), {"axis": 0}),
        Node("Transpose", "", node.name, (whole,), node.outputs, {"perm": back}),
    ]
