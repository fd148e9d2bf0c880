"""x where it is a number, else 0: so PyTorch's attention ends a softmax whose rows may be masked out."""

from __future__ import annotations

from user_layers.onnx.model import Node
from user_layers.onnx.patterns.match import Found, Matcher

OR_ZERO = "OrZero"  # an operation of this compiler alone


def or_zero(at: Matcher, last: Node) -> Found | None:
    """Where of IsNaN of x, 0 and x."""
    if last.op != "Where" or at.number(last.inputs[1]) != 0.0:
        return None
    test = at.node(last.inputs[0], "IsNaN")
    if test is None or test.inputs[0] != last.inputs[2]:
        return None
    return Found(OR_ZERO, last.inputs[2])
