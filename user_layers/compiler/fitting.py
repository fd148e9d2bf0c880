"""The tiling with which one group fits into local memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from firmware_sim.chip import L2_BASE, L2_USER_BYTES, L2_USER_OFFSET
from firmware_sim.wire import TensorRecord
from user_layers.compiler.allocate import Request, place
from user_layers.compiler.attributes import DescribedNet
from user_layers.compiler.flow import Order
from user_layers.compiler.local_memory import CostModel, LocalPlan, op_cycles, plan_local
from user_layers.compiler.tiles import CutGroup, GroupTiles
from user_layers.compiler.tiling import (
    AXES,
    Ends,
    Infeasible,
    KnownSlices,
    Tiling,
    axis_extent,
    may_split,
    tile_group,
)

Counts = tuple[int, int, int]  # slices along n, h, w

_L2_ALIGN = 128


@dataclass(frozen=True)
class Group:
    """Nodes that run on tiles in local memory. l2: absolute L2 address of each tensor that a layer wants
    there; cycles: modelled time, 0 where nothing was measured."""

    nodes: tuple[int, ...]
    tiling: Tiling
    local: LocalPlan
    l2: dict[str, int] = field(default_factory=dict)
    cycles: float = 0.0

    @property
    def counts(self) -> Counts:
        """How many slices there are along n, h and w."""
        return len(self.tiling.n), len(self.tiling.h), len(self.tiling.w)


class Work:
    """How much planning there may still be: layer calls, over all tiles that are tried. Counted instead of
    timed, so that the result is the same on every machine."""

    def __init__(self, left: float = math.inf) -> None:
        self.left = left

    def take(self, calls: float) -> bool:
        """Spend so many, if there are."""
        if calls > self.left:
            return False
        self.left -= calls
        return True

    @contextmanager
    def at_most(self, calls: float) -> Iterator[None]:
        """Set the rest aside while the block runs."""
        aside = max(self.left - calls, 0.0)
        self.left -= aside
        yield
        self.left += aside


class TooMuchWork(Infeasible):
    """Not tried: there is no work left for it."""


def fit_group(
    described: DescribedNet,
    nodes: tuple[int, ...],
    cost_model: CostModel | None = None,
    least: Counts = (1, 1, 1),
    work: Work | None = None,
) -> Group | Infeasible:
    """Cut these nodes into as few slices as fit, but at least so many where they may be cut: first along n,
    then h, then w.

    work: what planning takes is taken from it; TooMuchWork where it does not suffice.
    """
    l2 = _place_l2(described, nodes)
    if isinstance(l2, Infeasible):
        return l2

    known: KnownSlices = {}

    def attempt(counts: Counts) -> Group | Infeasible:
        if work is not None and not work.take(len(nodes) * math.prod(counts)):
            return TooMuchWork("there is not enough work left")
        return fit_counts(described, nodes, counts, cost_model, l2, known)

    allowed = may_split(described, nodes)
    n, h, w = (count if allowed[axis] else 1 for count, axis in zip(least, AXES, strict=True))
    counts = n, h, w
    best = attempt(counts)
    for dim, axis in enumerate(AXES):
        if isinstance(best, Group | TooMuchWork):
            break
        limit = axis_extent(described, nodes, axis) if allowed[axis] else 1
        best, counts = _fewest(attempt, counts, dim, limit, best)
    return best


def fit_counts(
    described: DescribedNet,
    nodes: tuple[int, ...],
    counts: Counts | Ends,
    cost_model: CostModel | None,
    l2: dict[str, int] | None = None,
    known: KnownSlices | None = None,
) -> Group | Infeasible:
    """The group in exactly so many slices, or exactly those. known: as of `tile_group`."""
    placed = _place_l2(described, nodes) if l2 is None else l2
    if isinstance(placed, Infeasible):
        return placed
    tiling = tile_group(described, nodes, counts, known)
    if isinstance(tiling, Infeasible):
        return tiling
    local = plan_local(described, nodes, tiling, cost_model)
    if isinstance(local, Infeasible):
        return local
    copies = 0.0 if cost_model is None else _copies(described, placed, cost_model)
    return Group(nodes, tiling, local, placed, local.cycles + copies)


def _copies(described: DescribedNet, l2: dict[str, int], cost_model: CostModel) -> float:
    return sum(cost_model.copy(described.net.tensors[name].record()) for name in l2)


def timed(described: DescribedNet, group: Group, cost_model: CostModel) -> Group:
    """A group that was planned without a cost model, as it is, with the cycles of all that happens in it."""
    local = group.local
    cut = CutGroup(described, group.nodes, group.tiling, local.values, local.made, local.read)
    tiles = GroupTiles(cut)

    def where(p: int, k: int) -> tuple[list[TensorRecord], int]:
        return tiles.call(p, k), local.work[k][p] if k in local.work else 0

    order = Order(serial=not local.overlapped)
    for op in local.ops:
        cycles = op_cycles(cost_model, tiles, op.kind, op.which, op.tile, partial(where, op.tile), op.index)
        order.ops.append(replace(op, cycles=cycles))
    cycles = order.cycles()
    measured = replace(local, ops=tuple(order.ops), cycles=cycles)
    return replace(group, local=measured, cycles=cycles + _copies(described, group.l2, cost_model))


def finer_tilings(
    described: DescribedNet, nodes: tuple[int, ...], base: Counts, most: int
) -> Iterator[Counts]:
    """Finer tilings of a group than `base`, at most `most` tiles in all: one axis finer, from little to
    much."""
    allowed = may_split(described, nodes)
    for dim, axis in enumerate(AXES):
        limit = axis_extent(described, nodes, axis) if allowed[axis] else 1
        now = base[dim]
        for count in sorted({now + 1, now + 2, now * 3 // 2, now * 2, now * 3, now * 4} - {now}):
            counts = [*base]
            counts[dim] = count
            if count <= limit and counts[0] * counts[1] * counts[2] <= most:
                yield counts[0], counts[1], counts[2]


def _fewest(
    attempt: Callable[[Counts], Group | Infeasible],
    counts: Counts,
    dim: int,
    limit: int,
    failed: Group | Infeasible,
) -> tuple[Group | Infeasible, Counts]:
    """The fewest slices (up to limit) along one axis that fit, by doubling and then halving the interval.

    Without any: the last failure, and the counts with the most slices that could at least be cut.
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
        if isinstance(result, TooMuchWork):
            break
        if result.lacks_room:
            cuttable = high
        low = high
    return failed, with_count(cuttable)


def _place_l2(described: DescribedNet, nodes: tuple[int, ...]) -> dict[str, int] | Infeasible:
    wanted = {
        name: described.net.tensors[name].nbytes
        for k in nodes
        for i, name in enumerate(described.net.nodes[k].inputs)
        if described.attrs[k].on_l2[i]
    }
    placement = place([Request(size, 0, 0) for size in wanted.values()], align=_L2_ALIGN, limit=L2_USER_BYTES)
    if placement is None:
        return Infeasible(f"its L2 inputs have {sum(wanted.values())} bytes, and L2 has {L2_USER_BYTES}")
    base = L2_BASE + L2_USER_OFFSET
    return {name: base + offset for name, offset in zip(wanted, placement.offsets, strict=True)}
