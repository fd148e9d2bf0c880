"""Which layers run together in local memory.

With opt=1 by a cheap rule: consecutive layers that hand a tensor to one another form a group as long as all
of it can be cut and placed; ever longer beginnings are tried, and the longest that fits is taken. With opt=2
by modelled cycles (search.py), never slower than by the cheap rule. A layer for which nothing fits, or that
is faster alone, runs by itself in DDR.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from firmware_sim.errors import UsageError
from firmware_sim.isa.layout import CHANNELS_MAX, EXTENT_MAX
from firmware_sim.wire import TType
from user_layers.compiler.aliases import Aliases
from user_layers.compiler.attributes import DescribedNet
from user_layers.compiler.concat import concat_channels
from user_layers.compiler.cost_model import MeasuredCost
from user_layers.compiler.fitting import Counts, Group, TooMuchWork, Work, fit_counts, fit_group
from user_layers.compiler.search import Search
from user_layers.compiler.tiling import Ends, Infeasible

__all__ = ["Alone", "Counts", "Elided", "Group", "Segment", "Segments", "schedule"]

_TRIED = 10_000  # layer calls, over all tiles, that are planned to find a group
_TOO_MANY = "it does not fit into local memory in tiles of a useful size"
_AHEAD = 8  # groups so many times as long as one that fits are tried
_BEHIND = 4  # and so many layers longer than the longest


@dataclass(frozen=True)
class Elided:
    """A node that need not run: its output lies in its input's memory."""

    node: int


@dataclass(frozen=True)
class Alone:
    """A node that runs by itself on DDR data; reason: why it is in no group; cycles: modelled time, 0 where
    it was not measured."""

    node: int
    reason: str
    cycles: float = 0.0


Segment = Elided | Alone | Group


@dataclass(frozen=True)
class Segments:
    """What runs for the nodes of a subnet, in order. note: what is to be said of how they were found, ""
    where nothing is."""

    segments: tuple[Segment, ...]
    note: str = ""


def schedule(
    described: DescribedNet,
    aliases: Aliases,
    opt: int,
    nodes: range | None = None,
    *,
    issued: bool = False,
    ends: Ends | None = None,
) -> Segments:
    """What runs for these nodes of a net (None: all), which are one subnet.

    opt: 0 no groups, 1 as many layers in groups as possible (the cheap rule), 2 groups by modelled cycles.
    issued: the controller issues the commands, as in dynamic subnets. ends: groups are those of the cheap
    rule, cut there instead of where it is best.
    """
    if opt not in (0, 1, 2):
        raise UsageError(f"opt={opt!r} is not an optimisation level", hint="0, 1 or 2")
    count = len(described.net.nodes)
    run = range(count) if nodes is None else nodes
    reasons = [_why_global(described, aliases, i) if opt else "opt=0" for i in range(count)]
    simple = _as_long_as_possible(described, reasons, aliases, run, ends)
    if opt < 2 or ends is not None:
        return Segments(simple)
    return _by_cycles(
        described,
        reasons,
        aliases,
        run,
        simple,
        MeasuredCost(described, described.toolkit.device, issued=issued),
    )


def _as_long_as_possible(
    described: DescribedNet,
    reasons: list[str],
    aliases: Aliases,
    nodes: range,
    ends: Ends | None = None,
) -> tuple[Segment, ...]:
    """The cheap rule."""

    def fit(run: range) -> Group | Infeasible:
        one = tuple(run)
        if ends is not None:
            return fit_counts(described, one, ends, None)
        found = fit_group(described, one, work=Work(_TRIED))
        return Infeasible(_TOO_MANY, lacks_room=True) if isinstance(found, TooMuchWork) else found

    segments: list[Segment] = []
    at = nodes.start
    while at < nodes.stop:
        if at in aliases.elided:
            segments.append(Elided(at))
            at += 1
            continue
        end = min(_run_end(described, reasons, at), nodes.stop)
        group = _longest(fit, at, end) if end > at else Infeasible(reasons[at])
        if isinstance(group, Group):
            segments.append(group)
            at += len(group.nodes)
        else:
            segments.append(Alone(at, group.reason))
            at += 1
    return tuple(segments)


