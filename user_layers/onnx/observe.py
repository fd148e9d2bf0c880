"""Shapes that no inference finds, seen by running the nodes on onnxruntime.

Only where the shape cannot depend on values: not behind operations whose results are as large as the data
want (NonZero, Loop), nor where a computed value says how large a result is. A net with such a shape checks it
each time it runs.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from firmware_sim.errors import CompileError, ModelError
from user_layers.onnx.apart import run_model
from user_layers.onnx.check import random_inputs
from user_layers.onnx.model import CUSTOM_DOMAIN, Model, Node, Value
from user_layers.onnx.proto import part_proto, serialized
from user_layers.runtime.onnx_limits import FOLD_S

_BY_DATA = {
    *("NonZero", "Unique", "Compress", "NonMaxSuppression", "StringSplit", "StringNormalizer"),
    *("Loop", "If", "Scan", "Range", "ConstantOfShape", "CenterCropPad", "ImageDecoder"),
    *("Optional", "OptionalGetElement", "OptionalHasElement"),
}
_BY_OPERAND = {  # operands that say how large a result is
    "Reshape": (1,),
    "Expand": (1,),
    "Tile": (1,),
    "Slice": (1, 2, 3, 4),
    "Pad": (1, 3),
    "Resize": (2, 3),
    "Upsample": (1,),
    "TopK": (1,),
    "OneHot": (1,),
    "Split": (1,),
    "SplitToSequence": (1,),
    "Squeeze": (1,),
    "Unsqueeze": (1,),
    "SequenceAt": (1,),
    "SequenceErase": (1,),
    "SequenceInsert": (2,),
    "AffineGrid": (1,),
    "Col2Im": (1, 2),
    "MaxUnpool": (2,),
}


def observe_shapes(model: Model) -> Model:
    """The model with shapes of values that two runs on different random inputs agree about."""
    makers = model.makers
    by_values = _by_values(model)
    wanted = [
        name
        for name in makers
        if (value := model.value(name)).kind == "tensor" and value.fixed is None and name not in by_values
    ]
    if not wanted:
        return model
    needed = _cone(makers, wanted)
    nodes = [node for node in model.nodes if node.outputs and id(node) in needed]
    read = {name for node in nodes for name in node.reads}
    inputs = [value.name for value in model.inputs if value.name in read]
    seen = []
    proto = serialized(part_proto(model, nodes, inputs, wanted, shapes=True), "the model")
    try:
        for seed in (1, 2):
            feeds = {name: array for name, array in random_inputs(model, seed).items() if name in inputs}
            seen.append(run_model(proto, feeds, FOLD_S))
    except (
        ModelError,
        CompileError,
    ):  # what onnxruntime cannot run stays unknown, and is refused by name later
        return model
    values = dict(model.values)
    for name, first, second in zip(wanted, *seen, strict=True):
        if isinstance(first, np.ndarray) and first.shape == second.shape:
            old = model.value(name)
            values[name] = Value(name, first.shape, old.dtype or first.dtype, observed=True)
    return replace(model, values=values, outputs=tuple(values.get(v.name, v) for v in model.outputs))


def _by_values(model: Model) -> set[str]:
    """The values whose shapes can depend on other values."""
    found: set[str] = set()
    for node in model.nodes:
        if _depends(model, node) or not found.isdisjoint(node.reads):
            found.update(node.makes)
    return found


def _depends(model: Model, node: Node) -> bool:
    if node.op in _BY_DATA or node.domain == CUSTOM_DOMAIN:
        return True
    operands = _BY_OPERAND.get(node.op, (1,) if node.op.startswith("Reduce") else ())
    names = (node.inputs[i] for i in operands if i < len(node.inputs))
    return any(name and name not in model.constants for name in names)


def _cone(makers: dict[str, Node], names: list[str]) -> set[int]:
    """The nodes (by id) that values depend on."""
    found: set[int] = set()
    todo = list(names)
    while todo:
        node = makers.get(todo.pop())
        if node is not None and id(node) not in found:
            found.add(id(node))
            todo += node.reads
    return found
