"""Tensors that shall have one scale, because a layer between them only moves, joins or chooses elements."""

from __future__ import annotations

from collections.abc import Mapping

from user_layers.net.net import Net
from user_layers.net.nodes import LayerNode
from user_layers.quantize.table import Range
from user_layers.toolkit import Toolkit

MOVING = (
    *("TPU_SLICE", "TPU_SPLIT", "TPU_PAD", "TPU_TRANSPOSE", "TPU_RESHAPE", "TPU_EXPAND_DIMS", "TPU_TILE"),
    *("TPU_EXPAND", "TPU_DEPTH_TO_SPACE", "TPU_SPACE_TO_DEPTH", "TPU_UPSAMPLE", "TPU_COPY", "TPU_GATHER"),
    "TPU_REARRANGE",
)
"""Layers whose results are their first input's elements."""
_COARSER = 2.0  # times the scale that a tensor would have: a bit of all that is made of it


def tied(net: Net, ranges: Mapping[str, Range], toolkit: Toolkit) -> tuple[dict[str, str], dict[str, Range]]:
    """For each tensor the name that stands for all that share its scale, and for each such name what their
    ranges are together."""
    parent: dict[str, str] = {}

    def root(name: str) -> str:
        while name in parent:
            name = parent[name]
        return name

    for node in net.nodes:
        if node.cpu is not None:
            continue
        if _fills_beyond(node, ranges, toolkit):
            continue
        if node.op.op in (*MOVING, "TPU_UNFOLD", "TPU_TURN") or _chooses(node, toolkit):
            joined = [node.inputs[0], *node.outputs]
        elif node.op.op == "TPU_CONCAT":
            joined = [*node.outputs, *(name for name in node.inputs if not _finer(net, node, name, ranges))]
        else:
            continue
        first = root(joined[0])
        for name in joined[1:]:
            other = root(name)
            if other != first:
                parent[other] = first
    group_of = {name: root(name) for name in net.tensors}
    together: dict[str, Range] = {}
    for name, group in group_of.items():
        if name in ranges:
            one, known = ranges[name], together.get(group)
            together[group] = one if known is None else known.joined(one)
    return group_of, together


def _finer(net: Net, node: LayerNode, name: str, ranges: Mapping[str, Range]) -> bool:
    """Whether others read what is joined to larger values too: it keeps a finer scale for these, and becomes
    as coarse as the result on the way into it."""
    own, whole = ranges.get(name), ranges.get(node.outputs[0])
    if own is None or whole is None or own.threshold * _COARSER > whole.threshold:
        return False
    return len(net.consumers.get(name, ())) > 1 or name in net.outputs


def _fills_beyond(node: LayerNode, ranges: Mapping[str, Range], toolkit: Toolkit) -> bool:
    """Whether a pad is filled with a number that its input's range does not reach, as ones beside values: the
    input shall not be as coarse."""
    known = ranges.get(node.inputs[0]) if node.op.op == "TPU_PAD" else None
    values = toolkit.param_values(node.op, node.param) if known is not None else {}
    return known is not None and values["mode"] == 0 and abs(values["value"]) > known.threshold


def _chooses(node: LayerNode, toolkit: Toolkit) -> bool:
    """Whether a layer is a maximum over windows."""
    return node.op.op == "TPU_POOL" and toolkit.param_values(node.op, node.param)["mode"] == 0
