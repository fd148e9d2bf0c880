"""Networks with seeded weights as exporters write them to ONNX, for the converter of MindSpore Lite.

Its converter wants strides, dilations and pads of convolutions written out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save, shape_inference

_ONNX = {"f": TensorProto.FLOAT, "i": TensorProto.INT32, "l": TensorProto.INT64}


class Net:
    """A graph that grows node by node; methods return the names of values."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(1684)
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}
        self.inputs: list[Any] = []

    def input(self, name: str, *shape: int, kind: str = "f") -> str:
        self.inputs.append(helper.make_tensor_value_info(name, _ONNX[kind], shape))
        return name

    def const(self, value: Any, dtype: Any = None) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(value, dtype)
        return name

    def weights(self, *shape: int, scale: float | None = None) -> str:
        fan = int(np.prod(shape[1:])) or 1
        return self.const(self.rng.standard_normal(shape) * (scale or (2 / fan) ** 0.5), np.float32)

    def ops(self, kind: str, *inputs: str, count: int = 1, **attributes: Any) -> list[str]:
        place = len(self.nodes)
        made = [f"{kind.lower()}{place}_{i}" for i in range(count)]
        self.nodes.append(helper.make_node(kind, list(inputs), made, name=f"{kind}_{place}", **attributes))
        return made

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        return self.ops(kind, *inputs, **attributes)[0]

    def conv(
        self, x: str, c: int, out: int, k: int, stride: int = 1, *, group: int = 1, dilation: int = 1
    ) -> str:
        weights, bias = self.weights(out, c // group, k, k), self.weights(out, scale=0.1)
        pad = (k // 2) * dilation
        sizes = {"kernel_shape": [k, k], "strides": [stride] * 2, "dilations": [dilation] * 2}
        return self.op("Conv", x, weights, bias, pads=[pad] * 4, group=group, **sizes)

    def deconv(
        self, x: str, c: int, out: int, k: int = 2, stride: int = 2, pad: int = 0, more: int = 0
    ) -> str:
        sizes = {"kernel_shape": [k, k], "strides": [stride] * 2, "dilations": [1, 1], "pads": [pad] * 4}
        weights = self.weights(c, out, k, k)
        return self.op("ConvTranspose", x, weights, output_padding=[more] * 2, group=1, **sizes)

    def norm(self, x: str, c: int) -> str:
        gamma, beta = self.const(self.rng.uniform(0.5, 1.5, c), np.float32), self.weights(c, scale=0.1)
        mean, variance = self.weights(c, scale=0.1), self.const(self.rng.uniform(0.5, 1.5, c), np.float32)
        return self.op("BatchNormalization", x, gamma, beta, mean, variance, epsilon=1e-5)

    def linear(self, x: str, c: int, out: int) -> str:
        return self.op("Add", self.op("MatMul", x, self.weights(c, out, scale=c**-0.5)), self.weights(out))

    def layer_norm(self, x: str, c: int) -> str:
        """As opset 13 has it: of its parts."""
        away = self.op("Sub", x, self.op("ReduceMean", x, axes=[-1], keepdims=1))
        square = self.op("ReduceMean", self.op("Pow", away, self.const(2, np.float32)), axes=[-1], keepdims=1)
        root = self.op("Sqrt", self.op("Add", square, self.const(1e-5, np.float32)))
        scaled = self.op(
            "Mul", self.op("Div", away, root), self.const(self.rng.uniform(0.5, 1.5, c), np.float32)
        )
        return self.op("Add", scaled, self.weights(c, scale=0.1))

    def save(self, path: Path, *outputs: str) -> None:
        ends = [helper.make_empty_tensor_value_info(name) for name in outputs]
        constants = [numpy_helper.from_array(array, name) for name, array in self.constants.items()]
        graph = helper.make_graph(self.nodes, path.stem, self.inputs, ends, constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)
        save(shape_inference.infer_shapes(model, strict_mode=True, data_prop=True), str(path))


def _swish(net: Net, x: str) -> str:
    return net.op("Mul", x, net.op("Sigmoid", x))


def _hard_swish(net: Net, x: str) -> str:
    """As exporters write it: x * clip(x + 3, 0, 6) / 6."""
    moved = net.op("Add", x, net.const(3, np.float32))
    cut = net.op("Clip", moved, net.const(0, np.float32), net.const(6, np.float32))
    return net.op("Div", net.op("Mul", x, cut), net.const(6, np.float32))


def _squeeze(net: Net, x: str, c: int, act: str, **attributes: float) -> str:
    """Squeeze and excitation."""
    y = net.op("Relu", net.conv(net.op("GlobalAveragePool", x), c, c // 4, 1))
    return net.op("Mul", x, net.op(act, net.conv(y, c // 4, c, 1), **attributes))


def unet(net: Net) -> list[str]:
    def block(x: str, c: int, out: int) -> str:
        x = net.op("Relu", net.norm(net.conv(x, c, out, 3), out))
        return net.op("Relu", net.conv(x, out, out, 3))

    pool = {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [0] * 4}
    one = block(net.input("image", 1, 3, 32, 48), 3, 16)
    two = block(net.op("MaxPool", one, **pool), 16, 24)
    low = block(net.op("MaxPool", two, **pool), 24, 32)
    up = net.op("Concat", net.deconv(low, 32, 24), two, axis=1)
    up = block(up, 48, 24)
    scales = net.const([1, 1, 2, 2], np.float32)
    bigger = {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}
    up = net.op("Resize", up, net.const([], np.float32), scales, **bigger)
    up = block(net.op("Concat", up, one, axis=1), 40, 16)
    return [net.op("Sigmoid", net.conv(up, 16, 2, 1))]


def mobilenet_v3(net: Net) -> list[str]:
    x, c = _hard_swish(net, net.norm(net.conv(net.input("x", 1, 3, 64, 64), 3, 16, 3, 2), 16)), 16
    for k, wide, out, squeezed, hard, stride in [
        (3, 16, 16, True, False, 2),
        (3, 72, 24, False, False, 2),
        (3, 88, 24, False, False, 1),
        (5, 96, 40, True, True, 2),
        (5, 240, 40, True, True, 1),
    ]:
        y = net.norm(net.conv(x, c, wide, 1), wide)
        y = _hard_swish(net, y) if hard else net.op("Relu", y)
        y = net.norm(net.conv(y, wide, wide, k, stride, group=wide), wide)
        y = _hard_swish(net, y) if hard else net.op("Relu", y)
        y = _squeeze(net, y, wide, "HardSigmoid", alpha=1 / 6) if squeezed else y
        y = net.norm(net.conv(y, wide, out, 1), out)
        x, c = (net.op("Add", x, y) if stride == 1 and c == out else y), out
    x = net.op("Flatten", net.op("GlobalAveragePool", _hard_swish(net, net.conv(x, c, 96, 1))), axis=1)
    return [net.op("Gemm", x, net.weights(100, 96), net.weights(100), transB=1, alpha=1.0, beta=1.0)]


def efficientnet(net: Net) -> list[str]:
    x, c = _swish(net, net.norm(net.conv(net.input("x", 1, 3, 56, 56), 3, 16, 3, 2), 16)), 16
    for k, times, out, stride in [(3, 1, 8, 1), (3, 6, 12, 2), (5, 6, 20, 2), (5, 6, 20, 1)]:
        wide = c * times
        y = _swish(net, net.norm(net.conv(x, c, wide, 1), wide)) if times > 1 else x
        y = _swish(net, net.norm(net.conv(y, wide, wide, k, stride, group=wide), wide))
        y = _squeeze(net, y, wide, "Sigmoid")
        y = net.norm(net.conv(y, wide, out, 1), out)
        x, c = (net.op("Add", x, y) if stride == 1 and c == out else y), out
    x = net.op("ReduceMean", _swish(net, net.conv(x, c, 80, 1)), axes=[2, 3], keepdims=0)
    return [net.op("Softmax", net.linear(x, 80, 40), axis=-1)]


def masked_transformer(net: Net) -> list[str]:
    d, heads, length = 32, 4, 12
    x, mask = net.input("x", 2, length, d), net.input("mask", 2, 1, 1, length)
    away = net.op("Mul", net.op("Sub", net.const(1, np.float32), mask), net.const(-1e4, np.float32))
    shape = net.const([2, length, heads, d // heads], np.int64)
    for _ in range(2):
        y = net.layer_norm(x, d)
        q, k, v = (net.op("Reshape", net.linear(y, d, d), shape) for _ in range(3))
        q, v = (net.op("Transpose", t, perm=[0, 2, 1, 3]) for t in (q, v))
        scores = net.op("MatMul", q, net.op("Transpose", k, perm=[0, 2, 3, 1]))
        scores = net.op("Div", scores, net.const((d // heads) ** 0.5, np.float32))
        seen = net.op("MatMul", net.op("Softmax", net.op("Add", scores, away), axis=-1), v)
        joined = net.op(
            "Reshape", net.op("Transpose", seen, perm=[0, 2, 1, 3]), net.const([2, length, d], np.int64)
        )
        x = net.op("Add", x, net.linear(joined, d, d))
        y = net.linear(net.layer_norm(x, d), d, 2 * d)
        x = net.op("Add", x, net.linear(_swish(net, y), 2 * d, d))
    return [net.op("Tanh", net.linear(net.layer_norm(x, d), d, 7))]


def wave(net: Net) -> list[str]:
    """1-D convolutions with dilations, and gates."""
    x, c = net.input("wave", 2, 4, 64), 4
    for dilation in (1, 2, 4):
        sizes = {
            "kernel_shape": [3],
            "strides": [1],
            "dilations": [dilation],
            "pads": [dilation] * 2,
            "group": 1,
        }
        left = net.op("Tanh", net.op("Conv", x, net.weights(8, c, 3), net.weights(8), **sizes))
        right = net.op("Sigmoid", net.op("Conv", x, net.weights(8, c, 3), net.weights(8), **sizes))
        x, c = net.op("Mul", left, right), 8
    sizes = {"kernel_shape": [4], "strides": [4], "dilations": [1], "pads": [0, 0], "group": 1}
    less = net.op("Conv", x, net.weights(6, c, 4), net.weights(6), **sizes)
    return [net.op("Relu", less), net.op("ReduceMean", x, axes=[2], keepdims=0)]


def group_norm(net: Net) -> list[str]:
    """As PyTorch writes GroupNorm: an InstanceNormalization of reshaped groups."""
    x, c = net.input("x", 2, 3, 12, 10), 3
    for out in (8, 16):
        y = net.conv(x, c, out, 3)
        flat = net.op("Reshape", y, net.const([0, 4, -1], np.int64))
        ones, zeros = net.const(np.ones(4), np.float32), net.const(np.zeros(4), np.float32)
        flat = net.op("InstanceNormalization", flat, ones, zeros, epsilon=1e-5)
        y = net.op("Reshape", flat, net.const([2, out, 12, 10], np.int64))
        gamma = net.const(net.rng.uniform(0.5, 1.5, (out, 1, 1)), np.float32)
        y = net.op("Add", net.op("Mul", y, gamma), net.weights(out, 1, 1, scale=0.1))
        x, c = net.op("Relu", y), out
    return [x]


def style(net: Net) -> list[str]:
    """InstanceNormalization, reflected edges, a nearest Resize, as style transfer has them.

    The first has as many channels as rows and columns: no size tells which axis they are.
    """
    x, c = net.input("x", 1, 3, 16, 16), 3
    for out, stride in ((16, 1), (12, 2)):
        x = net.op("Pad", x, net.const([0, 0, 1, 1, 0, 0, 1, 1], np.int64), mode="reflect")
        sizes = {"kernel_shape": [3, 3], "strides": [stride] * 2, "dilations": [1, 1], "pads": [0] * 4}
        x = net.op("Conv", x, net.weights(out, c, 3, 3), net.weights(out), group=1, **sizes)
        gamma = net.const(net.rng.uniform(0.5, 1.5, out), np.float32)
        x = net.op("InstanceNormalization", x, gamma, net.weights(out, scale=0.1), epsilon=1e-5)
        x, c = net.op("Relu", x), out
    scales = net.const([1, 1, 2, 2], np.float32)
    floor = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    x = net.op("Resize", x, net.const([], np.float32), scales, mode="nearest", **floor)
    return [net.op("Tanh", net.conv(x, c, 3, 3))]


def super_resolution(net: Net) -> list[str]:
    """PReLU, a residual, DepthToSpace as PixelShuffle has it."""
    x = net.input("x", 1, 1, 20, 24)
    y = first = net.op(
        "PRelu", net.conv(x, 1, 16, 5), net.const(net.rng.uniform(0, 0.5, (16, 1, 1)), np.float32)
    )
    for _ in range(2):
        z = net.op(
            "PRelu", net.conv(y, 16, 16, 3), net.const(net.rng.uniform(0, 0.5, (16, 1, 1)), np.float32)
        )
        y = net.op("Add", y, net.conv(z, 16, 16, 3))
    y = net.conv(net.op("Add", y, first), 16, 9, 3)
    return [net.op("DepthToSpace", y, blocksize=3, mode="CRD")]


def detection_heads(net: Net) -> list[str]:
    """Several inputs, several outputs of several types."""
    x, prior = net.input("x", 1, 3, 24, 24), net.input("prior", 1, 36, 4)
    y = net.op("LeakyRelu", net.conv(x, 3, 16, 3, 2), alpha=0.1)
    y = net.op("LeakyRelu", net.conv(y, 16, 32, 3, 2), alpha=0.1)

    def head(out: int) -> str:
        z = net.op("Transpose", net.conv(y, 32, out, 3), perm=[0, 2, 3, 1])
        return net.op("Reshape", z, net.const([1, 36, out], np.int64))

    boxes, scores = net.op("Add", head(4), prior), net.op("Softmax", head(10), axis=2)
    best, places = net.ops("TopK", scores, net.const([3], np.int64), count=2, axis=2, largest=1, sorted=1)
    return [boxes, best, places, net.op("ArgMax", scores, axis=2, keepdims=0)]


def atrous(net: Net) -> list[str]:
    """DeepLab's head: dilated branches, a pooled one that is resized, all joined."""
    x = net.op("Relu", net.conv(net.input("x", 1, 8, 20, 20), 8, 16, 3, 2))
    branches = [net.conv(x, 16, 8, 1)]
    branches += [net.conv(x, 16, 8, 3, dilation=d) for d in (2, 3)]
    pooled = net.op("Relu", net.conv(net.op("GlobalAveragePool", x), 16, 8, 1))
    sizes = net.const([1, 8, 10, 10], np.int64)
    empty = net.const([], np.float32)
    half = {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}
    branches.append(net.op("Resize", pooled, empty, empty, sizes, **half))
    x = net.op("Relu", net.conv(net.op("Concat", *branches, axis=1), 32, 8, 1))
    corners = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
    return [net.op("Resize", x, empty, empty, net.const([1, 8, 20, 20], np.int64), **corners)]


def densenet(net: Net) -> list[str]:
    x, c = net.conv(net.input("x", 1, 3, 32, 32), 3, 12, 3, 2), 12
    for step in range(2):
        for _ in range(3):
            y = net.conv(net.op("Relu", net.norm(x, c)), c, 16, 1)
            y = net.conv(net.op("Relu", net.norm(y, 16)), 16, 8, 3)
            x, c = net.op("Concat", x, y, axis=1), c + 8
        if step == 0:
            pool = {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [0] * 4}
            x, c = net.op("AveragePool", net.conv(x, c, c // 2, 1), **pool), c // 2
    x = net.op("Flatten", net.op("GlobalMaxPool", net.op("Relu", net.norm(x, c))), axis=1)
    return [net.op("LogSoftmax", net.linear(x, c, 20), axis=1)]


def mixer(net: Net) -> list[str]:
    """MLP-Mixer: products along both axes, GELU of its parts."""
    n, d = 16, 24
    x = net.conv(net.input("x", 1, 3, 16, 16), 3, d, 1, 1)
    sizes = {"kernel_shape": [4, 4], "strides": [4, 4], "dilations": [1, 1], "pads": [0] * 4}
    x = net.op("Conv", x, net.weights(d, d, 4, 4), net.weights(d), group=1, **sizes)
    x = net.op("Transpose", net.op("Reshape", x, net.const([1, d, n], np.int64)), perm=[0, 2, 1])

    def both(y: str, c: int) -> str:
        y = net.linear(y, c, 2 * c)
        bent = net.op("Erf", net.op("Div", y, net.const(2**0.5, np.float32)))
        grown = net.op("Mul", y, net.op("Add", bent, net.const(1, np.float32)))
        return net.linear(net.op("Mul", grown, net.const(0.5, np.float32)), 2 * c, c)

    for _ in range(2):
        y = both(net.op("Transpose", net.layer_norm(x, d), perm=[0, 2, 1]), n)
        x = net.op("Add", x, net.op("Transpose", y, perm=[0, 2, 1]))
        x = net.op("Add", x, both(net.layer_norm(x, d), d))
    return [net.linear(net.op("ReduceMean", net.layer_norm(x, d), axes=[1], keepdims=0), d, 10)]


def any_size(net: Net) -> list[str]:
    """Takes images of any size, and any number of them."""
    x = net.op("Relu", net.conv(net.input("x", 2, 3, 16, 16), 3, 8, 3))
    x = net.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2], pads=[0] * 4)
    x = net.op("Sigmoid", net.conv(x, 8, 12, 3, 2))
    x = net.op("Flatten", net.op("GlobalAveragePool", x), axis=1)
    return [net.linear(x, 12, 5)]


def embedding(net: Net) -> list[str]:
    """Tokens in, two outputs: sums over a table's rows, and a choice by a comparison."""
    tokens = net.input("tokens", 2, 9, kind="i")
    x = net.op("Gather", net.weights(50, 16, scale=1), tokens, axis=0)
    long = net.op("Greater", x, net.const(0.5, np.float32))
    kept = net.op("Where", long, x, net.op("Mul", x, net.const(0.1, np.float32)))
    left, right = net.ops("Split", kept, net.const([6, 10], np.int64), count=2, axis=2)
    return [
        net.op("ReduceSum", left, net.const([1], np.int64), keepdims=0),
        net.op("ReduceMax", right, axes=[2]),
    ]


NETWORKS: Mapping[str, Callable[[Net], Sequence[str]]] = {
    made.__name__: made
    for made in (
        unet,
        mobilenet_v3,
        efficientnet,
        masked_transformer,
        wave,
        group_norm,
        style,
        super_resolution,
        detection_heads,
        atrous,
        densenet,
        mixer,
        any_size,
        embedding,
    )
}


def write_network(name: str, folder: Path) -> Path:
    """The network as an .onnx file in the folder."""
    net, path = Net(), folder / f"{name}.onnx"
    net.save(path, *NETWORKS[name](net))
    return path
