"""The log of a compile: one line per layer."""

from __future__ import annotations

from collections.abc import Sequence

from user_layers.compiler.attributes import DescribedNet
from user_layers.compiler.grouping import Alone, Group, Segment
from user_layers.compiler.mode import REASON, Kind, Mode
from user_layers.compiler.schedule import Schedule
from user_layers.compiler.search import LIMIT


def log_lines(described: DescribedNet, mode: Mode, plan: Schedule) -> list[str]:
    """The reasons for the mode, notes on the search for groups, then what happened to each layer, in the
    order of the nodes."""
    lines = [*mode.reasons, *plan.notes]
    groups = 0
    for number, planned in enumerate(plan.parts):
        part = planned.part
        where = f", subnet {number}" if len(plan.parts) > 1 else ""
        for segment in planned.segments:
            text = f"{part.kind.value}{where}, {_segment(described, segment, groups)}"
            nodes = segment.nodes if isinstance(segment, Group) else (segment.node,)
            lines += [_line(described, k, text) for k in nodes]
            groups += isinstance(segment, Group)
        if part.kind == Kind.CPU:
            cpu = described.net.nodes[part.nodes.start].cpu
            why = f" ({cpu.reason})" if cpu is not None and cpu.reason else ""
            lines.append(_line(described, part.nodes.start, f"on the host{where}{why}"))
    return lines


def numbered(lines: Sequence[str]) -> list[str]:
    """The same with the vendor's numbers of layers: `layer_id 3 "TPU(CROP)" crop: ...`."""
    found, number = [], 0
    for line in lines:
        if not line.startswith((REASON, LIMIT)):
            label, _, rest = line.partition(" ")
            line, number = f'layer_id {number} "{label}" {rest}', number + 1
        found.append(line)
    return found


def _segment(described: DescribedNet, segment: Segment, number: int) -> str:
    if isinstance(segment, Group):
        axes = (("n", segment.tiling.n), ("h", segment.tiling.h), ("w", segment.tiling.w))
        cut = " x ".join(f"{len(x)} over {axis}" for axis, x in axes if len(x) > 1)
        text = f"local, group {number}, {f'slices: {cut}' if cut else 'whole'}"
        overlapped = ", overlapped" if segment.local.overlapped else ""
        return f"{text}, {segment.local.used} bytes of local memory{overlapped}"
    if isinstance(segment, Alone):
        return f"global ({segment.reason})"
    concat = described.attrs[segment.node].is_concat_layer
    return "its inputs are made in its output's memory" if concat else "shares its input's memory"


def _line(described: DescribedNet, k: int, what: str) -> str:
    net, attrs = described.net, described.attrs[k]
    shapes = ", ".join(str(list(net.tensors[n].shape)) for n in attrs.node.inputs)
    outs = ", ".join(str(list(net.tensors[n].shape)) for n in attrs.node.outputs)
    return f"{attrs.label} {attrs.node.name}: {shapes} -> {outs}; {what}"
