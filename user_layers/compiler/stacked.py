"""Rows of the output as channels: convolutions with fewer output channels than there are lanes.

Each output channel has a lane, so where there are 16 channels, 48 lanes have nothing to do. Windows of rows
next to one another overlap: one convolution can make r rows at once, as r times the channels, with a kernel
that is r - 1 strides higher and has zeros where a row's own window is not. It multiplies more for each
channel, but for all lanes at once. What is done to each element then (relu, swish) has as many lanes to do it
on. At the end the DMA engine takes the rows from their lanes to where they belong (TPU_DEPTH_TO_SPACE).

Sums have zeros among their products, and may have them in another order: the chip adds even and odd taps up
apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from firmware_sim.chip import LOCAL_BYTES, NPU_NUM
from firmware_sim.isa import timing
from firmware_sim.timeline import Timer
from firmware_sim.wire import DType, Program, ProgramTensor, StepOp, TensorKind, TensorRecord
from user_layers.compiler.rewritten import needed_nodes
from user_layers.compiler.stacked_layers import (
    Continued,
    Convolution,
    Floats,
    Stackable,
    Transposed,
    Turned,
    continued,
    turned,
)
from user_layers.compiler.steps import layer_step
from user_layers.graph import GraphBuilder
from user_layers.graph.prepared import free_name
from user_layers.net.net import Net, NetTensorInfo
from user_layers.net.nodes import LayerNode, called
from user_layers.toolkit import Toolkit

G = TypeVar("G", bound=GraphBuilder)

_ELEMENTWISE = ("TPU_UNARY", "TPU_CONST_BINARY")
_LINE = 3  # dimensions
_SAMPLE = 1024  # pixels of a lane with which element-wise layers are timed
_BY_CHANNEL = 2.0  # cycles of a layer with a number for each channel, for sixteen elements, at least
_GAIN = 0.1  # in parts of what it takes now: what is worth the layers that come in
_LEAST = 2000.0  # cycles, likewise


def stack_rows(graph: G, net: Net) -> G | None:
    """The graph with several rows at once wherever that takes fewer cycles; None where that is nowhere.
    Inputs and outputs are the same. For nets that are compiled statically. net: what `resolve` says of the
    graph."""
    found = list(_stacks(graph, net))
    return _written(graph, net, found) if found else None


# ---- what is stacked ----


@dataclass(frozen=True)
class _Stack:
    """A layer that makes several rows at once, and the layers behind it that work on them. stay: the next
    layer takes them as they are."""

    layer: Stackable
    chain: Sequence[LayerNode]
    rows: int
    stay: bool = False


def _stacks(graph: GraphBuilder, net: Net) -> Iterator[_Stack]:
    """All that pay."""
    look = _Looking(graph, net)
    taken: set[str] = set()
    for node in look.nodes:
        layer = look.layer(node) if node.name not in taken else None
        if layer is None:
            continue
        chain = look.chain(node)
        after = sum(look.cycles(one) for one in chain)
        if isinstance(layer, Convolution):
            layer = _turned(layer, after) or layer
        reader = look.reader((chain[-1] if chain else node).outputs[0])
        if reader is not None and not (isinstance(layer, Turned) and layer.columns):
            behind = look.chain(reader.node)
            pair = _together(layer, after, reader, sum(look.cycles(one) for one in behind))
            if pair is not None:
                taken.add(reader.node.name)
                yield _Stack(layer, chain, pair[0].given, stay=True)
                yield _Stack(pair[0], behind if pair[1] > 1 else (), pair[1])
                continue
        rows = _best(layer, after)
        if rows > 1 or isinstance(layer, Turned):
            yield _Stack(layer, chain, rows)


def _cycles(layer: Stackable, rows: int, after: float, *, stay: bool = False) -> float:
    """Of a layer for so many rows at once and of those behind it, which take `after` cycles for sixteen
    elements of each lane. stay: nothing puts the rows where they belong."""
    n, c, h, w = layer.made.shape
    computed, loaded = layer.cycles(rows)
    groups = n * -(-rows * c // NPU_NUM) * -(-(-(-h // rows) * w) // 16)
    # The next layer waits for the rows, unless they go to DDR; which is known only when groups are.
    moves = rows > 1 and not stay
    moved = timing.local_to_local(4 * math.prod(layer.made.shape)).chip if moves else 0.0
    return max(computed + after * groups, loaded) + moved


def _turned(layer: Convolution, after: float) -> Turned | None:
    """The convolution of a line's blocks that takes least, if it is worth it. after: see _best."""
    best = min(
        ((_cycles(one, rows, after), one) for one in turned(layer) for rows in one.candidates()),
        key=lambda found: found[0],
        default=None,
    )
    now = _cycles(layer, _best(layer, after), after)
    return best[1] if best is not None and _pays(now, best[0]) else None


