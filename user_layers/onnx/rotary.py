"""Rotary embedding: pairs of a head's elements that are turned, without moving single elements.

However a model writes it (halves or neighbours in pairs, as complex numbers, a part of each head), each
element of the result is one of the heads' times a number, and another one of the same head times a number:
x * cos + x' * sin. Taking heads apart and putting them together again costs more than all else; but x' is

- the product of heads' weights with other columns, where heads are a product with weights: the same bits.
  Both products, and what multiplies and adds them, have their columns where heads are only looked at; or
- a product of heads with ones and zeros: the same numbers where all are finite.

The one that takes fewer cycles is put in. Where the numbers are not known before a run, what exchanges and
negates elements becomes such a product alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from user_layers.onnx.fold import needed
from user_layers.onnx.model import Array, Model, Node, Value
from user_layers.onnx.terms import Region, Term, region_of, terms_of
from user_layers.onnx.views import cut_of
from user_layers.onnx.work import DDR_BYTES, PRODUCT_MACS

_MOVED = 1.4  # cycles for an element of heads that are taken apart and put together again
_TO_HEADS = (0, 2, 1, 3)
_RANK = 4  # of heads: [n, heads, tokens, elements], or with tokens first
_WORD = 4  # bytes

I32 = npt.NDArray[np.int32]


@dataclass(frozen=True)
class _Product:
    """What heads are columns of, [n, tokens, columns]; added: the bias behind it."""

    node: Node
    weights: Array
    bias: Array | None


@dataclass(frozen=True)
class _Turn:
    """A value of heads that are turned. source: what it is made of; others: of each element of a head which
    other one is added; cos, sin: what both are multiplied by, of the shape of the result, or of one that is
    repeated; None where nothing is multiplied: the result is the other one times `sin`, which is -1 or 1.
    heads_first: the result's heads come before tokens, the source's behind them; product: makes the source
    [n, tokens, columns]; else the source is of the result's shape."""

    source: str
    others: I32
    cos: Array | None
    sin: Array
    heads_first: bool = False
    product: _Product | None = None

    def cycles(self, shape: tuple[int, ...]) -> tuple[float, float]:
        """By other columns of weights, and by ones."""
        count, weights = math.prod(shape), math.inf
        if self.product is not None:
            inner, columns = self.product.weights.shape
            macs = count * inner / PRODUCT_MACS
            weights = max(inner * columns * _WORD / DDR_BYTES, macs)
        moves = 4 if self.product is not None else 2  # between columns and heads, to and fro
        return weights, count * (shape[-1] / PRODUCT_MACS + moves * _WORD / DDR_BYTES)


def turn_heads(model: Model) -> Model:
    """Put products in the place of turned heads, where that takes fewer cycles."""
    instead: dict[str, list[Node]] = {}
    seen: set[str] = set()
    for node in reversed(model.nodes):
        if node.op not in ("Add", "Sub", "Concat", "Reshape") or not node.is_plain:
            continue
        last = node.outputs[0]
        region = None if last in seen else _region(model, last)
        found = None if region is None else _turn(model, last, region)
        shape = model.value(last).fixed
        if region is None or found is None or shape is None:
            continue
        if min(found.cycles(shape)) < _MOVED * math.prod(shape):
            written = _Writer(model, node)
            written.write(found)
            model = written.model
            instead[last] = written.nodes
            seen.update(region.inside)
    return needed(model.with_instead(instead, model.constants, model.values)) if instead else model


def _region(model: Model, last: str) -> Region | None:
    """What a value of heads is made of, where that can be turned ones."""
    shape = model.value(last).fixed
    if shape is None or len(shape) != _RANK or model.value(last).dtype != np.float32:
        return None
    region = region_of(model, last)
    if region is None or len(region.sources) != 1 or "Concat" not in region.ops:
        return None
    return region if region.ops & {"Neg", "Sub"} else None


def _turn(model: Model, last: str, region: Region) -> _Turn | None:
    for source in (*region.sources, *region.inside[:0:-1]):
        found = _of_columns(model, last, source)
        if found is not None:
            return found
    shape = model.value(last).fixed
    for source in (*region.inside[1:], *region.sources):
        terms = terms_of(model, last, source) if model.value(source).fixed == shape else None
        if terms is None:
            continue
        turned = _turned(terms, np.arange(terms[0].index.size, dtype=np.int32).reshape(shape or ()))
        if turned is not None:
            return _Turn(source, *turned)
    return None


