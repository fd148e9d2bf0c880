"""Normalisation of rows, or of the channels of each position, written out: (x - mean) / sqrt(variance +
epsilon), or x / sqrt(mean of squares + epsilon), perhaps times one number per column or channel, perhaps plus
one."""

from __future__ import annotations

from user_layers.onnx.channels import CHANNEL_NORM, is_picture
from user_layers.onnx.model import Node
from user_layers.onnx.patterns.match import Found, Matcher, close


def norm(at: Matcher, last: Node) -> Found | None:
    """A quotient, or a product with a reciprocal, of what is normalised and a root."""
    found = _along(at, last, -1)
    if found is None and is_picture(at.shape(last.outputs[0])):
        at.absorbed.clear()
        found = _along(at, last, 1)
    return found


def _along(at: Matcher, last: Node, axis: int) -> Found | None:
    """Normalisation of the last dimension, or of dimension 1."""
    name = last.outputs[0]
    shift, scale = "", ""
    numbers = at.row if axis == -1 else at.channels
    if last.op == "Add":
        name, shift = numbers(name, "Add") or ("", "")
    row = numbers(name, "Mul") if name else None
    if row is not None:
        name, scale = row
    elif shift:
        return None
    found = _quotient(at, name, axis) if name else None
    if found is None:
        return None
    value, mean_of, epsilon = found
    square = at.node(mean_of, "Pow", "Mul")
    if square is None:
        return None
    if square.op == "Pow":
        inner, two = at.numbers(square) or ("", 0.0)
        if not close(two, 2.0) or inner != square.inputs[0]:
            return None
    elif square.inputs[0] == square.inputs[1]:
        inner = square.inputs[0]
    else:
        return None
    more = (scale, shift) if shift else (scale,) if scale else ()
    absorbed = set(at.absorbed)
    centred = _centred(at, value, inner, axis)
    if centred is None:
        at.absorbed = absorbed
        if inner != value:
            return None
    kind, source = ("RMS", value) if centred is None else ("Layer", centred)
    if axis == -1:
        return Found(f"{kind}Normalization", source, {"axis": -1, "epsilon": epsilon}, more)
    return Found(CHANNEL_NORM, source, {"rms": int(centred is None), "epsilon": epsilon}, more)


def _quotient(at: Matcher, name: str, axis: int) -> tuple[str, str, float] | None:
    """What is divided, what the mean under the root is of, and epsilon."""
    node = at.node(name, "Div", "Mul")
    if node is None or len(node.inputs) != 2:
        return None
    if node.op == "Div":
        root = _root(at, node.inputs[1], axis)
        return None if root is None else (node.inputs[0], *root)
    for value, other in (node.inputs, node.inputs[::-1]):
        reciprocal = at.node(other, "Reciprocal", "Div", "Pow")
        if reciprocal is None:
            continue
        if reciprocal.op == "Div" and at.number(reciprocal.inputs[0]) != 1:
            return None
        if reciprocal.op == "Pow":
            root = _mean(at, reciprocal, -0.5, axis)
        else:
            root = _root(at, reciprocal.inputs[-1], axis)
        return None if root is None else (value, *root)
    return None


def _root(at: Matcher, name: str, axis: int) -> tuple[str, float] | None:
    """What the mean is of in sqrt(mean + epsilon), and epsilon."""
    root = at.node(name, "Sqrt", "Pow")
    return _mean(at, root, 0.5, axis) if root is not None else None


def _mean(at: Matcher, root: Node, exponent: float, axis: int) -> tuple[str, float] | None:
    """The same of a root, or of a power with this exponent."""
    if root.op == "Pow" and at.number(root.inputs[1]) != exponent:
        return None
    added = at.node(root.inputs[0], "Add")
    numbers = at.numbers(added) if added is not None else None
    mean = at.mean_along(numbers[0], axis) if numbers is not None else None
    return None if mean is None or numbers is None else (mean, numbers[1])


def _centred(at: Matcher, value: str, squared: str, axis: int) -> str | None:
    """The x of x - its mean, where both values are that."""
    sources = []
    for name in dict.fromkeys((value, squared)):
        node = at.node(name, "Sub", readers=1 + (value == squared))
        if node is None:
            return None
        sources.append(node.inputs)
    if len(set(map(tuple, sources))) != 1:
        return None
    source, mean = sources[0]
    return source if at.mean_along(mean, axis, readers=len(sources)) == source else None
