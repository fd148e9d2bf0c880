"""What a node's attributes say of its windows, as onnxruntime takes them."""

from __future__ import annotations

import math

from user_layers.onnx.model import Node
from user_layers.onnx.unfold import Axis


def axes_of(node: Node, extents: tuple[int, ...], kernel: tuple[int, ...]) -> list[Axis]:
    """The windows of a node along each of its spatial axes."""
    rank = len(extents)

    def option(name: str, default: int) -> list[int]:
        return [int(v) for v in node.attributes.get(name, [default] * rank)]

    strides, dilations = option("strides", 1), option("dilations", 1)
    pads = [int(v) for v in node.attributes.get("pads", [0] * 2 * rank)]
    auto = node.attributes.get("auto_pad", "NOTSET")
    found = []
    for i, extent in enumerate(extents):
        stride, before, after, extra = strides[i], pads[i], pads[i + rank], 0
        reach = (kernel[i] - 1) * dilations[i] + 1
        if auto in ("SAME_UPPER", "SAME_LOWER"):
            total = max(0, (math.ceil(extent / stride) - 1) * stride + reach - extent)
            small = total // 2
            before, after = (small, total - small) if auto == "SAME_UPPER" else (total - small, small)
        elif auto == "VALID":
            before = after = 0
        if node.attributes.get("ceil_mode", 0) and auto == "NOTSET":
            room = extent + before + after - reach
            count = math.ceil(room / stride) + 1
            if (count - 1) * stride >= extent + before:  # a window that begins behind the data
                count -= 1
            extra = max(0, (count - 1) * stride - room)
        found.append(Axis(int(kernel[i]), stride, dilations[i], before, after, extra))
    return found


def windows_along(axis: Axis, extent: int) -> int:
    """How many there are."""
    reach = (axis.kernel - 1) * axis.dilation + 1
    return (extent + axis.before + axis.after + axis.extra - reach) // axis.stride + 1
