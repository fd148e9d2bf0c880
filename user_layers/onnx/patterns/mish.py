"""x tanh(ln(1 + e^x)): Mish, as exporters write it before there was an operation for it."""

from __future__ import annotations

from user_layers.onnx.model import Node
from user_layers.onnx.patterns.match import Found, Matcher, close


def mish(at: Matcher, last: Node) -> Found | None:
    """Mul of x and Tanh of Softplus of x."""
    if last.op != "Mul":
        return None
    product = at.product(last.outputs[0])
    if not close(product.constant, 1.0):
        return None
    for source, other in at.either(product):
        tanh = at.node(other, "Tanh")
        softplus = at.node(tanh.inputs[0], "Softplus") if tanh is not None else None
        if softplus is not None and softplus.inputs[0] == source:
            return Found("Mish", source)
    return None
