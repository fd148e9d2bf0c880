"""Ranges that a quantised model does not say, but that follow from those behind.

Where only what products read is quantised (TensorRT's style), nobody says how large a convolution's result
is that is added to something. But the sum is cut later: with a Relu behind it and a range up to R, what is
added to numbers from 0 to R matters between -R and R alone. Results are the same with it cut there, as long
as those numbers lie where their own range says.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import reduce

from user_layers.onnx.kinds import TURNING, WITHIN
from user_layers.onnx.model import Model, Node
from user_layers.quantize.table import Range

_SAME = (
    *("Identity", "Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze", "Concat", "MaxPool", "Clip"),
    *("Slice", "DepthToSpace", "SpaceToDepth"),
)
"""Operations that give no number that they did not get, and cut as well before as behind."""
_FORTH = ("Relu", "Identity", "Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze", "MaxPool")
"""Those whose results are about as large as what they get."""
_SUMS = ("Conv", "ConvTranspose", "MatMul", "Gemm", "Add", "BatchNormalization")
"""Those that can cut their results. What is rounded for all that read it is cut there, whatever makes it."""
Ends = tuple[float, float]


def implied_ranges(model: Model, ranges: Mapping[str, Range]) -> dict[str, Range]:
    """The ranges, and those of further tensors. model: in float, as the ranges are for it."""
    found = dict(ranges)
    if not found:
        return found
    model = replace(model, nodes=tuple(_passing(model, node) for node in model.nodes))
    for node in model.nodes:
        known = found.get(node.inputs[0]) if node.inputs and len(node.makes) == 1 else None
        if known is None or not node.is_plain or node.outputs[0] in found or node.op not in _FORTH:
            continue
        low = max(known.low, 0.0) if node.op == "Relu" else known.low
        if low < known.high:
            found[node.outputs[0]] = Range.between(low, known.high)
    needed: dict[str, Ends] = {name: _real(model, name, one) for name, one in found.items()}
    for node in reversed(model.nodes):
        for name in node.makes:
            if name in needed or name in model.results:
                continue
            readers = model.consumers.get(name, ())
            each = [_before(reader, name, needed) for reader in readers]
            ends = [one for one in each if one is not None]
            if not ends or len(ends) < len(each):
                continue
            low, high = min(low for low, _ in ends), max(high for _, high in ends)
            if low < high:
                needed[name] = low, high
                if node.op in _SUMS or all(
                    reader.op in TURNING and reader.outputs[0] in found for reader in readers
                ):
                    found[name] = Range.between(low, high)
    for name in (value.name for value in model.inputs if value.is_float):
        readers = model.consumers.get(name, ())
        made = [found.get(node.outputs[0]) if node.is_a("Identity") else None for node in readers]
        behind = [one for one in made if one is not None]
        if behind and len(behind) == len(made) and name not in model.results and name not in found:
            found[name] = reduce(Range.joined, behind)
    return found


def _passing(model: Model, node: Node) -> Node:
    """A Cast between types of floats as the Identity that it is for ranges, any other node as it is."""
    floats = node.is_a("Cast") and all(model.value(name).is_float for name in (node.inputs[0], *node.makes))
    return replace(node, op="Identity") if floats else node


def _real(model: Model, name: str, one: Range) -> Ends:
    """Between what numbers of a known range lie: integers with a sign may hold none below 0."""
    maker = model.makers.get(name)
    while maker is not None and maker.op == "Identity":
        maker = model.makers.get(maker.inputs[0])
    positive = maker is not None and maker.op in WITHIN and WITHIN[maker.op][0] >= 0
    return (max(one.low, 0.0) if positive else one.low), one.high


def _before(node: Node, name: str, needed: Mapping[str, Ends]) -> Ends | None:
    """Between what an input of a node matters, as far as what it makes matters only between known ends."""
    made = needed.get(node.outputs[0]) if node.outputs else None
    if made is None or not node.is_plain or name in node.captured:
        return None
    if node.op == "Relu":
        return max(made[0], 0.0), made[1]
    if node.op in _SAME and len(node.makes) == 1:
        return made
    if node.op == "Add" and node.inputs.count(name) == 1:
        (other,) = (one for one in node.inputs if one != name)
        beside = needed.get(other)
        if beside is not None and all(map(math.isfinite, beside)):
            return made[0] - beside[1], made[1] - beside[0]
    return None
