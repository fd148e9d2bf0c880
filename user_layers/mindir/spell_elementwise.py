"""Element by element: arithmetic, comparisons, functions, activations, scaling by channel."""

from __future__ import annotations

import math

import numpy as np

from user_layers.mindir.types import TYPE_IDS
from user_layers.mindir.words import (
    MINDSPORE,
    activated,
    as_it_is,
    axis_of,
    beside,
    given,
    integers,
    needed,
    typed,
    window,
)
from user_layers.spelling.foreign import Operation
from user_layers.spelling.integers import grid
from user_layers.spelling.speller import Speller, Unspelled

_BINARY = {
    "AddFusion": "Add",
    "SubFusion": "Sub",
    "MulFusion": "Mul",
    "DivFusion": "Div",
    "RealDiv": "Div",
    "BiasAdd": "Add",
}
_COMPARE = {
    "Equal": "Equal",
    "Greater": "Greater",
    "GreaterEqual": "GreaterOrEqual",
    "Less": "Less",
    "LessEqual": "LessOrEqual",
    "LogicalAnd": "And",
    "LogicalOr": "Or",
}
_UNARY = ("Abs", "Ceil", "Cos", "Erf", "Floor", "Log", "Neg", "Reciprocal", "Round", "Sin", "Sqrt")
_ELTWISE = {0: "Mul", 1: "Add", 2: "Max"}


@MINDSPORE.of(*_BINARY)
def binary(to: Speller, op: Operation) -> None:
    """x, y, broadcast from the last axis."""
    values, first = to.alike([needed(op, 0), needed(op, 1)], op.outputs[0])
    made = to.one(_BINARY[op.kind], *values)
    to.put(op.outputs[0], activated(to, op, made), first=first)


@MINDSPORE.of("Maximum", "Minimum", "AddN", "Eltwise")
def several(to: Speller, op: Operation) -> None:
    """Any number of operands."""
    name = {"Maximum": "Max", "Minimum": "Min", "AddN": "Sum"}.get(op.kind) or _ELTWISE.get(
        int(op.attributes.get("mode", -1))
    )
    if name is None:
        raise Unspelled(f"its mode is {op.attributes.get('mode')}")
    values, first = to.alike([x for x in op.inputs if x is not None], op.outputs[0])
    made = values[0]
    if name in ("Max", "Min", "Sum"):
        made = to.one(name, *values)
    else:
        for value in values[1:]:
            made = to.one(name, made, value)
    to.put(op.outputs[0], made, first=first)


@MINDSPORE.of("SquaredDifference")
def squared_difference(to: Speller, op: Operation) -> None:
    """(x - y) * (x - y)."""
    values, first = to.alike([needed(op, 0), needed(op, 1)], op.outputs[0])
    made = to.one("Sub", *values)
    to.put(op.outputs[0], to.one("Mul", made, made), first=first)


@MINDSPORE.of("PowFusion")
def power(to: Speller, op: Operation) -> None:
    """(scale * x + shift) to the power y."""
    (x, y), first = to.alike([needed(op, 0), needed(op, 1)], op.outputs[0])
    scaled = _scaled(to, x, float(op.attributes["scale"]), float(op.attributes["shift"]))
    to.put(op.outputs[0], to.one("Pow", scaled, y), first=first)


@MINDSPORE.of("FloorDiv", "FloorMod", "Mod")
def whole(to: Speller, op: Operation) -> None:
    """Division with a whole result, and its rest."""
    (x, y), first = to.alike([needed(op, 0), needed(op, 1)], op.outputs[0])
    if to.dtype(needed(op, 0)).kind != "f":
        raise Unspelled("it divides whole numbers")
    if op.kind == "Mod":
        made = to.one("Mod", x, y, fmod=1)
    else:
        # Both as MindSpore Lite's kernels compute them: FloorMod there is no exact rest.
        made = to.one("Floor", to.one("Div", x, y))
        if op.kind == "FloorMod":
            made = to.one("Sub", x, to.one("Mul", made, y))
    to.put(op.outputs[0], made, first=first)


