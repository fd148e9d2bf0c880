"""Layers whose outputs lie in their input as they are: nothing runs for them in DDR."""

from __future__ import annotations

import math

import numpy as np

from user_layers.compiler.attributes import DescribedNet
from user_layers.compiler.cuts import axis_of, slice_starts
from user_layers.net.net import NetTensorInfo
from user_layers.net.nodes import LayerNode

_Shape = tuple[int, ...]


def piece_offsets(described: DescribedNet, k: int) -> tuple[int, ...] | None:
    """At which byte of node k's first input each output begins, if all its bytes follow there in their order;
    None for any other node. Built-in slices, splits and gathers of planes that lie side by side. Batches
    that share words stay there, and words take the place of elements."""
    net, node = described.net, described.net.nodes[k]
    find = _FIRST.get(node.op.op) if node.op.is_builtin else None
    if find is None:
        return None
    inputs, outputs = ([net.tensors[name] for name in names] for names in (node.inputs, node.outputs))
    made = [each.format.words(each.shape) for each in outputs]
    source = inputs[0].format
    first = find(node, source.words(inputs[0].shape), inputs, made)
    return None if first is None else tuple(n * source.word_bytes for n in first)


def _slice(
    node: LayerNode, shape: _Shape, inputs: list[NetTensorInfo], outputs: list[_Shape]
) -> tuple[int, ...] | None:
    made = outputs[0]
    starts = slice_starts(node, shape)
    if any(step != 1 and extent > 1 for (_, step), extent in zip(starts, made, strict=True)):
        return None
    cut = [d for d, (extent, left) in enumerate(zip(shape, made, strict=True)) if extent != left]
    if any(made[d] != 1 for d in range(max(cut, default=0))):
        return None  # what lies between is left out
    return (_index([first for first, _ in starts], shape),)


def _split(
    node: LayerNode, shape: _Shape, inputs: list[NetTensorInfo], outputs: list[_Shape]
) -> tuple[int, ...] | None:
    axis = axis_of(node, shape)
    if math.prod(shape[:axis]) != 1:
        return None
    sizes = [math.prod(each) for each in outputs]
    return tuple(sum(sizes[:i]) for i in range(len(sizes)))


def _gather(
    node: LayerNode, shape: _Shape, inputs: list[NetTensorInfo], outputs: list[_Shape]
) -> tuple[int, ...] | None:
    list_ = inputs[1]
    axis = axis_of(node, shape)
    if list_.data is None or math.prod(shape[:axis]) != 1:
        return None
    indices = np.frombuffer(list_.data, np.int32).astype(np.int64) % shape[axis]
    if not np.array_equal(indices, indices[0] + np.arange(indices.size)):
        return None
    return (int(indices[0]) * math.prod(shape[axis + 1 :]),)


_FIRST = {"TPU_SLICE": _slice, "TPU_SPLIT": _split, "TPU_GATHER": _gather}


def _index(first: list[int], shape: _Shape) -> int:
    index = 0
    for at, extent in zip(first, shape, strict=True):
        index = index * extent + at
    return index
