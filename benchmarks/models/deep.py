"""Networks of any number of layers, made by onnx alone: what compiling takes as nets grow.

`equal_N`: residual blocks that are all alike; `unequal_N`: blocks of random kinds, channels and kernels with
branches that meet again, hardly two alike; `large_N`: the same on pictures of 224 x 224, where few layers fit
into local memory together. N: layers, about.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_OPSET, _IR = 17, 8
_SIDE, _LARGE = 56, 224
_NAME = re.compile(r"(equal|unequal|large)_(\d+)")


def is_deep(name: str) -> bool:
    """Whether `build` knows this name."""
    return _NAME.fullmatch(name) is not None


def build(name: str, path: Path) -> None:
    """Write the model of this name."""
    match = _NAME.fullmatch(name)
    assert match is not None
    layers = int(match[2])
    net = _Net(layers, _LARGE if match[1] == "large" else _SIDE)
    (_equal if match[1] == "equal" else _unequal)(net, layers)
    net.save(name, path)


class _Net:
    """Nodes and weights under construction. top: the newest tensor; channels, side: of it;
    begins: the side of the input."""

    def __init__(self, seed: int, side: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.top, self.channels, self.begins, self.side = "x", 64, side, side

    def node(self, op: str, *inputs: str, **attributes: object) -> str:
        made = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [made], name=made, **attributes))
        return made

    def conv(self, x: str, channels: int, to: int, kernel: int = 3, group: int = 1, stride: int = 1) -> str:
        shape = (to, channels // group, kernel, kernel)
        values = self.rng.standard_normal(shape, dtype=np.float32) / np.float32(np.prod(shape[1:])) ** 0.5
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(values, name))
        around = [kernel // 2] * 4
        return self.node("Conv", x, name, pads=around, group=group, strides=[stride] * 2)

    def save(self, name: str, path: Path) -> None:
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 64, self.begins, self.begins))
        y = helper.make_tensor_value_info(self.top, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, name, [x], [y], self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR)
        onnx.save(onnx.shape_inference.infer_shapes(model), str(path))


def _equal(net: _Net, layers: int) -> None:
    while len(net.nodes) < layers:
        inner = net.node("Relu", net.conv(net.top, 64, 64, 1))
        net.top = net.node("Relu", net.node("Add", net.conv(inner, 64, 64, 3), net.top))


def _unequal(net: _Net, layers: int) -> None:
    """As many layers at each size of picture, down to 7 x 7."""
    rng = net.rng
    while len(net.nodes) < layers:
        sizes = np.log2(net.begins / 7) + 1
        if net.side > 7 and len(net.nodes) > layers * (1 - np.log2(net.side / 7) / sizes):
            to = min(net.channels * 2, 512)
            net.top = net.node("Relu", net.conv(net.top, net.channels, to, 3, stride=2))
            net.channels, net.side = to, -(-net.side // 2)
            continue
        kind, inner = int(rng.integers(5)), int(rng.integers(8, 160))
        x, channels = net.top, net.channels
        if kind == 0:  # a bottleneck
            inside = net.node("Relu", net.conv(x, channels, inner, 1))
            inside = net.node("Relu", net.conv(inside, inner, inner, int(rng.choice([3, 5]))))
            net.top = net.node("Relu", net.node("Add", net.conv(inside, inner, channels, 1), x))
        elif kind == 1:  # depthwise, with a swish
            wide_one = net.conv(x, channels, inner, 1)
            inside = net.node("Mul", wide_one, net.node("Sigmoid", wide_one))
            inside = net.conv(inside, inner, inner, int(rng.choice([3, 5, 7])), group=inner)
            net.top = net.node("Add", net.conv(inside, inner, channels, 1), x)
        elif kind == 2:  # branches that are joined
            parts = [net.conv(x, channels, inner, 1), net.conv(net.conv(x, channels, 32, 1), 32, 48, 3)]
            pooled = net.node("MaxPool", x, kernel_shape=[3, 3], pads=[1] * 4, strides=[1, 1])
            parts.append(net.conv(pooled, channels, 24, 1))
            joined = net.node("Relu", net.node("Concat", *parts, axis=1))
            net.top, net.channels = net.conv(joined, inner + 72, channels, 1), channels
        elif kind == 3:  # two ways and a sum
            one = net.node("Relu", net.conv(x, channels, channels, 3))
            other = net.node("Tanh", net.conv(x, channels, channels, 1))
            net.top = net.node("Add", one, other)
        else:  # other channels
            net.channels = int(rng.integers(16, 256))
            net.top = net.node("Relu", net.conv(x, channels, net.channels, int(rng.choice([1, 3]))))
