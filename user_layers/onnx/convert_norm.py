"""ONNX normalisations."""

from __future__ import annotations

import numpy as np

from user_layers.net.functions import BINARY
from user_layers.onnx.channels import CHANNEL_NORM
from user_layers.onnx.convert_composed import Steps
from user_layers.onnx.convert_window import whole
from user_layers.onnx.lower import Lowering, Unsupported, axis_of, converts
from user_layers.onnx.model import Array, Node
from user_layers.onnx.patterns.unit_rows import UNIT_ROWS


def _norm(to: Lowering, node: Node, groups: int, axis: int, rms: int = 0) -> None:
    to.need_float(*node.inputs)
    if len([name for name in node.outputs if name]) > 1:
        raise Unsupported("mean and deviation as outputs")
    # No numbers that the node does not have: without any it may get other extents than it was compiled for.
    last = max((i for i, name in enumerate(node.inputs) if name), default=0)
    volume = groups not in (0, -2) and to.in_planes(node.inputs[0]) and to.shape(node.inputs[0])[0] == 1
    given = [_numbers(to, node, index, groups, axis) for index in range(1, 1 + (2 if volume else last))]
    epsilon = float(node.attributes.get("epsilon", 1e-5))
    if volume:
        _norm_of_planes(to, node, groups, epsilon, *given)
        return
    inputs = [to.add_const(values, f"{node.outputs[0]}:{i + 1}") for i, values in enumerate(given)]
    inputs.insert(0, to.tensor(node.inputs[0]))
    to.simple("TPU_NORM", node, inputs, {"groups": groups, "axis": axis, "rms": rms, "epsilon": epsilon})


def _numbers(to: Lowering, node: Node, index: int, groups: int, axis: int) -> Array:
    """The factors (1) or summands (2) of a normalisation, one after the other; those that change nothing
    where it has none."""
    values, shape = to.known(node, index), to.shape(node.inputs[0])
    if values is None:
        count = shape[1] if groups else int(np.prod(shape[axis:]))
        values = np.full(count, 2.0 - index, np.float32)
    elif groups > 0 and values.size == groups:  # as opset 18 had them
        values = np.repeat(values, shape[1] // groups)
    return np.ascontiguousarray(values).reshape(-1)


def _norm_of_planes(
    to: Lowering, node: Node, groups: int, epsilon: float, scale: Array, shift: Array
) -> None:
    """Of a volume that is there as planes, [D, C, H, W], which stay where they are: mean and variance of each
    plane, and from them those of all planes of a group. Squares are of distances from means, as in TPU_NORM.
    """
    do, x = Steps(to, node), to.planes(node.inputs[0])
    before, channels = len(to.graph.nodes), len(scale)
    count = groups if groups > 0 else channels
    apart, each = (1, count, channels // count), (1, channels, 1, 1)
    means = to.between("TPU_POOL", node, [x], whole(average=True))
    squares = do.one("SQUARE", do.two("SUB", x, means))
    variances = do.shaped(to.between("TPU_POOL", node, [squares], whole(average=True)), (0, *apart[1:]))
    means = do.shaped(means, (0, *apart[1:]))
    mean = do.reduced("Mean", means, [0, 2])
    variances = do.two("ADD", variances, do.one("SQUARE", do.two("SUB", means, mean)))
    root = do.one("SQRT", do.by("ADD", do.reduced("Mean", variances, [0, 2]), epsilon))
    factors = do.two("DIV", do.numbers(scale, apart, "scale"), root)
    if count < channels:  # for each channel of a group
        mean = do.two("ADD", mean, do.numbers(np.zeros(channels), apart, "channels"))
    mean, factors = do.shaped(mean, each), do.shaped(factors, each)  # views, which would part the next layers
    scaled = do.two("MUL", do.two("SUB", x, mean), factors)
    param = {"binary_op": BINARY["ADD"]}
    to.plane_by_plane("TPU_BINARY", node, [scaled, do.numbers(shift, each, "shift")], param)
    # Squares of channels that vary little are nothing beside those of others.
    to.graph.statistics.update(name for one in to.graph.nodes[before:] for name in one.outputs)


@converts("LayerNormalization")
def layer_normalization(to: Lowering, node: Node) -> None:
    """Over all dimensions from the axis on. Unsupported where mean or deviation are outputs too."""
    rank = len(to.shape(node.inputs[0]))
    _norm(to, node, 0, axis_of(int(node.attributes.get("axis", -1)), rank))


@converts("GroupNormalization")
def group_normalization(to: Lowering, node: Node) -> None:
    """Over groups of channels, with a factor and a summand per channel, in opset 18 per group."""
    _norm(to, node, int(node.attributes["num_groups"]), 0)


@converts(CHANNEL_NORM)
def channel_normalization(to: Lowering, node: Node) -> None:
    """Over the channels of each position (channels.py)."""
    rms = int(node.attributes["rms"])
    if rms == 2:
        _of_length_one(to, node, -2)
    else:
        _norm(to, node, -2, 0, rms=rms)


@converts(UNIT_ROWS)
def unit_rows(to: Lowering, node: Node) -> None:
    """Rows of length one."""
    _of_length_one(to, node, 0)


def _of_length_one(to: Lowering, node: Node, groups: int) -> None:
    param = {"groups": groups, "axis": -1, "rms": 2, "epsilon": float(node.attributes["epsilon"])}
    to.simple("TPU_NORM", node, [to.tensor(node.inputs[0])], param)


@converts("RMSNormalization")
def rms_normalization(to: Lowering, node: Node) -> None:
    """Over all dimensions from the axis on, without a mean that is subtracted."""
    rank = len(to.shape(node.inputs[0]))
    _norm(to, node, 0, axis_of(int(node.attributes.get("axis", -1)), rank), rms=1)


@converts("InstanceNormalization")
def instance_normalization(to: Lowering, node: Node) -> None:
    """Over each plane, with a factor and a summand per channel."""
    _norm(to, node, -1, 0)
