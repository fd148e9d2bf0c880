"""Which order rows are in where nothing looks at it: as windows have them, from one block to the next.

Transformers of windows put a picture's rows in the order of windows for attention, and back for what is added
behind. Normalisations, products with constant matrices, functions of one element and sums do the same in any
order; where all of these between two attentions are in the order of one of them, rows are moved once instead
of there and back, and a picture that is rolled around its edges and cut into windows again is one move
(TPU_REARRANGE).

Each operation on rows gets an order: those that are read in one only, theirs; the others one in which they
find their inputs. Then groups of them are tried in the orders of their neighbours.
"""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from user_layers.graph.prepared import free_name
from user_layers.onnx.boxes import boxes_of
from user_layers.onnx.columns import without_detours
from user_layers.onnx.fold import needed
from user_layers.onnx.model import ARITHMETIC, DOMAIN, Array, Model, Node, Value
from user_layers.onnx.row_maps import FILLED, MOST_ROWS, Rows, moved_rows
from user_layers.onnx.rows import NORMS, batch_of, sources_of

REARRANGE = "Rearrange"  # an operation of this compiler alone; its layer is TPU_REARRANGE
_COPIED = 23.0  # bytes that a cycle brings from DDR to DDR, by the clock
_EACH = 150.0  # cycles of a box, and of a node that copies, beside
_MOST_BOXES = 64
_GAIN = 0.97  # of the cycles that moves take, at most, for other orders to be worth it
_ROUNDS = 3  # of trying other orders

Order = Array | None
"""Row i of what is computed is row order[i] of the model's; None: all as the model has them."""


def keep_orders(model: Model) -> Model:
    """The model with rows in such orders, and with one move in the place of several, where that takes fewer
    cycles."""
    moved = moved_rows(model)
    if not any(rows.moves for rows in moved.values()):
        return model
    looking = _Looking(model, moved)
    orders = _Ordering(looking).found()
    return _Writing(looking, orders).written()


@dataclass(frozen=True)
class _Edge:
    """A value that a node reads, in rows of another one. index: which rows of that one, [rows, k]. operand:
    which input of the node; name: of that input; reader: the node's first output."""

    source: str
    reader: str
    operand: int
    name: str
    index: Array
    moves: int


@dataclass(frozen=True)
class _Move:
    """Rows that are moved. model: cycles of the nodes that the model has for it; one: of boxes; must: nothing
    in the model does it."""

    model: float
    one: float
    must: bool

    def beside(self, other: _Move) -> _Move:
        """The same, for two that read them."""
        return _Move(max(self.model, other.model), min(self.one, other.one), self.must or other.must)

    @property
    def is_one(self) -> bool:
        """Whether it is a move by boxes."""
        return self.must or self.one < self.model


