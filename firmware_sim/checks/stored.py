"""Ranges of DDR that must not be read, and what to say when the host does."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from firmware_sim.checks.finding import Finding
from firmware_sim.checks.records import I64


def united(ranges: I64) -> I64:
    """Ranges, int64[k, 2] of start and end, ascending and without any that meet."""
    if not len(ranges):
        return ranges
    ranges = ranges[np.argsort(ranges[:, 0], kind="stable")]
    ends = np.maximum.accumulate(ranges[:, 1])
    firsts = np.nonzero(np.r_[True, ranges[1:, 0] > ends[:-1]])[0]
    return np.stack([ranges[firsts, 0], ends[np.r_[firsts[1:], len(ranges)] - 1]], 1)


def common(ranges: I64, others: I64) -> I64:
    """What lies in both; each ascending and without overlaps, and so is the answer."""
    first = np.searchsorted(others[:, 1], ranges[:, 0], "right")
    count = np.maximum(np.searchsorted(others[:, 0], ranges[:, 1], "left") - first, 0)
    mine = np.repeat(np.arange(len(ranges)), count)
    theirs = np.arange(len(mine)) - np.repeat(np.cumsum(count) - count, count) + np.repeat(first, count)
    return np.stack(
        [
            np.maximum(ranges[mine, 0], others[theirs, 0]),
            np.minimum(ranges[mine, 1], others[theirs, 1]),
        ],
        1,
    )


def without(ranges: I64, others: I64) -> I64:
    """What lies in the ranges and in none of the others; both ascending and without overlaps."""
    limits = np.iinfo(np.int64)
    edges = np.r_[limits.min, others.reshape(-1), limits.max].reshape(-1, 2)
    return common(ranges, edges[edges[:, 0] < edges[:, 1]])


def strided(ranges: I64) -> list[tuple[int, int, int, int]]:
    """Ranges as (start, bytes, count, stride) of those that follow one another at equal distances, as they
    do in the words of a tensor in 4N."""
    starts, sizes = ranges[:, 0], ranges[:, 1] - ranges[:, 0]
    gaps = np.diff(starts)
    gaps[sizes[1:] != sizes[:-1]] = 0
    edges = [0, *(np.nonzero(np.diff(gaps))[0] + 1).tolist(), len(gaps)]
    found, first = [], 0
    for low, high in itertools.pairwise(edges):  # these gaps are equal, and between the ranges low to high
        first = max(first, low)
        if low < high and gaps[low]:
            found.append((int(starts[first]), int(sizes[first]), high - first + 1, int(gaps[low])))
            first = high + 1
        else:
            found += [(int(starts[k]), int(sizes[k]), 1, 0) for k in range(first, high)]
    return found + [(int(starts[k]), int(sizes[k]), 1, 0) for k in range(max(first, len(gaps)), len(ranges))]


def expanded(strides: Iterable[Sequence[int]]) -> I64:
    """What `strided` made of ranges, as they were."""
    parts = [
        np.arange(count, dtype=np.int64)[:, None] * stride + np.array([start, start + nbytes])
        for start, nbytes, count, stride in strides
    ]
    return np.concatenate(parts) if parts else np.zeros((0, 2), np.int64)


@dataclass(frozen=True, eq=False)
class Stored:
    """Ranges of DDR, int64[k, 2] of start and end, that hold what depends on unwritten memory, or what
    nothing wrote, when a request ends: ascending, without overlaps."""

    ranges: I64
    finding: Finding

    def reach(self) -> tuple[int, int]:
        """The first byte, and behind the last."""
        return int(self.ranges[0, 0]), int(self.ranges[-1, 1])

    def overlaps(self, start: int, nbytes: int) -> bool:
        """Whether some of its bytes lie in a range."""
        k = int(np.searchsorted(self.ranges[:, 1], start, "right"))
        return k < len(self.ranges) and bool(self.ranges[k, 0] < start + nbytes)

    def only(self, ranges: I64) -> Stored:
        """What of it lies in these ranges too."""
        return replace(self, ranges=common(self.ranges, ranges))

    def outside(self, start: int, nbytes: int) -> Stored:
        """What of it does not lie there."""
        return replace(self, ranges=without(self.ranges, np.array([[start, start + nbytes]])))
