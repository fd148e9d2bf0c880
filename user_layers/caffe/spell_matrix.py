"""How Caffe's products, reductions and normalizations are spelled."""

from __future__ import annotations

import math

import numpy as np

from user_layers.caffe.words import CAFFE, axis_of, blob, bottom, filled, weights
from user_layers.spelling.foreign import Operation
from user_layers.spelling.speller import Speller, Unspelled


@CAFFE.of("InnerProduct")
def inner_product(to: Speller, op: Operation) -> None:
    """Everything from `axis` on is one row, times weights [outputs, row]; transpose: [row, outputs]."""
    name, outputs = bottom(op), int(op.attributes["num_output"])
    shape, axis = filled(to, name), axis_of(to, name, int(op.attributes.get("axis", 1)))
    length, turned = math.prod(shape[axis:]), bool(op.attributes.get("transpose", False))
    operands = [blob(to, op, 0, (length, outputs) if turned else (outputs, length))]
    if op.attributes.get("bias_term", True):
        operands.append(blob(to, op, 1, (outputs,)))
    rows = to.own(name)
    if axis == 1 and len(shape) > 2:
        rows = to.one("Flatten", rows, axis=1)
    elif (axis, len(shape)) != (1, 2):
        rows = to.one("Reshape", rows, to.const([-1, length], np.int64))
    made = to.one("Gemm", rows, *operands, transB=int(not turned))
    if axis != 1:
        made = to.one("Reshape", made, to.const([*shape[:axis], outputs], np.int64))
    to.put(op.outputs[0], made)


@CAFFE.of("Softmax", "LogSoftmax")
def softmax(to: Speller, op: Operation) -> None:
    """Along one axis."""
    axis = axis_of(to, bottom(op), int(op.attributes.get("axis", 1)))
    to.put(op.outputs[0], to.one(op.kind, to.own(bottom(op)), axis=axis))


@CAFFE.of("ArgMax")
def arg_max(to: Speller, op: Operation) -> None:
    """Indices of the top_k largest numbers as floats, of equal ones the last; or these numbers. Without an
    axis of each whole image, and then both."""
    name, count = bottom(op), int(op.attributes.get("top_k", 1))
    shape, values = filled(to, name), bool(op.attributes.get("out_max_val", False))
    along, axis = to.own(name), 1
    if op.attributes.get("axis") is not None:
        axis = axis_of(to, name, int(op.attributes["axis"]))
        extent = shape[axis]
    else:
        extent = math.prod(shape[1:])
        along = to.one("Reshape", along, to.const([shape[0], extent], np.int64))
    if not 1 <= count <= extent:
        raise Unspelled(f"its top_k is {count}, of {extent} elements")
    largest, where = _largest(to, along, axis, extent, count)
    if op.attributes.get("axis") is not None:
        to.put(op.outputs[0], largest if values else where)
        return
    target = [shape[0], 2 if values else 1, count, *[1] * (len(shape) - 3)]
    made = to.one("Concat", where, largest, axis=1) if values else where
    to.put(op.outputs[0], to.one("Reshape", made, to.const(target, np.int64)))


def _largest(to: Speller, value: str, axis: int, extent: int, count: int) -> tuple[str, str]:
    """The largest numbers along an axis, and where they are."""
    if count == 1:
        where = to.one("ArgMax", value, axis=axis, keepdims=1, select_last_index=1)
        largest = to.one("ReduceMax", value, to.const([axis], np.int64))
        return largest, to.one("Cast", where, to=1)
    # TopK takes the first of equal numbers, so the axis is read backwards.
    turned = to.one("Gather", value, to.const(np.arange(extent)[::-1], np.int64), axis=axis)
    k = to.const([count], np.int64)
    largest, behind = to.node("TopK", [turned, k], {"axis": axis}, outputs=2)
    return largest, to.one("Sub", to.const(extent - 1, np.float32), to.one("Cast", behind, to=1))


