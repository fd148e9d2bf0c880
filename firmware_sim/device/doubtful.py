"""Device memory that holds what depends on memory that nothing wrote: no mistake until somebody reads it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from firmware_sim.checks.finding import Attribute, Finding, attributed
from firmware_sim.checks.records import I64
from firmware_sim.checks.stored import common, expanded, united, without

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Filled:
    """The last words of a tensor in 2N or 4N whose batches do not fill them: from byte `first` of it on only
    `used` bytes of each `word` mean something."""

    first: int
    word: int
    used: int

    def covers(self, ranges: I64) -> Flags:
        """Of ranges, int64[k, 2] of first byte and end, in which no byte means anything."""
        low, high = ranges[:, 0], ranges[:, 1]
        place = (low - self.first) % self.word
        covered: Flags = (low >= self.first) & (place >= self.used) & (place + high - low <= self.word)
        return covered


class Doubtful:
    """Ranges of DDR with the finding of each, as the device process says after each request."""

    def __init__(self) -> None:
        self._ranges: list[tuple[I64, int, Finding]] = []  # as of Stored; number of the request; finding
        self._attributes: dict[int, Attribute | None] = {}
        self._told: set[tuple[int, tuple[object, ...]]] = set()

    def renew(
        self,
        stored: Iterable[tuple[int, dict[str, Any], Sequence[Sequence[int]]]],
        attribute: Attribute | None = None,
    ) -> None:
        """All there are now: number of the request that stored it, Finding.to_json(), and `strided` ranges of
        absolute addresses. attribute: says more of who issued commands, of the newest request."""
        known = [(n, Finding.from_json(one), united(expanded(ranges))) for n, one, ranges in stored]
        self._attributes = {n: self._attributes.get(n, attribute) for n, _, _ in known}
        self._ranges = [(ranges, n, attributed(finding, self._attributes[n])) for n, finding, ranges in known]
        self._told &= {(request, finding.key) for _, request, finding in self._ranges}

    def settle(self, start: int, nbytes: int) -> None:
        """The host wrote there, or it belongs to somebody else now."""
        rest = [(without(ranges, _one(start, nbytes)), n, finding) for ranges, n, finding in self._ranges]
        self._ranges = [(ranges, n, finding) for ranges, n, finding in rest if len(ranges)]

    def read(self, start: int, nbytes: int, filled: Filled | None = None) -> list[Finding]:
        """The host reads there: the findings of what it gets that were not told before."""
        if not self._ranges:
            return []
        found = []
        for ranges, request, finding in self._ranges:
            here = common(ranges, _one(start, nbytes))
            if not len(here) or (filled is not None and filled.covers(here - start).all()):
                continue
            if (request, finding.key) not in self._told:
                self._told.add((request, finding.key))
                found.append(finding)
        return found


def _one(start: int, nbytes: int) -> I64:
    return np.array([[start, start + nbytes]], np.int64)
