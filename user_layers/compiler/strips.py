"""One picture in all four slots of a word: a net of batch 1 as one of four batches of a quarter of the rows.

8-bit tensors lie four batches to a word, so a net of batch 1 leaves three quarters of the multipliers, the
memory and the traffic unused. Here stretches of layers get strips of rows instead of pictures
(sdk/layers/lib/bm_layer_strips.h): the same layers with the same numbers, four batches of them; windows that
reach over a strip's edge get the neighbours' rows beside it first. Strips of all tensors of a stretch have
their edges at the same places of the picture, so what lies behind its last row may have to be computed too;
what it is matters to nobody.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np

from firmware_sim.wire import DType, StoreMode
from user_layers.compiler.rewritten import needed_nodes
from user_layers.compiler.strips_tokens import of_all, of_each, on_tokens
from user_layers.graph import BINARY_MUL, GraphBuilder
from user_layers.graph.prepared import free_name
from user_layers.net.net import Net
from user_layers.net.nodes import LayerNode, called

G = TypeVar("G", bound=GraphBuilder)

_SLOTS = 4
_LEAST = 4  # rows of a picture that are cut: each strip has one at least
_MOST = 8192  # rows that the layers which cut and join take (BM_STRIPS_ROWS)
_ELEMENTWISE = ("TPU_REQUANTIZE", "TPU_LOOKUP", "TPU_PRELU_INT8", "TPU_COPY", "TPU_ELTWISE_INT8")
_DENSE = "TPU_CONV_INT8"
_PADS = dict.fromkeys(("pad_top", "pad_bottom"), 0)


@dataclass(frozen=True)
class _Way:
    """How a layer works on strips. ratio: rows of its input to one of its output; top, bottom: rows of
    neighbours that its window needs; fill: the byte beside the picture, or None for a layer that sees no row
    but its own; values: its parameters for strips, where they differ; seen: it only sees its input in another
    shape, or turns it, whose rows are not those of the input."""

    ratio: Fraction = Fraction(1)
    top: int = 0
    bottom: int = 0
    fill: int | None = None
    values: Mapping[str, Any] | None = None
    seen: bool = False


@dataclass(frozen=True)
class _Known:
    """net: with all shapes. tokens: its tensors whose rows are dimension 1 (strips_tokens.py)."""

    net: Net
    tokens: frozenset[str]

    def cuts(self, name: str) -> bool:
        """Whether a tensor may be strips."""
        return name in self.tokens or _picture(self.net, name)

    def height(self, name: str) -> int:
        """Of a tensor that is cut."""
        return self.net.tensors[name].shape[1 if name in self.tokens else 2]


@dataclass(frozen=True)
class _Stretch:
    """Layers that work on strips, and how many rows those of each tensor have."""

    nodes: Sequence[int]
    rows: Mapping[str, int]


def in_strips(graph: G, net: Net) -> G | None:
    """The graph with strips wherever it can be cut; None where that is nowhere. Inputs, outputs and all
    results are the same, bit by bit. For nets that are compiled statically. net: what `resolve` says of it.
    """
    if not any(node.op.op == _DENSE for node in graph.nodes):
        return None
    nodes = needed_nodes(graph, net)
    on_rows, tokens = on_tokens(graph, net, nodes)
    ways = {k: way for k, node in enumerate(nodes) if (way := _way(graph, net, node)) is not None}
    ways |= {k: _seen(net, nodes[k]) if nodes[k].op.op == "TPU_TURN" else _Way() for k in on_rows}
    known = _Known(net, tokens)
    stretches = list(_stretches(known, nodes, ways))
    if not stretches:
        return None
    found: G = _Writing(graph, known, nodes, ways, stretches).graph()
    return found


# ---- what can be cut ----


def _picture(net: Net, name: str) -> bool:
    """Whether a tensor is one picture of bytes that can be cut, or a row of pixels."""
    one = net.tensors[name]
    return (
        one.data is None
        and len(one.shape) in (3, 4)
        and one.shape[0] == 1
        and _LEAST <= one.shape[2] <= _MOST
        and one.store_mode is StoreMode.N4
        and one.dtype in (DType.INT8, DType.UINT8)
    )


def _to_each(net: Net, name: str) -> bool:
    """Whether an operand is one number to a channel, which all strips need."""
    one = net.tensors[name]
    return one.data is None and one.store_mode is StoreMode.N4 and one.shape[:1] + one.shape[2:] == (1, 1, 1)


def _way(graph: GraphBuilder, net: Net, node: LayerNode) -> _Way | None:
    if node.cpu is not None or not all(_picture(net, n) for n in node.outputs):
        return None
    inputs = [name for name in node.inputs if net.tensors[name].data is None]
    if not node.op.is_builtin:
        return _users(graph, net, node, inputs)
    op, values = node.op.op, graph.toolkit.param_values(node.op, node.param)
    rank = len(net.tensors[node.outputs[0]].shape)
    if op == "TPU_ELTWISE_INT8":
        ok = any(_picture(net, n) for n in inputs) and all(
            _picture(net, n) or _to_each(net, n) for n in inputs
        )
    else:
        ok = all(_picture(net, name) for name in inputs)
    if not ok:
        return None
    if op in _ELEMENTWISE:
        constants = [net.tensors[name].shape for name in node.inputs if name not in inputs]
        flat = op == "TPU_LOOKUP" or all(_rows(shape, rank) == 1 for shape in constants)
        return _Way() if flat else None
    if op in ("TPU_CONCAT", "TPU_SPLIT"):
        return _Way() if values["axis"] % rank == 1 else None
    if op == "TPU_SLICE":
        return _Way() if all(axis % rank == 1 for axis in values["axes"][: values["count"]]) else None
    if op == "TPU_RESHAPE":
        given, made = (net.tensors[name].shape for name in (node.inputs[0], node.outputs[0]))
        return _seen(net, node) if len(given) != len(made) and given[:2] == made[:2] else None
    if op == "TPU_UPSAMPLE":
        return _Way(Fraction(1, values["scale_h"]))
    if op in (_DENSE, "TPU_POOL_INT8"):
        return _window(net, node, values)
    return None


def _seen(net: Net, node: LayerNode) -> _Way:
    """Of a picture and its pixels: so many rows of these are one of the picture."""
    given, made = (net.tensors[name].shape for name in (node.inputs[0], node.outputs[0]))
    if len(given) == len(made):
        return _Way()
    wide = len(given) < len(made)
    return _Way(Fraction(made[3]) if wide else Fraction(1, given[3]), seen=True)


def _users(graph: GraphBuilder, net: Net, node: LayerNode, inputs: Sequence[str]) -> _Way | None:
    """A layer of the user's that says that it bears it."""
    shapes = [net.tensors[name].shape for name in (*inputs, *node.outputs)]
    same = all(len(shape) == 4 and shape[2] == shapes[-1][2] for shape in shapes)
    if not inputs or not same or not all(_picture(net, name) for name in inputs):
        return None
    given, made = ([net.tensors[name] for name in names] for names in (node.inputs, node.outputs))
    return _Way() if graph.toolkit.describe(node, given, made).each_row_alone() else None