@CAFFE.of("Reduction")
def reduction(to: Speller, op: Operation) -> None:
    """Sums or means of everything from `axis` on, which is gone then, times coeff."""
    name, kind = bottom(op), str(op.attributes.get("operation", "SUM"))
    first = axis_of(to, name, int(op.attributes.get("axis", 0)))
    word = {"SUM": "ReduceSum", "ASUM": "ReduceL1", "SUMSQ": "ReduceSumSquare", "MEAN": "ReduceMean"}.get(
        kind
    )
    if word is None:
        raise Unspelled(f"its operation is {kind}")
    axes = to.const(list(range(first, to.rank(name))), np.int64)
    value = to.one(word, to.own(name), axes, keepdims=0)
    coefficient = float(op.attributes.get("coeff", 1))
    if coefficient != 1:
        value = to.one("Mul", value, to.const(coefficient, np.float32))
    to.put(op.outputs[0], value)


@CAFFE.of("Embed")
def embed(to: Speller, op: Operation) -> None:
    """A row of the weights [inputs, outputs] for each number."""
    sides = int(op.attributes["input_dim"]), int(op.attributes["num_output"])
    value = to.one("Gather", blob(to, op, 0, sides), _whole(to, bottom(op)), axis=0)
    if op.attributes.get("bias_term", True):
        value = to.one("Add", value, blob(to, op, 1, sides[1:]))
    to.put(op.outputs[0], value)


@CAFFE.of("BatchReindex")
def batch_reindex(to: Speller, op: Operation) -> None:
    """Images by the numbers in the second bottom."""
    to.put(op.outputs[0], to.one("Gather", to.own(bottom(op)), _whole(to, bottom(op, 1)), axis=0))


def _whole(to: Speller, name: str) -> str:
    """Caffe has indices as floats."""
    return to.one("Cast", to.own(name), to=7)


@CAFFE.of("MVN")
def mvn(to: Speller, op: Operation) -> None:
    """Each plane, or each image, minus its mean and divided by its deviation, to which eps is added."""
    name = bottom(op)
    shape, get = filled(to, name), op.attributes.get
    if not 1 <= len(shape) <= 4:
        raise Unspelled(f"{shape} has {len(shape)} dimensions, and at most 4 are known")
    value = to.own(name)
    if len(shape) < 4:  # the result has four
        value = to.one("Reshape", value, to.const([*shape, *[1] * (4 - len(shape))], np.int64))
    axes = to.const([1, 2, 3] if get("across_channels", False) else [2, 3], np.int64)
    value = to.one("Sub", value, to.one("ReduceMean", value, axes))
    if get("normalize_variance", True):
        variance = to.one("ReduceMean", to.one("Mul", value, value), axes)
        deviation = to.one("Add", to.one("Sqrt", variance), to.const(float(get("eps", 1e-9)), np.float32))
        value = to.one("Div", value, deviation)
    to.put(op.outputs[0], value)


@CAFFE.of("Normalize")
def normalize(to: Speller, op: Operation) -> None:
    """Divided by the root of the sum of squares over channels (across_spatial: over each image) and eps,
    times the weights."""
    name, get = bottom(op), op.attributes.get
    shape, factors = filled(to, name), weights(to, op, 0).reshape(-1)
    if len(shape) < 2:
        raise Unspelled(f"{shape} has no channels")
    count = 1 if get("channel_shared", True) else shape[1]
    if factors.size != count:
        raise Unspelled(f"its blob 0 has {factors.size} factors, not {count}")
    value = to.own(name)
    axes = to.const(list(range(1, len(shape))) if get("across_spatial", True) else [1], np.int64)
    total = to.one("ReduceSum", to.one("Mul", value, value), axes)
    norm = to.one("Sqrt", to.one("Add", total, to.const(float(get("eps", 1e-10)), np.float32)))
    scale = to.const(factors.reshape(-1, *[1] * (len(shape) - 2)), np.float32)
    to.put(op.outputs[0], to.one("Mul", to.one("Div", value, norm), scale))
