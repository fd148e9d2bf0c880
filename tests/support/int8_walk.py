"""A graph in 8-bit integers as plain integers: layer by layer in numpy, without words, lanes or tiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tests.support.int8_reference import conv_int8
from tests.support.quantised import DTYPE, Array, floats, half_up, saturated
from tpulayer import Graph

_NAMES = {code: name for name, code in DTYPE.items()}


def walked(graph: Graph, inputs: Mapping[str, Array]) -> list[Array]:
    """The graph's outputs, of layers that are known here."""
    known: dict[str, Array] = dict(inputs)
    for name, tensor in graph.tensors.items():
        if tensor.data is not None:
            known[name] = np.frombuffer(tensor.data, tensor.dtype.numpy_name).reshape(tensor.shape)
    scales: dict[str, float] = {}
    for node in graph.nodes:
        given = [known[name] for name in node.inputs]
        values = graph.toolkit.param_values(node.op, node.param)
        (output,) = node.outputs
        scale = scales.get(node.inputs[0], 0.0)
        known[output] = _LAYERS[node.op.op](values, scale, *given)
        scales[output] = values.get("scale", scale)
    return [known[name] for name in graph.outputs]


def _quantize(values: Mapping[str, Any], _: float, x: Array) -> Array:
    steps = np.rint(x * (np.float32(1) / np.float32(values["scale"])))
    return saturated(steps, _NAMES[values["dtype"]])


def _dequantize(_: Mapping[str, Any], scale: float, x: Array) -> Array:
    return floats(x, scale)


def _turn(values: Mapping[str, Any], _: float, x: Array) -> Array:
    made: Array = x.reshape(*x.shape[:2], -1).swapaxes(1, 2)
    return made.reshape(*made.shape[:2], values["height"], values["width"]) if values["height"] else made


def _reshape(values: Mapping[str, Any], _: float, x: Array) -> Array:
    wanted = [x.shape[d] if n == 0 else n for d, n in enumerate(values["shape"][: values["dims"]])]
    made: Array = x.reshape(wanted)
    return made


def _convolve(values: Mapping[str, Any], _: float, x: Array, w: Array, bias: Array | None = None) -> Array:
    rows = x if x.ndim == 4 else x[..., None]
    made = conv_int8(rows, w, bias, values["rshift"], bool(values["relu"]), groups=values["groups"])
    return made if x.ndim == 4 else made[..., 0]


def _lookup(_: Mapping[str, Any], __: float, x: Array, table: Array) -> Array:
    found: Array = table[x.view(np.uint8)]
    return found


def _pair(values: Mapping[str, Any], _: float, a: Array, b: Array) -> Array:
    assert values["binary_op"] == 0  # sums
    total = a.astype(np.int64) * values["multiplier_a"] + b.astype(np.int64) * values["multiplier_b"]
    made = half_up(total, values["rshift"])
    return saturated(np.maximum(made, 0) if values["relu"] else made, _NAMES[values["dtype"]])


_LAYERS: Mapping[str, Callable[..., Array]] = {
    "TPU_QUANTIZE": _quantize,
    "TPU_DEQUANTIZE": _dequantize,
    "TPU_TURN": _turn,
    "TPU_RESHAPE": _reshape,
    "TPU_CONV_INT8": _convolve,
    "TPU_LOOKUP": _lookup,
    "TPU_ELTWISE_INT8": _pair,
}
