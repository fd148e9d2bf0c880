"""Which part of every tensor of a group each tile of its outputs needs.

A group is cut along n, h and w into the same number of slices for all its outputs. Going backward from an
output slice through the layers gives, for every tensor, the window to have in local memory. The axes do not
influence one another, so each is cut by itself; a tile is one slice of each axis.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from user_layers.compiler.attributes import DescribedNet, LayerAttributes
from user_layers.compiler.window import Window
from user_layers.net.net import NetTensorInfo

AXES = ("n", "h", "w")
_DIM = {"n": 0, "h": 2, "w": 3}


@dataclass(frozen=True)
class Slice:
    """One slice along one axis. made: the window of each tensor that the group computes; read: that of
    input i of node k of the net, under (k, i)."""

    made: dict[str, Window]
    read: dict[tuple[int, int], Window]


Tile = tuple[Slice, Slice, Slice]  # along n, h and w


@dataclass(frozen=True)
class Tiling:
    """How a group is cut: the slices of each axis. Tiles run in the order n, h, w (w fastest)."""

    n: tuple[Slice, ...]
    h: tuple[Slice, ...]
    w: tuple[Slice, ...]

    @property
    def count(self) -> int:
        """How many tiles there are, over all axes."""
        return len(self.n) * len(self.h) * len(self.w)

    def tiles(self) -> Iterator[Tile]:
        """The tiles in the order in which they run, each as its (n, h, w)."""
        return itertools.product(self.n, self.h, self.w)


@dataclass(frozen=True)
class Ends:
    """Where the slices of a group's outputs end, along each axis; the last one ends where its output does.
    Along n at whole words of tensors in 2N and 4N, and at whole volumes."""

    n: tuple[int, ...]
    h: tuple[int, ...]
    w: tuple[int, ...]


@dataclass(frozen=True)
class Infeasible:
    """Why something cannot be done; lacks_room: it would work with smaller tiles."""

    reason: str
    lacks_room: bool = False


KnownSlices = dict[tuple[str, int], "tuple[Slice, ...] | Infeasible"]
"""Of one group: its slices along an axis, by that and how many there are."""


def tile_group(
    described: DescribedNet,
    nodes: Sequence[int],
    cut: tuple[int, int, int] | Ends,
    known: KnownSlices | None = None,
) -> Tiling | Infeasible:
    """Cut the group of these nodes into so many slices along (n, h, w), or into those given.

    known: slices of this group that were found before, to which new ones are added. Errors: CompileError for
    backward functions that return nonsense.
    """
    axes: list[tuple[Slice, ...]] = []
    for dim, axis in enumerate(AXES):
        if isinstance(cut, Ends):
            slices = _slices(described, nodes, axis, _given(getattr(cut, axis)))
        else:
            count = cut[dim]
            before = None if known is None else known.get((axis, count))
            slices = before or _slices(
                described, nodes, axis, _even(count, slice_unit(described, nodes, axis))
            )
            if known is not None:
                known[axis, count] = slices
        if isinstance(slices, Infeasible):
            return slices
        axes.append(slices)
    return Tiling(*axes)


def _slices(
    described: DescribedNet, nodes: Sequence[int], axis: str, spans: Sequence[_Span]
) -> tuple[Slice, ...] | Infeasible:
    slices = []
    for span in spans:
        found = _slice(described, nodes, axis, span, len(spans))
        if isinstance(found, Infeasible):
            return found
        slices.append(found)
    return _gap(described, nodes, axis, slices) or tuple(slices)


def may_split(described: DescribedNet, nodes: Sequence[int]) -> dict[str, bool]:
    """Along which axes a group can be cut: n where no layer changes its extent, h and w where every
    descriptor allows it, and h where no layer needs all rows of its input for each row that it makes: every
    tile would have to compute them anew."""
    h_w = all(described.attrs[k].can_split_h_w for k in nodes)
    same_n = all(_keeps_batch(described, k) for k in nodes)
    return {"n": same_n, "h": h_w and not any(_needs_all_rows(described, k) for k in nodes), "w": h_w}


def _keeps_batch(described: DescribedNet, node: int) -> bool:
    known = described.known_batch.get(node)
    if known is None:
        net, layer = described.net, described.net.nodes[node]
        known = described.known_batch[node] = all(
            net.tensors[name].nchw[0] in (1, net.tensors[out].nchw[0])
            for i, name in enumerate(layer.inputs)
            if not described.attrs[node].taken_whole[i]
            for out in layer.outputs
        )
    return known


def _needs_all_rows(described: DescribedNet, node: int) -> bool:
    known = described.known_rows.get(node)
    if known is None:
        known = described.known_rows[node] = _all_rows(described, node)
    return known


def _all_rows(described: DescribedNet, node: int) -> bool:
    attrs, net = described.attrs[node], described.net
    out = net.tensors[attrs.node.outputs[0]].nchw[2]
    for i, name in enumerate(attrs.node.inputs):
        rows = net.tensors[name].nchw[2]
        if min(rows, out) > 1 and not attrs.taken_whole[i]:
            first, last = (attrs.backward_h(row, 1, out, rows) for row in (0, out - 1))
            if max(first[0], last[0]) <= 0 and min(sum(first), sum(last)) >= rows:
                return True
    return False


def sinks(described: DescribedNet, nodes: Sequence[int]) -> list[str]:
    """The outputs of the group that no node of the group reads."""
    net = described.net
    inside = set(nodes)
    return [out for k in nodes for out in net.nodes[k].outputs if not inside.intersection(net.consumers[out])]


def stored(described: DescribedNet, nodes: Sequence[int]) -> list[str]:
    """The tensors made by the group that something outside reads."""
    net = described.net
    inside = set(nodes)
    return [
        out
        for k in nodes
        for out in net.nodes[k].outputs
        if out in net.outputs or not inside.issuperset(net.consumers[out])
    ]


def axis_extent(described: DescribedNet, nodes: Sequence[int], axis: str) -> int:
    """The most slices that an axis allows: the smallest extent among the sinks."""
    extent = min(described.net.tensors[name].nchw[_DIM[axis]] for name in sinks(described, nodes))
    return -(-extent // slice_unit(described, nodes, axis))


def slice_unit(described: DescribedNet, nodes: Sequence[int], axis: str) -> int:
    """Slices begin at multiples of it: along n, at whole words of tensors in 2N and 4N, and whole volumes."""
    if axis != "n":
        return 1
    names = (
        name for k in nodes for name in (*described.net.nodes[k].inputs, *described.net.nodes[k].outputs)
    )
    words = max(described.net.tensors[name].format.together for name in names)
    return math.lcm(words, *(described.attrs[k].planes for k in nodes))


_Span = Callable[[int], tuple[int, int]]
"""From an output's extent the first element of a slice and the one behind its last."""