@MINDSPORE.of(*_COMPARE, "NotEqual")
def compare(to: Speller, op: Operation) -> None:
    """x, y; bools."""
    values, first = to.alike([needed(op, 0), needed(op, 1)], op.outputs[0])
    if op.kind == "NotEqual":
        made = to.one("Not", to.one("Equal", *values))
    else:
        made = to.one(_COMPARE[op.kind], *values)
    typed(to, made, bool, op.outputs[0], first=first)


@MINDSPORE.of("LogicalNot")
def logical_not(to: Speller, op: Operation) -> None:
    """Not x."""
    x, first = as_it_is(to, needed(op, 0), op.outputs[0])
    typed(to, to.one("Not", x), bool, op.outputs[0], first=first)


@MINDSPORE.of("Where", "Select")
def where(to: Speller, op: Operation) -> None:
    """condition, x, y."""
    names = [needed(op, i) for i in range(3)]
    values, first = to.alike(names, op.outputs[0])
    if to.dtype(names[0]).kind != "b":
        values[0] = to.one("Cast", values[0], to=9)
    to.put(op.outputs[0], to.one("Where", *values), first=first)


@MINDSPORE.of(*_UNARY)
def unary(to: Speller, op: Operation) -> None:
    """One operand."""
    x, first = as_it_is(to, needed(op, 0), op.outputs[0])
    to.put(op.outputs[0], to.one(op.kind, x), first=first)


@MINDSPORE.of("Square", "Rsqrt", "Log1p")
def composed(to: Speller, op: Operation) -> None:
    """Functions that two nodes say."""
    x, first = as_it_is(to, needed(op, 0), op.outputs[0])
    if op.kind == "Square":
        made = to.one("Mul", x, x)
    elif op.kind == "Rsqrt":
        made = to.one("Reciprocal", to.one("Sqrt", x))
    else:
        made = to.one("Log", to.one("Add", x, to.const(1, np.float32)))
    to.put(op.outputs[0], made, first=first)


@MINDSPORE.of("ExpFusion")
def exponential(to: Speller, op: Operation) -> None:
    """base to the power (scale * x + shift); base -1 is e."""
    x, first = as_it_is(to, needed(op, 0), op.outputs[0])
    base = float(op.attributes["base"])
    if base <= 0 and base != -1:
        raise Unspelled(f"its base is {base}")
    factor = 1.0 if base == -1 else math.log(base)
    scale, shift = float(op.attributes["scale"]), float(op.attributes["shift"])
    to.put(op.outputs[0], to.one("Exp", _scaled(to, x, scale * factor, shift * factor)), first=first)


@MINDSPORE.of("Activation")
def activation(to: Speller, op: Operation) -> None:
    """x."""
    x, first = as_it_is(to, needed(op, 0), op.outputs[0])
    made = activated(to, op, x)
    to.put(op.outputs[0], to.one("Identity", x) if made == x else made, first=first)


@MINDSPORE.of("LeakyRelu", "Elu", "Clip")
def named_activation(to: Speller, op: Operation) -> None:
    """x."""
    x, first = as_it_is(to, needed(op, 0), op.outputs[0])
    if op.kind == "Clip":
        low, high = (to.const(float(op.attributes[key]), np.float32) for key in ("min", "max"))
        made = to.one("Clip", x, low, high)
    else:
        key = "negative_slope" if op.kind == "LeakyRelu" else "alpha"
        made = to.one(op.kind, x, alpha=float(op.attributes[key]))
    to.put(op.outputs[0], made, first=first)


