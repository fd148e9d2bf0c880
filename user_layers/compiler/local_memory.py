"""Where the tensors of a group lie in local memory, and when they are loaded and stored.

A value is a tensor as it lies in local memory for one tile after the other. While a tile is computed, what
later layers and tiles need is loaded and what earlier ones made is stored, so a value has a place for each
tile; places are used again as soon as nothing needs them. Memory that the tensor unit works on is kept out of
the banks that are loaded or stored at the same time, when there is room.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Protocol

from firmware_sim.chip import ALIGN_BYTES, BANK_BYTES, LOCAL_BYTES, NPU_NUM
from firmware_sim.wire import TensorRecord
from user_layers.compiler.allocate import Request, place
from user_layers.compiler.attributes import DescribedNet
from user_layers.compiler.concat import concat_channels
from user_layers.compiler.flow import Buffer, Copy, Op, OpKind, Order, Range, choose_loads, transfers_in_order
from user_layers.compiler.storage import Move, Storage, share_memory
from user_layers.compiler.tiles import CutGroup, GroupTiles, Value, cut_group, slot_bytes, work_bytes
from user_layers.compiler.tiling import Infeasible, Tiling

# What prefetching may fill of the local memory: less where the buffers do not fit together.
_PREFETCH = (1.0, 0.9, 0.75, 0.6, 0.4, 0.0)

Where = Callable[[], tuple[Sequence[TensorRecord], int]]
"""Tells where tiles lie in local memory: the records with addresses, and the address of the work buffer.
Asked only when a call was not timed before."""


class CostModel(Protocol):
    """Cycles of what a group does. Records have no addresses."""

    def once(self, key: object, ask: Callable[[], float]) -> float:
        """What `ask` says, asked once for each key: cycles of the same call or transfer in other groups."""

    def load(self, tile: TensorRecord) -> float:
        """A tile from DDR into local memory."""

    def store(self, tile: TensorRecord) -> float:
        """A tile from local memory to DDR."""

    def move(self, part: TensorRecord, whole: TensorRecord, channel: int) -> float:
        """A tile into the channels from `channel` on of another one, inside local memory."""

    def copy(self, whole: TensorRecord) -> float:
        """A whole tensor from DDR to L2."""

    def layer(
        self, node: int, tiles: Sequence[TensorRecord], nbytes: int, where: Where, *, scatters: bool = False
    ) -> float:
        """tiles: of inputs and outputs; nbytes: of the work buffer; where: see Where; scatters: the output is
        in DDR."""
        ...


def caller(tiles: GroupTiles, kind: OpKind, which: int) -> int | None:
    """The node whose call does this op of a group (see flow.Op); None where a transfer of the group does."""
    if kind is OpKind.LOAD:
        return tiles.gatherer(which)
    if kind is OpKind.STORE:
        return tiles.scatterer(which)
    if kind is OpKind.MOVE and not tiles.cut.described.attrs[which].turns:
        return None
    return which


def op_cycles(
    cost_model: CostModel,
    tiles: GroupTiles,
    kind: OpKind,
    which: int,
    p: int,
    where: Callable[[int], tuple[Sequence[TensorRecord], int]],
    index: int = 0,
) -> float:
    """Cycles of one op (see flow.Op) for tile p. where: see Where, of a node; index: of the input that a
    concatenation copies."""
    k = caller(tiles, kind, which)
    if k is not None:
        scatters = kind is OpKind.STORE
        place = partial(where, k)
        return cost_model.layer(k, tiles.call(p, k), tiles.work_bytes(p, k), place, scatters=scatters)
    if kind is OpKind.LOAD:
        return cost_model.load(tiles.moved(which, p))
    if kind is OpKind.STORE:
        return cost_model.store(tiles.moved(which, p))
    channels = concat_channels(tiles.cut.described, which)
    assert channels is not None
    return cost_model.move(*tiles.concat(p, which, index), channels[index])


@dataclass(frozen=True)
class LocalPlan:
    """made: value of each tensor the group computes; read: value that input i of node k reads, under
    (k, i); work: offsets of the work buffer of a node, for each tile; ops: all that happens, in the order of
    the program; overlapped: transfers run beside layers; used: bytes of local memory per NPU; cycles:
    modelled time."""

    values: tuple[Value, ...]
    made: dict[str, int]
    read: dict[tuple[int, int], int]
    work: dict[int, tuple[int, ...]]
    ops: tuple[Op, ...]
    overlapped: bool
    used: int
    cycles: float


def plan_local(
    described: DescribedNet, nodes: Sequence[int], tiling: Tiling, cost_model: CostModel | None = None
) -> LocalPlan | Infeasible:
    """Place everything, or say that it does not fit. Without a cost model nothing takes any time."""
    overlapped = not any(described.attrs[k].alone for k in nodes)
    cut = cut_group(described, nodes, tiling)
    plan = _Planner(cut)
    if not plan.fits():
        return Infeasible("it does not fit into local memory", lacks_room=True)
    if cost_model is not None and not plan.measure(cost_model):
        return Infeasible("it does not fit into local memory", lacks_room=True)
    for slack, prefetch in itertools.product((1, 0), _PREFETCH) if overlapped else ((0, 0.0),):
        places = plan.attempt(prefetch, slack)
        if places is not None:
            break
    else:
        return Infeasible("it does not fit into local memory", lacks_room=True)
    order = plan.order(places, serial=not overlapped)
    cycles = order.cycles() if cost_model is not None else 0.0
    return LocalPlan(
        places.values, cut.made, cut.read, places.work, tuple(order.ops), overlapped, places.used, cycles
    )


@dataclass(frozen=True)
class _Places:
    """values with their offsets; work: offsets of work buffers, by node and tile; used: bytes per NPU."""

    values: tuple[Value, ...]
    work: dict[int, tuple[int, ...]]
    used: int


class _Planner:
    """One group in given tiles. Steps count the layers of all tiles, one tile after the other."""

    def __init__(self, cut: CutGroup) -> None:
        self.cut = cut
        self.tiles = GroupTiles(cut)
        self.count = cut.tiling.count
        self.storages, self.moves = share_memory(cut)
        # Nodes for which the tensor unit does nothing.
        self.silent = {
            k
            for k in cut.nodes
            if concat_channels(cut.described, k) is not None
            or cut.described.attrs[k].gathers
            or cut.described.attrs[k].turns
        }
        self.shrinks = any(cut.described.attrs[k].any_batch for k in cut.nodes)
        self.compute = [0.0] * (len(cut.nodes) * self.count)
        self._simplest: _Places | None = None

    @cached_property
    def sizes(self) -> dict[int, int]:
        """Bytes of the work buffer of each node that has one; asked of the descriptors where all has room."""
        return {k: size for k in self.cut.nodes if (size := work_bytes(self.cut, k))}

    @cached_property
    def buffers(self) -> list[Buffer]:
        """The memory of each storage for each tile."""
        return self._buffers(self.count)

    @cached_property
    def owners(self) -> list[Storage]:
        """The storage of each of these."""
        return [s for s in self.storages for _ in range(1 if s.once else self.count)]

    @cached_property
    def copies(self) -> list[Copy]:
        """The copies within local memory, of all tiles."""
        steps = len(self.cut.nodes)
        return [Copy(p * steps + move.step, p, move) for p in range(self.count) for move in self.moves]

    def _buffers(self, count: int) -> list[Buffer]:
        """The memory of each storage for each of so many tiles."""
        steps = len(self.cut.nodes)
        buffers: list[Buffer] = []
        for s in self.storages:
            for p in range(1 if s.once else count):
                last = (count - 1 if s.once else p) * steps + s.last
                b = Buffer(s.size, p * steps + s.first, last, tile=p)
                if s.load is not None:
                    b.load = 0.0
                if s.store is not None:
                    b.store = 0.0
                    b.made = p * steps + s.made
                if s.moved >= 0:
                    b.moved = (count - 1 if s.once else p) * steps + s.moved
                buffers.append(b)
        return buffers

    def fits(self) -> bool:
        """Whether there is room without prefetching anything; buffers may still not go together. All tiles
        but the first and the last take the same room, so three tell."""
        count = min(self.count, 3)
        compute = [0.0] * (len(self.cut.nodes) * count)
        return choose_loads(self._buffers(count), (), compute, LOCAL_BYTES, 0, 0)

    def attempt(self, prefetch: float, slack: int, *, banks: bool = True) -> _Places | None:
        """Places for everything when prefetching may fill this part of the local memory.

        slack: see choose_loads.
        """
        limit = int(LOCAL_BYTES * prefetch)
        if not choose_loads(self.buffers, self.copies, self.compute, LOCAL_BYTES, limit, slack):
            return None
        requests = [_request(b) for b in self.buffers]
        for p in range(self.count):
            for k, size in self.sizes.items():
                step = p * len(self.cut.nodes) + self.cut.steps[k]
                requests.append(Request(size, step, step, (step, step)))
        placement = None
        if banks:
            placement = place(requests, align=ALIGN_BYTES, limit=LOCAL_BYTES, bank=BANK_BYTES)
        placement = placement or place(requests, align=ALIGN_BYTES, limit=LOCAL_BYTES)
        if placement is None:
            return None
        offsets: dict[int, list[int]] = {}
        slots: dict[int, int] = {}
        for s, b, offset in zip(self.owners, self.buffers, placement.offsets, strict=False):
            for v, slot in s.values:
                slots[v] = slot
                inside = slot and slot * slot_bytes(self.tiles, self.cut.values[v].tensor, b.tile)
                offsets.setdefault(v, []).append(offset + inside)
        rest = placement.offsets[len(self.buffers) :]
        return _Places(
            tuple(
                replace(v, offsets=tuple(offsets[i]), slot=slots[i]) for i, v in enumerate(self.cut.values)
            ),
            {k: tuple(rest[n :: len(self.sizes)]) for n, k in enumerate(self.sizes)},
            placement.used,
        )

    def measure(self, cost_model: CostModel) -> bool:
        """Set the cycles of everything; False if there are no places to record with."""
        tiles = self.tiles
        known: dict[object, float] = {}

        def once(p: int, what: object, ask: Callable[[], float]) -> float:
            key = (what, tiles.kinds[p])
            if key not in known:
                known[key] = ask()
            return known[key]

        def move(c: Copy) -> float:
            where = partial(self._where, c.tile)
            return op_cycles(cost_model, tiles, OpKind.MOVE, c.move.node, c.tile, where, c.move.index)

        def cycles(kind: OpKind, which: int, p: int) -> float:
            k = caller(tiles, kind, which)
            like = tiles.kind_of_move(which, p) if k is None else (k, tiles.kind_of_call(p, k))
            ask = partial(op_cycles, cost_model, tiles, kind, which, p, partial(self._where, p))
            return cost_model.once((kind, like), ask)

        compute = [0.0] * len(self.compute)
        try:
            for c in self.copies:
                c.cycles = once(c.tile, c.move, partial(move, c))
            for b, s in zip(self.buffers, self.owners, strict=True):
                if s.load is not None:
                    b.load = once(b.tile, ("load", s.load), partial(cycles, OpKind.LOAD, s.load, b.tile))
                if s.store is not None:
                    b.store = once(b.tile, ("store", s.store), partial(cycles, OpKind.STORE, s.store, b.tile))
            for step in range(len(compute)):
                p, i = divmod(step, len(self.cut.nodes))
                k = self.cut.nodes[i]
                if k not in self.silent:
                    compute[step] = once(p, k, partial(cycles, OpKind.LAYER, k, p))
        except _NoPlaceError:
            return False
        self.compute = compute
        return True

    def _where(self, p: int, k: int) -> tuple[Sequence[TensorRecord], int]:
        """A call with any addresses, to record it with."""
        if self._simplest is None:
            self._simplest = self.attempt(0.0, 0, banks=False)
            if self._simplest is None:
                raise _NoPlaceError
        work = self._simplest.work
        return self.tiles.placed(self._simplest.values).call(p, k), work[k][p] if k in work else 0

    def order(self, places: _Places, *, serial: bool) -> Order:
        """All ops of the group with what they wait for."""
        values, net = places.values, self.cut.described.net

        def where(v: int, p: int) -> Range:
            start = values[v].offset(p)
            return self._from(start, values[v], p), start + values[v].nbytes

        reads: dict[int, list[int]] = {k: [] for k in self.cut.nodes}
        for (k, _), v in self.cut.read.items():
            reads[k].append(v)
        order = Order(serial)
        transfers = transfers_in_order(self.buffers, self.copies)
        at = 0
        for step in range(len(self.compute) + 1):
            while at < len(transfers) and transfers[at].step == step:
                t = transfers[at]
                at += 1
                if t.copy is not None:
                    move, p = t.copy.move, t.copy.tile
                    source = [where(self.cut.read[move.node, move.index], p)]
                    if self.cut.described.attrs[move.node].turns:
                        (output,) = net.nodes[move.node].outputs
                        target = [where(self.cut.made[output], p)]
                    else:
                        target = self._channels(move, p, values)
                    order.append(OpKind.MOVE, move.node, p, t.copy.cycles, source, target, move.index)
                    continue
                owner, b = self.owners[t.buffer], self.buffers[t.buffer]
                if t.store and owner.store is not None:
                    order.append(
                        OpKind.STORE, owner.store, b.tile, b.store or 0.0, [where(owner.store, b.tile)], []
                    )
                elif owner.load is not None:
                    order.append(
                        OpKind.LOAD, owner.load, b.tile, b.load or 0.0, [], [where(owner.load, b.tile)]
                    )
            if step < len(self.compute):
                p, i = divmod(step, len(self.cut.nodes))
                k = self.cut.nodes[i]
                if k in self.silent:
                    continue
                written = [where(self.cut.made[name], p) for name in net.nodes[k].outputs]
                if k in places.work:
                    written.append((places.work[k][p], places.work[k][p] + self.sizes[k]))
                order.append(OpKind.LAYER, k, p, self.compute[step], [where(v, p) for v in reads[k]], written)
        return order

    def _channels(self, move: Move, p: int, values: Sequence[Value]) -> list[Range]:
        """The bytes that a copy into a concatenated value writes, on any NPU."""
        part, whole = self.tiles.concat(p, move.node, move.index)
        target = values[self.cut.made[self.cut.described.net.nodes[move.node].outputs[0]]]
        start = target.offset(p)
        if whole.slice_shape[0] > 1:
            return [(start, start + target.nbytes)]
        slot = slot_bytes(self.tiles, target.tensor, p)
        first, end = move.channel // NPU_NUM, -(-(move.channel + part.shape[1]) // NPU_NUM)
        return [(start if self.shrinks else start + first * slot, start + end * slot)]

    def _from(self, start: int, value: Value, p: int) -> int:
        """Where the memory begins in which a value at `start` may lie: a part of a concatenation moves
        towards its beginning where tiles have fewer rows or columns."""
        if not (self.shrinks and value.slot):
            return start
        return start - value.slot * slot_bytes(self.tiles, value.tensor, p)


class _NoPlaceError(Exception):
    """The buffers do not go together even without prefetching."""


def _request(b: Buffer) -> Request:
    """When which engine works on a buffer."""
    last = max(b.made, b.last) if b.store is not None else b.last
    moved = []
    if b.first < b.need:
        moved.append((b.first, b.need - 1))
    if b.store is not None:
        moved.append((b.made + 1, b.until))
    return Request(b.size, b.first, b.until, (b.need, last), tuple(moved))
