"""Rotary embedding behind a product with weights: the turned halves of heads are a product of their own.

x * cos + rotated(x) * sin, where rotated(x) has both halves of each head exchanged, the second one negated.
Made of the product's result, that is moving it in pieces; but the same columns come out of a product with
weights whose columns are exchanged and negated, with the same bits. Both products, and what multiplies and
adds them, then have their columns where heads are only looked at; nothing is moved before attention.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from user_layers.onnx.model import STANDARD, Array, Model, Node, Value
from user_layers.onnx.views import cut_of
from user_layers.onnx.work import DDR_BYTES, PRODUCT_MACS

_MOVED = 1.4  # cycles for an element of heads whose halves are taken apart and put together again
_TO_HEADS = (0, 2, 1, 3)
_LAST = 3  # the dimension of a head's elements


@dataclass(frozen=True)
class _Rotary:
    """gone: the outputs of the nodes that it takes the place of; heads, view: Transpose and Reshape behind
    the product; added: the bias behind it; turned: how many elements of a head are."""

    gone: frozenset[str]
    heads: Node
    view: Node
    added: Node | None
    product: Node
    cos: Array
    sin: Array
    turned: int


def turn_weights(model: Model) -> Model:
    """Put products with turned weights in the place of turned heads, where that takes fewer cycles."""
    constants, values = dict(model.constants), dict(model.values)
    gone: set[str] = set()
    instead: dict[str, list[Node]] = {}
    for node in model.nodes:
        found = _rotary(model, node)
        if found is not None and _pays(model, found):
            gone |= found.gone
            instead[node.outputs[0]] = _written(model, node, found, constants, values)
    kept = (node for node in model.nodes if node.outputs[0] not in gone)
    nodes = (one for node in kept for one in instead.get(node.outputs[0], [node]))
    return replace(model, nodes=tuple(nodes), constants=constants, values=values) if instead else model


def _pays(model: Model, found: _Rotary) -> bool:
    rows = math.prod((model.value(found.view.inputs[0]).fixed or ())[:-1])
    inner, columns = model.constants[found.product.inputs[1]].shape
    more = max(inner * columns * 4 / DDR_BYTES, rows * inner * columns / PRODUCT_MACS)
    return bool(more < _MOVED * rows * columns)


def _rotary(model: Model, last: Node) -> _Rotary | None:
    """What ends at a node: the sum, or the concatenation of it and of elements that are not turned."""
    added, rest = last, ""
    if _is(last, "Concat") and len(last.inputs) == 2:
        total = model.makers.get(last.inputs[0])
        if total is None or not _along_heads(model, last) or model.only_reader(last.inputs[0]) is None:
            return None
        added, rest = total, last.inputs[1]
    if not _is(added, "Add"):
        return None
    for first, second in (added.inputs, added.inputs[::-1]):
        straight, crossed = _times(model, first), _times(model, second)
        if straight is None or crossed is None:
            continue
        source, cos = straight
        joined = model.makers.get(crossed[0])
        swapped = None if joined is None else _swapped(model, joined, source)
        if joined is None or swapped is None:
            continue
        parts = {first, second, crossed[0], *swapped}
        if added is not last:
            parts.add(added.outputs[0])
        heads = source
        if rest:
            cut, other = _cut(model, source), _cut(model, rest)
            if cut is None or other is None or cut[1] or other[:2] != (cut[0], cut[2]):
                return None
            if (model.value(cut[0]).fixed or ())[-1:] != (cut[2] + other[2],):
                return None
            heads = cut[0]
            parts |= {source, rest}
        return _behind_product(model, last, heads, parts, (cos, crossed[1]), source)
    return None


def _behind_product(
    model: Model, last: Node, heads: str, parts: set[str], factors: tuple[Array, Array], source: str
) -> _Rotary | None:
    """parts: what is between heads and the last node, which nothing else may read."""
    to_heads = model.makers.get(heads)
    if to_heads is None or not _is(to_heads, "Transpose"):
        return None
    if tuple(to_heads.attributes.get("perm", ())) != _TO_HEADS:
        return None
    view = model.makers.get(to_heads.inputs[0])
    shape, made = model.value(heads).fixed, model.value(source).fixed
    if view is None or not _is(view, "Reshape") or shape is None or made is None:
        return None
    flat = model.value(view.inputs[0]).fixed
    if flat is None or len(flat) != 3 or (shape[0], shape[2], shape[1] * shape[3]) != flat:
        return None
    bias, product = None, model.makers.get(view.inputs[0])
    if product is not None and _is(product, "Add"):
        bias = product
        sums = [name for name in product.inputs if name not in model.constants]
        number = [model.constants[name] for name in product.inputs if name in model.constants]
        if len(sums) != 1 or number[0].shape != flat[-1:] or model.only_reader(sums[0]) is None:
            return None
        product = model.makers.get(sums[0])
    if product is None or not _is(product, "MatMul"):
        return None
    weights = model.constants.get(product.inputs[1])
    if weights is None or weights.shape[1:] != flat[-1:] or weights.dtype != np.float32:
        return None
    inside = {*parts, heads, view.outputs[0], view.inputs[0]}
    ends = {*parts, last.outputs[0]} | {view.outputs[0], heads}
    for name in inside:
        readers = {made for node in model.consumers.get(name, ()) for made in node.makes}
        if name in model.results or not readers <= ends:
            return None
    if any(array.ndim > 4 or array.dtype != np.float32 for array in factors):
        return None
    try:
        cos, sin = (np.broadcast_to(array, (1, *shape[1:3], made[_LAST])) for array in factors)
    except ValueError:  # other numbers for each batch
        return None
    gone = frozenset({*parts, heads, view.outputs[0]} - {last.outputs[0]})
    return _Rotary(gone, to_heads, view, bias, product, cos, sin, made[_LAST])


def _written(
    model: Model, last: Node, found: _Rotary, constants: dict[str, Array], values: dict[str, Value]
) -> list[Node]:
    """The nodes in the place of `last`; new constants and values are added to these."""
    stem, plain = last.outputs[0], found.view.inputs[0]
    value = model.value(plain)
    shape = model.value(found.heads.outputs[0]).fixed
    assert value.fixed is not None and shape is not None
    size, half = shape[_LAST], found.turned // 2
    column = np.arange(value.fixed[-1])
    place = column % size
    sign = np.where(place < half, -1.0, np.where(place < found.turned, 1.0, 0.0)).astype(np.float32)
    source = np.where(place < half, column + half, np.where(place < found.turned, column - half, column))
    nodes: list[Node] = []

    def constant(array: Array, what: str) -> str:
        alike = (
            name
            for name, one in constants.items()
            if name.endswith(f":{what}") and np.array_equal(one, array)
        )
        name = next(alike, f"{stem}:{what}")
        constants[name] = np.ascontiguousarray(array)
        return name

    def step(op: str, inputs: tuple[str, ...], what: str, like: Value = value) -> str:
        name = f"{stem}:{what}"
        nodes.append(Node(op, "", f"{last.name}:{what}" if last.name else "", inputs, (name,)))
        values[name] = replace(like, name=name)
        return name

    def along(factor: Array, other: float) -> Array:
        """[tokens, columns] of what heads are multiplied by; other: for elements that are not turned."""
        whole = np.full((*factor.shape[:-1], size), other, np.float32)
        whole[..., : found.turned] = factor
        return np.reshape(whole.transpose(_TO_HEADS), (whole.shape[2], -1))

    weights = constant(model.constants[found.product.inputs[1]][:, source] * sign, "turned weights")
    turned = step("MatMul", (found.product.inputs[0], weights), "product")
    if found.added is not None:
        (bias,) = (model.constants[name] for name in found.added.inputs if name in model.constants)
        turned = step("Add", (turned, constant(bias[source] * sign, "turned bias")), "biased")
    straight = step("Mul", (plain, constant(along(found.cos, 1.0), "cos")), "straight")
    crossed = step("Mul", (turned, constant(along(found.sin, 0.0), "sin")), "crossed")
    total = step("Add", (straight, crossed), "sum")
    seen = step("Reshape", (total, *found.view.inputs[1:]), "view", model.value(found.view.outputs[0]))
    nodes[-1] = replace(nodes[-1], attributes=found.view.attributes)
    nodes.append(Node("Transpose", "", last.name, (seen,), last.outputs, {"perm": list(_TO_HEADS)}))
    return nodes


def _is(node: Node, op: str) -> bool:
    return node.op == op and node.domain in STANDARD and not node.mapped


def _along_heads(model: Model, node: Node) -> bool:
    shape = model.value(node.outputs[0]).fixed
    return shape is not None and len(shape) == 4 and int(node.attributes["axis"]) in (_LAST, -1)


def _times(model: Model, name: str) -> tuple[str, Array] | None:
    """What a constant multiplies, and that."""
    node = model.makers.get(name)
    if node is None or not _is(node, "Mul"):
        return None
    for source, factor in (node.inputs, node.inputs[::-1]):
        if factor in model.constants and source not in model.constants:
            return source, model.constants[factor]
    return None


def _swapped(model: Model, joined: Node, source: str) -> set[str] | None:
    """The outputs of what exchanges the halves of heads and negates the second one."""
    if not _is(joined, "Concat") or len(joined.inputs) != 2 or not _along_heads(model, joined):
        return None
    negated = model.makers.get(joined.inputs[0])
    if negated is None or not _is(negated, "Neg"):
        return None
    shape = model.value(source).fixed
    half = 0 if shape is None else shape[-1] // 2
    high, low = _cut(model, negated.inputs[0]), _cut(model, joined.inputs[1])
    if high != (source, half, half) or low != (source, 0, half) or shape is None or shape[-1] % 2:
        return None
    return {negated.outputs[0], negated.inputs[0], joined.inputs[1]}


def _cut(model: Model, name: str) -> tuple[str, int, int] | None:
    """(source, first, extent) of elements that are cut out of every head."""
    node = model.makers.get(name)
    if node is None or node.domain not in STANDARD or node.mapped or node.op not in ("Slice", "Split"):
        return None
    before, shape = model.value(node.inputs[0]).fixed, model.value(name).fixed
    if before is None or shape is None or len(before) != 4:
        return None
    cut = cut_of(model, node, name, before, shape)
    return None if cut is None or cut[0] != _LAST else (node.inputs[0], *cut[1:])
