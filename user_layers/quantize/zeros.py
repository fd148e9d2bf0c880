"""Tensors that are 0 whatever a net reads: what weights of zeros make, and what goes on with that.

Networks whose blocks begin as nothing (a last normalisation with the factor 0) have them before training, and
pruned ones behind it. Calibration sees no range there, and a quantiser's file says any; a sum with such a
tensor shall not give up bits for it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from user_layers.net.functions import BINARY, UNARY
from user_layers.net.net import Net
from user_layers.net.nodes import LayerNode
from user_layers.quantize.table import Range
from user_layers.quantize.ties import MOVING
from user_layers.toolkit import Toolkit

_LINEAR = ("TPU_CONV", "TPU_DECONV", "TPU_MATMUL", "TPU_SCALE_SHIFT")
"""Layers that multiply by their second input and add their third one."""
_KEEPING = (*(op for op in MOVING if op != "TPU_PAD"), "TPU_CONCAT", "TPU_POOL", "TPU_UNFOLD", "TPU_TURN")
_FUNCTIONS = frozenset(UNARY[name] for name in ("RELU", "LEAKY_RELU", "ABS", "NEG", "TANH", "SWISH", "GELU"))
_BESIDE = 2.0**-16  # of the smallest threshold there is: too small to take bits from anything


def with_zeros(net: Net, ranges: Mapping[str, Range], toolkit: Toolkit) -> dict[str, Range]:
    """The ranges, with tiny ones for computed tensors that are always 0."""
    found: set[str] = set()
    for node in net.nodes:
        if node.cpu is None and node.op.is_builtin and _makes_zeros(net, node, toolkit, found):
            found.update(node.outputs)
    least = min((one.threshold for name, one in ranges.items() if name not in found), default=1.0)
    return {**ranges, **{name: Range.between(-least * _BESIDE, least * _BESIDE) for name in found}}


def _makes_zeros(net: Net, node: LayerNode, toolkit: Toolkit, found: set[str]) -> bool:
    def is_zero(name: str) -> bool:
        one = net.tensors[name]
        return name in found if one.data is None else not np.frombuffer(one.data, one.dtype.numpy_name).any()

    op, inputs = node.op.op, node.inputs
    if op in _LINEAR:
        return any(map(is_zero, inputs[:2])) and all(map(is_zero, inputs[2:]))
    if op in _KEEPING:
        return all(name in found for name in inputs if net.tensors[name].data is None)
    if op not in ("TPU_BINARY", "TPU_UNARY"):
        return False
    values = toolkit.param_values(node.op, node.param)
    if op == "TPU_UNARY":
        cut = values["unary_op"] == UNARY["CLIP"] and values["a"] <= 0 <= values["b"]
        return (cut or values["unary_op"] in _FUNCTIONS) and is_zero(inputs[0])
    if values["binary_op"] == BINARY["MUL"]:
        return any(map(is_zero, inputs))
    return values["binary_op"] in (BINARY["ADD"], BINARY["SUB"]) and all(map(is_zero, inputs))
