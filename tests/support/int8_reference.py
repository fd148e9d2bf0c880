"""TPU_CONV_INT8 as plain integers: what its commands compute, without lanes, words or tiles."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.support.quantised import Array, half_up, saturated
from tests.support.window_layers import Pads, convolution


def conv_int8(
    x: Array,
    w: Array,
    bias: Array | None,
    rshift: int,
    relu: bool,
    *,
    groups: int = 1,
    stride: Sequence[int] = (1, 1),
    dilation: Sequence[int] = (1, 1),
    pads: Pads = (0, 0, 0, 0),
) -> Array:
    """[N, OC, OH, OW]; float64 holds the sums exactly."""
    sums = convolution(x, w, None, groups, stride, dilation, pads)
    if bias is not None:
        sums = sums + bias.reshape(1, -1, 1, 1)
    return saturated(half_up(sums.astype(np.int64), rshift), "uint8" if relu else "int8")
