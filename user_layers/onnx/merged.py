"""Operations of two values with more than four dimensions, which local memory does not take, in as few as
they need: neighbours along which both are whole, or the same one is repeated, are one dimension."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from user_layers.onnx.columns import without_detours
from user_layers.onnx.fold import needed
from user_layers.onnx.model import ARITHMETIC, Array, Model, Node, Value
from user_layers.onnx.rows import parts_of

Shape = tuple[int, ...]
_MOST = 4  # dimensions in local memory
_VOLUMES = 5  # dimensions, which stay planes where neither operand is repeated along what the other has


def merge_dimensions(model: Model) -> Model:
    """Put views with fewer dimensions around such operations."""
    constants: dict[str, Array] = dict(model.constants)
    values = dict(model.values)
    instead: dict[str, list[Node]] = {}

    def view(source: str, made: str, shape: Shape) -> Node:
        constants[f"{made}:shape"] = np.array(shape, np.int64)
        values.setdefault(made, Value(made, shape, np.dtype(np.float32)))
        return Node("Reshape", "", "", (source, f"{made}:shape"), (made,))

    for node in model.nodes:
        shapes = _merged(model, node)
        if shapes is None:
            continue
        made = node.outputs[0]
        inputs = [f"{made}:merged{i}" for i in range(2)]
        nodes = []
        for source, name, shape in zip(node.inputs, inputs, shapes, strict=False):
            if source in constants:
                constants[name] = constants[source].reshape(shape)
            else:
                nodes.append(view(source, name, shape))
        whole = values[made].fixed
        assert whole is not None
        values[f"{made}:merged"] = Value(f"{made}:merged", shapes[2], np.dtype(np.float32))
        nodes.append(replace(node, inputs=tuple(inputs), outputs=(f"{made}:merged",), proto=None))
        instead[made] = [*nodes, view(f"{made}:merged", made, whole)]
    return needed(without_detours(model.with_instead(instead, constants, values)))


def _merged(model: Model, node: Node) -> tuple[Shape, Shape, Shape] | None:
    """The shapes of both operands and the result in fewer dimensions; None where they stay as they are."""
    if not node.is_a(*ARITHMETIC) or len(node.inputs) != 2 or "axis" in node.attributes:
        return None
    every = [model.value(name) for name in (*node.inputs, node.outputs[0])]
    if any(value.fixed is None or value.dtype != np.float32 for value in every):
        return None
    left, right, made = (value.fixed or () for value in every)
    rank = len(made)
    if rank <= _MOST or 0 in made:
        return None
    left, right = ((*(1,) * (rank - len(one)), *one) for one in (left, right))
    kinds = [(a != 1, b != 1) for a, b in zip(left, right, strict=True)]
    if rank == _VOLUMES and not {(True, False), (False, True)} <= {*kinds}:
        return None
    groups: list[list[int]] = []
    for d, kind in enumerate(kinds):
        if made[d] == 1:
            continue
        if groups and kinds[groups[-1][-1]] == kind:
            groups[-1].append(d)
        else:
            groups.append([d])
    if not 0 < len(groups) <= _MOST:
        return None
    shapes = [tuple(math.prod(one[d] for d in group) for group in groups) for one in (left, right, made)]
    if len(groups) == _MOST:
        return shapes[0], shapes[1], shapes[2]
    # A dimension more in front, so that the first one lies over the lanes.
    parts = parts_of(shapes[2][0])
    first = [parts if one[0] != 1 else 1 for one in shapes]
    found = [(n, one[0] // n, *one[1:]) for n, one in zip(first, shapes, strict=True)]
    return found[0], found[1], found[2]
