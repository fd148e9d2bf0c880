"""TFLite operations with windows, and those that need channels apart: convolutions, pools, resizes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from user_layers.spelling.foreign import Operation
from user_layers.spelling.speller import Speller, Unspelled
from user_layers.tflite.table import TFLITE, activated, given, optional

_SAME, _VALID = 0, 1


def _pads(
    extents: Sequence[int], results: Sequence[int], strides: Sequence[int], spans: Sequence[int]
) -> list[int]:
    """ONNX's pads of windows that are `spans` large: as many as the results need, the odd one behind."""
    before, after = [], []
    for extent, result, stride, span in zip(extents, results, strides, spans, strict=True):
        total = max((result - 1) * stride + span - extent, 0)
        before.append(total // 2)
        after.append(total - total // 2)
    return before + after


def _windows(
    op: Operation, extents: Sequence[int], strides: Sequence[int], spans: Sequence[int]
) -> list[int]:
    """ONNX's pads for the operation's `padding`. Raises Unspelled for a window larger than its input."""
    padding = op.attributes.get("padding", _SAME)
    if padding == _SAME:
        return _pads(extents, [-(-n // s) for n, s in zip(extents, strides, strict=True)], strides, spans)
    if padding != _VALID:
        raise Unspelled(f"its padding is number {padding}, neither SAME nor VALID")
    if any(span > extent for span, extent in zip(spans, extents, strict=True)):
        raise Unspelled("its window is larger than its input")
    return [0] * (2 * len(spans))


def _numbers(op: Operation, *names: str) -> list[int]:
    found = [int(op.attributes.get(name, 1)) for name in names]
    if min(found) < 1:
        raise Unspelled(f"its {names[found.index(min(found))]} is {min(found)}")
    return found


def _put(to: Speller, op: Operation, found: str) -> None:
    to.put(op.outputs[0], activated(to, op, found, op.outputs[0]), first=True)


def _bias(to: Speller, op: Operation, index: int) -> list[str]:
    name = optional(op, index)
    return [] if name is None else [to.own(name)]


@TFLITE.of("CONV_2D")
def _conv(to: Speller, op: Operation) -> None:
    x, weights = given(op, 0), given(op, 1)
    strides = _numbers(op, "stride_h", "stride_w")
    dilations = _numbers(op, "dilation_h_factor", "dilation_w_factor")
    _, height, width, depth = _four(to, weights)
    channels = _four(to, x)[3]
    if channels % depth:
        raise Unspelled(f"its filters have {depth} channels, its input {channels}")
    spans = [(k - 1) * d + 1 for k, d in zip((height, width), dilations, strict=True)]
    found = to.node(
        "Conv",
        [to.first(x), to.first(weights), *_bias(to, op, 2)],
        {
            "kernel_shape": [height, width],
            "strides": strides,
            "dilations": dilations,
            "group": channels // depth,
            "pads": _windows(op, to.shape(x)[1:3], strides, spans),
        },
    )[0]
    _put(to, op, found)


@TFLITE.of("DEPTHWISE_CONV_2D")
def _depthwise(to: Speller, op: Operation) -> None:
    x, weights = given(op, 0), given(op, 1)
    strides = _numbers(op, "stride_h", "stride_w")
    dilations = _numbers(op, "dilation_h_factor", "dilation_w_factor")
    one, height, width, filters = _four(to, weights)
    channels = _four(to, x)[3]
    if one != 1 or filters % channels:
        raise Unspelled(f"its filters are {list(to.shape(weights))} for {channels} channels")
    spans = [(k - 1) * d + 1 for k, d in zip((height, width), dilations, strict=True)]
    found = to.node(
        "Conv",
        [to.first(x), _transposed(to, weights), *_bias(to, op, 2)],
        {
            "kernel_shape": [height, width],
            "strides": strides,
            "dilations": dilations,
            "group": channels,
            "pads": _windows(op, to.shape(x)[1:3], strides, spans),
        },
    )[0]
    _put(to, op, found)


@TFLITE.of("TRANSPOSE_CONV")
def _transpose_conv(to: Speller, op: Operation) -> None:
    weights, x, out = given(op, 1), given(op, 2), op.outputs[0]
    strides = _numbers(op, "stride_h", "stride_w")
    _, height, width, depth = _four(to, weights)
    extents, results = to.shape(x)[1:3], to.shape(out)[1:3]
    if _four(to, x)[3] != depth:
        raise Unspelled(f"its filters have {depth} channels, its input {to.shape(x)[3]}")
    full = [(n - 1) * s + k for n, s, k in zip(extents, strides, (height, width), strict=True)]
    found = to.node(
        "ConvTranspose",
        [to.first(x), _transposed(to, weights), *_bias(to, op, 3)],
        {
            "kernel_shape": [height, width],
            "strides": strides,
            "pads": _pads(results, extents, strides, (height, width)),
            "output_padding": [max(n - f, 0) for n, f in zip(results, full, strict=True)],
        },
    )[0]
    _put(to, op, found)


@TFLITE.of("CONV_3D")
def _conv_3d(to: Speller, op: Operation) -> None:
    x, weights = given(op, 0), given(op, 1)
    strides = _numbers(op, "stride_d", "stride_h", "stride_w")
    dilations = _numbers(op, "dilation_d_factor", "dilation_h_factor", "dilation_w_factor")
    size = to.shape(weights)[:3]
    filters = to.constant(weights)
    order = (4, 3, 0, 1, 2)
    spans = [(k - 1) * d + 1 for k, d in zip(size, dilations, strict=True)]
    found = to.node(
        "Conv",
        [
            to.first(x),
            to.one("Transpose", to.own(weights), perm=order)
            if filters is None
            else to.const(filters.transpose(order)),
            *_bias(to, op, 2),
        ],
        {
            "kernel_shape": list(size),
            "strides": strides,
            "dilations": dilations,
            "pads": _windows(op, to.shape(x)[1:4], strides, spans),
        },
    )[0]
    _put(to, op, found)


@TFLITE.of("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D")
def _pool(to: Speller, op: Operation) -> None:
    x = given(op, 0)
    strides = _numbers(op, "stride_h", "stride_w")
    size = _numbers(op, "filter_height", "filter_width")
    pads = _windows(op, _four(to, x)[1:3], strides, size)
    told = {"kernel_shape": size, "strides": strides, "pads": pads}
    found = to.first(x)
    if op.kind == "MAX_POOL_2D":
        found = to.node("MaxPool", [found], told)[0]
    elif op.kind == "AVERAGE_POOL_2D":
        found = to.node("AveragePool", [found], told)[0]
    else:
        found = to.one("Sqrt", to.node("AveragePool", [to.one("Mul", found, found)], told)[0])
    _put(to, op, found)


@TFLITE.of("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
def _resize(to: Speller, op: Operation) -> None:
    x, out = given(op, 0), op.outputs[0]
    batch, height, width, channels = _four(to, out)
    corners, centers = op.attributes.get("align_corners"), op.attributes.get("half_pixel_centers")
    linear = op.kind == "RESIZE_BILINEAR"
    if corners and centers:
        raise Unspelled("it has both align_corners and half_pixel_centers")
    mode = "align_corners" if corners else "half_pixel" if centers else "asymmetric"
    found = to.node(
        "Resize",
        [to.first(x), "", "", to.const([batch, channels, height, width], np.int64)],
        {
            "mode": "linear" if linear else "nearest",
            "coordinate_transformation_mode": mode,
            "nearest_mode": None if linear else "round_prefer_ceil" if corners or centers else "floor",
        },
    )[0]
    to.put(out, found, first=True)


@TFLITE.of("DEPTH_TO_SPACE", "SPACE_TO_DEPTH")
def _blocks(to: Speller, op: Operation) -> None:
    name = "DepthToSpace" if op.kind == "DEPTH_TO_SPACE" else "SpaceToDepth"
    size = _numbers(op, "block_size")[0]
    to.put(op.outputs[0], to.one(name, to.first(given(op, 0)), blocksize=size), first=True)


@TFLITE.of("LOCAL_RESPONSE_NORMALIZATION")
def _lrn(to: Speller, op: Operation) -> None:
    told = op.attributes
    if "radius" not in told:  # LiteRT's compiler plugins cannot ask for them
        raise Unspelled("its radius, bias, alpha and beta are not told")
    size = 2 * int(told["radius"]) + 1
    alpha, beta, bias = (float(told[name]) for name in ("alpha", "beta", "bias"))
    found = to.one("LRN", to.first(given(op, 0)), size=size, alpha=alpha * size, beta=beta, bias=bias)
    to.put(op.outputs[0], found, first=True)


def _four(to: Speller, name: str) -> tuple[int, int, int, int]:
    shape = to.shape(name)
    if len(shape) != 4:
        raise Unspelled(f"{name!r} has {len(shape)} dimensions, not 4")
    return shape[0], shape[1], shape[2], shape[3]


def _transposed(to: Speller, weights: str) -> str:
    """Filters with the last axis first: [1, h, w, n] -> [n, 1, h, w]."""
    filters, order = to.constant(weights), (3, 0, 1, 2)
    if filters is None:
        return to.one("Transpose", to.own(weights), perm=order)
    return to.const(filters.transpose(order))
