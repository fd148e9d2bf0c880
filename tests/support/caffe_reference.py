"""What Caffe's layers compute, in plain numpy: element by element, as their definitions say, and slow.

Each function takes the fields of the layer's parameters, the bottoms, the blobs and how many tops there are,
and returns the tops. They follow the layers' sources (BVLC's, those of the ssd branch, darknet's reorg).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Reference = Callable[[Mapping[str, Any], Sequence[Array], Sequence[Array], int], list[Array]]
REFERENCE: dict[str, Reference] = {}


def of(*kinds: str) -> Callable[[Reference], Reference]:
    def register(function: Reference) -> Reference:
        REFERENCE.update(dict.fromkeys(kinds, function))
        return function

    return register


def _each(kind: str) -> Callable[[Callable[..., Any]], None]:
    """A layer that is a function of one float and of its fields."""

    def register(function: Callable[..., Any]) -> None:
        def layer(told: Mapping[str, Any], x: Sequence[Array], _: Sequence[Array], __: int) -> list[Array]:
            flat = [function(float(value), **told) for value in x[0].reshape(-1)]
            return [np.array(flat, np.float64).reshape(x[0].shape)]

        REFERENCE[kind] = layer

    return register


_each("ReLU")(lambda x, negative_slope=0.0: max(x, 0) + negative_slope * min(x, 0))
_each("ReLU6")(lambda x: min(max(x, 0), 6))
_each("Clip")(lambda x, min, max: x if min <= x <= max else min if x < min else max)
_each("ELU")(lambda x, alpha=1.0: max(x, 0) + alpha * (math.exp(min(x, 0)) - 1))
_each("Sigmoid")(lambda x: 1 / (1 + math.exp(-x)))
_each("TanH")(math.tanh)
_each("AbsVal")(abs)
_each("BNLL")(lambda x: max(x, 0) + math.log(1 + math.exp(-abs(x))))
_each("Threshold")(lambda x, threshold=0.0: float(x > threshold))
_each("Swish")(lambda x, beta=1.0: x / (1 + math.exp(-beta * x)))
_each("Mish")(lambda x: x * math.tanh(math.log(1 + math.exp(x))))
_each("Dropout")(lambda x, **_: x)


@_each("Power")
def _power(x: float, power: float = 1.0, scale: float = 1.0, shift: float = 0.0) -> float:
    if power * scale == 0:
        return 1.0 if power == 0 else shift**power
    return float((shift + scale * x) ** power)


@_each("Exp")
def _exp(x: float, base: float = -1.0, scale: float = 1.0, shift: float = 0.0) -> float:
    return float((math.e if base == -1 else base) ** (shift + scale * x))


@_each("Log")
def _log(x: float, base: float = -1.0, scale: float = 1.0, shift: float = 0.0) -> float:
    return math.log(shift + scale * x) / (1 if base == -1 else math.log(base))


@of("PReLU")
def prelu(told: Mapping[str, Any], x: Sequence[Array], blobs: Sequence[Array], tops: int) -> list[Array]:
    made = x[0].astype(np.float64)
    for c in range(made.shape[1]):
        slope = blobs[0].reshape(-1)[0 if told.get("channel_shared") else c]
        made[:, c] = np.where(made[:, c] > 0, made[:, c], slope * made[:, c])
    return [made]


@of("Split")
def split(told: Mapping[str, Any], x: Sequence[Array], blobs: Sequence[Array], tops: int) -> list[Array]:
    return [x[0]] * tops


@of("Eltwise")
def eltwise(told: Mapping[str, Any], x: Sequence[Array], blobs: Sequence[Array], tops: int) -> list[Array]:
    kind = told.get("operation", "SUM")
    coefficients = told.get("coeff", ()) or (1,) * len(x)
    made = x[0] * (coefficients[0] if kind == "SUM" else 1)
    for array, factor in zip(x[1:], coefficients[1:], strict=True):
        made = {"SUM": made + factor * array, "PROD": made * array, "MAX": np.maximum(made, array)}[kind]
    return [made]


@of("Axpy")
def axpy(told: Mapping[str, Any], x: Sequence[Array], blobs: Sequence[Array], tops: int) -> list[Array]:
    made = x[2].astype(np.float64)
    for n, c in np.ndindex(made.shape[:2]):
        made[n, c] += x[0].reshape(x[0].shape[:2])[n, c] * x[1][n, c]
    return [made]


@of("Scale")
def scale(told: Mapping[str, Any], x: Sequence[Array], blobs: Sequence[Array], tops: int) -> list[Array]:
    operands = [*x[1:], *blobs]
    axis = told.get("axis", 1) % x[0].ndim if operands[0].ndim else 0
    inner = math.prod(x[0].shape[axis + operands[0].ndim :])
    size = operands[0].size
    made = x[0].astype(np.float64).reshape(-1, size, inner)
    for d in range(size):
        value = float(operands[0].reshape(-1)[d])
        made[:, d] *= value
        if len(operands) > 1:
            made[:, d] += float(operands[1].reshape(-1)[d])
    return [made.reshape(x[0].shape)]


@of("Bias")
def bias(told: Mapping[str, Any], x: Sequence[Array], blobs: Sequence[Array], tops: int) -> list[Array]:
    (operand,) = [*x[1:], *blobs]
    return scale(told, [x[0], np.ones_like(operand), operand], (), 1)


@of("BatchNorm")
def batch_norm(told: Mapping[str, Any], x: Sequence[Array], blobs: Sequence[Array], tops: int) -> list[Array]:
    made = x[0].astype(np.float64)
    for c in range(made.shape[1]):
        if told.get("use_global_stats", True):
            share = 0.0 if blobs[2].reshape(-1)[0] == 0 else 1 / float(blobs[2].reshape(-1)[0])
            mean, variance = (float(blob.reshape(-1)[c]) * share for blob in blobs[:2])
        else:
            mean, variance = made[:, c].mean(), made[:, c].var()
        made[:, c] = (made[:, c] - mean) / math.sqrt(variance + told.get("eps", 1e-5))
    return [made]


# ---- windows ----


def _pair(told: Mapping[str, Any], name: str, default: int, count: int) -> list[int]:
    if f"{name}_h" in told:
        return [told[f"{name}_h"], told[f"{name}_w"]]
    found = told.get({"kernel": "kernel_size"}.get(name, name), ()) or (default,)
    found = found if isinstance(found, tuple) else (found,)
    return list(found) * count if len(found) == 1 else list(found)


@of("Convolution")
def convolution(
    told: Mapping[str, Any], x: Sequence[Array], blobs: Sequence[Array], tops: int
) -> list[Array]:
    axis = told.get("axis", 1) % x[0].ndim
    count = x[0].ndim - axis - 1
    kernel, stride, pad, dilation = (
        _pair(told, name, default, count)
        for name, default in (("kernel", 0), ("stride", 1), ("pad", 0), ("dilation", 1))
    )
    outs = []
    for bottom in x:
        images = bottom.reshape(-1, *bottom.shape[axis:]).astype(np.float64)
        channels = images.shape[1]
        group = told.get("group", 1)
        outputs = told["num_output"]
        weights = blobs[0].reshape(outputs, channels // group, *kernel)
        padded = np.pad(images, [(0, 0), (0, 0), *((p, p) for p in pad)])
        sizes = [
            (n + 2 * p - d * (k - 1) - 1) // s + 1
            for n, p, d, k, s in zip(images.shape[2:], pad, dilation, kernel, stride, strict=True)
        ]
        made = np.zeros((images.shape[0], outputs, *sizes))
        for out in range(outputs):
            first = out // (outputs // group) * (channels // group)
            for place in np.ndindex(*sizes):
                for step in np.ndindex(*kernel):
                    at = [p * s + k * d for p, s, k, d in zip(place, stride, step, dilation, strict=True)]
                    behind = (slice(None), slice(first, first + channels // group), *at)
                    here, weight = (slice(None), out, *place), (out, slice(None), *step)
                    made[here] += padded[behind] @ weights[weight]
            if told.get("bias_term", True):
                made[:, out] += blobs[1].reshape(-1)[out]
        outs.append(made.reshape(*bottom.shape[:axis], *made.shape[1:]))
    return outs


@of("ConvolutionDepthwise", "DepthwiseConvolution")
def depthwise(told: Mapping[str, Any], x: Sequence[Array], blobs: Sequence[Array], tops: int) -> list[Array]:
    return convolution({**told, "group": x[0].shape[1]}, x, blobs, tops)


@of("Deconvolution")
def deconvolution(
    told: Mapping[str, Any], x: Sequence[Array], blobs: Sequence[Array], tops: int
) -> list[Array]:
    images = x[0].astype(np.float64)
    count = images.ndim - 2
    kernel, stride, pad, dilation = (
        _pair(told, name, default, count)
        for name, default in (("kernel", 0), ("stride", 1), ("pad", 0), ("dilation", 1))
    )
    channels, group, outputs = images.shape[1], told.get("group", 1), told["num_output"]
    weights = blobs[0].reshape(channels, outputs // group, *kernel)
    full = [
        s * (n - 1) + d * (k - 1) + 1
        for n, s, d, k in zip(images.shape[2:], stride, dilation, kernel, strict=True)
    ]
    made = np.zeros((images.shape[0], outputs, *full))
    for channel in range(channels):
        first = channel // (channels // group) * (outputs // group)
        for place in np.ndindex(*images.shape[2:]):
            for step in np.ndindex(*kernel):
                at = [p * s + k * d for p, s, k, d in zip(place, stride, step, dilation, strict=True)]
                for out in range(outputs // group):
                    behind, weight = (slice(None), channel, *place), (channel, out, *step)
                    here = (slice(None), first + out, *at)
                    made[here] += images[behind] * weights[weight]
    inner = (slice(None), slice(None), *(slice(p, n - p) for p, n in zip(pad, full, strict=True)))
    made = made[inner]
    if told.get("bias_term", True):
        made = made + blobs[1].reshape(-1, *[1] * count)
    return [made]


def _pool(plane: Array, told: Mapping[str, Any]) -> tuple[Array, Array]:
    if told.get("global_pooling"):
        kernel, stride, pad = list(plane.shape), [1, 1], [0, 0]
    else:
        kernel, stride, pad = (_pair(told, n, d, 2) for n, d in (("kernel", 0), ("stride", 1), ("pad", 0)))
    down = told.get("round_mode", "CEIL") == "FLOOR" or not told.get("ceil_mode", True)
    sizes = []
    for i, n in enumerate(plane.shape):
        room = (n + 2 * pad[i] - kernel[i]) / stride[i]
        sizes.append((math.floor(room) if down else math.ceil(room)) + 1)
        if any(pad) and (sizes[i] - 1) * stride[i] >= n + pad[i]:
            sizes[i] -= 1
    made, mask = np.zeros(sizes), np.full(sizes, -1.0)
    for place in np.ndindex(*sizes):
        starts = [place[i] * stride[i] - pad[i] for i in range(2)]
        ends = [min(starts[i] + kernel[i], plane.shape[i] + pad[i]) for i in range(2)]
        divisor = (ends[0] - starts[0]) * (ends[1] - starts[1])
        rows, columns = (range(max(starts[i], 0), min(ends[i], plane.shape[i])) for i in range(2))
        if told.get("pool", "MAX") == "AVE":
            made[place] = sum(float(plane[at]) for at in itertools.product(rows, columns)) / divisor
            continue
        made[place] = -float(np.finfo(np.float32).max)
        for at in itertools.product(rows, columns):
            if plane[at] > made[place]:
                made[place], mask[place] = plane[at], at[0] * plane.shape[1] + at[1]
    return made, mask


@of("Pooling")
def pooling(told: Mapping[str, Any], x: Sequence[Array], blobs: Sequence[Array], tops: int) -> list[Array]:
    pairs = [[_pool(plane, told) for plane in image] for image in x[0]]
    return [np.array([[pair[i] for pair in image] for image in pairs]) for i in range(tops)]


@of("SPP")
def pyramid(told: Mapping[str, Any], x: Sequence[Array], blobs: Sequence[Array], tops: int) -> list[Array]:
    made = []
    for level in range(told["pyramid_height"]):
        kernel = [math.ceil(n / 2**level) for n in x[0].shape[2:]]
        pad = [(k * 2**level - n + 1) // 2 for k, n in zip(kernel, x[0].shape[2:], strict=True)]
        window = {
            f"{name}_{axis}": n
            for name, pair in (("kernel", kernel), ("stride", kernel), ("pad", pad))
            for axis, n in zip("hw", pair, strict=True)
        }
        made += pooling({"pool": told.get("pool", "MAX"), **window}, x, (), 1)
    if len(made) == 1:
        return made
    return [np.concatenate([array.reshape(array.shape[0], -1) for array in made], 1)]


@of("LRN")
def lrn(told: Mapping[str, Any], x: Sequence[Array], blobs: Sequence[Array], tops: int) -> list[Array]:
    size, alpha = told.get("local_size", 5), told.get("alpha", 1.0)
    beta, half = told.get("beta", 0.75), told.get("local_size", 5) // 2
    made = x[0].astype(np.float64)
    for n, c, h, w in np.ndindex(*x[0].shape):
        if told.get("norm_region", "ACROSS_CHANNELS") == "ACROSS_CHANNELS":
            seen, base = x[0][n, max(c - half, 0) : c + half + 1, h, w], told.get("k", 1.0)
            share = alpha / size
        else:
            seen = x[0][n, c, max(h - half, 0) : h + half + 1, max(w - half, 0) : w + half + 1]
            base, share = 1.0, alpha / size**2
        made[n, c, h, w] *= (base + share * float((seen.astype(np.float64) ** 2).sum())) ** -beta
    return [made]


@of("ROIPooling")
def roi_pooling(
    told: Mapping[str, Any], x: Sequence[Array], blobs: Sequence[Array], tops: int
) -> list[Array]:
    regions, (height, width) = x[1].reshape(-1, 5), x[0].shape[2:]
    high, wide = told["pooled_h"], told["pooled_w"]
    made = np.zeros((len(regions), x[0].shape[1], high, wide))
    for r, region in enumerate(regions):
        left, top, right, bottom = (
            math.floor(float(v) * told.get("spatial_scale", 1.0) + 0.5) for v in region[1:]
        )
        bin_h, bin_w = max(bottom - top + 1, 1) / high, max(right - left + 1, 1) / wide
        for c, i, j in np.ndindex(*made.shape[1:]):
            rows = slice(
                *(min(max(n + top, 0), height) for n in (math.floor(i * bin_h), math.ceil((i + 1) * bin_h)))
            )
            columns = slice(
                *(min(max(n + left, 0), width) for n in (math.floor(j * bin_w), math.ceil((j + 1) * bin_w)))
            )
            seen = x[0][int(region[0]), c, rows, columns]
            made[r, c, i, j] = seen.max() if seen.size else 0
    return [made]


@of("Upsample")
def upsample(told: Mapping[str, Any], x: Sequence[Array], blobs: Sequence[Array], tops: int) -> list[Array]:
    if len(x) == 1:
        return [x[0].repeat(told["scale"], -1).repeat(told["scale"], -2)]
    sizes = [
        told.get(f"upsample_{axis}")
        or n * (told.get(f"scale_{axis}") or told["scale"]) - told.get(f"pad_out_{axis}", 0)
        for axis, n in zip("hw", x[0].shape[2:], strict=True)
    ]
    made = np.zeros((*x[0].shape[:2], math.prod(sizes)))
    for n, c, h, w in np.ndindex(*x[0].shape):
        made[n, c, int(x[1][n, c, h, w])] = x[0][n, c, h, w]
    return [made.reshape(*x[0].shape[:2], *sizes)]


@of("Interp")
def interp(told: Mapping[str, Any], x: Sequence[Array], blobs: Sequence[Array], tops: int) -> list[Array]:
    first, last = -told.get("pad_beg", 0), -told.get("pad_end", 0)
    inner = x[0][:, :, first : x[0].shape[2] - last, first : x[0].shape[3] - last].astype(np.float64)
    sizes = list(inner.shape[2:])
    if len(x) > 1:
        sizes = list(x[1].shape[2:])
    elif told.get("height"):
        sizes = [told["height"], told["width"]]
    else:
        sizes = [(n - 1) // told.get("shrink_factor", 1) + 1 for n in sizes]
        sizes = [n + (n - 1) * (told.get("zoom_factor", 1) - 1) for n in sizes]
    made = np.zeros((*inner.shape[:2], *sizes))
    for h, w in np.ndindex(*sizes):
        at = [
            place * (old - 1) / (new - 1) if new > 1 else 0.0
            for place, old, new in zip((h, w), inner.shape[2:], sizes, strict=True)
        ]
        low = [int(n) for n in at]
        for dh, dw in itertools.product((0, 1), (0, 1)):
            share = (abs(1 - dh - (at[0] - low[0]))) * (abs(1 - dw - (at[1] - low[1])))
            row, column = min(low[0] + dh, inner.shape[2] - 1), min(low[1] + dw, inner.shape[3] - 1)
            made[:, :, h, w] += share * inner[:, :, row, column]
    return [made]


# ---- products, reductions, normalizations ----


@of("InnerProduct")
def inner_product(
    told: Mapping[str, Any], x: Sequence[Array], blobs: Sequence[Array], tops: int
) -> list[Array]:
    axis = told.get("axis", 1) % x[0].ndim
    rows = x[0].reshape(math.prod(x[0].shape[:axis]), -1).astype(np.float64)
    weights = blobs[0].reshape(-1)
    outputs, length = told["num_output"], rows.shape[1]
    made = np.zeros((len(rows), outputs))
    for m, n in np.ndindex(*made.shape):
        for k in range(length):
            made[m, n] += rows[m, k] * weights[k * outputs + n if told.get("transpose") else n * length + k]
        made[m, n] += blobs[1].reshape(-1)[n] if told.get("bias_term", True) else 0
    return [made.reshape(*x[0].shape[:axis], outputs)]


@of("Softmax")
def softmax(told: Mapping[str, Any], x: Sequence[Array], blobs: Sequence[Array], tops: int) -> list[Array]:
    powers = np.exp(x[0].astype(np.float64))
    return [powers / powers.sum(told.get("axis", 1), keepdims=True)]


@of("LogSoftmax")
def log_softmax(
    told: Mapping[str, Any], x: Sequence[Array], blobs: Sequence[Array], tops: int
) -> list[Array]:
    return [np.log(softmax(told, x, blobs, tops)[0])]


@of("ArgMax")
def arg_max(told: Mapping[str, Any], x: Sequence[Array], blobs: Sequence[Array], tops: int) -> list[Array]:
    count, values = told.get("top_k", 1), told.get("out_max_val", False)

    def best(row: Array) -> list[tuple[float, int]]:
        return sorted(((float(v), i) for i, v in enumerate(row)), reverse=True)[:count]

    if "axis" in told:
        return [
            np.apply_along_axis(lambda row: [p[0 if values else 1] for p in best(row)], told["axis"], x[0])
        ]
    found = [best(image.reshape(-1)) for image in x[0]]
    parts = [[[p[1] for p in row], [p[0] for p in row]][: 2 if values else 1] for row in found]
    made = np.array(parts, np.float64)
    return [made.reshape(*made.shape, *[1] * (x[0].ndim - 3))]


@of("Reduction")
def reduction(told: Mapping[str, Any], x: Sequence[Array], blobs: Sequence[Array], tops: int) -> list[Array]:
    axis = told.get("axis", 0) % x[0].ndim
    rows = x[0].astype(np.float64).reshape(math.prod(x[0].shape[:axis]), -1)
    kind = told.get("operation", "SUM")
    rows = {"ASUM": np.abs(rows), "SUMSQ": rows * rows}.get(kind, rows)
    made = rows.sum(1) * told.get("coeff", 1.0) / (rows.shape[1] if kind == "MEAN" else 1)
    return [made.reshape(x[0].shape[:axis])]


@of("Embed")
def embed(told: Mapping[str, Any], x: Sequence[Array], blobs: Sequence[Array], tops: int) -> list[Array]:
    table = blobs[0].reshape(told["input_dim"], told["num_output"])
    made = np.array([table[int(n)] for n in x[0].reshape(-1)])
    made = made + (blobs[1].reshape(-1) if told.get("bias_term", True) else 0)
    return [made.reshape(*x[0].shape, told["num_output"])]


@of("BatchReindex")
def batch_reindex(
    told: Mapping[str, Any], x: Sequence[Array], blobs: Sequence[Array], tops: int
) -> list[Array]:
    return [np.array([x[0][int(n)] for n in x[1]])]


@of("MVN")
def mvn(told: Mapping[str, Any], x: Sequence[Array], blobs: Sequence[Array], tops: int) -> list[Array]:
    made = x[0].astype(np.float64).reshape(*x[0].shape, *[1] * (4 - x[0].ndim))
    flat = made.reshape(made.shape[0] * (1 if told.get("across_channels") else made.shape[1]), -1)
    flat = flat - flat.mean(1, keepdims=True)
    if told.get("normalize_variance", True):
        flat = flat / (np.sqrt((flat**2).mean(1, keepdims=True)) + told.get("eps", 1e-9))
    return [flat.reshape(made.shape)]


@of("Normalize")
def normalize(told: Mapping[str, Any], x: Sequence[Array], blobs: Sequence[Array], tops: int) -> list[Array]:
    made = x[0].astype(np.float64)
    for image in made:
        axes = None if told.get("across_spatial", True) else 0
        image /= np.sqrt((image**2).sum(axes) + told.get("eps", 1e-10))
        for c in range(len(image)):
            image[c] *= float(blobs[0].reshape(-1)[0 if told.get("channel_shared", True) else c])
    return [made]


# ---- movement ----


@of("Concat")
def concat(told: Mapping[str, Any], x: Sequence[Array], blobs: Sequence[Array], tops: int) -> list[Array]:
    return [np.concatenate(x, told.get("concat_dim", told.get("axis", 1)))]


@of("Slice")
def slice_(told: Mapping[str, Any], x: Sequence[Array], blobs: Sequence[Array], tops: int) -> list[Array]:
    axis = told.get("slice_dim", told.get("axis", 1))
    return list(np.split(x[0], list(told.get("slice_point", ())) or tops, axis))


@of("Flatten")
def flatten(told: Mapping[str, Any], x: Sequence[Array], blobs: Sequence[Array], tops: int) -> list[Array]:
    shape = x[0].shape
    first, last = told.get("axis", 1) % len(shape), told.get("end_axis", -1) % len(shape)
    return [x[0].reshape(*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :])]


@of("Reshape")
def reshape(told: Mapping[str, Any], x: Sequence[Array], blobs: Sequence[Array], tops: int) -> list[Array]:
    shape, axis = x[0].shape, told.get("axis", 0)
    first = axis if axis >= 0 else len(shape) + axis + 1
    last = len(shape) if told.get("num_axes", -1) == -1 else first + told["num_axes"]
    dims = [shape[first + i] if n == 0 else n for i, n in enumerate(told["shape"]["dim"])]
    return [x[0].reshape(*shape[:first], *dims, *shape[last:])]


@of("Permute")
def permute(told: Mapping[str, Any], x: Sequence[Array], blobs: Sequence[Array], tops: int) -> list[Array]:
    rest = [axis for axis in range(x[0].ndim) if axis not in told["order"]]
    return [x[0].transpose(*told["order"], *rest)]


@of("Crop")
def crop(told: Mapping[str, Any], x: Sequence[Array], blobs: Sequence[Array], tops: int) -> list[Array]:
    first, offsets, made = told.get("axis", 2) % x[0].ndim, told.get("offset", ()), x[0]
    for axis in range(first, x[0].ndim):
        start = 0 if not offsets else offsets[0] if len(offsets) == 1 else offsets[axis - first]
        made = made.take(range(start, start + x[1].shape[axis]), axis)
    return [made]


@of("Tile")
def tile(told: Mapping[str, Any], x: Sequence[Array], blobs: Sequence[Array], tops: int) -> list[Array]:
    return [np.concatenate([x[0]] * told["tiles"], told.get("axis", 1))]


@of("Padding")
def padding(told: Mapping[str, Any], x: Sequence[Array], blobs: Sequence[Array], tops: int) -> list[Array]:
    n, c, h, w = x[0].shape
    top, left = told.get("pad_t", 0), told.get("pad_l", 0)
    made = np.full(
        (n, c, h + top + told.get("pad_b", 0), w + left + told.get("pad_r", 0)),
        float(told.get("pad_value", 0)),
    )
    made[:, :, top : top + h, left : left + w] = x[0]
    return [made]


@of("Reorg")
def reorg(told: Mapping[str, Any], x: Sequence[Array], blobs: Sequence[Array], tops: int) -> list[Array]:
    """As darknet's reorg_cpu: both ways walk through the input's shape."""
    s, (batch, c, h, w) = told["stride"], x[0].shape
    fewer = c // s**2
    source, made = x[0].reshape(-1), np.zeros(x[0].size)
    for b, k, j, i in np.ndindex(*x[0].shape):
        here = i + w * (j + h * (k + c * b))
        offset = k // fewer
        there = i * s + offset % s + w * s * (j * s + offset // s + h * s * (k % fewer + fewer * b))
        if told.get("reverse"):
            made[there] = source[here]
        else:
            made[here] = source[there]
    shape = (batch, fewer, h * s, w * s) if told.get("reverse") else (batch, c * s**2, h // s, w // s)
    return [made.reshape(shape)]


@of("ShuffleChannel")
def shuffle_channel(
    told: Mapping[str, Any], x: Sequence[Array], blobs: Sequence[Array], tops: int
) -> list[Array]:
    made, rows = np.zeros(x[0].shape), told.get("group", 1)
    columns = x[0].shape[1] // rows
    for i, j in np.ndindex(rows, columns):
        made[:, j * rows + i] = x[0][:, i * columns + j]
    return [made]


@of("Parameter")
def parameter(told: Mapping[str, Any], x: Sequence[Array], blobs: Sequence[Array], tops: int) -> list[Array]:
    return [blobs[0].reshape(told["shape"]["dim"])]


@of("DummyData")
def dummy_data(told: Mapping[str, Any], x: Sequence[Array], blobs: Sequence[Array], tops: int) -> list[Array]:
    made = []
    for top in range(tops):
        filler = (
            told["data_filler"][min(top, len(told["data_filler"]) - 1)] if told.get("data_filler") else {}
        )
        if "shape" in told:
            shape = told["shape"][min(top, len(told["shape"]) - 1)]["dim"]
        else:
            shape = tuple(
                told[name][min(top, len(told[name]) - 1)] for name in ("num", "channels", "height", "width")
            )
        made.append(np.full(shape, filler.get("value", 0.0)))
    return made
