"""Which dimension of a tensor is its channels: the second, or of tokens the last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from user_layers.net.net import NetTensorInfo
from user_layers.net.nodes import LayerNode, Tensor
from user_layers.toolkit import Toolkit

_TOKENS = 3  # dimensions at least: with two the last one is the second

Known = Mapping[str, NetTensorInfo | Tensor]
"""Tensors with their shapes, constants as the graph has them."""


def is_product(node: LayerNode, tensors: Known, toolkit: Toolkit) -> bool:
    """Whether a layer multiplies the rows of tokens with one constant matrix."""
    if node.op.op != "TPU_MATMUL" or node.cpu is not None:
        return False
    left, right = (tensors[name] for name in node.inputs[:2])
    constant = right.data is not None and len(right.shape) == 2 and left.data is None
    tokens = constant and len(left.shape) >= _TOKENS
    return tokens and not toolkit.param_values(node.op, node.param)["trans_a"]


def channels_last(nodes: Iterable[LayerNode], tensors: Known, toolkit: Toolkit) -> frozenset[str]:
    """Tensors that such products read or make: their channels are the last dimension."""
    found = (node for node in nodes if is_product(node, tensors, toolkit))
    return frozenset(name for node in found for name in (node.inputs[0], *node.outputs))