def _of_columns(model: Model, last: str, source: str) -> _Turn | None:
    """Heads that are columns of a product with weights."""
    shape, flat = model.value(last).fixed, model.value(source).fixed
    product = _product(model, source)
    if product is None or shape is None or flat is None or len(flat) != 3:
        return None
    terms = terms_of(model, last, source)
    if terms is None or len(terms) != 2:
        return None
    whole = np.arange(math.prod(flat), dtype=np.int32)
    for heads_first in (True, False):
        n, tokens, heads = (shape[k] for k in ((0, 2, 1) if heads_first else (0, 1, 2)))
        if (n, tokens, heads * shape[-1]) != flat:
            continue
        own = whole.reshape(n, tokens, heads, shape[-1])
        turned = _turned(terms, own.transpose(_TO_HEADS) if heads_first else own)
        if turned is not None and turned[1] is not None and turned[1].shape[0] == turned[2].shape[0] == 1:
            return _Turn(source, *turned, heads_first, product)
    return None


def _turned(terms: tuple[Term, ...], own: I32) -> tuple[I32, Array | None, Array] | None:
    """(others, cos, sin) of a _Turn; own: the element of the source that lies where each result does."""
    if len(terms) == 1:
        (term,) = terms
        others, signs = _others(term.index, own, term.factor != 0), _short(term.factor)
        if others is None or signs.size != own.shape[-1] or {*signs.ravel().tolist()} != {-1.0, 1.0}:
            return None
        return others, None, signs
    first, second = terms
    straight = (first.index == own) | (second.factor == 0)  # the first term is the head's own element
    if not np.where(straight, (first.index == own) | (first.factor == 0), second.index == own).all():
        return None
    cos = np.where(straight, first.factor, second.factor)
    sin = np.where(straight, second.factor, first.factor)
    others = _others(np.where(straight, second.index, first.index), own, sin != 0)
    return None if others is None or not sin.any() else (others, _short(cos), _short(sin))


