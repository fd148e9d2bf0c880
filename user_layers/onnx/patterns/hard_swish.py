"""x times the hard sigmoid of x: as HardSigmoid, or as min(max(x + 3, 0), 6) / 6."""

from __future__ import annotations

from user_layers.onnx.model import Node
from user_layers.onnx.patterns.match import Found, Matcher, close


def hard_swish(at: Matcher, last: Node) -> Found | None:
    """A product of x and its hard sigmoid with slope 1/6 and offset 1/2."""
    if last.op not in ("Mul", "Div"):
        return None
    product = at.product(last.outputs[0])
    for source, other in at.either(product):
        smooth = at.node(other, "HardSigmoid")
        if smooth is not None:
            slope, offset = smooth.attributes.get("alpha", 0.2), smooth.attributes.get("beta", 0.5)
            fits = close(product.constant, 1.0) and close(slope, 1 / 6) and close(offset, 0.5)
            if smooth.inputs[0] == source and fits:
                return Found("HardSwish", source)
        clip = at.node(other, "Clip")
        if clip is None or not close(product.constant, 1 / 6):
            continue
        if len(clip.inputs) == 3:
            limits = tuple(at.number(name) for name in clip.inputs[1:])
        else:
            limits = clip.attributes.get("min"), clip.attributes.get("max")
        if limits == (0.0, 6.0) and at.sum(clip.inputs[0], 3.0) == source:
            return Found("HardSwish", source)
    return None
