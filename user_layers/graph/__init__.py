"""The graph that users build: named tensors and layers, by user_layers.compiler."""

from user_layers.graph.graph import (
    BINARY_ADD,
    BINARY_DIV,
    BINARY_MAX,
    BINARY_MIN,
    BINARY_MUL,
    BINARY_SUB,
    GraphBuilder,
)
from user_layers.net.nodes import LayerNode, Tensor

__all__ = [
    "BINARY_ADD",
    "BINARY_DIV",
    "BINARY_MAX",
    "BINARY_MIN",
    "BINARY_MUL",
    "BINARY_SUB",
    "GraphBuilder",
    "LayerNode",
    "Tensor",
]
