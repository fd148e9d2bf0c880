"""Small seeded nets in the manner of well-known architectures, as ONNX models, for figures of 8-bit nets.

Weights are drawn so that values keep their size from layer to layer; `spread` gives each output channel a
factor of its own, as training does, above all in depthwise layers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

Array = npt.NDArray[np.float32]


class Net:
    """Nodes and constants as they are added; names count."""

    def __init__(self, shape: Sequence[int], spread: float) -> None:
        self.random = np.random.default_rng(7)
        self.shape, self.spread = shape, spread
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []

    def constant(self, array: npt.ArrayLike, dtype: Any = np.float32) -> str:
        name = f"k{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.asarray(array, dtype), name))
        return name

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        name = f"t{len(self._nodes)}"
        self._nodes.append(helper.make_node(op, list(inputs), [name], name=f"{op}{name}", **attributes))
        return name

    def normal(self, *shape: int, size: float = 1.0) -> Array:
        return (self.random.standard_normal(shape) * size).astype(np.float32)

    def conv(
        self,
        x: str,
        channels: int,
        out: int,
        kernel: int = 3,
        stride: int = 1,
        groups: int = 1,
        pads: int | None = None,
    ) -> str:
        weights = self.normal(out, channels // groups, kernel, kernel)
        weights *= np.sqrt(2 / weights[0].size) * np.exp(self.spread * self.normal(out, 1, 1, 1))
        bias = self.constant(self.normal(out, size=0.1))
        at: dict[str, Any] = {
            "pads": [kernel // 2 if pads is None else pads] * 4,
            "strides": [stride] * 2,
            "group": groups,
        }
        return self.add("Conv", x, self.constant(weights), bias, **at)

    def model(self, *outputs: str) -> onnx.ModelProto:
        given = [helper.make_tensor_value_info("x", 1, list(self.shape))]
        made = [helper.make_tensor_value_info(name, 1, None) for name in outputs]
        graph = helper.make_graph(self._nodes, "net", given, made, self._constants)
        opset = [helper.make_opsetid("", 17)]
        return onnx.shape_inference.infer_shapes(helper.make_model(graph, ir_version=8, opset_imports=opset))


def resnet(batch: int, spread: float) -> onnx.ModelProto:
    net = Net((batch, 3, 64, 64), spread)
    x = net.add("Relu", net.conv("x", 3, 32, 7, 2))
    x = net.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for channels, out, stride in ((32, 32, 1), (32, 64, 2), (64, 128, 2)):
        for block in range(2):
            before, step = (channels, stride) if block == 0 else (out, 1)
            y = net.conv(net.add("Relu", net.conv(x, before, out, 3, step)), out, out)
            skip = net.conv(x, before, out, 1, step) if before != out or step != 1 else x
            x = net.add("Relu", net.add("Add", y, skip))
    return _classified(net, x, 128)


def mobilenet(batch: int, spread: float) -> onnx.ModelProto:
    net = Net((batch, 3, 64, 64), spread)

    def clipped(x: str) -> str:
        return net.add("Clip", x, net.constant(0.0), net.constant(6.0))

    x, channels = clipped(net.conv("x", 3, 16, 3, 2)), 16
    for out, stride in ((16, 1), (24, 2), (24, 1), (32, 2), (32, 1), (64, 2), (64, 1)):
        wide = 6 * channels
        y = clipped(net.conv(x, channels, wide, 1))
        y = net.conv(clipped(net.conv(y, wide, wide, 3, stride, wide)), wide, out, 1)
        x = net.add("Add", x, y) if stride == 1 and channels == out else y
        channels = out
    return _classified(net, clipped(net.conv(x, channels, 256, 1)), 256)


def yolo(batch: int, spread: float, leaky: bool = False) -> onnx.ModelProto:
    net = Net((batch, 3, 96, 96), spread)

    def act(x: str) -> str:
        return net.add("LeakyRelu", x, alpha=0.1) if leaky else net.add("Mul", x, net.add("Sigmoid", x))

    x = act(net.conv("x", 3, 16, 3, 2))
    x = act(net.conv(x, 16, 32, 3, 2))
    y = act(net.conv(act(net.conv(x, 32, 16, 1)), 16, 32))
    x = act(net.conv(net.add("Concat", x, net.add("Add", x, y), axis=1), 64, 64, 1))
    deep = act(net.conv(x, 64, 64, 3, 2))
    pools = [deep]
    for _ in range(2):
        pools.append(net.add("MaxPool", pools[-1], kernel_shape=[5, 5], strides=[1, 1], pads=[2] * 4))
    deep = act(net.conv(net.add("Concat", *pools, axis=1), 192, 64, 1))
    scales = net.constant([1, 1, 2, 2])
    nearest = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    up = net.add("Resize", deep, "", scales, **nearest)
    head = act(net.conv(net.add("Concat", up, x, axis=1), 128, 48))
    return net.model(net.conv(head, 48, 24, 1), net.conv(deep, 64, 24, 1))


def yolo_leaky(batch: int, spread: float) -> onnx.ModelProto:
    return yolo(batch, spread, leaky=True)


def efficientnet(batch: int, spread: float) -> onnx.ModelProto:
    net = Net((batch, 3, 64, 64), spread)
    x = net.add("HardSwish", net.conv("x", 3, 32, 3, 2))
    for _ in range(3):
        y = net.add("HardSwish", net.conv(x, 32, 96, 1))
        y = net.add("HardSwish", net.conv(y, 96, 96, 5, 1, 96))
        gate = net.add("Relu", net.conv(net.add("GlobalAveragePool", y), 96, 24, 1))
        gate = net.add("HardSigmoid", net.conv(gate, 24, 96, 1), alpha=1 / 6, beta=0.5)
        x = net.add("Add", x, net.conv(net.add("Mul", y, gate), 96, 32, 1))
    return _classified(net, x, 32)


def densenet(batch: int, spread: float) -> onnx.ModelProto:
    net = Net((batch, 3, 64, 64), spread)
    x, channels = net.conv("x", 3, 32, 7, 2), 32
    for _ in range(4):
        y = net.add("BatchNormalization", x, *(net.constant(one) for one in _statistics(net, channels)))
        y = net.conv(net.add("Relu", net.conv(net.add("Relu", y), channels, 64, 1)), 64, 16)
        x, channels = net.add("Concat", x, y, axis=1), channels + 16
    x = net.add("AveragePool", net.conv(x, channels, 48, 1), kernel_shape=[2, 2], strides=[2, 2])
    return _classified(net, x, 48)


def mlp(batch: int, spread: float) -> onnx.ModelProto:
    net, x = Net((batch, 256), spread), "x"
    for _ in range(3):
        weights = net.constant(net.normal(256, 256, size=(2 / 256) ** 0.5))
        x = net.add("Relu", net.add("Gemm", x, weights, net.constant(net.normal(256, size=0.1)), transB=1))
    return net.model(net.add("Gemm", x, net.constant(net.normal(256, 10, size=1 / 16))))


def _statistics(net: Net, channels: int) -> tuple[Array, ...]:
    scale, variance = (np.exp(0.3 * net.normal(channels)) for _ in range(2))
    return scale, net.normal(channels, size=0.2), net.normal(channels, size=0.2), variance


def _classified(net: Net, x: str, channels: int) -> onnx.ModelProto:
    x = net.add("Flatten", net.add("GlobalAveragePool", x))
    weights = net.constant(net.normal(channels, 10, size=channels**-0.5))
    return net.model(net.add("Gemm", x, weights, net.constant(net.normal(10, size=0.1))))


NETS: Mapping[str, Callable[[int, float], onnx.ModelProto]] = {
    make.__name__: make for make in (resnet, mobilenet, yolo, yolo_leaky, efficientnet, densenet, mlp)
}
"""By name: (batch, spread) -> a model."""
