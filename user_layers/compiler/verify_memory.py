"""What lies where while a static program is followed: tiles in local memory, tensors in DDR."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache

from firmware_sim.chip import LOCAL_BYTES, NPU_NUM
from firmware_sim.wire import ProgramTensor, TType
from user_layers.compiler.attributes import DescribedNet
from user_layers.compiler.concat import concat_channels
from user_layers.compiler.pieces import piece_offsets
from user_layers.compiler.tiles import tile_bytes

Region = tuple[tuple[int, int], ...]
"""First and extent along each of n, c, h, w."""
Area = tuple[int, int, tuple[int, int]]
"""Bytes from and to, in the lanes from and to."""
Tile = tuple[str, Region, TType]
"""Part of a tensor in local memory: its name, which part, how it lies there."""
ALL_LANES = (0, NPU_NUM)


def four(values: tuple[int, ...], fill: int) -> tuple[int, int, int, int]:
    """Numbers of n, c, h, w."""
    n, c, h, w = (*values, fill, fill, fill, fill)[:4]
    return n, c, h, w


def whole(shape: tuple[int, ...]) -> Region:
    """All of a tensor."""
    return tuple((0, extent) for extent in (*shape, 1, 1, 1, 1)[: max(4, len(shape))])


def region_of(t: ProgramTensor) -> Region:
    """Which part of its tensor a tile is."""
    return tuple(zip(four(t.tensor.processed, 0), four(t.tensor.slice_shape, 1), strict=True))


def areas_of(t: ProgramTensor, channels: tuple[int, int] | None = None) -> list[Area]:
    """Where a tile lies, what fills up its rows included. channels: only these of it, first and end."""
    record = t.tensor
    n, c, h, w = four(record.slice_shape, 1)
    if record.ttype != TType.NEURON:
        end = record.addr + tile_bytes(record.ttype, (n, c, h, w), record.format)
        return [(record.addr, end, ALL_LANES)]
    first, last = channels or (0, c)
    plane = tile_bytes(TType.NEURON, (1, 1, h, w), record.format)
    rounds, batches = -(-c // NPU_NUM), range(-(-n // record.format.together))
    found: list[Area] = []
    for batch, number in itertools.product(batches, range(first // NPU_NUM, -(-last // NPU_NUM))):
        start = record.addr + (batch * rounds + number) * plane
        lanes = max(first - NPU_NUM * number, 0), min(last - NPU_NUM * number, NPU_NUM)
        if found and found[-1][1:] == (start, lanes):
            found[-1] = (found[-1][0], start + plane, lanes)
        else:
            found.append((start, start + plane, lanes))
    return found


def _meet(some: Iterable[Area], others: Sequence[Area]) -> bool:
    """Whether two places share a byte of a lane."""
    return any(
        a[0] < b[1] and b[0] < a[1] and a[2][0] < b[2][1] and b[2][0] < a[2][1] for a in some for b in others
    )


class LocalMemory:
    """Tiles, and parts that were copied into a concatenation's tile, with the places that hold them."""

    def __init__(self) -> None:
        self._tiles: dict[tuple[Area, ...], tuple[Tile, ...]] = {}
        self._copied: dict[tuple[int, int], tuple[tuple[int, str, Region], list[Area]]] = {}

    def put(self, tiles: Sequence[Tile], areas: list[Area]) -> None:
        """A tile is written; what was there is gone. tiles: of each tensor whose bytes these are."""
        self.forget(areas)
        self._tiles[tuple(areas)] = tuple(tiles)

    def holds(self, tile: Tile, areas: list[Area]) -> bool:
        """Whether the tile is in this place, and all of it is still there."""
        return tile in self._tiles.get(tuple(areas), ())

    def moved(self, address: int, channel: int, what: tuple[int, str, Region], areas: list[Area]) -> None:
        """A part is copied to its channels of the tile at an address. what: the concatenation's node, the
        part and its region."""
        self.forget(areas)
        self._copied[address, channel] = what, areas

    def copied(self, address: int, channel: int) -> tuple[int, str, Region] | None:
        """What `moved` put there, if it still is."""
        found = self._copied.get((address, channel))
        return found[0] if found is not None else None

    def forget(self, areas: Sequence[Area]) -> None:
        """What lies in any of these lanes and bytes is there no longer."""
        self._tiles = {own: tiles for own, tiles in self._tiles.items() if not _meet(own, areas)}
        self._copied = {at: own for at, own in self._copied.items() if not _meet(own[1], areas)}

    def at(self, areas: Sequence[Area]) -> str:
        """What these places hold, for messages."""
        tiles = (tiles for own, tiles in self._tiles.items() if _meet(own, areas))
        found = (f"{name} {region}" for (name, region, _), *_ in tiles)
        return ", ".join(found) or "nothing"

    def clear(self) -> None:
        """Anything may be anywhere."""
        self.forget([(0, LOCAL_BYTES, ALL_LANES)])


