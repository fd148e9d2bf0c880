"""Whether the tiles of a group in a dynamic net may have fewer rows and columns than they were planned with.

The firmware cuts each tile where its tensor ends (sdk/firmware/fw_group.c) and leaves its beginning where it
is. So what a tile needs of the layer's inputs must begin at the same place whatever the height and width, and
a layer must bear a tile of its input with a few rows or columns behind those that it needs: those that a
stride leaves over at the end.
"""

from __future__ import annotations

import itertools

from user_layers.compiler.attributes import DescribedNet, LayerAttributes
from user_layers.compiler.grouping import Group
from user_layers.compiler.tiles import split_shape

# Built-in layers whose windows depend on parameters alone, not on the size of their tensors, and whose local
# functions bear what a stride leaves over; of TPU_PAD, where a constant is put around.
_WINDOWS = frozenset(
    f"TPU_{name}"
    for name in (
        "CONV",
        "CONV3D",
        "CONV_INT8",
        "DECONV",
        "MATMUL",
        "PAD",
        "POOL",
        "POOL_INT8",
        "RESIZE",
        "UNFOLD",
        "UPSAMPLE",
    )
)
_ASKED = 4096  # smaller tiles of a layer of the user's, at most, for which its descriptor is asked


def shrinks(described: DescribedNet, group: Group) -> bool:
    """Whether a group may run on tiles of fewer rows and columns."""
    return all(
        _anchored(described, group, k)
        and (described.attrs[k].node.op.is_builtin or _room(described, group, k))
        for k in group.nodes
    )


def _anchored(described: DescribedNet, group: Group, k: int) -> bool:
    """Whether a node's windows begin at the same place for all heights and widths."""
    attrs = described.attrs[k]
    op = attrs.node.op
    if op.is_builtin and op.op in _WINDOWS:
        return op.op != "TPU_PAD" or _pads_anchored(described, group, k)
    if not attrs.can_split_h_w:  # all of the inputs, for all of the outputs
        return op.is_builtin or _begins(attrs)
    out = described.net.tensors[attrs.node.outputs[0]].nchw
    return (
        _begins(attrs)
        and all(
            attrs.backward_h(first, extent, out[2], out[2]) == (first, extent)
            for first, extent in _probes(out[2])
        )
        and all(attrs.backward_w(first, extent) == (first, extent) for first, extent in _probes(out[3]))
    )


def _pads_anchored(described: DescribedNet, group: Group, k: int) -> bool:
    """Whether a pad's windows are so. What is put behind the end may be what lies before it, wherever the end
    is then: only tiles that begin at 0 need the same of all heights and widths."""
    node = described.net.nodes[k]
    values = described.toolkit.param_values(node.op, node.param)
    return values["mode"] == 0 or all(
        values["after"][d] == 0 or all(part.made[node.outputs[0]].first == 0 for part in parts)
        for d, parts in ((2, group.tiling.h), (3, group.tiling.w))
    )


def _begins(attrs: LayerAttributes) -> bool:
    """Whether the first row and column are those of the input."""
    return attrs.backward_h(0, 1, 1, 1)[0] == attrs.backward_w(0, 1)[0] == 0


def _probes(extent: int) -> list[tuple[int, int]]:
    """Some parts (first, extent) of so many rows or columns."""
    ends = sorted({1, 2, extent // 2, extent - 1, extent} & set(range(1, extent + 1)))
    return [(first, end - first) for first, end in itertools.combinations((0, *ends), 2)]


def _room(described: DescribedNet, group: Group, k: int) -> bool:
    """Whether the work buffers that a layer of the user's gets suffice for all smaller tiles. Those of
    built-in layers never grow where tiles get smaller."""
    attrs = described.attrs[k]
    out = attrs.node.outputs[0]
    tiling = group.tiling
    spans = ({part.made[out].extent for part in axis} for axis in (tiling.n, tiling.h, tiling.w))
    for n, h, w in itertools.product(*spans):
        if h * w > _ASKED:
            return False
        most = attrs.local_buffer(split_shape(described, k, (n, h, w)))
        for rows, columns in itertools.product(range(1, h + 1), range(1, w + 1)):
            if attrs.local_buffer(split_shape(described, k, (n, rows, columns))) > most:
                return False
    return True
