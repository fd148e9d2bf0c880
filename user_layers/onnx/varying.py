"""Outputs of a model whose shapes are known only when it has run: how large they can become.

Where data says how many results there are (boxes that are kept, numbers that are not zero), a net holds room
for the most there can be, and each run says how many there were.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from user_layers.onnx.bounds import largest
from user_layers.onnx.load import infer_values, node_of, value_of
from user_layers.onnx.model import STANDARD, Array, Model, Node, Value
from user_layers.onnx.proto import array_of, subgraphs
from user_layers.onnx.types import obstacle

_GROW = frozenset({"Range", "ConstantOfShape", "Expand", "Tile", "Pad", "Resize", "Loop", "Scan", "If"})
"""Operations whose results can be larger than inference says of the largest operands."""


def largest_shapes(model: Model) -> dict[str, tuple[int, ...]]:
    """The largest shape of each output that has none, as far as it follows from operations whose results
    have a limit, and from those behind them."""
    wanted = {v.name for v in model.outputs if v.kind == "tensor" and v.fixed is None}
    if not wanted:
        return {}
    known = _spread(model, model.nodes)
    found = {name: known.value(name) for name in wanted}
    return {name: v.fixed for name, v in found.items() if v.fixed is not None and obstacle(v) is None}


def _spread(known: Model, nodes: Sequence[Node]) -> Model:
    """The model with the largest shapes of what these nodes make."""
    for node in nodes:
        if limits := _limits(known, node):
            values = {
                name: Value(name, shape, known.value(name).dtype or _dtype(known, node))
                for name, shape in zip(node.outputs, limits, strict=False)
                if name and known.value(name).fixed is None
            }
            known = replace(known, values={**known.values, **values})
        elif any(known.value(name).fixed is None for name in node.makes) and _is_monotone(node):
            known = infer_values(known, [node])
        constant = _constant(known, node)
        if constant is not None:
            known = replace(known, constants={**known.constants, node.outputs[0]: constant})
    return known


def _dtype(model: Model, node: Node) -> np.dtype[Any] | None:
    counts = node.op in ("NonMaxSuppression", "NonZero")
    return np.dtype(np.int64) if counts else model.value(node.inputs[0]).dtype


def _constant(model: Model, node: Node) -> Array | None:
    """What a node in a subgraph makes of constants: those that nothing has folded."""
    if node.is_a("Constant") and "value" in node.attributes:
        array: Array = node.attributes["value"]
        return array
    shape = model.value(node.outputs[0]).fixed
    if node.is_a("Unsqueeze", "Squeeze") and node.inputs[0] in model.constants and shape is not None:
        return model.constants[node.inputs[0]].reshape(shape)
    return None


def _is_monotone(node: Node) -> bool:
    return node.domain in STANDARD and node.op not in _GROW


def _limits(model: Model, node: Node) -> list[tuple[int, ...]]:
    """The largest shapes of a node's outputs, where data says how large they are; none for other nodes."""
    if all(model.value(name).fixed is not None for name in node.makes):
        return []
    rule = _RULES.get(node.op) if node.domain in STANDARD else None
    shapes = [model.value(name).fixed if name else None for name in node.inputs]
    if rule is None or any(shape is None for shape in shapes[: _READ.get(node.op, 1)]):
        return []
    return rule(model, node, [shape or () for shape in shapes])


