"""Pieces of a layer's output: where a sample cuts it, and what its shape function makes of their windows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from firmware_sim.wire import TensorRecord, TType
from user_layers.compiler.attributes import DescribedNet, gather_attributes
from user_layers.compiler.prepare import prepare_constants
from user_layers.compiler.tiles import GroupTiles, cut_group
from user_layers.compiler.tiling import AXES, Ends, Infeasible, may_split, slice_unit, tile_group
from user_layers.testing.nets import Wrong
from user_layers.verify.sample import Fractions, Sample

if TYPE_CHECKING:
    from user_layers.graph import GraphBuilder

_DIM = {"n": 0, "h": 2, "w": 3}


def described(graph: GraphBuilder) -> DescribedNet:
    """The graph with what descriptors say. Errors: CompileError."""
    return prepare_constants(gather_attributes(graph.resolve(), graph.toolkit))


def ends_of(graph: GraphBuilder, cuts: Fractions) -> Ends:
    """Where these cuts fall in the graph's first output, along the axes that may be cut."""
    net = described(graph)
    return _ends(net, tuple(range(len(net.net.nodes))), cuts)


def _ends(net: DescribedNet, nodes: tuple[int, ...], cuts: Fractions) -> Ends:
    allowed = may_split(net, nodes)
    output = net.net.tensors[net.net.nodes[nodes[-1]].outputs[0]]
    found: dict[str, tuple[int, ...]] = {}
    for axis, fractions in zip(AXES, cuts, strict=True):
        extent = output.nchw[_DIM[axis]]
        unit = slice_unit(net, nodes, axis)
        most = -(-extent // unit) - 1
        places = sorted({min(max(round(f * extent / unit), 1), most) * unit for f in fractions})
        found[axis] = (*(p for p in places if allowed[axis] and 0 < p < extent), extent)
    return Ends(**found)


def check_windows(graph: GraphBuilder, sample: Sample, not_tried: type[Exception]) -> int:
    """Ask the layer's shape function for the tile that it makes of the windows of every piece; how many.

    Errors: Wrong where it says another one than the piece; not_tried for layers without tiles.
    """
    net = described(graph)
    k = next(i for i, node in enumerate(net.net.nodes) if node.name == "tested")
    attrs, node = net.attrs[k], net.net.nodes[k]
    if not attrs.has_local or attrs.force_global:
        raise not_tried("no local function" if not attrs.has_local else "force_use_global_layer")
    if attrs.larger_tiles:
        raise not_tried("its slices are those of larger tiles")
    if any(len(net.net.tensors[name].shape) > 4 for name in (*node.inputs, *node.outputs)):
        raise not_tried("more than four dimensions")
    ends = _ends(net, (k,), sample.cuts)
    tiling = tile_group(net, (k,), ends)
    if isinstance(tiling, Infeasible):
        raise not_tried(tiling.reason)
    tiles = GroupTiles(cut_group(net, (k,), tiling))
    scales = [net.net.tensors[name].scale for name in node.outputs]
    for p in range(tiling.count):
        ins, wanted = tiles.inputs(p, k), tiles.outputs(p, k)
        got = graph.toolkit.device.infer_shape(
            node.op.op_type, node.param, ins, len(wanted), scales if any(scales) else ()
        )
        for i, (found, want) in enumerate(zip(got, wanted, strict=True)):
            if found.ttype is not TType.NEURON and want.ttype is TType.NEURON:
                found = replace(found, ttype=want.ttype)
            if any(found.slice_shape) and _tile(found) != _tile(want):  # zeros: it says nothing of tiles
                raise Wrong(
                    f"for windows {', '.join(_text(x) for x in ins)} of its inputs the shape function says "
                    f"{_text(found)} of output {i}, and the descriptor's methods say they make {_text(want)}"
                )
    return tiling.count


def _tile(record: TensorRecord) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return tuple(record.processed), tuple(record.slice_shape)


def _text(record: TensorRecord) -> str:
    """`[0:1, 0:3, 4:9, 0:7]`."""
    words = (f"{a}:{a + n}" for a, n in zip(record.processed, record.slice_shape, strict=True))
    return f"[{', '.join(words)}]"
