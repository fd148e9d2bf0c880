"""How near the numbers of a quantised net are to those of the float net."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.generic]


def sqnr(want: Array, got: Array) -> float:
    """Signal to quantisation noise in dB: infinite where both are equal, minus infinity where nothing was
    wanted but something came."""
    wide = want.astype(np.float64)
    noise = float(np.square(wide - got.astype(np.float64)).sum())
    signal = float(np.square(wide).sum())
    if noise == 0:
        return math.inf
    return 10 * math.log10(signal / noise) if signal else -math.inf


def cosine(want: Array, got: Array) -> float:
    """Of the angle between both as vectors; 1 where both are 0."""
    a, b = want.astype(np.float64).ravel(), got.astype(np.float64).ravel()
    length = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / length if length else float(not (a.any() or b.any()))


def line(name: str, want: Array, got: Array) -> str:
    """For the log."""
    return f"{name}: {sqnr(want, got):.1f} dB of signal over what 8 bits add, cosine {cosine(want, got):.6f}"
