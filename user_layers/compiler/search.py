"""Finds the best division of a static subnet into groups and single layers, by modelled cycles.

The cheapest division that the groups tried so far make is known at any time (division.py); the search
decides which to try. It begins with those of the cheap rule (opt=1), as they are, and goes from coarse to
fine: groups between the few places where least is alive, then between ever more places, then the ends of the
best groups are moved, and at last come all others. A group that could not be faster than what is known for
its nodes is not planned, and equal ones are planned once (trials.py). The work is counted and shared over the
net by its layers: so the result does not depend on the machine, and the time grows as the net does.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence

from firmware_sim.isa.timing import FITTED
from user_layers.compiler.attributes import DescribedNet
from user_layers.compiler.cost_model import MeasuredCost
from user_layers.compiler.division import Cost, Division, Way, Ways
from user_layers.compiler.fitting import Group, TooMuchWork, timed
from user_layers.compiler.tiling import Infeasible, stored
from user_layers.compiler.trials import Trial, Trials

PER_LAYER = 130  # layer calls that may be planned for each layer of a net
LEAST = 40_000  # and at least
_NEAR = 8  # every length up to this is tried, in units that are not worth cutting; then ever larger steps
_SPAN = 6  # lengths that are tried between the places of one scale
_TOP = 8  # pieces into which the coarsest scale cuts a run, at most
_PART = 4  # one trial takes this part of the work that is left, at most
_FEW = 2  # layers of a group that is always tried in more tiles
_ROUNDS = 2  # in which the work that others leave goes to runs for which there was not enough
_STEPS = (1, 2, 4, 8)  # by which the ends of groups are moved
_BYTES = 64 / FITTED.read_burst  # from DDR in a cycle, at best

LIMIT = "the search was at its limit"


class Search:
    """Finds the cheapest groups of one subnet.

    nodes: of the subnet; elided: those that need not run alone; runs: those that may be in groups, of one run
    together; given: groups that another rule made, as they are.
    """

    def __init__(
        self,
        described: DescribedNet,
        cost_model: MeasuredCost,
        elided: frozenset[int],
        nodes: range,
        runs: Sequence[range],
        given: Iterable[Group],
    ) -> None:
        self._nodes = nodes
        self._runs = runs
        self._net = described.net
        self._size = sum(map(len, runs))
        self._most = max(LEAST, PER_LAYER * self._size)
        self._trials = Trials(described, cost_model, self._most)
        self._groups = _Groups(described, self._trials, cost_model, elided, nodes)
        self._not_tried: set[int] = set()
        for group in given:
            self._groups.give(timed(described, group, cost_model))

    def divide(self) -> list[Group | tuple[int, float]]:
        """The groups, and (node, cycles) of those left alone, in the order of the nodes."""
        searches = [_RunSearch(self._groups, run) for run in self._runs]
        self._share(searches, _RunSearch.from_coarse_to_fine)
        for one in searches:
            with self._trials.work.at_most(self._trials.work.left / _PART):
                one.polish()
        for _ in range(_ROUNDS):
            self._share(searches, _RunSearch.rest)
            searches = [one for one in searches if one.not_tried]
        self._not_tried = {k for one in searches for k in one.not_tried}
        found: list[Group | tuple[int, float]] = []
        alone = self._groups.ways.alone
        at = self._nodes.start
        for way in self._groups.ways.best(self._nodes).ways:
            found += [(k, alone[k].cycles) for k in range(at, way.start)]
            made = way.group
            found.append(made if isinstance(made, Group) else self._trials.group(way.start, way.end, made))
            at = way.end
        return found + [(k, alone[k].cycles) for k in range(at, self._nodes.stop)]

    def _share(self, searches: Sequence[_RunSearch], search: Callable[[_RunSearch], None]) -> None:
        """Search every run, each with its share of the work; what one leaves goes to those behind it."""
        work = self._trials.work
        size = sum(len(one.run) for one in searches)
        for one in searches:
            with work.at_most(work.left * len(one.run) / size):
                search(one)
            size -= len(one.run)

    def why_not(self, node: int) -> str:
        """Why a node that could be in a group is alone."""
        if node in self._groups.refusals:
            return self._groups.refusals[node]
        return LIMIT if node in self._not_tried else "faster alone, by modelled cycles"

    @property
    def note(self) -> str:
        """That not all was tried; "" where it was."""
        missed = self._not_tried
        if not missed:
            return ""
        first, last = (self._net.nodes[k].name for k in (min(missed), max(missed)))
        return (
            f"{LIMIT} ({self._most:,} layer calls planned): not all groups of {len(missed)} of "
            f"{self._size} layers, from {first} to {last}, were tried"
        )


class _Groups:
    """What is known of the groups of a subnet. refusals: why a node is no group by itself."""

    def __init__(
        self,
        described: DescribedNet,
        trials: Trials,
        cost_model: MeasuredCost,
        elided: frozenset[int],
        nodes: range,
    ) -> None:
        self.described = described
        self.trials = trials
        self._known_traffic: dict[range, int] = {}
        self.ways = Ways(
            {
                k: Cost(0.0, 0)
                if k in elided
                else Cost(cost_model.global_layer(k), self._traffic(range(k, k + 1)))
                for k in nodes
            }
        )
        self.refusals: dict[int, str] = {}

    def give(self, group: Group) -> None:
        """A group as it is."""
        nodes = range(group.nodes[0], group.nodes[-1] + 1)
        self.ways.add(Way(nodes.start, nodes.stop, Cost(group.cycles, self._traffic(nodes)), group))

    def fit(self, nodes: range) -> Trial | Infeasible:
        """Try these nodes as a group."""
        found = self.trials.fit(nodes.start, nodes.stop, self.ways.fewest_tiles(nodes))
        if isinstance(found, Trial):
            self._keep(nodes, found)
        elif len(nodes) == 1 and not isinstance(found, TooMuchWork):
            self.refusals[nodes.start] = found.reason
        return found

    def refine(self, nodes: range) -> bool:
        """Try a group that fits in more tiles; whether there was work enough for all."""
        complete = isinstance(self.trials.refine(nodes.start, nodes.stop), Trial)
        self.fit(nodes)
        return complete

    def may_gain(self, nodes: range, floors: Floors, division: Division) -> bool:
        """Whether these nodes as a group could make a division cheaper: not if what it costs now is no more
        than the least that the tensor unit or the DMA engine needs."""
        now, around = division.around(nodes)
        rest = floors.of(range(around.start, nodes.start)) + floors.of(range(nodes.stop, around.stop))
        compute = floors.local(nodes)
        if now < Cost(compute + rest, 0):
            return False
        traffic = self._traffic(nodes)
        return Cost(max(compute, traffic / _BYTES) + rest, traffic) < now

    def _keep(self, nodes: range, trial: Trial) -> None:
        self.ways.add(Way(nodes.start, nodes.stop, Cost(trial.cycles, self._traffic(nodes)), trial))

    def _traffic(self, nodes: range) -> int:
        """Bytes that these nodes as a group read and write in DDR, each tensor once."""
        if nodes not in self._known_traffic:
            net = self.described.net
            made = {name for k in nodes for name in net.nodes[k].outputs}
            read = {name for k in nodes for name in net.nodes[k].inputs} - made
            moved = (*read, *stored(self.described, nodes))
            self._known_traffic[nodes] = sum(net.tensors[name].nbytes for name in moved)
        return self._known_traffic[nodes]


class Floors:
    """Cycles that nodes take at least, from units of them by themselves: (start, alone, local) of each, the
    cycles of their global functions, and of the tensor unit for the local ones in the fewest tiles."""

    def __init__(self, run: range, units: Iterable[tuple[int, float, float]]) -> None:
        self._start = run.start
        any_way, local = [0.0] * len(run), [0.0] * len(run)
        for start, alone, compute in units:
            any_way[start - run.start], local[start - run.start] = min(alone, compute), compute
        self._any = [0.0, *itertools.accumulate(any_way)]
        self._local = [0.0, *itertools.accumulate(local)]

    def of(self, nodes: range) -> float:
        """In any way."""
        return self._between(self._any, nodes)

    def local(self, nodes: range) -> float:
        """As parts of groups."""
        return self._between(self._local, nodes)

    def _between(self, sums: list[float], nodes: range) -> float:
        first, last = (min(max(k - self._start, 0), len(sums) - 1) for k in (nodes.start, nodes.stop))
        return sums[last] - sums[first] if first < last else 0.0


class _RunSearch:
    """Tries groups of one run of nodes, as far as there is work left. not_tried: nodes of groups for which
    there was not enough."""

    def __init__(self, groups: _Groups, run: range) -> None:
        self._groups = groups
        self.run = run
        self.not_tried: set[int] = set()
        self._work = groups.trials.work
        self._cuts = list(_cuts(groups.described, run))
        self._full: dict[int, int] = {}  # from a cut on: the end of the shortest group that has no room
        self._floors = Floors(run, ())

    def from_coarse_to_fine(self) -> None:
        """Groups of all sizes, as many of each, and those that are like the best."""
        self._floors = Floors(self.run, self._units())
        scales = self._scales()
        for left, (places, longest) in zip(range(len(scales), 0, -1), scales, strict=True):
            with self._work.at_most(self._work.left / (left + 1)):
                self._between(places, longest)
                self.polish()
        self._move()

    def _units(self) -> Iterator[tuple[int, float, float]]:
        for start, end in itertools.pairwise(self._cuts):
            found = self._fit(range(start, end))
            alone = sum(self._groups.ways.alone[k].cycles for k in range(start, end))
            yield start, alone, found.compute if isinstance(found, Trial) else 0.0

    def _fit(self, nodes: range) -> Trial | Infeasible:
        with self._work.at_most(self._work.left / _PART):
            found = self._groups.fit(nodes)
        if isinstance(found, Infeasible) and found.lacks_room:
            for cut in reversed(self._cuts[: bisect.bisect_right(self._cuts, nodes.start)]):
                if self._full.get(cut, nodes.stop + 1) <= nodes.stop:
                    break
                self._full[cut] = nodes.stop
        return found

    def _best(self) -> Division:
        return self._groups.ways.best(self.run)

    def _gains(self, nodes: range, division: Division) -> bool:
        return self._groups.may_gain(nodes, self._floors, division)

    def _fits(self, nodes: range) -> bool:
        """Whether no part of these nodes is known to have no room."""
        return nodes.stop < self._full.get(nodes.start, nodes.stop + 1)

    def _scales(self) -> list[tuple[list[int], int]]:
        """Places for the ends of groups, and over how many of them these go at most; from few places, where
        little is alive, to all."""
        alive = _alive(self._groups.described, self.run)
        scales = [(self._cuts, _NEAR)]
        while len(scales[-1][0]) > _TOP + 1:
            first, *inner, last = scales[-1][0]
            pairs = (inner[i : i + 2] for i in range(0, len(inner), 2))
            scales.append(([first, *(min(pair, key=lambda cut: alive[cut]) for pair in pairs), last], _SPAN))
        return [(places, longest if len(places) > _TOP + 1 else _TOP) for places, longest in scales[::-1]]

    def _between(self, places: list[int], longest: int) -> None:
        """Groups from each place to the next ones."""
        division = self._best()
        for i, start in enumerate(places[:-1]):
            for end in places[i + 1 : i + 1 + longest]:
                nodes = range(start, end)
                if not self._fits(nodes):
                    break
                if self._gains(nodes, division):
                    self._fit(nodes)

    def polish(self) -> None:
        """The groups of the best division in more tiles, until these are the best ones."""
        done: set[range] = set()
        while True:
            ways = self._best().ways
            new = [nodes for way in ways if (nodes := range(way.start, way.end)) not in done]
            if not new:
                break
            for nodes in new:
                if isinstance(self._groups.fit(nodes), Trial):
                    self._groups.refine(nodes)
            done.update(new)

    def _move(self) -> None:
        """Move the ends of the best groups, and join them, as long as that helps."""
        tried: set[range] = set()
        division = self._best()
        while True:
            for nodes in self._moved(division):
                if nodes not in tried and self._fits(nodes) and self._gains(nodes, division):
                    self._fit(nodes)
                tried.add(nodes)
            self.polish()
            before, division = division, self._best()
            if division == before:
                break

    def _moved(self, division: Division) -> Iterator[range]:
        """What both sides of an end would be if it were moved, and both together; the dearest sides first."""
        ends = division.ends
        inner = range(1, len(ends) - 1)
        for i in sorted(inner, key=lambda i: -(division.costs[i - 1].cycles + division.costs[i].cycles)):
            yield range(ends[i - 1], ends[i + 1])
            at = bisect.bisect_left(self._cuts, ends[i])
            for step in _STEPS:
                for to in (at - step, at + step):
                    if 0 <= to < len(self._cuts) and ends[i - 1] < self._cuts[to] < ends[i + 1]:
                        yield range(ends[i - 1], self._cuts[to])
                        yield range(self._cuts[to], ends[i + 1])

    def rest(self) -> None:
        """All groups, of ever more different lengths, that may still help."""
        division = self._best()
        self.not_tried.clear()
        for i, start in enumerate(self._cuts[:-1]):
            for length in _lengths(len(self._cuts) - 1 - i):
                nodes = range(start, self._cuts[i + length])
                if not self._gains(nodes, division):
                    continue
                found = self._fit(nodes)
                if isinstance(found, Trial):
                    small = math.prod(found.least) == 1 and len(nodes) > _FEW
                    if small or self._groups.refine(nodes):
                        continue
                if isinstance(found, Infeasible) and not isinstance(found, TooMuchWork):
                    break
                self.not_tried.update(nodes)
                break
        self.polish()


def _cuts(described: DescribedNet, run: range) -> Iterator[int]:
    """Where the run may be cut: not between a layer and one that works in its result's memory only, but for a
    layer behind one that gathers, which has to be in a group whether the next one gains or not."""
    net = described.net
    gathered = {name for k in run if described.attrs[k].gathers for name in net.nodes[k].outputs}
    yield run.start
    for k in run[1:]:
        node, attrs = net.nodes[k], described.attrs[k]
        before = net.nodes[k - 1]
        follows_in_place = (
            len(before.outputs) == 1
            and before.outputs[0] in node.inputs
            and net.consumers[before.outputs[0]] == (k,)
            and before.outputs[0] not in net.outputs
            and len(node.inputs) == 1
            and attrs.can_inplace(net.tensors[before.outputs[0]].dtype)
            and gathered.isdisjoint(before.inputs)
        )
        if not follows_in_place:
            yield k
    yield run.stop


def _alive(described: DescribedNet, run: range) -> dict[int, int]:
    """Bytes that nodes of the run before a place make and nodes from there on read."""
    net = described.net
    changes = dict.fromkeys(range(run.start, run.stop + 2), 0)
    for k in run:
        for name in net.nodes[k].outputs:
            last = min(max(net.consumers[name], default=k), run.stop)
            changes[k + 1] += net.tensors[name].nbytes
            changes[last + 1] -= net.tensors[name].nbytes
    return dict(zip(changes, itertools.accumulate(changes.values()), strict=True))


def _lengths(most: int) -> list[int]:
    """Lengths of groups to try, ascending."""
    found = list(range(1, min(most, _NEAR) + 1))
    length = _NEAR
    while length < most:
        length = min(most, length * 3 // 2)
        found.append(length)
    return found
