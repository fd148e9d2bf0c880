"""Outputs of a model whose shapes are known only when it has run: how large they can become.

Where data says how many results there are (boxes that are kept, numbers that are not zero), a net holds room
for the most there can be, and each run says how many there were.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from user_layers.onnx.load import infer_values
from user_layers.onnx.model import STANDARD, Model, Node, Value
from user_layers.onnx.types import obstacle

_GROW = frozenset({"Range", "ConstantOfShape", "Expand", "Tile", "Pad", "Resize", "Loop", "Scan", "If"})
"""Operations whose results can be larger than inference says of the largest operands."""


def largest_shapes(model: Model) -> dict[str, tuple[int, ...]]:
    """The largest shape of each output that has none, as far as it follows from operations whose results
    have a limit, and from those behind them."""
    wanted = {v.name for v in model.outputs if v.kind == "tensor" and v.fixed is None}
    if not wanted:
        return {}
    known = model
    for node in model.nodes:
        limits = _limits(known, node)
        if limits:
            values = {
                name: Value(name, shape, model.value(name).dtype)
                for name, shape in zip(node.outputs, limits, strict=False)
                if name
            }
            known = replace(known, values={**known.values, **values})
        elif any(model.value(name).fixed is None for name in node.makes) and _is_monotone(node):
            known = infer_values(known, [node])
    found = {name: known.value(name) for name in wanted}
    return {name: v.fixed for name, v in found.items() if v.fixed is not None and obstacle(v) is None}


def _is_monotone(node: Node) -> bool:
    return node.domain in STANDARD and node.op not in _GROW


def _limits(model: Model, node: Node) -> list[tuple[int, ...]]:
    """The largest shapes of a node's outputs, where data says how large they are; none for other nodes."""
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


_RULES: dict[str, Callable[[Model, Node, list[tuple[int, ...]]], list[tuple[int, ...]]]] = {
    "NonMaxSuppression": _boxes,
    "NonZero": _elements,
    "Compress": _compressed,
    "Unique": _different,
}
_READ = {"NonMaxSuppression": 2, "Compress": 2}  # inputs whose shapes the limit follows from; else one
