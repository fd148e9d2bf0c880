"""The pieces with which one group fits into local memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from firmware_sim.chip import L2_BASE, L2_USER_BYTES, L2_USER_OFFSET
from user_layers.compiler.allocate import Request, place
from user_layers.compiler.facts import DescribedNet
from user_layers.compiler.local_memory import Clock, LocalPlan, plan_local
from user_layers.compiler.slicing import AXES, Misfit, Slices, axis_extent, may_split, slice_group

Counts = tuple[int, int, int]  # pieces along n, h, w

_L2_ALIGN = 128


@dataclass(frozen=True)
class Group:
    """Nodes that run on pieces in local memory. l2: absolute L2 address of each tensor that a layer wants
    there; cycles: modelled time, 0 where nothing was measured."""

    nodes: tuple[int, ...]
    slices: Slices
    local: LocalPlan
    l2: dict[str, int] = field(default_factory=dict)
    cycles: float = 0.0

    @property
    def counts(self) -> Counts:
        """How many slices there are along n, h and w."""
        return len(self.slices.n), len(self.slices.h), len(self.slices.w)


def fit_group(
    described: DescribedNet, nodes: tuple[int, ...], clock: Clock | None = None, least: Counts = (1, 1, 1)
) -> Group | Misfit:
    """Cut these nodes into as few pieces as fit, but at least so many: first along n, then h, then w."""
    l2 = _place_l2(described, nodes)
    if isinstance(l2, Misfit):
        return l2

    def attempt(counts: Counts) -> Group | Misfit:
        return fit_counts(described, nodes, counts, clock, l2)

    counts = least
    best = attempt(counts)
    allowed = may_split(described, nodes)
    for dim, axis in enumerate(AXES):
        if isinstance(best, Group):
            break
        limit = axis_extent(described, nodes, axis) if allowed[axis] else 1
        best, counts = _fewest(attempt, counts, dim, limit, best)
    return best


def fit_counts(
    described: DescribedNet,
    nodes: tuple[int, ...],
    counts: Counts,
    clock: Clock | None,
    l2: dict[str, int] | None = None,
) -> Group | Misfit:
    """The group in exactly so many pieces."""
    placed = _place_l2(described, nodes) if l2 is None else l2
    if isinstance(placed, Misfit):
        return placed
    slices = slice_group(described, nodes, counts)
    if isinstance(slices, Misfit):
        return slices
    local = plan_local(described, nodes, slices, clock)
    if isinstance(local, Misfit):
        return local
    copies = (
        0.0 if clock is None else sum(clock.copy(described.net.tensors[name].record()) for name in placed)
    )
    return Group(nodes, slices, local, placed, local.cycles + copies)


def more_pieces(described: DescribedNet, group: Group, most: int) -> Iterator[Counts]:
    """Finer cuts of a group, at most `most` pieces in all: one axis finer, from little to much."""
    allowed = may_split(described, group.nodes)
    for dim, axis in enumerate(AXES):
        limit = axis_extent(described, group.nodes, axis) if allowed[axis] else 1
        now = group.counts[dim]
        for count in sorted({now + 1, now + 2, now * 3 // 2, now * 2, now * 3, now * 4} - {now}):
            counts = [*group.counts]
            counts[dim] = count
            if count <= limit and counts[0] * counts[1] * counts[2] <= most:
                yield counts[0], counts[1], counts[2]


def _fewest(
    attempt: Callable[[Counts], Group | Misfit], counts: Counts, dim: int, limit: int, failed: Group | Misfit
) -> tuple[Group | Misfit, Counts]:
    """The fewest pieces (up to limit) along one axis that fit, by doubling and then halving the interval.

    Without any: the last failure, and the counts with the most pieces that could at least be cut.
    """

    def with_count(count: int) -> Counts:
        changed = [*counts]
        changed[dim] = count
        return changed[0], changed[1], changed[2]

    low = high = cuttable = counts[dim]
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
