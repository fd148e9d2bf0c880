"""GELU written out: x/2 (1 + erf(x / sqrt 2)), or x/2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))."""

from __future__ import annotations

import math

from user_layers.onnx.model import Node
from user_layers.onnx.patterns.match import Found, Matcher, close

_CUBE = 0.044715


def gelu(at: Matcher, last: Node) -> Found | None:
    """A product of x, one half and 1 + erf or 1 + tanh, in any order."""
    if last.op not in ("Mul", "Div"):
        return None
    product = at.product(last.outputs[0])
    if not close(product.constant, 0.5):
        return None
    for source, other in at.either(product):
        inner = at.sum(other, 1.0)
        if inner is None:
            continue
        erf = at.node(inner, "Erf")
        if erf is not None:
            argument = at.product(erf.inputs[0])
            if argument.factors == (source,) and close(argument.constant, math.sqrt(0.5)):
                return Found("Gelu", source)
        tanh = at.node(inner, "Tanh")
        if tanh is not None and _is_cubic(at, tanh.inputs[0], source):
            return Found("Gelu", source, {"approximate": "tanh"})
    return None


def _is_cubic(at: Matcher, name: str, source: str) -> bool:
    """Whether a value is sqrt(2 / pi) (x + 0.044715 x^3), or sqrt(2 / pi) x (1 + 0.044715 x^2)."""
    product = at.product(name)
    if not close(product.constant, math.sqrt(2 / math.pi)):
        return False
    if len(product.factors) == 1:
        added = at.node(product.factors[0], "Add")
        if added is None or source not in added.inputs:
            return False
        (cube,) = (x for x in added.inputs if x != source) if added.inputs.count(source) == 1 else ("",)
        return _is_power(at, cube, source, 3)
    rest = [x for x in product.factors if x != source]
    if len(product.factors) != 2 or len(rest) != 1:
        return False
    square = at.sum(rest[0], 1.0)
    return square is not None and _is_power(at, square, source, 2)


def _is_power(at: Matcher, name: str, source: str, exponent: int) -> bool:
    """Whether a value is 0.044715 x to this power."""
    product = at.product(name)
    if not close(product.constant, _CUBE):
        return False
    found = 0
    for factor in product.factors:
        power = at.node(factor, "Pow")
        if factor == source:
            found += 1
        elif power is not None and power.inputs[0] == source:
            number = at.number(power.inputs[1])
            if number not in (2.0, 3.0):
                return False
            found += int(number)
        else:
            return False
    return found == exponent
