"""Which layers run together in local memory.

With opt=2 by modelled cycles (search.py). With opt=1 by a cheap rule: consecutive layers that hand a tensor
to one another form a group as long as all of it can be cut and placed; the longest beginning that fits is
taken. A layer for which nothing fits, or that is faster alone, runs by itself in DDR.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from firmware_sim.errors import UsageError
from firmware_sim.wire import TType
from user_layers.compiler.aliases import Aliases
from user_layers.compiler.cost import Meter
from user_layers.compiler.facts import DescribedNet
from user_layers.compiler.fitting import Counts, Group, fit_group
from user_layers.compiler.joins import joined_channels
from user_layers.compiler.search import Search
from user_layers.compiler.slicing import Misfit

__all__ = ["Alone", "Counts", "Group", "Segment", "Silent", "schedule"]

_MAX_CHANNELS = 4095  # of a tensor that a descriptor takes
_MAX_EXTENT = 65535  # n, h, w


@dataclass(frozen=True)
class Silent:
    """A node that need not run: its output lies in its input's memory."""

    node: int


@dataclass(frozen=True)
class Alone:
    """A node that runs by itself on DDR data; reason: why it is in no group; cycles: modelled time, 0 where
    it was not measured."""

    node: int
    reason: str
    cycles: float = 0.0


Segment = Silent | Alone | Group


def schedule(
    described: DescribedNet, aliases: Aliases, opt: int, nodes: range | None = None
) -> tuple[Segment, ...]:
    """What runs for these nodes of a net (None: all), which are one static subnet.

    opt: 0 no groups, 1 as many layers in groups as possible (the cheap rule), 2 groups by modelled cycles.
    """
    if opt not in (0, 1, 2):
        raise UsageError(f"opt={opt!r} is no optimisation level", hint="0, 1 or 2")
    count = len(described.net.nodes)
    run = range(count) if nodes is None else nodes
    reasons = [_why_global(described, aliases, i) if opt else "opt=0" for i in range(count)]
    if opt == 2:
        return _by_cycles(described, reasons, aliases, run)
    segments: list[Segment] = []
    at = run.start
    while at < run.stop:
        if at in aliases.silent:
            segments.append(Silent(at))
            at += 1
            continue
        end = min(_run_end(described, reasons, at), run.stop)
        group: Group | Misfit = Misfit(reasons[at])
        while end > at:
            group = fit_group(described, tuple(range(at, end)))
            if isinstance(group, Group):
                break
            end -= 1
        if isinstance(group, Group):
            segments.append(group)
            at = end
        else:
            segments.append(Alone(at, group.reason))
            at += 1
    return tuple(segments)


def _by_cycles(
    described: DescribedNet, reasons: list[str], aliases: Aliases, nodes: range
) -> tuple[Segment, ...]:
    """Runs of nodes that may be in groups are divided by the search; the others run alone."""
    meter = Meter(described, described.toolkit.device)
    search = Search(described, meter, aliases.silent)
    segments: list[Segment] = []
    at = nodes.start
    while at < nodes.stop:
        if at in aliases.silent and reasons[at]:
            segments.append(Silent(at))
            at += 1
        elif reasons[at]:
            segments.append(Alone(at, reasons[at], _known(meter.alone(at))))
            at += 1
        else:
            end = min(_local_end(described, reasons, at), nodes.stop)
            for part in search.divide(range(at, end)):
                if isinstance(part, Group):
                    segments.append(part)
                else:
                    node, cycles = part
                    silent = node in aliases.silent
                    segments.append(
                        Silent(node) if silent else Alone(node, search.why_not(node), _known(cycles))
                    )
            at = end
    return tuple(segments)


def _known(cycles: float) -> float:
    """0 for what could not be measured; recording the net then says why."""
    return cycles if math.isfinite(cycles) else 0.0


def _local_end(described: DescribedNet, reasons: list[str], start: int) -> int:
    """The end of the longest run of nodes from `start` that may be in groups. A node that reads a result of
    the run otherwise than aligned in local memory begins a run of its own."""
    net = described.net
    made: set[str] = set()
    end = start
    while end < len(net.nodes) and not reasons[end]:
        facts = described.facts[end]
        if any(
            name in made and (facts.input_types[i] != TType.NEURON or facts.on_l2[i])
            for i, name in enumerate(net.nodes[end].inputs)
        ):
            break
        made.update(net.nodes[end].outputs)
        end += 1
    return end


def _run_end(described: DescribedNet, reasons: list[str], start: int) -> int:
    """The end of the longest run of nodes from `start` that could be one group."""
    net = described.net
    if reasons[start]:
        return start
    inside = set(net.nodes[start].outputs)
    end = start + 1
    while end < len(net.nodes) and not reasons[end]:
        facts = described.facts[end]
        from_inside = [i for i, name in enumerate(net.nodes[end].inputs) if name in inside]
        if not from_inside:
            break
        # What is computed in local memory is aligned there, and never in L2.
        if any(facts.input_types[i] != TType.NEURON or facts.on_l2[i] for i in from_inside):
            break
        inside.update(net.nodes[end].outputs)
        end += 1
    return end


def _why_global(described: DescribedNet, aliases: Aliases, index: int) -> str:
    """Why a node cannot run on pieces in local memory; "" when it can."""
    facts, net = described.facts[index], described.net
    node = facts.node
    if joined_channels(described, index) is None:
        if not facts.has_local:
            return "no local function"
        if facts.force_global:
            return "force_use_global_layer"
    if any(out in aliases.parent for out in node.outputs):
        return "works in its input's memory"
    for name in (*node.inputs, *node.outputs):
        tensor = net.tensors[name]
        kinds = {facts.input_types[i] for i, n in enumerate(node.inputs) if n == name}
        if kinds == {TType.NEURON_SHAPE}:
            continue
        if len(tensor.shape) > 4:
            return f"{name} has {len(tensor.shape)} dimensions"
        n, c, h, w = tensor.nchw
        if c > _MAX_CHANNELS or max(n, h, w) > _MAX_EXTENT:
            return f"{name} has more than {_MAX_CHANNELS} channels or an extent over {_MAX_EXTENT}"
    return ""
