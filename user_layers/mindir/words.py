"""What the spellings of MindSpore's primitives share: the table of them, activations, orders of axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from user_layers.spelling import speller
from user_layers.spelling.foreign import Array, Operation
from user_layers.spelling.spell import Spellings
from user_layers.spelling.speller import Speller, Unspelled, to_first

MINDSPORE = Spellings()
NCHW, NHWC = 0, 1  # the attribute `format`

# ActivationType of the schema; those that one ONNX node says, with its attributes.
_NONE, _RELU6, _LEAKY, _RELU1, _HSWISH, _LINEAR, _HARD_TANH, _SWISH, _GELU, _FAST_GELU = (
    *(0, 3, 5, 7, 12, 15, 16, 18, 19, 20),
)
_ELU = 4
_PLAIN: dict[int, tuple[str, dict[str, Any]]] = {
    1: ("Relu", {}),
    2: ("Sigmoid", {}),
    6: ("Abs", {}),
    8: ("Softsign", {}),
    9: ("Softplus", {}),
    10: ("Tanh", {}),
    11: ("Selu", {}),
    _HSWISH: ("HardSwish", {}),
    13: ("HardSigmoid", {"alpha": 1 / 6, "beta": 0.5}),
    17: ("Sign", {}),
}


def given(op: Operation, index: int) -> str | None:
    """An input, None where it is left out."""
    return op.inputs[index] if index < len(op.inputs) else None


def needed(op: Operation, index: int) -> str:
    """An input that must be there."""
    name = given(op, index)
    if name is None:
        raise Unspelled(f"it has no input {index}")
    return name


def activated(to: Speller, op: Operation, value: str, kind: int | None = None) -> str:
    """A value behind the activation of an operation."""
    kind = int(op.attributes.get("activation_type", 0)) if kind is None else kind
    alpha = float(op.attributes.get("alpha", 0.0))
    if kind in (_NONE, _LINEAR):
        return value
    if kind in _PLAIN:
        name, attributes = _PLAIN[kind]
        return to.one(name, value, **attributes)
    if kind == _ELU:
        return to.one("Elu", value, alpha=alpha)
    if kind == _LEAKY:
        return to.one("LeakyRelu", value, alpha=alpha)
    if kind == _SWISH:
        return to.one("Mul", value, to.one("Sigmoid", value))
    if kind in (_GELU, _FAST_GELU):
        rough = kind == _FAST_GELU or op.attributes.get("approximate")
        return to.one("Gelu", value, approximate="tanh" if rough else "none")
    limits = {_RELU6: (0.0, 6.0), _RELU1: (-1.0, 1.0)}
    if kind == _HARD_TANH:
        limits[kind] = (float(op.attributes.get("min_val", -1)), float(op.attributes.get("max_val", 1)))
    if kind in limits:
        low, high = limits[kind]
        return to.one("Clip", value, to.const(low, np.float32), to.const(high, np.float32))
    raise Unspelled(f"its activation {kind} has no counterpart in ONNX")


def window(to: Speller, op: Operation, name: str) -> tuple[str, bool]:
    """A value with channels first, as operations with windows need it; and whether the framework has them
    last, which is what its attribute `format` says."""
    last = op.attributes.get("format", NHWC) == NHWC
    if to.rank(name) != 4:
        raise Unspelled(f"it has {to.rank(name)} dimensions, not 4")
    return (to.first(name) if last else to.own(name)), last


def spatial(to: Speller, op: Operation, name: str) -> tuple[int, int]:
    """Height and width of a tensor."""
    shape = to.shape(name)
    return (shape[1], shape[2]) if op.attributes.get("format", NHWC) == NHWC else (shape[2], shape[3])


def as_it_is(to: Speller, name: str, out: str) -> tuple[str, bool]:
    """A value in the order of axes that it has, for an operation whose result has as many."""
    (value,), first = to.alike([name], out)
    return value, first


def axis_of(to: Speller, name: str, axis: int, first: bool) -> int:
    """Where an axis of a tensor is in a value with that order of axes."""
    rank = to.rank(name)
    axis = speller.axis_of(axis, rank)
    return to_first(rank).index(axis) if first else axis


def beside(to: Speller, array: Array, rank: int, first: bool) -> str:
    """A constant of full rank for a value with that order of axes."""
    return to.const(array.transpose(to_first(rank)) if first else array)


def integers(to: Speller, name: str | None, what: str) -> tuple[int, ...]:
    """The whole numbers of an input that must be constant."""
    array = to.known(name, what)
    if array.dtype.kind not in "iu":
        raise Unspelled(f"its {what} are of type {array.dtype}")
    return tuple(int(value) for value in array.reshape(-1))


def int64(to: Speller, name: str) -> str:
    """A value of whole numbers as ONNX wants those that say shapes."""
    array = to.constant(name)
    return to.const(array, np.int64) if array is not None else to.one("Cast", to.own(name), to=7)


def typed(to: Speller, value: str, made: Any, name: str, *, first: bool = False) -> None:
    """Tell that a value of type `made` is the tensor `name`, which may have another."""
    import onnx

    dtype = to.dtype(name)
    if dtype != np.dtype(made):
        value = to.one("Cast", value, to=int(onnx.helper.np_dtype_to_tensor_dtype(dtype)))
    to.put(name, value, first=first)


def numbers(value: Any) -> tuple[int, ...]:
    """An attribute that is a list, or one number where a file has it so."""
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return tuple(int(one) for one in value)
    return (int(value),)
