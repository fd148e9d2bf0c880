"""Values that are other values seen differently: transposed, cut, in another shape, times a number.

A view is followed back through such nodes as far as it goes; numpy says how its elements lie in what it is a
view of.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from user_layers.onnx.model import Array, Model, Node

_MOST = 1 << 28  # elements; larger values are not followed
MOST_PICKED = 1 << 24
"""The same, where every element is looked at."""
RESHAPES = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")  # which give the same elements other dimensions
_NO_MOVES = (*RESHAPES, "Identity")


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


def last_two_swapped(rank: int) -> list[int]:
    """Dimensions with the last two exchanged."""
    return [*range(rank - 2), rank - 1, rank - 2]


Step = Callable[[Array], Array]
"""What a node does to an array."""


def views_of(model: Model, name: str, last: Step = lambda a: a) -> Iterator[View]:
    """What a value is a view of: itself first, then what lies further back. last: what is done to it at the
    end, as to a numpy array."""
    for back in steps_back(model, name):
        whole = np.empty(back.shape, np.int8)
        seen = last(back.seen(whole))
        if not np.may_share_memory(seen, whole):  # the elements have no strides
            return
        offset = seen.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
        yield View(back.source, whole.size, seen.shape, seen.strides, offset, back.factor, back.nodes)


@dataclass(frozen=True)
class Picked:
    """A value [N, C, ...] of channels of another value. channels: which, in their order; moves: how many
    nodes between copy the elements."""

    source: str
    channels: Array
    moves: int


def picked_channels(model: Model, name: str) -> Picked | None:
    """The value furthest back of which this one has channels, in any order; None where there is none."""
    made = model.value(name).fixed
    found = None
    if made is None or len(made) < 3:
        return None
    for back in steps_back(model, name):
        if back.factor != 1 or math.prod(back.shape) > MOST_PICKED:
            return found
        if not back.nodes or (back.shape[0], *back.shape[2:]) != (made[0], *made[2:]):
            continue
        whole = np.arange(math.prod(back.shape)).reshape(back.shape)
        seen = back.seen(whole)
        channels = seen[0].reshape(made[1], -1)[:, 0] // math.prod(made[2:])
        if channels.max(initial=0) < back.shape[1] and np.array_equal(seen, whole[:, channels]):
            moves = sum(model.makers[output].op not in _NO_MOVES for output in back.nodes)
            found = Picked(back.source, channels, moves)
    return found


@dataclass(frozen=True)
class _Back:
    """A value that another one is made of. seen: what becomes of it on the way there."""

    source: str
    shape: tuple[int, ...]
    factor: float
    nodes: tuple[str, ...]
    seen: Step


def steps_back(model: Model, name: str, expanded: bool = False) -> Iterator[_Back]:
    """The value itself, then what lies further back. expanded: also behind values that are broadcast."""
    steps: list[Step] = []
    factor = 1.0
    passed: list[str] = []

    def seen(array: Array) -> Array:
        for step in reversed(steps):
            array = step(array)
        return array

    while True:
        shape = model.value(name).fixed
        if shape is None or not shape or not 0 < int(np.prod(shape)) <= _MOST:
            return
        if model.value(name).dtype != np.float32:
            return
        yield _Back(name, shape, factor, tuple(passed), seen)
        node = model.makers.get(name)
        if node is None or not node.is_plain:
            return
        found = step_back(model, node, name)
        if found is None and expanded and node.op == "Expand":
            found = _broadcast(model, node, shape)
        if found is None:
            return
        name, step, times = found
        steps.append(step)
        factor *= times
        passed.append(node.outputs[0])


def step_back(model: Model, node: Node, made: str) -> tuple[str, Step, float] | None:
    """What a node makes `made` of, how, and times what; None where it is no view."""
    shape = model.value(made).fixed
    before = model.value(node.inputs[0]).fixed if node.inputs and node.inputs[0] else None
    if node.op in ("Mul", "Div") and len(node.inputs) == 2:
        times = factor_of(model, node)
        return None if times is None else (times[0], lambda a: a, times[1])
    if shape is None or not before or 0 in before:
        return None
    # What a model says of its shapes may contradict its nodes; then somebody else tells of it.
    if node.op in _NO_MOVES:
        if math.prod(shape) != math.prod(before):
            return None
        return node.inputs[0], lambda a: a.reshape(shape), 1.0
    if node.op == "Transpose":
        order = [int(i) for i in node.attributes.get("perm", reversed(range(len(before))))]
        if sorted(order) != list(range(len(before))):
            return None
        return node.inputs[0], lambda a: a.transpose(order), 1.0
    found = cut_of(model, node, made, before, shape)
    if found is None:
        return None
    axis, first, extent = found
    if first + extent > before[axis] or math.prod(shape) * before[axis] != math.prod(before) * extent:
        return None
    part = tuple(slice(first, first + extent) if d == axis else slice(None) for d in range(len(before)))
    return node.inputs[0], lambda a: a[part].reshape(shape), 1.0


def broadcasts(own: tuple[int, ...], whole: tuple[int, ...]) -> bool:
    """Whether a value of a shape can be repeated to another one, as numpy does it."""
    return all(n in (1, m) for n, m in zip(own[::-1], whole[::-1], strict=False))


def _broadcast(model: Model, node: Node, shape: tuple[int, ...]) -> tuple[str, Step, float] | None:
    before = model.value(node.inputs[0]).fixed
    if before is None or not broadcasts(before, shape):
        return None
    return node.inputs[0], lambda a: np.broadcast_to(a, shape), 1.0


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
    if node.op == "GatherND":
        index = model.constants.get(node.inputs[1])
        if index is None or index.size != 1 or node.attributes.get("batch_dims", 0):
            return None
        return 0, int(index.reshape(-1)[0]) % before[0], 1
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
