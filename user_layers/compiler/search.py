"""The best division of a run of nodes into groups and single layers, by modelled cycles.

Dynamic programming over the places where the run may be cut: the best way to a place is the best way to an
earlier one and then one group or one layer. The number of trials is bounded by counting their work, so the
result does not depend on the machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from user_layers.compiler.attributes import DescribedNet
from user_layers.compiler.cost_model import MeasuredCost
from user_layers.compiler.fitting import Group, finer_tilings, fit_counts, fit_group
from user_layers.compiler.tiling import Infeasible, stored

_BUDGET = 40_000  # layer calls planned, over all trials of a net
_NEAR = 8  # every length up to this is tried, in units that are not worth cutting; then ever larger steps
_FEW = 2  # layers of a group that is tried in more tiles than it needs
_MOST_TILES = 64  # of the finer cuts that are tried


@dataclass(frozen=True)
class Cost:
    """Cycles, then bytes between DDR and local memory."""

    cycles: float
    traffic: int

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.cycles + other.cycles, self.traffic + other.traffic)

    def __lt__(self, other: Cost) -> bool:
        return (self.cycles, self.traffic) < (other.cycles, other.traffic)


class Search:
    """Finds the cheapest groups of one net; remembers what was tried, and tries a limited number."""

    def __init__(self, described: DescribedNet, cost_model: MeasuredCost, elided: frozenset[int]) -> None:
        self._elided = elided
        self._described = described
        self._cost_model = cost_model
        self._left = _BUDGET
        self._known: dict[tuple[int, int], Group | Infeasible] = {}

    def divide(self, run: range) -> list[Group | tuple[int, float]]:
        """The groups of a run of nodes that may all be in groups, and (node, cycles) of those left alone."""
        cuts = self._cuts(run)
        best: list[Cost | None] = [Cost(0.0, 0), *([None] * (len(cuts) - 1))]
        way: list[tuple[int, Group | None]] = [(0, None)] * len(cuts)
        for i, start in enumerate(cuts[:-1]):
            base = best[i]
            assert base is not None
            for length in _lengths(len(cuts) - 1 - i):
                end = cuts[i + length]
                group = self._try(start, end)
                if isinstance(group, Infeasible):
                    break
                cost = base + Cost(group.cycles, self._traffic(group.nodes))
                held = best[i + length]
                if held is None or not held < cost:
                    best[i + length], way[i + length] = cost, (i, group)
            # all of the unit alone
            unit = range(start, cuts[i + 1])
            cost = base
            for k in unit:
                cost += self._alone(k)
            held = best[i + 1]
            if held is None or cost < held:
                best[i + 1], way[i + 1] = cost, (i, None)
        found: list[Group | tuple[int, float]] = []
        at = len(cuts) - 1
        while at:
            before, chosen = way[at]
            if chosen is not None:
                found.append(self._refined(chosen))
            else:
                found += [(k, self._alone(k).cycles) for k in reversed(range(cuts[before], cuts[at]))]
            at = before
        return found[::-1]

    def _alone(self, node: int) -> Cost:
        if node in self._elided:
            return Cost(0.0, 0)
        return Cost(self._cost_model.global_layer(node), self._traffic((node,)))

    def why_not(self, node: int) -> str:
        """Why a node that could be in a group is alone."""
        group = self._try(node, node + 1)
        return group.reason if isinstance(group, Infeasible) else "faster alone, by modelled cycles"

    def _cuts(self, run: range) -> list[int]:
        """Where the run may be cut: not between a layer and one that works in its result's memory only."""
        net = self._described.net
        found = [run.start]
        for k in run[1:]:
            node, attrs = net.nodes[k], self._described.attrs[k]
            before = net.nodes[k - 1]
            follows_in_place = (
                len(before.outputs) == 1
                and before.outputs[0] in node.inputs
                and net.consumers[before.outputs[0]] == (k,)
                and before.outputs[0] not in net.outputs
                and len(node.inputs) == 1
                and attrs.can_inplace(net.tensors[before.outputs[0]].dtype)
            )
            if not follows_in_place:
                found.append(k)
        return [*found, run.stop]

    def _try(self, start: int, end: int) -> Group | Infeasible:
        key = (start, end)
        if key not in self._known:
            nodes = tuple(range(start, end))
            if end - start > 1 and self._left <= 0:
                return Infeasible("the search is at its limit")
            shorter = self._known.get((start, end - 1)) or self._known.get((start + 1, end))
            least = shorter.counts if isinstance(shorter, Group) else (1, 1, 1)
            group = fit_group(self._described, nodes, self._cost_model, least)
            self._left -= len(nodes) * (group.tiling.count if isinstance(group, Group) else 8)
            if isinstance(group, Group) and (group.tiling.count > 1 or len(nodes) <= _FEW):
                group = self._refined(group)
            self._known[key] = group
        return self._known[key]

    def _refined(self, group: Group) -> Group:
        """The group in more tiles, where that is faster."""
        best = group
        for counts in finer_tilings(self._described, group, max(_MOST_TILES, group.tiling.count)):
            if self._left <= 0:
                break
            finer = fit_counts(self._described, group.nodes, counts, self._cost_model)
            self._left -= len(group.nodes) * counts[0] * counts[1] * counts[2]
            if isinstance(finer, Group) and finer.cycles < best.cycles:
                best = finer
        return best

    def _traffic(self, nodes: Sequence[int]) -> int:
        """Bytes that these nodes as a group read and write in DDR, each tensor once."""
        net = self._described.net
        made = {name for k in nodes for name in net.nodes[k].outputs}
        read = {name for k in nodes for name in net.nodes[k].inputs} - made
        return sum(net.tensors[name].nbytes for name in (*sorted(read), *stored(self._described, nodes)))


def _lengths(most: int) -> list[int]:
    """Lengths of groups to try, ascending."""
    found = list(range(1, min(most, _NEAR) + 1))
    length = _NEAR
    while length < most:
        length = min(most, length * 3 // 2)
        found.append(length)
    return found
