"""Groups that the search tries: each is planned once, wherever in the net the same layers stand."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from user_layers.compiler.attributes import DescribedNet
from user_layers.compiler.cost_model import MeasuredCost
from user_layers.compiler.fitting import (
    Counts,
    Group,
    TooMuchWork,
    Work,
    finer_tilings,
    fit_counts,
    fit_group,
)
from user_layers.compiler.flow import OpKind
from user_layers.compiler.signature import Signature, Signatures
from user_layers.compiler.tiling import Infeasible

_RECORDING = 10  # planning so many calls takes as long as recording one that was not timed before
_LOOK = 16  # layers, of a group known already, that are compared in the time in which one call is planned
_MOST_TILES = 64  # of the finer cuts that are tried
_PATIENCE = 3  # finer cuts of an axis that are tried after the best


@dataclass(frozen=True)
class Trial:
    """What planning some nodes as a group came to.

    least: the fewest slices along n, h, w that fit; counts: those with which it was fastest, of the ones that
    were tried; cycles: modelled, with these; compute: cycles of the tensor unit alone, with the fewest.
    """

    least: Counts
    counts: Counts
    cycles: float
    compute: float


class Trials:
    """Groups of one net, by their signatures.

    planned: how many tilings were planned, anywhere; work: what may still be done.
    """

    def __init__(self, described: DescribedNet, cost_model: MeasuredCost, most: float) -> None:
        self.work = Work(most)
        self.planned = 0
        self._described = described
        self._cost_model = cost_model
        self._signatures = Signatures(described)
        self._known: dict[Signature, Trial | Infeasible] = {}
        self._refined: set[Signature] = set()

    def fit(self, start: int, end: int, least: Counts) -> Trial | Infeasible:
        """The group of these nodes in as few slices as fit, at least so many; or as it was refined.
        TooMuchWork where there is not enough work left to find out."""
        key = self._look(start, end)
        if key not in self._known:
            nodes = tuple(range(start, end))
            with self._recording():
                group = fit_group(self._described, nodes, self._cost_model, least, self.work)
            if isinstance(group, TooMuchWork):
                return group
            self._known[key] = _trial(group) if isinstance(group, Group) else group
        return self._known[key]

    def refine(self, start: int, end: int) -> Trial | TooMuchWork:
        """The same, after it fitted, in more tiles where that is faster. TooMuchWork where there is not
        enough work left to try all; `fit` gives the best then."""
        key = self._look(start, end)
        while key not in self._refined:
            best = self._known[key]
            assert isinstance(best, Trial)
            finer = self._finer(start, end, best)
            if isinstance(finer, TooMuchWork):
                return finer
            self._known[key] = finer
            if finer == best:
                self._refined.add(key)
        found = self._known[key]
        assert isinstance(found, Trial)
        return found

    def group(self, start: int, end: int, trial: Trial) -> Group:
        """The group that was tried, there or elsewhere."""
        made = fit_counts(self._described, tuple(range(start, end)), trial.counts, self._cost_model)
        assert isinstance(made, Group) and made.cycles == trial.cycles, "equal groups are planned alike"
        return made

    def _finer(self, start: int, end: int, base: Trial) -> Trial | TooMuchWork:
        """The fastest of the next finer tilings, or the same if none is faster."""
        nodes = tuple(range(start, end))
        best = base
        misses = [0, 0, 0]
        for counts in finer_tilings(
            self._described, nodes, base.counts, max(_MOST_TILES, math.prod(base.counts))
        ):
            axis = next(i for i in range(3) if counts[i] != base.counts[i])
            if misses[axis] == _PATIENCE:
                continue
            if not self.work.take(len(nodes) * math.prod(counts)):
                return TooMuchWork("there is not enough work left")
            with self._recording():
                group = fit_counts(self._described, nodes, counts, self._cost_model)
            if isinstance(group, Group) and group.cycles < best.cycles:
                best = replace(base, counts=counts, cycles=group.cycles)
                misses[axis] = 0
            else:
                misses[axis] += 1
        return best

    def _look(self, start: int, end: int) -> Signature:
        self.work.left -= (end - start) / _LOOK
        return self._signatures.of(start, end)

    @contextmanager
    def _recording(self) -> Iterator[None]:
        """Count what the block plans and has recorded."""
        before = self._cost_model.recorded
        yield
        self.planned += 1
        self.work.left -= _RECORDING * (self._cost_model.recorded - before)


def _trial(group: Group) -> Trial:
    compute = sum(op.cycles for op in group.local.ops if op.kind is OpKind.LAYER)
    return Trial(group.counts, group.counts, group.cycles, compute)
