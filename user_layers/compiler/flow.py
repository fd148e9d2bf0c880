"""The order of a group's loads, layer calls and stores, and what each waits for.

Both engines run at the same time, each in its own order. A load is issued so early that it is done when its
layer begins, as far as local memory has room for it by then; a store is issued after its layer. Nothing waits
for more than what touches the same bytes before it.
"""

from __future__ import annotations

import bisect
import enum
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from firmware_sim.instructions.instruction import Engine
from user_layers.compiler.storage import Move

_OTHER = {Engine.BD: Engine.GDMA, Engine.GDMA: Engine.BD}
Range = tuple[int, int]  # bytes [first, end) of local memory


class OpKind(enum.Enum):
    """What an op does: a transfer from or to DDR, a layer call, or a copy inside local memory (see Op)."""

    LOAD = "load"
    LAYER = "layer"
    STORE = "store"
    MOVE = "move"

    @property
    def engine(self) -> Engine:
        """Which engine does it: the tensor unit runs layers, the DMA everything else."""
        return Engine.BD if self is OpKind.LAYER else Engine.GDMA


class Issued(float):
    """Cycles of an engine for a step whose commands the controller issues; issue: its own cycles for them. It
    issues those of both engines one after the other."""

    issue: float

    def __new__(cls, cycles: float, issue: float) -> Issued:
        """Both numbers are cycles."""
        self = super().__new__(cls, cycles)
        self.issue = issue
        return self


@dataclass(frozen=True)
class Op:
    """One load or store of value `which`, the call of node `which`, or the copy of input `index` of node
    `which` to its channels of the node's output; for one tile.

    after: number of the newest earlier op on the other engine that must be done before; -1: none.
    """

    kind: OpKind
    which: int
    tile: int
    after: int = -1
    cycles: float = 0.0
    index: int = 0


@dataclass
class Buffer:
    """Memory of one tile: first used in step `need`, last in step `last`, stored after step `made`.

    Steps count the layer calls of all tiles. load, store: cycles of the transfer, if there is one; moved:
    the last step in which a copy of it begins; first, until: from the step in which the load is issued to the
    one in which the store or copy may still run.
    """

    size: int
    need: int
    last: int
    tile: int = 0
    load: float | None = None
    store: float | None = None
    made: int = -1
    moved: int = -1
    first: int = -1
    until: int = -1


@dataclass
class Copy:
    """A copy within local memory that begins in a step, after the layer before."""

    step: int
    tile: int
    move: Move
    cycles: float = 0.0


class Transfer(NamedTuple):
    """Work of the DMA that is issued in a step: a copy, or the load or the store of a buffer (by number)."""

    step: int
    buffer: int = -1
    store: bool = False
    copy: Copy | None = None


def choose_loads(
    buffers: Sequence[Buffer],
    copies: Sequence[Copy],
    compute: Sequence[float],
    limit: int,
    prefetch: int,
    slack: int,
) -> bool:
    """Set `first` and `until` of all buffers; False when even without prefetching they need more than
    `limit` bytes at some step. compute: cycles of each step; prefetch: bytes that may be taken so that
    loads come earlier; slack: steps for which a store may take longer before its memory is used again."""
    steps = len(compute)
    begins = [0.0]
    for cycles in compute:
        begins.append(begins[-1] + cycles)
    changes = [0] * (steps + 2)
    for b in buffers:
        b.first, b.until = b.need, b.last
        if b.store is not None:
            b.until = max(b.until, min(b.made + 1 + slack, steps))
        if b.moved >= 0:
            b.until = max(b.until, min(b.moved + slack, steps))
        changes[b.first] += b.size
        changes[b.until + 1] -= b.size
    taken = list(itertools.accumulate(changes[:-1]))
    if max(taken) > limit:
        return False
    queue = sorted(
        [(b.need, 0, i, 0.0) for i, b in enumerate(buffers) if b.load is not None]
        + [(b.made + 1, 1, i, b.store) for i, b in enumerate(buffers) if b.store is not None]
        + [(c.step, 1, -1, c.cycles) for c in copies]
    )
    latest = begins[-1] + sum(cycles for _, _, _, cycles in queue)
    starts: dict[int, float] = {}
    for step, other, i, cycles in reversed(queue):
        if other:
            latest -= cycles
        else:
            latest = min(latest, begins[step]) - (buffers[i].load or 0.0)
            starts[i] = latest
    for step, other, i, _ in queue:
        if other:
            continue
        b = buffers[i]
        wanted = min(bisect.bisect_right(begins, starts[i]) - 1, step - 1)
        s = step - 1
        while s >= max(wanted, 0) and taken[s] + b.size <= prefetch:
            taken[s] += b.size
            s -= 1
        b.first = s + 1
    return True


def transfers_in_order(buffers: Sequence[Buffer], copies: Sequence[Copy]) -> list[Transfer]:
    """All work of the DMA in its order: in each step loads for it, copies, loads for later steps as they are
    needed, stores."""
    found = [((c.step, 1, i), Transfer(c.step, copy=c)) for i, c in enumerate(copies)]
    for i, b in enumerate(buffers):
        if b.load is not None:
            found.append(((b.first, 0 if b.need == b.first else 2, b.need), Transfer(b.first, i)))
        if b.store is not None:
            found.append(((b.made + 1, 3, i), Transfer(b.made + 1, i, store=True)))
    return [transfer for _, transfer in sorted(found, key=lambda entry: entry[0])]


class Order:
    """Ops as they are appended, with what they wait for."""

    def __init__(self, serial: bool) -> None:
        self.ops: list[Op] = []
        self._serial = serial
        self._touched: dict[Engine, list[tuple[int, list[Range], list[Range]]]] = {e: [] for e in Engine}
        self._waits = dict.fromkeys(Engine, -1)

    def append(
        self,
        kind: OpKind,
        which: int,
        tile: int,
        cycles: float,
        reads: list[Range],
        writes: list[Range],
        index: int = 0,
    ) -> None:
        """The next op. reads, writes: what it touches in local memory."""
        engine = kind.engine
        level = self._waits[engine]
        after = -1
        for earlier, other_reads, other_writes in reversed(self._touched[_OTHER[engine]]):
            if earlier <= level:
                break
            if (
                self._serial
                or _overlap(writes, other_reads)
                or _overlap(writes, other_writes)
                or _overlap(reads, other_writes)
            ):
                after = self._waits[engine] = earlier
                break
        self._touched[engine].append((len(self.ops), reads, writes))
        self.ops.append(Op(kind, which, tile, after, cycles, index))

    def cycles(self) -> float:
        """Modelled time until both engines are done."""
        ends: list[float] = []
        free, waited = dict.fromkeys(Engine, 0.0), dict.fromkeys(Engine, 0.0)
        issued = 0.0
        for op in self.ops:
            engine = op.kind.engine
            if op.after >= 0:
                waited[engine] = max(waited[engine], ends[op.after])
            own = op.cycles.issue if isinstance(op.cycles, Issued) else 0.0
            begun, issued = issued, issued + own
            free[engine] = max(max(free[engine], waited[engine], begun) + op.cycles, issued)
            ends.append(free[engine])
        return max(free.values())


def _overlap(a: list[Range], b: list[Range]) -> bool:
    for start, end in a:
        for first, last in b:  # not `any`: it is asked for each pair of ops
            if start < last and first < end:
                return True
    return False
