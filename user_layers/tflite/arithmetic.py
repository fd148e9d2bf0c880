"""TFLite operations that work element by element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from user_layers.spelling.foreign import Operation
from user_layers.spelling.integers import dequantized, grid
from user_layers.spelling.speller import Speller, Unspelled
from user_layers.tflite.table import TFLITE, activated, clipped, given, reshaped, value

_UNARY = {
    "ABS": "Abs",
    "CEIL": "Ceil",
    "COS": "Cos",
    "ELU": "Elu",
    "EXP": "Exp",
    "FLOOR": "Floor",
    "HARD_SWISH": "HardSwish",
    "LOG": "Log",
    "LOGICAL_NOT": "Not",
    "LOGISTIC": "Sigmoid",
    "NEG": "Neg",
    "RELU": "Relu",
    "ROUND": "Round",
    "SIGN": "Sign",
    "SIN": "Sin",
    "SQRT": "Sqrt",
    "TANH": "Tanh",
}
_CLIPS = {"RELU6": (0, 6), "RELU_N1_TO_1": (-1, 1), "RELU_0_TO_1": (0, 1)}
_BINARY = {
    "ADD": "Add",
    "SUB": "Sub",
    "MUL": "Mul",
    "DIV": "Div",
    "MAXIMUM": "Max",
    "MINIMUM": "Min",
    "POW": "Pow",
    "LESS": "Less",
    "LESS_EQUAL": "LessOrEqual",
    "GREATER": "Greater",
    "GREATER_EQUAL": "GreaterOrEqual",
    "EQUAL": "Equal",
    "LOGICAL_AND": "And",
    "LOGICAL_OR": "Or",
    "PRELU": "PRelu",
}


def _pointwise(to: Speller, op: Operation, make: Callable[[str], str]) -> None:
    """An operation with one operand, in the order of axes in which that is."""
    found = value(to, given(op, 0))
    to.put(op.outputs[0], make(found.name), first=found.first)


@TFLITE.of(*_UNARY)
def _unary(to: Speller, op: Operation) -> None:
    _pointwise(to, op, lambda x: to.one(_UNARY[op.kind], x))


@TFLITE.of(*_CLIPS)
def _clip(to: Speller, op: Operation) -> None:
    _pointwise(to, op, lambda x: clipped(to, x, given(op, 0), *_CLIPS[op.kind]))


@TFLITE.of("SQUARE")
def _square(to: Speller, op: Operation) -> None:
    _pointwise(to, op, lambda x: to.one("Mul", x, x))


@TFLITE.of("RSQRT")
def _rsqrt(to: Speller, op: Operation) -> None:
    _pointwise(to, op, lambda x: to.one("Reciprocal", to.one("Sqrt", x)))


@TFLITE.of("LEAKY_RELU")
def _leaky_relu(to: Speller, op: Operation) -> None:
    _pointwise(to, op, lambda x: to.one("LeakyRelu", x, alpha=float(op.attributes.get("alpha", 0.0))))


@TFLITE.of("GELU")
def _gelu(to: Speller, op: Operation) -> None:
    how = "tanh" if op.attributes.get("approximate") else "none"
    _pointwise(to, op, lambda x: to.one("Gelu", x, approximate=how))


@TFLITE.of("CAST", "DEQUANTIZE")
def _cast(to: Speller, op: Operation) -> None:
    import onnx

    if "scales" in op.attributes:
        elements = to.constant(given(op, 0))
        if elements is None:
            scale = grid(to, op)
            _pointwise(to, op, lambda x: to.one("DequantizeLinear", x, *scale))
        else:
            to.put(op.outputs[0], to.const(dequantized(elements, op.attributes), to.dtype(op.outputs[0])))
        return
    kind = onnx.helper.np_dtype_to_tensor_dtype(to.dtype(op.outputs[0]))
    to.dtype(given(op, 0))
    _pointwise(to, op, lambda x: to.one("Cast", x, to=int(kind)))


@TFLITE.of("QUANTIZE")
def _quantize(to: Speller, op: Operation) -> None:
    if "scales" not in op.attributes:
        to.dtype(op.outputs[0])
        raise Unspelled("it says no scale")
    scale = grid(to, op)
    _pointwise(to, op, lambda x: to.one("QuantizeLinear", x, *scale))


@TFLITE.of("ZEROS_LIKE")
def _zeros_like(to: Speller, op: Operation) -> None:
    to.put(op.outputs[0], to.const(np.zeros(to.shape(op.outputs[0]), to.dtype(op.outputs[0]))))


@TFLITE.of(*_BINARY)
def _binary(to: Speller, op: Operation) -> None:
    out = op.outputs[0]
    values, first = to.alike([given(op, 0), given(op, 1)], out)
    if op.kind == "DIV" and to.dtype(out).kind in "iu":
        raise Unspelled("it divides whole numbers")
    to.put(out, activated(to, op, to.one(_BINARY[op.kind], *values), out), first=first)


@TFLITE.of("NOT_EQUAL")
def _not_equal(to: Speller, op: Operation) -> None:
    values, first = to.alike([given(op, 0), given(op, 1)], op.outputs[0])
    to.put(op.outputs[0], to.one("Not", to.one("Equal", *values)), first=first)


@TFLITE.of("SQUARED_DIFFERENCE")
def _squared_difference(to: Speller, op: Operation) -> None:
    values, first = to.alike([given(op, 0), given(op, 1)], op.outputs[0])
    difference = to.one("Sub", *values)
    to.put(op.outputs[0], to.one("Mul", difference, difference), first=first)


@TFLITE.of("FLOOR_DIV", "FLOOR_MOD")
def _floored(to: Speller, op: Operation) -> None:
    out = op.outputs[0]
    if to.dtype(out).kind != "f":
        raise Unspelled("it divides whole numbers")
    (x, y), first = to.alike([given(op, 0), given(op, 1)], out)
    found = _rest(to, x, y, to.dtype(out))
    if op.kind == "FLOOR_DIV":
        # LiteRT divides in double precision: a quotient that float32 rounds up to a whole number is less.
        whole = to.one("Round", to.one("Div", to.one("Sub", x, found), y))
        rough = to.one("Floor", to.one("Div", x, y))
        found = to.one("Where", to.one("IsNaN", whole), rough, whole)  # of infinities
    to.put(out, found, first=first)


def _rest(to: Speller, x: str, y: str, dtype: np.dtype[Any]) -> str:
    """The rest of x by y with y's sign, exact as LiteRT's: x - floor(x / y) * y is not."""
    found = to.one("Mod", x, y, fmod=1)
    signs = to.one("Mul", to.one("Sign", found), to.one("Sign", y))
    other = to.one("Less", signs, to.const(0, dtype))
    return to.one("Where", other, to.one("Add", found, y), found)


@TFLITE.of("ADD_N")
def _add_n(to: Speller, op: Operation) -> None:
    values, first = to.alike([given(op, i) for i in range(len(op.inputs))], op.outputs[0])
    to.put(op.outputs[0], to.one("Sum", *values), first=first)


@TFLITE.of("SELECT", "SELECT_V2")
def _select(to: Speller, op: Operation) -> None:
    condition, out = given(op, 0), op.outputs[0]
    if op.kind == "SELECT" and to.rank(condition) == 1 < to.rank(out):  # it chooses whole rows
        rows = (to.shape(condition)[0], *(1,) * (to.rank(out) - 1))
        values = [reshaped(to, to.own(condition), rows)]
        values += [to.own(given(op, 1)), to.own(given(op, 2))]
        to.put(out, to.one("Where", *values))
        return
    operands = [given(op, i) for i in range(3)]
    if max(map(to.rank, operands)) > to.rank(out):  # of one element, of which LiteRT makes a scalar
        to.put(out, reshaped(to, to.one("Where", *map(to.own, operands)), to.shape(out)))
        return
    values, first = to.alike(operands, out)
    to.put(out, to.one("Where", *values), first=first)