def _longest(fit: Callable[[range], Group | Infeasible], start: int, end: int) -> Group | Infeasible:
    """The longest group from `start` on that is found by trying ever larger ones and then halving the
    interval to the first that does not fit: the work grows as the group does, not as what is behind it. A
    group that fits may begin with one that does not, so some more are tried behind both. Why the shortest
    does not fit where none does."""
    tried: dict[int, Group | Infeasible] = {}

    def attempt(length: int) -> Group | Infeasible:
        if length not in tried:
            tried[length] = fit(range(start, start + length))
        return tried[length]

    most = end - start
    best, length = 0, 1
    while length <= most and length <= max(best, 1) * _AHEAD:
        if isinstance(attempt(length), Group):
            best = length
        length = most if length < most < 2 * length else 2 * length
    low = best
    high = next((n for n in sorted(tried) if n > low), most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        if isinstance(attempt(middle), Group):
            low = middle
        else:
            high = middle
    ahead = low
    while ahead < min(low + _BEHIND, most):
        ahead += 1
        if isinstance(attempt(ahead), Group):
            low = ahead
    return tried[max(low, 1)]


def _by_cycles(
    described: DescribedNet,
    reasons: list[str],
    aliases: Aliases,
    nodes: range,
    simple: Sequence[Segment],
    cost_model: MeasuredCost,
) -> Segments:
    """The cheapest division that the search finds, which knows that of the cheap rule too."""
    runs = []
    at = nodes.start
    while at < nodes.stop:
        end = min(_local_end(described, reasons, at), nodes.stop)
        if end > at:
            runs.append(range(at, end))
        at = max(end, at + 1)
    given = [segment for segment in simple if isinstance(segment, Group)]
    search = Search(described, cost_model, aliases.elided, nodes, runs, given)
    segments: list[Segment] = []
    for part in search.divide():
        if isinstance(part, Group):
            segments.append(part)
        elif part[0] in aliases.elided:
            segments.append(Elided(part[0]))
        else:
            node, cycles = part
            segments.append(Alone(node, reasons[node] or search.why_not(node), _known(cycles)))
    return Segments(tuple(segments), search.note)


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
        attrs = described.attrs[end]
        if any(name in made and attrs.taken_whole[i] for i, name in enumerate(net.nodes[end].inputs)):
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
        attrs = described.attrs[end]
        from_inside = [i for i, name in enumerate(net.nodes[end].inputs) if name in inside]
        if not from_inside:
            break
        # What is computed in local memory is aligned there, and never in L2 or DDR.
        if any(attrs.taken_whole[i] for i in from_inside):
            break
        inside.update(net.nodes[end].outputs)
        end += 1
    return end


def _why_global(described: DescribedNet, aliases: Aliases, index: int) -> str:
    """Why a node cannot run on tiles in local memory; "" when it can."""
    attrs, net = described.attrs[index], described.net
    node = attrs.node
    for method in ("must_dynamic_run", "output_shape_is_dynamic"):
        if getattr(attrs, method):
            return method
    if concat_channels(described, index) is None:
        if not attrs.has_local:
            return "no local function"
        if attrs.force_global:
            return "force_use_global_layer"
    # The firmware gives such a result memory where the input's is, which a group need not have in DDR.
    apart = attrs.any_batch or not attrs.views
    if apart and any(out in aliases.parent for out in node.outputs):
        return "works in its input's memory"
    for name in (*node.inputs, *node.outputs):
        tensor = net.tensors[name]
        kinds = {attrs.input_types[i] for i, n in enumerate(node.inputs) if n == name}
        if kinds == {TType.NEURON_SHAPE}:
            continue
        told = f"the constant {tensor.plain.name} as the layer prepares it" if tensor.plain else name
        if len(tensor.shape) > 4:
            return f"{told} has {len(tensor.shape)} dimensions"
        n, c, h, w = tensor.nchw
        if c > CHANNELS_MAX or max(n, h, w) > EXTENT_MAX:
            return f"{told} has more than {CHANNELS_MAX} channels or an extent over {EXTENT_MAX}"
    return ""
