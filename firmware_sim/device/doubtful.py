"""Device memory that holds what depends on memory that nothing wrote: no mistake until somebody reads it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from firmware_sim.checks.finding import Attribute, Finding, attributed


@dataclass(frozen=True)
class Filled:
    """The last words of a tensor in 2N or 4N whose batches do not fill them: from byte `first` of it on only
    `used` bytes of each `word` mean something."""

    first: int
    word: int
    used: int

    def covers(self, low: int, high: int) -> bool:
        """Whether no byte of the range means anything."""
        place = (low - self.first) % self.word
        return low >= self.first and place >= self.used and place + high - low <= self.word


class Doubtful:
    """Ranges of DDR with the finding of each, as the device process says after each request."""

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int, int, Finding]] = []  # start, end, number of the request, finding
        self._attributes: dict[int, Attribute | None] = {}
        self._told: set[tuple[int, tuple[object, ...]]] = set()

    def renew(
        self,
        stored: Iterable[tuple[int, dict[str, Any], Iterable[tuple[int, int]]]],
        attribute: Attribute | None = None,
    ) -> None:
        """All there are now: number of the request that stored it, Finding.to_json(), and absolute addresses
        with their bytes. attribute: says more of who issued commands, of the newest request."""
        known = [(n, Finding.from_json(one), ranges) for n, one, ranges in stored]
        self._attributes = {n: self._attributes.get(n, attribute) for n, _, _ in known}
        self._ranges = [
            (start, start + nbytes, n, attributed(finding, self._attributes[n]))
            for n, finding, ranges in known
            for start, nbytes in ranges
        ]
        self._told &= {(request, finding.key) for _, _, request, finding in self._ranges}

    def settle(self, start: int, nbytes: int) -> None:
        """The host wrote there, or it belongs to somebody else now."""
        end = start + nbytes
        kept = []
        for at, to, request, finding in self._ranges:
            for low, high in ((at, min(to, start)), (max(at, end), to)):
                if low < high:
                    kept.append((low, high, request, finding))
        self._ranges = kept

    def read(self, start: int, nbytes: int, filled: Filled | None = None) -> list[Finding]:
        """The host reads there: the findings of what it gets that were not told before."""
        if not self._ranges:
            return []
        found = []
        for at, to, request, finding in self._ranges:
            low, high = max(at, start), min(to, start + nbytes)
            if low >= high or (filled is not None and filled.covers(low - start, high - start)):
                continue
            if (request, finding.key) not in self._told:
                self._told.add((request, finding.key))
                found.append(finding)
        return found
