"""Pass 4: which layers run together in local memory.

Consecutive layers that hand a tensor to one another form a group as long as all of it can be cut and placed
(passes 5 and 6); the longest beginning that fits is taken. A layer for which nothing fits runs alone in DDR.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from firmware_sim.chip import L2_BASE, L2_USER_BYTES, L2_USER_OFFSET
from firmware_sim.errors import UsageError
from firmware_sim.wire import TType
from user_layers.compiler.aliases import Aliases
from user_layers.compiler.allocate import Request, place
from user_layers.compiler.facts import DescribedNet
from user_layers.compiler.local_memory import LocalPlan, plan_local
from user_layers.compiler.slicing import AXES, Misfit, Slices, axis_extent, may_split, slice_group

_MAX_CHANNELS = 4095  # of a tensor that a descriptor takes
_MAX_EXTENT = 65535  # n, h, w
_L2_ALIGN = 128


@dataclass(frozen=True)
class Silent:
    """A node that need not run: its output lies in its input's memory."""

    node: int


@dataclass(frozen=True)
class Alone:
    """A node that runs by itself on DDR data; reason: why it is in no group."""

    node: int
    reason: str


@dataclass(frozen=True)
class Group:
    """Nodes that run on pieces in local memory. l2: absolute L2 address of each tensor that a layer wants
    there."""

    nodes: tuple[int, ...]
    slices: Slices
    local: LocalPlan
    l2: dict[str, int]


Segment = Silent | Alone | Group
Counts = tuple[int, int, int]  # pieces along n, h, w


def schedule(
    described: DescribedNet, aliases: Aliases, opt: int, nodes: range | None = None
) -> tuple[Segment, ...]:
    """What runs for these nodes of a net (None: all), which are one static subnet.

    opt: 0 no groups, 1 groups of two or more layers, 2 also of one.
    """
    if opt not in (0, 1, 2):
        raise UsageError(f"opt={opt!r} is no optimisation level", hint="0, 1 or 2")
    count = len(described.net.nodes)
    at, stop = (0, count) if nodes is None else (nodes.start, nodes.stop)
    reasons = [_why_global(described, aliases, i) if opt else "opt=0" for i in range(count)]
    segments: list[Segment] = []
    while at < stop:
        if at in aliases.silent:
            segments.append(Silent(at))
            at += 1
            continue
        end = min(_run_end(described, reasons, aliases, at), stop)
        group: Group | Misfit = Misfit(reasons[at] or "a group needs two layers with opt=1")
        while end - at >= (1 if opt == 2 else 2):
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


def fit_group(described: DescribedNet, nodes: tuple[int, ...]) -> Group | Misfit:
    """Cut these nodes into as few pieces as fit: first along n, then h, then w."""
    l2 = _place_l2(described, nodes)
    if isinstance(l2, Misfit):
        return l2

    def attempt(counts: Counts) -> Group | Misfit:
        slices = slice_group(described, nodes, counts)
        if isinstance(slices, Misfit):
            return slices
        local = plan_local(described, nodes, slices)
        return local if isinstance(local, Misfit) else Group(nodes, slices, local, l2)

    counts: Counts = (1, 1, 1)
    best = attempt(counts)
    allowed = may_split(described, nodes)
    for dim, axis in enumerate(AXES):
        if isinstance(best, Group):
            break
        limit = axis_extent(described, nodes, axis) if allowed[axis] else 1
        best, counts = _fewest(attempt, counts, dim, limit, best)
    return best


def _fewest(
    attempt: Callable[[Counts], Group | Misfit], counts: Counts, dim: int, limit: int, failed: Group | Misfit
) -> tuple[Group | Misfit, Counts]:
    """The fewest pieces (2..limit) along one axis that fit, by doubling and then halving the interval.

    Without any: the last failure, and the counts with the most pieces that could at least be cut.
    """

    def with_count(count: int) -> Counts:
        changed = [*counts]
        changed[dim] = count
        return changed[0], changed[1], changed[2]

    low, high, cuttable = 1, 1, 1
    while high < limit:
        high = min(high * 2, limit)
        result = attempt(with_count(high))
        if isinstance(result, Group):
            while high - low > 1:
                middle = (low + high) // 2
                closer = attempt(with_count(middle))
                if isinstance(closer, Group):
                    result, high = closer, middle
                else:
                    low = middle
            return result, with_count(high)
        failed = result
        if result.lacks_room:
            cuttable = high
        low = high
    return failed, with_count(cuttable)


def _run_end(described: DescribedNet, reasons: list[str], aliases: Aliases, start: int) -> int:
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


def _place_l2(described: DescribedNet, nodes: tuple[int, ...]) -> dict[str, int] | Misfit:
    wanted = {
        name: described.net.tensors[name].nbytes
        for k in nodes
        for i, name in enumerate(described.net.nodes[k].inputs)
        if described.facts[k].on_l2[i]
    }
    placement = place([Request(size, 0, 0) for size in wanted.values()], align=_L2_ALIGN, limit=L2_USER_BYTES)
    if placement is None:
        return Misfit(f"its L2 inputs have {sum(wanted.values())} bytes, and L2 has {L2_USER_BYTES}")
    base = L2_BASE + L2_USER_OFFSET
    return {name: base + offset for name, offset in zip(wanted, placement.offsets, strict=True)}
