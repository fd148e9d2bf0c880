"""Rows that several nodes move, one after the other (windows, rolls, patches that are merged): moved once.

Slices, concatenations, transposes and views between one value and another are seen as what they do to
numbers; where whole rows of the first value come out in another order, one Gather of rows does it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from firmware_sim.isa.timing import FITTED
from user_layers.onnx.columns import without_detours
from user_layers.onnx.fold import needed
from user_layers.onnx.model import STANDARD, Array, Model, Node, Value

_VIEWS = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity")
_MOVES = ("Transpose", "Slice", "Concat")
_MOST = 1 << 24  # elements whose ways are followed
_LEAST = 16  # elements of a row: shorter ones are no runs of copies
_BURST = 16  # elements that the DMA engine moves at a time
_GAIN = 0.8  # of what it takes now


def move_rows(model: Model) -> Model:
    """One Gather in the place of two or more nodes that move rows of one value, where the clock says that it
    is faster."""
    instead: dict[str, list[Node]] = {}
    constants: dict[str, Array] = dict(model.constants)
    values = dict(model.values)
    gone: set[str] = set()
    for node in reversed(model.nodes):
        if (
            not node.outputs
            or node.outputs[0] in gone
            or not _is_moving(model, node)
            or _goes_on(model, node)
        ):
            continue
        found = _source(model, node)
        if found is None:
            continue
        source, between = found
        order = _rows(model, source, between, node)
        if order is None:
            continue
        end, shape = node.outputs[0], model.value(source).fixed or ()
        made, length = model.value(end).fixed or (), shape[-1]
        names = [f"{end}:{what}" for what in ("rows", "moved", "order", "in rows", "back")]
        constants[names[2]] = order
        batches = _batches(shape, made)
        rows = math.prod(shape[:-1]) // batches
        constants[names[3]] = np.array([-1, rows, length], np.int64)
        constants[names[4]] = np.array([-1, *made[1:]], np.int64)
        for name, extent in zip(names, (rows, len(order)), strict=False):
            values[name] = Value(name, (batches, extent, length), np.dtype(np.float32))
        instead[end] = [
            Node("Reshape", "", "", (source, names[3]), (names[0],)),
            Node("Gather", "", node.name, (names[0], names[2]), (names[1],), {"axis": 1}),
            Node("Reshape", "", "", (names[1], names[4]), (end,)),
        ]
        gone.update(one.outputs[0] for one in between)
    if not instead:
        return model
    nodes = (one for node in model.nodes for one in instead.get(node.outputs[0], [node]))
    changed = replace(model, nodes=tuple(nodes), constants=constants, values=values)
    return needed(without_detours(changed))


def _is_moving(model: Model, node: Node) -> bool:
    if (
        node.op not in (*_VIEWS, *_MOVES)
        or node.domain not in STANDARD
        or node.mapped
        or len(node.makes) != 1
    ):
        return False
    value = model.value(node.outputs[0])
    return value.fixed is not None and 0 not in value.fixed and value.dtype == np.float32


def _goes_on(model: Model, node: Node) -> bool:
    """Whether all that reads a result moves it on."""
    name = node.outputs[0]
    readers = model.consumers.get(name, ())
    return bool(readers) and name not in model.results and all(_is_moving(model, one) for one in readers)


def _source(model: Model, last: Node) -> tuple[str, list[Node]] | None:
    """The value that all of a result comes from, and the moving nodes between, in order, whose results no
    others read."""
    inside = {last.outputs[0]: last}
    sources: set[str] = set()
    waiting = [last]
    while waiting:
        node = waiting.pop()
        for name in _moved(node):
            maker = model.makers.get(name)
            if name in inside:
                continue
            if maker is None or not _is_moving(model, maker) or name in model.results:
                sources.add(name)
                continue
            inside[name] = maker
            waiting.append(maker)
    # What others read, too, is a source itself; what lies before it is none then.
    for name in list(inside):
        if name != last.outputs[0] and any(
            not one.outputs or one.outputs[0] not in inside for one in model.consumers.get(name, ())
        ):
            return None
    (source, *others) = sources or ("",)
    value = model.value(source)
    if others or not value.fixed or source in model.constants or value.dtype != np.float32:
        return None
    return source, [node for node in model.nodes if node.outputs and node.outputs[0] in inside]


def _moved(node: Node) -> Sequence[str]:
    return node.inputs if node.op == "Concat" else node.inputs[:1]


def _rows(model: Model, source: str, between: Sequence[Node], last: Node) -> Array | None:
    """Which rows of each batch of a value come out, in order; None where it is not whole rows, where batches
    differ, or where nothing is gained."""
    shape, made = model.value(source).fixed or (), model.value(last.outputs[0]).fixed or ()
    size, count = math.prod(shape), math.prod(made)
    moves = [node for node in between if node.op in _MOVES]
    if len(moves) < 2 or len(shape) < 3 or shape[-1] < _LEAST or max(size, count) > _MOST or size < 1:
        return None
    seen: dict[str, Array] = {source: np.arange(size, dtype=np.int32).reshape(shape)}
    for node in between:
        result = _seen(model, node, seen)
        if result is None:
            return None
        seen[node.outputs[0]] = result
    length, batches = shape[-1], _batches(shape, made)
    flat = seen[last.outputs[0]].reshape(-1)
    if flat.size % (length * batches):
        return None
    rows = flat.reshape(-1, length)
    if (rows[:, 0] % length).any() or (rows != rows[:, :1] + np.arange(length, dtype=np.int32)).any():
        return None
    each = (rows[:, 0] // length).reshape(batches, -1)
    order = each - np.arange(batches, dtype=np.int32)[:, None] * (size // length // batches)
    if (order != order[0]).any() or order.min() < 0 or order.max() >= size // length // batches:
        return None
    if len(shape) == 4 and _planes(order[0], shape[2]):
        return None  # channels, which weights may choose
    now = sum(_cycles(math.prod(model.value(node.outputs[0]).fixed or ()), 1) for node in moves)
    if _cycles(count, batches * _commands(order[0])) > _GAIN * now:
        return None
    found: Array = order[0].astype(np.int64)
    return found


def _batches(shape: tuple[int, ...], made: tuple[int, ...]) -> int:
    """As many batches as both values may have: windows of a batch are batches, too."""
    return math.gcd(shape[0], made[0])


def _planes(order: Array, height: int) -> bool:
    """Whether rows stay in their planes of so many."""
    if len(order) % height:
        return False
    planes = order.reshape(-1, height)
    return not (planes[:, 0] % height).any() and bool((planes == planes[:, :1] + np.arange(height)).all())


def _seen(model: Model, node: Node, seen: Mapping[str, Array]) -> Array | None:
    """What a node makes of numbered elements."""
    arrays = [seen[name] for name in _moved(node)]
    shape = model.value(node.outputs[0]).fixed or ()
    if node.op == "Concat":
        joined: Array = np.concatenate(arrays, int(node.attributes["axis"]))
        return joined
    (array,) = arrays
    if node.op == "Transpose":
        turned: Array = array.transpose(
            [int(i) for i in node.attributes.get("perm", range(array.ndim)[::-1])]
        )
        return turned
    if node.op != "Slice":
        return array.reshape(shape) if array.size == math.prod(shape) else None
    parts = [slice(None)] * array.ndim
    numbers = [model.constants.get(name) for name in node.inputs[1:] if name]
    if len(numbers) < 3 or any(one is None for one in numbers):
        return None
    starts, ends, axes, *steps = (np.asarray(one).reshape(-1) for one in numbers if one is not None)
    for i, axis in enumerate(axes):
        step = int(steps[0][i]) if steps else 1
        if step < 1:
            return None
        parts[int(axis)] = slice(int(starts[i]), int(ends[i]), step)
    part: Array = array[tuple(parts)]
    return part if part.shape == shape else None


def _commands(order: Array) -> int:
    """Copies that rows in this order take: runs of one step, which repeat with one step."""
    at, found, count = 0, 0, len(order)
    while at < count:
        step = int(order[at + 1] - order[at]) if at + 1 < count else 0
        run = 1
        while at + run < count and order[at + run] - order[at + run - 1] == step:
            run += 1
        repeats = 1
        if at + 2 * run <= count:
            again = order[at + run] - order[at]
            while (
                at + (repeats + 1) * run <= count
                and (
                    order[at + repeats * run : at + (repeats + 1) * run]
                    == order[at : at + run] + repeats * again
                ).all()
            ):
                repeats += 1
        at += run * repeats
        found += 1
    return found


def _cycles(elements: int, commands: int) -> float:
    """Of copies within DDR."""
    moved = elements / _BURST * (FITTED.read_burst + FITTED.write_burst)
    return moved + commands * (FITTED.read_latency + FITTED.write_latency)
