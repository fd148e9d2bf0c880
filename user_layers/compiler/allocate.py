"""Placing buffers that live for a while into one memory: the same function for DDR, L2 and local memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Request:
    """A buffer of `size` bytes that is needed from time `first` to time `last`, both included.

    color: buffers of different colors should not share a bank (None: no matter).
    """

    size: int
    first: int
    last: int
    color: int | None = None


@dataclass(frozen=True)
class Placement:
    """offsets: of each request; used: the end of the highest one."""

    offsets: tuple[int, ...]
    used: int


def place(
    requests: Sequence[Request], *, align: int, limit: int | None = None, bank: int | None = None
) -> Placement | None:
    """Lowest free offset for each request, larger requests first; None when `limit` bytes do not suffice.

    Requests whose times overlap never overlap in memory. With `bank` (bytes), requests of different
    colors whose times overlap have no bank in common either.
    """
    order = sorted(
        range(len(requests)),
        key=lambda i: (requests[i].color or 0 if bank else 0, -requests[i].size, i),
    )
    offsets = [0] * len(requests)
    placed: list[int] = []
    used = 0
    for i in order:
        request = requests[i]
        offset = 0
        for start, end in _taken(request, requests, offsets, placed, bank):
            if offset + request.size <= start:
                break
            offset = max(offset, -(-end // align) * align)
        if limit is not None and offset + request.size > limit:
            return None
        offsets[i] = offset
        placed.append(i)
        used = max(used, offset + request.size)
    return Placement(tuple(offsets), used)


def _taken(
    request: Request, requests: Sequence[Request], offsets: list[int], placed: list[int], bank: int | None
) -> list[tuple[int, int]]:
    """Ranges that the request must keep out of, by start."""
    ranges = []
    for j in placed:
        other = requests[j]
        if not other.size or other.last < request.first or request.last < other.first:
            continue
        start, end = offsets[j], offsets[j] + other.size
        if bank and request.color is not None and other.color is not None and other.color != request.color:
            start, end = start // bank * bank, -(-end // bank) * bank
        ranges.append((start, end))
    return sorted(ranges)
