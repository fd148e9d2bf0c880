"""Nets made with bmcompiler's functions, each with what numpy says its outputs are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from user_layers import bmcompiler as bm

Array = NDArray[Any]
RNG = np.random.default_rng(1684)


@dataclass
class Net:
    """calls: a function's name and its arguments after p_bmcpl. wanted: outputs by name."""

    name: str
    inputs: dict[str, Array]
    calls: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)
    wanted: dict[str, Array] = field(default_factory=dict)

    def add(self, function: str, *arguments: Any) -> None:
        self.calls.append((function, arguments))

    def want(self, **outputs: Array) -> None:
        self.wanted |= outputs


def random(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def s(array: Array) -> tuple[tuple[int, ...], int]:
    """Shape and its length, as the functions take them."""
    return array.shape, array.ndim


def conv(x: Array, w: Array, b: Array, groups: int, pads: Sequence[int], stride: int, dilation: int) -> Array:
    top, bottom, left, right = pads
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    kh, kw = ((k - 1) * dilation + 1 for k in w.shape[2:])
    views = sliding_window_view(x, (kh, kw), (2, 3))[:, :, ::stride, ::stride, ::dilation, ::dilation]
    parts = [
        np.einsum("nchwij,ocij->nohw", v, k)
        for v, k in zip(np.split(views, groups, 1), np.split(w, groups), strict=True)
    ]
    return np.concatenate(parts, 1) + b.reshape(1, -1, 1, 1)


def deconv(x: Array, w: Array, stride: int, pad: int, more: int) -> Array:
    n, _, h, width = x.shape
    _, out_c, kh, kw = w.shape
    y = np.zeros((n, out_c, (h - 1) * stride + kh + more, (width - 1) * stride + kw + more), np.float64)
    for i in range(h):
        for j in range(width):
            part = np.einsum("nc,cokl->nokl", x[:, :, i, j], w)
            y[:, :, i * stride : i * stride + kh, j * stride : j * stride + kw] += part
    return y[:, :, pad : y.shape[2] - pad, pad : y.shape[3] - pad].astype(np.float32)


def pool(x: Array, kernel: int, stride: int, pads: Sequence[int], average: bool, count_pad: bool) -> Array:
    top, bottom, left, right = pads
    fill = 0.0 if average else -np.inf
    wide = ((0, 0), (0, 0), (top, bottom), (left, right))
    views = sliding_window_view(np.pad(x, wide, constant_values=fill), (kernel, kernel), (2, 3))
    views = views[:, :, ::stride, ::stride]
    if not average:
        return np.asarray(views.max((4, 5)))
    ones = np.pad(np.ones_like(x), wide, constant_values=1.0 if count_pad else 0.0)
    counts = sliding_window_view(ones, (kernel, kernel), (2, 3))[:, :, ::stride, ::stride]
    return np.asarray(views.sum((4, 5)) / counts.sum((4, 5)))


def softmax(x: Array, axis: int) -> Array:
    e = np.exp(x - x.max(axis, keepdims=True))
    return np.asarray(e / e.sum(axis, keepdims=True))


def windows() -> Net:
    x = random(2, 6, 9, 8)
    net = Net("windows", {"x": x})
    w, b = random(4, 3, 3, 2), random(4)
    y = conv(x, w, b, 2, (1, 0, 1, 1), 2, 1)
    net.add("add_conv_layer", *s(x), "x", *s(y), "conv", "first", w, b, 3, 2, 2, 1, 0, 1, 1, 2, 2, 1, 1, 1)
    net.want(conv=y)
    w = random(5, 6, 2, 2)
    y = conv(x, w, np.zeros(5), 1, (0, 0, 0, 0), 1, 2)
    none = (None, None)
    net.add("add_conv_layer_v2", *s(x), "x", *s(y), "plain", "w", w, *none, 2, 2, 1, *[0] * 4, 1, 1, 2, 2, 0)
    net.want(plain=y)
    w, b = random(6, 3, 3, 3), random(3)
    y = deconv(x, w, 2, 1, 1) + b.reshape(1, -1, 1, 1)
    window = (3, 3, 1, 1, 1, 1, 1, 2, 2, 1, 1)
    net.add("add_deconv_layer", *s(x), "x", *s(y), "deconv", None, w, b, *window, 1)
    net.want(deconv=y)
    for name, average, mode, pads, extra in (
        ("largest", 0, 0, (1, 1, 1, 1), 0),
        ("counted", 1, 0, (1, 0, 0, 1), 0),
        ("inside", 1, 1, (1, 1, 1, 1), 0),
        ("ceil", 0, 0, (0, 0, 0, 0), 1),
    ):
        full = (pads[0], pads[1] + extra, pads[2], pads[3] + extra)
        y = pool(x, 3, 2, full, bool(average), mode == 0)
        shapes = ([y.shape], [4], [name])
        args = (3, 3, *pads, 2, 2, average, mode, 0, 2 * extra, "", None)
        net.add("add_pooling_layer", *s(x), "x", 1, *shapes, *args)
        net.want(**{name: y})
    y = x.mean((2, 3), keepdims=True)
    plane = (0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 1, 0, None, None)
    net.add("add_pooling_layer", *s(x), "x", 1, [y.shape], [4], ["whole"], *plane)
    net.want(whole=y)
    y = pool(x, 2, 2, (0, 1, 0, 0), True, False)
    net.add("add_pooling_tf_layer", *s(x), "x", *s(y), "tf", 2, 2, 0, 1, 0, 0, 2, 2, 1)
    net.want(tf=y)
    y = x.repeat(2, 2).repeat(2, 3)
    net.add("add_upsample_layer", *s(x), "x", *s(y), "twice", 2)
    net.want(twice=y)
    rows, columns = np.arange(4) * 8 / 3, np.arange(15) * 7 / 14
    y = np.empty((2, 6, 4, 15), np.float32)
    for n in range(2):
        for c in range(6):
            across = np.stack([np.interp(columns, np.arange(8), row) for row in x[n, c]])
            y[n, c] = np.stack([np.interp(rows, np.arange(9), across[:, j]) for j in range(15)], 1)
    net.add("add_interp_layer", *s(x), "x", *s(y), "linear", 0, 0, 0)
    net.add("add_interp_layer_v2", *s(x), "x", 1, *s(y), None, "corners", 0, 0, 1, 0, 1)
    net.want(linear=y, corners=y)
    y = x[:, :, (np.arange(6) * 9 // 6)]
    net.add("add_interp_layer", *s(x), "x", *s(y), "nearest", 0, 0, 3)
    net.want(nearest=y)
    return net


def elementwise() -> Net:
    x, z = random(2, 3, 4, 5), random(2, 3, 4, 5)
    net = Net("elementwise", {"x": x, "z": z})
    row = random(5)
    functions: dict[int, Callable[[Array, Array], Array]] = {
        bm.BINARY_SUB: lambda a, b: a - b,
        bm.BINARY_GE: lambda a, b: (a >= b).astype(np.float32),
        bm.BINARY_NE: lambda a, b: (a != b).astype(np.float32),
        bm.BINARY_SQUARED_DIFF: lambda a, b: (a - b) ** 2,
    }
    for i, (code, function) in enumerate(functions.items()):
        name = ("add_binary_layer_v2", "add_broadcast_binary_layer_v2")[i % 2]
        net.add(name, "x", *s(x), 0, None, "row", *s(row), 1, row, f"v2_{i}", code)
        net.want(**{f"v2_{i}": function(x, row)})
    net.add("add_binary_layer", "x", x.shape, 0, None, "z", z.shape, 0, None, 4, "sum", bm.BINARY_ADD)
    ones = np.full((1, 3, 1, 1), 3, np.float32)
    net.add(
        "add_broadcast_binary_layer",
        "x",
        x.shape,
        0,
        None,
        None,
        ones.shape,
        1,
        ones,
        4,
        "least",
        bm.BINARY_MIN,
    )
    net.add("add_eltwise_binary_layer", "x", 0, None, "z", 0, None, *s(x), "product", bm.BINARY_MUL)
    net.want(sum=x + z, least=np.minimum(x, 3), product=x * z)
    net.add("add_const_binary_layer", "x", *s(x), 2.0, "from_two", bm.BINARY_SUB, 1)
    net.add("add_const_binary_layer", "x", *s(x), 0.25, "floor", bm.BINARY_FLOOR_DIV, 0)
    net.want(from_two=2 - x, floor=np.floor(x / 0.25))
    both = (2, [x.shape, z.shape], [4, 4], ["x", "z"], *s(x))
    net.add("add_eltwise_layer", *both, "weighted", 1, np.array([1.0, -0.5]))
    net.add("add_eltwise_layer", *both, "highest", 2, None)
    net.want(weighted=x - 0.5 * z, highest=np.maximum(x, z))
    net.add("add_select_layer", "v2_1", "x", 0, 0.0, None, 1, 7.0, "chosen", *s(x))
    net.want(chosen=np.where(x >= row, x, 7))
    del net.wanted["v2_1"]  # used, so no output
    return net


def activations() -> Net:
    x = random(2, 3, 4, 5)
    net = Net("activations", {"x": x})
    positive = np.abs(x) + 0.5
    net.add("add_active_layer", *s(x), "x", *s(x), "abs", bm.ACTIVE_ABSVAL)
    net.add("add_const_binary_layer", "abs", *s(x), 0.5, "positive", bm.BINARY_ADD, 0)
    net.add("add_active_layer", *s(x), "positive", *s(x), "rsqrt", bm.ACTIVE_RSQRT)
    net.add("add_active_layer", *s(x), "positive", *s(x), "ln", bm.ACTIVE_LN)
    net.add("add_active_layer", *s(x), "x", *s(x), "silu", bm.ACTIVE_SILU)
    net.add("add_active_layer", *s(x), "x", *s(x), "elu", bm.ACTIVE_ELU)
    net.want(rsqrt=1 / np.sqrt(positive), ln=np.log(positive), silu=x / (1 + np.exp(-x)))
    net.want(elu=np.where(x > 0, x, np.expm1(x)))
    net.add("add_relu_layer", *s(x), "x", *s(x), "relu", 0.0, -1.0)
    net.add("add_relu_layer", *s(x), "x", *s(x), "relu6", 0.0, 0.75)
    net.add("add_relu_layer", *s(x), "x", *s(x), "leaky", 0.25, 0.5)
    leaky = np.where(x > 0, x, x / 4)
    net.want(relu=np.maximum(x, 0), relu6=np.clip(x, 0, 0.75), leaky=np.minimum(leaky, 0.5))
    slopes = np.array([0.5, -1, 2], np.float32)
    net.add("add_prelu_layer", *s(x), "x", *s(x), "prelu", "pr", 0, slopes)
    net.add("add_prelu_layer", *s(x), "x", *s(x), "shared", "pr", 1, slopes[:1])
    net.want(prelu=np.where(x > 0, x, x * slopes.reshape(3, 1, 1)), shared=np.where(x > 0, x, x / 2))
    channels = slopes.reshape(1, 3, 1, 1)
    one = (1, [x.shape], [4], ["x"], *s(x))
    net.add("add_scale_layer", *one, "scaled", "sc", slopes, slopes, 1, 1, 1)
    net.add("add_scale_layer", *one, "factor", None, slopes, None, 1, 1, 0)
    grid = random(4, 5)
    net.add("add_scale_layer", *one, "grid", None, grid, None, -1, 2, 0)
    net.add(
        "add_scale_layer",
        2,
        [x.shape, grid.shape],
        [4, 2],
        ["x", "g"],
        *s(x),
        "by_tensor",
        None,
        None,
        None,
        2,
        2,
        0,
    )
    net.inputs["g"] = grid
    net.want(scaled=x * channels + channels, factor=x * channels, grid=x * grid, by_tensor=x * grid)
    net.add("add_biasadd_layer", *s(x), "x", *s(x), "bias", None, 3, slopes, 0)
    mean, variance = random(3), np.abs(random(3)) + 0.1
    net.add("add_batchnorm_layer", *s(x), "x", *s(x), "bn", "bn", mean, variance, 1.0, 1e-3, 0, 1)
    m, v = mean.reshape(3, 1, 1), variance.reshape(3, 1, 1)
    net.want(bias=x + channels, bn=(x - m) / np.sqrt(v + 1e-3))
    return net


def movement() -> Net:
    x = random(2, 4, 3, 6)
    net = Net("movement", {"x": x})
    y = x.reshape(2, 72)
    net.add("add_reshape_layer", *s(x), "x", *s(y), "flat", None)
    net.add("add_flatten_layer", *s(x), "x", *s(y), "flat_old", None)
    net.want(flat=y, flat_old=y)
    net.add("add_reshape_layer_v2", "x", *s(x), "coded", (0, -4, 2, -1, -3), 5)
    net.add("add_flatten_layer_v2", "x", *s(x), "middle", 1, 3)
    net.want(coded=x.reshape(2, 2, 2, 18), middle=x.reshape(2, 12, 6))
    net.add("add_expand_ndims_layer", "x", *s(x), None, -1, 2, "more")
    net.add("add_expand_dims_layer", "x", *s(x), 1, "one_more")
    net.add("add_squeeze_layer", "one_more", *s(x[:, None]), (1,), 1, "less")
    net.want(more=x[..., None, None], less=x)
    net.add("add_permute_layer", *s(x), "x", (2, 3, 6, 4), 4, "last", (0, 2, 3, 1))
    net.add("add_transpose_layer", "x", "turned", x.shape, (3, 2, 1, 0), 4)
    net.add("add_transpose_layer_v2", "x", *s(x), 0, "swapped", None, (0, 1, 3, 2))
    net.want(last=x.transpose(0, 2, 3, 1), turned=x.T, swapped=x.swapaxes(2, 3))
    net.add("add_reverse_layer", *s(x), "x", *s(x), "reversed", 3)
    net.add("add_shufflechannel_layer", *s(x), "x", *s(x), "shuffled", 2)
    net.want(reversed=x[..., ::-1], shuffled=x[:, [0, 2, 1, 3]])
    twice = np.concatenate([x, x], 2)
    net.add("add_concat_layer", 2, [x.shape, x.shape], [4, 4], ["x", "x"], *s(twice), "joined", 2)
    net.want(joined=twice)
    net.add("add_split_layer", *s(x), "x", 2, [x.shape] * 2, [4, 4], ["copy_1", "copy_2"])
    net.want(copy_1=x, copy_2=x)
    return net


def pieces() -> Net:
    x = random(2, 4, 3, 6)
    net = Net("pieces", {"x": x})
    net.add(
        "add_tf_split_layer", *s(x), "x", 2, [(2, 1, 3, 6), (2, 3, 3, 6)], [4, 4], ["a", "b"], 4, 1, (1, 3), 2
    )
    net.add("add_tf_split_layer", *s(x), "x", 3, [(2, 4, 3, 2)] * 3, [4] * 3, ["c", "d", "e"], 4, 3, (3,), 1)
    net.want(a=x[:, :1], b=x[:, 1:], c=x[..., :2], d=x[..., 2:4], e=x[..., 4:])
    net.add("add_crop_layer", *s(x), "x", None, (2, 2, 2, 3), 4, "crop", (0, 1, 1, 2))
    net.want(crop=x[:, 1:3, 1:3, 2:5])
    y = x[:, 1:4:2, :2]
    net.add(
        "add_stride_slice_layer", *s(x), "x", *s(y), "cut", 4, 1, 9, (5, 1, 0, 0), (0, 4, -1, 0), (1, 2, 1, 1)
    )
    net.want(cut=y)
    args = ((0, -1, 0, 1), (0, 0, 9, 3), (1, 1, 1, 1), 4, 1, 1, 2, 0, 0)
    net.add("add_stride_slice_layer_v2", "x", *s(x), "shrunk", *args)
    net.want(shrunk=x[:, -1, :, 1:3])
    y = np.pad(x, ((0, 0), (1, 0), (0, 2), (1, 1)), constant_values=2)
    net.add("add_pad_layer", *s(x), "x", *s(y), "padded", (0, 0, 1, 0, 0, 2, 1, 1), 8, 2.0, 0)
    mirrored = np.pad(x, ((0, 0), (0, 0), (1, 1), (2, 2)), mode="reflect")
    net.add("add_pad_layer", *s(x), "x", *s(mirrored), "mirrored", (0, 0, 0, 0, 1, 1, 2, 2), 8, 0.0, 1)
    net.want(padded=y, mirrored=mirrored)
    net.add("add_tile_layer_v2", "x", *s(x), 0, None, 1, None, (1, 1, 2, 1), "tiled", 0)
    net.add("add_repeat_layer", "x", x.shape, 0, None, (1, 2, 1, 3), 4, "repeated")
    net.want(tiled=np.tile(x, (1, 1, 2, 1)), repeated=x.repeat(2, 1).repeat(3, 3))
    few = random(4, 1, 6)
    net.add("add_expand_layer", "few", *s(few), 1, few, 1, None, (2, 4, 3, 6), 4, "expanded")
    net.want(expanded=np.broadcast_to(few, (2, 4, 3, 6)))
    net.add("add_identity_layer", "x", *s(x), "same")
    net.add("add_dropout_layer", *s(x), "x", *s(x), "dropout")
    net.want(same=x, dropout=x)
    return net


def matrices() -> Net:
    x = random(3, 4, 2, 2)
    net = Net("matrices", {"x": x})
    w, b = random(5, 16), random(5)
    y = x.reshape(3, 16) @ w.T + b
    net.add("add_fc_layer", *s(x), "x", *s(y), "fc", "fc", 16, 5, w, b, 1, 1)
    net.want(fc=y)
    w = random(16, 6)
    y = (x.reshape(3, 16) @ w).reshape(3, 6, 1, 1)
    net.add("add_fc_layer", *s(x), "x", *s(y), "planes", None, 16, 6, w, None, 0, 0)
    net.want(planes=y)
    net.add("add_coeff_layer", "weights", (5, 16), random(5, 16), 2)
    weights = net.calls[-1][1][2]
    y = x.reshape(3, 16) @ weights.T + b
    net.add("add_fc_weight_layer", *s(x), "x", *s(y), "by_tensor", None, (5, 16), 2, "weights", 16, b, 1, 1)
    net.want(by_tensor=y)
    right = random(4, 2, 3)
    net.add("add_const_data_layer", "right_in", "right", right.shape, right, 3)
    net.add("add_batch_matmul_layer", "x", *s(x), 0, None, "right", *s(right), 0, None, "batch")
    net.add("add_layer_name", 0, "first")
    net.want(batch=x @ right)
    net.add("add_softmax_layer", *s(x), "x", *s(x), "soft", 4, 3, 4)
    net.add("add_log_softmax_layer", *s(x), "x", *s(x), "log_soft", 1, 12, 4)
    rows = np.log(softmax(x.reshape(12, 4), 1)).reshape(x.shape)
    net.want(soft=softmax(x, 1), log_soft=rows)
    net.add("add_reduce_full_layer", "x", "total", *s(x), (1, -1), 2, bm.REDUCE_SUM, 0)
    net.add("add_reduce_full_layer", "x", "lowest", *s(x), None, 0, bm.REDUCE_MIN, 1)
    net.add("add_reduce_layer", *s(x), "x", (1, 4, 1, 1), 4, "of_channels", bm.REDUCE_MAX)
    net.add("add_reduce_layer", *s(x), "x", (3, 4, 2), 3, "of_rows", 1 << 16 | bm.REDUCE_MEAN)
    net.want(total=x.sum((1, 3)), lowest=x.min(keepdims=True))
    net.want(of_channels=x.max((0, 2, 3), keepdims=True), of_rows=x.mean(3))
    at = x.argmax(1).astype(np.int32)
    net.add("add_arg_layer", *s(x), "x", *s(at[:, None]), "where", 1, 0)
    net.want(where=at[:, None])
    return net


def batches(n: int) -> Net:
    """Reshapes for a batch of 3, and what they give for a batch of n."""
    x = random(3, 4, 2, 6)
    net = Net("batches", {"x": x[:n]})
    w = random(48, 5)
    net.add("add_reshape_layer", *s(x), "x", (3, 8, 6), 3, "rows", None)
    net.add("add_fc_layer", *s(x), "x", (3, 5, 1, 1), 4, "fc", None, 48, 5, w, None, 0, 0)
    net.add("add_softmax_layer", *s(x), "x", *s(x), "soft", 6, 3, 8)
    net.add("add_shufflechannel_layer", *s(x), "x", *s(x), "shuffled", 2)
    net.add("add_squeeze_layer", "fc", (3, 5, 1, 1), 4, None, 0, "flat")
    net.add("add_flatten_layer_v2", "x", *s(x), "joined", 1, -1)
    x = x[:n]
    net.want(rows=x.reshape(n, 8, 6), flat=x.reshape(n, 48) @ w, shuffled=x[:, [0, 2, 1, 3]])
    net.want(soft=softmax(x.reshape(n, 8, 6), 1).reshape(x.shape), joined=x.reshape(n, 48))
    return net


def ranking() -> Net:
    x = random(3, 4, 2, 2)
    net = Net("ranking", {"x": x})
    right = random(4, 2, 3)
    net.add("add_batch_matmul_layer", "x", *s(x), 0, None, None, *s(right), 1, right, "other")
    net.want(other=x @ right)
    top = -np.sort(-x, 1)[:, :2]
    places = np.argsort(-x, 1)[:, :2].astype(np.int32)
    net.add("add_topk_layer", *s(x), "x", 2, 1, [top.shape] * 2, [4, 4], ["top", "places"])
    net.want(top=top, places=places)
    return net


def normalizing() -> Net:
    x = random(2, 5, 3, 4)
    net = Net("normalizing", {"x": x})
    net.add("add_lrn_layer", *s(x), "x", *s(x), "lrn", 0.5, 3, 0.75, 2.0)
    squares = np.pad(x * x, ((0, 0), (1, 1), (0, 0), (0, 0)))
    around = squares[:, :-2] + squares[:, 1:-1] + squares[:, 2:]
    net.want(lrn=x / (2 + 0.5 / 3 * around) ** 0.75)
    scales = np.array([1, 2, 3, 4, -1], np.float32)
    net.add("add_normalize_layer", *s(x), "x", *s(x), "unit", "u", 0, 0, scales, 1e-6)
    net.add("add_normalize_layer", *s(x), "x", *s(x), "across", None, 1, 1, scales[1:2], 1e-6)
    length = np.sqrt((x * x).sum(1, keepdims=True))
    net.want(unit=x / length * scales.reshape(5, 1, 1))
    net.want(across=2 * x / np.sqrt((x * x).sum((1, 2, 3), keepdims=True)))
    net.add("add_dtype_convert_layer", *s(x), "x", "whole", 0, 6)
    net.want(whole=np.trunc(x).astype(np.int32))
    for name in net.wanted:
        net.add("add_output_layer_v2", name)
    net.add("add_output_layer", *s(x), "lrn", "renamed")
    net.want(renamed=net.wanted["lrn"])
    return net


def nets() -> list[Net]:
    return [
        windows(),
        elementwise(),
        activations(),
        movement(),
        pieces(),
        matrices(),
        ranking(),
        normalizing(),
    ]
