"""Pictures in bytes."""

from __future__ import annotations

from user_layers.onnx.lower import Lowering, converts
from user_layers.onnx.model import Node
from user_layers.onnx.pixels import PIXELS


@converts(PIXELS)
def pixels(to: Lowering, node: Node) -> None:
    """See pixels.py."""
    to.simple("TPU_PIXELS", node, [to.tensor(node.inputs[0])], node.attributes)
