"""Pass 6: where the tensors of a group lie in local memory, and when they are loaded and stored.

A value is a tensor as it lies in local memory for one piece after the other. While a piece is computed, what
later layers and pieces need is loaded and what earlier ones made is stored, so a value has a place for each
piece; places are used anew as soon as nothing needs them. Memory that the tensor unit works on is kept out of
the banks that are loaded or stored at the same time, when there is room.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from firmware_sim.chip import ALIGN_BYTES, BANK_BYTES, LOCAL_BYTES, NPU_NUM
from firmware_sim.wire import TensorRecord, TType
from user_layers.compiler.allocate import Request, place
from user_layers.compiler.facts import DescribedNet
from user_layers.compiler.flow import Buffer, Op, OpKind, Order, Range, choose_loads, transfers_in_order
from user_layers.compiler.net import NetTensorInfo
from user_layers.compiler.shapes import input_record
from user_layers.compiler.slicing import AxisPiece, Misfit, Slices, Window, stored, taken_whole

Piece = tuple[AxisPiece, AxisPiece, AxisPiece]

# What loading ahead may fill of the local memory: less where the buffers do not fit together.
_AHEAD = (1.0, 0.9, 0.75, 0.6, 0.4, 0.0)


Where = Callable[[], tuple[Sequence[TensorRecord], int]]
"""Tells where pieces lie in local memory: the records with addresses, and the address of the work buffer.
Asked only when a call was not timed before."""


class Clock(Protocol):
    """Cycles of what a group does. Records have no addresses."""

    def load(self, piece: TensorRecord) -> float: ...
    def store(self, piece: TensorRecord) -> float: ...
    def copy(self, whole: TensorRecord) -> float: ...
    def layer(self, node: int, pieces: Sequence[TensorRecord], nbytes: int, where: Where) -> float:
        """pieces: of inputs and outputs; nbytes: of the work buffer; where: see Where."""
        ...


@dataclass(frozen=True)
class Value:
    """A tensor in local memory: ttype is its layout.

    offsets: for each piece, or one if it is loaded once for the whole group. loaded: from DDR; stored: to DDR
    after each piece.
    """

    tensor: str
    ttype: TType
    loaded: bool
    once: bool
    stored: bool
    nbytes: int
    offsets: tuple[int, ...] = ()

    def offset(self, piece: int) -> int:
        return self.offsets[piece % len(self.offsets)]


@dataclass(frozen=True)
class LocalPlan:
    """made: value of each tensor the group computes; read: value that input i of node k reads, under
    (k, i); work: offsets of the work buffer of a node, for each piece; ops: all that happens, in the order of
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


@dataclass
class _Storage:
    """Memory of one value, or of several that overwrite one another. first, last: steps of one piece in
    which it is in use; load: the value that is loaded; store: the one that is stored, made in step `made`."""

    size: int
    first: int
    last: int
    values: list[int]
    once: bool = False
    load: int | None = None
    store: int | None = None
    made: int = -1


