"""Attention of heads that lie apart, [N, heads, T, size], as models of pictures and tokens write them: on the
rows of tokens from which they were cut, or that a layer turns from a picture, and its result back.

In local memory heads are columns of one tensor; so nothing but these turns is moved, by the DMA engine.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from user_layers.graph import GraphBuilder
from user_layers.graph.prepared import free_name
from user_layers.net.net import Net
from user_layers.net.nodes import LayerNode, called

G = TypeVar("G", bound=GraphBuilder)
Array = npt.NDArray[Any]

_VIEWS = ("TPU_RESHAPE", "TPU_TRANSPOSE", "TPU_TURN")
_CUTS = ("TPU_SLICE", "TPU_SPLIT")
_MOST = 1 << 20  # elements of an operand whose way is followed
_TURNED = (3, 4)  # dimensions of channels and pixels that a layer turns as they are
_QUERY, _KEY, _VALUE = range(3)


@dataclass(frozen=True)
class _Place:
    """A tensor with all elements of an operand or a result: rows of tokens, or channels and then pixels.
    channels: which of those that a convolution makes the operand has, where it has not all."""

    name: str
    pixels: bool
    channels: tuple[int, ...] = ()


@dataclass(frozen=True)
class _Apart:
    """Attention whose operands, or some of them, are elsewhere in another order. made: where its result goes;
    passed: the layers on the way there."""

    node: LayerNode
    values: dict[str, Any]
    operands: tuple[_Place | None, ...]
    made: _Place | None
    passed: tuple[str, ...]


def heads_as_columns(graph: G, net: Net) -> G | None:
    """The graph in which every such attention reads rows of tokens and makes some; None where there is none.
    Inputs and outputs are the same. net: what `resolve` says of the graph."""
    nodes = [node for node in graph.nodes if all(name in net.tensors for name in node.outputs)]
    found = {node.name: one for node in nodes if (one := _apart(graph, net, node)) is not None}
    while lost := _lost(net, nodes, found):
        found = {name: one for name, one in found.items() if name not in lost}
    return _written(graph, net, nodes, found) if found else None


def _lost(net: Net, nodes: Sequence[LayerNode], found: Mapping[str, _Apart]) -> set[str]:
    """Those that read what another one, whose result goes elsewhere, makes no more."""
    passed = {name for one in found.values() for name in one.passed}
    kept = {one.made.name for one in found.values() if one.made is not None}
    gone = {name for node in nodes if node.name in passed for name in node.outputs if name not in kept}
    gone |= {one.node.outputs[0] for one in found.values() if one.made is not None}
    return {
        name
        for name, one in found.items()
        if any(place is not None and place.name in gone for place in one.operands)
    }


def _apart(graph: GraphBuilder, net: Net, node: LayerNode) -> _Apart | None:
    if node.cpu is not None or not node.op.is_builtin or node.op.op != "TPU_ATTENTION":
        return None
    values = graph.toolkit.param_values(node.op, node.param)
    shapes = [net.tensors[name].shape for name in node.inputs[:3]]
    if values["turned"] or values["mixed"] or values["unit"] > 0:
        return None
    if not values["apart"] and all(len(shape) == 3 for shape in shapes):
        return None
    operands: list[_Place | None] = []
    for name, shape in zip(node.inputs, shapes, strict=False):
        place = _origin(graph, net, name) if len(shape) == 4 else None
        if len(shape) == 4 and place is None:
            return None
        operands.append(place)
    made, passed = _end(graph, net, node.outputs[0]) if values["apart"] else (None, ())
    if values["apart"] and made is None:
        return None
    return _Apart(node, values, tuple(operands), made, tuple(passed))


def _seen(graph: GraphBuilder, net: Net, node: LayerNode, x: Array, made: str = "") -> Array:
    """What a layer that only moves or cuts makes of an array. made: which output, the first one otherwise."""
    values, shape = graph.toolkit.param_values(node.op, node.param), net.tensors[node.outputs[0]].shape
    if node.op.op == "TPU_SPLIT":
        before = node.outputs[: node.outputs.index(made)]
        first = sum(net.tensors[name].shape[values["axis"]] for name in before)
        count = net.tensors[made].shape[values["axis"]]
        return x.take(range(first, first + count), values["axis"])
    if node.op.op == "TPU_SLICE":
        fields = ("axes", "starts", "ends", "steps")
        for axis, *cut in zip(*(values[name][: values["count"]] for name in fields), strict=True):
            x = np.moveaxis(np.moveaxis(x, axis, 0)[slice(*cut)], 0, axis)
        return x.reshape(shape)
    if node.op.op == "TPU_TRANSPOSE":
        x = x.transpose([int(d) for d in values["order"][: x.ndim]])
    elif node.op.op == "TPU_TURN":
        x = x.reshape(*x.shape[:2], -1).swapaxes(1, 2)
    return x.reshape(shape)


def _is_a(node: LayerNode, *ops: str) -> bool:
    return node.cpu is None and node.op.is_builtin and node.op.op in ops


def _divides(graph: GraphBuilder, net: Net, name: str) -> LayerNode | None:
    """The convolution that makes a tensor for one reader, if channels of it can be made by themselves."""
    if name not in net.producer or name in graph.outputs or len(net.consumers[name]) != 1:
        return None
    node = next(one for one in graph.nodes if name in one.outputs)  # with its constants as the graph has them
    if not _is_a(node, "TPU_CONV") or graph.toolkit.param_values(node.op, node.param)["groups"] != 1:
        return None
    channels = net.tensors[name].shape[1:2]
    for one in (graph.tensors.get(constant) for constant in node.inputs[1:]):
        if one is None or one.data is None or one.shape[:1] != channels:
            return None
    return node


def _channels(x: Array, shape: Sequence[int]) -> tuple[int, ...]:
    """Which channels of a tensor of this shape the elements [N, heads, T, size] are, all pixels of each; ()
    where they are something else. x: their places."""
    batch, _, tokens, _ = x.shape
    if len(shape) < 3 or shape[0] != batch or math.prod(shape[2:]) != tokens:
        return ()
    found = x[0, :, 0, :] // tokens
    n, t = np.arange(batch).reshape(-1, 1, 1, 1), np.arange(tokens).reshape(1, 1, -1, 1)
    wanted = (n * shape[1] + found[None, :, None, :]) * tokens + t
    return tuple(int(c) for c in found.reshape(-1)) if np.array_equal(x, wanted) else ()


def _numbers(shape: Sequence[int]) -> Array:
    return np.arange(math.prod(shape), dtype=np.int32).reshape(shape)


def _origin(graph: GraphBuilder, net: Net, name: str) -> _Place | None:
    """Where the elements of an operand [N, heads, T, size] come from, as far back as they are all there."""
    batch, heads, tokens, size = net.tensors[name].shape
    if batch * heads * tokens * size > _MOST:
        return None
    rows = _numbers((batch, tokens, heads, size)).swapaxes(1, 2)
    pixels = _numbers((batch, heads, size, tokens)).swapaxes(2, 3)
    way: list[tuple[LayerNode, str]] = []
    found: _Place | None = None
    while math.prod(net.tensors[name].shape) <= _MOST:
        shape = net.tensors[name].shape
        x = _numbers(shape)
        for node, made in reversed(way):
            x = _seen(graph, net, node, x, made)
        if x.size == math.prod(shape) and (np.array_equal(x, rows) or np.array_equal(x, pixels)):
            found = _Place(name, not np.array_equal(x, rows))
        elif _divides(graph, net, name) is not None and (channels := _channels(x, shape)):
            found = _Place(name, True, channels)
        maker = net.nodes[net.producer[name]] if name in net.producer else None
        if maker is None or not _is_a(maker, *_VIEWS, *_CUTS):
            break
        way.append((maker, name))
        name = maker.inputs[0]
    return found


def _end(graph: GraphBuilder, net: Net, name: str) -> tuple[_Place | None, list[str]]:
    """Where a result [N, heads, T, size] goes, as far as nothing else reads it, and the layers on the way."""
    batch, heads, tokens, size = net.tensors[name].shape
    if batch * heads * tokens * size > _MOST:
        return None, []
    x = _numbers((batch, tokens, heads, size)).swapaxes(1, 2)
    pixels = _numbers((batch, tokens, heads * size)).swapaxes(1, 2).reshape(-1)
    found: _Place | None = None
    way: list[str] = []
    passed: list[str] = []
    while name not in graph.outputs and len(net.consumers[name]) == 1:
        node = net.nodes[net.consumers[name][0]]
        if not _is_a(node, *_VIEWS):
            break
        x, name = _seen(graph, net, node, x), node.outputs[0]
        way.append(node.name)
        flat = x.reshape(-1)
        straight = np.array_equal(flat, np.arange(flat.size))
        if straight or np.array_equal(flat, pixels):
            found, passed = _Place(name, not straight), list(way)
    return found, passed


def _written(graph: G, net: Net, nodes: Sequence[LayerNode], found: Mapping[str, _Apart]) -> G:
    made = graph.without_layers()
    taken = {name for node in graph.nodes for name in node.outputs}
    names = {node.name for node in graph.nodes}
    gone = {name for one in found.values() for name in one.passed}
    rows_of: dict[_Place, str] = {}  # operands that are there already

    def title(stem: str) -> str:
        return free_name(stem, names, {node.name for node in made.nodes})

    def add(op: str, source: str, values: dict[str, Any], output: str | None, stem: str) -> str:
        output = output or free_name(stem, taken, made.tensor_names)
        made.add_tpu_layer(op, [source], values, [output], name=title(stem))
        return output

    def reshaped(source: str, shape: Sequence[int], output: str | None, stem: str) -> str:
        padded = [*shape, *[0] * (8 - len(shape))]
        return add("TPU_RESHAPE", source, {"dims": len(shape), "shape": padded}, output, stem)

    def part(place: _Place, stem: str) -> str:
        """The convolution for some of the channels."""
        node = _divides(graph, net, place.name)
        assert node is not None  # _origin asked
        inputs = [node.inputs[0]]
        for k, name in enumerate(node.inputs[1:]):
            tensor = graph.tensors[name]
            assert tensor.data is not None
            whole = np.frombuffer(tensor.data, np.float32).reshape(tensor.shape)
            constant = free_name(f"{stem}:{k}", taken, made.tensor_names)
            inputs.append(made.add_const(constant, whole[list(place.channels)]))
        output = free_name(stem, taken, made.tensor_names)
        values = graph.toolkit.param_values(node.op, node.param)
        made.add_tpu_layer(node.op.op, inputs, values, [output], name=title(stem))
        return output

    for node in nodes:
        if node.name in gone:
            continue
        with called(node.where):
            if node.name not in found:
                made.add_node(node, node.inputs, node.outputs)
                continue
            one = found[node.name]
            inputs, values = list(node.inputs), dict(one.values)
            first, step = list(values["from"]), list(values["step"])
            for i in (
                _VALUE,
                _QUERY,
                _KEY,
            ):  # so that the layer behind makes something while these are turned
                place = one.operands[i]
                if place is None:
                    continue
                batch, heads, tokens, size = net.tensors[node.inputs[i]].shape
                stem, shape = f"{node.inputs[i]}:rows", net.tensors[place.name].shape
                inputs[i], first[i], step[i] = place.name, 0, size
                if place in rows_of:
                    inputs[i] = rows_of[place]
                    continue
                if place.channels:
                    inputs[i] = part(place, f"{stem}:pixels")
                    shape = (batch, heads * size, *shape[2:])
                if place.pixels:
                    if shape[:2] != (batch, heads * size) or len(shape) not in _TURNED:
                        inputs[i] = reshaped(
                            place.name, (batch, heads * size, tokens), None, f"{stem}:pixels"
                        )
                    inputs[i] = add("TPU_TURN", inputs[i], {"height": 0, "width": 0}, None, stem)
                elif shape != (batch, tokens, heads * size):
                    inputs[i] = reshaped(place.name, (batch, tokens, heads * size), None, stem)
                rows_of[place] = inputs[i]
            values |= {"from": first, "step": step, "apart": 0}
            if one.made is None:
                made.add_tpu_layer(node.op.op, inputs, values, node.outputs, name=node.name)
                continue
            rows = free_name(f"{node.outputs[0]}:rows", taken, made.tensor_names)
            made.add_tpu_layer(node.op.op, inputs, values, [rows], name=node.name)
            shape = net.tensors[one.made.name].shape
            if not one.made.pixels:
                reshaped(rows, shape, one.made.name, f"{node.name}:joined")
                continue
            batch, heads, _, size = net.tensors[node.outputs[0]].shape
            whole = shape[:2] == (batch, heads * size) and len(shape) in _TURNED
            picture = whole and len(shape) > min(_TURNED)
            size_of = {"height": shape[2], "width": shape[3]} if picture else {"height": 0, "width": 0}
            stem = f"{node.name}:turned"
            if whole:
                add("TPU_TURN", rows, size_of, one.made.name, stem)
            else:
                reshaped(add("TPU_TURN", rows, size_of, None, stem), shape, one.made.name, f"{stem}:back")
    for name in graph.outputs:
        made.add_output(name)
    return made