def _even(count: int, unit: int) -> list[_Span]:
    """So many slices as equal as whole units let them be."""

    def span(index: int) -> _Span:
        def ends(extent: int) -> tuple[int, int]:
            parts = -(-extent // unit)
            first, end = (min(k * parts // count * unit, extent) for k in (index, index + 1))
            return first, end

        return ends

    return [span(index) for index in range(count)]


def _given(ends: Sequence[int]) -> list[_Span]:
    """Slices that end there."""

    def span(first: int, end: int | None) -> _Span:
        return lambda extent: (min(first, extent), extent if end is None else min(end, extent))

    return [span(a, b) for a, b in zip((0, *ends[:-1]), (*ends[:-1], None), strict=True)]


def _slice(
    described: DescribedNet, nodes: Sequence[int], axis: str, span: _Span, count: int
) -> Slice | Infeasible:
    net, dim = described.net, _DIM[axis]
    made: dict[str, Window] = {}
    read: dict[tuple[int, int], Window] = {}
    inside = {out for k in nodes for out in net.nodes[k].outputs}
    outside: dict[str, int] = {}  # tensors from outside: how many inputs read each
    for k in reversed(nodes):
        node = net.nodes[k]
        window: Window | None = None
        for out in node.outputs:
            if out not in made:
                first, end = span(net.tensors[out].nchw[dim])
                if first == end:
                    return Infeasible(f"{out} has fewer than {count} elements along {axis}")
                made[out] = Window(first, end - first)
            elif axis != "n" and not described.attrs[k].can_split_h_w:  # also what no window behind it sees
                made[out] = Window(0, net.tensors[out].nchw[dim])
            if window is None:
                window = made[out]
            elif window != made[out]:
                return Infeasible(f"the outputs of {node.name} are needed in different slices along {axis}")
        assert window is not None
        for i, (name, needed) in enumerate(
            zip(node.inputs, _input_windows(described, k, window, axis, count > 1), strict=True)
        ):
            if needed is None:
                return Infeasible(f"a slice of {node.name} along {axis} needs nothing of {name}")
            read[k, i] = needed
            if name in inside:
                made[name] = _hull(made.get(name, needed), needed)
            else:
                outside[name] = outside.get(name, 0) + 1
    # Layers that need different windows of one tensor share one that holds them all, if they accept it.
    shared = {name for name, reads in outside.items() if reads > 1 and _shareable(described, inside, name)}
    hulls = dict(made)
    for (k, i), needed in read.items():
        name = net.nodes[k].inputs[i]
        if name in shared:
            hulls[name] = _hull(hulls.get(name, needed), needed)
    for (k, i), needed in read.items():
        hull = hulls.get(net.nodes[k].inputs[i], needed)
        if needed[:2] == hull[:2] or described.attrs[k].taken_whole[i]:
            continue
        if not described.attrs[k].larger_tiles:
            return Infeasible(f"{net.nodes[k].inputs[i]} is needed in different slices along {axis}")
        read[k, i] = Window(hull.first, hull.extent, needed.pad)
    return Slice(made, read)


def _hull(a: Window, b: Window) -> Window:
    if a == b and not a.pad:
        return a
    first = min(a.first, b.first)
    return Window(first, max(a.end, b.end) - first)


def _shareable(described: DescribedNet, made: Collection[str], name: str) -> bool:
    """Whether all layers of the group, which makes these tensors, that read a tensor from outside it accept
    larger tiles of it."""
    net = described.net
    readers = [k for k in net.consumers[name] if net.nodes[k].outputs[0] in made]
    return all(
        described.attrs[k].larger_tiles and not described.attrs[k].taken_whole[i]
        for k in readers
        for i, other in enumerate(net.nodes[k].inputs)
        if other == name
    )


def _input_windows(
    described: DescribedNet, k: int, out: Window, axis: str, several: bool
) -> tuple[Window | None, ...]:
    """What each input of node k needs for the output window; several: slices there are. Groups ask the same
    of a node over and over."""
    key = (axis, k, out.first, out.extent, several)
    known = described.known_windows.get(key)
    if known is None:
        net, attrs = described.net, described.attrs[k]
        whole = net.tensors[net.nodes[k].outputs[0]].nchw[_DIM[axis]]
        known = described.known_windows[key] = tuple(
            _input_window(attrs, i, net.tensors[name], out, whole, axis, several)
            for i, name in enumerate(net.nodes[k].inputs)
        )
    return known


def _input_window(
    attrs: LayerAttributes,
    i: int,
    tensor: NetTensorInfo,
    out: Window,
    out_extent: int,
    axis: str,
    several: bool,
) -> Window | None:
    """What input i needs for the output window; None when that is nothing."""
    extent = tensor.nchw[_DIM[axis]]
    whole = Window(0, extent)
    if attrs.taken_whole[i]:
        return whole
    if extent == 1 and out_extent > 1 and len(attrs.node.inputs) > 1:  # broadcast against another input
        return whole
    if axis == "n":
        return out if several else whole
    first, size = (
        attrs.backward_h(out.first, out.extent, out_extent, extent)
        if axis == "h"
        else attrs.backward_w(out.first, out.extent)
    )
    if not attrs.can_split_h_w:  # all of it, and what its window has beyond the low edge as for any tile
        return Window(0, extent, max(-first, 0))
    low, high = max(first, 0), min(first + size, extent)
    return Window(low, high - low, max(-first, 0)) if low < high else None


def _gap(
    described: DescribedNet, nodes: Sequence[int], axis: str, slices: Sequence[Slice]
) -> Infeasible | None:
    """A stored tensor whose slices, made for layers of the group, leave part of it out."""
    for name in stored(described, nodes):
        end = 0
        for window in sorted((p.made[name] for p in slices), key=lambda w: w.first):
            if window.first > end:
                break
            end = max(end, window.end)
        if end < described.net.tensors[name].nchw[_DIM[axis]]:
            return Infeasible(
                f"the slices along {axis} leave out part of {name}, which is also needed outside"
            )
    return None
