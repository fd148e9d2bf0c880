"""What of a graph becomes one 8-bit layer: a node, with the activation behind it where that costs nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from user_layers.net.functions import UNARY
from user_layers.net.net import Net
from user_layers.net.nodes import LayerNode
from user_layers.toolkit import Toolkit

_SATURATING = ("TPU_CONV", "TPU_DECONV", "TPU_MATMUL", "TPU_BINARY", "TPU_SCALE_SHIFT")
"""Layers whose results saturate where those of relu do."""


@dataclass(frozen=True)
class Site:
    """A node to be written in integers.

    values: its parameters by name. output: the tensor that the 8-bit layer makes, which is behind the
    activation. relu: negative results become 0; limit: of a clip, what it cuts at. covered: how many nodes
    of the graph this is.
    """

    node: LayerNode
    values: Mapping[str, Any]
    output: str
    relu: bool = False
    limit: float | None = None
    covered: Sequence[LayerNode] = ()

    @property
    def op(self) -> str:
        """Of the node."""
        return self.node.op.op


def sites(net: Net, toolkit: Toolkit) -> Iterator[Site]:
    """All nodes in their order, each in one site."""
    taken: set[str] = set()
    for node in net.nodes:
        if node.name in taken:
            continue
        values = (
            {}
            if node.cpu is not None or not node.op.is_builtin
            else toolkit.param_values(node.op, node.param)
        )
        site = Site(node, values, node.outputs[0], covered=(node,))
        behind = _activation(net, node, toolkit)
        if behind is not None:
            follower, limit = behind
            taken.add(follower.name)
            site = Site(node, values, follower.outputs[0], True, limit, (node, follower))
        yield site


def _activation(net: Net, node: LayerNode, toolkit: Toolkit) -> tuple[LayerNode, float | None] | None:
    """The relu or the clip from 0 on that alone reads what a node makes, and where it cuts."""
    name = node.outputs[0]
    readers = net.consumers[name]
    if node.op.op not in _SATURATING or len(readers) != 1 or name in net.outputs:
        return None
    reader = net.nodes[readers[0]]
    if reader.op.op != "TPU_UNARY":
        return None
    values = toolkit.param_values(reader.op, reader.param)
    if values["unary_op"] == UNARY["RELU"]:
        return reader, None
    if values["unary_op"] == UNARY["CLIP"] and values["a"] == 0.0 and values["b"] > 0.0:
        return reader, float(values["b"])
    return None


def constant(net: Net, name: str) -> npt.NDArray[np.float64] | None:
    """A constant's numbers, or None for what a layer makes."""
    tensor = net.tensors[name]
    if tensor.data is None:
        return None
    return np.frombuffer(tensor.data, tensor.dtype.numpy_name).reshape(tensor.shape).astype(np.float64)