def _boxes(model: Model, node: Node, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    boxes, scores = shapes[:2]
    count = boxes[1]
    if len(node.inputs) < 3 or not node.inputs[2]:
        count = 0
    elif node.inputs[2] in model.constants:
        count = min(count, max(0, int(np.ravel(model.constants[node.inputs[2]])[0])))
    return [(scores[0] * scores[1] * count, 3)]


def _elements(model: Model, node: Node, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    return [(len(shapes[0]), math.prod(shapes[0]))]


def _compressed(model: Model, node: Node, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    if "axis" not in node.attributes:
        return [(min(math.prod(shapes[0]), math.prod(shapes[1])),)]
    axis = int(node.attributes["axis"]) % len(shapes[0])
    kept = min(shapes[0][axis], math.prod(shapes[1]))
    return [(*shapes[0][:axis], kept, *shapes[0][axis + 1 :])]


def _different(model: Model, node: Node, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    count = math.prod(shapes[0])
    if "axis" not in node.attributes:
        return [(count,)] * 4
    length = shapes[0][int(node.attributes["axis"])]
    return [shapes[0], *[(length,)] * 3]


def _best(model: Model, node: Node, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    most = largest(model, node.inputs[1])
    if most is None or len(most) != 1:
        return []
    axis = int(node.attributes.get("axis", -1)) % len(shapes[0])
    kept = int(min(shapes[0][axis], max(0, most[0])))
    return [(*shapes[0][:axis], kept, *shapes[0][axis + 1 :])] * 2


def _filled(model: Model, node: Node, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    most = largest(model, node.inputs[0])
    return [] if most is None or not np.isfinite(most).all() else [tuple(int(max(n, 0)) for n in most)]


def _repeated(model: Model, node: Node, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    most = largest(model, node.inputs[1])
    if most is None or not np.isfinite(most).all():
        return []
    rank = max(len(most), len(shapes[0]))
    given, asked = ((1,) * (rank - len(one)) + tuple(one) for one in (shapes[0], most))
    return [tuple(int(max(pair)) for pair in zip(given, asked, strict=True))]


def _sliced(model: Model, node: Node, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Up to an end that is computed."""
    given = [*node.inputs, *[""] * (5 - len(node.inputs))][1:]
    starts, ends, axes, steps = (largest(model, name) if name else None for name in given)
    plain = all(not given[i] or given[i] in model.constants for i in (0, 2, 3))
    computed = node.inputs[2] not in model.constants
    if not (plain and computed) or starts is None or ends is None:
        return []
    if (starts < 0).any() or (steps is not None and (steps != 1).any()):
        return []
    found = list(shapes[0])
    for axis, start, end in zip(range(len(starts)) if axes is None else axes, starts, ends, strict=True):
        extent = found[int(axis)]
        found[int(axis)] = int(max(0, min(extent, end if end >= 0 else extent) - start))
    return [tuple(found)]


def _reshaped(model: Model, node: Node, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """As many elements, where all but one of the extents are known; or so many rows as before, with a rest
    that is as long whatever their number is."""
    made = model.value(node.outputs[0]).shape or ()
    extents = [extent if isinstance(extent, int) else -1 for extent in made]
    if extents.count(-1) > 1:
        asked = largest(model, node.inputs[1])
        rows = asked is not None and bool(shapes[0]) and len(asked) > 1 and asked[0] == shapes[0][0]
        if asked is None or not rows or not np.isfinite(asked).all():
            return []
        extents = [int(extent) for extent in asked]
    known = math.prod(extent for extent in extents if extent != -1)
    if extents.count(-1) != 1 or known <= 0:
        return []
    free = math.prod(shapes[0]) // known
    return [tuple(free if extent == -1 else extent for extent in extents)]


def _either(model: Model, node: Node, shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """The larger one of what the branches make."""
    if node.proto is None:
        return []
    found = [_branch(model, graph) for graph in subgraphs(node.proto)]
    limits: list[tuple[int, ...]] = []
    for made in zip(*found, strict=True):
        known = [shape for shape in made if shape is not None]
        if len(known) < len(made) or len({len(shape) for shape in known}) != 1:
            return []
        limits.append(tuple(map(max, *known)))
    return limits


def _branch(model: Model, graph: Any) -> list[tuple[int, ...] | None]:
    nodes = [node_of(node, model.name) for node in graph.node]
    values = {v.name: value_of(v, model.name) for v in (*graph.value_info, *graph.output)}
    constants = {t.name: array_of(t, model.name) for t in graph.initializer}
    inner = replace(
        model,
        nodes=tuple(nodes),
        values={**model.values, **values},
        constants={**model.constants, **constants},
        outputs=(),
    )
    known = _spread(inner, nodes)
    return [
        known.constants[v.name].shape if v.name in known.constants else known.value(v.name).fixed
        for v in graph.output
    ]


_RULES: dict[str, Callable[[Model, Node, list[tuple[int, ...]]], list[tuple[int, ...]]]] = {
    "NonMaxSuppression": _boxes,
    "NonZero": _elements,
    "Compress": _compressed,
    "Unique": _different,
    "TopK": _best,
    "Reshape": _reshaped,
    "Slice": _sliced,
    "ConstantOfShape": _filled,
    "Expand": _repeated,
    "If": _either,
}
_READ = {"NonMaxSuppression": 2, "Compress": 2}  # inputs whose shapes the limit follows from; else one
