"""Scales, shifts and multipliers for what the chip's 8-bit commands can do.

A convolution has one right shift for all its channels, so its weights lie on a grid of s_out / s_in *
2^-rshift: up to one of their eight bits is lost unless the scale of the result is chosen for them. So scales
of results are free between that of their threshold and 1.41 times that, and the one with the least expected
error is taken.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from firmware_sim.wire import DType
from user_layers.quantize.rounding import balanced, rounded

F64 = npt.NDArray[np.float64]

STRETCH = math.sqrt(2)
"""How far a scale may be from that of its threshold."""
_CANDIDATES = 33
_RSHIFT_MAX = 31
_BIAS_MAX = 32767
_COARSE = 8  # multipliers below that are far from the wanted ones
_PARTS = 8  # of a result's step, to which the operand of such a one is rounded before
# Of a sum with such an operand, at most: its multiplier is 2**k / _PARTS.
_PARTS_SHIFT = int(math.log2(127 * _PARTS))


@dataclass(frozen=True)
class Step:
    """What an integer of a tensor stands for: value = scale x integer."""

    scale: float
    signed: bool

    @property
    def dtype(self) -> DType:
        """int8 or uint8."""
        return DType.INT8 if self.signed else DType.UINT8

    @property
    def largest(self) -> int:
        """The greatest integer."""
        return 127 if self.signed else 255

    @staticmethod
    def for_threshold(threshold: float, signed: bool) -> Step:
        """That whose greatest integer stands for the threshold."""
        return Step(float(np.float32(threshold / (127 if signed else 255))), signed)


@dataclass(frozen=True)
class Weights:
    """A convolution in integers. weights: int8, in the shape of those in float; bias: int16, or None. scale:
    of the result. short: bits of the weights that were given up for a bias that did not fit."""

    weights: npt.NDArray[np.int8]
    bias: npt.NDArray[np.int16] | None
    rshift: int
    scale: float
    short: int = 0


def quantised_weights(
    weights: F64,
    bias: F64 | None,
    source: Step,
    result: Step,
    *,
    free: bool,
    power: float,
    mean: F64 | None = None,
    groups: int = 1,
) -> Weights | None:
    """Weights [OC, IC / groups, ...] and a bias for an input of scale `source` and a result near `result`.

    free: the scale of the result may be up to 1.41 times `result`'s, where that gains more than it loses.
    power: mean square of the input's values; mean: the mean of each of its channels (or of each tap of
    each), with which the bias is corrected for what rounding the weights adds. None where no shift serves:
    weights that are too large for the result.
    """
    top = float(np.abs(weights).max(initial=0.0))
    if top == 0.0:
        top = result.scale / source.scale  # any grid serves
    fan_in = weights[0].size
    best = best_grid(top, bias, source, result, free=free, power=fan_in * power)
    if best is None:
        return None
    scale, rshift = best
    factor = source.scale / scale * 2.0**rshift
    ideal = weights * factor
    if mean is None:  # what is lost on average can be taken from the losses alone
        integers = balanced(ideal.reshape(len(weights), weights.shape[1], -1)).reshape(weights.shape)
    else:
        integers = rounded(ideal)
    corrected = np.zeros(len(weights)) if bias is None else bias
    if mean is not None:
        lost = (weights - integers / factor).reshape(groups, -1, weights.shape[1], fan_in // weights.shape[1])
        per_channel = mean.reshape(groups, 1, weights.shape[1], -1)
        corrected = corrected + (lost * per_channel).sum((2, 3)).reshape(-1)
    shifted = np.clip(np.rint(corrected * 2.0**rshift / scale), -_BIAS_MAX, _BIAS_MAX)
    unlimited = _largest_shift(top, None, source.scale, scale)
    return Weights(
        integers.astype(np.int8),
        shifted.astype(np.int16) if np.any(shifted) else None,
        rshift,
        scale,
        (unlimited if unlimited is not None else rshift) - rshift,
    )


def best_grid(
    top: float, bias: F64 | None, source: Step, result: Step, *, free: bool, power: float
) -> tuple[float, int] | None:
    """The scale of a result and the right shift with the least expected error, or None. top: the largest
    weight's magnitude; power: the mean square of the input's values times how many are added up; the rest is
    as of `quantised_weights`."""
    best: tuple[float, float, int] | None = None
    for factor in np.geomspace(1, STRETCH, _CANDIDATES) if free else (1.0,):
        scale = float(np.float32(result.scale * factor))
        rshift = _largest_shift(top, bias, source.scale, scale)
        if rshift is None:
            continue
        error = scale**2 + power * (scale / source.scale * 2.0**-rshift) ** 2
        if best is None or error < best[0]:
            best = error, scale, rshift
    return None if best is None else best[1:]


def _largest_shift(top: float, bias: F64 | None, source: float, scale: float) -> int | None:
    """The largest with which weights stay within 127 and biases within int16."""
    rshift = math.floor(math.log2(127.49 * scale / (source * top)))
    if bias is not None and np.any(bias):
        # One unit is left for the correction of the bias, which is far smaller.
        most = math.floor(math.log2((_BIAS_MAX - 1) * scale / float(np.abs(bias).max())))
        rshift = min(rshift, most)
    return min(rshift, _RSHIFT_MAX) if rshift >= 0 else None


def multiplier(ratio: float) -> tuple[int, int]:
    """(m, k) with m / 2^k nearest to a positive ratio, m at most 127; k is 0 where the ratio is larger than
    127, and the product saturates."""
    k = min(max(math.floor(math.log2(127.49 / ratio)), 0), _RSHIFT_MAX)
    return min(max(round(ratio * 2**k), 1), 127), k


@dataclass(frozen=True)
class Sum:
    """y = (a * multiplier_a + b * multiplier_b + half) >> rshift, with the scale of y. finer: the
    scales to which operands, "a" or "b", are brought before, whose multipliers would be too small."""

    multiplier_a: int
    multiplier_b: int
    rshift: int
    scale: float
    finer: Mapping[str, float] = field(default_factory=dict)


def sum_of(a: Step, b: Step, result: Step, *, free: bool, sizes: tuple[float, float]) -> Sum:
    """Multipliers for a sum: of the scales that are allowed that with the least expected error. sizes: mean
    squares of both operands."""
    best: tuple[float, Sum] | None = None
    for factor in np.geomspace(1, STRETCH, _CANDIDATES) if free else (1.0,):
        scale = float(np.float32(result.scale * factor))
        larger = max(a.scale, b.scale) / scale
        k = min(max(math.floor(math.log2(127.49 / larger)), 0), 15)
        if min(a.scale, b.scale) / scale * 2**k < _COARSE:  # its multiplier says parts of the result's step
            k = min(k, _PARTS_SHIFT)
        error, m, finer = scale**2 / 12, [], {}
        for name, one, size in zip("ab", (a, b), sizes, strict=True):
            exact = one.scale / scale * 2**k
            if exact < _COARSE and 2**k >= _PARTS:
                finer[name] = scale / _PARTS
                m.append(2**k // _PARTS)
                error += (scale / _PARTS) ** 2 / 12
            else:
                m.append(min(max(round(exact), 1), 127))
                error += (m[-1] / exact - 1) ** 2 * size
        if best is None or error < best[0]:
            best = error, Sum(m[0], m[1], k, scale, finer)
    assert best is not None
    return best[1]


def product_step(a: Step, b: Step, threshold: float, signed: bool) -> tuple[Step, int]:
    """The scale of a product and its right shift: the least power of two times the operands' with which the
    threshold fits."""
    largest = 127 if signed else 255
    k = min(max(math.ceil(math.log2(threshold / largest / (a.scale * b.scale))), 0), _RSHIFT_MAX)
    return Step(float(np.float32(a.scale * b.scale * 2**k)), signed), k