def _best(layer: Stackable, after: float) -> int:
    """The number of rows with which a layer and those behind it take least; 1 where nothing is worth it.
    after: cycles of those for sixteen elements of each lane."""
    if isinstance(layer, Turned):
        return min(layer.candidates(), key=lambda rows: _cycles(layer, rows, after))
    now = _cycles(layer, 1, after)
    best = min(layer.candidates(), key=lambda rows: _cycles(layer, rows, after), default=1)
    return best if _pays(now, _cycles(layer, best, after)) else 1


def _together(
    layer: Stackable, after: float, reader: Convolution, behind: float
) -> tuple[Continued, int] | None:
    """The convolution that reads what a layer makes of several rows at once, and how many it makes itself;
    None where that takes no less than both apart."""
    now = sum(_cycles(one, _best(one, added), added) for one, added in ((layer, after), (reader, behind)))
    found = [
        (_cycles(layer, given, after, stay=True) + _cycles(one, rows, behind), one, rows)
        for given in layer.candidates()
        if given > 1 and layer.made.shape[2] % given == 0
        for one in (continued(reader, given),)
        for rows in one.candidates()
    ]
    least = min(found, key=lambda one: one[0], default=None)
    return least[1:] if least is not None and _pays(now, least[0]) else None


def _pays(now: float, then: float) -> bool:
    """Whether so many cycles less are worth it."""
    return now - then > max(_GAIN * now, _LEAST)


class _Looking:
    """Asks a graph. nodes: those that outputs need."""

    def __init__(self, graph: GraphBuilder, net: Net) -> None:
        self._graph, self._net = graph, net
        self.nodes = needed_nodes(graph, net)
        self._readers: dict[str, list[LayerNode]] = {}
        for node in self.nodes:
            for name in node.inputs:
                self._readers.setdefault(name, []).append(node)
        self._timed: dict[bytes, float] = {}

    @cached_property
    def _makers(self) -> dict[str, LayerNode]:
        return {name: node for node in self.nodes for name in node.outputs}

    def layer(self, node: LayerNode) -> Stackable | None:
        """A layer that could make several rows at once; None for anything else."""
        if node.op.op not in ("TPU_CONV", "TPU_DECONV") or not node.op.is_builtin:
            return None
        source, made = (_of_columns(self._net.tensors[name]) for name in (node.inputs[0], node.outputs[0]))
        if len(made.shape) != 4 or not self._only_floats(source, made):
            return None
        alone = source.shape[1] == 1 and node.op.op == "TPU_CONV"  # whose line may be the only row
        if max(made.shape[2:] if alone else made.shape[2:3]) < 2:
            return None
        weights, window = self._weights(node), self._values(node)
        if weights is None or window["groups"] != 1:
            return None
        bias = len(node.inputs) > 2
        maker = self._makers.get(node.inputs[0])
        if node.op.op == "TPU_CONV" and maker is not None and self._unfolds(maker, window):
            given = self._values(maker)
            source = self._net.tensors[maker.inputs[0]]
            return Convolution(
                *(node, maker, source, made, weights, bias, window),
                *(given["kernel_h"], given["stride_h"], given["pad_top"]),
            )
        if window["dilation_h"] != 1 and window["kernel_h"] > 1:
            return None
        common = node, None, source, made, weights, bias, window
        if node.op.op == "TPU_DECONV":
            return Transposed(*common)
        return Convolution(*common, window["kernel_h"], window["stride_h"], window["pad_top"])

    def chain(self, node: LayerNode) -> list[LayerNode]:
        """The element-wise layers behind a node, as long as each is the only reader."""
        found: list[LayerNode] = []
        name = node.outputs[0]
        while name not in self._net.outputs and len(self._readers.get(name, ())) == 1:
            (reader,) = self._readers[name]
            if not reader.op.is_builtin or not (
                reader.op.op in _ELEMENTWISE or self._by_channel(reader, name)
            ):
                break
            found.append(reader)
            name = reader.outputs[0]
        return found

    def reader(self, name: str) -> Convolution | None:
        """A plain convolution that alone reads a tensor."""
        readers = self._readers.get(name, ())
        if name in self._net.outputs or len(readers) != 1 or readers[0].inputs.count(name) != 1:
            return None
        found = self.layer(readers[0])
        return found if isinstance(found, Convolution) and found.unfold is None else None

    def cycles(self, node: LayerNode) -> float:
        """Of an element-wise layer, for sixteen elements of each lane, as the device records it."""
        if node.op.op not in _ELEMENTWISE:
            return _BY_CHANNEL
        key = node.op.op.encode() + node.param
        if key not in self._timed:
            self._timed[key] = _timed(node, self._graph.toolkit) * 16 / _SAMPLE
        return self._timed[key]

    def _by_channel(self, node: LayerNode, name: str) -> bool:
        """Whether a layer combines a tensor with one constant number for each channel."""
        if node.op.op != "TPU_BINARY":
            return False
        others = [self._graph.tensors.get(one) for one in node.inputs if one != name]
        if len(others) != 1 or others[0] is None or others[0].data is None:
            return False
        whole, shape = self._net.tensors[name].shape, others[0].shape
        each = (1, whole[1], *(1 for _ in whole[2:]))
        return others[0].dtype is DType.FP32 and (1,) * (len(whole) - len(shape)) + shape == each

    def _unfolds(self, maker: LayerNode, window: Mapping[str, Any]) -> bool:
        """Whether a layer makes channels of rows for this convolution alone."""
        if maker.op.op != "TPU_UNFOLD" or len(self._readers[maker.outputs[0]]) > 1:
            return False
        if maker.outputs[0] in self._net.outputs:
            return False
        given = self._values(maker)
        plain = (window["kernel_h"], window["stride_h"], window["pad_top"], window["pad_bottom"]) == (
            1,
            1,
            0,
            0,
        )
        return plain and given["planes"] == given["kernel_d"] == given["dilation_h"] == 1

    def _weights(self, node: LayerNode) -> Floats | None:
        """Where they and the bias, if there is one, are constants in fp32."""
        known = [self._graph.tensors.get(name) for name in node.inputs[1:]]
        if any(one is None or one.data is None or one.dtype is not DType.FP32 for one in known):
            return None
        assert known[0] is not None and known[0].data is not None
        return np.frombuffer(known[0].data, np.float32).reshape(known[0].shape)

    def _only_floats(self, *tensors: NetTensorInfo) -> bool:
        return all(tensor.dtype is DType.FP32 for tensor in tensors)

    def _values(self, node: LayerNode) -> dict[str, Any]:
        return self._graph.toolkit.param_values(node.op, node.param)