def piece_bytes(ttype: TType, shape: tuple[int, int, int, int], itemsize: int) -> int:
    """Bytes per NPU of a piece [n, c, h, w] that starts on NPU 0.

    Aligned (NEURON): each channel's h*w is rounded up to 128 bytes; compact (COEFF, COEFF_NEURON): not.
    """
    n, c, h, w = shape
    slots = -(-c // NPU_NUM)
    plane = h * w * itemsize
    if ttype == TType.NEURON:
        plane = -(-plane // ALIGN_BYTES) * ALIGN_BYTES
    return n * slots * plane


def piece_shape(channels: int, axes: Sequence[tuple[int, int]]) -> tuple[int, int, int, int]:
    """[n, c, h, w] of a piece whose windows along n, h, w are these (first, extent)."""
    return axes[0][1], channels, axes[1][1], axes[2][1]


def piece_record(info: NetTensorInfo, ttype: TType, windows: Sequence[Window], addr: int = 0) -> TensorRecord:
    """A tensor's piece in local memory; windows: along n, h, w."""
    n, h, w = windows
    dims = len(info.shape)
    return replace(
        info.record(),
        ttype=ttype,
        addr=addr,
        slice_pad=(n.pad, 0, h.pad, w.pad)[:dims],
        slice_shape=(n.extent, info.nchw[1], h.extent, w.extent)[:dims],
        processed=(n.first, 0, h.first, w.first)[:dims],
    )


class GroupPieces:
    """The records of a group's tensors, piece by piece, wherever they lie."""

    def __init__(
        self,
        described: DescribedNet,
        slices: Slices,
        values: Sequence[Value],
        made: dict[str, int],
        read: dict[tuple[int, int], int],
    ) -> None:
        self.described = described
        self.pieces: list[Piece] = list(slices.pieces())
        self._slices, self._values, self._made, self._read = slices, values, made, read
        # Where the window of a value that is read comes from: any of its readers, which all agree.
        self._reader = {v: key for key, v in reversed(list(read.items()))}

    def placed(self, values: Sequence[Value]) -> GroupPieces:
        """The same with addresses."""
        return GroupPieces(self.described, self._slices, values, self._made, self._read)

    def call(self, p: int, k: int) -> list[TensorRecord]:
        """Inputs and outputs of node k."""
        return [*self.inputs(p, k), *self.outputs(p, k)]

    def moved(self, v: int, p: int) -> TensorRecord:
        """What is loaded or stored of a value."""
        value = self._values[v]
        if value.loaded:
            windows = [Window(*axis.read[self._reader[v]].region) for axis in self.pieces[p]]
        else:
            windows = [axis.made[value.tensor] for axis in self.pieces[p]]
        return self._record(value, p, windows)

    def inputs(self, p: int, k: int) -> list[TensorRecord]:
        """The inputs of node k; those in L2 without an address."""
        node, facts = self.described.net.nodes[k], self.described.facts[k]
        found = []
        for i, name in enumerate(node.inputs):
            if (k, i) in self._read:
                windows = [axis.read[k, i] for axis in self.pieces[p]]
                found.append(self._record(self._values[self._read[k, i]], p, windows))
            elif facts.on_l2[i]:
                found.append(self.described.net.tensors[name].record())
            else:
                found.append(input_record(node, self.described.net.tensors[name], facts.input_types[i]))
        return found

    def outputs(self, p: int, k: int) -> list[TensorRecord]:
        return [
            self._record(self._values[self._made[name]], p, [axis.made[name] for axis in self.pieces[p]])
            for name in self.described.net.nodes[k].outputs
        ]

    def work_bytes(self, p: int, k: int) -> int:
        """The work buffer that node k's local function gets."""
        node, facts = self.described.net.nodes[k], self.described.facts[k]
        n, h, w = (axis.made[node.outputs[0]].extent for axis in self.pieces[p])
        return facts.local_buffer(split_shape(self.described, k, (n, h, w)))

    def _record(self, value: Value, p: int, windows: Sequence[Window]) -> TensorRecord:
        addr = value.offset(p) if value.offsets else 0
        return piece_record(self.described.net.tensors[value.tensor], value.ttype, windows, addr)


def plan_local(
    described: DescribedNet, nodes: Sequence[int], slices: Slices, clock: Clock | None = None
) -> LocalPlan | Misfit:
    """Place everything, or say that it does not fit. Without a clock nothing takes any time."""
    overlapped = not any(on for k in nodes for on in described.facts[k].on_l2)
    values, made, read = _values(described, nodes, slices)
    pieces = GroupPieces(described, slices, values, made, read)
    storages = _storages(described, nodes, slices, values, made, read)
    buffers, owners = _buffers(storages, len(nodes), slices.count)
    sizes = {k: size for k in nodes if (size := _work_bytes(described, k, slices))}
    compute = [0.0] * (len(nodes) * slices.count)

    def attempt(ahead: float, hold: int, *, banks: bool = True) -> _Places | None:
        if not choose_loads(buffers, compute, LOCAL_BYTES, int(LOCAL_BYTES * ahead), hold):
            return None
        requests = [_request(b) for b in buffers]
        for p in range(slices.count):
            for k, size in sizes.items():
                step = p * len(nodes) + nodes.index(k)
                requests.append(Request(size, step, step, (step, step)))
        placement = None
        if banks:
            placement = place(requests, align=ALIGN_BYTES, limit=LOCAL_BYTES, bank=BANK_BYTES)
        placement = placement or place(requests, align=ALIGN_BYTES, limit=LOCAL_BYTES)
        if placement is None:
            return None
        offsets: dict[int, list[int]] = {}
        for s, offset in zip(owners, placement.offsets, strict=False):
            for v in s.values:
                offsets.setdefault(v, []).append(offset)
        rest = placement.offsets[len(buffers) :]
        return _Places(
            tuple(replace(v, offsets=tuple(offsets[i])) for i, v in enumerate(values)),
            {k: tuple(rest[n :: len(sizes)]) for n, k in enumerate(sizes)},
            placement.used,
        )

    if not choose_loads(buffers, compute, LOCAL_BYTES, 0, 0):
        return Misfit("it does not fit into local memory", lacks_room=True)
    if clock is not None:
        try:
            compute = _measure(nodes, pieces, buffers, owners, clock, lambda: attempt(0.0, 0, banks=False))
        except _NoPlaceError:
            return Misfit("it does not fit into local memory", lacks_room=True)
    for hold, ahead in itertools.product((1, 0), _AHEAD) if overlapped else ((0, 0.0),):
        places = attempt(ahead, hold)
        if places is not None:
            break
    else:
        return Misfit("it does not fit into local memory", lacks_room=True)
    order = _order(
        described, nodes, places, made, read, buffers, owners, sizes, compute, serial=not overlapped
    )
    cycles = order.cycles() if clock is not None else 0.0
    return LocalPlan(
        places.values, made, read, places.work, tuple(order.ops), overlapped, places.used, cycles
    )


@dataclass(frozen=True)
class _Places:
    """values with their offsets; work: offsets of work buffers, by node and piece; used: bytes per NPU."""

    values: tuple[Value, ...]
    work: dict[int, tuple[int, ...]]
    used: int


class _NoPlaceError(Exception):
    """The buffers do not go together even without loading ahead."""


def _buffers(storages: Sequence[_Storage], steps: int, count: int) -> tuple[list[Buffer], list[_Storage]]:
    """The memory of each storage for each of `count` pieces, and whose it is; steps: layers of the group."""
    buffers: list[Buffer] = []
    owners: list[_Storage] = []
    for s in storages:
        for p in range(1 if s.once else count):
            last = (count - 1 if s.once else p) * steps + s.last
            b = Buffer(s.size, p * steps + s.first, last, piece=p)
            if s.load is not None:
                b.load = 0.0
            if s.store is not None:
                b.store = 0.0
                b.made = p * steps + s.made
            buffers.append(b)
            owners.append(s)
    return buffers, owners


def _measure(
    nodes: Sequence[int],
    pieces: GroupPieces,
    buffers: Sequence[Buffer],
    owners: Sequence[_Storage],
    clock: Clock,
    simplest: Callable[[], _Places | None],
) -> list[float]:
    """Set the cycles of all transfers; return those of each step. simplest: any places, to record with."""
    for b, s in zip(buffers, owners, strict=True):
        if s.load is not None:
            b.load = clock.load(pieces.moved(s.load, b.piece))
        if s.store is not None:
            b.store = clock.store(pieces.moved(s.store, b.piece))
    placed: GroupPieces | None = None
    places: _Places | None = None
    found = []
    for p in range(len(pieces.pieces)):
        for k in nodes:

            def where(p: int = p, k: int = k) -> tuple[Sequence[TensorRecord], int]:
                nonlocal placed, places
                if placed is None or places is None:
                    places = simplest()
                    if places is None:
                        raise _NoPlaceError
                    placed = pieces.placed(places.values)
                return placed.call(p, k), places.work[k][p] if k in places.work else 0

            found.append(clock.layer(k, pieces.call(p, k), pieces.work_bytes(p, k), where))
    return found


def _request(b: Buffer) -> Request:
    """When which engine works on a buffer."""
    last = max(b.made, b.last) if b.store is not None else b.last
    moved = []
    if b.first < b.need:
        moved.append((b.first, b.need - 1))
    if b.store is not None:
        moved.append((b.made + 1, b.until))
    return Request(b.size, b.first, b.until, (b.need, last), tuple(moved))


def _order(
    described: DescribedNet,
    nodes: Sequence[int],
    places: _Places,
    made: dict[str, int],
    read: dict[tuple[int, int], int],
    buffers: Sequence[Buffer],
    owners: Sequence[_Storage],
    sizes: dict[int, int],
    compute: Sequence[float],
    *,
    serial: bool,
) -> Order:
    """All ops of the group with what they wait for."""
    values, work = places.values, places.work

    def where(v: int, p: int) -> Range:
        start = values[v].offset(p)
        return start, start + values[v].nbytes

    reads: dict[int, list[int]] = {k: [] for k in nodes}
    for (k, _), v in read.items():
        reads[k].append(v)
    writes = {k: [made[name] for name in described.net.nodes[k].outputs] for k in nodes}
    order = Order(serial)
    transfers = iter([*transfers_in_order(buffers), (len(compute) + 1, 0, 0, -1)])
    step, store, _, b = next(transfers)
    for s in range(len(compute) + 1):
        while step == s:
            owner, buffer = owners[b], buffers[b]
            if store and owner.store is not None:
                source = [where(owner.store, buffer.piece)]
                order.append(OpKind.STORE, owner.store, buffer.piece, buffer.store or 0.0, source, [])
            elif owner.load is not None:
                target = [where(owner.load, buffer.piece)]
                order.append(OpKind.LOAD, owner.load, buffer.piece, buffer.load or 0.0, [], target)
            step, store, _, b = next(transfers)
        if s < len(compute):
            p, i = divmod(s, len(nodes))
            k = nodes[i]
            written = [where(v, p) for v in writes[k]]
            if k in work:
                written.append((work[k][p], work[k][p] + sizes[k]))
            order.append(OpKind.LAYER, k, p, compute[s], [where(v, p) for v in reads[k]], written)
    return order


def split_shape(described: DescribedNet, node: int, extents: tuple[int, int, int]) -> tuple[int, ...]:
    """What get_local_buffer_size is asked with: the extents of the first output's piece (extents: along n, h,
    w), as many as it has dimensions."""
    info = described.net.tensors[described.net.nodes[node].outputs[0]]
    n, h, w = extents
    return (n, info.nchw[1], h, w)[: len(info.shape)]


def _work_bytes(described: DescribedNet, node: int, slices: Slices) -> int:
    facts = described.facts[node]
    out = facts.node.outputs[0]
    n, h, w = (sorted({p.made[out].extent for p in axis}) for axis in (slices.n, slices.h, slices.w))
    return max(
        facts.local_buffer(split_shape(described, node, extents)) for extents in itertools.product(n, h, w)
    )


def _values(
    described: DescribedNet, nodes: Sequence[int], slices: Slices
) -> tuple[list[Value], dict[str, int], dict[tuple[int, int], int]]:
    net = described.net
    axes = (slices.n, slices.h, slices.w)
    keep = set(stored(described, nodes))
    values: list[Value] = []
    made: dict[str, int] = {}
    read: dict[tuple[int, int], int] = {}
    external: dict[object, int] = {}

    def add(name: str, ttype: TType, regions: list[list[tuple[int, int]]], loaded: bool, once: bool) -> int:
        info = net.tensors[name]
        largest = piece_shape(info.nchw[1], [max(axis, key=lambda r: r[1]) for axis in regions])
        nbytes = piece_bytes(ttype, largest, info.dtype.itemsize)
        values.append(Value(name, ttype, loaded, once, not loaded and name in keep, nbytes))
        return len(values) - 1

    for k in nodes:
        facts = described.facts[k]
        for i, name in enumerate(net.nodes[k].inputs):
            if facts.on_l2[i] or facts.input_types[i] == TType.NEURON_SHAPE:
                continue
            if name in made:
                read[k, i] = made[name]
                continue
            regions = [[piece.read[k, i].region for piece in axis] for axis in axes]
            key = (name, facts.input_types[i], tuple(map(tuple, regions)))
            if key not in external:
                same = taken_whole(facts, i) or all(len(set(axis)) == 1 for axis in regions)
                once = slices.count > 1 and same
                external[key] = add(name, facts.input_types[i], regions, True, once)
            read[k, i] = external[key]
        for out in net.nodes[k].outputs:
            made[out] = add(
                out, TType.NEURON, [[p.made[out].region for p in axis] for axis in axes], False, False
            )
    return values, made, read


def _storages(
    described: DescribedNet,
    nodes: Sequence[int],
    slices: Slices,
    values: list[Value],
    made: dict[str, int],
    read: dict[tuple[int, int], int],
) -> list[_Storage]:
    """Lifetimes in steps of one piece; values that are computed in place are put into their input's
    storage."""
    steps: dict[int, list[int]] = {}
    for (k, _), v in read.items():
        steps.setdefault(v, []).append(nodes.index(k))
    last_read = {v: max(found) for v, found in steps.items()}
    storages: list[_Storage] = []
    where: dict[int, _Storage] = {}

    def new(v: int, first: int, last: int) -> _Storage:
        where[v] = _Storage(values[v].nbytes, first, last, [v], values[v].once)
        storages.append(where[v])
        return where[v]

    for v, value in enumerate(values):
        if value.loaded:
            new(v, min(steps[v]), last_read[v]).load = v
    for step, k in enumerate(nodes):
        for out in described.net.nodes[k].outputs:
            v = made[out]
            last = last_read.get(v, step)
            s = _inplace_source(described, k, slices, values, read, last_read, step, where)
            if s is None:
                s = new(v, step, last)
            else:
                s.values.append(v)
                s.last = max(s.last, last)
                where[v] = s
            if values[v].stored:
                s.store, s.made = v, step
    return storages


def _inplace_source(
    described: DescribedNet,
    k: int,
    slices: Slices,
    values: list[Value],
    read: dict[tuple[int, int], int],
    last_read: dict[int, int],
    step: int,
    where: dict[int, _Storage],
) -> _Storage | None:
    """The storage of an input that the layer's only output may overwrite: the descriptor allows it, nothing
    needs the input afterwards, and its pieces have the shape and type of the output's."""
    net, facts = described.net, described.facts[k]
    node = net.nodes[k]
    if len(node.outputs) != 1:
        return None
    target = net.tensors[node.outputs[0]]
    for i, name in enumerate(node.inputs):
        if (k, i) not in read:
            continue
        v = read[k, i]
        source = net.tensors[name]
        if (
            values[v].ttype == TType.NEURON
            and not values[v].once
            and not values[v].stored
            and last_read[v] == step
            and source.dtype == target.dtype
            and source.nchw[1] == target.nchw[1]
            and _same_regions(slices, k, i, node.outputs[0])
            and facts.can_inplace(source.dtype)
        ):
            return where[v]
    return None


def _same_regions(slices: Slices, k: int, i: int, out: str) -> bool:
    return all(
        piece.read[k, i].extent == piece.made[out].extent
        for axis in (slices.n, slices.h, slices.w)
        for piece in axis
    )
