"""Which elements of their input the built-in layers take that cut a part out of it, by their parameters."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from firmware_sim.chip import MAX_SHAPE_DIMS, NPU_NUM
from user_layers.net.nodes import LayerNode


def slice_starts(node: LayerNode, shape: Sequence[int]) -> list[tuple[int, int]]:
    """First element and step of a TPU_SLICE along each dimension of an input of this shape."""
    count, *numbers = struct.unpack_from(f"<{1 + 4 * MAX_SHAPE_DIMS}i", node.param)
    axes, starts, _, steps = (numbers[i * MAX_SHAPE_DIMS : i * MAX_SHAPE_DIMS + count] for i in range(4))
    found = [(0, 1)] * len(shape)
    for axis, start, step in zip(axes, starts, steps, strict=True):
        axis %= len(shape)
        low = start + shape[axis] if start < 0 else start
        found[axis] = min(max(low, 0), shape[axis] - 1), step
    return found


def slice_crosses(node: LayerNode, shape: Sequence[int]) -> bool:
    """Whether the channels that a TPU_SLICE takes lie in other lanes than those that they become."""
    return len(shape) > 1 and slice_starts(node, shape)[1][0] % NPU_NUM != 0


def axis_of(node: LayerNode, shape: Sequence[int]) -> int:
    """The dimension that a TPU_GATHER or TPU_SPLIT cuts: their first parameter."""
    axis: int = struct.unpack_from("<i", node.param)[0]
    return axis % len(shape)


def gather_crosses(node: LayerNode, shape: Sequence[int]) -> bool:
    """Whether it takes channels."""
    return axis_of(node, shape) == 1