class _Looking:
    """What there is to order. ops: operations on rows by their outputs, in order; edges: what reads rows."""

    def __init__(self, model: Model, moved: Mapping[str, Rows]) -> None:
        self.model, self.moved = model, moved
        self.batch = max(batch_of(model), 1)
        self.ops = {
            node.outputs[0]: node
            for node in model.nodes
            if _is_of_rows(model, node) and not self.only_moves(node)
        }
        self.edges = [edge for node in model.nodes for edge in self._edges(node)]
        self.into: dict[str, list[_Edge]] = {}
        self.out_of: dict[str, list[_Edge]] = {}
        for edge in self.edges:
            self.into.setdefault(edge.reader, []).append(edge)
            self.out_of.setdefault(edge.source, []).append(edge)
        read = [*model.results, *(name for node in model.nodes for name in node.captured)]
        self.pinned = {moved[name].source if name in moved else name for name in read}
        self._same: dict[bytes, Array] = {}
        self._inverse: dict[int, Array] = {}
        self._places: dict[int, Array | None] = {}
        self._boxes: dict[tuple[int, int], Array | None] = {}
        self._turned: dict[int, tuple[int, int] | None] = {}
        self._between: dict[tuple[int, int, int], Order] = {}

    def _edges(self, node: Node) -> Iterator[_Edge]:
        if not node.makes or self.only_moves(node):
            return
        for operand, name in enumerate(node.inputs):
            value = self.model.value(name)
            if not name or name in self.model.constants or value.fixed is None:
                continue
            rows = self.moved.get(name)
            if rows is not None:
                k = rows.index.shape[-1]
                yield _Edge(rows.source, node.makes[0], operand, name, rows.index.reshape(-1, k), rows.moves)
            elif value.fixed and 0 < self.rows(name) <= MOST_ROWS and value.fixed[-1] > 0:
                index = np.arange(self.rows(name), dtype=np.int32).reshape(-1, 1)
                yield _Edge(name, node.makes[0], operand, name, index, 0)

    def only_moves(self, node: Node) -> bool:
        """Whether all that a node makes are rows of another value."""
        return bool(node.makes) and all(name in self.moved for name in node.makes)

    def width(self, name: str) -> int:
        return (self.model.value(name).fixed or (1,))[-1]

    def rows(self, name: str) -> int:
        return math.prod((self.model.value(name).fixed or ())[:-1])

    def same(self, order: Array) -> Array:
        """One array for all that are equal."""
        return self._same.setdefault(order.tobytes(), order)

    def inverse(self, order: Array) -> Array:
        if id(order) not in self._inverse:
            made = np.empty_like(order)
            made[order] = np.arange(len(order), dtype=order.dtype)
            self._inverse[id(order)] = made
        return self._inverse[id(order)]

    def between(self, edge: _Edge, orders: Mapping[str, Order]) -> Order:
        """Which rows of what was computed a node reads, one after the other; None for all as they are."""
        source, reader = orders.get(edge.source), orders.get(edge.reader)
        key = id(edge), id(source), id(reader)
        if key not in self._between:
            flat = (edge.index if reader is None else edge.index[reader]).reshape(-1)
            if source is not None:
                flat = np.where(flat == FILLED, FILLED, self.inverse(source)[flat])
            straight = len(flat) == self.rows(edge.source) and np.array_equal(flat, np.arange(len(flat)))
            self._between[key] = None if straight else self.same(flat.astype(np.int32))
        return self._between[key]

    def read_as_is(self, edge: _Edge, source: Order) -> Order | bool:
        """The order of the reader in which it reads what is computed as it lies; False where there is
        none."""
        return self._along(edge, source, 1, self.places(edge))

    def made_as_read(self, edge: _Edge, reader: Order) -> Order | bool:
        """The order of the source in which it makes what is read as it lies; False where there is none."""
        return self._along(edge, reader, -1, edge.index.reshape(-1))

    def _along(self, edge: _Edge, order: Order, way: int, rows: Order) -> Order | bool:
        """The order of an edge's other end. way: from the source or to it; rows: which ones, in the
        model's."""
        if rows is None or self.places(edge) is None:
            return False
        key = way * id(edge), id(order), 0
        if key not in self._between:
            self._between[key] = self._order(rows if order is None else rows[order])
        return self._between[key]

    def _order(self, order: Array) -> Order:
        straight = np.array_equal(order, np.arange(len(order)))
        return None if straight else self.same(np.ascontiguousarray(order, np.int32))

    def places(self, edge: _Edge) -> Array | None:
        """For each row of the source which row of the reader it is, where each is one."""
        key = id(edge)
        if key not in self._places:
            flat, rows = edge.index.reshape(-1), self.rows(edge.source)
            self._places[key] = None
            if edge.index.shape[1] == 1 and len(flat) == rows and flat.min() >= 0:
                found = np.full(rows, FILLED, np.int32)
                found[flat] = np.arange(rows, dtype=np.int32)
                self._places[key] = found if found.min() >= 0 else None
        return self._places[key]

    def boxes(self, moved: Array, source: str) -> Array | None:
        """Those that bring a batch's rows to their places; None where a batch has rows of another one, or
        these are too many."""
        key = id(moved), self.rows(source)
        if key not in self._boxes:
            self._boxes[key] = None
            each = _of_a_batch(moved, self.rows(source), self.batch)
            if each is not None:
                self._boxes[key] = boxes_of(each, _MOST_BOXES)
        return self._boxes[key]

    def turned(self, moved: Array) -> tuple[int, int] | None:
        """The two dimensions that rows have, if all are moved as these are exchanged."""
        key = id(moved)
        if key not in self._turned:
            rows, inner = len(moved), int(moved[1]) if len(moved) > 1 else 0
            whole = inner > 0 and rows % inner == 0
            turned = np.arange(rows).reshape(-1, inner).T.reshape(-1) if whole else None
            found = turned is not None and np.array_equal(moved, turned)
            self._turned[key] = (rows // inner, inner) if found else None
        return self._turned[key]

    @cached_property
    def _singly(self) -> set[tuple[str, int]]:
        """What is moved by several nodes and is rows to one that reads or made it: sources, and which
        rows."""
        rows: set[str] = set()  # made of products or normalisations of rows
        for name, node in self.ops.items():
            if node.op in (*NORMS, "MatMul") or not rows.isdisjoint(node.inputs):
                rows.add(name)
        return {
            (edge.source, id(self.between(edge, {})))
            for edge in self.edges
            if edge.moves > 1 and not rows.isdisjoint((edge.source, edge.reader))
        }

    def one_move(self, edge: _Edge) -> bool:
        """Whether one move may stand for several of the model's, in the model's orders."""
        return (edge.source, id(self.between(edge, {}))) in self._singly

    def moves(self, edges: Sequence[_Edge], orders: Mapping[str, Order]) -> dict[tuple[str, int], _Move]:
        """What is moved for these, by the source and which of its rows, each once for all that read it."""
        found: dict[tuple[str, int], _Move] = {}
        for edge in edges:
            moved = self.between(edge, orders)
            if moved is None:
                continue
            straight = orders.get(edge.source) is None and orders.get(edge.reader) is None
            each = 4 * len(moved) * self.width(edge.source) / _COPIED
            one = math.inf
            if not straight or self.one_move(edge):
                boxes = self.boxes(moved, edge.source)
                if boxes is not None:
                    one = each + _EACH * len(boxes)
                elif self.turned(moved) is not None:
                    one = each + _EACH
            move = _Move(edge.moves * (each + _EACH) if straight else 0.0, one, must=not straight)
            key = edge.source, id(moved)
            found[key] = move.beside(found[key]) if key in found else move
        return found

    def cycles(self, edges: Sequence[_Edge], orders: Mapping[str, Order]) -> float:
        """What all that takes."""
        return sum(move.one if move.is_one else move.model for move in self.moves(edges, orders).values())


def _of_a_batch(moved: Array, rows: int, batch: int) -> Array | None:
    """Which of a batch's rows are moved, where it is the same of each; None otherwise. rows: of all
    batches."""
    if rows % batch != 0 or len(moved) % batch != 0:
        return None
    each = moved.reshape(batch, -1)
    own: Array = each - np.arange(batch, dtype=np.int32)[:, None] * (rows // batch)
    filled = each == FILLED
    if (filled != filled[0]).any() or (own[~filled] < 0).any() or (own >= rows // batch).any():
        return None
    own = np.where(filled, FILLED, own)
    return own[0] if (own == own[0]).all() else None


def _is_of_rows(model: Model, node: Node) -> bool:
    """Whether a node does the same to each row, in whatever order they are."""
    sources = sources_of(model, node, whole=True) if len(node.outputs) == 1 else None
    shapes = [model.value(name).fixed or () for name in (*node.outputs, *(sources or ()))]
    if sources is None or any(len(shape) < 2 or 0 in shape for shape in shapes):
        return False
    return math.prod(shapes[0][:-1]) <= MOST_ROWS


class _Ordering:
    def __init__(self, looking: _Looking) -> None:
        self._looking = looking
        self._orders: dict[str, Order] = {}

    def found(self) -> dict[str, Order]:
        """The order of each operation on rows that has another one than the model's."""
        for name in reversed(list(self._looking.ops)):
            self._backwards(name)
        for name in self._looking.ops:
            if name not in self._orders:
                self._orders[name] = self._forwards(name)
        for _ in range(_ROUNDS):
            if not self._improve():
                break
        for members in self._parts():
            edges = self._around(members)
            before = self._looking.cycles(edges, {})
            if self._looking.cycles(edges, self._orders) > _GAIN * before:
                self._orders.update(dict.fromkeys(members))
        return {name: order for name, order in self._orders.items() if order is not None}

    def _backwards(self, name: str) -> None:
        """The order in which all that reads a result wants it, if that is known and nothing more is moved for
        it."""
        looking = self._looking
        edges = looking.out_of.get(name, [])
        if name in looking.pinned or not edges:
            self._orders[name] = None
            return
        wanted: list[Order] = []
        for edge in edges:
            if not self._is_known(edge.reader):
                return
            order = looking.made_as_read(edge, self._orders.get(edge.reader))
            if isinstance(order, bool):
                return
            wanted.append(order)
        given = looking.into[name]
        narrower = len(given) == 1 and looking.width(given[0].name) <= looking.width(name)
        if narrower and all(order is wanted[0] for order in wanted):
            self._orders[name] = wanted[0]

    def _forwards(self, name: str) -> Order:
        """The order that takes least of those in which one input is read as it lies, and the model's own."""
        looking = self._looking
        known = [edge for edge in looking.out_of.get(name, []) if self._is_known(edge.reader)]
        beside = [
            other
            for edge in looking.into[name]
            for other in looking.out_of[edge.source]
            if other.reader != name and self._is_known(other.reader)
        ]
        edges = [*looking.into[name], *known, *beside]
        found: list[tuple[float, Order]] = []
        for order in self._candidates(name):
            found.append((looking.cycles(edges, ChainMap({name: order}, self._orders)), order))
        return min(found, key=lambda one: one[0])[1]

    def _candidates(self, name: str) -> list[Order]:
        found: list[Order] = []
        for edge in self._looking.into[name]:
            order = self._looking.read_as_is(edge, self._orders.get(edge.source))
            if not isinstance(order, bool) and not any(order is one for one in found):
                found.append(order)
        return found if any(order is None for order in found) else [*found, None]

    def _is_known(self, reader: str) -> bool:
        return reader not in self._looking.ops or reader in self._orders

    def _around(self, members: set[str]) -> list[_Edge]:
        """The edges of these, and those that read what these read."""
        looking = self._looking
        sources = {*members, *(edge.source for name in members for edge in looking.into[name])}
        return [edge for name in sources for edge in looking.out_of.get(name, [])]

    def _parts(self, *, as_is: bool = False) -> list[set[str]]:
        """Operations that read one another's results, or the same ones, in whatever order. as_is: that read
        one another's as they lie only."""
        looking = self._looking
        first: dict[str, str] = {}

        def root(name: str) -> str:
            while first.get(name, name) != name:
                name = first[name]
            return name

        for edge in looking.edges:
            if edge.reader not in looking.ops or (as_is and edge.source not in looking.ops):
                continue
            if not as_is or looking.between(edge, self._orders) is None:
                first[root(edge.reader)] = root(edge.source)
        parts: dict[str, set[str]] = {}
        for name in looking.ops:
            parts.setdefault(root(name), set()).add(name)
        return list(parts.values())

    def _improve(self) -> bool:
        """Try operations that read one another's results as they lie in the order of a neighbour, all at
        once."""
        better = False
        for members in self._parts(as_is=True):
            if not members.isdisjoint(self._looking.pinned):
                continue
            edges = self._around(members)
            best, least = None, self._looking.cycles(edges, self._orders)
            for trial in self._trials(members, edges):
                cycles = self._looking.cycles(edges, ChainMap(trial, self._orders))
                if cycles < _GAIN * least:
                    best, least = trial, cycles
            if best is not None:
                self._orders.update(best)
                better = True
        return better

    def _trials(self, members: set[str], edges: Sequence[_Edge]) -> Iterator[dict[str, Order]]:
        seen: set[tuple[str, int]] = set()
        for edge in edges:
            inside = edge.reader in members, edge.source in members
            if inside == (True, True) or inside == (False, False):
                continue
            if inside[0]:
                name, order = edge.reader, self._looking.read_as_is(edge, self._orders.get(edge.source))
            else:
                name, order = edge.source, self._looking.made_as_read(edge, self._orders.get(edge.reader))
            if isinstance(order, bool) or order is self._orders.get(name) or (name, id(order)) in seen:
                continue
            seen.add((name, id(order)))
            trial = self._spread(name, order, members)
            if trial is not None:
                yield trial

    def _spread(self, name: str, order: Order, members: set[str]) -> dict[str, Order] | None:
        """Orders for all of them that read one another's results as they lie, if one has this order."""
        looking = self._looking
        found: dict[str, Order] = {name: order}
        open_ = [name]
        while open_:
            at = open_.pop()
            for edge in [*looking.into[at], *looking.out_of.get(at, [])]:
                if edge.source not in members or edge.reader not in members:
                    continue
                if looking.between(edge, self._orders) is not None:
                    continue
                other = edge.reader if edge.source == at else edge.source
                if other in found:
                    continue
                if edge.source == at:
                    order_there = looking.read_as_is(edge, found[at])
                else:
                    order_there = looking.made_as_read(edge, found[at])
                if isinstance(order_there, bool):
                    return None
                found[other] = order_there
                open_.append(other)
        return found


class _Writing:
    """The model with rows in these orders. A value that is computed in another order keeps its name, for what
    is known of its range."""

    def __init__(self, looking: _Looking, orders: Mapping[str, Order]) -> None:
        self._looking, self._model, self._orders = looking, looking.model, orders
        self._constants: dict[str, Array] = dict(self._model.constants)
        self._values = dict(self._model.values)
        self._nodes: list[Node] = []
        self._moves = looking.moves(looking.edges, orders)
        self._moved: dict[tuple[str, int], str] = {}
        self._views: dict[tuple[str, tuple[int, ...]], str] = {}
        self._changed = False

    def written(self) -> Model:
        for name in self._shapes:
            self._values[name] = Value(name, self._shapes[name], np.dtype(np.float32))
        for node in self._model.nodes:
            self._node(node)
        if not self._changed:
            return self._model
        model = replace(self._model, nodes=tuple(self._nodes), constants=self._constants, values=self._values)
        model = needed(without_detours(needed(model)))
        for node in model.nodes:
            if self._looking.only_moves(node):
                source = self._looking.moved[node.makes[0]].source
                assert source not in self._orders, f"{node.title} reads rows in another order"
        return model

    @cached_property
    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """Of values in other orders: as those have them that read them as they lie, or as what they are made
        of, if that is in the model's order, where several that are not read them; so nothing stands
        between. Otherwise with the dimensions exchanged of which the order is, if it is."""
        found: dict[str, tuple[int, ...]] = {}
        for name in reversed([name for name in self._looking.ops if name in self._orders]):
            own = self._model.value(name).fixed or ()
            readers = self._looking.out_of.get(name, [])
            before = self._looking.into[name]
            behind = {
                (found.get(one.reader) or self._model.value(one.name).fixed or own)[:-1] for one in readers
            }
            if not all(self._is_view(edge) for edge in readers):
                behind = set()
            ahead = {
                (self._model.value(edge.source).fixed or own)[:-1]
                for edge in before
                if edge.source not in self._orders and self._is_view(edge)
            }
            ordered = [edge for edge in readers if edge.reader in self._orders]
            choices = (ahead, behind) if len(ordered) > 1 else (behind, ahead)
            order = self._orders[name]
            turned = None if order is None else self._looking.turned(order)
            otherwise = own[:-1] if turned is None else turned[::-1]
            lead = next((one.pop() for one in choices if len(one) == 1), otherwise)
            found[name] = (*lead, own[-1])
        return found

    def _is_view(self, edge: _Edge) -> bool:
        """Whether a node reads rows as they lie."""
        return edge.index.shape[1] == 1 and self._looking.between(edge, self._orders) is None

    def _node(self, node: Node) -> None:
        edges = self._looking.into.get(node.makes[0], []) if node.makes else []
        inputs = list(node.inputs)
        attributes = dict(node.attributes)
        name = node.makes[0] if node.makes else ""
        order = self._orders.get(name)
        for edge in edges:
            inputs[edge.operand] = self._read(edge, name)
        if order is not None:
            shape = self._shapes[name]
            for i, given in enumerate(node.inputs):
                if given in self._constants and node.op in ARITHMETIC:
                    inputs[i] = self._constant(given, order, shape, name)
            if node.op in NORMS:
                attributes["axis"] = -1
        if tuple(inputs) == node.inputs and order is None:
            self._nodes.append(node)
            return
        self._changed = True
        self._nodes.append(replace(node, inputs=tuple(inputs), attributes=attributes, proto=None))

    def _constant(self, name: str, order: Array, shape: tuple[int, ...], reader: str) -> str:
        array = self._constants[name]
        if array.size == 1 or array.size == shape[-1]:
            if array.ndim <= len(shape):
                return name
            array = array.reshape(-1)
        else:
            array = array.reshape(-1, shape[-1])[order].reshape(shape)
        return self._new(f"{reader}:ordered", array)

    def _new(self, stem: str, array: Array | None = None, shape: tuple[int, ...] = ()) -> str:
        """A name that nothing has, of a constant or of a value of this shape."""
        name = free_name(stem, self._values, self._constants)
        if array is not None:
            self._constants[name] = array
        else:
            self._values[name] = Value(name, shape, np.dtype(np.float32))
        return name

    def _read(self, edge: _Edge, reader: str) -> str:
        """What a node reads in its order: a value in the shape that it has there."""
        looking, model = self._looking, self._model
        straight = edge.source not in self._orders and reader not in self._orders
        moved = looking.between(edge, self._orders)
        natural = model.value(edge.name).fixed or ()
        shape = (*self._shapes[reader][:-1], natural[-1]) if reader in self._orders else natural
        source = edge.source
        if straight and (moved is None or not self._moves[source, id(moved)].is_one):
            return edge.name
        if moved is not None:
            source = self._rearranged(source, moved)
        return self._view(source, shape)

    def _rearranged(self, source: str, moved: Array) -> str:
        key = source, id(moved)
        if key not in self._moved:
            boxes = self._looking.boxes(moved, source)
            batch, width = self._looking.batch, self._looking.width(source)
            if boxes is None:
                turned = self._looking.turned(moved)
                assert turned is not None  # else this order was not chosen
                self._moved[key] = self._new(f"{source}:turned", None, (*turned[::-1], width))
                view, perm = self._view(source, (*turned, width)), {"perm": [1, 0, 2]}
                self._nodes.append(Node("Transpose", "", "", (view,), (self._moved[key],), perm))
                return self._moved[key]
            rows = self._view(source, (batch, self._looking.rows(source) // batch, width))
            shape = (batch, len(moved) // batch, width)
            made = self._new(f"{source}:rearranged", None, shape)
            inputs = (rows, self._new(f"{made}:boxes", boxes))
            self._nodes.append(Node(REARRANGE, DOMAIN, source, inputs, (made,), {"rows": shape[1]}))
            self._moved[key] = made
        return self._moved[key]

    def _view(self, source: str, shape: tuple[int, ...]) -> str:
        before = self._values[source].fixed or ()
        if before == shape:
            return source
        if (source, shape) not in self._views:
            made = self._new(f"{source}:view", None, shape)
            extents = np.array([0 if before[0] == shape[0] else -1, *shape[1:]], np.int64)
            target = self._new(f"{made}:shape", extents)
            self._nodes.append(Node("Reshape", "", "", (source, target), (made,)))
            self._views[source, shape] = made
        return self._views[source, shape]
