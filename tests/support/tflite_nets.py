"""TFLite models like those that people run, with seeded weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.support.tflite_models import Net, to_bytes

_RELU, _RELU6 = 1, 3


class Builder:
    """Adds layers and follows their shapes."""

    def __init__(self, size: int, seed: int) -> None:
        self.net = Net()
        self.rng = np.random.default_rng(seed)
        self.macs: dict[int, int] = {}  # of the operation with this index
        self.image = self.net.input((1, size, size, 3), name="image")

    def shape(self, tensor: int) -> tuple[int, ...]:
        return self.net.tensors[tensor].shape

    def weights(self, *shape: int, fan: int) -> int:
        return self.net.const(self.rng.normal(0, math.sqrt(2 / fan), shape).astype(np.float32))

    def bias(self, filters: int) -> int:
        return self.net.const(self.rng.normal(0, 0.05, filters).astype(np.float32))

    def conv(
        self, x: int, filters: int, size: int, stride: int = 1, act: int = 0, depthwise: bool = False
    ) -> int:
        n, h, w, c = self.shape(x)
        fan = size * size * (1 if depthwise else c)
        weights = self.weights(*((1, size, size, c) if depthwise else (filters, size, size, c)), fan=fan)
        out = (n, -(-h // stride), -(-w // stride), filters)
        told: Any = {"stride_h": stride, "stride_w": stride, "padding": 0, "fused_activation_function": act}
        told |= {"dilation_h_factor": 1, "dilation_w_factor": 1}
        if depthwise:
            told["depth_multiplier"] = 1
        self.macs[len(self.net.ops)] = math.prod(out) * fan
        kind = "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D"
        return self.net.op(kind, [x, weights, self.bias(filters)], out, **told)

    def add(self, x: int, y: int, act: int = 0) -> int:
        return self.net.op("ADD", [x, y], self.shape(x), fused_activation_function=act)

    def classifier(self, x: int, classes: int) -> None:
        n, _, _, c = self.shape(x)
        pooled = self.net.op("MEAN", [x, self.net.const([1, 2], "int32")], (n, c), keep_dims=False)
        values = [pooled, self.weights(classes, c, fan=c), self.bias(classes)]
        self.macs[len(self.net.ops)] = n * c * classes
        logits = self.net.op("FULLY_CONNECTED", values, (n, classes), fused_activation_function=0)
        self.net.outputs = [self.net.op("SOFTMAX", [logits], (n, classes), beta=1.0)]

    def done(self) -> tuple[bytes, dict[int, int]]:
        data = to_bytes(self.net, signature={"image": self.image, "scores": self.net.outputs[0]})
        return data, self.macs


def mobilenet_v2(
    size: int = 224, width: float = 1.0, classes: int = 1000, seed: int = 0
) -> tuple[bytes, dict[int, int]]:
    """Inverted residuals as in MobileNetV2; the file, and MACs by index of the operation."""

    def wide(channels: float) -> int:
        return max(8, int(channels * width + 4) // 8 * 8)

    b = Builder(size, seed)
    x = b.conv(b.image, wide(32), 3, 2, _RELU6)
    for factor, channels, count, stride in (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
        (6, 160, 3, 2), (6, 320, 1, 1),
    ):  # fmt: skip
        for i in range(count):
            step = stride if i == 0 else 1
            before, inner = x, b.shape(x)[3] * factor
            if factor > 1:
                x = b.conv(x, inner, 1, 1, _RELU6)
            x = b.conv(x, inner, 3, step, _RELU6, depthwise=True)
            x = b.conv(x, wide(channels), 1)
            if step == 1 and b.shape(before) == b.shape(x):
                x = b.add(before, x)
    b.classifier(b.conv(x, wide(1280), 1, 1, _RELU6), classes)
    return b.done()


def resnet(
    size: int = 224, width: int = 64, classes: int = 1000, seed: int = 0
) -> tuple[bytes, dict[int, int]]:
    """Basic blocks as in ResNet-18."""
    b = Builder(size, seed)
    x = b.conv(b.image, width, 7, 2, _RELU)
    n, h, w, c = b.shape(x)
    told: Any = {"filter_height": 3, "filter_width": 3, "stride_h": 2, "stride_w": 2, "padding": 0}
    x = b.net.op("MAX_POOL_2D", [x], (n, -(-h // 2), -(-w // 2), c), **told, fused_activation_function=0)
    for stage in range(4):
        for i in range(2):
            stride = 2 if stage and i == 0 else 1
            before, filters = x, width << stage
            x = b.conv(b.conv(x, filters, 3, stride, _RELU), filters, 3)
            if b.shape(before) != b.shape(x):
                before = b.conv(before, filters, 1, stride)
            x = b.add(x, before, _RELU)
    b.classifier(x, classes)
    return b.done()


NETS: dict[str, Callable[..., tuple[bytes, dict[int, int]]]] = {
    "mobilenet_v2": mobilenet_v2,
    "resnet": resnet,
}