class InDdr:
    """Which parts of which tensors were written to DDR, and not overwritten since.

    Tensors whose bytes are the same share what is written: what a reshape that never runs takes and gives,
    and a concatenation that never runs with its parts, where these lie inside it; and a piece of a tensor
    that lies there, though a group makes it once more. runs: names of the nodes that run.
    """

    def __init__(self, described: DescribedNet, address: Mapping[str, int], runs: Collection[str]) -> None:
        self._net, self._described, self._address = described.net, described, address
        self._runs = runs
        self._parts = {name: self._found_parts(name) for name in address}
        self._wholes: dict[str, list[str]] = {}
        for name, parts in self._parts.items():
            for part in parts:
                self._wholes.setdefault(part, []).append(name)
        self._pieces: dict[str, list[str]] = {}
        for source, piece in self._found_pieces():
            self._pieces.setdefault(source, []).append(piece)
            self._wholes.setdefault(piece, []).append(source)
        self._written: dict[str, list[Region]] = {}
        self._by_address: dict[int, list[str]] = {}
        for name, start in address.items():
            self._by_address.setdefault(start, []).append(name)
        self._same = cache(self._find_same)

    def at(self, address: int) -> list[str]:
        """Tensors that have this address at some time."""
        return self._by_address.get(address, [])

    def owner(self, name: str) -> str:
        """Which tensor must have been made for this one to be there: itself, or what a reshape that never
        runs takes."""
        net = self._net
        while name in net.producer and self._elided(name) and not self._concatenates(net.producer[name]):
            name = net.nodes[net.producer[name]].inputs[0]
        return name

    def write(self, name: str, region: Region | None = None) -> None:
        """A tensor, or a part of it, is written: whatever else lay there is gone."""
        if name not in self._address:
            return  # the runtime finds a place for it
        name = self.owner(name)
        same = self._same(name)
        for other in self._over(*self._span(name)):
            if other not in same:
                del self._written[other]
        self._written.setdefault(name, []).append(region or whole(self._net.tensors[name].shape))

    def scribble(self, start: int, nbytes: int) -> None:
        """Anything may be in these bytes."""
        for name in self._over(start, start + nbytes):
            del self._written[name]

    def overlap(self, name: str, other: str) -> bool:
        """Whether two tensors have bytes in common."""
        (start, end), (first, last) = self._span(name), self._span(other)
        return start < last and first < end

    def complete(self, name: str) -> bool:
        """Whether all of the tensor is there: written itself, or by its parts, or with what it is part of."""
        name = self.owner(name)
        return self._made(name) or any(map(self.complete, self._wholes.get(name, ())))

    def _made(self, name: str) -> bool:
        parts = self._parts.get(name, [])
        shape = self._net.tensors[name].shape
        return _covers(self._written.get(name, []), shape) or (bool(parts) and all(map(self._made, parts)))

    def _over(self, start: int, end: int) -> list[str]:
        spans = ((name, self._span(name)) for name in self._written)
        return [name for name, (first, last) in spans if first < end and start < last]

    def _span(self, name: str) -> tuple[int, int]:
        start = self._address[name]
        return start, start + self._net.tensors[name].nbytes

    def _elided(self, name: str) -> bool:
        return self._net.nodes[self._net.producer[name]].name not in self._runs

    def _concatenates(self, k: int) -> bool:
        return self._described.attrs[k].is_concat_layer or concat_channels(self._described, k) is not None

    def _found_parts(self, name: str) -> list[str]:
        """What an elided concatenation consists of, if all of it lies inside."""
        k = self._net.producer.get(name)
        if k is None or not self._elided(name) or not self._concatenates(k):
            return []
        at, found = self._address[name], []
        for part in self._net.nodes[k].inputs:
            if self._address.get(part) != at:
                return []
            at += self._net.tensors[part].nbytes
            found.append(self.owner(part))
        return found

    def _found_pieces(self) -> Iterator[tuple[str, str]]:
        """What nodes that run cut out of tensors in whose memory it lies, and of which."""
        for k, node in enumerate(self._net.nodes):
            source = node.inputs[0] if node.inputs else ""
            if node.name not in self._runs or source not in self._address:
                continue
            at = self._address[source]
            views = self._described.attrs[k].views
            offsets = (0,) if views else piece_offsets(self._described, k) or ()
            for name, offset in zip(node.outputs, offsets, strict=False):
                if self._address.get(name) == at + offset:
                    yield self.owner(source), name

    def _find_same(self, name: str) -> frozenset[str]:
        """All tensors with bytes in common with this one that hold the same."""
        found, left = set(), [name]
        while left:
            one = left.pop()
            if one not in found:
                found.add(one)
                left += [*self._parts.get(one, ()), *self._pieces.get(one, ()), *self._wholes.get(one, ())]
        return frozenset(found)


def _covers(regions: Sequence[Region], shape: tuple[int, ...]) -> bool:
    """Whether the regions have every element of a tensor between them."""
    if whole(shape) in regions:
        return True
    cuts = [
        sorted({edge for first, extent in axis for edge in (first, first + extent)})
        for axis in zip(*regions, strict=True)
    ]
    if not regions or any(
        (edges[0], edges[-1]) != (0, extent) for edges, (_, extent) in zip(cuts, whole(shape), strict=True)
    ):
        return False
    return all(
        any(
            all(first <= at < first + extent for at, (first, extent) in zip(corner, region, strict=True))
            for region in regions
        )
        for corner in itertools.product(*(edges[:-1] for edges in cuts))
    )