def _rows(shape: Sequence[int], rank: int) -> int:
    """Of an operand that is broadcast to a picture of so many dimensions."""
    return shape[2 - rank] if len(shape) > rank - 3 else 1


def _window(net: Net, node: LayerNode, values: Mapping[str, Any]) -> _Way | None:
    pool = node.op.op == "TPU_POOL_INT8"
    if pool and values["whole"]:
        return None
    height, out = (net.tensors[name].shape[2] for name in (node.inputs[0], node.outputs[0]))
    stride, top = values["stride_h"], values["pad_top"]
    reach = values["dilation_h"] * (values["kernel_h"] - 1) + 1
    if reach <= top:
        return None
    bottom = max(reach - top - stride, 0)
    beyond = (out - 1) * stride - top + reach > height
    if top == bottom == 0 and not beyond:
        return _Way(Fraction(stride))
    signed = net.tensors[node.inputs[0]].dtype is DType.INT8
    fill = 0x80 if pool and values["mode"] == 0 and signed else 0
    own = {**values, **_PADS, **({"extra_bottom": 0} if pool else {})}
    return _Way(Fraction(stride), top, bottom, fill, own)


# ---- stretches ----


def _stretches(known: _Known, nodes: Sequence[LayerNode], ways: dict[int, _Way]) -> Iterator[_Stretch]:
    """The connected ones that have a convolution over channels. A layer whose rows do not fit to those of the
    others is taken out of `ways`."""
    makers = {name: k for k, node in enumerate(nodes) for name in node.outputs}
    seen: set[int] = set()
    for start in list(ways):
        if start in seen or start not in ways:
            continue
        scales = _related(known, nodes, ways, makers, start)
        members = sorted(k for k in ways if nodes[k].outputs[0] in scales)
        seen.update(members)
        if any(_is_dense(known.net, nodes[k]) for k in members):
            yield _Stretch(members, _heights(known, nodes, ways, members, scales))
        else:
            for k in members:
                del ways[k]


def _is_dense(net: Net, node: LayerNode) -> bool:
    return node.op.op == _DENSE and net.tensors[node.inputs[1]].shape[1] > 1


