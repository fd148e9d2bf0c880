"""TFLite models of many kinds, small, with seeded weights: what people run beside classifiers of images."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.support.tflite_models import Net, to_bytes
from tests.support.tflite_nets import Builder

_NONE, _RELU, _RELU6 = 0, 1, 3
Zoo = dict[str, Callable[[], bytes]]
ZOO: Zoo = {}


class Layers(Builder):
    """A net of which the inputs and outputs are named when it is done."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__(8, seed)
        self.net = Net()
        self.names: dict[str, int] = {}

    def given(self, name: str, *shape: int, dtype: str = "float32") -> int:
        self.names[name] = self.net.input(shape, dtype, name)
        return self.names[name]

    def file(self, *others: Net, **outputs: int) -> bytes:
        self.net.outputs = list(outputs.values())
        return to_bytes(self.net, *others, signature=self.names | outputs)

    def value(self, *shape: int) -> int:
        return self.net.const(self.rng.normal(0, 0.5, shape).astype(np.float32))

    def number(self, value: float) -> int:
        return self.net.const(np.array(value, np.float32))

    def each(self, kind: str, x: int, **told: Any) -> int:
        return self.net.op(kind, [x], self.shape(x), **told)

    def both(self, kind: str, x: int, y: int, act: int = _NONE) -> int:
        told: Any = {"fused_activation_function": act} if kind in ("ADD", "SUB", "MUL", "DIV") else {}
        return self.net.op(kind, [x, y], np.broadcast_shapes(self.shape(x), self.shape(y)), **told)

    def reshape(self, x: int, *shape: int) -> int:
        return self.net.op("RESHAPE", [x, self.net.const(shape, "int32")], shape, new_shape=list(shape))

    def transpose(self, x: int, *order: int) -> int:
        shape = [self.shape(x)[i] for i in order]
        return self.net.op("TRANSPOSE", [x, self.net.const(order, "int32")], shape)

    def concat(self, parts: Sequence[int], axis: int = 3) -> int:
        shape = list(self.shape(parts[0]))
        shape[axis] = sum(self.shape(part)[axis] for part in parts)
        return self.net.op("CONCATENATION", parts, shape, axis=axis, fused_activation_function=0)

    def mean(self, x: int, *axes: int, keep: bool = True, kind: str = "MEAN") -> int:
        shape = [1 if i in axes else n for i, n in enumerate(self.shape(x)) if keep or i not in axes]
        return self.net.op(kind, [x, self.net.const(axes, "int32")], shape, keep_dims=keep)

    def dense(self, x: int, outputs: int, act: int = _NONE) -> int:
        *rows, depth = self.shape(x)
        values = [x, self.weights(outputs, depth, fan=2 * depth), self.bias(outputs)]
        told: Any = {"fused_activation_function": act, "keep_num_dims": len(rows) > 1}
        return self.net.op("FULLY_CONNECTED", values, (*rows, outputs), **told)

    def matmul(self, x: int, y: int, *, adjoint: bool = False) -> int:
        shape = (*self.shape(x)[:-1], self.shape(y)[-2 if adjoint else -1])
        return self.net.op("BATCH_MATMUL", [x, y], shape, adj_x=False, adj_y=adjoint)

    def pool(self, x: int, size: int, stride: int, kind: str = "MAX_POOL_2D", high: int | None = None) -> int:
        n, h, w, c = self.shape(x)
        tall, step = (size, stride) if high is None else (high, 1)
        told: Any = {"filter_height": tall, "filter_width": size, "stride_h": step, "stride_w": stride}
        shape = (n, -(-h // step), -(-w // stride), c)
        return self.net.op(kind, [x], shape, **told, padding=0, fused_activation_function=0)

    def wide(
        self, x: int, filters: int, span: int, stride: int = 1, act: int = _RELU, dilation: int = 1
    ) -> int:
        """A convolution along the width: [1, 1, length, channels]."""
        n, _, w, c = self.shape(x)
        told: Any = {"stride_h": 1, "stride_w": stride, "padding": 0, "fused_activation_function": act}
        told |= {"dilation_h_factor": 1, "dilation_w_factor": dilation}
        values = [x, self.weights(filters, 1, span, c, fan=span * c), self.bias(filters)]
        return self.net.op("CONV_2D", values, (n, 1, -(-w // stride), filters), **told)

    def up(self, x: int, filters: int, size: int = 2) -> int:
        n, h, w, c = self.shape(x)
        shape = (n, 2 * h, 2 * w, filters)
        values = [self.net.const(shape, "int32"), self.weights(filters, size, size, c, fan=c), x]
        return self.net.op(
            "TRANSPOSE_CONV", [*values, self.bias(filters)], shape, stride_h=2, stride_w=2, padding=0
        )

    def resize(self, x: int, h: int, w: int, kind: str = "RESIZE_BILINEAR", **told: Any) -> int:
        n, _, _, c = self.shape(x)
        return self.net.op(kind, [x, self.net.const([h, w], "int32")], (n, h, w, c), **told)

    def normal(self, x: int) -> int:
        """Layer normalization over the last axis, as converters write it."""
        last = len(self.shape(x)) - 1
        mean = self.mean(x, last)
        spread = self.mean(self.both("SQUARED_DIFFERENCE", x, mean), last)
        scale = self.each("RSQRT", self.both("ADD", spread, self.number(1e-5)))
        scaled = self.both("MUL", self.both("SUB", x, mean), scale)
        c = self.shape(x)[-1]
        return self.both("ADD", self.both("MUL", scaled, self.value(c)), self.value(c))

    def split(self, x: int, count: int, axis: int) -> list[int]:
        shape = list(self.shape(x))
        shape[axis] //= count
        first = self.net.op("SPLIT", [self.net.const(axis, "int32"), x], *[shape] * count, num_splits=count)
        return list(range(first, first + count))

    def swish(self, x: int) -> int:
        return self.both("MUL", x, self.each("LOGISTIC", x))

    def squeeze(self, x: int, less: int, *, hard: bool) -> int:
        """Squeeze and excitation."""
        c = self.shape(x)[3]
        small = self.conv(self.mean(x, 1, 2), less, 1, act=_RELU if hard else _NONE)
        big = self.conv(small if hard else self.swish(small), c, 1)
        if not hard:
            return self.both("MUL", x, self.each("LOGISTIC", big))
        gate = self.both("MUL", self.both("ADD", big, self.number(3), _RELU6), self.number(1 / 6))
        return self.both("MUL", x, gate)

    def attend(self, x: int, heads: int, mask: int | None = None) -> int:
        n, length, depth = self.shape(x)
        each = depth // heads

        def apart(value: int) -> int:
            return self.transpose(self.reshape(value, n, length, heads, each), 0, 2, 1, 3)

        q, k, v = (apart(self.dense(x, depth)) for _ in range(3))
        scores = self.both("MUL", self.matmul(q, k, adjoint=True), self.number(1 / math.sqrt(each)))
        if mask is not None:
            scores = self.both("ADD", scores, mask)
        found = self.matmul(self.each("SOFTMAX", scores, beta=1.0), v)
        return self.dense(self.reshape(self.transpose(found, 0, 2, 1, 3), n, length, depth), depth)


def _net(make: Callable[[], bytes]) -> Callable[[], bytes]:
    ZOO[make.__name__.strip("_")] = make
    return make


@_net
def _keywords() -> bytes:
    """Words in sound: convolutions along the time."""
    b = Layers()
    x = b.reshape(b.given("wave", 1, 2000), 1, 1, 2000, 1)
    x = b.wide(x, 16, 32, 8)
    for filters in (24, 32):
        x = b.both(
            "ADD", b.both("MUL", b.wide(x, filters, 5, act=_NONE), b.value(filters)), b.value(filters), _RELU
        )
        x = b.pool(x, 3, 2, high=1)
    x = b.both("ADD", x, b.wide(b.wide(x, 32, 3, dilation=2), 32, 3, act=_NONE), _RELU)
    return b.file(words=b.each("SOFTMAX", b.dense(b.mean(x, 1, 2, keep=False), 12), beta=1.0))


@_net
def _unet() -> bytes:
    """Down with pools, up with a transposed convolution and with a resize, each beside what was there."""
    b = Layers()
    first = b.conv(b.given("image", 1, 32, 24, 3), 8, 3, act=_RELU)
    second = b.conv(b.pool(first, 2, 2), 16, 3, act=_RELU)
    x = b.conv(b.pool(second, 2, 2, "AVERAGE_POOL_2D"), 24, 3, act=_RELU)
    x = b.conv(b.concat([b.up(x, 16), second]), 16, 3, act=_RELU)
    x = b.concat([b.resize(x, 32, 24, half_pixel_centers=True), first])
    x = b.conv(b.conv(x, 8, 3, act=_RELU), 4, 1)
    classes = b.net.op("ARG_MAX", [x, b.net.const(3, "int32")], (1, 32, 24), dtype="int64", output_type=4)
    return b.file(chances=b.each("SOFTMAX", x, beta=1.0), classes=classes)


@_net
def _transformer() -> bytes:
    """Words' numbers, looked up, then two blocks with a mask that comes as whole numbers."""
    b = Layers()
    ids = b.given("ids", 1, 12, dtype="int32")
    kept = b.given("kept", 1, 12, dtype="int32")
    x = b.net.op("GATHER", [b.value(40, 32), ids], (1, 12, 32), axis=0, batch_dims=0)
    x = b.normal(b.both("ADD", x, b.value(12, 32)))
    mask = b.reshape(b.net.op("CAST", [kept], (1, 12), in_data_type=2, out_data_type=0), 1, 1, 1, 12)
    mask = b.both("MUL", b.both("SUB", mask, b.number(1)), b.number(1e4))
    for _ in range(2):
        x = b.normal(b.both("ADD", x, b.attend(x, 4, mask)))
        x = b.normal(b.both("ADD", x, b.dense(b.each("GELU", b.dense(x, 64), approximate=True), 32)))
    first = b.net.op(
        "STRIDED_SLICE",
        [x, *(b.net.const(part, "int32") for part in ([0, 0, 0], [0, 1, 0], [1, 1, 1]))],
        (1, 32),
        begin_mask=5,
        end_mask=5,
        ellipsis_mask=0,
        new_axis_mask=0,
        shrink_axis_mask=2,
    )
    return b.file(words=x, scores=b.each("TANH", b.dense(first, 3)))


@_net
def _mobilenet_v3() -> bytes:
    b = Layers()
    x = b.each("HARD_SWISH", b.conv(b.given("image", 1, 40, 40, 3), 16, 3, 2))
    for inner, filters, size, stride in ((16, 16, 3, 2), (72, 24, 5, 1), (96, 24, 5, 1)):
        before, hard = x, inner > 16
        x = b.conv(x, inner, 1)
        x = b.each("HARD_SWISH" if hard else "RELU", x)
        x = b.conv(x, inner, size, stride, depthwise=True)
        x = b.conv(b.squeeze(b.each("HARD_SWISH", x), inner // 4, hard=True), filters, 1)
        if b.shape(before) == b.shape(x):
            x = b.add(before, x)
    x = b.each("HARD_SWISH", b.conv(x, 96, 1))
    return b.file(scores=b.dense(b.reshape(b.each("HARD_SWISH", b.conv(b.mean(x, 1, 2), 64, 1)), 1, 64), 10))


@_net
def _efficientnet() -> bytes:
    b = Layers()
    x = b.given("image", 1, 33, 33, 3)
    x = b.net.op("PAD", [x, b.net.const([[0, 0], [0, 1], [0, 1], [0, 0]], "int32")], (1, 34, 34, 3))
    x = b.swish(b.conv(x, 16, 3, 2))
    for factor, filters, size, stride in ((1, 8, 3, 1), (6, 12, 3, 2), (6, 12, 5, 1)):
        before, inner = x, b.shape(x)[3] * factor
        x = b.swish(b.conv(x, inner, 1)) if factor > 1 else x
        x = b.swish(b.conv(x, inner, size, stride, depthwise=True))
        x = b.conv(b.squeeze(x, 4, hard=False), filters, 1)
        if b.shape(before) == b.shape(x):
            x = b.add(before, x)
    x = b.mean(b.swish(b.conv(x, 48, 1)), 1, 2, keep=False)
    return b.file(scores=b.each("SOFTMAX", b.dense(x, 10), beta=1.0))


@_net
def _detector() -> bytes:
    """Boxes and classes at two scales; LiteRT's own operation chooses among them, on the CPU."""
    b = Layers()
    x = b.conv(b.given("image", 1, 48, 48, 3), 12, 3, 2, _RELU6)
    near = b.conv(b.conv(x, 12, 3, 2, _RELU6, depthwise=True), 16, 1, act=_RELU6)
    far = b.conv(near, 16, 3, 2, _RELU6)
    boxes, classes, count = [], [], 0
    for found in (near, far):
        _, h, w, _ = b.shape(found)
        count += h * w * 2
        boxes.append(b.reshape(b.conv(found, 8, 3), 1, h * w * 2, 4))
        classes.append(b.reshape(b.conv(found, 6, 3), 1, h * w * 2, 3))
    chances = b.each("LOGISTIC", b.concat(classes, 1))
    corners = b.rng.uniform(0.2, 0.8, (count, 4)).astype(np.float32)
    told: Any = {
        "max_detections": 5, "max_classes_per_detection": 1, "detections_per_class": 5, "num_classes": 2,
        "use_regular_nms": False, "nms_score_threshold": 0.1, "nms_iou_threshold": 0.5,
        "x_scale": 10.0, "y_scale": 10.0, "w_scale": 5.0, "h_scale": 5.0,
    }  # fmt: skip
    values = [b.concat(boxes, 1), chances, b.net.const(corners)]
    shapes = [(1, 5, 4), (1, 5), (1, 5), (1,)]
    place = b.net.op("TFLite_Detection_PostProcess", values, *shapes, custom=True, **told)
    return b.file(places=place, kinds=place + 1, scores=place + 2, count=place + 3)


@_net
def _upscaler() -> bytes:
    """A small picture made larger: depth to space, with what a resize makes of it added."""
    b = Layers()
    image = b.given("image", 1, 18, 22, 3)
    x = b.conv(image, 16, 5)
    for _ in range(2):
        y = b.net.op("PRELU", [b.conv(x, 16, 3), b.value(1, 1, 16)], b.shape(x))
        x = b.add(x, b.conv(y, 16, 3))
    x = b.net.op("DEPTH_TO_SPACE", [b.conv(x, 12, 3)], (1, 36, 44, 3), block_size=2)
    x = b.both("ADD", x, b.resize(image, 36, 44, "RESIZE_NEAREST_NEIGHBOR"))
    return b.file(picture=b.both("MINIMUM", b.both("MAXIMUM", x, b.number(0)), b.number(1)))


@_net
def _autoencoder() -> bytes:
    """Means and spreads of a hidden state; noise comes from outside."""
    b = Layers()
    x = b.dense(b.dense(b.given("x", 3, 50), 40, _RELU), 24)
    mean, spread = b.split(x, 2, 1)
    spread = b.each("EXP", b.both("MUL", spread, b.number(0.5)))
    hidden = b.both("ADD", mean, b.both("MUL", spread, b.given("noise", 3, 12)))
    return b.file(again=b.each("LOGISTIC", b.dense(b.dense(hidden, 40, _RELU), 50)), hidden=hidden)


@_net
def _shuffle() -> bytes:
    """Half of the channels pass by; then they are shuffled."""
    b = Layers()
    x = b.pool(b.conv(b.given("image", 1, 30, 30, 3), 16, 3, 2, _RELU), 3, 2)
    for _ in range(2):
        kept, done = b.split(x, 2, 3)
        done = b.conv(done, 8, 1, act=_RELU)
        done = b.conv(b.conv(done, 8, 3, depthwise=True), 8, 1, act=_RELU)
        x = b.concat([kept, done])
        n, h, w, c = b.shape(x)
        x = b.reshape(b.transpose(b.reshape(x, n, h, w, 2, c // 2), 0, 1, 2, 4, 3), n, h, w, c)
    return b.file(scores=b.dense(b.mean(x, 1, 2, keep=False), 7))


@_net
def _convnext() -> bytes:
    """Layer normalization over channels, and dense layers on pictures."""
    b = Layers()
    x = b.normal(b.conv(b.given("image", 1, 32, 32, 3), 24, 4, 4))
    for _ in range(2):
        y = b.normal(b.conv(x, 24, 7, depthwise=True))
        y = b.dense(b.each("GELU", b.dense(y, 96), approximate=False), 24)
        x = b.both("ADD", x, b.both("MUL", y, b.value(24)))
    return b.file(scores=b.dense(b.normal(b.mean(x, 1, 2, keep=False)), 10))


@_net
def _recurrent() -> bytes:
    """A gated unit, step by step, as converters unroll it."""
    b = Layers()
    steps, depth = 5, 16
    x = b.given("x", 2, steps, 12)
    first = b.net.op("UNPACK", [x], *[(2, 12)] * steps, axis=1, num=steps)
    state = b.given("state", 2, depth)
    matrix, bias = b.weights(2 * depth, 12 + depth, fan=60), b.bias(2 * depth)
    other, shift = b.weights(depth, 12 + depth, fan=60), b.bias(depth)
    made = []
    for i in range(steps):
        both = b.concat([first + i, state], 1)
        gates = b.net.op("FULLY_CONNECTED", [both, matrix, bias], (2, 2 * depth), fused_activation_function=0)
        reset, update = b.split(b.each("LOGISTIC", gates), 2, 1)
        both = b.concat([first + i, b.both("MUL", reset, state)], 1)
        new = b.net.op("FULLY_CONNECTED", [both, other, shift], (2, depth), fused_activation_function=0)
        new = b.each("TANH", new)
        state = b.both("ADD", new, b.both("MUL", update, b.both("SUB", state, new)))
        made.append(state)
    return b.file(all=b.net.op("PACK", made, (2, steps, depth), axis=1, values_count=steps), last=state)


@_net
def _deeplab() -> bytes:
    """Dilated convolutions with blocks in the batch, pools of the whole picture, resized corner to corner."""
    b = Layers()
    x = b.conv(b.conv(b.given("image", 1, 33, 33, 3), 8, 3, 2, _RELU), 16, 3, 2, _RELU)  # 9x9
    pads = [[2, 3], [2, 3]]
    y = b.net.op(
        "SPACE_TO_BATCH_ND", [x, b.net.const([2, 2], "int32"), b.net.const(pads, "int32")], (4, 7, 7, 16)
    )
    told: Any = {"stride_h": 1, "stride_w": 1, "padding": 1, "fused_activation_function": 0}
    told |= {"dilation_h_factor": 1, "dilation_w_factor": 1, "depth_multiplier": 1}
    y = b.net.op("DEPTHWISE_CONV_2D", [y, b.weights(1, 3, 3, 16, fan=9), b.bias(16)], (4, 5, 5, 16), **told)
    crops = b.net.const([[0, 1], [0, 1]], "int32")
    y = b.net.op("BATCH_TO_SPACE_ND", [y, b.net.const([2, 2], "int32"), crops], (1, 9, 9, 16))
    whole = b.resize(b.conv(b.mean(x, 1, 2), 16, 1, act=_RELU), 9, 9, align_corners=True)
    x = b.conv(b.concat([b.conv(x, 16, 1, act=_RELU), b.each("RELU", y), whole]), 5, 1)
    x = b.resize(x, 33, 33, align_corners=True)
    classes = b.net.op("ARG_MAX", [x, b.net.const(3, "int32")], (1, 33, 33), dtype="int32", output_type=2)
    return b.file(classes=classes, scores=x)


@_net
def _vocoder() -> bytes:
    """Sound out of features: mirrored edges, dilations, leaky slopes, longer by transposed convolutions."""
    b = Layers()
    x = b.reshape(b.given("features", 1, 24, 20), 1, 1, 24, 20)
    x = b.net.op(
        "MIRROR_PAD", [x, b.net.const([[0, 0], [0, 0], [3, 3], [0, 0]], "int32")], (1, 1, 30, 20), mode=0
    )
    x = b.wide(x, 16, 7, act=_NONE)
    for dilation in (1, 3):
        n, h, w, c = b.shape(x)
        values = [
            b.net.const((n, h, 2 * w, c), "int32"),
            b.weights(c, 1, 4, c, fan=4 * c),
            b.each("LEAKY_RELU", x, alpha=0.1),
        ]
        x = b.net.op("TRANSPOSE_CONV", values, (n, h, 2 * w, c), stride_h=1, stride_w=2, padding=0)
        x = b.both("ADD", x, b.wide(b.each("LEAKY_RELU", x, alpha=0.1), c, 3, act=_NONE, dilation=dilation))
    x = b.wide(b.each("LEAKY_RELU", x, alpha=0.01), 1, 7, act=_NONE)
    return b.file(wave=b.each("TANH", b.reshape(x, 1, 120)))


@_net
def _ranker() -> bytes:
    """Pairs of things that are looked up, their features crossed, the best of them chosen."""
    b = Layers()
    things = b.given("things", 20, dtype="int32")
    user = b.given("user", 1, 16)
    x = b.net.op("EMBEDDING_LOOKUP", [things, b.value(100, 16)], (20, 16))
    crossed = b.both("MUL", x, user)
    sums = b.mean(crossed, 1, kind="SUM")
    every = b.net.op("TILE", [user, b.net.const([20, 1], "int32")], (20, 16))
    scores = b.both("ADD", b.dense(b.dense(b.concat([x, every, crossed], 1), 24, _RELU), 1), sums)
    scores = b.reshape(scores, 20)
    best = b.net.op("TOPK_V2", [scores, b.net.const(4, "int32")], (4,), (4,))
    b.net.tensors[best + 1].dtype = "int32"
    return b.file(best=best, which=best + 1)


@_net
def _vision_transformer() -> bytes:
    b = Layers()
    x = b.reshape(b.conv(b.given("image", 1, 32, 32, 3), 32, 8, 8), 1, 16, 32)
    x = b.both("ADD", b.concat([b.value(1, 1, 32), x], 1), b.value(1, 17, 32))
    for _ in range(2):
        x = b.both("ADD", x, b.attend(b.normal(x), 2))
        x = b.both("ADD", x, b.dense(b.each("GELU", b.dense(b.normal(x), 64), approximate=False), 32))
    start, size = (b.net.const(part, "int32") for part in ([0, 0, 0], [1, 1, 32]))
    first = b.net.op(
        "SQUEEZE", [b.net.op("SLICE", [b.normal(x), start, size], (1, 1, 32))], (1, 32), squeeze_dims=[1]
    )
    return b.file(scores=b.each("LOG_SOFTMAX", b.dense(first, 10)))


def transformer_layer(*, grouped: bool, root: bool, gated: bool) -> bytes:
    """One layer as in language models. grouped: two queries share keys and values; root: RMS norms in place
    of layer norms; gated: SwiGLU in place of GELU."""
    b, heads, each, length = Layers(), 4, 8, 10
    x = b.given("x", 1, length, heads * each)

    def norm(value: int) -> int:
        if not root:
            return b.normal(value)
        spread = b.both("ADD", b.mean(b.each("SQUARE", value), 2), b.number(1e-6))
        return b.both("MUL", b.both("MUL", value, b.each("RSQRT", spread)), b.value(heads * each))

    def apart(value: int, count: int) -> int:
        return b.transpose(b.reshape(b.dense(value, count * each), 1, length, count, each), 0, 2, 1, 3)

    def turned(value: int) -> int:
        """Rotated by their places in the text."""
        low, high = b.split(value, 2, 3)
        other = b.concat([b.each("NEG", high), low])
        angles = np.outer(np.arange(length), 0.1 ** np.arange(each // 2)).astype(np.float32)
        cosine, sine = (b.net.const(np.tile(f(angles), 2)[None, None]) for f in (np.cos, np.sin))
        return b.both("ADD", b.both("MUL", value, cosine), b.both("MUL", other, sine))

    inner = norm(x)
    kept = heads // 2 if grouped else heads
    q, k, v = turned(apart(inner, heads)), turned(apart(inner, kept)), apart(inner, kept)
    if grouped:  # each key and value for two queries
        shape = (1, kept, 2, length, each)
        twice = b.net.const(shape, "int32")
        k, v = (
            b.reshape(
                b.net.op("BROADCAST_TO", [b.reshape(t, 1, kept, 1, length, each), twice], shape),
                *(1, heads, length, each),
            )
            for t in (k, v)
        )
    scores = b.both("MUL", b.matmul(q, k, adjoint=True), b.number(1 / math.sqrt(each)))
    later = np.triu(np.full((length, length), -1e4, np.float32), 1)[None, None]
    scores = b.each("SOFTMAX", b.both("ADD", scores, b.net.const(later)), beta=1.0)
    found = b.reshape(b.transpose(b.matmul(scores, v), 0, 2, 1, 3), 1, length, heads * each)
    x = b.both("ADD", x, b.dense(found, heads * each))
    inner = norm(x)
    if gated:
        wide = b.both("MUL", b.swish(b.dense(inner, 48)), b.dense(inner, 48))
    else:
        wide = b.each("GELU", b.dense(inner, 48), approximate=True)
    return b.file(y=b.both("ADD", x, b.dense(wide, heads * each)))


ZOO["language"] = lambda: transformer_layer(grouped=True, root=True, gated=True)
