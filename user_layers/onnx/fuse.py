"""Fusion: what multiplies and shifts whole channels becomes one step, and part of a convolution before it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from user_layers.onnx.model import ARITHMETIC, DOMAIN, STANDARD, Array, Model, Node

AFFINE = "ChannelAffine"  # x * factor + summand for each channel: an operation of this compiler alone
_MOST = 1 << 24  # channels; each costs two numbers


@dataclass(frozen=True)
class Affine:
    """Channels or columns times factors, plus summands."""

    factor: Array  # float64, one number per channel
    summand: Array

    def then(self, other: Affine) -> Affine:
        """This, and then the other."""
        return Affine(self.factor * other.factor, self.summand * other.factor + other.summand)


def fuse_affine(model: Model) -> Model:
    """Chains of BatchNormalization and Mul, Add, Sub, Div with a constant per channel become one node
    (`ChannelAffine`), or vanish into the weights and bias of a convolution that nothing else reads."""
    constants = dict(model.constants)
    made: dict[str, int] = {}  # output -> index in `nodes`
    nodes: list[Node | None] = []
    affine: dict[str, tuple[str, Affine]] = {}  # output -> what it is computed from, and how
    # Index of a convolution -> what its results go through. Done at the end, for weights are large, and each
    # time that they are multiplied they are rounded.
    behind: dict[int, Affine] = {}

    for node in model.nodes:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # infinite and NaN in ONNX, too
            found = affine_of(model, node)
        if found is None:
            made[node.outputs[0]] = len(nodes)
            nodes.append(node)
            continue
        source, step = found
        before = affine.get(source)
        if before is not None and model.only_reader(source) is not None:
            nodes[made[source]] = None
            source, step = before[0], before[1].then(step)
        at = made.get(source)
        conv = nodes[at] if at is not None else None
        if (
            at is not None
            and conv is not None
            and conv.op == "Conv"
            and not conv.mapped
            and model.only_reader(source) is not None
            and all(name in constants for name in conv.inputs[1:] if name)
        ):
            nodes[at] = replace(conv, outputs=(node.outputs[0],))
            behind[at] = behind[at].then(step) if at in behind else step
            made[node.outputs[0]] = at
            continue
        affine[node.outputs[0]] = (source, step)
        names = []
        for what, values in (("factor", step.factor), ("summand", step.summand)):
            names.append(f"{node.outputs[0]}:{what}")
            constants[names[-1]] = values.astype(np.float32)
        made[node.outputs[0]] = len(nodes)
        nodes.append(Node(AFFINE, DOMAIN, node.name, (source, *names), (node.outputs[0],)))
    for at, step in behind.items():
        conv = nodes[at]
        assert conv is not None  # only what is in `affine` goes away
        nodes[at] = _folded(conv, step, constants)
    return replace(model, constants=constants, nodes=tuple(node for node in nodes if node is not None))


def affine_of(model: Model, node: Node) -> tuple[str, Affine] | None:
    """The input of a node that only scales and shifts channels, and how it does; None for any other node."""
    shape = model.value(node.outputs[0]).fixed
    if node.mapped or shape is None or len(shape) < 2 or model.value(node.outputs[0]).dtype != np.float32:
        return None
    channels = shape[1]
    if channels > _MOST:
        return None
    if node.op == "BatchNormalization" and node.domain in STANDARD:
        return batch_normalization(model, node, channels)
    if node.op not in ARITHMETIC or node.domain not in STANDARD:
        return None
    if "axis" in node.attributes:  # before opset 7
        return None
    left, right = node.inputs
    swapped = left in model.constants
    source, name = (right, left) if swapped else (left, right)
    if name not in model.constants or source in model.constants or (swapped and node.op in ("Sub", "Div")):
        return None
    if model.value(source).fixed != shape:
        return None
    values = model.constants[name]
    full = (1,) * (len(shape) - values.ndim) + values.shape
    if (
        len(full) != len(shape)
        or any(n != 1 for i, n in enumerate(full) if i != 1)
        or full[1] not in (1, channels)
    ):
        return None
    numbers = np.broadcast_to(values.reshape(-1).astype(np.float64), (channels,))
    ones, zeros = np.ones(channels), np.zeros(channels)
    if node.op in ("Mul", "Div"):
        return source, Affine(numbers if node.op == "Mul" else 1 / numbers, zeros)
    return source, Affine(ones, numbers if node.op == "Add" else -numbers)


def batch_normalization(model: Model, node: Node, channels: int) -> tuple[str, Affine] | None:
    """The input of a BatchNormalization with constant statistics, and what it does; None for any other."""
    if any(name not in model.constants for name in node.inputs[1:5]) or node.attributes.get(
        "training_mode", 0
    ):
        return None
    if any(name for name in node.outputs[1:]) or not node.attributes.get("spatial", 1):
        return None
    if model.opset < 7 and not node.attributes.get("is_test", 0):
        return None
    scale, shift, mean, variance = (model.constants[name].astype(np.float64) for name in node.inputs[1:5])
    if any(array.shape != (channels,) for array in (scale, shift, mean, variance)):
        return None  # onnxruntime refuses it, too
    factor = scale / np.sqrt(variance + float(node.attributes.get("epsilon", 1e-5)))
    return node.inputs[0], Affine(factor, shift - mean * factor)


def _folded(conv: Node, step: Affine, constants: dict[str, Array]) -> Node:
    """The convolution with other weights, so that its results have gone through `step`."""
    weights = constants[conv.inputs[1]].astype(np.float64)
    bias = constants[conv.inputs[2]].astype(np.float64) if len(conv.inputs) > 2 and conv.inputs[2] else 0.0
    names = (f"{conv.outputs[0]}:scaled", f"{conv.outputs[0]}:shifted")
    constants[names[0]] = (weights * step.factor.reshape(-1, *[1] * (weights.ndim - 1))).astype(np.float32)
    constants[names[1]] = (bias * step.factor + step.summand).astype(np.float32)
    return replace(conv, inputs=(conv.inputs[0], *names))
