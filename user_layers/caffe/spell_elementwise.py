"""How Caffe's layers that work element by element are spelled, and those that scale and shift."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from user_layers.caffe.words import CAFFE, axis_of, bottom, bottoms, filled, weights
from user_layers.spelling.foreign import Operation
from user_layers.spelling.speller import Speller, Unspelled

_PLAIN = {
    "AbsVal": "Abs",
    "BNLL": "Softplus",
    "Mish": "Mish",
    "Sigmoid": "Sigmoid",
    "Split": "Identity",
    "TanH": "Tanh",
}


def _plain(name: str) -> Callable[[Speller, Operation], None]:
    def spelled(to: Speller, op: Operation) -> None:
        value = to.own(bottom(op))
        for top in op.outputs:
            to.put(top, to.one(name, value))

    return spelled


for _kind, _name in _PLAIN.items():
    CAFFE.of(_kind)(_plain(_name))


def _number(to: Speller, value: float) -> str:
    return to.const(value, np.float32)


def _scaled(to: Speller, value: str, factor: float) -> str:
    return value if factor == 1 else to.one("Mul", value, _number(to, factor))


def _shifted(to: Speller, value: str, summand: float) -> str:
    return value if summand == 0 else to.one("Add", value, _number(to, summand))


def _put(to: Speller, op: Operation, value: str, before: str) -> None:
    """Tell the only top; what is still the bottom goes through a node, so that the report has the layer."""
    to.put(op.outputs[0], to.one("Identity", value) if value == before else value)


@CAFFE.of("ReLU")
def relu(to: Speller, op: Operation) -> None:
    """With negative_slope a leaky one."""
    slope = float(op.attributes.get("negative_slope", 0))
    value = to.own(bottom(op))
    to.put(op.outputs[0], to.one("LeakyRelu", value, alpha=slope) if slope else to.one("Relu", value))


@CAFFE.of("ReLU6", "Clip")
def clip(to: Speller, op: Operation) -> None:
    """Between 0 and 6, or min and max."""
    if op.attributes.get("negative_slope"):
        raise Unspelled(f"its negative_slope is {op.attributes['negative_slope']:g}, not 0")
    low, high = (0.0, 6.0) if op.kind == "ReLU6" else (float(op.attributes[name]) for name in ("min", "max"))
    to.put(op.outputs[0], to.one("Clip", to.own(bottom(op)), _number(to, low), _number(to, high)))


@CAFFE.of("PReLU")
def prelu(to: Speller, op: Operation) -> None:
    """A slope for each channel, or one for all."""
    name, slope = bottom(op), weights(to, op, 0).reshape(-1)
    channels = filled(to, name)[1]
    count = 1 if op.attributes.get("channel_shared", False) else channels
    if slope.size != count:
        raise Unspelled(f"its blob 0 has {slope.size} slopes, not {count}")
    shape = (-1, *[1] * (to.rank(name) - 2))
    to.put(op.outputs[0], to.one("PRelu", to.own(name), to.const(slope.reshape(shape), np.float32)))


@CAFFE.of("ELU")
def elu(to: Speller, op: Operation) -> None:
    """alpha * (e^x - 1) below 0."""
    to.put(op.outputs[0], to.one("Elu", to.own(bottom(op)), alpha=float(op.attributes.get("alpha", 1))))


@CAFFE.of("Swish")
def swish(to: Speller, op: Operation) -> None:
    """x * sigmoid(beta * x)."""
    value = to.own(bottom(op))
    inner = _scaled(to, value, float(op.attributes.get("beta", 1)))
    to.put(op.outputs[0], to.one("Mul", value, to.one("Sigmoid", inner)))


@CAFFE.of("Threshold")
def threshold(to: Speller, op: Operation) -> None:
    """1 above it, 0 elsewhere."""
    limit = _number(to, float(op.attributes.get("threshold", 0)))
    to.put(op.outputs[0], to.one("Cast", to.one("Greater", to.own(bottom(op)), limit), to=1))


@CAFFE.of("Power")
def power(to: Speller, op: Operation) -> None:
    """(shift + scale * x) ^ power."""
    exponent, scale, shift = (
        float(op.attributes.get(name, default))
        for name, default in (("power", 1), ("scale", 1), ("shift", 0))
    )
    before = to.own(bottom(op))
    if exponent == 0 or scale == 0:  # the same number everywhere, whatever x is: nothing is less than itself
        if exponent and (shift == 0 > exponent or (shift < 0 and not exponent.is_integer())):
            raise Unspelled(f"{shift:g} to the power of {exponent:g} is no number")
        nothing = to.one("Cast", to.one("Less", before, before), to=1)
        to.put(op.outputs[0], to.one("Add", nothing, _number(to, shift**exponent if exponent else 1)))
        return
    value = _shifted(to, _scaled(to, before, scale), shift)
    if exponent == 2:
        value = to.one("Mul", value, value)
    elif exponent == 0.5:
        value = to.one("Sqrt", value)
    elif exponent == -1:
        value = to.one("Reciprocal", value)
    elif exponent != 1:
        value = to.one("Pow", value, _number(to, exponent))
    _put(to, op, value, before)


def _base(op: Operation) -> float:
    """The logarithm of the base, which is e where it is -1."""
    base = float(op.attributes.get("base", -1))
    if base != -1 and base <= 0:
        raise Unspelled(f"its base {base:g} is not above 0")
    return 1.0 if base == -1 else math.log(base)


@CAFFE.of("Exp")
def exp(to: Speller, op: Operation) -> None:
    """base ^ (shift + scale * x)."""
    base = _base(op)
    value = to.one("Exp", _scaled(to, to.own(bottom(op)), base * float(op.attributes.get("scale", 1))))
    to.put(op.outputs[0], _scaled(to, value, math.exp(base * float(op.attributes.get("shift", 0)))))


@CAFFE.of("Log")
def log(to: Speller, op: Operation) -> None:
    """log_base(shift + scale * x)."""
    base = _base(op)
    if base == 0:
        raise Unspelled("its base is 1")
    value = _scaled(to, to.own(bottom(op)), float(op.attributes.get("scale", 1)))
    value = _shifted(to, value, float(op.attributes.get("shift", 0)))
    to.put(op.outputs[0], _scaled(to, to.one("Log", value), 1 / base))


@CAFFE.of("Dropout")
def dropout(to: Speller, op: Operation) -> None:
    """Nothing when a net runs, unless the training did not scale (scale_train of some branches)."""
    before = to.own(bottom(op))
    kept = (
        1.0 if op.attributes.get("scale_train", True) else 1 - float(op.attributes.get("dropout_ratio", 0.5))
    )
    _put(to, op, _scaled(to, before, kept), before)


# ---- several bottoms ----


@CAFFE.of("Eltwise")
def eltwise(to: Speller, op: Operation) -> None:
    """Products, sums with a coefficient for each bottom, maxima."""
    names, kind = bottoms(op), op.attributes.get("operation", "SUM")
    coefficients = [float(number) for number in op.attributes.get("coeff", ())]
    shapes = {to.shape(name) for name in names}
    if len(shapes) > 1:
        raise Unspelled(f"its bottoms have different shapes: {', '.join(map(str, sorted(shapes)))}")
    if coefficients and (kind != "SUM" or len(coefficients) != len(names)):
        raise Unspelled(f"it has {len(coefficients)} coefficients for {len(names)} bottoms and {kind}")
    values = [to.own(name) for name in names]
    if kind == "SUM" and coefficients:
        values[0] = _scaled(to, values[0], coefficients[0])
        made = functools.reduce(
            lambda total, term: _plus(to, total, *term),
            zip(values[1:], coefficients[1:], strict=True),
            values[0],
        )
    else:
        word = {"PROD": "Mul", "SUM": "Add", "MAX": "Max"}.get(kind)
        if word is None:
            raise Unspelled(f"its operation is {kind}")
        made = functools.reduce(lambda total, term: to.one(word, total, term), values)
    to.put(op.outputs[0], made)


def _plus(to: Speller, total: str, value: str, factor: float) -> str:
    if factor == -1:
        return to.one("Sub", total, value)
    return to.one("Add", total, _scaled(to, value, factor))


@CAFFE.of("Axpy")
def axpy(to: Speller, op: Operation) -> None:
    """A factor for each channel of each image, x, y: factor * x + y."""
    factor, x, y = (bottom(op, index) for index in range(3))
    shape = filled(to, x)
    if filled(to, factor)[:2] != shape[:2] or any(n != 1 for n in to.shape(factor)[2:]):
        raise Unspelled(f"factors {to.shape(factor)} do not fit x {shape}")
    if to.shape(y) != shape:
        raise Unspelled(f"x {shape} and y {to.shape(y)} are not alike")
    value = to.own(factor)
    if to.rank(factor) != len(shape):
        value = to.one("Reshape", value, to.const([0, 0, *[1] * (len(shape) - 2)], np.int64))
    to.put(op.outputs[0], to.one("Add", to.one("Mul", value, to.own(x)), to.own(y)))


# ---- scaling and shifting ----


@CAFFE.of("Scale", "Bias")
def scale(to: Speller, op: Operation) -> None:
    """Times (Bias: plus) a blob or the second bottom, from `axis` on; Scale may then add a bias."""
    names = bottoms(op)
    data, axis = bottom(op), int(op.attributes.get("axis", 1))
    word = "Add" if op.kind == "Bias" else "Mul"
    if len(names) > 1:
        shape = filled(to, names[1])
        operand = _second(to, data, names[1], axis)
    else:
        shape = _covered(to, op, data, axis)
        operand = _constant(to, op, 0, data, shape, axis)
    value = to.one(word, to.own(data), operand)
    if op.kind == "Scale" and op.attributes.get("bias_term", False):
        value = to.one("Add", value, _constant(to, op, 2 - len(names), data, shape, axis))
    to.put(op.outputs[0], value)


def _covered(to: Speller, op: Operation, data: str, axis: int) -> tuple[int, ...]:
    """The extents that a blob of Scale or Bias covers."""
    count = int(op.attributes.get("num_axes", 1))
    if count == 0:
        return ()
    first, shape = axis_of(to, data, axis), filled(to, data)
    if count < -1 or first + count > len(shape):
        raise Unspelled(f"there are no {count} axes from axis {first} of {shape} on")
    return shape[first:] if count == -1 else shape[first : first + count]


def _constant(to: Speller, op: Operation, index: int, data: str, shape: tuple[int, ...], axis: int) -> str:
    """A blob with ones behind it, so that it is broadcast from that axis of `data` on."""
    blob = weights(to, op, index)
    if blob.size != math.prod(shape):
        raise Unspelled(f"its blob {index} has {blob.size} elements, not those of {shape}")
    return to.const(blob.reshape((*shape, *_behind(to, data, shape, axis))), np.float32)


def _second(to: Speller, data: str, other: str, axis: int) -> str:
    """The same of a bottom."""
    shape = to.shape(other)
    ones = _behind(to, data, shape, axis)
    first = axis_of(to, data, axis) if shape else 0
    if to.shape(data)[first : first + len(shape)] != shape:
        raise Unspelled(
            f"{shape} of its second bottom are not the extents of {to.shape(data)} from axis {first} on"
        )
    if not ones or not shape:
        return to.own(other)
    axes = to.const([len(shape) + i for i in range(len(ones))], np.int64)
    return to.one("Unsqueeze", to.own(other), axes)


def _behind(to: Speller, data: str, shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    if not shape:
        return ()
    return (1,) * (to.rank(data) - axis_of(to, data, axis) - len(shape))


@CAFFE.of("BatchNorm")
def batch_norm(to: Speller, op: Operation) -> None:
    """By stored mean and variance, which are divided by the third blob; without use_global_stats by those of
    the batch itself."""
    name = bottom(op)
    shape, epsilon = filled(to, name), float(op.attributes.get("eps", 1e-5))
    if len(shape) < 2:
        raise Unspelled(f"{shape} has no channels")
    if not op.attributes.get("use_global_stats", True):
        to.put(op.outputs[0], _by_batch(to, name, epsilon))
        return
    count = int(op.attributes.get("blobs", 0))
    if count != 3:
        raise Unspelled(f"it has {count} blobs, not mean, variance and factor")
    mean, variance, factor = (weights(to, op, index).reshape(-1).astype(np.float64) for index in range(3))
    if mean.size != shape[1] or variance.size != shape[1] or factor.size != 1:
        raise Unspelled(
            f"its blobs have {mean.size}, {variance.size}, {factor.size} elements for {shape[1]} channels"
        )
    share = 1 / factor[0] if factor[0] else 0.0
    ones = [to.const(np.full(shape[1], value), np.float32) for value in (1, 0)]
    numbers = [to.const(blob * share, np.float32) for blob in (mean, variance)]
    to.put(op.outputs[0], to.one("BatchNormalization", to.own(name), *ones, *numbers, epsilon=epsilon))


def _by_batch(to: Speller, name: str, epsilon: float) -> str:
    axes = to.const([axis for axis in range(to.rank(name)) if axis != 1], np.int64)
    value = to.own(name)
    centred = to.one("Sub", value, to.one("ReduceMean", value, axes))
    variance = to.one("ReduceMean", to.one("Mul", centred, centred), axes)
    return to.one("Div", centred, to.one("Sqrt", _shifted(to, variance, epsilon)))
