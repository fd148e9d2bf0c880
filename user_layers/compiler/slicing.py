"""Which part of every tensor of a group each piece of its outputs needs.

A group is cut along n, h and w into the same number of pieces for all its outputs. Going backward from an
output tile through the layers gives, for every tensor, the window to have in local memory. The axes do not
influence one another, so each is cut by itself and a piece is one choice per axis.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from firmware_sim.wire import TType
from user_layers.compiler.facts import DescribedNet, Facts
from user_layers.net.net import NetTensorInfo

AXES = ("n", "h", "w")
_DIM = {"n": 0, "h": 2, "w": 3}


@dataclass(frozen=True)
class Window:
    """`extent` elements from `first`, inside the tensor; `pad`: elements that the layer's window has below
    index 0."""

    first: int
    extent: int
    pad: int = 0

    @property
    def end(self) -> int:
        """The first element behind it."""
        return self.first + self.extent

    @property
    def region(self) -> tuple[int, int]:
        """(first, extent): what has to lie in local memory, whatever the layer pads."""
        return self.first, self.extent


@dataclass(frozen=True)
class AxisPiece:
    """One piece along one axis. made: the window of each tensor that the group computes; read: that of
    input i of node k of the net, under (k, i)."""

    made: dict[str, Window]
    read: dict[tuple[int, int], Window]


@dataclass(frozen=True)
class Slices:
    """All pieces of a group; they run in the order n, h, w (w fastest)."""

    n: tuple[AxisPiece, ...]
    h: tuple[AxisPiece, ...]
    w: tuple[AxisPiece, ...]

    @property
    def count(self) -> int:
        """How many pieces there are, over all axes."""
        return len(self.n) * len(self.h) * len(self.w)

    def pieces(self) -> Iterator[tuple[AxisPiece, AxisPiece, AxisPiece]]:
        """The pieces in the order in which they run, each as its (n, h, w)."""
        return itertools.product(self.n, self.h, self.w)


@dataclass(frozen=True)
class Misfit:
    """Why something cannot be done; lacks_room: it would work with smaller pieces."""

    reason: str
    lacks_room: bool = False


def slice_group(
    described: DescribedNet, nodes: Sequence[int], counts: tuple[int, int, int]
) -> Slices | Misfit:
    """Cut the group of these nodes into counts = (n, h, w) pieces.

    Errors: CompileError for backward functions that return nonsense.
    """
    axes: list[tuple[AxisPiece, ...]] = []
    for axis, count in zip(AXES, counts, strict=True):
        pieces = []
        for index in range(count):
            piece = _axis_piece(described, nodes, axis, index, count)
            if isinstance(piece, Misfit):
                return piece
            pieces.append(piece)
        gap = _gap(described, nodes, axis, pieces)
        if gap is not None:
            return gap
        axes.append(tuple(pieces))
    return Slices(*axes)


def may_split(described: DescribedNet, nodes: Sequence[int]) -> dict[str, bool]:
    """Along which axes a group can be cut: n where no layer changes its extent, h and w where every
    descriptor allows it."""
    net = described.net
    h_w = all(described.facts[k].can_split_h_w for k in nodes)
    same_n = all(
        net.tensors[name].nchw[0] in (1, net.tensors[out].nchw[0])
        for k in nodes
        for i, name in enumerate(net.nodes[k].inputs)
        if not taken_whole(described.facts[k], i)
        for out in net.nodes[k].outputs
    )
    return {"n": same_n, "h": h_w, "w": h_w}


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


def taken_whole(facts: Facts, index: int) -> bool:
    """Inputs that are never cut: constants in a compact layout, shapes, and what lies in L2."""
    return facts.on_l2[index] or facts.input_types[index] != TType.NEURON


def axis_extent(described: DescribedNet, nodes: Sequence[int], axis: str) -> int:
    """The most pieces that an axis allows: the smallest extent among the sinks."""
    return min(described.net.tensors[name].nchw[_DIM[axis]] for name in sinks(described, nodes))


def _axis_piece(
    described: DescribedNet, nodes: Sequence[int], axis: str, index: int, count: int
) -> AxisPiece | Misfit:
    net, dim = described.net, _DIM[axis]
    made: dict[str, Window] = {}
    read: dict[tuple[int, int], Window] = {}
    inside = {out for k in nodes for out in net.nodes[k].outputs}
    for k in reversed(nodes):
        node, facts = net.nodes[k], described.facts[k]
        windows = []
        for out in node.outputs:
            extent = net.tensors[out].nchw[dim]
            if out not in made:
                first, end = index * extent // count, (index + 1) * extent // count
                if first == end:
                    return Misfit(f"{out} has fewer than {count} elements along {axis}")
                made[out] = Window(first, end - first)
            windows.append(made[out])
        if any(w != windows[0] for w in windows):
            return Misfit(f"the outputs of {node.name} are needed in different pieces along {axis}")
        whole = net.tensors[node.outputs[0]].nchw[dim]
        for i, name in enumerate(node.inputs):
            window = _input_window(facts, i, net.tensors[name], windows[0], whole, axis, count)
            if window is None:
                return Misfit(f"a piece of {node.name} along {axis} needs nothing of {name}")
            read[k, i] = window
            if name in inside:
                made[name] = _hull(made.get(name, window), window)
    # Layers that need different windows of one tensor share a piece that holds them all, if they accept it.
    hulls = dict(made)
    for (k, i), window in read.items():
        name = net.nodes[k].inputs[i]
        if name not in inside and _shareable(described, nodes, name):
            hulls[name] = _hull(hulls.get(name, window), window)
    for (k, i), window in read.items():
        name = net.nodes[k].inputs[i]
        hull = hulls.get(name, window)
        if taken_whole(described.facts[k], i) or window.region == hull.region:
            continue
        if not described.facts[k].larger_pieces:
            return Misfit(f"{name} is needed in different pieces along {axis}")
        read[k, i] = Window(hull.first, hull.extent, window.pad)
    return AxisPiece(made, read)


def _hull(a: Window, b: Window) -> Window:
    first = min(a.first, b.first)
    return Window(first, max(a.end, b.end) - first)


def _shareable(described: DescribedNet, nodes: Sequence[int], name: str) -> bool:
    """Whether all layers of the group that read a tensor from outside it accept larger pieces of it."""
    net = described.net
    readers = [k for k in net.consumers[name] if k in nodes]
    return all(
        described.facts[k].larger_pieces and not taken_whole(described.facts[k], i)
        for k in readers
        for i, other in enumerate(net.nodes[k].inputs)
        if other == name
    )


def _input_window(
    facts: Facts, i: int, tensor: NetTensorInfo, out: Window, out_extent: int, axis: str, count: int
) -> Window | None:
    """What input i needs for the output window; None when that is nothing."""
    extent = tensor.nchw[_DIM[axis]]
    whole = Window(0, extent)
    if taken_whole(facts, i):
        return whole
    if extent == 1 and out_extent > 1 and len(facts.node.inputs) > 1:  # broadcast against another input
        return whole
    if axis == "n":
        return out if count > 1 else whole
    first, size = (
        facts.backward_h(out.first, out.extent, out_extent, extent)
        if axis == "h"
        else facts.backward_w(out.first, out.extent)
    )
    if not facts.can_split_h_w:  # all of it, and what its window has beyond the low edge as for any piece
        return Window(0, extent, max(-first, 0))
    low, high = max(first, 0), min(first + size, extent)
    return Window(low, high - low, max(-first, 0)) if low < high else None


def _gap(
    described: DescribedNet, nodes: Sequence[int], axis: str, pieces: Sequence[AxisPiece]
) -> Misfit | None:
    """A stored tensor whose pieces, made for layers of the group, leave part of it out."""
    for name in stored(described, nodes):
        end = 0
        for window in sorted((p.made[name] for p in pieces), key=lambda w: w.first):
            if window.first > end:
                break
            end = max(end, window.end)
        if end < described.net.tensors[name].nchw[_DIM[axis]]:
            return Misfit(f"the pieces along {axis} leave out part of {name}, which is also needed outside")
    return None
