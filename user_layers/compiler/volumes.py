"""Convolutions of volumes whose planes stay in local memory.

What loads the planes that a window sees side by side as channels (TPU_UNFOLD) takes each as often as windows
see it, out of DDR. One layer for both (TPU_CONV3D) takes it once, and may be in a group with what makes it;
but its tiles have all planes of a volume. So where loading takes longer than computing, a net is planned with
that, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from firmware_sim.isa import timing
from firmware_sim.isa.bursts import straight
from user_layers.compiler.rewritten import Array, G, Rewritten, constant, is_a, needed_nodes
from user_layers.graph import GraphBuilder
from user_layers.net.net import Net
from user_layers.net.nodes import LayerNode
from user_layers.net.volumes import Volumes


@dataclass(frozen=True)
class _Whole:
    """A convolution of volumes that two layers make. source: the planes; weights: [OC, C, KD, KH, KW]."""

    unfold: LayerNode
    conv: LayerNode
    problem: Volumes
    weights: Array

    @property
    def source(self) -> str:
        return self.unfold.inputs[0]


def keep_planes(graph: G, net: Net) -> G | None:
    """The graph in which such convolutions are one layer each; None where there is none. Inputs and outputs
    are the same. For nets that are compiled statically. net: what `resolve` says of the graph."""
    nodes = needed_nodes(graph, net)
    makers = {name: node for node in nodes for name in node.outputs}
    found = [one for node in nodes if (one := _whole(graph, net, node, makers)) is not None]
    return _Writing(graph, {one.conv.name: one for one in found}).write(nodes) if found else None


def _whole(graph: GraphBuilder, net: Net, conv: LayerNode, makers: Mapping[str, LayerNode]) -> _Whole | None:
    if not is_a(conv, "TPU_CONV") or conv.inputs[0] not in makers or conv.inputs[0] in net.outputs:
        return None
    unfold = makers[conv.inputs[0]]
    if not is_a(unfold, "TPU_UNFOLD") or len(net.consumers[conv.inputs[0]]) > 1:
        return None
    planes, window = (graph.toolkit.param_values(node.op, node.param) for node in (unfold, conv))
    weights = constant(graph, conv.inputs[1])
    if weights is None or weights.dtype != np.float32 or window["groups"] != 1 or planes["kernel_h"] > 1:
        return None
    batches, channels, *plane = net.tensors[unfold.inputs[0]].shape
    depth = planes["planes"]
    made, _, *kernel = weights.shape
    whole = weights.reshape(made, planes["kernel_d"], channels, *kernel).swapaxes(1, 2)
    problem = Volumes(
        (batches // depth, channels, depth, *plane),
        whole.shape,
        1,
        (planes["stride_d"], window["stride_h"], window["stride_w"]),
        (planes["dilation_d"], window["dilation_h"], window["dilation_w"]),
        (planes["pad_front"], window["pad_top"], window["pad_left"]),
        (planes["pad_back"], window["pad_bottom"], window["pad_right"]),
    )
    rows_stay = planes["stride_h"] == 1 and planes["pad_top"] == planes["pad_bottom"] == 0
    if not rows_stay or not problem.one_layer or not _waits(net, conv, kernel):
        return None
    return _Whole(unfold, conv, problem, np.ascontiguousarray(whole))


def _waits(net: Net, conv: LayerNode, kernel: list[int]) -> bool:
    """Whether its input takes longer to load, plane by plane, than to be computed with."""
    n, c, h, w = net.tensors[conv.inputs[0]].shape
    made_n, made_c, made_h, made_w = net.tensors[conv.outputs[0]].shape
    result = made_n, made_c, made_h, made_w
    load = timing.system_to_local(straight(4 * n * c * h * w)).chip
    compute = timing.convolution(result, 0, c, (kernel[0], kernel[1]), 1, bias=len(conv.inputs) > 2).chip
    return load > compute


class _Writing(Rewritten[G]):
    """The graph with one layer each. whole: by the convolution's name."""

    def __init__(self, graph: G, whole: Mapping[str, _Whole]) -> None:
        super().__init__(graph)
        self._whole = whole
        self._gone = {one.unfold.name for one in whole.values()}

    def node(self, node: LayerNode) -> None:
        if node.name in self._gone:
            return
        one = self._whole.get(node.name)
        if one is None:
            self.keep(node)
            return
        weights = self.made.add_const(self.tensor(f"{node.outputs[0]}:volumes"), one.weights)
        inputs = [one.source, weights, *node.inputs[2:]]
        self.made.add_tpu_layer("TPU_CONV3D", inputs, one.problem.param, node.outputs, name=node.name)
