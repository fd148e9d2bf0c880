"""Small seeded nets of tokens, in the manner of well-known transformers, for figures of 8-bit nets."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import onnx

from benchmarks.int8_models import NETS as PICTURES
from benchmarks.int8_models import Net


class Tokens(Net):
    """Nets of tokens [batch, count, channels]."""

    def product(self, x: str, inner: int, columns: int) -> str:
        weights = self.normal(inner, columns, size=inner**-0.5)
        x = self.add("MatMul", x, self.constant(weights * np.exp(self.spread * self.normal(columns))))
        return self.add("Add", x, self.constant(self.normal(columns, size=0.1)))

    def norm(self, x: str, channels: int) -> str:
        factors = np.exp(self.spread * self.normal(channels))
        added = self.constant(self.normal(channels, size=0.1))
        return self.add("LayerNormalization", x, self.constant(factors), added, axis=-1)

    def gelu(self, x: str) -> str:
        y = self.add("Erf", self.add("Div", x, self.constant(2**0.5)))
        y = self.add("Mul", x, self.add("Add", y, self.constant(1.0)))
        return self.add("Mul", y, self.constant(0.5))

    def attention(
        self, x: str, batch: int, count: int, channels: int, heads: int, mask: npt.ArrayLike | None = None
    ) -> str:
        shape = self.constant([batch, count, heads, channels // heads], np.int64)
        q, k, v = (
            self.add("Transpose", self.add("Reshape", self.product(x, channels, channels), shape), perm=order)
            for order in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
        )
        scores = self.add("Mul", self.add("MatMul", q, k), self.constant((channels // heads) ** -0.5))
        scores = scores if mask is None else self.add("Add", scores, self.constant(mask))
        y = self.add("MatMul", self.add("Softmax", scores, axis=-1), v)
        y = self.add("Transpose", y, perm=[0, 2, 1, 3])
        y = self.add("Reshape", y, self.constant([batch, count, channels], np.int64))
        return self.product(y, channels, channels)

    def hidden(self, x: str, channels: int, times: int = 4) -> str:
        y = self.gelu(self.product(x, channels, times * channels))
        return self.product(y, times * channels, channels)

    def patches(self, channels: int, size: int, batch: int, count: int) -> str:
        y = self.conv("x", 3, channels, size, size, pads=0)
        y = self.add("Reshape", y, self.constant([batch, channels, count], np.int64))
        return self.add("Transpose", y, perm=[0, 2, 1])


def vit(batch: int, spread: float) -> onnx.ModelProto:
    """Three blocks of 192 channels on 14 x 14 patches and one more token."""
    net, channels, count = Tokens((batch, 3, 224, 224), spread), 192, 197
    x = net.patches(channels, 16, batch, count - 1)
    x = net.add("Concat", net.constant(net.normal(batch, 1, channels)), x, axis=1)
    x = net.add("Add", x, net.constant(net.normal(1, count, channels, size=0.5)))
    for _ in range(3):
        x = net.add("Add", x, net.attention(net.norm(x, channels), batch, count, channels, 3))
        x = net.add("Add", x, net.hidden(net.norm(x, channels), channels))
    first = net.add("Gather", net.norm(x, channels), net.constant(0, np.int64), axis=1)
    weights = net.constant(net.normal(channels, 100, size=channels**-0.5))
    return net.model(net.add("Gemm", first, weights))


def bert(batch: int, spread: float) -> onnx.ModelProto:
    """Two blocks of 384 channels, normalised behind the sums, on 128 embedded tokens."""
    channels, count = 384, 128
    net = Tokens((batch, count, channels), spread)
    x = net.norm("x", channels)
    for _ in range(2):
        x = net.norm(net.add("Add", x, net.attention(x, batch, count, channels, 6)), channels)
        x = net.norm(net.add("Add", x, net.hidden(x, channels)), channels)
    return net.model(x)


def mixer(batch: int, spread: float) -> onnx.ModelProto:
    """Three blocks of products over tokens and over channels."""
    net, channels, count = Tokens((batch, 3, 224, 224), spread), 256, 196
    x = net.patches(channels, 16, batch, count)
    for _ in range(3):
        y = net.add("Transpose", net.norm(x, channels), perm=[0, 2, 1])
        y = net.product(net.gelu(net.product(y, count, 128)), 128, count)
        x = net.add("Add", x, net.add("Transpose", y, perm=[0, 2, 1]))
        x = net.add("Add", x, net.hidden(net.norm(x, channels), channels))
    x = net.add("ReduceMean", net.norm(x, channels), axes=[1], keepdims=0)
    weights = net.constant(net.normal(channels, 100, size=channels**-0.5))
    return net.model(net.add("Gemm", x, weights))


def decoder(batch: int, spread: float) -> onnx.ModelProto:
    """Two blocks of 256 channels with a causal mask and gated products, on 100 embedded tokens."""
    channels, count = 256, 100
    net, x = Tokens((batch, count, channels), spread), "x"
    mask = np.triu(np.full((1, 1, count, count), -1e4), 1)
    for _ in range(2):
        y = net.attention(net.norm(x, channels), batch, count, channels, 4, mask)
        x = net.add("Add", x, y)
        y = net.norm(x, channels)
        gate = net.product(y, channels, 680)
        gate = net.add("Mul", gate, net.add("Sigmoid", gate))
        y = net.product(net.add("Mul", gate, net.product(y, channels, 680)), 680, channels)
        x = net.add("Add", x, y)
    return net.model(net.product(net.norm(x, channels), channels, 1000))


def pyramid(batch: int, spread: float) -> onnx.ModelProto:
    """Two stages of 96 and 192 channels, of 24 x 24 and 12 x 12 tokens, on pictures of 96 x 96."""
    net, channels, side = Tokens((batch, 3, 96, 96), spread), 96, 24
    x = net.patches(channels, 4, batch, side * side)
    for stage in range(2):
        count = side * side
        for _ in range(2):
            x = net.add("Add", x, net.attention(net.norm(x, channels), batch, count, channels, 3))
            x = net.add("Add", x, net.hidden(net.norm(x, channels), channels))
        if stage == 0:
            x = net.add("Transpose", net.norm(x, channels), perm=[0, 2, 1])
            x = net.add("Reshape", x, net.constant([batch, channels, side, side], np.int64))
            x, channels, side = net.conv(x, channels, 2 * channels, 2, 2, pads=0), 2 * channels, side // 2
            x = net.add("Reshape", x, net.constant([batch, channels, side * side], np.int64))
            x = net.add("Transpose", x, perm=[0, 2, 1])
    x = net.add("ReduceMean", net.norm(x, channels), axes=[1], keepdims=0)
    weights = net.constant(net.normal(channels, 100, size=channels**-0.5))
    return net.model(net.add("Gemm", x, weights))


NETS: Mapping[str, Callable[[int, float], onnx.ModelProto]] = {
    make.__name__: make for make in (vit, bert, mixer, decoder, pyramid)
}
"""By name: (batch, spread) -> a model."""
ALL_NETS = {**PICTURES, **NETS}
"""Those of pictures, too."""
