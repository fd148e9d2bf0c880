"""The log of a compile: one line per layer."""

from __future__ import annotations

from user_layers.compiler.facts import DescribedNet
from user_layers.compiler.grouping import Alone, Group, Schedule
from user_layers.compiler.mode import Mode


def static_lines(described: DescribedNet, plan: Schedule) -> list[str]:
    """What happened to each layer, in the order of the nodes."""
    lines = []
    groups = 0
    for segment in plan.segments:
        if isinstance(segment, Group):
            pieces = segment.slices
            counts = [
                (a, len(x)) for a, x in (("n", pieces.n), ("h", pieces.h), ("w", pieces.w)) if len(x) > 1
            ]
            cut = " x ".join(f"{count} over {axis}" for axis, count in counts)
            text = f"static, local, group {groups}, {f'slices: {cut}' if cut else 'whole'}"
            text += f", {segment.local.used} bytes of local memory" + (
                ", overlapped" if segment.local.overlapped else ""
            )
            lines += [_line(described, k, text) for k in segment.nodes]
            groups += 1
        elif isinstance(segment, Alone):
            lines.append(_line(described, segment.node, f"static, global ({segment.reason})"))
        else:
            lines.append(_line(described, segment.node, "static, shares its input's memory"))
    return lines


def dynamic_lines(described: DescribedNet, mode: Mode) -> list[str]:
    """The reasons for the mode, then one line per layer."""
    return [*mode.reasons, *(_line(described, k, "dynamic, global") for k in range(len(described.facts)))]


def _line(described: DescribedNet, k: int, what: str) -> str:
    net, facts = described.net, described.facts[k]
    shapes = ", ".join(str(list(net.tensors[n].shape)) for n in facts.node.inputs)
    outs = ", ".join(str(list(net.tensors[n].shape)) for n in facts.node.outputs)
    return f"{facts.label} {facts.node.name}: {shapes} -> {outs}; {what}"