def _of_columns(tensor: NetTensorInfo) -> NetTensorInfo:
    """A line, [N, C, H], as a picture of one column."""
    return replace(tensor, shape=(*tensor.shape, 1)) if len(tensor.shape) == _LINE else tensor


def _timed(node: LayerNode, toolkit: Toolkit) -> float:
    """Cycles of an element-wise layer's local function on a tile of _SAMPLE pixels."""
    shape = (1, 1, 1, _SAMPLE)
    ends = [NetTensorInfo(name, shape, DType.FP32) for name in (node.inputs[0], node.outputs[0])]
    room = toolkit.describe(node, ends[:1], ends[1:]).get_local_buffer_size(shape)
    nbytes = 4 * _SAMPLE
    assert 2 * nbytes + room <= LOCAL_BYTES
    program = Program()
    tiles = [
        program.add(ProgramTensor(TensorKind.LOCAL, TensorRecord(shape, addr=at), max_bytes=nbytes))
        for at in (0, nbytes)
    ]
    program.steps.append(layer_step(StepOp.LOCAL, node, tiles[:1], tiles[1:], room, 2 * nbytes))
    timer = Timer()
    groups = toolkit.device.record(program, checked=False).groups
    return sum(timer.timeline(group).cycles for group in groups)


# ---- writing ----


