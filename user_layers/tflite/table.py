"""The table of TFLite operations that ONNX can say, and what their spellings share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from user_layers.spelling.foreign import Operation
from user_layers.spelling.spell import Spellings
from user_layers.spelling.speller import Speller, Unspelled, axis_of, to_first

TFLITE = Spellings()
_ACTIVATIONS = ("NONE", "RELU", "RELU_N1_TO_1", "RELU6", "TANH", "SIGN_BIT")


@dataclass(frozen=True)
class Value:
    """A value in the order of axes in which it is. axes: those of the tensor, in the value's order."""

    name: str
    axes: tuple[int, ...]
    first: bool

    def at(self, axis: int) -> int:
        """Where an axis of the tensor (which may count from the end) is in the value."""
        return self.axes.index(axis_of(axis, len(self.axes)))

    def permuted(self, items: Sequence[int]) -> list[int]:
        """What is told for each axis of the tensor, in the value's order."""
        return [int(items[axis]) for axis in self.axes]


def given(op: Operation, index: int) -> str:
    """The name of an input. Raises Unspelled where it is left out."""
    name = op.inputs[index] if index < len(op.inputs) else None
    if name is None:
        raise Unspelled(f"its input {index} is left out")
    return name


def optional(op: Operation, index: int) -> str | None:
    """The name of an input that may be left out."""
    return op.inputs[index] if index < len(op.inputs) else None


def value(to: Speller, name: str) -> Value:
    """A tensor in the order in which it already is."""
    (found,), first = to.alike([name], name)
    rank = to.rank(name)
    return Value(found, to_first(rank) if first else tuple(range(rank)), first)


def whole(to: Speller, name: str | None, what: str) -> list[int]:
    """The elements of a constant of whole numbers. Raises Unspelled, which calls it `what`."""
    return [int(element) for element in to.known(name, what).reshape(-1)]


def int64(to: Speller, items: object) -> str:
    """The value of a constant of ONNX's whole numbers."""
    return to.const(items, np.int64)


def reshaped(to: Speller, found: str, shape: Sequence[int]) -> str:
    """A value in another shape."""
    return to.one("Reshape", found, int64(to, list(shape)))


def activated(to: Speller, op: Operation, found: str, name: str) -> str:
    """A value behind the operation's fused activation. name: the tensor that is made."""
    code = op.attributes.get("fused_activation_function", 0)
    kind = _ACTIVATIONS[code] if 0 <= code < len(_ACTIVATIONS) else f"number {code}"
    if kind == "NONE":
        return found
    if kind == "RELU":
        return to.one("Relu", found)
    if kind == "RELU6":
        return clipped(to, found, name, 0, 6)
    if kind == "RELU_N1_TO_1":
        return clipped(to, found, name, -1, 1)
    if kind == "TANH":
        return to.one("Tanh", found)
    raise Unspelled(f"it has the fused activation {kind}")


def clipped(to: Speller, found: str, name: str, low: float, high: float) -> str:
    """A value between two numbers."""
    dtype = to.dtype(name)
    return to.one("Clip", found, to.const(low, dtype), to.const(high, dtype))
