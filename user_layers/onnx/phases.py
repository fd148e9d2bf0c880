"""Transposed convolutions with few output channels as convolutions for all phases of the stride.

How that is done is in `net/phases.py`. The other way, TPU_DECONV, works on as few lanes as there are output
channels, phase by phase where that pays, or over zeros; but it makes its output in place.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from firmware_sim.isa import timing
from firmware_sim.isa.layout import CHANNELS_MAX, WINDOW_STEP_MAX
from user_layers.net.phases import CHANNELS_TOLD, Axis, Direction, deconvolution, phases
from user_layers.onnx.model import Array, Model, Node, Value

_MOVED = 1.0  # cycles for an element that goes through DepthToSpace or a Transpose, its way to DDR included
_LINE = 3  # dimensions of the weights of lines


def split_phases(model: Model) -> Model:
    """Put Conv and DepthToSpace, of lines a Transpose, in the place of ConvTranspose where that takes fewer
    cycles."""
    constants = dict(model.constants)
    values = dict(model.values)
    nodes: list[Node] = []
    for node in model.nodes:
        axes = _axes(model, node)
        if axes is None:
            nodes.append(node)
            continue
        nodes += _by_phases(model, node, *axes, constants, values)
    return replace(model, constants=constants, values=values, nodes=tuple(nodes))


def _by_phases(
    model: Model, node: Node, h: Axis, w: Axis, constants: dict[str, Array], values: dict[str, Value]
) -> list[Node]:
    """What stands in the place of a transposed convolution. h: of lines an axis of one element."""
    name, weights = node.outputs[0], constants[node.inputs[1]]
    value = model.value(name)
    outs, line, parts = weights.shape[1], weights.ndim == _LINE, h.stride * w.stride
    made = phases(weights[:, :, None] if line else weights, h, w)
    inputs = [node.inputs[0], f"{name}:phases"]
    bias = constants[node.inputs[2]] if len(node.inputs) > 2 and node.inputs[2] else None
    if line:  # the phases of a channel side by side
        made = made.reshape(parts, outs, *made.shape[1:]).swapaxes(0, 1).reshape(parts * outs, -1, w.taps)
    constants[inputs[1]] = made
    if bias is not None:
        constants[f"{name}:bias"] = np.repeat(bias, parts) if line else np.tile(bias, parts)
        inputs.append(f"{name}:bias")
    axes, squares = (w,) if line else (h, w), f"{name}:squares"
    assert value.fixed is not None  # _axes looks at nothing else
    shape = (value.fixed[0], parts * outs, *(axis.out // axis.stride for axis in axes))
    values[squares] = replace(value, name=squares, shape=shape)
    attributes = {
        "kernel_shape": [axis.taps for axis in axes],
        "pads": [axis.pads[side] for side in (0, 1) for axis in axes],
    }
    conv = Node("Conv", "", node.name, tuple(inputs), (squares,), attributes)
    if not line:
        pixels = {"blocksize": h.stride, "mode": "DCR"}
        return [conv, Node("DepthToSpace", "", f"{node.name}:pixels", (squares,), node.outputs, pixels)]
    apart, turned = f"{name}:apart", f"{name}:turned"
    values[apart] = replace(value, name=apart, shape=(shape[0], outs, parts, shape[2]))
    values[turned] = replace(value, name=turned, shape=(shape[0], outs, shape[2], parts))
    constants[f"{apart}:shape"] = np.array([0, outs, parts, -1], np.int64)
    constants[f"{name}:shape"] = np.array([0, 0, -1], np.int64)
    return [
        conv,
        Node("Reshape", "", f"{node.name}:apart", (squares, f"{apart}:shape"), (apart,)),
        Node("Transpose", "", f"{node.name}:turned", (apart,), (turned,), {"perm": [0, 1, 3, 2]}),
        Node("Reshape", "", f"{node.name}:line", (turned, f"{name}:shape"), node.outputs),
    ]


def _axes(model: Model, node: Node) -> tuple[Axis, Axis] | None:
    """Both axes of a transposed convolution that takes fewer cycles by phases; None for any other node."""
    if not node.is_a("ConvTranspose"):
        return None
    weights = model.constants.get(node.inputs[1])
    known = [name in model.constants for name in node.inputs[2:] if name]
    given, out = (model.value(name).fixed for name in (node.inputs[0], node.outputs[0]))
    if (
        weights is None
        or weights.ndim not in (_LINE, _LINE + 1)
        or not all(known)
        or given is None
        or out is None
    ):
        return None
    if any(model.value(name).dtype != np.float32 for name in (node.inputs[0], node.outputs[0])):
        return None
    plain = node.attributes.get("auto_pad", "NOTSET") == "NOTSET" and "output_shape" not in node.attributes
    rank = weights.ndim - 2
    strides = [int(v) for v in node.attributes.get("strides", [1] * rank)]
    dilations = [int(v) for v in node.attributes.get("dilations", [1] * rank)]
    if not plain or node.attributes.get("group", 1) != 1 or dilations != [1] * rank:
        return None
    if strides[0] != strides[-1] or strides[0] < 2:
        return None
    pads = [int(v) for v in node.attributes.get("pads", [0] * 2 * rank)]
    own = [Axis(given[i + 2], out[i + 2], weights.shape[i + 2], strides[i], pads[i]) for i in range(rank)]
    h, w = [Axis(1, 1, 1, 1, 0), *own][-2:]
    if not all(_possible(axis) for axis in (h, w)):
        return None
    n, (ins, outs) = given[0], weights.shape[:2]
    return (h, w) if _squares(n, ins, outs, h, w) < _in_place(n, ins, outs, h, w) else None


def _squares(n: int, ins: int, outs: int, h: Axis, w: Axis) -> float:
    """Cycles of the convolution for all phases, and of what brings its pixels to their places, part of which
    goes on at the same time."""
    shape = n, outs * h.stride * w.stride, h.out // h.stride, w.out // w.stride
    told = max(ins, CHANNELS_TOLD)
    computed = timing.convolution(shape, 0, told, (h.taps, w.taps), 1, bias=True).chip
    moved = _MOVED * n * outs * h.out * w.out
    return max(computed, moved) + moved / 2


def _in_place(n: int, ins: int, outs: int, h: Axis, w: Axis) -> float:
    """Cycles of TPU_DECONV, the rows of all phases as channels where that is faster (compiler/stacked.py)."""
    if max(h.stride, w.stride) > WINDOW_STEP_MAX + 1:
        return math.inf
    rows, columns = _direction(h), _direction(w)
    found = [deconvolution((n, outs, h.out, w.out), ins, rows, columns, bias=True)]
    if 1 < h.stride <= CHANNELS_MAX // outs:
        plain = Direction(h.taps, 1, 1, max(h.pads[0], 0), max(h.pads[1], 0))
        stacked = n, outs * h.stride, h.out // h.stride, w.out
        found.append(deconvolution(stacked, ins, plain, columns, bias=True))
    return min(found)


def _direction(axis: Axis) -> Direction:
    reach = axis.kernel - 1
    left_out = (axis.size - 1) * axis.stride + axis.kernel - axis.pad - axis.out  # less what is put behind
    return Direction(axis.kernel, axis.stride, 1, reach - axis.pad, reach - left_out)


def _possible(axis: Axis) -> bool:
    return axis.out % axis.stride == 0 and all(0 <= pad <= WINDOW_STEP_MAX for pad in axis.pads)
