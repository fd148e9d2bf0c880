"""The order of a group's loads, layer calls and stores, and what each waits for.

Both engines run at the same time, each in its own order. A load is issued so early that it is done when its
layer begins, as far as local memory has room for it by then; a store is issued after its layer. Nothing waits
for more than what touches the same bytes before it.
"""

from __future__ import annotations

import bisect
import enum
from collections.abc import Sequence
from dataclasses import dataclass

Range = tuple[int, int]  # bytes [first, end) of local memory


class OpKind(enum.Enum):
    LOAD = "load"
    LAYER = "layer"
    STORE = "store"


@dataclass(frozen=True)
class Op:
    """One load or store of value `which`, or the call of node `which`, for one piece.

    after: number of the newest earlier op on the other engine that must be done before; -1: none.
    """

    kind: OpKind
    which: int
    piece: int
    after: int = -1
    cycles: float = 0.0


@dataclass
class Buffer:
    """Memory of one piece: first used in step `need`, last in step `last`, stored after step `made`.

    Steps count the layer calls of all pieces. load, store: cycles of the transfer, if there is one; first,
    until: from the step in which the load is issued to the one in which the store may still run.
    """

    size: int
    need: int
    last: int
    piece: int = 0
    load: float | None = None
    store: float | None = None
    made: int = -1
    first: int = -1
    until: int = -1


def choose_loads(
    buffers: Sequence[Buffer], compute: Sequence[float], limit: int, ahead: int, hold: int
) -> bool:
    """Set `first` and `until` of all buffers; False when even without loading ahead they need more than
    `limit` bytes at some step. compute: cycles of each step; ahead: bytes that may be taken so that loads
    come earlier; hold: steps for which a store may take longer before its memory is used anew."""
    steps = len(compute)
    begins = [0.0]
    for cycles in compute:
        begins.append(begins[-1] + cycles)
    taken = [0] * (steps + 1)
    for b in buffers:
        b.first, b.until = b.need, b.last
        if b.store is not None:
            b.until = max(b.until, min(b.made + 1 + hold, steps))
        for s in range(b.first, b.until + 1):
            taken[s] += b.size
    if max(taken) > limit:
        return False
    queue = sorted(
        [(b.need, 0, i) for i, b in enumerate(buffers) if b.load is not None]
        + [(b.made + 1, 1, i) for i, b in enumerate(buffers) if b.store is not None]
    )
    latest = begins[-1] + sum(b.store for b in buffers if b.store is not None)
    starts: dict[int, float] = {}
    for step, is_store, i in reversed(queue):
        b = buffers[i]
        if is_store:
            latest -= b.store or 0.0
        else:
            latest = min(latest, begins[step]) - (b.load or 0.0)
            starts[i] = latest
    for step, is_store, i in queue:
        if is_store:
            continue
        b = buffers[i]
        wanted = min(bisect.bisect_right(begins, starts[i]) - 1, step - 1)
        s = step - 1
        while s >= max(wanted, 0) and taken[s] + b.size <= ahead:
            taken[s] += b.size
            s -= 1
        b.first = s + 1
    return True


def transfers_in_order(buffers: Sequence[Buffer]) -> list[tuple[int, int, int, int]]:
    """All transfers in their order: (step in which it is issued, 0 load or 1 store, order in it, buffer)."""
    return sorted(
        [(b.first, 0, b.need, i) for i, b in enumerate(buffers) if b.load is not None]
        + [(b.made + 1, 1, 0, i) for i, b in enumerate(buffers) if b.store is not None]
    )


class Order:
    """Ops as they are appended, with what they wait for."""

    def __init__(self, serial: bool) -> None:
        self.ops: list[Op] = []
        self._serial = serial
        self._touched: dict[bool, list[tuple[int, list[Range], list[Range]]]] = {False: [], True: []}
        self._waits = {False: -1, True: -1}

    def append(
        self,
        kind: OpKind,
        which: int,
        piece: int,
        cycles: float,
        reads: list[Range],
        writes: list[Range],
    ) -> None:
        """The next op. reads, writes: what it touches in local memory."""
        dma = kind is not OpKind.LAYER
        level = self._waits[dma]
        after = -1
        for index, other_reads, other_writes in reversed(self._touched[not dma]):
            if index <= level:
                break
            if (
                self._serial
                or _overlap(writes, other_reads)
                or _overlap(writes, other_writes)
                or _overlap(reads, other_writes)
            ):
                after = self._waits[dma] = index
                break
        self._touched[dma].append((len(self.ops), reads, writes))
        self.ops.append(Op(kind, which, piece, after, cycles))

    def cycles(self) -> float:
        """Modelled time until both engines are done."""
        ends: list[float] = []
        free = {False: 0.0, True: 0.0}
        waited = {False: 0.0, True: 0.0}
        for op in self.ops:
            dma = op.kind is not OpKind.LAYER
            if op.after >= 0:
                waited[dma] = max(waited[dma], ends[op.after])
            free[dma] = max(free[dma], waited[dma]) + op.cycles
            ends.append(free[dma])
        return max(free.values())


def _overlap(a: list[Range], b: list[Range]) -> bool:
    return any(x[0] < y[1] and y[0] < x[1] for x in a for y in b)
