"""Normalisations of rows before the transposes in front of them, which leave rows as they are: so attention
sees through those, and nothing is moved for its queries and keys."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from user_layers.onnx.model import Model, Node, Value
from user_layers.onnx.rows import NORMS
from user_layers.onnx.views import RESHAPES

_BETWEEN = ("Transpose", "Mul", "Div", *RESHAPES)  # and a product that makes scores


def rows_before_transposes(model: Model) -> Model:
    """Put transposes that keep the last dimension behind normalisations of it whose results are multiplied
    by matrices."""
    values, instead = dict(model.values), dict[str, list[Node]]()
    for node in model.nodes:
        turn = model.makers.get(node.inputs[0]) if node.inputs else None
        if turn is None or not turn.is_a("Transpose") or not _of_rows(model, node):
            continue
        source, turned, made = turn.inputs[0], turn.outputs[0], node.outputs[0]
        shape = model.value(source).fixed
        order = [int(i) for i in turn.attributes.get("perm", ())]
        if shape is None or order[-1:] != [len(shape) - 1] or len(shape) < 3:
            continue
        if model.only_reader(turned) is None or not _is_multiplied(model, made):
            continue
        rows = f"{made}:rows"
        values[rows] = Value(rows, shape, np.dtype(np.float32))
        instead[turned] = []
        instead[made] = [
            replace(node, inputs=(source, *node.inputs[1:]), outputs=(rows,), proto=None),
            replace(turn, inputs=(rows,), outputs=(made,), proto=None),
        ]
    return model.with_instead(instead, model.constants, values)


def _of_rows(model: Model, node: Node) -> bool:
    """Whether a node normalises the last dimension of an fp32 value alone, by constants of one row."""
    if not node.is_known or node.op not in NORMS or len(node.outputs) != 1:
        return False
    shape = model.value(node.inputs[0]).fixed
    given = [model.constants.get(name) for name in node.inputs[1:] if name]
    if shape is None or model.value(node.outputs[0]).dtype != np.float32:
        return False
    if int(node.attributes.get("axis", -1)) not in (-1, len(shape) - 1):
        return False
    return all(one is not None and one.ndim <= 1 for one in given)


def _is_multiplied(model: Model, name: str) -> bool:
    """Whether what a value becomes is an operand of a product of two matrices that are computed."""
    while (reader := model.only_reader(name)) is not None and reader.is_plain and reader.outputs:
        if reader.op == "MatMul":
            return not any(one in model.constants for one in reader.inputs)
        if reader.op not in _BETWEEN:
            return False
        name = reader.outputs[0]
    return False
