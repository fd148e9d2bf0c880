"""Normalisation of groups of channels written as one of instances: the channels of a group are made one,
normalised and brought back; perhaps times one number per channel, perhaps plus one."""

from __future__ import annotations

from user_layers.onnx.model import Node
from user_layers.onnx.patterns.match import Found, Matcher


def group_norm(at: Matcher, last: Node) -> Found | None:
    """InstanceNormalization without factors between two Reshapes."""
    name = last.outputs[0]
    more: list[str] = []
    for op in ("Add", "Mul"):
        if more or last.op == op:
            found = at.channels(name, op)
            if found is None:
                return None
            name = found[0]
            more.insert(0, found[1])
    back = at.node(name, "Reshape")
    inner = at.node(back.inputs[0], "InstanceNormalization") if back is not None else None
    first = at.node(inner.inputs[0], "Reshape") if inner is not None else None
    if inner is None or first is None:
        return None
    groups = at.filled(inner.inputs[1], 1.0)
    before, made = at.shape(first.inputs[0]), at.shape(first.outputs[0])
    if groups is None or at.filled(inner.inputs[2], 0.0) != groups or len(before) < 3 or len(made) < 3:
        return None
    if made[:2] != (before[0], groups) or before[1] % groups != 0:
        return None
    attributes = {"num_groups": groups, "epsilon": inner.attributes.get("epsilon", 1e-5)}
    return Found("GroupNormalization", first.inputs[0], attributes, tuple(more))
