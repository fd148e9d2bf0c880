"""x * sigmoid(a x): SiLU (a = 1) and its likes, as exporters write them before there was Swish."""

from __future__ import annotations

from user_layers.onnx.model import Node
from user_layers.onnx.patterns.match import Found, Matcher, close


def silu(at: Matcher, last: Node) -> Found | None:
    """Mul of x and Sigmoid of x, or of a number times x."""
    if last.op != "Mul":
        return None
    product = at.product(last.outputs[0])
    if not close(product.constant, 1.0):
        return None
    for source, other in at.either(product):
        sigmoid = at.node(other, "Sigmoid")
        if sigmoid is None:
            continue
        inner = at.product(sigmoid.inputs[0])
        if inner.factors == (source,):
            return Found("Swish", source, {"alpha": inner.constant})
    return None
