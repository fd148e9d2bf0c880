"""Products of matrices, reductions, normalisations, what sorts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from user_layers.mindir.words import (
    MINDSPORE,
    NCHW,
    NHWC,
    activated,
    as_it_is,
    axis_of,
    given,
    int64,
    integers,
    needed,
    numbers,
    typed,
)
from user_layers.spelling.foreign import Operation
from user_layers.spelling.speller import Speller, Unspelled

_REDUCE = {
    0: "ReduceMean",
    1: "ReduceMax",
    2: "ReduceMin",
    3: "ReduceProd",
    4: "ReduceSum",
    5: "ReduceSumSquare",
    6: "ReduceL1",
    8: "ReduceL2",
}


@MINDSPORE.of("MatMulFusion")
def matmul(to: Speller, op: Operation) -> None:
    """a, b, bias; the last two axes of each may change places."""
    a = _turned(to, needed(op, 0), bool(op.attributes["transpose_a"]))
    b = _turned(to, needed(op, 1), bool(op.attributes["transpose_b"]))
    made = to.one("MatMul", a, b)
    bias = given(op, 2)
    if bias is not None:
        made = to.one("Add", made, to.own(bias))
    to.put(op.outputs[0], activated(to, op, made))


@MINDSPORE.of("FullConnection")
def full_connection(to: Speller, op: Operation) -> None:
    """x, weights [out, in], bias; x is a matrix from `axis` on."""
    x = to.own(needed(op, 0))
    weights = needed(op, 1)
    inner = to.shape(weights)[-1]
    if to.rank(needed(op, 0)) != 2:
        x = to.one("Reshape", x, to.const([-1, inner], np.int64))
    made = to.one("MatMul", x, _turned(to, weights, True))
    bias = given(op, 2)
    if bias is not None:
        made = to.one("Add", made, to.own(bias))
    to.put(op.outputs[0], activated(to, op, made))


@MINDSPORE.of("ReduceFusion")
def reduce(to: Speller, op: Operation) -> None:
    """x, axes."""
    name = needed(op, 0)
    rank = to.rank(name)
    mode = _REDUCE.get(int(op.attributes["mode"]))
    if mode is None:
        raise Unspelled(f"its mode is {op.attributes['mode']}")
    axes = [axis % rank for axis in integers(to, given(op, 1), "axes")] if given(op, 1) else []
    if op.attributes.get("reduce_to_end") and axes:
        axes = list(range(min(axes), rank))
    axes = axes or list(range(rank))
    keep = bool(op.attributes["keep_dims"])
    x, first = as_it_is(to, name, name) if keep else (to.own(name), False)
    where = sorted(axis_of(to, name, axis, first) for axis in axes)
    made = to.one(mode, x, to.const(where, np.int64), keepdims=int(keep))
    coefficient = float(op.attributes.get("coeff") or 1.0)
    if coefficient != 1:
        made = to.one("Mul", made, to.const(coefficient, np.float32))
    to.put(op.outputs[0], made, first=first)


@MINDSPORE.of("Softmax", "LogSoftmax")
def softmax(to: Speller, op: Operation) -> None:
    """x."""
    name = needed(op, 0)
    axes = numbers(op.attributes["axis"]) or (-1,)
    if len(axes) != 1:
        raise Unspelled(f"it has {len(axes)} axes")
    x, first = as_it_is(to, name, op.outputs[0])
    to.put(op.outputs[0], to.one(op.kind, x, axis=axis_of(to, name, axes[0], first)), first=first)


@MINDSPORE.of("LayerNormFusion")
def layer_norm(to: Speller, op: Operation) -> None:
    """x, scale, bias."""
    name = needed(op, 0)
    axis = axis_of(to, name, int(op.attributes["begin_norm_axis"]), False)
    shape = to.shape(name)[axis:]
    operands, behind = [], []
    for index in (1, 2):
        array = to.constant(given(op, index))
        if array is not None and array.size != math.prod(shape):
            begin = axis_of(to, name, int(op.attributes["begin_params_axis"]), False)
            if begin < axis:
                raise Unspelled(f"it has a scale from axis {begin}, and normalizes from axis {axis}")
            behind.append(to.const(array.reshape(to.shape(name)[begin:])))
        elif array is not None:
            operands.append(to.const(array.reshape(shape)))
        elif given(op, index) is not None:
            operands.append(to.own(needed(op, index)))
    if behind and operands:
        raise Unspelled("its scale and its bias are of different shapes")
    if not operands:
        operands = [to.const(np.ones(shape, np.float32))]
    epsilon = float(op.attributes["epsilon"])
    made = to.node("LayerNormalization", [to.own(name), *operands], {"axis": axis, "epsilon": epsilon})[0]
    for kind, operand in zip(("Mul", "Add"), behind, strict=False):
        made = to.one(kind, made, operand)
    to.put(op.outputs[0], made)


@MINDSPORE.of("InstanceNorm")
def instance_norm(to: Speller, op: Operation) -> None:
    """x with channels at axis 1, scale, bias. Of four axes they may be the last: a delegate says `format`."""
    name = needed(op, 0)
    shape, channels = to.shape(name), to.shape(needed(op, 1))
    usual = NHWC if channels != shape[1:2] and channels == shape[3:] else NCHW
    last = len(shape) == 4 and op.attributes.get("format", usual) == NHWC
    operands = [to.first(name) if last else to.own(name), *(to.own(needed(op, i)) for i in (1, 2))]
    made = to.one("InstanceNormalization", *operands, epsilon=float(op.attributes["epsilon"]))
    to.put(op.outputs[0], made, first=last)


@MINDSPORE.of("L2NormalizeFusion")
def l2_normalize(to: Speller, op: Operation) -> None:
    """x over the root of the sum of its squares."""
    name = needed(op, 0)
    rank = to.rank(name)
    axes = [axis_of(to, name, axis, False) for axis in numbers(op.attributes["axis"])]
    x = to.own(name)
    squares = to.one("ReduceSumSquare", x, to.const(axes or list(range(rank)), np.int64), keepdims=1)
    floor = to.const(float(op.attributes["epsilon"]), np.float32)
    made = to.one("Div", x, to.one("Sqrt", to.one("Max", squares, floor)))
    to.put(op.outputs[0], activated(to, op, made))


@MINDSPORE.of("ArgMaxFusion", "ArgMinFusion")
def arg(to: Speller, op: Operation) -> None:
    """x."""
    if int(op.attributes.get("top_k", 1)) != 1 or op.attributes.get("out_max_value"):
        raise Unspelled("it gives several places, or values")
    name = needed(op, 0)
    axis = axis_of(to, name, int(op.attributes["axis"]), False)
    keep = int(bool(op.attributes["keep_dims"]))
    made = to.one(op.kind[:6], to.own(name), axis=axis, keepdims=keep)
    typed(to, made, np.int64, op.outputs[0])


@MINDSPORE.of("TopKFusion")
def top_k(to: Speller, op: Operation) -> None:
    """x, how many; values and places."""
    name = needed(op, 0)
    attributes: dict[str, Any] = {
        "axis": axis_of(to, name, int(op.attributes["axis"] or -1), False),
        "sorted": int(bool(op.attributes["sorted"])),
    }
    told = to.constant(needed(op, 1))
    if told is None:
        count = to.one("Reshape", int64(to, needed(op, 1)), to.const([1], np.int64))
    else:
        count = to.const(told.reshape(1), np.int64)
    values, places = to.node("TopK", [to.own(name), count], attributes, outputs=2)
    to.put(op.outputs[0], values)
    if len(op.outputs) > 1:
        typed(to, places, np.int64, op.outputs[1])


@MINDSPORE.of("CumSum")
def cumsum(to: Speller, op: Operation) -> None:
    """x, axis."""
    (axis,) = integers(to, given(op, 1), "axis")
    flags = {key: int(bool(op.attributes[key])) for key in ("exclusive", "reverse")}
    made = to.node("CumSum", [to.own(needed(op, 0)), to.const(axis, np.int64)], flags)[0]
    to.put(op.outputs[0], made)


def _turned(to: Speller, name: str, turned: bool) -> str:
    """A matrix, or many; turned: with the last two axes in each other's place."""
    array = to.constant(name)
    if not turned or to.rank(name) < 2:
        return to.own(name)
    if array is not None:
        return to.const(array.swapaxes(-1, -2))
    rank = to.rank(name)
    return to.one("Transpose", to.own(name), perm=[*range(rank - 2), rank - 1, rank - 2])