def _written(graph: G, net: Net, stacks: Sequence[_Stack]) -> G:
    made = graph.without_layers()
    taken = {name for node in graph.nodes for name in node.outputs}
    layers = {node.name for node in graph.nodes}

    def free(stem: str) -> str:
        return free_name(stem, taken, made.tensor_names)

    def operand(name: str, rows: int, dims: int) -> str:
        """What an element-wise layer takes of so many dimensions: rows, or a constant with a number for each
        of their channels."""
        if name not in graph.tensors:
            return names[name]
        data = graph.tensors[name].data
        assert data is not None  # _Looking.chain asked
        numbers = np.tile(np.frombuffer(data, np.float32), rows)
        return made.add_const(free(f"{name}:rows"), numbers.reshape(1, -1, *[1] * (dims - 2)))

    members = {node.name: one for one in stacks for node in (one.layer.node, *one.chain)}
    unfolds = {one.layer.unfold.name: one for one in stacks if one.layer.unfold is not None}
    names: dict[str, str] = {}  # of what has several rows as channels
    lines: dict[tuple[str, int], str] = {}  # of inputs whose blocks of so many samples are channels
    for node in graph.nodes:
        with called(node.where):
            if node.name in unfolds:
                one = unfolds[node.name]
                values = graph.toolkit.param_values(node.op, node.param) | one.layer.parameters(one.rows)
                names[node.outputs[0]] = free(f"{node.outputs[0]}:rows")
                made.add_tpu_layer(node.op.op, node.inputs, values, [names[node.outputs[0]]], name=node.name)
                continue
            if node.name not in members:
                made.add_node(node, node.inputs, node.outputs)
                continue
            one = members[node.name]
            own = free(f"{node.outputs[0]}:rows") if one.rows > 1 else node.outputs[0]
            names[node.outputs[0]] = own
            if node is one.layer.node:
                rows_in = one.layer.unfold is not None or isinstance(one.layer, Continued)
                if isinstance(one.layer, Turned):
                    key = node.inputs[0], one.layer.given
                    if key not in lines:
                        lines[key] = _turn(graph, made, net, one.layer, free)
                    names[node.inputs[0]] = lines[key]
                x = names[node.inputs[0]] if rows_in else node.inputs[0]
                constants = _constants(graph, made, one, free)
                window = {**one.layer.window}
                if one.layer.unfold is None:
                    window |= one.layer.parameters(one.rows)
                made.add_tpu_layer(node.op.op, [x, *constants], window, [own], name=node.name)
            else:
                plain = replace(node, shapes=None, dims=None)
                dims = len(net.tensors[node.outputs[0]].shape)
                made.add_node(plain, [operand(name, one.rows, dims) for name in node.inputs], [own])
            last = one.chain[-1] if one.chain else one.layer.node
            if node is last and one.rows > 1 and not one.stay:
                rows = _places(one)
                name = free_name(f"{one.layer.node.name}:rows", layers)
                made.add_tpu_layer("TPU_DEPTH_TO_SPACE", [own], rows, node.outputs, name=name)
    for name in graph.outputs:
        made.add_output(name)
    return made


def _constants(graph: GraphBuilder, made: GraphBuilder, one: _Stack, free: Callable[[str], str]) -> list[str]:
    """The kernel and the bias, if there is one, of all rows."""
    node = one.layer.node
    names = [made.add_const(free(f"{node.outputs[0]}:kernel"), one.layer.kernel(one.rows))]
    if one.layer.bias:
        data = graph.tensors[node.inputs[2]].data
        assert data is not None  # _Looking.layer asked
        bias = np.tile(np.frombuffer(data, np.float32), one.rows)
        names.append(made.add_const(free(f"{node.outputs[0]}:bias"), bias))
    return names


def _places(one: _Stack) -> dict[str, int]:
    """The parameters of TPU_DEPTH_TO_SPACE that takes rows, or columns, to where they belong."""
    if isinstance(one.layer, Turned) and one.layer.columns:
        return {"block_h": 1, "block_w": one.rows, "crd": 0, "width": one.layer.made.shape[2]}
    return {"block_h": one.rows, "block_w": 1, "crd": 0, "height": one.layer.made.shape[2]}


def _turn(
    graph: GraphBuilder, made: GraphBuilder, net: Net, layer: Turned, free: Callable[[str], str]
) -> str:
    """A line's blocks of samples as channels: its name."""
    name, layers = layer.node.inputs[0], {node.name for node in graph.nodes}
    shape, n, given = net.tensors[name].shape, layer.source.shape[0], layer.given
    blocks = math.prod(shape) // (n * given)
    view = {"dims": 3, "shape": [n, blocks, given, *[0] * 5]}
    title = free_name(f"{layer.node.name}:blocks", layers)
    (seen,) = made.add_tpu_layer("TPU_RESHAPE", [name], view, [free(f"{name}:blocks")], name=title)
    height, width = blocks, 1
    if layer.columns:
        height, width = shape[2], shape[3] // given
    elif len(shape) == _LINE:
        height = width = 0
    picture, title = {"height": height, "width": width}, free_name(f"{layer.node.name}:turned", layers)
    (lines,) = made.add_tpu_layer("TPU_TURN", [seen], picture, [free(f"{name}:turned")], name=title)
    return lines
