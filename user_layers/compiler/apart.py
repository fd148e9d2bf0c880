"""Splits as slices, one for each part: a layer of one output works in local memory, in groups."""

from __future__ import annotations

from firmware_sim.chip import MAX_SHAPE_DIMS
from user_layers.compiler.rewritten import Rewritten, is_a, needed_nodes
from user_layers.graph import GraphBuilder
from user_layers.net.net import Net
from user_layers.net.nodes import LayerNode

_LOCAL = 4  # dimensions of tensors in local memory


def split_apart(graph: GraphBuilder, net: Net) -> GraphBuilder | None:
    """The graph with such slices; None where it splits nothing. net: what `resolve` says of the graph."""
    nodes = needed_nodes(graph, net)
    split = {node.name for node in nodes if is_a(node, "TPU_SPLIT") and _inside(graph, net, node)}
    return _Apart(graph, net, split).write(nodes) if split else None


def _inside(graph: GraphBuilder, net: Net, node: LayerNode) -> bool:
    """Whether each batch is split by itself."""
    rank = len(net.tensors[node.inputs[0]].shape)
    axis: int = graph.toolkit.param_values(node.op, node.param)["axis"]
    return rank <= _LOCAL and axis % rank != 0


class _Apart(Rewritten[GraphBuilder]):
    def __init__(self, graph: GraphBuilder, net: Net, split: set[str]) -> None:
        super().__init__(graph)
        self._net = net
        self._split = split

    def node(self, node: LayerNode) -> None:
        if node.name not in self._split:
            self.keep(node)
            return
        (source,), axis, first = node.inputs, self.values(node)["axis"], 0
        for name in node.outputs:
            end = first + self._net.tensors[name].shape[axis]
            given = {"axes": axis, "starts": first, "ends": end, "steps": 1}
            cut = {field: [value, *[0] * (MAX_SHAPE_DIMS - 1)] for field, value in given.items()}
            self.add("TPU_SLICE", source, {"count": 1, **cut}, name, node.name)
            first = end
