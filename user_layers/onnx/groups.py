"""Convolutions in many small groups: several together, with zeros between, where lanes would stay empty.

A group's convolution works on as many lanes as it has output channels, and takes as long with two input
channels as with ten. Four groups together multiply four times as much, on four times as many lanes.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from firmware_sim.chip import NPU_NUM
from firmware_sim.isa.timing import convolution
from user_layers.onnx.model import Array, Model, Node

_LOADED = 50  # bytes of weights in a cycle
_VOLUME = 5  # dimensions
_GAIN = 0.9  # of the cycles at most, for it to be worth the memory


def join_groups(model: Model) -> Model:
    """Convolutions with constant weights in fewer groups, where the clock says that this is faster. An
    infinity or a NaN in one group's input then reaches the results of those it is together with."""
    constants = dict(model.constants)
    nodes = tuple(_joined(model, node, constants) for node in model.nodes)
    return replace(model, nodes=nodes, constants=constants)


def _joined(model: Model, node: Node, constants: dict[str, Array]) -> Node:
    groups = int(node.attributes.get("group", 1))
    if not node.is_a("Conv") or groups == 1:
        return node
    weights, made = model.constants.get(node.inputs[1]), model.value(node.outputs[0]).fixed
    shape = model.value(node.inputs[0]).fixed
    if weights is None or made is None or weights.dtype != np.float32 or len(made) > _VOLUME or shape is None:
        return node
    if groups < 1 or not weights.size or not 3 <= len(made) == weights.ndim == len(shape):
        return node
    outputs, inputs = weights.shape[0] // groups, weights.shape[1]
    if shape[1] != inputs * groups or weights.shape[0] != outputs * groups:
        return node  # the layer says what does not fit
    if outputs == inputs == 1:  # depthwise, which has a command of its own
        return node
    stride = int(node.attributes.get("strides", [1])[-1])
    cycles = {
        together: _cycles(made, weights, groups // together, inputs * together, stride)
        for together in range(1, groups + 1)
        if groups % together == 0
    }
    best = min(cycles, key=lambda together: cycles[together])
    if cycles[best] > _GAIN * cycles[1]:
        return node
    name = f"{node.outputs[0]}:together{best}"
    wide = np.zeros((weights.shape[0], inputs * best, *weights.shape[2:]), np.float32)
    for channel in range(weights.shape[0]):
        at = channel // outputs % best * inputs
        wide[channel, at : at + inputs] = weights[channel]
    constants[name] = wide
    attributes = {**node.attributes, "group": groups // best}
    return replace(node, inputs=(node.inputs[0], name, *node.inputs[2:]), attributes=attributes, proto=None)


def _cycles(made: tuple[int, ...], weights: Array, groups: int, inputs: int, stride: int) -> float:
    """Of all groups' commands, and of loading their weights. Volumes are convolved plane by plane."""
    outputs = weights.shape[0] // groups
    line: tuple[int, ...] = (1,) if weights.ndim == 3 else ()
    *depths, height, width = weights.shape[2:] + line
    *planes, rows, columns = made[2:] + line
    kernel, taps = (height, width), math.prod(depths)
    result = (made[0] * math.prod(planes), outputs, rows, columns)
    # As many lanes behind one another as groups begin on.
    begins = range(0, outputs * groups, outputs)
    command = [
        convolution(result, lane % NPU_NUM, inputs, kernel, stride, bias=False).chip for lane in begins
    ]
    loaded = 4 * math.prod(weights.shape[2:]) * weights.shape[0] * inputs
    total: float = taps * sum(command) + loaded / _LOADED
    return total
