"""Normalisation of rows, of the channels of each position, or of all of a batch, written out:
(x - mean) / sqrt(variance + epsilon), or x / sqrt(mean of squares + epsilon), perhaps times one number per
column or channel, perhaps plus one."""

from __future__ import annotations

from user_layers.onnx.channels import CHANNEL_NORM, is_picture
from user_layers.onnx.model import Node
from user_layers.onnx.patterns.match import Found, Matcher

_Axes = tuple[int, ...]


def norm(at: Matcher, last: Node) -> Found | None:
    """A quotient, or a product with a reciprocal, of what is normalised and a root."""
    shape = at.shape(last.outputs[0])
    ways: list[_Axes] = [(-1,)]
    if is_picture(shape):
        ways += [(1,), tuple(range(1, len(shape)))]
    for axes in ways:
        at.absorbed.clear()
        found = _along(at, last, axes)
        if found is not None:
            return found
    return None


def _along(at: Matcher, last: Node, axes: _Axes) -> Found | None:
    """Normalisation of these dimensions together."""
    name = last.outputs[0]
    shift, scale = "", ""
    numbers = at.row if axes == (-1,) else at.channels
    if last.op == "Add":
        name, shift = numbers(name, "Add") or ("", "")
    if name:
        name, scale = numbers(name, "Mul") or (name, "")
    found = _quotient(at, name, axes) if name else None
    if found is None:
        return None
    value, mean_of, epsilon = found
    if not scale:
        value, scale = numbers(value, "Mul") or (value, "")
    inner = at.squared(mean_of)
    if inner is None or (shift and not scale):
        return None
    more = (scale, shift) if shift else (scale,) if scale else ()
    absorbed = set(at.absorbed)
    centred = _centred(at, value, inner, axes)
    if centred is None:
        at.absorbed = absorbed
        if inner != value:
            return None
    kind, source = ("RMS", value) if centred is None else ("Layer", centred)
    if axes == (-1,):
        return Found(f"{kind}Normalization", source, {"axis": -1, "epsilon": epsilon}, more)
    if axes == (1,):
        return Found(CHANNEL_NORM, source, {"rms": int(centred is None), "epsilon": epsilon}, more)
    if centred is None:
        return None
    return Found("GroupNormalization", source, {"num_groups": 1, "epsilon": epsilon}, more)


def _quotient(at: Matcher, name: str, axes: _Axes) -> tuple[str, str, float] | None:
    """What is divided, what the mean under the root is of, and epsilon."""
    node = at.node(name, "Div", "Mul")
    if node is None or len(node.inputs) != 2:
        return None
    if node.op == "Div":
        root = _root(at, node.inputs[1], axes)
        return None if root is None else (node.inputs[0], *root)
    for value, other in (node.inputs, node.inputs[::-1]):
        reciprocal = at.node(other, "Reciprocal", "Div", "Pow")
        if reciprocal is None:
            continue
        if reciprocal.op == "Div" and at.number(reciprocal.inputs[0]) != 1:
            return None
        if reciprocal.op == "Pow":
            root = _mean(at, reciprocal, -0.5, axes)
        else:
            root = _root(at, reciprocal.inputs[-1], axes)
        return None if root is None else (value, *root)
    return None


def _root(at: Matcher, name: str, axes: _Axes) -> tuple[str, float] | None:
    """What the mean is of in sqrt(mean + epsilon), and epsilon."""
    root = at.node(name, "Sqrt", "Pow")
    return _mean(at, root, 0.5, axes) if root is not None else None


def _mean(at: Matcher, root: Node, exponent: float, axes: _Axes) -> tuple[str, float] | None:
    """The same of a root, or of a power with this exponent."""
    if root.op == "Pow" and at.number(root.inputs[1]) != exponent:
        return None
    added, name, epsilon = at.node(root.inputs[0], "Add"), root.inputs[0], 0.0
    if added is not None:
        name, epsilon = at.numbers(added) or ("", 0.0)
    mean = at.mean_along(name, *axes) if name else None
    return None if mean is None else (mean, epsilon)


def _centred(at: Matcher, value: str, squared: str, axes: _Axes) -> str | None:
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
    return source if at.mean_along(mean, *axes, readers=len(sources)) == source else None
