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
import numpy.typing as npt

from firmware_sim.chip import LOCAL_BYTES, NPU_NUM, WINDOW_SIDE_MAX
from firmware_sim.isa import timing
from firmware_sim.isa.bursts import straight
from firmware_sim.timeline import Timer
from firmware_sim.wire import DType, Program, ProgramTensor, StepOp, TensorKind, TensorRecord
from user_layers.compiler.steps import layer_step
from user_layers.graph import GraphBuilder
from user_layers.graph.prepared import free_name
from user_layers.net.net import Net, NetTensorInfo
from user_layers.net.nodes import CALLER, LayerNode
from user_layers.toolkit import Toolkit

G = TypeVar("G", bound=GraphBuilder)
Floats = npt.NDArray[np.float32]

_STEP_MAX = 15  # strides and pads of an instruction
_CHANNELS = 4095  # of a tensor in local memory
_TOLD = 4  # fewer input channels have zeros beside them (bm_conv_told)
_ELEMENTWISE = ("TPU_UNARY", "TPU_CONST_BINARY")
_SAMPLE = 1024  # pixels of a lane with which element-wise layers are timed
_GAIN = 0.1  # in parts of what it takes now: what is worth the layers that come in
_LEAST = 2000.0  # cycles, likewise


def stack_rows(graph: G, net: Net) -> G | None:
    """The graph with several rows at once wherever that takes fewer cycles; None where that is nowhere.
    Inputs and outputs are the same. For nets that are compiled statically. net: what `resolve` says of the
    graph."""
    found = list(_stacks(graph, net))
    return _written(graph, found) if found else None


# ---- what is stacked ----


