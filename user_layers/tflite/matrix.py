"""TFLite's products of matrices, and what normalizes or searches along an axis."""

from __future__ import annotations

import numpy as np

from user_layers.spelling.foreign import Operation
from user_layers.spelling.speller import Speller, Unspelled, to_first
from user_layers.tflite.table import (
    TFLITE,
    Value,
    activated,
    given,
    int64,
    optional,
    reshaped,
    value,
    whole,
)

_REDUCTIONS = {
    "MEAN": "ReduceMean",
    "SUM": "ReduceSum",
    "REDUCE_MAX": "ReduceMax",
    "REDUCE_MIN": "ReduceMin",
    "REDUCE_PROD": "ReduceProd",
    "REDUCE_ANY": "ReduceMax",
    "REDUCE_ALL": "ReduceMin",
}
_LEAST_NORM = 1e-6  # what TFLite divides by at least


@TFLITE.of("FULLY_CONNECTED")
def _fully_connected(to: Speller, op: Operation) -> None:
    x, weights, out = given(op, 0), given(op, 1), op.outputs[0]
    if op.attributes.get("weights_format", 0):
        raise Unspelled("its weights are shuffled")
    outputs, depth = to.shape(weights)
    rows = to.own(x)
    if to.rank(x) != 2 or to.shape(x)[1] != depth:
        rows = reshaped(to, rows, (-1, depth))
    bias = optional(op, 2)
    found = to.node("Gemm", [rows, to.own(weights), *([to.own(bias)] if bias else [])], {"transB": 1})[0]
    found = activated(to, op, found, out)
    shape = to.shape(out)
    to.put(out, found if len(shape) == 2 and shape[1] == outputs else reshaped(to, found, shape))


@TFLITE.of("BATCH_MATMUL")
def _batch_matmul(to: Speller, op: Operation) -> None:
    values = []
    for index, flag in enumerate(("adj_x", "adj_y")):
        name = given(op, index)
        found = to.own(name)
        if op.attributes.get(flag):
            axes = list(range(to.rank(name)))
            found = to.one("Transpose", found, perm=[*axes[:-2], axes[-1], axes[-2]])
        values.append(found)
    to.put(op.outputs[0], to.one("MatMul", *values))


@TFLITE.of("SOFTMAX", "LOG_SOFTMAX")
def _softmax(to: Speller, op: Operation) -> None:
    x = value(to, given(op, 0))
    beta = float(op.attributes.get("beta", 1.0)) if op.kind == "SOFTMAX" else 1.0
    found = x.name if beta == 1.0 else to.one("Mul", x.name, to.const(beta, to.dtype(given(op, 0))))
    name = "Softmax" if op.kind == "SOFTMAX" else "LogSoftmax"
    to.put(op.outputs[0], to.one(name, found, axis=x.at(-1)), first=x.first)


@TFLITE.of("L2_NORMALIZATION")
def _l2_normalization(to: Speller, op: Operation) -> None:
    x = value(to, given(op, 0))
    norm = to.one("ReduceL2", x.name, int64(to, [x.at(-1)]), keepdims=1)
    least = to.one("Max", norm, to.const(_LEAST_NORM, to.dtype(given(op, 0))))
    to.put(op.outputs[0], activated(to, op, to.one("Div", x.name, least), op.outputs[0]), first=x.first)


@TFLITE.of(*_REDUCTIONS)
def _reduce(to: Speller, op: Operation) -> None:
    import onnx

    name, out = given(op, 0), op.outputs[0]
    rank = to.rank(name)
    axes = {axis % max(rank, 1) for axis in whole(to, optional(op, 1), "list of axes")}
    keep = to.rank(out) == rank
    x = value(to, name)
    left = [axis for axis in x.axes if axis not in axes]
    own = [left.index(axis) for axis in sorted(left)]  # places of the result's axes in what is made
    first = x.first
    if not keep:
        first = len(left) > 2 and own == list(np.argsort(to_first(len(left))))
        if not first and own != sorted(own):
            x = value(to, name) if not x.first else type(x)(to.own(name), tuple(range(rank)), False)
    found = x.name
    if not axes:
        to.put(out, found, first=x.first)
        return
    if op.kind == "MEAN" and _is_map(x, axes):
        found = to.one("GlobalAveragePool", found)
        to.put(out, found if keep else reshaped(to, found, to.shape(out)), first=keep)
        return
    truth = op.kind in ("REDUCE_ANY", "REDUCE_ALL")
    if truth:
        found = to.one("Cast", found, to=int(onnx.TensorProto.FLOAT))
    found = to.one(_REDUCTIONS[op.kind], found, int64(to, sorted(x.at(a) for a in axes)), keepdims=int(keep))
    if truth:
        found = to.one("Cast", found, to=int(onnx.TensorProto.BOOL))
    to.put(out, found, first=first)


def _is_map(x: Value, axes: set[int]) -> bool:
    """Whether these axes are height and width of pictures that have channels first."""
    return x.first and len(x.axes) == 4 and axes == {1, 2}


@TFLITE.of("ARG_MAX", "ARG_MIN")
def _arg(to: Speller, op: Operation) -> None:
    import onnx

    out = op.outputs[0]
    axis = whole(to, optional(op, 1), "axis")[0] % to.rank(given(op, 0))
    name = "ArgMax" if op.kind == "ARG_MAX" else "ArgMin"
    found = to.one(name, to.own(given(op, 0)), axis=axis, keepdims=0)
    kind = onnx.helper.np_dtype_to_tensor_dtype(to.dtype(out))
    to.put(out, found if to.dtype(out) == np.int64 else to.one("Cast", found, to=int(kind)))


@TFLITE.of("TOPK_V2")
def _topk(to: Speller, op: Operation) -> None:
    import onnx

    count = whole(to, optional(op, 1), "count")[0]
    best, places = to.node("TopK", [to.own(given(op, 0)), int64(to, [count])], {"axis": -1}, outputs=2)
    to.put(op.outputs[0], best)
    kind = onnx.helper.np_dtype_to_tensor_dtype(to.dtype(op.outputs[1]))
    to.put(op.outputs[1], to.one("Cast", places, to=int(kind)))


@TFLITE.of("CUMSUM")
def _cumsum(to: Speller, op: Operation) -> None:
    x = value(to, given(op, 0))
    axis = x.at(whole(to, optional(op, 1), "axis")[0])
    found = to.one(
        "CumSum",
        x.name,
        to.const(axis, np.int64),
        exclusive=int(bool(op.attributes.get("exclusive"))),
        reverse=int(bool(op.attributes.get("reverse"))),
    )
    to.put(op.outputs[0], found, first=x.first)
