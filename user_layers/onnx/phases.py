"""Transposed convolutions with few output channels as convolutions for all phases of the stride.

How that is done is in `net/phases.py`. The other way, a convolution over an input with zeros between its
elements, multiplies stride x stride times as much, on as few lanes as there are output channels; but it makes
its output in place.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from firmware_sim.chip import NPU_NUM
from user_layers.net.phases import Axis, phases
from user_layers.onnx.model import STANDARD, Model, Node

_MACS = 32  # multiply-accumulates of a lane in a cycle, fp32
_MOVED = 8  # cycles for an element that goes through DepthToSpace, its way to DDR included
PAD_MOST = 15  # of a convolution


def split_phases(model: Model) -> Model:
    """Put Conv and DepthToSpace in the place of ConvTranspose where that takes fewer cycles."""
    constants = dict(model.constants)
    values = dict(model.values)
    nodes: list[Node] = []
    for node in model.nodes:
        axes = _axes(model, node)
        if axes is None:
            nodes.append(node)
            continue
        name, (h, w) = node.outputs[0], axes
        weights = constants[node.inputs[1]]
        constants[f"{name}:phases"] = phases(weights, h, w)
        inputs = [node.inputs[0], f"{name}:phases"]
        if len(node.inputs) > 2 and node.inputs[2]:
            constants[f"{name}:bias"] = np.tile(constants[node.inputs[2]], h.stride**2)
            inputs.append(f"{name}:bias")
        made = f"{name}:squares"
        value = model.value(name)
        assert value.fixed is not None  # _axes looks at nothing else
        shape = (value.fixed[0], len(constants[inputs[1]]), h.out // h.stride, w.out // w.stride)
        values[made] = replace(value, name=made, shape=shape)
        attributes = {
            "kernel_shape": [h.taps, w.taps],
            "pads": [h.pads[0], w.pads[0], h.pads[1], w.pads[1]],
        }
        nodes.append(Node("Conv", "", node.name, tuple(inputs), (made,), attributes))
        squares = {"blocksize": h.stride, "mode": "DCR"}
        nodes.append(Node("DepthToSpace", "", f"{node.name}:pixels", (made,), node.outputs, squares))
    return replace(model, constants=constants, values=values, nodes=tuple(nodes))


def _axes(model: Model, node: Node) -> tuple[Axis, Axis] | None:
    """Both axes of a transposed convolution that takes fewer cycles by phases; None for any other node."""
    if node.op != "ConvTranspose" or node.domain not in STANDARD or node.mapped:
        return None
    weights = model.constants.get(node.inputs[1])
    known = [name in model.constants for name in node.inputs[2:] if name]
    given, out = (model.value(name).fixed for name in (node.inputs[0], node.outputs[0]))
    if weights is None or weights.ndim != 4 or not all(known) or given is None or out is None:
        return None
    if any(model.value(name).dtype != np.float32 for name in (node.inputs[0], node.outputs[0])):
        return None
    plain = node.attributes.get("auto_pad", "NOTSET") == "NOTSET" and "output_shape" not in node.attributes
    strides = [int(v) for v in node.attributes.get("strides", (1, 1))]
    dilations = [int(v) for v in node.attributes.get("dilations", (1, 1))]
    if not plain or node.attributes.get("group", 1) != 1 or dilations != [1, 1]:
        return None
    if strides[0] != strides[1] or strides[0] < 2:
        return None
    pads = [int(v) for v in node.attributes.get("pads", (0, 0, 0, 0))]
    h, w = (Axis(given[i + 2], out[i + 2], weights.shape[i + 2], strides[i], pads[i]) for i in (0, 1))
    if not all(_possible(axis) for axis in (h, w)):
        return None
    ins, outs = weights.shape[:2]
    pixels, parts = h.out * w.out, h.stride**2
    zeros = -(-outs // NPU_NUM) * pixels * h.kernel * w.kernel
    phased = -(-outs * parts // NPU_NUM) * (pixels // parts) * h.taps * w.taps
    return (h, w) if (zeros - phased) * ins > _MACS * _MOVED * outs * pixels else None


def _possible(axis: Axis) -> bool:
    return axis.out % axis.stride == 0 and all(0 <= pad <= PAD_MOST for pad in axis.pads)
