"""Operations without a layer that ONNX defines by others: written out, where all of it then has layers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from firmware_sim.errors import ModelError
from user_layers.onnx.apart import expand_function
from user_layers.onnx.load import node_of
from user_layers.onnx.model import STANDARD, Model, Node
from user_layers.onnx.partition import Reason
from user_layers.onnx.proto import part_proto, serialized, subgraphs
from user_layers.onnx.types import is_computed, obstacle

_ROUNDS = 8  # of trying: functions are defined by functions, and what does not help is taken back


class Expansion:
    """Which nodes of a model are written out; `review` decides again after each try."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self._chosen: set[str] = set()  # nodes by `_key`
        self._given_up: set[str] = set()
        self._pieces: dict[str, tuple[Node, ...]] = {}
        self._rounds = 0

    def written_out(self) -> Model:
        """The model with the chosen nodes replaced; the shapes of new values are not known yet."""
        return replace(self.model, nodes=tuple(self._written_out(self.model.nodes)))

    def review(self, tried: Model, refused: Mapping[int, Reason]) -> bool:
        """Choose by the nodes that had no layer; whether that changes anything."""
        before = set(self._chosen)
        self._rounds += 1
        for index, reason in refused.items():
            node = tried.nodes[index]
            if self._rounds < _ROUNDS and not reason.follows and self._can(tried, node):
                self._chosen.add(_key(node))
            elif node.origin:
                self._given_up.add(node.origin)
                self._chosen.discard(node.origin)
        return before != self._chosen

    def _written_out(self, nodes: Collection[Node]) -> list[Node]:
        found: list[Node] = []
        for node in nodes:
            if _key(node) in self._chosen:
                found += self._written_out(self._pieces[_key(node)])
            else:
                found.append(node)
        return found

    def _can(self, tried: Model, node: Node) -> bool:
        """Whether the node is defined by others, and computes with what layers take."""
        if not node.makes or _key(node) in self._given_up | self._chosen or node.mapped:
            return False
        schema = _schema(tried, node)
        if schema is None or not (schema.has_function or schema.has_context_dependent_function):
            return False
        values = [tried.value(name) for name in (*node.reads, *node.makes)]
        if any(obstacle(value) is not None and 0 not in (value.fixed or ()) for value in values):
            return False
        if not all(is_computed(value.dtype) for value in values):
            return False
        try:
            self._pieces[_key(node)] = _pieces(tried, node)
        except ModelError:
            return False
        return True


def _key(node: Node) -> str:
    """What a node is remembered by; the last of its pieces makes the same output."""
    return f"{node.op} {next(iter(node.makes), '')}"


def _schema(model: Model, node: Node) -> Any:
    """What the package onnx knows of an operation; None for one that it does not know."""
    import onnx

    domain = "" if node.domain in STANDARD else node.domain
    version = model.opset if not domain else model.opsets.get(domain, 1)
    try:
        return onnx.defs.get_schema(node.op, version, domain)
    except onnx.defs.SchemaError:
        return None


def _pieces(model: Model, node: Node) -> tuple[Node, ...]:
    """The nodes that define a node; names inside begin with that of its first output."""
    import onnx

    proto = part_proto(model, [node], node.reads, node.makes, shapes=True)
    for name, attribute in _schema(model, node).attributes.items():
        if name not in node.attributes and attribute.default_value.name:  # the inliner does not fill them in
            proto.graph.node[0].attribute.append(attribute.default_value)
    domain = "" if node.domain in STANDARD else node.domain
    graph = onnx.load_from_string(expand_function(serialized(proto, node.title), domain, node.op)).graph
    if any(piece.op_type == node.op and piece.domain == node.domain for piece in graph.node):
        raise ModelError(f"{node.title} stays as it is")
    outside = {*node.reads, *node.makes, ""}
    stem = node.makes[0]
    whole = node.origin or _key(node)
    pieces = []
    for piece in graph.node:
        _rename(piece, stem, outside)
        piece.name = f"{node.name or stem}/{piece.op_type}"
        pieces.append(replace(node_of(piece, node.title), origin=whole))
    return tuple(pieces)


def _rename(proto: Any, stem: str, outside: set[str]) -> None:
    for names in (proto.input, proto.output):
        names[:] = [name if name in outside else f"{stem}/{name}" for name in names]
    for graph in subgraphs(proto):
        for named in (*graph.input, *graph.output, *graph.initializer, *graph.value_info):
            named.name = named.name if named.name in outside else f"{stem}/{named.name}"
        for inner in graph.node:
            _rename(inner, stem, outside)
