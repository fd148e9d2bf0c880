"""Constants of convolutions as the layers take them: what ONNX has; their descriptors lay them out."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]


def conv_weights(weights: npt.ArrayLike, groups: int = 1) -> Floats:
    """[OC, IC / groups, KH, KW], as they are."""
    return np.asarray(weights, np.float32)


def deconv_weights(weights: npt.ArrayLike, groups: int = 1) -> Floats:
    """[IC, OC / groups, KH, KW], as they are."""
    return np.asarray(weights, np.float32)


def channel_bias(bias: npt.ArrayLike) -> Floats:
    """C numbers as [1, C, 1, 1]."""
    return np.asarray(bias, np.float32).reshape(1, -1, 1, 1)
