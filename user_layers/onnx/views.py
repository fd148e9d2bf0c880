"""Values that are other values seen differently: transposed, cut, in another shape, times a number.

A view is followed back through such nodes as far as it goes; numpy says how its elements lie in what it is a
view of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from user_layers.onnx.model import STANDARD, Array, Model, Node

_MOST = 1 << 28  # elements; larger values are not followed


@dataclass(frozen=True)
class View:
    """Elements of a value in order. source: the value; count: its elements; shape: of the view; strides,
    offset: of its elements in those of the source, row by row; factor: what they are multiplied by; nodes:
    what lies between, by their first outputs."""

    source: str
    count: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    factor: float
    nodes: tuple[str, ...]


_Step = Callable[[Array], Array]


def views_of(
    model: Model, makers: Mapping[str, Node], name: str, last: _Step = lambda a: a
) -> Iterator[View]:
    """What a value is a view of: itself first, then what lies further back. last: what is done to it at the
    end, as to a numpy array."""
    steps: list[_Step] = [last]
    factor = 1.0
    passed: list[str] = []
    while True:
        shape = model.value(name).fixed
        if shape is None or not shape or not 0 < int(np.prod(shape)) <= _MOST:
            return
        if model.value(name).dtype != np.float32:
            return
        whole = np.empty(shape, np.int8)
        seen = whole
        for step in reversed(steps):
            seen = step(seen)
        if not np.may_share_memory(seen, whole):  # the elements have no strides
            return
        offset = seen.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
        yield View(name, whole.size, seen.shape, seen.strides, offset, factor, tuple(passed))
        node = makers.get(name)
        if node is None or node.domain not in STANDARD or node.mapped:
            return
        found = _step(model, node, name)
        if found is None:
            return
        name, step, times = found
        steps.append(step)
        factor *= times
        passed.append(node.outputs[0])


def _step(model: Model, node: Node, made: str) -> tuple[str, _Step, float] | None:
    """What a node makes `made` of, how, and times what; None where it is no view."""
    shape = model.value(made).fixed
    before = model.value(node.inputs[0]).fixed if node.inputs and node.inputs[0] else None
    if node.op in ("Mul", "Div") and len(node.inputs) == 2:
        times = factor_of(model, node)
        return None if times is None else (times[0], lambda a: a, times[1])
    if shape is None or before is None:
        return None
    if node.op in ("Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity"):
        return node.inputs[0], lambda a: a.reshape(shape), 1.0
    if node.op == "Transpose":
        order = [int(i) for i in node.attributes.get("perm", reversed(range(len(before))))]
        return node.inputs[0], lambda a: a.transpose(order), 1.0
    found = cut_of(model, node, made, before, shape)
    if found is None:
        return None
    axis, first, extent = found
    part = tuple(slice(first, first + extent) if d == axis else slice(None) for d in range(len(before)))
    return node.inputs[0], lambda a: a[part].reshape(shape), 1.0


def factor_of(model: Model, node: Node) -> tuple[str, float] | None:
    """What a Mul or Div has as its other operand than a number, and by what that is multiplied; None where it
    is something else, or the result has another shape."""
    shape = model.value(node.outputs[0]).fixed
    for source, name in (node.inputs, node.inputs[::-1]):
        number = model.constants.get(name)
        if (
            number is None
            or number.size != 1
            or source in model.constants
            or model.value(source).fixed != shape
        ):
            continue
        value = float(number.reshape(-1)[0])
        if not np.isfinite(value) or value == 0 or (node.op == "Div" and source != node.inputs[0]):
            return None
        return source, value if node.op == "Mul" else 1 / value
    return None


def cut_of(
    model: Model, node: Node, made: str, before: tuple[int, ...], shape: tuple[int, ...]
) -> tuple[int, int, int] | None:
    """(axis, first index, extent) of what a node cuts out along one axis."""
    if node.op == "Split":
        axis = int(node.attributes.get("axis", 0)) % len(before)
        sizes = []
        for name in node.outputs:
            part = model.value(name).fixed if name else None
            if part is None:
                return None
            sizes.append(part[axis])
        at = node.outputs.index(made)
        return axis, sum(sizes[:at]), sizes[at]
    if node.op == "Gather":
        index, axis = model.constants.get(node.inputs[1]), int(node.attributes.get("axis", 0)) % len(before)
        if index is None or index.size != 1:
            return None
        return axis, int(index.reshape(-1)[0]) % before[axis], 1
    if node.op != "Slice" or len(node.inputs) < 3:  # before opset 10
        return None
    numbers: list[int | None] = []
    for name, otherwise in zip((*node.inputs[1:5], "", "")[:4], (None, None, 0, 1), strict=True):
        array = model.constants.get(name) if name else None
        if (name and array is None) or (array is not None and array.size != 1):
            return None
        numbers.append(otherwise if array is None else int(array.reshape(-1)[0]))
    start, _, given, step = numbers
    if start is None or given is None or step != 1:
        return None
    along = given % len(before)
    from_low = start + (before[along] if start < 0 else 0)
    return along, min(max(from_low, 0), before[along]), shape[along]
