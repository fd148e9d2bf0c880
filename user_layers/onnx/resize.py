"""What an ONNX Resize reads along one axis: indices and weights for TPU_RESIZE, or indices for TPU_GATHER.

Coordinates are computed in float32, as onnxruntime does, so that borders fall to the same side.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firmware_sim.errors import UsageError

Array = NDArray[Any]

_ONE, _HALF = np.float32(1), np.float32(0.5)


@dataclass(frozen=True)
class Resize:
    """One axis of a Resize node, attributes as in ONNX.

    extent and length: of the input and the output. scale: the node's, or None where it gives sizes.
    roi: start and end of this axis, for tf_crop_and_resize.
    """

    extent: int
    length: int
    scale: float | None = None
    mode: str = "nearest"  # nearest, linear, cubic
    coordinates: str = "half_pixel"
    nearest: str = "round_prefer_floor"
    cubic_a: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False
    roi: tuple[float, float] = (0.0, 1.0)
    extrapolation: float = 0.0

    def taps(self) -> tuple[Array, Array]:
        """Indices [taps, length] and weights [taps, length] of TPU_RESIZE.

        Errors: UsageError for an unknown mode, for an extrapolation_value other than 0 that is needed, and
        for an input without elements.
        """
        if self.extent < 1:
            raise UsageError(
                f"an axis without elements cannot be resized to {self.length}",
                hint="give the input a shape without 0",
            )
        at = self._positions()
        outside = np.zeros(self.length, bool)
        if self.coordinates == "tf_crop_and_resize":
            outside = (at < 0) | (at > self.extent - 1)
            if outside.any() and self.extrapolation != 0:
                raise UsageError(
                    f"extrapolation_value {self.extrapolation} is needed, and only 0 can be had",
                    hint="keep roi inside the input, or set extrapolation_value to 0",
                )
        if self.mode == "nearest":
            indices, weights = self._nearest(at)[None], np.ones((1, self.length), np.float32)
        else:
            indices, weights = self._interpolated(at)
        weights = np.where(outside, np.float32(0), weights)
        return np.clip(indices, 0, self.extent - 1).astype(np.int32), weights.astype(np.float32)

    def gathered(self) -> Array | None:
        """Indices [length] with which TPU_GATHER does the same; None where weights are needed."""
        indices, weights = self.taps()
        first: Array = indices[0]
        return first if indices.shape[0] == 1 and bool((weights == 1).all()) else None

    def repeats(self) -> int | None:
        """How often each element comes, one after the other, where that is all; else None."""
        gathered = self.gathered()
        times, rest = divmod(self.length, self.extent)
        if gathered is None or rest or not np.array_equal(gathered, np.arange(self.length) // times):
            return None
        return times

    # ---- where the elements lie ----

    @property
    def _scale(self) -> Any:
        if self.scale is not None:
            return np.float32(self.scale)
        return np.float32(self.length) / np.float32(self.extent)

    def _positions(self) -> Array:
        """Positions in the input of the output's elements."""
        x = np.arange(self.length, dtype=np.float32)
        scale, extent = self._scale, np.float32(self.extent)
        if self.coordinates == "half_pixel":
            return np.asarray((x + _HALF) / scale - _HALF)
        if self.coordinates == "half_pixel_symmetric":
            adjustment = np.float32(self.length) / (scale * extent)
            offset = extent / np.float32(2) * (_ONE - adjustment)
            return np.asarray(offset + (x + _HALF) / scale - _HALF)
        if self.coordinates == "pytorch_half_pixel":
            return np.asarray((x + _HALF) / scale - _HALF) if self.length > 1 else np.zeros_like(x)
        if self.coordinates == "align_corners":
            if self.length == 1:
                return np.zeros_like(x)
            return np.asarray(x * (extent - _ONE) / np.float32(self.length - 1))
        if self.coordinates == "asymmetric":
            return np.asarray(x / scale)
        if self.coordinates == "tf_half_pixel_for_nn":
            return np.asarray((x + _HALF) / scale)
        if self.coordinates == "tf_crop_and_resize":
            start, end = np.float32(self.roi[0]), np.float32(self.roi[1])
            if self.length == 1:
                return np.full_like(x, _HALF * (start + end) * (extent - _ONE))
            return np.asarray(
                start * (extent - _ONE) + x * (end - start) * (extent - _ONE) / np.float32(self.length - 1)
            )
        raise UsageError(f"coordinate_transformation_mode {self.coordinates!r} is unknown")

    # ---- what they are made of ----

    def _nearest(self, at: Array) -> Array:
        if self.length == self.extent and self._scale == 1 and self.coordinates != "tf_crop_and_resize":
            return np.arange(self.length)
        if self.nearest == "round_prefer_floor":
            return np.asarray(np.ceil(at - _HALF))
        if self.nearest == "round_prefer_ceil":
            return np.asarray(np.floor(at + _HALF))
        if self.nearest == "floor":
            return np.asarray(np.floor(at))
        if self.nearest == "ceil":
            return np.asarray(np.ceil(at))
        raise UsageError(f"nearest_mode {self.nearest!r} is unknown")

    def _interpolated(self, at: Array) -> tuple[Array, Array]:
        if self.mode not in ("linear", "cubic"):
            raise UsageError(f"mode {self.mode!r} is unknown")
        if self.mode == "linear" and not self.antialias:  # the edge goes on outside
            at = np.clip(at, 0, self.extent - 1).astype(np.float32)
        shrink = min(1.0, float(self._scale)) if self.antialias else 1.0
        reach = (1 if self.mode == "linear" else 2) / shrink  # of the kernel, to each side
        first = np.floor(at - reach).astype(np.int64) + 1
        count = int(np.ceil(2 * reach))
        indices = first + np.arange(count)[:, None]
        distance = np.abs(indices - at.astype(np.float64)) * shrink
        weights = np.maximum(0, 1 - distance) if self.mode == "linear" else self._cubic(distance)
        inside = (indices >= 0) & (indices < self.extent)
        if self.exclude_outside:
            weights = np.where(inside, weights, 0)
        if self.exclude_outside or self.antialias:
            weights = weights / weights.sum(0)
        return indices, weights

    def _cubic(self, distance: Array) -> Array:
        a, d = self.cubic_a, distance
        near = ((a + 2) * d - (a + 3)) * d * d + 1
        far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
        result: Array = np.where(d <= 1, near, np.where(d < 2, far, 0))
        return result


def windows(indices: Array, extent: int) -> dict[str, int]:
    """Parameters of TPU_RESIZE beside the axis: where the elements lie that indices [taps, length] read.

    They are the `reach` elements from floor(i * numerator / denominator) + low on; extent: of what is read.
    """
    length = indices.shape[1]
    common = math.gcd(extent, length)
    spread = indices - np.arange(length, dtype=np.int64) * extent // length
    low = int(spread.min())
    return {
        "numerator": extent // common,
        "denominator": length // common,
        "low": low,
        "reach": int(spread.max()) - low + 1,
    }


_MOST_TIMES = 64  # of TPU_UPSAMPLE


def upsampling(plans: Mapping[int, Resize], dims: int) -> dict[str, int] | None:
    """The parameters of TPU_UPSAMPLE where it does the same as these steps, by axis of a tensor of `dims`
    dimensions; else None."""
    times = {axis: plan.repeats() or 0 for axis, plan in plans.items()}
    if dims != 4 or not times or not all(d in (2, 3) and 0 < n <= _MOST_TIMES for d, n in times.items()):
        return None
    return {"scale_h": times.get(2, 1), "scale_w": times.get(3, 1)}
