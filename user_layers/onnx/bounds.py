"""How large whole numbers of a model can become that follow from shapes: counts of results, and the smaller
one of a count and a limit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from user_layers.onnx.model import Model, Node

Bounds = npt.NDArray[np.float64]
"""The largest that each element can be, in the shape of a list; infinity where nothing is known."""

_MOST = 64  # elements of a value that is followed
_DEPTH = 64  # operations


def largest(model: Model, name: str, depth: int = _DEPTH) -> Bounds | None:
    """The bounds of a value, where its elements are known to be few. The shapes that the model has of values
    count as the largest that they can have."""
    if name in model.constants:
        constant = model.constants[name]
        return constant.reshape(-1).astype(np.float64) if constant.size <= _MOST else None
    node = model.makers.get(name)
    rule = _RULES.get(node.op) if node is not None and node.is_plain and depth else None
    if node is None or rule is None:
        count = model.value(name).fixed
        elements = int(np.prod(count)) if count is not None else _MOST + 1
        return np.full(elements, np.inf) if elements <= _MOST else None
    return rule(model, node, depth - 1)


def _shape(model: Model, node: Node, depth: int) -> Bounds | None:
    shape = model.value(node.inputs[0]).fixed
    if shape is None:
        return None
    start, end = (int(node.attributes.get(key, other)) for key, other in (("start", 0), ("end", len(shape))))
    return np.array(shape[start:end], np.float64)


def _same(model: Model, node: Node, depth: int) -> Bounds | None:
    return largest(model, node.inputs[0], depth)


def _gather(model: Model, node: Node, depth: int) -> Bounds | None:
    whole, index = largest(model, node.inputs[0], depth), model.constants.get(node.inputs[1])
    lists = len(model.value(node.inputs[0]).fixed or ()) == 1
    return whole[index.reshape(-1)] if whole is not None and index is not None and lists else None


def _concat(model: Model, node: Node, depth: int) -> Bounds | None:
    parts = [largest(model, name, depth) for name in node.inputs]
    known = [part for part in parts if part is not None]
    lists = len(model.value(node.outputs[0]).fixed or ()) == 1
    return np.concatenate(known) if lists and len(known) == len(parts) else None


def _reduced(model: Model, node: Node, depth: int) -> Bounds | None:
    """Of all elements."""
    whole, made = largest(model, node.inputs[0], depth), model.value(node.outputs[0]).fixed
    if whole is None or made is None or np.prod(made) != 1 or not len(whole):
        return None
    return np.array([whole.min() if node.op == "ReduceMin" else whole.max()])


def _of_each(model: Model, node: Node, depth: int, first: int = 0) -> list[Bounds] | None:
    """The bounds of the inputs from the `first` on, made equally long."""
    parts = [largest(model, name, depth) for name in node.inputs[first:]]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts) or len({len(part) for part in known} - {1}) > 1:
        return None
    return [np.asarray(part) for part in np.broadcast_arrays(*known)]


def _elementwise(model: Model, node: Node, depth: int) -> Bounds | None:
    parts = _of_each(model, node, depth, first=1 if node.op == "Where" else 0)
    if parts is None or (node.op == "Mul" and any((part < 0).any() for part in parts)):
        return None
    found: Bounds = _COMBINED[node.op](parts)
    return None if np.isnan(found).any() else found


_COMBINED: dict[str, Callable[[list[Bounds]], Bounds]] = {
    "Min": np.minimum.reduce,
    "Max": np.maximum.reduce,
    "Where": np.maximum.reduce,
    "Add": np.add.reduce,
    "Mul": np.multiply.reduce,
}
_RULES: dict[str, Callable[[Model, Node, int], Bounds | None]] = {
    "Shape": _shape,
    **dict.fromkeys(("Cast", "Identity", "Squeeze", "Unsqueeze", "Reshape"), _same),
    "Gather": _gather,
    "Concat": _concat,
    **dict.fromkeys(("ReduceMin", "ReduceMax"), _reduced),
    **dict.fromkeys(_COMBINED, _elementwise),
}
