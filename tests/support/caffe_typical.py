"""Layers of Caffe as published nets have them, one or several forms of each type, with seeded numbers."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.support.caffe_cases import Array, Case

_MAP = (1, 8, 9, 11)  # one image


def _case(
    kind: str,
    told: dict[str, Any] | None = None,
    *shapes: tuple[int, ...],
    blobs: Sequence[tuple[int, ...]] = (),
    tops: int = 1,
) -> Case:
    """Numbers above 0 for what takes no others: bottoms of Log and Power, the variance of BatchNorm."""
    rng = np.random.default_rng(zlib.crc32(f"{kind} {told}".encode()))
    low = 0.1 if kind in ("Log", "Power") else -2

    def drawn(shape: tuple[int, ...], least: float) -> Array:
        return rng.uniform(least, 2, shape).astype(np.float32)

    return Case(
        kind,
        told or {},
        [drawn(shape, low) for shape in shapes or (_MAP,)],
        [drawn(shape, 0.1 if kind == "BatchNorm" else -1) for shape in blobs],
        tops,
    )


def _pair(x: Array, case: Case) -> Case:
    """The same with another second bottom."""
    return Case(case.kind, case.told, [case.bottoms[0], x.astype(np.float32)], case.blobs, case.tops)


_CONV = {"num_output": 6, "kernel_size": (3,), "pad": (1,)}
_BLOBS = ((6, 8, 3, 3), (6,))
_FULL = {"num_output": 5}

TYPICAL: dict[str, Case] = {
    **{kind: _case(kind) for kind in ("AbsVal", "BNLL", "Mish", "ReLU", "ReLU6", "Sigmoid", "Swish", "TanH")},
    "ReLU, leaky": _case("ReLU", {"negative_slope": 0.1}),
    "ELU": _case("ELU", {"alpha": 0.5}),
    "PReLU": _case("PReLU", blobs=[(8,)]),
    "PReLU, shared": _case("PReLU", {"channel_shared": True}, blobs=[(1,)]),
    "Power": _case("Power", {"power": 2.0, "scale": 0.5, "shift": 1.0}),
    "Power, a fraction": _case("Power", {"power": 1.5}),
    "Power, affine": _case("Power", {"scale": 0.00390625, "shift": -0.5}),
    "Exp": _case("Exp", {"base": 2.0, "scale": 0.5, "shift": 1.0}),
    "Log": _case("Log", {"base": 10.0, "shift": 1.0}),
    "Clip": _case("Clip", {"min": -1.0, "max": 0.5}),
    "Threshold": _case("Threshold", {"threshold": 0.5}),
    "Dropout": _case("Dropout", {"dropout_ratio": 0.4}),
    "Split": _case("Split", {}, tops=2),
    "Eltwise": _case("Eltwise", {}, _MAP, _MAP),
    "Eltwise, coefficients": _case(
        "Eltwise", {"operation": "SUM", "coeff": (1.0, -1.0, 0.5)}, _MAP, _MAP, _MAP
    ),
    "Eltwise, products": _case("Eltwise", {"operation": "PROD"}, _MAP, _MAP),
    "Eltwise, maxima": _case("Eltwise", {"operation": "MAX"}, _MAP, _MAP),
    "Axpy": _case("Axpy", {}, (1, 8, 1, 1), _MAP, _MAP),
    "Scale": _case("Scale", {"bias_term": True}, blobs=[(8,), (8,)]),
    "Scale, two bottoms": _case("Scale", {"axis": 0}, _MAP, (1, 8)),
    "Bias": _case("Bias", {}, blobs=[(8,)]),
    "BatchNorm": _case("BatchNorm", {"use_global_stats": True}, blobs=[(8,), (8,), (1,)]),
    "BatchNorm, of the batch": _case("BatchNorm", {"use_global_stats": False}, blobs=[(8,), (8,), (1,)]),
    # Windows.
    "Convolution": _case("Convolution", _CONV, blobs=_BLOBS),
    "Convolution, strides": _case("Convolution", {**_CONV, "stride": (2,), "dilation": (2,)}, blobs=_BLOBS),
    "Convolution, groups": _case("Convolution", {**_CONV, "group": 2}, blobs=[(6, 4, 3, 3), (6,)]),
    "Convolution, 1x3": _case(
        "Convolution",
        {"num_output": 6, "kernel_h": 1, "kernel_w": 3, "pad_h": 0, "pad_w": 1, "bias_term": False},
        blobs=[(6, 8, 1, 3)],
    ),
    "ConvolutionDepthwise": _case(
        "ConvolutionDepthwise", {**_CONV, "num_output": 8}, blobs=[(8, 1, 3, 3), (8,)]
    ),
    "DepthwiseConvolution": _case(
        "DepthwiseConvolution", {**_CONV, "num_output": 8}, blobs=[(8, 1, 3, 3), (8,)]
    ),
    "Deconvolution": _case(
        "Deconvolution",
        {"num_output": 4, "kernel_size": (4,), "stride": (2,), "pad": (1,)},
        blobs=[(8, 4, 4, 4), (4,)],
    ),
    "Deconvolution, twice as large": _case(
        "Deconvolution",
        {"num_output": 8, "kernel_size": (2,), "stride": (2,), "group": 8, "bias_term": False},
        blobs=[(8, 1, 2, 2)],
    ),
    "Pooling": _case("Pooling", {"pool": "MAX", "kernel_size": 3, "stride": 2}, (1, 8, 10, 12)),
    "Pooling, padded": _case(
        "Pooling", {"pool": "MAX", "kernel_size": 3, "stride": 2, "pad": 1}, (1, 8, 10, 12)
    ),
    "Pooling, averages": _case(
        "Pooling", {"pool": "AVE", "kernel_size": 3, "stride": 2, "pad": 1}, (1, 8, 10, 12)
    ),
    "Pooling, global": _case("Pooling", {"pool": "AVE", "global_pooling": True}),
    "Pooling, with indices": _case("Pooling", {"pool": "MAX", "kernel_size": 2, "stride": 2}, tops=2),
    "SPP": _case("SPP", {"pyramid_height": 3}, (1, 8, 8, 11)),
    "LRN": _case("LRN", {"local_size": 5, "alpha": 0.5, "beta": 0.75}),
    "LRN, in a plane": _case("LRN", {"local_size": 3, "alpha": 0.5, "norm_region": "WITHIN_CHANNEL"}),
    "ROIPooling": _pair(
        np.array([[0, 1, 2, 9, 13], [0, 0, 0, 20, 16]]),
        _case("ROIPooling", {"pooled_h": 3, "pooled_w": 2, "spatial_scale": 0.5}, _MAP, (2, 5)),
    ),
    "Upsample": _case("Upsample", {"scale": 2}),
    "Upsample, by a mask": _pair(
        np.arange(40).reshape(1, 2, 4, 5) % 20 * 4 + 1,
        _case("Upsample", {"scale": 2}, (1, 2, 4, 5), (1, 2, 4, 5)),
    ),
    "Interp": _case("Interp", {"height": 17, "width": 13}),
    "Interp, zoomed": _case("Interp", {"zoom_factor": 2, "pad_end": -1}),
    # Products, reductions, normalizations.
    "InnerProduct": _case("InnerProduct", _FULL, (2, 8, 3, 3), blobs=[(5, 72), (5,)]),
    "InnerProduct, transposed": _case(
        "InnerProduct", {**_FULL, "transpose": True}, (2, 8), blobs=[(8, 5), (5,)]
    ),
    "InnerProduct, of rows": _case("InnerProduct", {**_FULL, "axis": 2}, (2, 3, 8), blobs=[(5, 8), (5,)]),
    "Softmax": _case("Softmax", {}, (2, 10)),
    "Softmax, of pixels": _case("Softmax", {"axis": 1}),
    "Softmax, last axis": _case("Softmax", {"axis": 2}, (1, 6, 21)),
    "LogSoftmax": _case("LogSoftmax", {}, (2, 10)),
    "ArgMax": _case("ArgMax", {"axis": 1}),
    "ArgMax, five": _case("ArgMax", {"top_k": 5, "out_max_val": True}, (2, 40)),
    "Reduction": _case("Reduction", {"operation": "MEAN", "axis": 2}),
    "Reduction, squares": _case("Reduction", {"operation": "SUMSQ", "axis": 1, "coeff": 0.5}),
    "Embed": Case(
        "Embed",
        {"input_dim": 9, "num_output": 4},
        [np.array([[0, 8, 3]], np.float32)],
        _case("Embed", {}, blobs=[(9, 4), (4,)]).blobs,
    ),
    "BatchReindex": _pair(np.array([2, 0, 2]), _case("BatchReindex", {}, (3, 4), (3,))),
    "MVN": _case("MVN"),
    "MVN, of images": _case("MVN", {"across_channels": True, "normalize_variance": False}),
    "Normalize": _case("Normalize", {"across_spatial": False, "channel_shared": False}, blobs=[(8,)]),
    "Normalize, of images": _case("Normalize", {}, blobs=[(1,)]),
    # Movement.
    "Concat": _case("Concat", {}, _MAP, (1, 3, 9, 11), (1, 5, 9, 11)),
    "Concat, rows": _case("Concat", {"axis": 2}, _MAP, (1, 8, 2, 11)),
    "Slice": _case("Slice", {"slice_point": (3, 5)}, tops=3),
    "Slice, equal parts": _case("Slice", {"axis": 1}, tops=2),
    "Flatten": _case("Flatten"),
    "Flatten, some": _case("Flatten", {"axis": 1, "end_axis": 2}),
    "Reshape": _case("Reshape", {"shape": {"dim": (0, -1, 4)}}, (1, 8, 9)),
    "Reshape, in the middle": _case("Reshape", {"shape": {"dim": (2, -1)}, "axis": 1, "num_axes": 1}),
    "Permute": _case("Permute", {"order": (0, 2, 3, 1)}),
    "Crop": _case("Crop", {"axis": 2, "offset": (1, 2)}, _MAP, (1, 3, 6, 7)),
    "Tile": _case("Tile", {"axis": 1, "tiles": 3}),
    "Padding": _case("Padding", {"pad_t": 1, "pad_l": 2}),
    "Reorg": _case("Reorg", {"stride": 2}, (1, 8, 6, 10)),
    "ShuffleChannel": _case("ShuffleChannel", {"group": 4}),
    # Constants.
    "Parameter": _case("Parameter", {"shape": {"dim": (3, 4)}}, blobs=[(3, 4)]),
    "DummyData": _case("DummyData", {"shape": ({"dim": (3, 4)},), "data_filler": ({"value": 2.5},)}),
}
for _name in ("Parameter", "DummyData"):
    TYPICAL[_name].bottoms.clear()

ON_HOST = {"Pooling, with indices", "ROIPooling", "Upsample, by a mask"}
"""Of these layers onnxruntime runs a part, or all; the others run on the TPU."""

NOT_OPENCV = {
    *("ArgMax", "BatchReindex", "Bias", "Clip", "DepthwiseConvolution", "DummyData", "Embed", "LogSoftmax"),
    *("Padding", "Parameter", "Reduction", "SPP", "Threshold", "Tile", "Upsample"),
    *("Pooling, with indices", "Slice", "Split"),  # it has other names for second tops
    "Axpy",  # its factor is for the third bottom, Caffe's for the second
    "InnerProduct, transposed",  # it does not look at `transpose`
    "Interp, zoomed",  # nor at pads
    "Log",  # nor at base and shift
}
"""Types that OpenCV's module dnn does not know, and layers that it understands in another way than Caffe."""