def _related(
    known: _Known, nodes: Sequence[LayerNode], ways: dict[int, _Way], makers: Mapping[str, int], start: int
) -> dict[str, Fraction]:
    """Rows of the outputs of all layers that hang together with one, in units of those of its output."""
    readers: dict[str, list[int]] = {}
    for k in ways:
        for name in nodes[k].inputs:
            readers.setdefault(name, []).append(k)
    scales = {name: Fraction(1) for name in nodes[start].outputs}
    waiting = deque([start])
    while waiting:
        k = waiting.popleft()
        if k not in ways:
            continue
        own = scales[nodes[k].outputs[0]]
        above = {n: own * ways[k].ratio for n in nodes[k].inputs if makers.get(n) in ways and known.cuts(n)}
        if any(scales.get(name, scale) != scale for name, scale in above.items()):
            del ways[k]
            for name in nodes[k].outputs:
                del scales[name]
            continue
        for name, scale in above.items():
            if name not in scales:
                maker = makers[name]
                scales.update(dict.fromkeys(nodes[maker].outputs, scale))
                waiting.append(maker)
        for name in nodes[k].outputs:
            for reader in readers.get(name, ()):
                if reader in ways and nodes[reader].outputs[0] not in scales:
                    below = own / ways[reader].ratio
                    scales.update(dict.fromkeys(nodes[reader].outputs, below))
                    waiting.append(reader)
    return scales


