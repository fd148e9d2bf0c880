"""What passes share that put other layers into a graph before it is compiled."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from firmware_sim.chip import MAX_SHAPE_DIMS
from user_layers.graph import GraphBuilder
from user_layers.graph.prepared import free_name
from user_layers.net.net import Net
from user_layers.net.nodes import LayerNode, called

G = TypeVar("G", bound=GraphBuilder)
Array = npt.NDArray[Any]


def needed_nodes(graph: GraphBuilder, net: Net) -> list[LayerNode]:
    """The layers of which something is used, in order, with the graph's own constants. net: what `resolve`
    says of the graph."""
    return [node for node in graph.nodes if all(name in net.tensors for name in node.outputs)]


def is_a(node: LayerNode, *ops: str) -> bool:
    """Whether a layer is one of these built-in ones."""
    return node.cpu is None and node.op.is_builtin and node.op.op in ops


def constant(graph: GraphBuilder, name: str) -> Array | None:
    """A constant of the graph; None for any other tensor."""
    tensor = graph.tensors.get(name)
    if tensor is None or tensor.data is None:
        return None
    return np.frombuffer(tensor.data, tensor.dtype.numpy_name).reshape(tensor.shape)


_MASK = 1 << 20  # numbers of a mask that is written out although it broadcasts


def spread_mask(mask: Array, queries: int, keys: int) -> Array | None:
    """[1 or batch, 1 or heads, queries, keys], a view of what broadcasts; None where that is much more."""
    shape = (*(1, 1, 1, 1, *mask.shape)[-4:-2], queries, keys)
    whole: Array = np.broadcast_to(mask, shape)
    return whole if whole.size <= max(mask.size, _MASK) else None


class Rewritten(ABC, Generic[G]):
    """A graph that is written anew: old with other layers, made so far."""

    def __init__(self, graph: G) -> None:
        self.old = graph
        self.made: G = graph.without_layers()
        self._tensors = {name for node in graph.nodes for name in node.outputs}
        self._layers = {node.name for node in graph.nodes}

    def write(self, nodes: Iterable[LayerNode]) -> G:
        """The graph that `node` writes of these layers, with the outputs of the old one."""
        for node in nodes:
            with called(node.where):
                self.node(node)
        for name in self.old.outputs:
            self.made.add_output(name)
        return self.made

    @abstractmethod
    def node(self, node: LayerNode) -> None:
        """Write a layer, or what is in its place."""

    def keep(self, node: LayerNode) -> None:
        """Write a layer as it is."""
        self.made.add_node(node, node.inputs, node.outputs)

    def tensor(self, stem: str) -> str:
        """A name for a tensor that neither graph has."""
        return free_name(stem, self._tensors, self.made.tensor_names)

    def title(self, stem: str) -> str:
        """A name for a layer that neither graph has."""
        return free_name(stem, self._layers, {node.name for node in self.made.nodes})

    def values(self, node: LayerNode) -> dict[str, Any]:
        """Of a layer's parameters."""
        return self.old.toolkit.param_values(node.op, node.param)

    def add(self, op: str, source: str, values: Mapping[str, Any], output: str, title: str) -> str:
        """A layer of one tensor; its output. title: what its name begins with."""
        self.made.add_tpu_layer(op, [source], values, [output], name=self.title(title))
        return output

    def turn(self, source: str, output: str, title: str) -> str:
        """A layer that gives rows and columns of a tensor's batches each other's places."""
        return self.add("TPU_TURN", source, {"height": 0, "width": 0}, output, title)

    def reshape(self, source: str, shape: Sequence[int], output: str, title: str) -> str:
        """A layer that gives a tensor's elements other dimensions."""
        padded = [*shape, *[0] * (MAX_SHAPE_DIMS - len(shape))]
        return self.add("TPU_RESHAPE", source, {"dims": len(shape), "shape": padded}, output, title)

    def part(self, node: LayerNode, axis: int, outputs: Sequence[int], output: str, title: str) -> str:
        """A layer with constants, for some of what it makes: these indices of all constants along an axis."""
        inputs = [node.inputs[0]]
        for k, name in enumerate(node.inputs[1:]):
            array = constant(self.old, name)
            assert array is not None, f"{name} is no constant"
            inputs.append(self.made.add_const(self.tensor(f"{output}:{k}"), array.take(outputs, axis)))
        self.made.add_tpu_layer(node.op.op, inputs, self.values(node), [output], name=title)
        return output
