"""Constants in the layouts that the built-in layers' kernels want."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from firmware_sim.errors import UsageError

Floats = npt.NDArray[np.float32]


def conv_weights(weights: npt.ArrayLike, groups: int = 1) -> Floats:
    """The second input of TPU_CONV from weights [OC, IC / groups, KH, KW].

    Depthwise (groups == IC == OC > 1): [1, OC, KH, KW]. Otherwise [1, OC, P, KH * KW * 2] with the input
    channels of a group in P = ceil(IC / groups / 2) pairs, side by side, the last one filled up with zeros:
    what okk_bdc_conv2d reads with kernel_stride [KH * KW, P * KH * KW, KW, 1].
    Errors: UsageError for weights that have not four dimensions or do not divide into the groups.
    """
    w = _four(weights, "weights of a convolution")
    out_c, in_c, h, k = w.shape
    if groups < 1 or out_c % groups:
        raise UsageError(f"{out_c} output channels do not divide into {groups} groups")
    if groups == out_c > 1 and in_c == 1:
        return np.ascontiguousarray(w.reshape(1, out_c, h, k))
    return _pairs(w)


def deconv_weights(weights: npt.ArrayLike, groups: int = 1) -> Floats:
    """The second input of TPU_DECONV from weights [IC, OC / groups, KH, KW] as ONNX's ConvTranspose has them.

    Result: [1, OC, P, KH * KW * 2] as conv_weights has it for groups that are not depthwise; the kernel is
    not turned (the layer asks the instruction to).
    Errors: UsageError for weights that have not four dimensions or do not divide into the groups.
    """
    w = _four(weights, "weights of a transposed convolution")
    in_c, out_c, h, k = w.shape
    if groups < 1 or in_c % groups:
        raise UsageError(f"{in_c} input channels do not divide into {groups} groups")
    apart = w.reshape(groups, in_c // groups, out_c, h, k).transpose(0, 2, 1, 3, 4)
    return _pairs(apart.reshape(groups * out_c, in_c // groups, h, k))


def channel_bias(bias: npt.ArrayLike) -> Floats:
    """A bias of C numbers as [1, C, 1, 1], which local functions can take too."""
    return np.asarray(bias, np.float32).reshape(1, -1, 1, 1)


def _four(weights: npt.ArrayLike, what: str) -> Floats:
    w = np.asarray(weights, np.float32)
    if w.ndim != 4:
        raise UsageError(
            f"the {what} have {w.ndim} dimensions", hint="four: channels, channels, rows, columns"
        )
    return w


def _pairs(w: npt.NDArray[Any]) -> Floats:
    """[OC, IC, KH, KW] -> [1, OC, pairs, KH * KW * 2]"""
    out_c, in_c, h, k = w.shape
    pairs = -(-in_c // 2)
    full = np.zeros((out_c, 2 * pairs, h * k), np.float32)
    full[:, :in_c] = w.reshape(out_c, in_c, h * k)
    return np.ascontiguousarray(full.reshape(out_c, pairs, 2, h * k).transpose(0, 1, 3, 2)).reshape(
        1, out_c, pairs, -1
    )