def _heights(
    known: _Known,
    nodes: Sequence[LayerNode],
    ways: Mapping[int, _Way],
    members: Sequence[int],
    scales: Mapping[str, Fraction],
) -> dict[str, int]:
    """Rows of the strips of each tensor that these layers make: the fewest with which all are whole numbers,
    and windows reach no further than to the neighbour."""
    own = {name: scales[name] for k in members for name in nodes[k].outputs}
    above = {k: own[nodes[k].outputs[0]] * ways[k].ratio for k in members}
    unit = math.lcm(*(one.denominator for one in (*own.values(), *above.values())))
    most = [Fraction(-(-known.height(name) // _SLOTS)) / scale for name, scale in own.items()]
    for k in members:
        read = max(known.height(name) for name in nodes[k].inputs if known.cuts(name))
        need = max(ways[k].top, ways[k].bottom, -(-read // _SLOTS))
        most.append(Fraction(need) / above[k])
    times = -(-max(most) // unit) * unit
    return {name: int(scale * times) for name, scale in own.items()}


# ---- writing ----


class _Writing:
    """The graph that is being made; strips: the name of a tensor's strips, by the tensor and their rows."""

    def __init__(
        self,
        graph: GraphBuilder,
        known: _Known,
        nodes: Sequence[LayerNode],
        ways: Mapping[int, _Way],
        stretches: Sequence[_Stretch],
    ) -> None:
        self._old, self._known, self._nodes, self._ways = graph, known, nodes, ways
        self._net = known.net
        self._rows = {name: rows for one in stretches for name, rows in one.rows.items()}
        self._members = {k for one in stretches for k in one.nodes}
        self._strips: dict[tuple[str, int], str] = {}
        self._halos: dict[tuple[str, int, int, int], str] = {}
        self._made = graph.without_layers()

    def graph(self) -> Any:
        for k, node in enumerate(self._nodes):
            with called(node.where):
                if k in self._members:
                    self._cut(node, self._ways[k])
                else:
                    names = [self._plain(name) for name in node.inputs]
                    self._made.add_node(node, names, node.outputs)
        for name in self._net.outputs:
            self._made.add_output(self._plain(name))
        return self._made

    def _cut(self, node: LayerNode, way: _Way) -> None:
        """A layer on strips."""
        above = int(self._rows[node.outputs[0]] * way.ratio)
        tokens = node.outputs[0] in self._known.tokens
        inputs = [
            self._numbers(name, above)
            if tokens and self._is_of_each(node, name)
            else self._operand(name, above, way)
            for name in node.inputs
        ]
        outputs = [self._free(name, "strips") for name in node.outputs]
        values = self._shaped(node) if way.seen else way.values
        if values is not None:
            node = replace(node, param=self._old.toolkit.layer_param(node.op, values, node.where))
        self._made.add_node(node, inputs, outputs)
        for name, own in zip(node.outputs, outputs, strict=True):
            if name in self._old.scales:
                self._made.scales[own] = self._old.scales[name]
            self._strips[name, self._rows[name]] = own

    def _shaped(self, node: LayerNode) -> dict[str, Any]:
        """Parameters of a layer that gives strips another shape."""
        (name,) = node.outputs
        _, channels, *plane = self._net.tensors[name].shape
        rows = self._rows[name]
        wide = plane[1:]
        if node.op.op == "TPU_TURN":
            height, width = (rows, *wide) if wide else (0, 0)
            return {"height": height, "width": width}
        shape = (_SLOTS, channels, rows, *wide)
        return {"dims": len(shape), "shape": shape}

    def _operand(self, name: str, rows: int, way: _Way) -> str:
        if self._net.tensors[name].data is not None:
            return name
        if not self._known.cuts(name):
            return self._strip(name, 1, repeat=1)
        own = self._strip(name, rows)
        if way.fill is None:
            return own
        key = own, way.top, way.bottom, way.fill
        if key not in self._halos:
            values = {"height": self._known.height(name), "top": way.top, "bottom": way.bottom}
            self._halos[key] = self._free(name, "halo")
            self._made.add_tpu_layer(
                "TPU_STRIPS_HALO", [own], {**values, "fill": way.fill}, [self._halos[key]]
            )
        return self._halos[key]

    def _is_of_each(self, node: LayerNode, name: str) -> bool:
        """Whether an operand is a constant with numbers for each token."""
        known = self._net.tensors[name].data is not None and not of_all(self._net, name)
        return known and of_each(self._net, name, self._net.tensors[node.outputs[0]].shape[1])

    def _numbers(self, name: str, rows: int) -> str:
        """Strips of a constant with numbers for each token; behind the last one are ones."""
        if (name, rows) not in self._strips:
            one = self._net.tensors[name]
            assert one.data is not None
            whole = np.ones((_SLOTS * rows, one.shape[-1]), np.float32)
            whole[: one.shape[-2]] = np.frombuffer(one.data, np.float32).reshape(one.shape[-2:])
            own = self._free(name, "strips")
            self._strips[name, rows] = self._made.add_const(own, whole.reshape(_SLOTS, rows, -1))
        return self._strips[name, rows]

    def _strip(self, name: str, rows: int, repeat: int = 0) -> str:
        """A tensor's strips, which are cut from it where nobody made them."""
        if (name, rows) not in self._strips and name in self._known.tokens:
            self._cut_tokens(name, rows)
        if (name, rows) not in self._strips:
            self._strips[name, rows] = self._free(name, "cut")
            values = {"rows": rows, "repeat": repeat}
            self._made.add_tpu_layer(
                "TPU_STRIPS_CUT", [self._plain(name)], values, [self._strips[name, rows]]
            )
        return self._strips[name, rows]

    def _plain(self, name: str) -> str:
        """A tensor as it was, which is joined where there are strips of it only."""
        if not self._made.has_tensor(name) and name in self._known.tokens:
            self._join_tokens(name)
        if not self._made.has_tensor(name):
            values = {"height": self._known.height(name)}
            self._made.add_tpu_layer(
                "TPU_STRIPS_JOIN", [self._strips[name, self._rows[name]]], values, [name]
            )
        return name

    def _cut_tokens(self, name: str, rows: int) -> None:
        """Strips of tokens in fp32, which are one behind the other in DDR; behind the last one are zeros."""
        _, tokens, channels = self._net.tensors[name].shape
        source, self._strips[name, rows] = self._plain(name), self._free(name, "cut")
        if tokens < _SLOTS * rows:
            more = np.zeros((1, _SLOTS * rows - tokens, channels), np.float32)
            made = self._made.add_const(self._free(name, "zeros"), more)
            made = self._made.add_const_binary_layer(made, 1.0, self._free(name, "more"), BINARY_MUL)
            parts, source = [source, made], self._free(name, "whole")
            # What makes the tokens makes them there; a pad, or a constant beside them, would copy them.
            self._made.add_tpu_layer("TPU_CONCAT", parts, {"axis": 1}, [source])
        values = {"dims": 3, "shape": (_SLOTS, rows, channels)}
        self._made.add_tpu_layer("TPU_RESHAPE", [source], values, [self._strips[name, rows]])

    def _join_tokens(self, name: str) -> None:
        """Tokens in fp32 of their strips: where both are the same in DDR, nothing is moved."""
        _, tokens, channels = self._net.tensors[name].shape
        rows = self._rows[name]
        more = tokens < _SLOTS * rows
        whole = self._free(name, "whole") if more else name
        values = {"dims": 3, "shape": (1, _SLOTS * rows, channels)}
        self._made.add_tpu_layer("TPU_RESHAPE", [self._strips[name, rows]], values, [whole])
        if more:
            ends = {"count": 1, "axes": (1,), "starts": (0,), "ends": (tokens,), "steps": (1,)}
            self._made.add_tpu_layer("TPU_SLICE", [whole], ends, [name])

    def _free(self, name: str, what: str) -> str:
        return free_name(f"{name}:{what}", self._net.tensors, self._made.tensor_names)
