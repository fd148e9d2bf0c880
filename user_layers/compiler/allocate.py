"""Placing buffers that live for a while into one memory: the same function for DDR, L2 and local memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

Times = tuple[int, int]  # first and last, both included


class Request(NamedTuple):
    """A buffer of `size` bytes that is needed from time `first` to time `last`, both included.

    used: when the tensor unit works on it; moved: when it may be loaded or stored. A buffer that is used
    while another one is moved is better in another bank.
    """

    size: int
    first: int
    last: int
    used: Times | None = None
    moved: tuple[Times, ...] = ()


@dataclass(frozen=True)
class Placement:
    """offsets: of each request; used: the end of the highest one."""

    offsets: tuple[int, ...]
    used: int


def place(
    requests: Sequence[Request], *, align: int, limit: int | None = None, bank: int | None = None
) -> Placement | None:
    """Lowest free offset for each request, larger requests first; None when `limit` bytes do not suffice.

    Requests whose times overlap never overlap in memory. With `bank` (bytes), a request keeps out of the
    banks of those that the other engine touches at the same time, where that leaves it a place.
    """
    order = sorted(range(len(requests)), key=lambda i: (-requests[i].size, requests[i].first, i))
    offsets = [0] * len(requests)
    placed = _Placed()
    used = 0
    for i in order:
        request = requests[i]
        present = placed.during(request.first, request.last)
        offset = None
        if bank and (request.used or request.moved):
            apart = sorted(
                (start // bank * bank, -(-end // bank) * bank) if _meet(request, other) else (start, end)
                for start, end, other in present
            )
            offset = _lowest(request.size, apart, align, limit)
        if offset is None:
            offset = _lowest(request.size, sorted((start, end) for start, end, _ in present), align, limit)
        if offset is None:
            return None
        offsets[i] = offset
        if request.size:
            placed.add(offset, request)
        used = max(used, offset + request.size)
    return Placement(tuple(offsets), used)


_WIDTH = 8  # times to a block of the finest level; each coarser one has as many times more


class _Placed:
    """Requests that have a place, by times: those of a moment are found without looking at all others. Each
    stands in the blocks of the finest level of which it needs at most two."""

    def __init__(self) -> None:
        self._levels: dict[int, dict[int, list[tuple[int, int, Request]]]] = {}

    def add(self, offset: int, request: Request) -> None:
        """One that lies there."""
        width = _WIDTH
        while request.last // width - request.first // width > 1:
            width *= _WIDTH
        blocks = self._levels.setdefault(width, {})
        for block in {request.first // width, request.last // width}:
            blocks.setdefault(block, []).append((offset, offset + request.size, request))

    def during(self, since: int, until: int) -> list[tuple[int, int, Request]]:
        """Start, end and request of those that are needed at some time from `since` to `until`."""
        found = []
        for width, blocks in self._levels.items():
            first, last = since // width, until // width
            few = last - first < len(blocks)
            for block in range(first, last + 1) if few else [b for b in blocks if first <= b <= last]:
                found += [
                    entry
                    for entry in blocks.get(block, ())
                    if entry[2].last >= since
                    and until >= entry[2].first
                    and (block == first or entry[2].first // width == block)  # each once
                ]
        return found


def _lowest(size: int, taken: Sequence[tuple[int, int]], align: int, limit: int | None) -> int | None:
    """The lowest offset outside the taken ranges (by start), if it is within the limit."""
    offset = 0
    for start, end in taken:
        if offset + size <= start:
            break
        if end > offset:
            offset = -(-end // align) * align
    return None if limit is not None and offset + size > limit else offset


def _meet(a: Request, b: Request) -> bool:
    """Whether one of them is used while the other is moved."""
    return _within(a.used, b.moved) or _within(b.used, a.moved)


def _within(used: Times | None, moved: tuple[Times, ...]) -> bool:
    if used is None:
        return False
    start, end = used
    for first, last in moved:  # noqa: SIM110 - not `any`: it is asked for each pair of buffers
        if first <= end and start <= last:
            return True
    return False
