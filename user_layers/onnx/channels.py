"""Channels that are brought to the end for a while: what happens to them there is done where they were.

Between a transpose that makes channels the last dimension and the one that takes them back, products with a
constant matrix are convolutions of one tap, and rows that are normalised are the channels of each position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from firmware_sim.isa.layout import CHANNELS_MAX
from user_layers.onnx.model import ARITHMETIC, DOMAIN, Array, Model, Node, Value

CHANNEL_NORM = "ChannelNormalization"
"""Of the channels of each position, an operation of this compiler alone. rms: as TPU_NORM's."""
ONE_BY_ONE = frozenset(
    (
        *("Relu", "LeakyRelu", "Elu", "Celu", "Selu", "Sigmoid", "Tanh", "Exp", "Erf", "Neg", "Abs", "Sqrt"),
        *("Softplus", "Softsign", "HardSigmoid", "HardSwish", "Gelu", "Swish", "Mish", "Identity", "Dropout"),
        *("Sin", "Cos"),
    )
)


def is_picture(shape: tuple[int, ...]) -> bool:
    """Whether a value of this shape has channels that TPU_NORM takes together at each position."""
    return len(shape) in (3, 4) and shape[1] <= CHANNELS_MAX


@dataclass(frozen=True)
class Moved:
    """A node in the place of another one, and the constants that it takes."""

    node: Node
    constants: dict[str, Array]


def channels_stay(model: Model) -> Model:
    """Put nodes on channels that stay second in the place of those between two transposes, where that can be
    done with all of these and nothing else reads what is between."""
    constants, values = dict(model.constants), dict(model.values)
    instead: dict[str, tuple[Node, ...]] = {}  # by the outputs of nodes that go
    for first in model.nodes:
        # With three dimensions a transpose back may be one to the end, too.
        chain = [] if first.outputs[0] in instead else list(_chain(model, first))
        if not chain or chain[-1].op != "Transpose":
            continue
        source, made = first.inputs[0], []
        for node in chain[:-1]:
            found = moved(model, node, source)
            if found is None:
                break
            made.append(found)
            source = found.node.outputs[0]
        else:
            end = chain[-1].outputs[0]
            if made:
                made[-1] = replace(made[-1], node=replace(made[-1].node, outputs=(end,)))
                nodes = tuple(one.node for one in made)
            else:
                nodes = (Node("Identity", "", chain[-1].name, (first.inputs[0],), (end,)),)
            for one, node in zip(made, chain[:-1], strict=True):
                constants.update(one.constants)
                name = one.node.outputs[0]
                shape = model.value(node.outputs[0]).fixed
                if name not in values and shape is not None:
                    values[name] = Value(name, (shape[0], shape[-1], *shape[1:-1]), np.dtype(np.float32))
            instead.update((node.outputs[0], ()) for node in (first, *chain[:-1]))
            instead[end] = nodes
    return model.with_instead(instead, constants, values)


def _chain(model: Model, first: Node) -> Iterator[Node]:
    """What follows a transpose of channels to the end, one node after the other, to the transpose back."""
    rank = to_the_end(model, first)
    node = first
    while rank:
        reader = model.only_reader(node.outputs[0])
        if reader is None:
            return
        node = reader
        if not node.is_known or len(node.makes) != 1:
            return
        value = model.value(node.outputs[0])
        if value.fixed is None or len(value.fixed) != rank or value.dtype != np.float32:
            return
        if node.op == "Transpose":
            back = [0, rank - 1, *range(1, rank - 1)]
            if [int(i) for i in node.attributes.get("perm", ())] == back:
                yield node
            return
        yield node


def to_the_end(model: Model, node: Node) -> int:
    """The dimensions of a value whose channels a transpose brings to the end; 0 for any other node."""
    value = model.value(node.outputs[0]) if node.outputs else None
    if not node.is_a("Transpose") or value is None:
        return 0
    if value.fixed is None or len(value.fixed) not in (3, 4) or value.dtype != np.float32:
        return 0
    rank = len(value.fixed)
    order = [int(i) for i in node.attributes.get("perm", ())]
    return rank if order == [0, *range(2, rank), 1] and value.fixed[-1] <= CHANNELS_MAX else 0


def moved(model: Model, node: Node, source: str, positions: int = 0) -> Moved | None:
    """What does with channels that are second what a node does with those that are last. positions:
    dimensions behind the channels, where they are not as many as the node has."""
    output = f"{node.outputs[0]}:channels"
    shape = model.value(node.inputs[0]).fixed or model.value(node.inputs[-1]).fixed
    made = model.value(node.outputs[0]).fixed
    if made is None or shape is None:
        return None
    plane = (1,) * (positions or len(made) - 2)
    if node.op in ONE_BY_ONE:
        return Moved(replace(node, inputs=(source, *node.inputs[1:]), outputs=(output,), proto=None), {})
    if node.op == "MatMul":
        return _convolution(model, node, source, output, plane)
    if node.op in ("LayerNormalization", "RMSNormalization"):
        axis = int(node.attributes.get("axis", -1))
        if axis not in (-1, len(made) - 1) or not all(n in model.constants for n in node.inputs[1:] if n):
            return None
        attributes = {"epsilon": node.attributes.get("epsilon", 1e-5), "rms": int(node.op[0] == "R")}
        inputs = (source, *node.inputs[1:])
        return Moved(Node(CHANNEL_NORM, DOMAIN, node.name, inputs, (output,), attributes), {})
    if node.op in ARITHMETIC and len(node.inputs) == 2 and "axis" not in node.attributes:
        return _with_constant(model, node, source, output, plane)
    return None


def _convolution(model: Model, node: Node, source: str, output: str, plane: tuple[int, ...]) -> Moved | None:
    right = model.constants.get(node.inputs[1])
    if right is None or right.ndim != 2 or right.dtype != np.float32 or node.inputs[0] in model.constants:
        return None
    if max(right.shape) > CHANNELS_MAX:
        return None
    factor = np.float32(node.attributes.get("alpha", 1.0))
    constants: dict[str, Array] = {
        f"{output}:weights": (right.T * factor).reshape(*right.shape[::-1], *plane)
    }
    if len(node.inputs) > 2:
        bias = model.constants.get(node.inputs[2])
        if bias is None:
            return None
        constants[f"{output}:bias"] = bias
    attributes = {"kernel_shape": [1] * len(plane)}
    return Moved(Node("Conv", "", node.name, (source, *constants), (output,), attributes), constants)


def _with_constant(
    model: Model, node: Node, source: str, output: str, plane: tuple[int, ...]
) -> Moved | None:
    """A sum or product with one number, or one for each channel."""
    at = next((i for i, name in enumerate(node.inputs) if name in model.constants), None)
    if at is None or node.inputs[1 - at] in model.constants:
        return None
    values = model.constants[node.inputs[at]]
    channels = (model.value(node.outputs[0]).fixed or ())[-1]
    if values.size not in (1, channels) or (values.size > 1 and values.shape[-1] != channels):
        return None
    if model.value(node.inputs[1 - at]).fixed != model.value(node.outputs[0]).fixed:
        return None
    name = f"{output}:numbers"
    numbers = values.reshape(-1, *plane) if values.size > 1 else values.reshape(())
    order: Callable[[str, str], tuple[str, str]] = (lambda a, b: (a, b)) if at else (lambda a, b: (b, a))
    return Moved(replace(node, inputs=order(source, name), outputs=(output,), proto=None), {name: numbers})
