"""Convolutions, pools, resizing, and what else looks at rows and columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from user_layers.mindir.words import MINDSPORE, NHWC, activated, given, needed, numbers, spatial, window
from user_layers.spelling.foreign import Operation
from user_layers.spelling.speller import Speller, Unspelled

_PAD, _SAME, _VALID = 0, 1, 2
_MODES = {0: "linear", 1: "nearest", 2: "cubic"}
_COORDINATES = {0: "asymmetric", 1: "align_corners", 2: "half_pixel"}
_NEAREST = {1: "round_prefer_floor", 2: "round_prefer_ceil", 3: "floor", 4: "ceil"}


@MINDSPORE.of("Conv2DFusion")
def conv(to: Speller, op: Operation) -> None:
    """x, weights [out, h, w, in / group], bias."""
    x, last = window(to, op, needed(op, 0))
    weights, _ = window(to, op, needed(op, 1))
    kernel = spatial(to, op, needed(op, 1))
    attributes: dict[str, Any] = {
        "kernel_shape": list(kernel),
        "strides": _pair(op, "stride"),
        "dilations": _pair(op, "dilation"),
        "group": int(op.attributes.get("group") or 1),
    }
    pads = _pads(to, op, kernel, "pad_list", "stride")
    bias = given(op, 2)
    operands = [x, weights, *([to.own(bias)] if bias else [])]
    made = to.one("Conv", *operands, **attributes, pads=pads)
    to.put(op.outputs[0], activated(to, op, made), first=last)


@MINDSPORE.of("Conv2dTransposeFusion")
def deconv(to: Speller, op: Operation) -> None:
    """x, weights [in, h, w, out / group], bias."""
    x, last = window(to, op, needed(op, 0))
    weights, _ = window(to, op, needed(op, 1))
    kernel = spatial(to, op, needed(op, 1))
    strides, dilations = _pair(op, "stride"), _pair(op, "dilation")
    if int(op.attributes.get("pad_mode", 0)) == _PAD:
        low_h, high_h, low_w, high_w = numbers(op.attributes["pad_list"])
        lows, highs = [low_h, low_w], [high_h, high_w]
    else:
        lows = highs = [0, 0]
        if op.attributes["pad_mode"] == _SAME:
            spare = [d * (k - 1) + 1 - s for d, k, s in zip(dilations, kernel, strides, strict=True)]
            lows = [max(n, 0) // 2 for n in spare]
            highs = [max(n, 0) - low for n, low in zip(spare, lows, strict=True)]
    bias = given(op, 2)
    operands = [x, weights, *([to.own(bias)] if bias else [])]
    made = to.one(
        "ConvTranspose",
        *operands,
        kernel_shape=list(kernel),
        strides=strides,
        dilations=dilations,
        pads=[*lows, *highs],
        output_padding=[*numbers(op.attributes.get("output_paddings") or (0, 0))],
        group=int(op.attributes.get("group") or 1),
    )
    to.put(op.outputs[0], activated(to, op, made), first=last)


@MINDSPORE.of("AvgPoolFusion", "MaxPoolFusion")
def pool(to: Speller, op: Operation) -> None:
    """x."""
    x, last = window(to, op, needed(op, 0))
    average = op.kind == "AvgPoolFusion"
    if op.attributes.get("global"):
        made = to.one("GlobalAveragePool" if average else "GlobalMaxPool", x)
    else:
        height, width = numbers(op.attributes["kernel_size"])
        attributes: dict[str, Any] = {"kernel_shape": [height, width], "strides": _pair(op, "strides")}
        attributes["pads"] = _pads(to, op, (height, width), "pad", "strides")
        attributes["ceil_mode"] = int(op.attributes.get("round_mode", 0) == 1)
        made = to.one("AveragePool" if average else "MaxPool", x, **attributes)
    to.put(op.outputs[0], activated(to, op, made), first=last)


@MINDSPORE.of("Resize")
def resize(to: Speller, op: Operation) -> None:
    """x, and height and width or factors of both unless the attributes have them."""
    x, last = window(to, op, needed(op, 0))
    height, width = _new_size(to, op)
    shape = to.shape(needed(op, 0))
    channels = shape[3] if last else shape[1]
    mode = _MODES.get(int(op.attributes.get("method", -1)))
    coordinates = _COORDINATES.get(int(op.attributes.get("coordinate_transform_mode", -1)))
    if mode is None or coordinates is None:
        raise Unspelled("its method is unknown")
    attributes: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": coordinates}
    if mode == "nearest":
        # The runtime rounds half up between corners, and down elsewhere, whatever nearest_mode says.
        attributes["nearest_mode"] = "round_prefer_ceil" if coordinates == "align_corners" else "floor"
    if mode == "cubic":
        attributes["cubic_coeff_a"] = float(op.attributes.get("cubic_coeff") or -0.75)
        attributes["exclude_outside"] = int(op.attributes.get("exclude_outside", 0))
    sizes = to.const([shape[0], channels, height, width], np.int64)
    to.put(op.outputs[0], to.node("Resize", [x, "", "", sizes], attributes)[0], first=last)


@MINDSPORE.of("DepthToSpace")
def depth_to_space(to: Speller, op: Operation) -> None:
    """x; the blocks come before the channels, as in TensorFlow, unless `mode` says CRD."""
    x, last = window(to, op, needed(op, 0))
    mode = "CRD" if op.attributes.get("mode") == "CRD" else "DCR"
    made = to.one("DepthToSpace", x, blocksize=int(op.attributes["block_size"]), mode=mode)
    to.put(op.outputs[0], made, first=last)


@MINDSPORE.of("SpaceToDepth")
def space_to_depth(to: Speller, op: Operation) -> None:
    """x."""
    x, last = window(to, op, needed(op, 0))
    to.put(op.outputs[0], to.one("SpaceToDepth", x, blocksize=int(op.attributes["block_size"])), first=last)


@MINDSPORE.of("LRN")
def lrn(to: Speller, op: Operation) -> None:
    """x, over channels; alpha is for each element of the window, ONNX's for all of them."""
    x, last = window(to, op, needed(op, 0))
    if op.attributes.get("norm_region") not in ("", None, "ACROSS_CHANNELS"):
        raise Unspelled(f"its norm_region is {op.attributes['norm_region']}")
    size = 2 * int(op.attributes["depth_radius"]) + 1
    made = to.one(
        "LRN",
        x,
        size=size,
        alpha=float(op.attributes["alpha"]) * size,
        beta=float(op.attributes["beta"]),
        bias=float(op.attributes["bias"]),
    )
    to.put(op.outputs[0], made, first=last)


