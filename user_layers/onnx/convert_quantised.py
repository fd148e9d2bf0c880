"""8-bit integers with scale and zero point at the edges of a net, in float32 from there on."""

from __future__ import annotations

import numpy as np

from user_layers.net.functions import BINARY, unary_param
from user_layers.onnx.lower import Lowering, Unsupported, converts
from user_layers.onnx.model import Node

_CODES = {np.dtype(np.int8): 2, np.dtype(np.uint8): 3}


def _grid(to: Lowering, node: Node, integers: str) -> tuple[float, float, int]:
    """Scale, zero point, the code of the integers' type. Raises Unsupported for other than one of each."""
    dtype = to.model.value(integers).dtype
    if dtype not in _CODES:
        raise Unsupported(f"integers of type {dtype}")
    numbers = [to.known(node, 1), to.known(node, 2)]
    scale, zero = numbers[0], np.zeros(1) if numbers[1] is None else numbers[1]
    if scale is None or scale.size != 1 or zero.size != 1:
        raise Unsupported("a scale for each channel")
    return float(scale.reshape(-1)[0]), float(zero.reshape(-1)[0]), _CODES[dtype]


@converts("DequantizeLinear")
def dequantize(to: Lowering, node: Node) -> None:
    """(integer - zero point) * scale."""
    scale, zero, _ = _grid(to, node, node.inputs[0])
    name = to.between("TPU_CAST", node, [to.tensor(node.inputs[0])], {"to": 0})
    if zero:
        name = to.between("TPU_CONST_BINARY", node, [name], _with("SUB", zero))
    to.simple("TPU_CONST_BINARY", node, [name], _with("MUL", scale))


@converts("QuantizeLinear")
def quantize(to: Lowering, node: Node) -> None:
    """The nearest integer to x / scale, ties to even, plus the zero point, within the type."""
    to.need_float(node.inputs[0])
    scale, zero, code = _grid(to, node, node.outputs[0])
    ends = np.iinfo(to.model.value(node.outputs[0]).dtype)
    name = to.between("TPU_CONST_BINARY", node, [to.tensor(node.inputs[0])], _with("DIV", scale))
    name = to.between("TPU_UNARY", node, [name], unary_param("ROUND"))
    if zero:
        name = to.between("TPU_CONST_BINARY", node, [name], _with("ADD", zero))
    clip = unary_param("CLIP", float(ends.min), float(ends.max))
    to.simple("TPU_CAST", node, [to.between("TPU_UNARY", node, [name], clip)], {"to": code})


def _with(name: str, number: float) -> dict[str, float]:
    return {"value": number, "binary_op": BINARY[name], "inversed": 0}