def _others(index: I32, own: I32, used: npt.NDArray[np.bool_]) -> I32 | None:
    """Of each element of a head its other one, which is the same in all heads and for all tokens; its own
    where none is used."""
    size = own.shape[-1]
    if not np.array_equal((index // size)[used], (own // size)[used]) or (index == own)[used].any():
        return None
    places = np.where(used, index % size, -1).reshape(-1, size)
    others = places.max(0)
    if not (used.reshape(-1, size) <= (places == others)).all():
        return None
    return np.where(others < 0, np.arange(size), others)


def _short(array: Array) -> Array:
    """Once what is repeated along a dimension before the last one."""
    for axis in range(array.ndim - 1):
        once = array.take([0], axis)
        if (array == once).all():
            array = once
    return array


def _product(model: Model, name: str) -> _Product | None:
    """The product with weights behind which, or behind whose bias, a value is; or of which it is a part."""
    node, bias = model.makers.get(name), None
    if node is not None and node.is_a("Slice"):
        before, after = (model.value(one).fixed for one in (node.inputs[0], name))
        cut = cut_of(model, node, name, before, after) if before and after else None
        whole = _product(model, node.inputs[0])
        if whole is None or cut is None or before is None or cut[0] != len(before) - 1:
            return None
        columns = slice(cut[1], cut[1] + cut[2])
        bias = whole.bias[columns] if whole.bias is not None else None
        return _Product(whole.node, whole.weights[:, columns], bias)
    if node is not None and node.is_a("Add"):
        sums = [one for one in node.inputs if one not in model.constants]
        numbers = [model.constants[one] for one in node.inputs if one in model.constants]
        if len(sums) != 1 or numbers[0].shape != (model.value(name).fixed or ())[-1:]:
            return None
        bias, node = numbers[0], model.makers.get(sums[0])
    if node is None or not node.is_a("MatMul"):
        return None
    weights = model.constants.get(node.inputs[1])
    if weights is None or weights.ndim != 2 or weights.dtype != np.float32:
        return None
    return _Product(node, weights, bias)


class _Writer:
    """Writes the nodes in the place of one: `nodes`; constants and values are added to the model."""

    def __init__(self, model: Model, last: Node) -> None:
        self.nodes: list[Node] = []
        self._last, self._stem = last, last.outputs[0]
        self.model = replace(model, constants=dict(model.constants), values=dict(model.values))

    def write(self, found: _Turn) -> None:
        result = self.model.value(self._stem)
        assert result.fixed is not None
        by_weights, by_ones = found.cycles(result.fixed)
        if found.product is None:
            self._sum(found, found.source, self._by_ones(found, found.source, result), result)
        elif by_weights <= by_ones:
            self._columns(found, found.product, self._by_weights(found, found.product))
        else:
            flat = self.model.value(found.source)
            assert flat.fixed is not None
            n, tokens, columns = flat.fixed
            size = result.fixed[-1]
            heads = replace(result, shape=(n, tokens * columns // size, size))
            seen = self._seen(found.source, "heads", heads)
            turned = self._by_ones(found, seen, heads)
            self._columns(found, found.product, self._seen(turned, "columns", flat))

    def _by_weights(self, found: _Turn, product: _Product) -> str:
        """The other element of each by a product with other columns."""
        columns = product.weights.shape[1]
        size = len(found.others)
        first = np.arange(columns) // size * size
        others = first + np.tile(found.others, columns // size)
        like = self.model.value(found.source)
        weights = self._constant(product.weights[:, others], "turned weights")
        turned = self._step("MatMul", (product.node.inputs[0], weights), "product", like)
        if product.bias is None:
            return turned
        return self._step(
            "Add", (turned, self._constant(product.bias[others], "turned bias")), "biased", like
        )

    def _by_ones(self, found: _Turn, heads: str, like: Value) -> str:
        """The same by a product of heads with ones; with signs where nothing else multiplies."""
        size = len(found.others)
        ones = np.zeros((size, size), np.float32)
        ones[found.others, np.arange(size)] = found.sin.reshape(-1) if found.cos is None else 1
        inputs = (heads, self._constant(ones, "places"))
        if found.cos is None:
            self.nodes.append(Node("MatMul", "", self._last.name, inputs, self._last.outputs))
            return self._stem
        return self._step("MatMul", inputs, "others", like)

    def _columns(self, found: _Turn, product: _Product, turned: str) -> None:
        """The sum where heads are columns, then seen as heads."""
        like, result = self.model.value(found.source), self.model.value(self._stem)
        assert like.fixed is not None and result.fixed is not None and found.cos is not None
        tokens, columns = like.fixed[1:]

        def along(factor: Array) -> Array:
            """[tokens, columns]"""
            whole = np.broadcast_to(factor, (1, *result.fixed[1:]) if result.fixed else ())
            return (whole.transpose(_TO_HEADS) if found.heads_first else whole).reshape(tokens, columns)

        flat = replace(found, cos=along(found.cos), sin=along(found.sin))
        total = self._sum(flat, found.source, turned, like, "sum")
        n, heads, size = like.fixed[0], columns // result.fixed[-1], result.fixed[-1]
        apart = replace(result, shape=(n, tokens, heads, size))
        if found.heads_first:
            seen = self._seen(total, "view", apart)
            to_heads = {"perm": list(_TO_HEADS)}
            self.nodes.append(Node("Transpose", "", self._last.name, (seen,), self._last.outputs, to_heads))
        else:
            shape = self._constant(np.array(apart.shape), "shape")
            self.nodes.append(Node("Reshape", "", self._last.name, (total, shape), self._last.outputs))

    def _sum(self, found: _Turn, source: str, turned: str, like: Value, what: str = "") -> str:
        """source * cos + turned * sin; the last of the nodes if it has no name of its own."""
        if found.cos is None:
            return turned
        straight = self._step("Mul", (source, self._constant(found.cos, "cos")), "straight", like)
        crossed = self._step("Mul", (turned, self._constant(found.sin, "sin")), "crossed", like)
        if what:
            return self._step("Add", (straight, crossed), what, like)
        self.nodes.append(Node("Add", "", self._last.name, (straight, crossed), self._last.outputs))
        return self._stem

    def _seen(self, name: str, what: str, like: Value) -> str:
        return self._step("Reshape", (name, self._constant(np.array(like.shape), "shape")), what, like)

    def _constant(self, array: Array, what: str) -> str:
        constants = self.model.constants
        assert isinstance(constants, dict)
        alike = (
            name
            for name, one in constants.items()
            if name.endswith(f":{what}") and one.shape == array.shape and np.array_equal(one, array)
        )
        name = next(alike, "") or f"{self._stem}:{what}"
        while name in constants and not np.array_equal(constants[name], array):
            name += "'"
        constants[name] = np.ascontiguousarray(array)
        return name

    def _step(self, op: str, inputs: tuple[str, ...], what: str, like: Value) -> str:
        name = f"{self._stem}:{what}"
        values = self.model.values
        assert isinstance(values, dict)
        self.nodes.append(
            Node(op, "", f"{self._last.name}:{what}" if self._last.name else "", inputs, (name,))
        )
        values[name] = replace(like, name=name)
        return name