def _new_size(to: Speller, op: Operation) -> tuple[int, int]:
    """Height and width of what Resize makes."""
    array = to.constant(given(op, 1))
    if given(op, 1) is None or (array is not None and not array.size):
        return int(op.attributes["new_height"]), int(op.attributes["new_width"])
    array = to.known(given(op, 1), "size").reshape(-1)
    if array.size == 4:
        array = array[1:3] if op.attributes.get("format", NHWC) == NHWC else array[2:]
    if array.size != 2:
        raise Unspelled(f"its size has {array.size} numbers")
    if array.dtype.kind != "f":
        return int(array[0]), int(array[1])
    height, width = spatial(to, op, needed(op, 0))
    return int(height * float(array[0])), int(width * float(array[1]))


def _pair(op: Operation, name: str) -> list[int]:
    found = [*numbers(op.attributes.get(name) or (1, 1))]
    return found if len(found) == 2 else found * 2


def _pads(to: Speller, op: Operation, kernel: tuple[int, int], name: str, strides: str) -> list[int]:
    """Pads as ONNX has them: low edges, then high ones."""
    mode = int(op.attributes.get("pad_mode", _PAD))
    if mode == _VALID:
        return [0, 0, 0, 0]
    if mode == _PAD:
        low_h, high_h, low_w, high_w = numbers(op.attributes.get(name) or (0, 0, 0, 0))
        return [low_h, low_w, high_h, high_w]
    size = spatial(to, op, needed(op, 0))
    step, dilation = _pair(op, strides), _pair(op, "dilation")
    spare = [
        max((-(-size[i] // step[i]) - 1) * step[i] + dilation[i] * (kernel[i] - 1) + 1 - size[i], 0)
        for i in range(2)
    ]
    lows = [n // 2 for n in spare]
    return [*lows, *(n - low for n, low in zip(spare, lows, strict=True))]
