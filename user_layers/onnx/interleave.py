"""Values whose elements lie between one another, as of a stack along a new last dimension that becomes part
of the one before: put behind one another instead, and brought into their order by a product with ones.

Copied element by element that takes cycles for each; rows are copied as they are, and the product does the
rest. Its results are the same numbers where all are finite.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from user_layers.onnx.model import Model, Node
from user_layers.onnx.work import DDR_BYTES, PRODUCT_MACS

_COPIED = 3.8  # cycles for an element that lies alone
_MOVED = 16  # bytes of an element that is put behind others, then multiplied


def order_by_products(model: Model) -> Model:
    """Put a concatenation of rows and a product in the place of stacked elements, where that is faster."""
    instead: dict[str, list[Node]] = {}
    constants, values = dict(model.constants), dict(model.values)
    for node in model.nodes:
        parts = _stacked(model, node)
        if parts is None:
            continue
        made = model.value(node.outputs[0])
        assert made.fixed is not None
        size, count = made.fixed[-1], len(parts)
        order = np.eye(size, dtype=np.float32).reshape(count, -1, size).swapaxes(0, 1)
        rows, places = f"{node.outputs[0]}:stacked", f"{node.outputs[0]}:order"
        # Element i of part k, which is at k * (size / count) + i, goes to i * count + k.
        constants[places] = np.ascontiguousarray(order.reshape(size, size).T)
        values[rows] = replace(made, name=rows)
        instead[node.outputs[0]] = [
            Node("Concat", "", node.name, parts, (rows,), {"axis": len(made.fixed) - 1}),
            Node("MatMul", "", node.name, (rows, places), node.outputs),
        ]
    return model.with_instead(instead, constants, values)


def _stacked(model: Model, node: Node) -> tuple[str, ...] | None:
    """The parts whose elements a Reshape puts between one another."""
    stack = model.makers.get(node.inputs[0]) if node.is_a("Reshape") else None
    made = model.value(node.outputs[0])
    if stack is None or not stack.is_a("Concat") or made.fixed is None or made.dtype != np.float32:
        return None
    if model.only_reader(stack.outputs[0]) is None:
        return None
    shape = model.value(stack.outputs[0]).fixed
    if shape is None or made.fixed != (*shape[:-2], math.prod(shape[-2:])) or shape[-1] != len(stack.inputs):
        return None
    if int(stack.attributes["axis"]) not in (-1, len(shape) - 1) or len(stack.inputs) < 2:
        return None
    if made.fixed[-1] / PRODUCT_MACS + _MOVED / DDR_BYTES >= _COPIED:
        return None
    parts = [model.makers.get(name) for name in stack.inputs]
    found = tuple(part.inputs[0] for part in parts if part is not None and part.is_a("Unsqueeze", "Reshape"))
    alone = all(model.value(name).fixed == shape[:-1] for name in found)
    return found if len(found) == len(parts) and alone else None
