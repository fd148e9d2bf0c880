"""Attention between its products in local memory: its kernel takes keys whose elements lie over the lanes.

A layer of its own turns them (TPU_TURN), by the DMA engine, beside the product that makes queries and values.
Where one product makes all three, it becomes two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from firmware_sim.wire import DType
from user_layers.compiler.attention_rows import ATTENTION, heads_as_columns
from user_layers.compiler.rewritten import G, Rewritten, constant, is_a, needed_nodes, spread_mask
from user_layers.graph import GraphBuilder
from user_layers.graph.shapes import infer_shapes
from user_layers.net.heads import KEY, QUERY, VALUE, head_channels, head_count, head_size
from user_layers.net.net import Net
from user_layers.net.nodes import LayerNode

_OTHERS = (QUERY, VALUE)
_LOCAL = 4  # dimensions in local memory


@dataclass(frozen=True)
class _Attention:
    """One that can be computed so. values: of its parameters; product: what makes its keys and, perhaps,
    queries and values, where it is divided."""

    node: LayerNode
    values: Mapping[str, Any]
    product: LayerNode | None

    def columns(self, operand: int) -> list[int]:
        """Channels of the tensor that are this operand, head by head."""
        return [int(c) for c in head_channels(self.values, operand).reshape(-1)]


def turn_keys(graph: G, net: Net) -> G | None:
    """The graph in which keys are turned for every attention that local memory can take; None where there is
    none. Inputs and outputs are the same. For nets that are compiled statically. net: what `resolve` says of
    the graph."""
    columns = heads_as_columns(graph, net)
    if columns is not None:
        graph, net = columns, infer_shapes(columns)
    nodes = needed_nodes(graph, net)
    found = [one for node in nodes if (one := _attention(graph, net, node)) is not None]
    return _Writing(graph, net, found).graph(nodes) if found else None


def _attention(graph: GraphBuilder, net: Net, node: LayerNode) -> _Attention | None:
    if not is_a(node, ATTENTION):
        return None
    values = graph.toolkit.param_values(node.op, node.param)
    shapes = [net.tensors[name].shape for name in node.inputs]
    if values["turned"] or values["mixed"] or values["apart"] or values["unit"] > 0:
        return None
    if any(len(shape) != 3 for shape in shapes[:3]):
        return None
    for array in (constant(graph, name) for name in node.inputs[3:]):  # a mask
        if array is None or spread_mask(array, shapes[QUERY][1], shapes[VALUE][1]) is None:
            return None
    one = _Attention(node, values, None)
    key = node.inputs[KEY]
    if one.columns(KEY) == list(range(shapes[KEY][-1])):
        return one
    maker = next((n for n in graph.nodes if key in n.outputs), None)
    if maker is None or key in graph.outputs or {*net.consumers[key]} != {net.producer[node.outputs[0]]}:
        return None
    return _Attention(node, values, maker) if _divides(graph, net, maker) else None


def _divides(graph: GraphBuilder, net: Net, node: LayerNode) -> bool:
    """Whether a node is a product by a constant matrix, of which columns can be made by themselves."""
    if not is_a(node, "TPU_MATMUL"):
        return False
    constants = [constant(graph, name) for name in node.inputs[1:]]
    right, made = constants[0], net.tensors[node.outputs[0]]
    if right is None or right.ndim != 2 or graph.toolkit.param_values(node.op, node.param)["trans_b"]:
        return False
    return made.dtype is DType.FP32 and all(
        one is not None and one.shape[-1:] == made.shape[-1:] for one in constants
    )


class _Writing(Rewritten[G]):
    """The graph with the layers that turn."""

    def __init__(self, graph: G, net: Net, found: Sequence[_Attention]) -> None:
        super().__init__(graph)
        self.net = net
        self.keys: dict[str, str] = {}  # by the attention's name
        self.others: dict[str, str] = {}  # by the tensor that was queries, keys and values
        self.instead = {one.node.name: one for one in found}
        self.divided = {one.product.name: one for one in found if one.product is not None}
        self.behind: dict[str, list[_Attention]] = {}  # by the tensor that is turned
        for one in found:
            if one.product is None:
                self.behind.setdefault(one.node.inputs[KEY], []).append(one)

    def graph(self, nodes: Sequence[LayerNode]) -> G:
        for name, found in self.behind.items():
            if name not in self.net.producer:  # an input, or a constant
                self._turn(name, found)
        return self.write(nodes)

    def node(self, node: LayerNode) -> None:
        if node.name in self.divided:
            self._divide(node, self.divided[node.name])
        elif node.name in self.instead:
            self._attend(self.instead[node.name])
        else:
            self.keep(node)
        for name in node.outputs:
            if name in self.behind:
                self._turn(name, self.behind[name])

    def _turn(self, name: str, found: Sequence[_Attention]) -> None:
        turned = self._turned_already(name)
        if turned is None:
            turned = self.turn(name, self.tensor(f"{name}:turned"), f"{found[0].node.name}:keys")
        self.keys.update((one.node.name, turned) for one in found)

    def _turned_already(self, name: str) -> str | None:
        """What keys were turned from, if local memory takes that."""
        if name not in self.net.producer:
            return None
        back = self.net.nodes[self.net.producer[name]]
        fits = is_a(back, "TPU_TURN") and len(self.net.tensors[back.inputs[0]].shape) <= _LOCAL
        return back.inputs[0] if fits else None

    def _divide(self, node: LayerNode, one: _Attention) -> None:
        """Two products: of the keys, which are turned, and of what else is read of it."""
        made = node.outputs[0]
        title = self.title(f"{node.name}:keys")
        self._turn(self.part(node, -1, one.columns(KEY), self.tensor(f"{made}:keys"), title), [one])
        rest = [c for i in _OTHERS if one.node.inputs[i] == made for c in one.columns(i)]
        if rest:
            self.others[made] = self.part(node, -1, rest, self.tensor(f"{made}:others"), node.name)

    def _attend(self, one: _Attention) -> None:
        node, values = one.node, dict(one.values)
        inputs, first, step = list(node.inputs), list(values["from"]), list(values["step"])
        at = 0
        for i in _OTHERS:
            if one.product is not None and inputs[i] == one.product.outputs[0]:
                inputs[i], first[i], step[i] = self.others[inputs[i]], at, head_size(one.values, i)
                at += head_count(one.values, i) * head_size(one.values, i)
        inputs[KEY], first[KEY], step[KEY] = self.keys[node.name], 0, head_size(one.values, KEY)
        queries, keys = (self.net.tensors[node.inputs[i]].shape[1] for i in (QUERY, VALUE))
        for i, name in enumerate(inputs[3:], 3):
            mask = constant(self.old, name)
            whole = None if mask is None else spread_mask(mask, queries, keys)
            assert whole is not None  # _attention asked
            rows = whole.swapaxes(1, 2)
            rows = rows.reshape(*rows.shape[:2], -1)
            inputs[i] = self.made.add_const(self.tensor(f"{name}:rows"), rows)
        values |= {"turned": 1, "from": first, "step": step}
        self.made.add_tpu_layer(node.op.op, inputs, values, node.outputs, name=node.name)
