"""Attention of heads that lie apart, [N, heads, T, size], as models of pictures and tokens write them: on the
rows of tokens from which they were cut, or that a layer turns from a picture, and its result back.

In local memory heads are columns of one tensor; so nothing but these turns is moved, by the DMA engine.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from user_layers.compiler.rewritten import Array, G, Rewritten, constant, is_a, needed_nodes
from user_layers.graph import GraphBuilder
from user_layers.net.heads import KEY, QUERY, VALUE
from user_layers.net.net import Net
from user_layers.net.nodes import LayerNode

ATTENTION = "TPU_ATTENTION"

_VIEWS = ("TPU_RESHAPE", "TPU_TRANSPOSE", "TPU_TURN")
_CUTS = ("TPU_SLICE", "TPU_SPLIT")
_MOST = 1 << 20  # elements of an operand whose way is followed
_TURNED = (3, 4)  # dimensions of channels and pixels that a layer turns as they are


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
    nodes = needed_nodes(graph, net)
    found = {node.name: one for node in nodes if (one := _apart(graph, net, node)) is not None}
    while lost := _lost(net, nodes, found):
        found = {name: one for name, one in found.items() if name not in lost}
    return _Writing(graph, net, found).write(nodes) if found else None


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
    if not is_a(node, ATTENTION):
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


def _divides(graph: GraphBuilder, net: Net, name: str) -> LayerNode | None:
    """The convolution that makes a tensor for one reader, if channels of it can be made by themselves."""
    if name not in net.producer or name in graph.outputs or len(net.consumers[name]) != 1:
        return None
    node = next(one for one in graph.nodes if name in one.outputs)  # with its constants as the graph has them
    if not is_a(node, "TPU_CONV") or graph.toolkit.param_values(node.op, node.param)["groups"] != 1:
        return None
    channels = net.tensors[name].shape[1:2]
    given = [constant(graph, one) for one in node.inputs[1:]]
    return node if all(one is not None and one.shape[:1] == channels for one in given) else None


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
        if maker is None or not is_a(maker, *_VIEWS, *_CUTS):
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
        if not is_a(node, *_VIEWS):
            break
        x, name = _seen(graph, net, node, x), node.outputs[0]
        way.append(node.name)
        flat = x.reshape(-1)
        straight = np.array_equal(flat, np.arange(flat.size))
        if straight or np.array_equal(flat, pixels):
            found, passed = _Place(name, not straight), list(way)
    return found, passed


class _Writing(Rewritten[G]):
    """The graph with attention on rows of tokens."""

    def __init__(self, graph: G, net: Net, found: Mapping[str, _Apart]) -> None:
        super().__init__(graph)
        self.net = net
        self.found = found
        self.gone = {name for one in found.values() for name in one.passed}
        self.rows: dict[_Place, str] = {}  # operands that are there already

    def node(self, node: LayerNode) -> None:
        if node.name in self.found:
            self._attend(self.found[node.name])
        elif node.name not in self.gone:
            self.keep(node)

    def _attend(self, one: _Apart) -> None:
        node, values = one.node, dict(one.values)
        inputs, first, step = list(node.inputs), list(values["from"]), list(values["step"])
        # In this order, so that a layer behind makes something while values and queries are turned.
        for i in (VALUE, QUERY, KEY):
            place = one.operands[i]
            if place is not None:
                shape = self.net.tensors[node.inputs[i]].shape
                if place not in self.rows:
                    self.rows[place] = self._operand(place, shape, f"{node.inputs[i]}:rows")
                inputs[i], first[i], step[i] = self.rows[place], 0, shape[-1]
        values |= {"from": first, "step": step, "apart": 0}
        made = node.outputs[0] if one.made is None else self.tensor(f"{node.outputs[0]}:rows")
        self.made.add_tpu_layer(node.op.op, inputs, values, [made], name=node.name)
        if one.made is not None:
            self._result(node, made, one.made)

    def _operand(self, place: _Place, shape: Sequence[int], stem: str) -> str:
        """Rows of tokens, [N, T, heads * size]. shape: [N, heads, T, size]."""
        batch, heads, tokens, size = shape
        source, there = place.name, self.net.tensors[place.name].shape
        if place.channels:
            node = _divides(self.old, self.net, source)
            assert node is not None  # _origin asked
            pixels = f"{stem}:pixels"
            source = self.part(node, 0, place.channels, self.tensor(pixels), self.title(pixels))
            there = (batch, heads * size, *there[2:])
        if not place.pixels:
            rows = (batch, tokens, heads * size)
            return source if there == rows else self.reshape(source, rows, self.tensor(stem), stem)
        if not _turns_whole(there, batch, heads * size):
            pixels = f"{stem}:pixels"
            source = self.reshape(source, (batch, heads * size, tokens), self.tensor(pixels), pixels)
        return self.turn(source, self.tensor(stem), stem)

    def _result(self, node: LayerNode, rows: str, place: _Place) -> None:
        """From rows of tokens to where the result goes."""
        batch, heads, _, size = self.net.tensors[node.outputs[0]].shape
        shape, stem = self.net.tensors[place.name].shape, f"{node.name}:turned"
        if not place.pixels:
            self.reshape(rows, shape, place.name, f"{node.name}:joined")
        elif _turns_whole(shape, batch, heads * size):
            height, width = shape[2:] if len(shape) > min(_TURNED) else (0, 0)
            self.add("TPU_TURN", rows, {"height": height, "width": width}, place.name, stem)
        else:
            turned = self.turn(rows, self.tensor(stem), stem)
            self.reshape(turned, shape, place.name, f"{stem}:back")


def _turns_whole(shape: Sequence[int], batch: int, channels: int) -> bool:
    """Whether a layer turns a tensor of this shape, channels and pixels of so many batches, as it is."""
    return tuple(shape[:2]) == (batch, channels) and len(shape) in _TURNED
