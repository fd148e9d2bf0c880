"""What patterns ask of a model: which node makes a value for one reader only, and products taken apart."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from user_layers.onnx.model import Array, Model, Node, reduced_axes

_CLOSE = 1e-6  # relative: constants as single precision holds them


@dataclass(frozen=True)
class Found:
    """What a pattern found: the operation of this compiler that computes the same from one value. more: what
    else it takes, constants."""

    op: str
    source: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    more: tuple[str, ...] = ()


@dataclass(frozen=True)
class Product:
    """A product taken apart: its constant, and what else is multiplied."""

    constant: float
    factors: tuple[str, ...]


class Matcher:
    """One try of a pattern at a node; what it goes through is `absorbed`, and gone if the pattern fits.

    A value is gone through only where nothing but the pattern reads it: so a pattern ends at what others read
    too, such as the x of x * sigmoid(x).
    """

    def __init__(self, model: Model, makers: Mapping[str, Node], last: Node) -> None:
        self._model = model
        self._makers = makers
        self._results = {value.name for value in model.outputs}
        self._last = last
        self.absorbed: set[str] = set()

    def node(self, name: str, *ops: str, readers: int = 1) -> Node | None:
        """The node of one of these operations that makes a value for the pattern alone; readers: how many
        nodes of the pattern read it."""
        found = self._makers.get(name)
        if found is None or not found.is_a(*ops):
            return None
        if name != self._last.outputs[0]:
            if name in self._results or len(self._model.consumers.get(name, ())) != readers:
                return None
            self.absorbed.add(name)
        return found

    def number(self, name: str) -> float | None:
        """A constant of one element."""
        array = self._model.constants.get(name)
        return float(array.reshape(-1)[0]) if array is not None and array.size == 1 else None

    def squared(self, name: str) -> str | None:
        """The x of x * x, written as a product or a power."""
        square = self.node(name, "Pow", "Mul")
        return None if square is None else square_of(square, self._model.constants)

    def numbers(self, node: Node) -> tuple[str, float] | None:
        """The two inputs of a node where one of them is a number: (the other one, the number)."""
        if len(node.inputs) != 2:
            return None
        for value, constant in (node.inputs, node.inputs[::-1]):
            found = self.number(constant)
            if found is not None and self.number(value) is None:
                return value, found
        return None

    def product(self, name: str) -> Product:
        """A value as a product, through multiplications and divisions by numbers."""
        node = self.node(name, "Mul", "Div")
        if node is None or len(node.inputs) != 2:
            return Product(1.0, (name,))
        parts = []
        for i, factor in enumerate(node.inputs):
            number = self.number(factor)
            if node.op == "Div" and i == 1:
                if not number:
                    self.absorbed.discard(name)
                    return Product(1.0, (name,))
                parts.append(Product(1 / number, ()))
            else:
                parts.append(self.product(factor) if number is None else Product(number, ()))
        return Product(parts[0].constant * parts[1].constant, parts[0].factors + parts[1].factors)

    def either(self, product: Product) -> Iterator[tuple[str, str]]:
        """The two factors of a product, in both orders; what a try in the first one went through is not gone
        in the second."""
        absorbed = set(self.absorbed)
        for pair in (product.factors, product.factors[::-1]) if len(product.factors) == 2 else ():
            self.absorbed = set(absorbed)
            yield pair[0], pair[1]

    def sum(self, name: str, number: float) -> str | None:
        """The x of x + number."""
        node = self.node(name, "Add")
        found = self.numbers(node) if node is not None else None
        return found[0] if found is not None and close(found[1], number) else None

    def row(self, name: str, op: str) -> tuple[str, str] | None:
        """The two operands of a value where one of them is a constant with one number per column: (the other
        one, the constant)."""
        node, shape = self.node(name, op), self._model.value(name).fixed
        for value, other in (node.inputs, node.inputs[::-1]) if node is not None and shape else ():
            array = self._model.constants.get(other)
            if array is None or value in self._model.constants or shape is None:
                continue
            if array.size == shape[-1] and array.shape[-1:] == shape[-1:]:
                return value, other
        self.absorbed.discard(name)
        return None

    def channels(self, name: str, op: str) -> tuple[str, str] | None:
        """The same of a constant with one number per channel of [N, C, ...]."""
        node, shape = self.node(name, op), self.shape(name)
        for value, other in (node.inputs, node.inputs[::-1]) if node is not None and len(shape) > 2 else ():
            array = self._model.constants.get(other)
            if array is None or value in self._model.constants or array.ndim > len(shape):
                continue
            full = (*(1,) * (len(shape) - array.ndim), *array.shape)
            if array.size == full[1] == shape[1]:
                return value, other
        self.absorbed.discard(name)
        return None

    def filled(self, name: str, number: float) -> int | None:
        """The elements of a constant that are all this number."""
        array = self._model.constants.get(name)
        return array.size if array is not None and bool((array == np.float32(number)).all()) else None

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a value; () where it is not known."""
        return self._model.value(name).fixed or ()

    def mean_along(self, name: str, *axes: int, readers: int = 1) -> str | None:
        """What a value is the mean of, over these dimensions, which stay."""
        return self._along(name, "ReduceMean", axes, readers)

    def length_along(self, name: str, *axes: int) -> str | None:
        """What a value is the root of the sum of squares of, over these dimensions, which stay."""
        return self._along(name, "ReduceL2", axes, 1)

    def _along(self, name: str, op: str, along: Sequence[int], readers: int) -> str | None:
        node = self.node(name, op, readers=readers)
        shape = self._model.value(node.inputs[0]).fixed if node is not None else None
        if node is None or not shape or not node.attributes.get("keepdims", 1):
            return None
        rank = len(shape)
        if reduced_axes(node, self._model.constants, rank) != frozenset(axis % rank for axis in along):
            return None
        return node.inputs[0]

    def same_type(self, name: str) -> bool:
        """Whether a value has the last node's shape, and both are float32: nothing is broadcast then."""
        end, value = self._model.value(self._last.outputs[0]), self._model.value(name)
        return end.dtype == value.dtype == np.float32 and end.fixed is not None and end.fixed == value.fixed


def square_of(node: Node, constants: Mapping[str, Array]) -> str | None:
    """The x of x * x, of a product or a power."""
    if not node.is_a("Mul", "Pow"):
        return None
    base, other = node.inputs
    if node.op == "Mul":
        return base if base == other else None
    two = constants.get(other)
    return base if two is not None and two.size == 1 and close(float(two.reshape(-1)[0]), 2.0) else None


def close(a: float, b: float) -> bool:
    """Whether a constant of a model is this number, as single precision holds it."""
    return math.isclose(a, b, rel_tol=_CLOSE)
