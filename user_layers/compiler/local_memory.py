"""Pass 6: where the tensors of a group lie in local memory.

A value is a tensor as it lies in local memory for one piece after the other. In a pipelined group (more
than one piece) the next piece is loaded and the last one stored while one is computed, so what is loaded or
stored has several copies that take turns: loaded 2, stored 2, both (the output overwrites the input) 3.
Copies that are used at the same time by different engines get different banks when there is room.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

from firmware_sim.chip import ALIGN_BYTES, BANK_BYTES, LOCAL_BYTES, NPU_NUM
from firmware_sim.wire import TType
from user_layers.compiler.allocate import Request, place
from user_layers.compiler.facts import DescribedNet
from user_layers.compiler.slicing import Misfit, Slices, stored, taken_whole

_BD_ONLY = -1  # color of what only the tensor unit touches while a section runs


@dataclass(frozen=True)
class Value:
    """A tensor in local memory: ttype is its layout.

    offsets: of its copies (piece p uses copy p modulo their number). loaded: from DDR, once per piece, or
    once for the whole group. stored: to DDR after each piece.
    """

    tensor: str
    ttype: TType
    loaded: bool
    once: bool
    stored: bool
    nbytes: int
    offsets: tuple[int, ...] = ()


@dataclass(frozen=True)
class LocalPlan:
    """made: value of each tensor the group computes; read: value that input i of node k reads, under
    (k, i); work: offset of the work buffer of a node; used: bytes of local memory per NPU."""

    values: tuple[Value, ...]
    made: dict[str, int]
    read: dict[tuple[int, int], int]
    work: dict[int, int]
    overlapped: bool
    used: int


@dataclass
class _Storage:
    """Memory of one value, or of several that overwrite one another."""

    size: int
    first: int
    last: int
    values: list[int] = field(default_factory=list)
    loaded: bool = False
    once: bool = False
    stored: bool = False


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


def plan_local(described: DescribedNet, nodes: Sequence[int], slices: Slices) -> LocalPlan | Misfit:
    """Place everything, or say that it does not fit."""
    overlapped = slices.count > 1 and not any(on for k in nodes for on in described.facts[k].on_l2)
    values, made, read = _values(described, nodes, slices)
    storages = _storages(described, nodes, slices, values, made, read)
    requests: list[Request] = []
    owners: list[tuple[_Storage, int]] = []
    for s in storages:
        whole_time = s.once or (overlapped and (s.loaded or s.stored))
        first, last = (-1, len(nodes)) if whole_time else (s.first, s.last)
        copies = 1 if s.once or not overlapped else 1 + s.loaded + s.stored
        for copy in range(copies):
            color = copy if copies > 1 else _BD_ONLY
            requests.append(Request(s.size, first, last, color))
            owners.append((s, copy))
    buffers = {k: _work_bytes(described, k, slices) for k in nodes}
    with_buffer = [k for k in nodes if buffers[k]]
    requests += [Request(buffers[k], nodes.index(k), nodes.index(k), _BD_ONLY) for k in with_buffer]
    placement = place(requests, align=ALIGN_BYTES, limit=LOCAL_BYTES, bank=BANK_BYTES) or place(
        requests, align=ALIGN_BYTES, limit=LOCAL_BYTES
    )
    if placement is None:
        return Misfit("it does not fit into local memory", lacks_room=True)
    offsets: dict[int, list[int]] = {}
    for (s, _), offset in zip(owners, placement.offsets, strict=False):
        for v in s.values:
            offsets.setdefault(v, []).append(offset)
    placed = tuple(
        Value(v.tensor, v.ttype, v.loaded, v.once, v.stored, v.nbytes, tuple(offsets[i]))
        for i, v in enumerate(values)
    )
    work = dict(zip(with_buffer, placement.offsets[len(owners) :], strict=True))
    return LocalPlan(placed, made, read, work, overlapped, placement.used)


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
    """Lifetimes in steps of the group (-1: the load before, len(nodes): the store after), with values that
    are computed in place put into their input's storage."""
    end = len(nodes)
    last_read = {v: max(nodes.index(k) for (k, _), u in read.items() if u == v) for v in set(read.values())}
    storages: list[_Storage] = []
    where: dict[int, _Storage] = {}

    def new(v: int, first: int, last: int) -> None:
        value = values[v]
        s = _Storage(value.nbytes, first, last, [v], value.loaded, value.once, value.stored)
        storages.append(s)
        where[v] = s

    for v, value in enumerate(values):
        if value.loaded:
            new(v, -1, last_read[v])
    for step, k in enumerate(nodes):
        for out in described.net.nodes[k].outputs:
            v = made[out]
            last = end if values[v].stored else last_read.get(v, step)
            source = _inplace_source(described, k, slices, values, read, last_read, step, where, v)
            if source is None:
                new(v, step, last)
            else:
                source.values.append(v)
                source.last = max(source.last, last)
                source.stored |= values[v].stored
                where[v] = source
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
    out: int,
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
