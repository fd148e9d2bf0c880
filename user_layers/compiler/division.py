"""Divisions of nodes into groups and single layers, and the cheapest that known groups make."""

from __future__ import annotations

import bisect
import math
from collections.abc import Mapping
from dataclasses import dataclass

from user_layers.compiler.fitting import Counts, Group
from user_layers.compiler.trials import Trial


@dataclass(frozen=True)
class Cost:
    """Cycles, then bytes between DDR and local memory."""

    cycles: float
    traffic: int

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.cycles + other.cycles, self.traffic + other.traffic)

    def __lt__(self, other: Cost) -> bool:
        return (self.cycles, self.traffic) < (other.cycles, other.traffic)


@dataclass(frozen=True)
class Way:
    """A group of the nodes from `start` on and before `end`: one that was tried, or given as it is."""

    start: int
    end: int
    cost: Cost
    group: Trial | Group


@dataclass(frozen=True)
class Division:
    """ways: its groups, in order; ends: the first node, then the ends of its groups and single layers; costs:
    of each of these parts."""

    ways: tuple[Way, ...]
    ends: tuple[int, ...]
    costs: tuple[Cost, ...]

    def around(self, nodes: range) -> tuple[Cost, range]:
        """What the parts that have any of these nodes cost, and all nodes of these parts."""
        first = bisect.bisect_right(self.ends, nodes.start) - 1
        last = bisect.bisect_left(self.ends, nodes.stop)
        cost = sum(self.costs[first:last], Cost(0.0, 0))
        return cost, range(self.ends[first], self.ends[last])


class Ways:
    """All groups that are known to be possible. alone: what each node costs by itself."""

    def __init__(self, alone: Mapping[int, Cost]) -> None:
        self.alone = alone
        self._ending: dict[int, dict[int, Way]] = {}
        self._beginning: dict[int, dict[int, Way]] = {}

    def add(self, way: Way) -> None:
        """A group; of two of the same nodes the better one is kept, or the newer where both are as good."""
        known = self._ending.setdefault(way.end, {})
        if way.start not in known or not known[way.start].cost < way.cost:
            known[way.start] = way
            self._beginning.setdefault(way.start, {})[way.end] = way

    def fewest_tiles(self, nodes: range) -> Counts:
        """Slices that these nodes as a group need at least: those of known groups of the first or the last of
        them."""
        found = [w.group.least for w in self._with_last(nodes) if isinstance(w.group, Trial)]
        found += [w.group.least for w in self._with_first(nodes) if isinstance(w.group, Trial)]
        return max(found, key=math.prod, default=(1, 1, 1))

    def _with_last(self, nodes: range) -> list[Way]:
        """The known groups that have the last of these nodes, and no other nodes than these."""
        known = self._ending.get(nodes.stop, {})
        return [way for start, way in sorted(known.items()) if start >= nodes.start]

    def _with_first(self, nodes: range) -> list[Way]:
        known = self._beginning.get(nodes.start, {})
        return [way for end, way in sorted(known.items()) if end <= nodes.stop]

    def best(self, nodes: range) -> Division:
        """The cheapest way through these nodes: the best way to a place is the best way to an earlier one,
        and then one group or one layer."""
        best = {nodes.start: Cost(0.0, 0)}
        chosen: dict[int, Way | None] = {}
        for end in range(nodes.start + 1, nodes.stop + 1):
            best[end], chosen[end] = best[end - 1] + self.alone[end - 1], None
            for way in self._with_last(range(nodes.start, end)):
                cost = best[way.start] + way.cost
                if not best[end] < cost:
                    best[end], chosen[end] = cost, way
        ways: list[Way] = []
        ends, costs = [nodes.stop], []
        while ends[-1] > nodes.start:
            last = chosen[ends[-1]]
            if last is not None:
                ways.append(last)
            costs.append(self.alone[ends[-1] - 1] if last is None else last.cost)
            ends.append(ends[-1] - 1 if last is None else last.start)
        return Division(tuple(ways[::-1]), tuple(ends[::-1]), tuple(costs[::-1]))
