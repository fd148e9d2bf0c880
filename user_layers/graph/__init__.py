"""The graph that users build: named tensors and layers, compiled by user_layers.compiler."""

from user_layers.graph.graph import (
    BINARY_ADD,
    BINARY_DIV,
    BINARY_MAX,
    BINARY_MIN,
    BINARY_MUL,
    BINARY_SUB,
    Graph,
)
from user_layers.graph.nodes import LayerNode, Tensor

__all__ = [
    "BINARY_ADD",
    "BINARY_DIV",
    "BINARY_MAX",
    "BINARY_MIN",
    "BINARY_MUL",
    "BINARY_SUB",
    "Graph",
    "LayerNode",
    "Tensor",
]