@dataclass(frozen=True)
class _Conv:
    """A convolution of one group. unfold: the layer that makes channels of its kernel's rows, if there is
    one. taps, stride, top: of the whole kernel along h; window: the parameters of TPU_CONV."""

    node: LayerNode
    unfold: LayerNode | None
    source: NetTensorInfo
    made: NetTensorInfo
    weights: Floats
    bias: bool
    taps: int
    stride: int
    top: int
    window: Mapping[str, Any]

    @property
    def channels(self) -> int:
        """Of the input, before its rows become some."""
        return self.source.shape[1]

    def below(self, rows: int) -> int:
        """Rows that windows of so many output rows reach over the input's lower edge."""
        steps = -(-self.made.shape[2] // rows) * rows - 1
        return max(steps * self.stride + self.taps - self.top - self.source.shape[2], 0)

    def takes(self, rows: int) -> bool:
        """Whether one instruction makes so many rows at once."""
        reach = self.taps + (rows - 1) * self.stride
        if self.unfold is not None:
            return self.channels * reach <= _CHANNELS
        return (
            rows * self.stride <= _STEP_MAX
            and reach <= WINDOW_SIDE_MAX
            and max(self.top, self.below(rows)) < min(reach, _STEP_MAX + 1)
        )

    def cycles(self, rows: int) -> tuple[float, float]:
        """Of the tensor unit; and of the DMA engine before it for what depends on the rows: the kernel and
        the unfolded input."""
        n, c, h, w = self.made.shape
        reach, kernel_w = self.taps + (rows - 1) * self.stride, self.window["kernel_w"]
        high = -(-h // rows)
        ins, kernel = (self.channels, reach) if self.unfold is None else (self.channels * reach, 1)
        computed = timing.convolution(
            (n, rows * c, high, w),
            0,
            max(ins, _TOLD),
            (kernel, kernel_w),
            self.window["stride_w"],
            bias=self.bias,
        ).chip
        moved = _loaded(4 * rows * c * self.channels * reach * kernel_w)
        if self.unfold is not None:
            lines = n * self.channels * reach * high
            line = replace(straight(4 * self.source.shape[3]), jumps=1)
            moved += lines * (timing.system_to_local(line).chip - timing.FITTED.read_latency)
        return computed, moved


def _loaded(nbytes: int) -> float:
    return timing.system_to_local(straight(nbytes)).chip


@dataclass(frozen=True)
class _Stack:
    """A convolution that makes several rows at once, and the layers behind it that work on them."""

    conv: _Conv
    chain: Sequence[LayerNode]
    rows: int


def _stacks(graph: GraphBuilder, net: Net) -> Iterator[_Stack]:
    """All that pay."""
    look = _Looking(graph, net)
    for node in look.nodes:
        conv = look.conv(node)
        if conv is None:
            continue
        chain = look.chain(node)
        after = sum(look.cycles(one) for one in chain)
        rows = _best(conv, after)
        if rows > 1:
            yield _Stack(conv, chain, rows)


def _best(conv: _Conv, after: float) -> int:
    """The number of rows with which convolution and layers behind it take least; 1 where nothing is worth it.
    after: cycles of those layers for sixteen elements of each lane."""
    n, c, h, w = conv.made.shape

    def cycles(rows: int) -> float:
        computed, loaded = conv.cycles(rows)
        groups = n * -(-rows * c // NPU_NUM) * -(-(-(-h // rows) * w) // 16)
        # The next layer waits for the rows, unless they go to DDR; which is known only when groups are.
        moved = timing.local_to_local(4 * math.prod(conv.made.shape)).chip if rows > 1 else 0.0
        return max(computed + after * groups, loaded) + moved

    now = cycles(1)
    candidates = [rows for rows in range(2, min(NPU_NUM // c, h) + 1) if conv.takes(rows)]
    best = min(candidates, key=cycles, default=1)
    saved = now - cycles(best)
    return best if saved > max(_GAIN * now, _LEAST) else 1


class _Looking:
    """Asks a graph. nodes: those that outputs need."""

    def __init__(self, graph: GraphBuilder, net: Net) -> None:
        self._graph, self._net = graph, net
        self.nodes = [node for node in graph.nodes if all(name in net.tensors for name in node.outputs)]
        self._readers: dict[str, list[LayerNode]] = {}
        for node in self.nodes:
            for name in node.inputs:
                self._readers.setdefault(name, []).append(node)
        self._timed: dict[bytes, float] = {}

    @cached_property
    def _makers(self) -> dict[str, LayerNode]:
        return {name: node for node in self.nodes for name in node.outputs}

    def conv(self, node: LayerNode) -> _Conv | None:
        """A convolution that could make several rows at once; None for anything else."""
        if node.op.op != "TPU_CONV" or not node.op.is_builtin:
            return None
        source, made = (self._net.tensors[name] for name in (node.inputs[0], node.outputs[0]))
        weights = self._graph.tensors.get(node.inputs[1])
        known = all(self._is_floats(name) for name in node.inputs[1:])
        if not known or weights is None or weights.data is None or len(made.shape) != 4:
            return None
        if made.shape[1] > NPU_NUM // 2 or made.shape[2] < 2 or not self._only_floats(source, made):
            return None
        window = self._values(node)
        if window["groups"] != 1:
            return None
        array = np.frombuffer(weights.data, np.float32).reshape(weights.shape)
        bias = len(node.inputs) > 2
        maker = self._makers.get(node.inputs[0])
        if maker is not None and self._unfolds(maker, window):
            given = self._values(maker)
            return _Conv(
                *(node, maker, self._net.tensors[maker.inputs[0]], made, array, bias),
                *(given["kernel_h"], given["stride_h"], given["pad_top"], window),
            )
        if window["dilation_h"] != 1 and window["kernel_h"] > 1:
            return None
        return _Conv(
            *(node, None, source, made, array, bias),
            *(window["kernel_h"], window["stride_h"], window["pad_top"], window),
        )

    def chain(self, node: LayerNode) -> list[LayerNode]:
        """The element-wise layers behind a node, as long as each is the only reader."""
        found: list[LayerNode] = []
        name = node.outputs[0]
        while name not in self._net.outputs and len(self._readers.get(name, ())) == 1:
            (reader,) = self._readers[name]
            if reader.op.op not in _ELEMENTWISE or not reader.op.is_builtin:
                break
            found.append(reader)
            name = reader.outputs[0]
        return found

    def cycles(self, node: LayerNode) -> float:
        """Of an element-wise layer, for sixteen elements of each lane, as the device records it."""
        key = node.op.op.encode() + node.param
        if key not in self._timed:
            self._timed[key] = _timed(node, self._graph.toolkit) * 16 / _SAMPLE
        return self._timed[key]

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

    def _is_floats(self, name: str) -> bool:
        tensor = self._graph.tensors.get(name)
        return tensor is not None and tensor.data is not None and tensor.dtype is DType.FP32

    def _only_floats(self, *tensors: NetTensorInfo) -> bool:
        return all(tensor.dtype is DType.FP32 for tensor in tensors)

    def _values(self, node: LayerNode) -> dict[str, Any]:
        return self._graph.toolkit.param_values(node.op, node.param)


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


def _written(graph: G, stacks: Sequence[_Stack]) -> G:
    made = type(graph)(graph.chip, graph.name, toolkit=graph.toolkit)
    made.scales = dict(graph.scales)
    for tensor in graph.tensors.values():
        made.add_tensor(tensor)
    taken = {name for node in graph.nodes for name in node.outputs}
    layers = {node.name for node in graph.nodes}

    def free(stem: str) -> str:
        return free_name(stem, taken, made.tensor_names)

    members = {node.name: one for one in stacks for node in (one.conv.node, *one.chain)}
    unfolds = {one.conv.unfold.name: one for one in stacks if one.conv.unfold is not None}
    names: dict[str, str] = {}  # of what has several rows as channels
    for node in graph.nodes:
        token = CALLER.set(node.where)
        try:
            if node.name in unfolds:
                one = unfolds[node.name]
                values = graph.toolkit.param_values(node.op, node.param) | _unfolded(one)
                names[node.outputs[0]] = free(f"{node.outputs[0]}:rows")
                made.add_tpu_layer(node.op.op, node.inputs, values, [names[node.outputs[0]]], name=node.name)
                continue
            if node.name not in members:
                made.add_node(node, node.inputs, node.outputs)
                continue
            one = members[node.name]
            names[node.outputs[0]] = own = free(f"{node.outputs[0]}:rows")
            if node is one.conv.node:
                x = node.inputs[0] if one.conv.unfold is None else names[node.inputs[0]]
                constants = _constants(graph, made, one, free)
                made.add_tpu_layer(node.op.op, [x, *constants], _window(one), [own], name=node.name)
            else:
                plain = replace(node, shapes=None, dims=None)
                made.add_node(plain, [names[node.inputs[0]]], [own])
            if node is (one.chain[-1] if one.chain else one.conv.node):
                rows = {"block_h": one.rows, "block_w": 1, "crd": 0, "height": one.conv.made.shape[2]}
                name = free_name(f"{one.conv.node.name}:rows", layers)
                made.add_tpu_layer("TPU_DEPTH_TO_SPACE", [own], rows, node.outputs, name=name)
        finally:
            CALLER.reset(token)
    for name in graph.outputs:
        made.add_output(name)
    return made


def _unfolded(one: _Stack) -> dict[str, int]:
    """The parameters of TPU_UNFOLD that are others."""
    conv = one.conv
    return {
        "kernel_h": conv.taps + (one.rows - 1) * conv.stride,
        "stride_h": one.rows * conv.stride,
        "pad_bottom": conv.below(one.rows),
    }


def _window(one: _Stack) -> Mapping[str, Any]:
    """The parameters of the convolution."""
    conv = one.conv
    return conv.window if conv.unfold is not None else {**conv.window, **_unfolded(one)}


def _constants(graph: GraphBuilder, made: GraphBuilder, one: _Stack, free: Callable[[str], str]) -> list[str]:
    """The kernel and the bias, if there is one, of all rows."""
    node = one.conv.node
    names = [made.add_const(free(f"{node.outputs[0]}:kernel"), stacked_kernel(one.conv, one.rows))]
    if one.conv.bias:
        data = graph.tensors[node.inputs[2]].data
        assert data is not None  # _Looking.conv asked
        bias = np.tile(np.frombuffer(data, np.float32), one.rows)
        names.append(made.add_const(free(f"{node.outputs[0]}:bias"), bias))
    return names


def stacked_kernel(conv: _Conv, rows: int) -> Floats:
    """[row and output channel, input channel, KH, KW], or with rows of the kernel as channels."""
    c, kernel_w = conv.made.shape[1], conv.weights.shape[3]
    if conv.unfold is None:
        by_tap = conv.weights.transpose(0, 2, 1, 3)
    else:
        by_tap = conv.weights.reshape(c, conv.taps, conv.channels, kernel_w)
    reach = conv.taps + (rows - 1) * conv.stride
    whole = np.zeros((rows, c, reach, conv.channels, kernel_w), np.float32)
    for row in range(rows):
        whole[row, :, row * conv.stride : row * conv.stride + conv.taps] = by_tap
    if conv.unfold is None:
        return np.ascontiguousarray(whole.transpose(0, 1, 3, 2, 4)).reshape(rows * c, -1, reach, kernel_w)
    return whole.reshape(rows * c, -1, 1, kernel_w)
