"""How much a node computes: multiply-accumulates, by the shapes of what it reads and makes."""

from __future__ import annotations

import math
from collections.abc import Callable

from firmware_sim.chip import NPU_NUM
from user_layers.onnx.attention import ATTENTION
from user_layers.onnx.model import DOMAIN, STANDARD, Model, Node

PRODUCT_MACS = 16 * NPU_NUM
"""Multiply-accumulates of a matrix product in a cycle, fp32, for choices before anything is compiled."""
DDR_BYTES = 47
"""That a cycle reads from DDR, or writes, likewise."""
_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def macs(model: Model, node: Node) -> int:
    """The multiply-accumulates of products: convolutions, matrix products, recurrent layers; 0 for what has
    none, or where a shape is not known."""
    count = _COUNTS.get(node.op) if node.domain in (*STANDARD, DOMAIN) else None
    shapes = [model.value(name).fixed if name else () for name in node.inputs]
    made = model.value(node.outputs[0]).fixed if node.makes and node.outputs[0] else ()
    if count is None or made is None:
        return 0
    known = [shape for shape in shapes if shape is not None]
    return count(node, known, made) if len(known) == len(shapes) else 0


_Shape = tuple[int, ...]
_Count = Callable[[Node, list[_Shape], _Shape], int]


def _convolution(weights: int) -> _Count:
    def count(node: Node, shapes: list[_Shape], made: _Shape) -> int:
        return math.prod(made) * math.prod(shapes[weights][1:])

    return count


def _transposed(node: Node, shapes: list[_Shape], made: _Shape) -> int:
    return math.prod(shapes[0]) * math.prod(shapes[1][1:])


def _gemm(node: Node, shapes: list[_Shape], made: _Shape) -> int:
    return math.prod(made) * shapes[0][0 if node.attributes.get("transA", 0) else 1]


def _product(node: Node, shapes: list[_Shape], made: _Shape) -> int:
    return math.prod(made) * shapes[0][-1] if shapes[0] else 0


def _einsum(node: Node, shapes: list[_Shape], made: _Shape) -> int:
    """All letters' extents; one operand alone multiplies nothing."""
    terms = str(node.attributes.get("equation", "")).replace(" ", "").partition("->")[0].split(",")
    if len(terms) < 2 or any(not term.isalpha() for term in terms) or len(terms) != len(shapes):
        return 0
    extents: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        if len(term) != len(shape):
            return 0
        for letter, extent in zip(term, shape, strict=True):
            extents[letter] = max(extent, extents.get(letter, 1))
    return math.prod(extents.values())


def _recurrent(node: Node, shapes: list[_Shape], made: _Shape) -> int:
    """x [steps, batch, features], w [directions, gates * hidden, features]."""
    steps, batch, features = shapes[0]
    directions, rows, _ = shapes[1]
    return steps * batch * directions * rows * (features + rows // _GATES[node.op])


def _attention(node: Node, shapes: list[_Shape], made: _Shape) -> int:
    """Scores, and values weighted by them."""
    size, value = int(node.attributes["size"]), int(node.attributes["value_size"])
    return math.prod(made) // value * shapes[1][-2] * (size + value)


_COUNTS: dict[str, _Count] = {
    ATTENTION: _attention,
    "Conv": _convolution(1),
    "ConvInteger": _convolution(1),
    "QLinearConv": _convolution(3),
    "ConvTranspose": _transposed,
    "Gemm": _gemm,
    "MatMul": _product,
    "MatMulInteger": _product,
    "QLinearMatMul": _product,
    "Einsum": _einsum,
    **dict.fromkeys(_GATES, _recurrent),
}
