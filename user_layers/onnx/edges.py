"""Zeros around the input of a convolution, and results cut off at its output's ends: as its own pads.

Causal convolutions are written both ways. What an instruction takes as pads costs nothing; longer ones of
lines and pictures the convolution puts around a copy of its input in local memory, those of volumes stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from firmware_sim.isa.layout import WINDOW_STEP_MAX
from user_layers.onnx.model import Model, Node

_SPATIAL = 2  # the first dimension with windows
_VOLUME = 3  # dimensions with windows


def fold_edges(model: Model) -> Model:
    """Take away Pad before Conv and Slice behind it where the convolution's pads can say the same."""
    makers = {node.outputs[0]: node for node in model.nodes if len(node.outputs) == 1}
    gone: set[str] = set()
    instead: dict[str, Node] = {}
    for node in model.nodes:
        if not node.is_a("Conv") or node.attributes.get("auto_pad", "NOTSET") != "NOTSET":
            continue
        name, folded = node.outputs[0], node
        pad = makers.get(node.inputs[0])
        if pad is not None and _alone(model, node.inputs[0]):
            folded = _padded(model, folded, pad)
        cut = model.consumers.get(name, ())
        if len(cut) == 1 and _alone(model, name):
            folded = _cut(model, folded, cut[0])
        if folded is node:
            continue
        if folded.inputs[0] != node.inputs[0]:
            gone.add(node.inputs[0])
        gone.add(name)
        instead[folded.outputs[0]] = folded
    nodes = (
        instead.get(node.outputs[0], node)
        for node in model.nodes
        if node.outputs[0] not in gone or node.outputs[0] in instead
    )
    return replace(model, nodes=tuple(nodes))


def _alone(model: Model, name: str) -> bool:
    """Whether one node reads a value, once, and nothing else does."""
    reader = model.only_reader(name)
    return reader is not None and reader.inputs.count(name) == 1


def _with_pads(model: Model, conv: Node, pads: Sequence[int]) -> Node | None:
    """The convolution with other pads; None where a window saw nothing but pads, or they are too many."""
    weights = model.value(conv.inputs[1]).fixed
    if weights is None:
        return None
    rank = len(weights) - _SPATIAL
    dilations = conv.attributes.get("dilations", [1] * rank)
    reach = [(kernel - 1) * int(d) for kernel, d in zip(weights[_SPATIAL:], dilations, strict=True)]
    most = reach if rank < _VOLUME else [min(one, WINDOW_STEP_MAX) for one in reach]
    if any(not 0 <= pad <= limit for pad, limit in zip(pads, most * 2, strict=True)):
        return None
    return replace(conv, attributes={**conv.attributes, "pads": list(pads)}, proto=None)


def _pads(conv: Node, rank: int) -> list[int]:
    return [int(pad) for pad in conv.attributes.get("pads", [0] * 2 * rank)]


def _padded(model: Model, conv: Node, pad: Node) -> Node:
    """The convolution of what a Pad reads; the same one where that is something else."""
    before, after = (model.value(name).fixed for name in (pad.inputs[0], pad.outputs[0]))
    if not pad.is_a("Pad") or before is None or after is None or len(before) <= _SPATIAL:
        return conv
    values = [model.constants.get(name) for name in pad.inputs[1:] if name]
    mode, filling = pad.attributes.get("mode", "constant"), pad.attributes.get("value", 0.0)
    if any(value is None for value in values) or mode not in ("constant", b"constant"):
        return conv
    given = [model.constants[name] if name else None for name in (*pad.inputs[1:4], "", "", "")[:3]]
    number = filling if given[1] is None or not given[1].size else given[1].reshape(-1)[0]
    ends = pad.attributes.get("pads") if given[0] is None else given[0].reshape(-1)
    axes = range(len(before)) if given[2] is None else [int(a) % len(before) for a in given[2].reshape(-1)]
    if number != 0 or ends is None or len(ends) != 2 * len(axes):
        return conv
    low = dict(zip(axes, map(int, ends), strict=False))
    lows = [low.get(d, 0) for d in range(len(before))]
    highs = [after[d] - before[d] - lows[d] for d in range(len(before))]
    if any(lows[:_SPATIAL] + highs[:_SPATIAL]) or min(lows + highs) < 0:
        return conv
    own = _pads(conv, len(before) - _SPATIAL)
    pads = np.add(own, lows[_SPATIAL:] + highs[_SPATIAL:]).tolist()
    made = _with_pads(model, conv, pads)
    return conv if made is None else replace(made, inputs=(pad.inputs[0], *conv.inputs[1:]))


def _cut(model: Model, conv: Node, cut: Node) -> Node:
    """The convolution that makes what a Slice leaves of its result; the same one where that cannot be."""
    whole, left = (model.value(name).fixed for name in (conv.outputs[0], cut.outputs[0]))
    if not cut.is_a("Slice") or whole is None or left is None or len(whole) <= _SPATIAL:
        return conv
    operands = [model.constants.get(name) if name else None for name in (*cut.inputs[1:5], *[""] * 4)[:4]]
    if any(name and name not in model.constants for name in cut.inputs[1:]):
        return conv
    starts = operands[0] if operands[0] is not None else cut.attributes.get("starts")
    axes = operands[2] if operands[2] is not None else cut.attributes.get("axes")
    if starts is None or (operands[3] is not None and (operands[3] != 1).any()):
        return conv
    rank, first = len(whole), [0] * len(whole)
    for axis, start in zip(range(rank) if axes is None else axes, starts, strict=False):
        extent = whole[int(axis)]
        first[int(axis) % rank] = min(max(int(start) + (extent if start < 0 else 0), 0), extent)
    rest = [whole[d] - first[d] - left[d] for d in range(rank)]
    if any(first[:_SPATIAL] + rest[:_SPATIAL]):
        return conv
    strides = [int(s) for s in conv.attributes.get("strides", [1] * (rank - _SPATIAL))]
    own = _pads(conv, rank - _SPATIAL)
    less = np.multiply(first[_SPATIAL:] + rest[_SPATIAL:], strides * 2)
    made = _with_pads(model, conv, np.subtract(own, less).tolist())
    return conv if made is None else replace(made, outputs=cut.outputs)
