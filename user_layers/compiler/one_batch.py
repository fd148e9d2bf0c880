"""Tokens of several batches as those of one, which nets of 8-bit integers have in strips (strips.py).

N batches of tokens, `[N, T, C]`, are written as one of 4 N r, `[1, 4 N r, C]`: the first r tokens of each
batch, then the next r of each, and so on; what is behind a batch's last token is nobody's. So each of the
four strips has a quarter of every batch, and attention on strips (attention_strips.py) finds one batch behind
the other. What works on each token alone asks for no order; everything else, attention too, reads tokens of
batches as before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic

import numpy as np

from firmware_sim.chip import MAX_SHAPE_DIMS
from firmware_sim.isa.layout import CHANNELS_MAX
from firmware_sim.wire import DType, StoreMode
from user_layers.compiler.attention_rows import ATTENTION
from user_layers.compiler.rewritten import Array, G, Rewritten, constant, is_a, needed_nodes
from user_layers.compiler.strips_tokens import each_alone, of_all, of_each
from user_layers.graph import BINARY_MUL, GraphBuilder
from user_layers.net.net import Net
from user_layers.net.nodes import LayerNode

_SLOTS = 4
_LEAST = 4  # tokens of a batch, so that each strip has one
_RANK = 3
_TOKENS, _PIXELS = 1, 2  # the dimension of tokens in `[N, T, C]` and `[N, C, T]`
_CONVERTING = ("TPU_QUANTIZE", "TPU_DEQUANTIZE")
_ALONE = (*_CONVERTING, "TPU_CONST_BINARY", "TPU_UNARY", "TPU_COPY", "TPU_LOOKUP")
_OF_BYTES = ("TPU_REQUANTIZE", "TPU_PRELU_INT8", "TPU_ELTWISE_INT8")
_OF_CHANNELS = ("TPU_CONCAT", "TPU_SPLIT", "TPU_SLICE")
_POINT = {"kernel_h": 1, "kernel_w": 1, "stride_h": 1, "stride_w": 1}


@dataclass(frozen=True)
class Way:
    """From tokens of batches to those of one, or back. whole: the latter; passed: the layers between them."""

    whole: str
    passed: tuple[str, ...]


@dataclass
class OneBatch(Generic[G]):
    """graph: the one with tokens of one batch. attended: what attention of several batches reads and makes,
    by its layer. read: what is read of tokens as batches, by its name; made: what of batches becomes a part
    of them."""

    graph: G
    attended: Mapping[str, Sequence[str]] = field(default_factory=dict)
    read: dict[str, Way] = field(default_factory=dict)
    made: dict[str, Way] = field(default_factory=dict)

    @property
    def is_long(self) -> bool:
        """Whether tokens stay one batch's from one attention to the next: to put them in order, and back,
        takes about as long as one saves."""
        attention = {name for names in self.attended.values() for name in names}
        others = [name for name in (*self.read, *self.made) if name not in attention]
        return len(others) <= len(self.attended)


def as_one_batch(graph: G, net: Net) -> OneBatch[G] | None:
    """The graph with such tokens around attention in 8 bits; None where there is none of several batches.
    Inputs, outputs and all results are the same. net: what `resolve` says of it."""
    nodes = needed_nodes(graph, net)
    looking = _Looking(graph, net, nodes)
    attended = _attended(graph, net, nodes)
    members = looking.members([name for names in attended.values() for name in names])
    if not members:
        return None
    writing = _Writing(graph, looking, members, attended)
    writing.write(nodes)
    return writing.one


def _attended(graph: GraphBuilder, net: Net, nodes: Sequence[LayerNode]) -> dict[str, list[str]]:
    """What attention in 8 bits of several batches reads and makes, by its layer."""
    found: dict[str, list[str]] = {}
    for node in nodes:
        if not is_a(node, ATTENTION):
            continue
        values = graph.toolkit.param_values(node.op, node.param)
        names = [*node.inputs[:3], *node.outputs]
        if net.tensors[names[0]].shape[0] == 1 or any(_rank(net, name) != _RANK for name in names):
            continue
        if values["unit"] > 0 and not values["apart"]:
            found[node.name] = [name for name in names if net.tensors[name].data is None]
    return found


def _rows_of(tokens: int) -> int:
    """Of a batch in a strip."""
    return -(-tokens // _SLOTS)


def _rank(net: Net, name: str) -> int:
    return len(net.tensors[name].shape)


class _Looking:
    """A net, and which layers of it work on each token alone."""

    def __init__(self, graph: GraphBuilder, net: Net, nodes: Sequence[LayerNode]) -> None:
        self.graph, self.net, self.nodes = graph, net, nodes
        self.maker = {name: k for k, node in enumerate(nodes) for name in node.outputs}
        self.touching: dict[str, set[int]] = {}
        for k, node in enumerate(nodes):
            for name in (*node.inputs, *node.outputs):
                self.touching.setdefault(name, set()).add(k)

    def members(self, seeds: Sequence[str]) -> dict[int, dict[str, int]]:
        """Layers that get tokens of one batch, by their places, with the dimension of tokens of all that
        they read and make. What is read or made by others is fp32: that can be put in order."""
        axes = dict.fromkeys(seeds, _TOKENS)
        found: dict[int, dict[str, int]] = {}
        waiting = deque(seeds)
        while waiting:
            for k in sorted(self.touching[waiting.popleft()] - found.keys()):
                own = self._axes(self.nodes[k], axes)
                if own is None or any(axes.get(name, axis) != axis for name, axis in own.items()):
                    continue
                found[k] = own
                waiting.extend(name for name in own if name not in axes)
                axes.update(own)
        while stuck := [
            k for k, own in found.items() if any(self._stuck(*one, found) for one in own.items())
        ]:
            for k in stuck:
                del found[k]
        return found

    def _stuck(self, name: str, axis: int, found: Mapping[int, Mapping[str, int]]) -> bool:
        """Whether others read or make a tensor that nobody can put in order."""
        ordered = axis == _TOKENS and self.net.tensors[name].dtype is DType.FP32
        ends = name not in self.maker or name in self.graph.outputs
        return not ordered and (ends or not self.touching[name] <= found.keys())

    def _axes(self, node: LayerNode, known: Mapping[str, int]) -> dict[str, int] | None:
        """The dimension of tokens of what a layer reads and makes; None where it does not work on each alone.
        known: of a tensor of it at least."""
        if node.cpu is not None or not node.op.is_builtin:
            return None
        given = [name for name in node.inputs if self.net.tensors[name].data is None]
        names = dict.fromkeys((*given, *node.outputs))
        if not given or any(_rank(self.net, name) != _RANK for name in names):
            return None
        if node.op.op == "TPU_TURN":
            source, made = *given, *node.outputs
            first = known[source] if source in known else _RANK - known[made]
            axes = {source: first, made: _RANK - first}
        else:
            axes = dict.fromkeys(names, next(known[name] for name in names if name in known))
            if not self._alone(node, given, next(iter(axes.values()))):
                return None
        there = [(self.net.tensors[name], axis) for name, axis in axes.items()]
        sizes = {(one.shape[0], one.shape[axis]) for one, axis in there}
        packed = all(one.dtype is DType.FP32 or one.store_mode is StoreMode.N4 for one, _ in there)
        if len(sizes) > 1 or not packed:
            return None
        ((batches, tokens),) = sizes
        return axes if tokens >= _LEAST and _SLOTS * batches * _rows_of(tokens) <= CHANNELS_MAX else None

    def _alone(self, node: LayerNode, given: Sequence[str], axis: int) -> bool:
        """Whether a layer makes each token of one of the same place. axis: of tokens."""
        op, values = node.op.op, self.graph.toolkit.param_values(node.op, node.param)
        constants = [name for name in node.inputs if name not in given]
        shape = self.net.tensors[node.outputs[0]].shape
        if op in _OF_CHANNELS:
            there = values["axes"][: values["count"]] if op == "TPU_SLICE" else [values["axis"]]
            return not constants and all(one % _RANK == _RANK - axis for one in there)
        if op == "TPU_CONV_INT8":
            point = all(values[name] == one for name, one in _POINT.items())
            padded = any(value for name, value in values.items() if name.startswith("pad_"))
            return axis == _PIXELS and len(given) == 1 and point and not padded
        if op == "TPU_MATMUL":
            flat = all(_rank(self.net, name) < _RANK for name in constants)
            return axis == _TOKENS and len(given) == 1 and flat and not values["trans_a"]
        if any(self.net.tensors[name].shape != shape for name in given) or any(
            _rank(self.net, name) >= _RANK and self.net.tensors[name].shape[0] > 1 for name in constants
        ):
            return False
        if op in _ALONE:
            return True
        if axis == _PIXELS:
            return op in _OF_BYTES and all(_to_channels(self.net.tensors[name].shape) for name in constants)
        return each_alone(self.net, op, values, constants, shape[1])


def _to_channels(shape: Sequence[int]) -> bool:
    """Whether a constant beside pixels is the same for all of them."""
    return len(shape) < 2 or shape[-1] == 1


class _Writing(Rewritten[G]):
    """The graph with tokens of one batch."""

    def __init__(
        self,
        graph: G,
        looking: _Looking,
        members: Mapping[int, Mapping[str, int]],
        attended: Mapping[str, Sequence[str]],
    ) -> None:
        super().__init__(graph)
        self.net = looking.net
        self.members = {looking.nodes[k].name: axes for k, axes in members.items()}
        self.whole: dict[str, str] = {}  # tokens of one batch, by what they were
        self.numbers: dict[tuple[str, int, int], str] = {}  # and constants: by batches and tokens, too
        self.one = OneBatch(self.made, attended)

    def node(self, node: LayerNode) -> None:
        axes = self.members.get(node.name)
        if axes is None:
            for name in node.inputs:
                self._of_batches(name)
            self.keep(node)
            return
        name, axis = next(iter(axes.items()))
        shape = self.net.tensors[name].shape
        inputs = [
            self._of_one(name) if name in axes else self._constant(name, shape[0], shape[axis])
            for name in node.inputs
        ]
        outputs = [self.tensor(f"{name}:whole") for name in node.outputs]
        self.made.add_node(node, inputs, outputs)
        for name, own in zip(node.outputs, outputs, strict=True):
            self.whole[name] = own
            if name in self.old.scales:
                self.made.scales[own] = self.old.scales[name]
            if name in self.old.outputs:
                self._of_batches(name)

    def _constant(self, name: str, batches: int, tokens: int) -> str:
        """With numbers for each token, in their order."""
        array = constant(self.old, name)
        if array is None or of_all(self.net, name) or not of_each(self.net, name, tokens):
            return name
        key = name, batches, tokens
        if key not in self.numbers:
            rows = _rows_of(tokens)
            whole = np.ones((batches, _SLOTS * rows, array.shape[-1]), array.dtype)
            whole[:, :tokens] = array.reshape(tokens, -1)
            self.numbers[key] = self.made.add_const(self.tensor(f"{name}:whole"), _in_order(whole, rows))
        return self.numbers[key]

    def _of_one(self, name: str) -> str:
        """Tokens of batches, put in order where nobody made them so."""
        if name in self.whole:
            return self.whole[name]
        batches, tokens, channels = self.net.tensors[name].shape
        rows, source, passed = _rows_of(tokens), name, len(self.made.nodes)
        if (more := _SLOTS * rows - tokens) > 0:
            zeros = self.made.add_const(
                self.tensor(f"{name}:zeros"), np.zeros((batches, more, channels), np.float32)
            )
            same = {"value": 1.0, "binary_op": BINARY_MUL, "inversed": 0}
            rest = self.add("TPU_CONST_BINARY", zeros, same, self.tensor(f"{name}:more"), f"{name}:more")
            # What makes the tokens makes them there; a pad, or a constant beside them, would copy them.
            source = self.tensor(f"{name}:padded")
            title = self.title(source)
            self.made.add_tpu_layer("TPU_CONCAT", [name, rest], {"axis": 1}, [source], name=title)
        parts = self._seen(source, (batches, _SLOTS, rows * channels), f"{name}:parts")
        turned = self._exchanged(parts, f"{name}:order")
        whole = self._seen(turned, (1, _SLOTS * batches * rows, channels), f"{name}:whole")
        self.whole[name] = whole
        self.one.made[name] = Way(whole, tuple(node.name for node in self.made.nodes[passed:]))
        return whole

    def _of_batches(self, name: str) -> None:
        """Write tokens of batches that there are only of one."""
        if name not in self.whole or self.made.has_tensor(name):
            return
        batches, tokens, channels = self.net.tensors[name].shape
        rows, passed = _rows_of(tokens), len(self.made.nodes)
        parts = self._seen(self.whole[name], (_SLOTS, batches, rows * channels), f"{name}:parts")
        turned = self._exchanged(parts, f"{name}:order")
        shape = (batches, _SLOTS * rows, channels)
        if _SLOTS * rows == tokens:
            self.reshape(turned, shape, name, f"{name}:batches")
        else:
            padded = self._seen(turned, shape, f"{name}:padded")
            ends = {"count": 1, "axes": (1,), "starts": (0,), "ends": (tokens,), "steps": (1,)}
            self.add("TPU_SLICE", padded, ends, name, f"{name}:batches")
        self.one.read[name] = Way(self.whole[name], tuple(node.name for node in self.made.nodes[passed:]))

    def _seen(self, source: str, shape: Sequence[int], stem: str) -> str:
        return self.reshape(source, shape, self.tensor(stem), stem)

    def _exchanged(self, source: str, stem: str) -> str:
        """The first two dimensions of three."""
        order = (1, 0, 2, *range(_RANK, MAX_SHAPE_DIMS))
        values = {"dims": _RANK, "order": order}
        return self.add("TPU_TRANSPOSE", source, values, self.tensor(stem), stem)


def _in_order(whole: Array, rows: int) -> Array:
    """`[N, 4 rows, C]` as `[1, 4 N rows, C]`."""
    batches, _, channels = whole.shape
    parts = whole.reshape(batches, _SLOTS, rows, channels).swapaxes(0, 1)
    return np.ascontiguousarray(parts).reshape(1, -1, channels)
