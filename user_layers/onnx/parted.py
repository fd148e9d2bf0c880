"""Batches and heads that views make one dimension, for a transpose or a product: transposes and products of
both dimensions. So exporters of PyTorch write attention; what it sees through views is not moved in DDR."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from user_layers.onnx.fold import needed
from user_layers.onnx.model import Model, Node, Value

Shape = tuple[int, ...]
_JOINED = 3  # dimensions of matrices with batches and heads in one


def part_transposes(model: Model) -> Model:
    """Put one transpose in the place of two views and those between, where nothing else reads these."""
    instead: dict[str, list[Node]] = {}
    values, constants = dict(model.values), dict(model.constants)
    for last in model.nodes:
        found = _turned(model, last)
        shapes = [model.value(name).fixed for name in (found.views[0], *found.views[1:])] if found else []
        if found is None or not found.gone.isdisjoint(instead) or any(shape is None for shape in shapes):
            continue
        if model.value(last.outputs[0]).dtype != np.float32:
            continue
        before, joined, after = (shape or () for shape in shapes)
        parted = _parted(before, joined, after, found.perm)
        if parted is None:
            continue
        shape, order = parted
        source, nodes = found.views[0], list[Node]()
        if shape != before:
            source, target = f"{last.outputs[0]}:parted", f"{last.outputs[0]}:parted:shape"
            values[source] = Value(source, shape, np.dtype(np.float32))
            # Of the same extents a dynamic net may have others.
            kept = [0 if before[d : d + 1] == (n,) else n for d, n in enumerate(shape)]
            constants[target] = np.array(kept, np.int64)
            nodes.append(Node("Reshape", "", "", (found.views[0], target), (source,)))
        instead |= {name: [] for name in found.gone}
        made = Node("Transpose", "", found.name, (source,), last.outputs, {"perm": order})
        instead[last.outputs[0]] = [*nodes, made]
    return model.with_instead(instead, constants, values)


@dataclass(frozen=True)
class _Turned:
    """Transposes between two views. views: what the first one reads, what it makes, and what the last one
    makes; perm: of all the transposes; gone: what lies between; name: of the last transpose."""

    views: tuple[str, str, str]
    perm: list[int]
    gone: frozenset[str]
    name: str


def _turned(model: Model, last: Node) -> _Turned | None:
    """The transposes before a view, and the view before them."""
    turn = _alone(model, last, "Reshape", "Transpose")
    perm, gone, name = list[int](), set[str](), turn.name if turn is not None else ""
    while turn is not None:
        rank = len(model.value(turn.inputs[0]).fixed or ())
        own = [int(i) for i in turn.attributes.get("perm", reversed(range(rank)))]
        if sorted(own) != list(range(rank)) or (perm and len(perm) != rank):
            return None
        perm = [own[d] for d in perm] if perm else own
        gone.add(turn.outputs[0])
        first = _alone(model, turn, "Transpose", "Reshape")
        if first is not None:
            gone.add(first.outputs[0])
            views = first.inputs[0], first.outputs[0], last.outputs[0]
            return _Turned(views, perm, frozenset(gone), name)
        turn = _alone(model, turn, "Transpose", "Transpose")
    return None


def part_products(model: Model) -> Model:
    """Put products of values with batches and heads apart in the place of those of matrices that have them in
    one dimension, and what is done to the results with these, with views behind."""
    parting = _Parting(model)
    for node in model.nodes:
        parting.see(node)
    return parting.parted()


class _Parting:
    def __init__(self, model: Model) -> None:
        self._model = model
        self._values, self._constants = dict(model.values), dict(model.constants)
        self._instead: dict[str, list[Node]] = {}
        self._apart: dict[str, tuple[str, Shape]] = {}  # what is joined -> the same apart, batches and heads
        self._has_products = False

    def parted(self) -> Model:
        """The model, where there are such products."""
        if not self._has_products:
            return self._model
        return needed(self._model.with_instead(self._instead, self._constants, self._values))

    def see(self, node: Node) -> None:
        """The next node."""
        made = node.outputs[0] if len(node.makes) == 1 and node.is_plain else ""
        value = self._model.value(made) if made else None
        if value is None or value.fixed is None or value.dtype != np.float32 or len(value.fixed) != _JOINED:
            return
        if node.op == "Reshape":
            before = self._model.value(node.inputs[0]).fixed
            if before is not None and len(before) == _JOINED + 1 and before[2:] == value.fixed[1:]:
                self._apart[made] = node.inputs[0], before[:2]
        elif node.op == "Transpose":
            self._transpose(node, made, value.fixed)
        elif node.op == "MatMul":
            self._product(node, made, value.fixed)
        elif node.op in ("Mul", "Div", "Add") and len(node.inputs) == 2:
            self._sum_or_product(node, made, value.fixed)
        elif node.op == "Softmax":
            axis = int(node.attributes.get("axis", -1 if self._model.opset >= 13 else 1))
            if axis in (-1, _JOINED - 1):
                self._same(node, made, value.fixed, node.inputs[:1], {"axis": -1})

    def _transpose(self, node: Node, made: str, shape: Shape) -> None:
        perm = [int(i) for i in node.attributes.get("perm", (2, 1, 0))]
        if perm == [0, 2, 1]:
            self._same(node, made, shape, node.inputs[:1], {"perm": [0, 1, 3, 2]})
            return
        view = self._model.makers.get(node.inputs[0])
        before = (
            self._model.value(view.inputs[0]).fixed if view is not None and view.is_a("Reshape") else None
        )
        if view is None or before is None or len(before) != _JOINED or perm not in ([1, 0, 2], [1, 2, 0]):
            return
        # [T, N, H * size], of which [T, N * H, size] are transposed: so attention of PyTorch has its heads.
        (tokens, joined, size), (batch, width) = (
            self._model.value(node.inputs[0]).fixed or (0, 0, 0),
            before[1:],
        )
        if before[0] != tokens or batch < 2 or joined % batch != 0 or width != joined // batch * size:
            return
        heads = self._value(f"{made}:of_heads", (tokens, batch, joined // batch, size))
        self._constants[f"{heads}:shape"] = np.array([0, 0, joined // batch, size], np.int64)
        reshaped = Node("Reshape", "", "", (view.inputs[0], f"{heads}:shape"), (heads,))
        lead = (batch, joined // batch)
        apart = self._value(f"{made}:apart", (*lead, *shape[1:]))
        order = [1, 2, 0, 3] if perm == [1, 0, 2] else [1, 2, 3, 0]
        turned = Node("Transpose", "", node.name, (heads,), (apart,), {"perm": order})
        self._instead[made] = [reshaped, turned, node]
        self._apart[made] = apart, lead

    def _product(self, node: Node, made: str, shape: Shape) -> None:
        left, right = (self._apart.get(name) for name in node.inputs)
        if left is None or right is None or left[1] != right[1]:
            return
        self._has_products = True
        self._same(node, made, shape, (left[0], right[0]), {}, left[1])

    def _sum_or_product(self, node: Node, made: str, shape: Shape) -> None:
        """With something that is broadcast to all, or that is the same for each."""
        leads = {self._apart[name][1] for name in node.inputs if name in self._apart}
        if len(leads) != 1 or all(self._model.value(name).fixed != shape for name in node.inputs):
            return
        (lead,) = leads
        inputs, before = [], list[Node]()
        for name in node.inputs:
            own = self._model.value(name).fixed
            if name in self._apart:
                inputs.append(self._apart[name][0])
            elif own is None:
                return
            elif len(own) < _JOINED:
                inputs.append(name)
            else:
                inputs.append(self._seen(name, (*(lead if own[0] != 1 else (1, 1)), *own[1:]), before))
        self._instead[made] = before
        self._same(node, made, shape, inputs, {}, lead)

    def _seen(self, name: str, shape: Shape, nodes: list[Node]) -> str:
        """A value with batches and heads apart."""
        seen = f"{name}:apart {shape[0]} {shape[1]}"
        if name in self._constants:
            self._constants[seen] = self._constants[name].reshape(shape)
        elif seen not in self._values:
            self._constants[f"{seen}:shape"] = np.array(shape, np.int64)
            nodes.append(Node("Reshape", "", "", (name, f"{seen}:shape"), (self._value(seen, shape),)))
        return seen

    def _same(
        self,
        node: Node,
        made: str,
        shape: Shape,
        inputs: Sequence[str],
        attributes: Mapping[str, Any],
        lead: Shape | None = None,
    ) -> None:
        """Write the same of values that are apart, and a view behind it."""
        if lead is None:
            (name,) = inputs
            if name not in self._apart:
                return
            source, lead = self._apart[name]
            inputs = (source,)
        apart = self._value(f"{made}:apart", (*lead, *shape[1:]))
        self._constants[f"{apart}:as"] = np.array([-1, *shape[1:]], np.int64)
        attributes = {**node.attributes, **attributes}
        changed = replace(node, inputs=tuple(inputs), outputs=(apart,), attributes=attributes, proto=None)
        view = Node("Reshape", "", "", (apart, f"{apart}:as"), (made,))
        self._instead.setdefault(made, []).extend((changed, view))
        self._apart[made] = apart, lead

    def _value(self, name: str, shape: Shape) -> str:
        self._values[name] = Value(name, shape, np.dtype(np.float32))
        return name


def _alone(model: Model, node: Node, op: str, before: str) -> Node | None:
    """What makes the first input of an operation, for it alone."""
    if not node.is_a(op) or model.only_reader(node.inputs[0]) is None:
        return None
    maker = model.makers.get(node.inputs[0])
    return maker if maker is not None and maker.is_a(before) else None


def _parted(before: Shape, joined: Shape, after: Shape, perm: list[int]) -> tuple[Shape, list[int]] | None:
    """Where a dimension is brought elsewhere and parted: the shape with it parted in its first place, and the
    order that does the rest. before: the shape before two or more of it were joined, or parted otherwise."""
    count = len(after) - len(joined) + 1
    if count < 2 or math.prod(before) != math.prod(joined) or sorted(perm) != list(range(len(joined))):
        return None
    for at in range(len(joined)):
        to = perm.index(at)
        own = after[to : to + count]
        shape = (*joined[:at], *own, *joined[at + 1 :])
        places = [list(range(d, d + count)) if d == at else [d if d < at else d + count - 1] for d in perm]
        order = [d for group in places for d in group]
        if math.prod(own) == joined[at] and tuple(shape[d] for d in order) == after:
            return shape, order
    return None
