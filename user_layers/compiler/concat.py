"""Layers that put their inputs one after the other along the channels: no code runs for them in groups."""

from __future__ import annotations

import itertools

from user_layers.compiler.attributes import DescribedNet

_CONCAT = "TPU_CONCAT"


def concat_channels(described: DescribedNet, k: int) -> tuple[int, ...] | None:
    """The first channel of each input of node k in its output; None if the node is anything else.

    A descriptor's is_concat_layer speaks of bytes; with the shapes it tells that channels are
    concatenated. The built-in concatenation does it for batches too.
    """
    if k not in described.known_concats:
        described.known_concats[k] = _channels(described, k)
    return described.known_concats[k]


def _channels(described: DescribedNet, k: int) -> tuple[int, ...] | None:
    net, attrs = described.net, described.attrs[k]
    node = net.nodes[k]
    if (
        not (attrs.is_concat_layer or (node.op.is_builtin and node.op.op == _CONCAT))
        or len(node.outputs) != 1
    ):
        return None
    out = net.tensors[node.outputs[0]]
    parts = [net.tensors[name] for name in node.inputs]
    if not 2 <= len(out.shape) <= 4 or any(
        p.data is not None
        or (p.dtype, p.store_mode) != (out.dtype, out.store_mode)
        or len(p.shape) != len(out.shape)
        for p in parts
    ):
        return None
    ends = list(itertools.accumulate(p.shape[1] for p in parts))
    if ends[-1] != out.shape[1] or any(
        (p.shape[0], *p.shape[2:]) != (out.shape[0], *out.shape[2:]) for p in parts
    ):
        return None
    return tuple(end - p.shape[1] for end, p in zip(ends, parts, strict=True))
