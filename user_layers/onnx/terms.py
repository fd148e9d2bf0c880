"""Values that are sums of elements of another value, each times a number that is known.

Moving, cutting, joining, negating, multiplying by constants and adding are followed back to the other value;
numpy then does with the places of its elements what the nodes do with the elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from user_layers.onnx.model import Array, Model, Node
from user_layers.onnx.views import RESHAPES, step_back

_MOST_VALUES = 40  # that are followed back from one
_MOST_ELEMENTS = 1 << 22  # of a value: every one is looked at, at every step
_MOST_TERMS = 2

_Step = Callable[[Array], Array]


@dataclass(frozen=True)
class Term:
    """index: which element of the source is where, row by row; factor: what that is multiplied by."""

    index: npt.NDArray[np.int32]
    factor: npt.NDArray[np.float32]

    def moved(self, step: _Step) -> Term:
        """Elsewhere."""
        return Term(step(self.index), step(self.factor))

    def times(self, factor: Array) -> Term:
        """Multiplied once more."""
        return Term(self.index, np.asarray(self.factor * factor, np.float32))


@dataclass(frozen=True)
class Region:
    """What lies between a value and those that it is made of, nearest first. inside: values, the one itself
    among them; ops: of the nodes that make them; sources: what they are made of."""

    inside: tuple[str, ...]
    ops: frozenset[str]
    sources: tuple[str, ...]


def region_of(model: Model, name: str) -> Region | None:
    """What is followed back from a value; None where that is nothing, or too much."""
    found: dict[str, tuple[str, ...]] = {}
    waiting, sources, ops = [name], [], set()
    for one in waiting:  # grows
        node = model.makers.get(one)
        operands = _operands(model, node) if node is not None else None
        if node is None or operands is None:
            sources.append(one)
            continue
        found[one] = operands
        ops.add(node.op)
        if len(found) > _MOST_VALUES:
            return None
        known = {*waiting}
        waiting += [each for each in dict.fromkeys(operands) if each not in known]
    return Region(tuple(found), frozenset(ops), tuple(sources)) if found else None


def terms_of(model: Model, name: str, source: str) -> tuple[Term, ...] | None:
    """The one or two terms of each element of a value; None where there are others, where it is made of other
    values too, or where factors are multiplied with one another, which rounds."""
    shape = model.value(source).fixed
    if shape is None or not 0 < math.prod(shape) <= _MOST_ELEMENTS:
        return None
    whole = np.arange(math.prod(shape), dtype=np.int32).reshape(shape)
    known: dict[str, tuple[Term, ...] | None] = {source: (Term(whole, np.ones(shape, np.float32)),)}

    def terms(one: str) -> tuple[Term, ...] | None:
        if one not in known:
            known[one] = made(one)
        return known[one]

    def made(one: str) -> tuple[Term, ...] | None:
        node = model.makers.get(one)
        operands = _operands(model, node) if node is not None else None
        if node is None or operands is None:
            return None
        parts = [terms(operand) for operand in operands]
        found = [part for part in parts if part is not None]
        if len(found) < len(parts):
            return None
        result = _applied(model, node, one, found)
        if result is None or len(result) > _MOST_TERMS:
            return None
        return result if all(term.index.shape == model.value(one).fixed for term in result) else None

    return terms(name)


def _operands(model: Model, node: Node) -> tuple[str, ...] | None:
    """What a node's results have their elements of; None for what is not followed."""
    if not node.is_plain or any(model.value(name).dtype != np.float32 for name in node.makes):
        return None
    if node.op in ("Neg", "Identity", "Transpose", "Slice", "Split", *RESHAPES):
        return node.inputs[:1] if node.inputs[0] not in model.constants else None
    values = tuple(name for name in node.inputs if name not in model.constants)
    if node.op == "Mul" and len(node.inputs) == 2:
        return values if len(values) == 1 else None
    if node.op in ("Add", "Sub", "Concat") and values == node.inputs:
        return values
    return None


def _applied(model: Model, node: Node, made: str, parts: list[tuple[Term, ...]]) -> tuple[Term, ...] | None:
    if node.op in ("Neg", "Sub"):
        negated = tuple(term.times(np.float32(-1)) for term in parts[-1])
        return (*parts[0], *negated) if node.op == "Sub" else negated
    if node.op == "Add":
        return (*parts[0], *parts[1])
    if node.op == "Mul":
        (factor,) = (model.constants[name] for name in node.inputs if name in model.constants)
        if len(parts[0]) != 1 or not np.isin(parts[0][0].factor, (-1, 1)).all() or factor.dtype != np.float32:
            return None
        return tuple(term.times(factor) for term in parts[0])
    if node.op == "Concat":
        return _joined(node, parts)
    step = _move(model, node, made)
    return None if step is None else tuple(term.moved(step) for term in parts[0])


def _joined(node: Node, parts: list[tuple[Term, ...]]) -> tuple[Term, ...]:
    axis = int(node.attributes["axis"])

    def padded(part: tuple[Term, ...]) -> Iterator[Term]:
        """As many terms as the longest has; what is added is multiplied by 0."""
        yield from part
        for _ in range(max(map(len, parts)) - len(part)):
            yield part[0].times(np.float32(0))

    return tuple(
        Term(
            np.concatenate([one.index for one in terms], axis),
            np.concatenate([one.factor for one in terms], axis),
        )
        for terms in zip(*(tuple(padded(part)) for part in parts), strict=True)
    )


def _move(model: Model, node: Node, made: str) -> _Step | None:
    """What a node does that only moves elements; None where that is not known."""
    found = step_back(model, node, made)
    if found is not None:
        return found[1]
    before = model.value(node.inputs[0]).fixed
    cut = _sliced(model, node, len(before)) if before is not None and node.op == "Slice" else None
    if cut is None:
        return None
    axis, elements = cut
    return lambda a: a[(slice(None),) * axis + (elements,)]


def _sliced(model: Model, node: Node, rank: int) -> tuple[int, slice] | None:
    """(axis, elements) of a Slice along one axis, in steps too, which views do not follow."""
    numbers: list[int | None] = []
    for name in (*node.inputs[1:5], *("",) * (5 - len(node.inputs))):
        array = model.constants.get(name) if name else None
        if (name and array is None) or (array is not None and array.size != 1):
            return None
        numbers.append(None if array is None else int(array.reshape(-1)[0]))
    if len(numbers) != 4 or numbers[0] is None or numbers[1] is None:  # before opset 10 they are attributes
        return None
    start, end, axis, step = numbers
    return (axis or 0) % rank, slice(start, end, step) if (step or 1) > 0 else slice(0, 0)
