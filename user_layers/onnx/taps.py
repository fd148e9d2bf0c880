"""Rows, columns and planes of kernels that see nothing but pads: those of wide dilations over small pictures,
and those over volumes of few planes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from user_layers.onnx.model import Array, Model, Node


def without_idle_taps(model: Model) -> Model:
    """Convolutions with constant weights without the outer taps, along each dilated axis and along the planes
    of volumes, that only pads come to. (Without dilation that happens to small pictures, where it saves
    nothing, and smaller shapes of a dynamic net would have other weights.)"""
    constants = dict(model.constants)
    nodes = tuple(_shortened(model, node, constants) for node in model.nodes)
    return replace(model, nodes=nodes, constants=constants)


def _shortened(model: Model, node: Node, constants: dict[str, Array]) -> Node:
    if not node.is_a("Conv"):
        return node
    shape, made = (model.value(name).fixed for name in (node.inputs[0], node.outputs[0]))
    weights = model.constants.get(node.inputs[1])
    if (
        shape is None
        or made is None
        or weights is None
        or node.attributes.get("auto_pad", "NOTSET") != "NOTSET"
    ):
        return node
    axes = len(shape) - 2
    pads = [int(p) for p in node.attributes.get("pads", [0] * 2 * axes)]
    strides = node.attributes.get("strides", [1] * axes)
    dilations = node.attributes.get("dilations", [1] * axes)
    part: list[slice] = []
    for i, kernel in enumerate(weights.shape[2:]):
        seen = [
            tap
            for tap in range(kernel)
            if (int(dilations[i]) == 1 and (axes, i) != (3, 0))
            or _sees(shape[2 + i], made[2 + i], tap * int(dilations[i]) - pads[i], int(strides[i]))
        ]
        if not seen:
            return node  # nothing but the bias: left as it is
        first, end = seen[0], seen[-1] + 1
        part.append(slice(first, end))
        pads[i] -= first * int(dilations[i])
        pads[axes + i] -= (kernel - end) * int(dilations[i])
    if all(p == slice(0, k) for p, k in zip(part, weights.shape[2:], strict=True)) or min(pads) < 0:
        return node
    name = f"{node.outputs[0]}:taps"
    place = (slice(None), slice(None), *part)
    constants[name] = np.ascontiguousarray(weights[place])
    attributes: dict[str, Any] = {**node.attributes, "pads": pads}
    attributes["kernel_shape"] = list(constants[name].shape[2:])
    return replace(node, inputs=(node.inputs[0], name, *node.inputs[2:]), attributes=attributes, proto=None)


def _sees(extent: int, made: int, first: int, stride: int) -> bool:
    """Whether first + i * stride is inside for any of the results."""
    return any(0 <= first + i * stride < extent for i in range(made))
