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
)
"""Layers whose results are their first input's elements."""


def tied(net: Net, ranges: Mapping[str, Range], toolkit: Toolkit) -> tuple[dict[str, str], dict[str, float]]:
    """For each tensor the name that stands for all that share its scale, and for each such name the largest
    threshold among them."""
    parent: dict[str, str] = {}

    def root(name: str) -> str:
        while name in parent:
            name = parent[name]
        return name

    for node in net.nodes:
        if node.cpu is not None:
            continue
        if node.op.op in MOVING or _chooses(node, toolkit):
            together = [node.inputs[0], *node.outputs]
        elif node.op.op == "TPU_CONCAT":
            together = [*node.inputs, *node.outputs]
        else:
            continue
        first = root(together[0])
        for name in together[1:]:
            other = root(name)
            if other != first:
                parent[other] = first
    group_of = {name: root(name) for name in net.tensors}
    thresholds: dict[str, float] = {}
    for name, group in group_of.items():
        if name in ranges:
            thresholds[group] = max(thresholds.get(group, 0.0), ranges[name].threshold)
    return group_of, thresholds


def _chooses(node: LayerNode, toolkit: Toolkit) -> bool:
    """Whether a layer is a maximum over windows."""
    return node.op.op == "TPU_POOL" and toolkit.param_values(node.op, node.param)["mode"] == 0