@MINDSPORE.of("PReLUFusion")
def prelu(to: Speller, op: Operation) -> None:
    """x, slope of each channel or one for all; channels are the last axis, or axis 1 with NCHW."""
    name = needed(op, 0)
    slope = to.known(given(op, 1), "slope")
    x, first = as_it_is(to, name, op.outputs[0])
    rank = to.rank(name)
    if slope.size == 1:
        array = slope.reshape((1,) * rank)
    elif slope.size == to.shape(name)[-1]:
        array = slope.reshape(*(1,) * (rank - 1), -1)
    elif rank > 1 and slope.size == to.shape(name)[1]:
        array = slope.reshape(1, -1, *(1,) * (rank - 2))
    else:
        raise Unspelled(f"its slope has {slope.size} elements")
    to.put(op.outputs[0], to.one("PRelu", x, beside(to, array, rank, first)), first=first)


@MINDSPORE.of("ScaleFusion")
def scale(to: Speller, op: Operation) -> None:
    """x, scale, bias; both stand at `axis`."""
    name = needed(op, 0)
    x, first = as_it_is(to, name, op.outputs[0])
    rank = to.rank(name)
    made = x
    for index, node in ((1, "Mul"), (2, "Add")):
        if given(op, index) is None:
            continue
        array = to.known(given(op, index), "scale")
        axis = axis_of(to, name, int(op.attributes.get("axis", -1)), False)
        if axis + array.ndim > rank:
            raise Unspelled(f"its scale has {array.ndim} dimensions from axis {axis} of {rank}")
        array = array.reshape(*(1,) * axis, *array.shape, *(1,) * (rank - axis - array.ndim))
        made = to.one(node, made, beside(to, array, rank, first))
    to.put(op.outputs[0], activated(to, op, made), first=first)


@MINDSPORE.of("FusedBatchNorm", "BatchNorm")
def batch_norm(to: Speller, op: Operation) -> None:
    """x, then scale and bias with FusedBatchNorm, mean, variance."""
    x, last = window(to, op, needed(op, 0))
    channels = to.shape(needed(op, 0))[-1 if last else 1]
    count = 4 if op.kind == "FusedBatchNorm" else 2
    arrays = [to.known(given(op, i + 1), "statistics").reshape(-1) for i in range(count)]
    if any(array.size != channels for array in arrays):
        raise Unspelled(f"its statistics are not of {channels} channels")
    if count == 2:
        arrays = [np.ones(channels, np.float32), np.zeros(channels, np.float32), *arrays]
    operands = [to.const(array) for array in arrays]
    made = to.one("BatchNormalization", x, *operands, epsilon=float(op.attributes["epsilon"]))
    to.put(op.outputs[0], made, first=last)


@MINDSPORE.of("Cast")
def cast(to: Speller, op: Operation) -> None:
    """x, the type."""
    import onnx

    x, first = as_it_is(to, needed(op, 0), op.outputs[0])
    dtype = to.dtype(op.outputs[0])
    if given(op, 1) is not None:
        (number,) = integers(to, given(op, 1), "type") or (0,)
        dtype = TYPE_IDS.get(number, dtype)
    made = to.one("Cast", x, to=int(onnx.helper.np_dtype_to_tensor_dtype(dtype)))
    to.put(op.outputs[0], made, first=first)


def _scaled(to: Speller, x: str, factor: float, shift: float) -> str:
    if factor != 1:
        x = to.one("Mul", x, to.const(factor, np.float32))
    return x if shift == 0 else to.one("Add", x, to.const(shift, np.float32))


@MINDSPORE.of("QuantDTypeCast")
def cast_to_grid(to: Speller, op: Operation) -> None:
    """x: numbers to integers of a scale, or back."""
    if "scales" not in op.attributes:
        to.dtype(op.outputs[0])
        raise Unspelled("it says no scale")
    (x,), first = to.alike([needed(op, 0)], op.outputs[0])
    name = "QuantizeLinear" if to.dtype(op.outputs[0]).kind in "iu" else "DequantizeLinear"
    to.put(op.outputs[0], to.one(name, x, *grid(to, op)), first=first)


@MINDSPORE.of("DynamicQuant")
def to_no_grid(to: Speller, op: Operation) -> None:
    """x: rounded by scales of the values of a run, which float32 need not."""
    (x,), first = to.alike([needed(op, 0)], op.outputs[0])
    to.put(op.outputs[0], to.one("Identity", x), first=first)
