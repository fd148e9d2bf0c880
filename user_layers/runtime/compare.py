"""When a result counts as equal to its reference: the vendor's bmrt_test rules.

Floating point: where either value is beyond 1 the relative difference counts (to the smaller one),
elsewhere the absolute one; both may be `accuracy_f`. Integers may differ by `accuracy_i`. Stricter than
the vendor's: a NaN or an infinity on one side only is always a difference.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from firmware_sim.device.api import Array

TINY = 1e-20  # a value beyond 1 compared with one below this differs, whatever the accuracy
SHOWN = 8


def differences(expected: Array, got: Array, accuracy_f: float, accuracy_i: int) -> npt.NDArray[np.int64]:
    """Flat indices of the elements that differ; both arrays have one size and dtype."""
    if np.issubdtype(expected.dtype, np.integer):
        distance = np.abs(expected.reshape(-1).astype(np.int64) - got.reshape(-1).astype(np.int64))
        return np.flatnonzero(distance > accuracy_i)
    e, g = expected.reshape(-1).astype(np.float64), got.reshape(-1).astype(np.float64)
    same = (e == g) | (np.isnan(e) & np.isnan(g))
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        big, small = np.maximum(np.abs(e), np.abs(g)), np.minimum(np.abs(e), np.abs(g))
        apart = np.abs(e - g)
        relative = (small >= TINY) & (apart <= accuracy_f * small)
        near = np.where(big > 1, relative, apart <= accuracy_f)
    near &= np.isfinite(e) & np.isfinite(g)
    return np.flatnonzero(~(same | near))


def report(name: str, expected: Array, got: Array, wrong: npt.NDArray[np.int64]) -> list[str]:
    """Lines that show the first differences and how many there are."""
    e, g = expected.reshape(-1), got.reshape(-1)
    lines = [f"{name}: index {i}: expected {e[i]!s}, got {g[i]!s}" for i in wrong[:SHOWN].tolist()]
    lines.append(f"{name}: {len(wrong)} of {e.size} elements differ")
    return lines
