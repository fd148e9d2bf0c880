"""Tensors of a group as they lie in local memory, tile by tile."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from firmware_sim.chip import ALIGN_BYTES, NPU_NUM
from firmware_sim.wire import Format, TensorRecord, TType
from user_layers.compiler.attributes import DescribedNet
from user_layers.compiler.tiling import Slice, Tile, Tiling, stored
from user_layers.compiler.window import Window
from user_layers.graph.shapes import input_record
from user_layers.net.net import NetTensorInfo


@dataclass(frozen=True)
class Value:
    """A tensor in local memory: ttype is its layout.

    offsets: for each tile, or one if it is loaded once for the whole group. loaded: from DDR; stored: to DDR
    after each tile. slot: channels on each NPU that lie before it in the concatenation that it is part of.
    """

    tensor: str
    ttype: TType
    loaded: bool
    once: bool
    stored: bool
    nbytes: int
    offsets: tuple[int, ...] = ()
    slot: int = 0

    def offset(self, tile: int) -> int:
        """Byte offset in each NPU's local memory for a tile; tiles take the places in turn."""
        return self.offsets[tile % len(self.offsets)]


def tile_bytes(ttype: TType, shape: tuple[int, int, int, int], form: Format) -> int:
    """Bytes per NPU of a tile [n, c, h, w] that starts on NPU 0.

    Aligned (NEURON): each channel's h*w is rounded up to 128 bytes; compact (COEFF, COEFF_NEURON): not. In 2N
    and 4N the batches that share a word are one.
    """
    n, c, h, w = shape
    slots = -(-c // NPU_NUM)
    plane = h * w * form.word_bytes
    if ttype == TType.NEURON:
        plane = -(-plane // ALIGN_BYTES) * ALIGN_BYTES
    return -(-n // form.together) * slots * plane


def tile_shape(channels: int, axes: Sequence[tuple[int, int]]) -> tuple[int, int, int, int]:
    """[n, c, h, w] of a tile whose windows along n, h, w are these (first, extent)."""
    return axes[0][1], channels, axes[1][1], axes[2][1]


def tile_record(info: NetTensorInfo, ttype: TType, windows: Sequence[Window], addr: int = 0) -> TensorRecord:
    """A tensor's tile in local memory; windows: along n, h, w."""
    n, h, w = windows
    dims = len(info.shape)
    return TensorRecord(
        info.shape,
        info.dtype,
        ttype,
        info.store_mode,
        addr,
        slice_pad=(n.pad, 0, h.pad, w.pad)[:dims],
        slice_shape=(n.extent, info.nchw[1], h.extent, w.extent)[:dims],
        processed=(n.first, 0, h.first, w.first)[:dims],
        scale=info.scale,
    )


@dataclass(frozen=True)
class CutGroup:
    """A group cut into tiles. values: what has a place in local memory; made: the value of each tensor that
    the group computes; read: the value that input i of node k reads, under (k, i)."""

    described: DescribedNet
    nodes: tuple[int, ...]
    tiling: Tiling
    values: tuple[Value, ...]
    made: dict[str, int]
    read: dict[tuple[int, int], int]

    @cached_property
    def steps(self) -> dict[int, int]:
        """How many nodes of the group run before each, in one tile."""
        return {k: step for step, k in enumerate(self.nodes)}

    @cached_property
    def scatterers(self) -> frozenset[int]:
        """The nodes whose calls are the stores of what they make, which is never in local memory."""
        return frozenset(k for k in self.nodes if _scatters(self.described, self.nodes, k))


_STORED_ROW = 8
"""Elements of rows that are faster stored one by one, each a burst, than put together in local memory."""


def _scatters(described: DescribedNet, nodes: Sequence[int], k: int) -> bool:
    """Whether a layer of a group is the store of what it makes: no other one reads that, and a layer of the
    group makes what it takes for it alone."""
    net, attrs = described.net, described.attrs[k]
    if not attrs.scatters or not attrs.can_split_h_w:  # the latter: it makes columns, element by element
        return False
    (source,), (made,) = attrs.node.inputs, attrs.node.outputs
    if (*net.tensors[made].shape, 1)[3] < _STORED_ROW:
        return False
    maker = net.producer.get(source)
    if maker is None or maker not in nodes or source in net.outputs or len(net.consumers[source]) > 1:
        return False
    other = described.attrs[maker]
    by_dma = other.gathers or other.turns or other.is_concat_layer
    return not by_dma and not set(net.consumers[made]).intersection(nodes)


class GroupTiles:
    """The records of a group's tensors, tile by tile, wherever they lie."""

    def __init__(self, cut: CutGroup) -> None:
        self.cut = cut
        self.tiles: list[Tile] = list(cut.tiling.tiles())
        # Where the window of a value that is read comes from: any of its readers, which all agree.
        self._reader = {v: key for key, v in reversed(list(cut.read.items()))}
        self._scatterers = {cut.made[cut.described.net.nodes[k].outputs[0]]: k for k in cut.scatterers}
        self._gatherers = {
            cut.made[name]: k
            for k in cut.nodes
            if cut.described.attrs[k].gathers
            for name in cut.described.net.nodes[k].outputs
        }

    @cached_property
    def kinds(self) -> list[tuple[int, ...]]:
        """The kind of each tile: those of one kind have windows of the same extents and pads."""
        tiling = self.cut.tiling
        return list(itertools.product(*(_kinds(axis) for axis in (tiling.n, tiling.h, tiling.w))))

    def placed(self, values: Sequence[Value]) -> GroupTiles:
        """The same with addresses."""
        return GroupTiles(replace(self.cut, values=tuple(values)))

    def call(self, p: int, k: int) -> list[TensorRecord]:
        """Inputs, then outputs of node k for tile p, as its local function gets them."""
        return [*self.inputs(p, k), *self.outputs(p, k)]

    def gatherer(self, v: int) -> int | None:
        """The node whose call loads this value (LayerAttributes.gathers); None for all others."""
        return self._gatherers.get(v)

    def kind_of_call(self, p: int, k: int) -> tuple[object, ...]:
        """Of the windows of node k for tile p what its time may depend on: their extents and pads."""
        node = self.cut.described.net.nodes[k]
        read = [(k, i) for i in range(len(node.inputs)) if (k, i) in self.cut.read]
        return tuple(
            (
                *(axis.read[key][1:] for key in read),
                *(axis.made[name][1:] for name in node.outputs),
            )
            for axis in self.tiles[p]
        )

    def kind_of_move(self, v: int, p: int) -> tuple[object, ...]:
        """Of a value what the time of loading or storing it for tile p may depend on."""
        value = self.cut.values[v]
        return (value.tensor, value.ttype, *(window.extent for window in self._moved(value, v, p)))

    def scatterer(self, v: int) -> int | None:
        """The node whose call stores this value (LayerAttributes.scatters); None for all others."""
        return self._scatterers.get(v)

    def moved(self, v: int, p: int) -> TensorRecord:
        """What is loaded or stored of a value."""
        value = self.cut.values[v]
        return self._record(value, p, self._moved(value, v, p))

    def _moved(self, value: Value, v: int, p: int) -> list[Window]:
        if value.loaded:
            return [Window(*axis.read[self._reader[v]].region) for axis in self.tiles[p]]
        return [axis.made[value.tensor] for axis in self.tiles[p]]

    def inputs(self, p: int, k: int) -> list[TensorRecord]:
        """The inputs of node k; those in L2 and DDR without an address."""
        return [self._input(p, k, i) for i in range(len(self.cut.described.net.nodes[k].inputs))]

    def _input(self, p: int, k: int, i: int) -> TensorRecord:
        node, attrs = self.cut.described.net.nodes[k], self.cut.described.attrs[k]
        if (k, i) in self.cut.read:
            windows = [axis.read[k, i] for axis in self.tiles[p]]
            return self._record(self.cut.values[self.cut.read[k, i]], p, windows)
        info = self.cut.described.net.tensors[node.inputs[i]]
        return info.record() if attrs.on_l2[i] else input_record(node, info, attrs.input_types[i])

    def outputs(self, p: int, k: int) -> list[TensorRecord]:
        """The outputs of node k for tile p."""
        return [
            self._record(self.cut.values[self.cut.made[name]], p, [axis.made[name] for axis in self.tiles[p]])
            for name in self.cut.described.net.nodes[k].outputs
        ]

    def concat(self, p: int, k: int, i: int) -> tuple[TensorRecord, TensorRecord]:
        """Input i of a concatenation, and its output."""
        return self._input(p, k, i), self.outputs(p, k)[0]

    def work_bytes(self, p: int, k: int) -> int:
        """The work buffer that node k's local function gets."""
        node, attrs = self.cut.described.net.nodes[k], self.cut.described.attrs[k]
        n, h, w = (axis.made[node.outputs[0]].extent for axis in self.tiles[p])
        return attrs.local_buffer(split_shape(self.cut.described, k, (n, h, w)))

    def _record(self, value: Value, p: int, windows: Sequence[Window]) -> TensorRecord:
        addr = value.offset(p) if value.offsets else 0
        return tile_record(self.cut.described.net.tensors[value.tensor], value.ttype, windows, addr)


def _kinds(axis: Sequence[Slice]) -> list[int]:
    """A number for each slice; those with the same have windows of the same extents and pads."""
    if len(axis) == 1:
        return [0]
    numbers: dict[object, int] = {}
    found = []
    for part in axis:
        windows = itertools.chain(part.made.values(), part.read.values())
        found.append(numbers.setdefault(tuple((w.extent, w.pad) for w in windows), len(numbers)))
    return found


def split_shape(described: DescribedNet, node: int, extents: tuple[int, int, int]) -> tuple[int, ...]:
    """What get_local_buffer_size is asked with: the four extents of the first output's tile. extents: along
    n, h, w."""
    info = described.net.tensors[described.net.nodes[node].outputs[0]]
    n, h, w = extents
    return n, info.nchw[1], h, w


def work_bytes(cut: CutGroup, node: int) -> int:
    """Bytes per NPU of a node's work buffer, the most that any of the tiles needs."""
    attrs, tiling = cut.described.attrs[node], cut.tiling
    out = attrs.node.outputs[0]
    n, h, w = ({p.made[out].extent for p in axis} for axis in (tiling.n, tiling.h, tiling.w))
    shapes = (split_shape(cut.described, node, extents) for extents in itertools.product(n, h, w))
    return max(attrs.local_buffer(shape) for shape in shapes)


_Regions = Sequence[Sequence[tuple[int, int]]]  # (first, extent) of each slice, along n, h and w


def cut_group(described: DescribedNet, nodes: Sequence[int], tiling: Tiling) -> CutGroup:
    """What of these nodes has a place in local memory, without places yet.

    Inputs from outside are one value where layers want the same windows in the same layout. Inputs in L2,
    those that stay in DDR, and those that kernels read through host_data, are none.
    """
    net = described.net
    axes = (tiling.n, tiling.h, tiling.w)
    keep = set(stored(described, nodes))
    values: list[Value] = []
    made: dict[str, int] = {}
    read: dict[tuple[int, int], int] = {}
    external: dict[object, int] = {}

    def add(name: str, ttype: TType, regions: _Regions, loaded: bool, once: bool) -> int:
        info = net.tensors[name]
        n, h, w = (max([extent for _, extent in axis]) for axis in regions)
        nbytes = tile_bytes(ttype, (n, info.nchw[1], h, w), info.format)
        values.append(Value(name, ttype, loaded, once, not loaded and name in keep, nbytes))
        return len(values) - 1

    for k in nodes:
        attrs = described.attrs[k]
        for i, name in enumerate(net.nodes[k].inputs):
            if attrs.on_l2[i] or attrs.gathers or attrs.input_types[i] == TType.NEURON_SHAPE:
                continue
            if name in made:
                read[k, i] = made[name]
                continue
            regions = [tuple([part.read[k, i][:2] for part in axis]) for axis in axes]
            key = (name, attrs.input_types[i], *regions)
            if key not in external:
                same = attrs.taken_whole[i] or all(len(set(axis)) == 1 for axis in regions)
                once = tiling.count > 1 and same
                external[key] = add(name, attrs.input_types[i], regions, True, once)
            read[k, i] = external[key]
        for out in net.nodes[k].outputs:
            regions = [tuple([part.made[out][:2] for part in axis]) for axis in axes]
            made[out] = add(out, TType.NEURON, regions, False, False)
        if _scatters(described, nodes, k):  # what is stored is its input
            values[-1] = replace(values[-1], nbytes=values[read[k, 0]].nbytes)
    return CutGroup(described, tuple(nodes), tiling, tuple(values), made, read)


def slot_bytes(tiles: GroupTiles, name: str, p: int) -> int:
    """Bytes of one channel of a tensor that the group computes, as it lies in local memory."""
    info = tiles.cut.described.net.tensors[name]
    _, h, w = (axis.made[name].extent for axis in tiles.tiles[p])
    return -(-h * w * info.format.word_bytes // ALIGN_BYTES) * ALIGN_BYTES
