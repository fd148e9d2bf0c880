"""Shapes of inputs that contradict constants of the model: found before anything is compiled.

A file that was exported for one shape holds numbers that follow from it: targets of reshapes, weights behind
a flattened map, positions. The file is valid, and so is the shape; together they are not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from firmware_sim.errors import ModelError, UsageError
from user_layers.onnx.apart import check_model, infer_model
from user_layers.onnx.load import inference_proto
from user_layers.onnx.model import STANDARD, Model, Node, shown
from user_layers.onnx.proto import part_proto, serialized

OTHER_SHAPES = (
    "the model holds numbers that follow from the shapes it was exported for: export it for these, or with "
    "free dimensions"
)
_CHANNELS = {
    "Conv": (1, 1),
    "ConvInteger": (1, 1),
    "DeformConv": (1, 1),
    "QLinearConv": (3, 1),
    "ConvTranspose": (1, 0),
    "BatchNormalization": (1, 0),
    "InstanceNormalization": (1, 0),
}
"""Which input has a number for each channel of the first one, and along which axis."""
_FEW = 8  # numbers of a constant that a message shows


def check_shapes(model: Model) -> None:
    """A folded model's nodes against the shapes of what they read. Errors: UsageError, or ModelError where
    nobody gave other shapes than the file's, naming the node and the constant."""
    for node in model.nodes:
        if node.domain in STANDARD and (why := _misfit(model, node)):
            raise _error(model, node, why)
    if not model.given:
        return  # the file has been checked as it is
    try:
        infer_model(serialized(inference_proto(model, model.nodes), "the model"), strict=True)
    except ModelError:
        for node in model.nodes:
            if refused := _refused(model, node):
                raise _error(model, node, refused) from None


def _misfit(model: Model, node: Node) -> str:
    """Why a node cannot do what it says, where the inference of shapes does not look at it; "" if it can."""
    if node.op == "Reshape":
        return _misshaped(model, node)
    if node.op not in _CHANNELS or not model.given:  # a file's own channels are refused where layers are made
        return ""
    index, axis = _CHANNELS[node.op]
    source = model.value(node.inputs[0]).fixed
    weights = model.value(node.inputs[index]).fixed if len(node.inputs) > index else None
    if source is None or weights is None or len(source) < 2 or len(weights) <= axis:
        return ""
    wanted = weights[axis] * int(node.attributes.get("group", 1) if axis else 1)
    return "" if source[1] == wanted else f"{source[1]} channels, where it is for {wanted}"


def _misshaped(model: Model, node: Node) -> str:
    """The same of a Reshape."""
    source, target = model.value(node.inputs[0]).fixed, model.constants.get(node.inputs[1])
    if source is None or target is None or target.ndim != 1:
        return ""
    wanted = [int(n) for n in target]
    if not node.attributes.get("allowzero", 0):
        if any(n == 0 and i >= len(source) for i, n in enumerate(wanted)):
            return f"{list(source)} has no dimension to keep for each 0 of {wanted}"
        wanted = [source[i] if n == 0 else n for i, n in enumerate(wanted)]
    count, known = math.prod(source), math.prod(n for n in wanted if n != -1)
    fits = (known and count % known == 0) if -1 in wanted else count == known
    return "" if fits or not count else f"{count} numbers cannot be reshaped to {wanted}"


def _refused(model: Model, node: Node) -> str:
    """What the packages onnx and onnxruntime say of a node with what it reads, where all of that is known."""
    if node.domain not in STANDARD or any(model.value(name).fixed is None for name in node.reads):
        return ""
    inputs = [name for name in node.reads if name not in model.constants]
    proto = part_proto(model, [node], inputs, node.makes, shapes=True)
    try:
        check_model(serialized(proto, node.title), standard=True)
    except ModelError as error:
        return error.message.rpartition("Error] ")[2]  # without the names of nodes and of errors around it
    return ""


def _error(model: Model, node: Node, why: str) -> ModelError | UsageError:
    constants = [name for name in node.reads if name in model.constants]
    others = [name for name in node.reads if name not in model.constants]
    read = " and ".join(f"{shown(name)} {list(model.value(name).fixed or ())}" for name in others)
    about = f"; it reads {read}" if read else ""
    if not model.given:
        return ModelError(f"{node.title} contradicts itself: {why}{about}")
    what = f"{_constant(model, constants[0])} of {node.title}" if constants else node.title
    return UsageError(
        f"{_given(model.given)} contradict{'s' if len(model.given) == 1 else ''} {what}: {why}{about}",
        hint=OTHER_SHAPES,
    )


def _given(shapes: Mapping[str, Sequence[int]]) -> str:
    listed = ", ".join(f"{shown(name)} {list(shape)}" for name, shape in shapes.items())
    return f"the shape{'s' if len(shapes) > 1 else ''} given, {listed},"


def _constant(model: Model, name: str) -> str:
    array = np.asarray(model.constants[name])
    if array.dtype.kind == "i" and array.size <= _FEW:
        return f"the constant {shown(name)} = {array.tolist()}"
    return f"the constant {shown(name)} {list(array.shape)}"
