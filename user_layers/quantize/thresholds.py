"""From values to thresholds: what is beyond them is cut, so that what is below has finer steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from firmware_sim.errors import MissingError, UsageError
from firmware_sim.suggest import did_you_mean
from user_layers.quantize.table import LEAST, MOST, Range

F64 = npt.NDArray[np.float64]
_BINS = 2048
_ENTROPY_BINS, _STEPS = 1024, 256  # of both signs; more bins take seconds for each tensor
_PEAK_OF = 4096  # values of a channel: of n, one in n others is larger, and what is cut off is 44 dB down
_PEAK_FROM = 256  # values: of fewer the largest one says nothing of a channel
_SEARCHED = 128  # thresholds that the method `mse` compares


@dataclass
class Statistics:
    """Of one tensor over all inputs: a histogram of magnitudes whose range grows as values do, ends, sums.
    channels: which dimension they are; odd: whether there were NaN or infinities."""

    low: float = np.inf
    high: float = -np.inf
    count: int = 0
    squares: float = 0.0
    limit: float = 0.0
    histogram: F64 = field(default_factory=lambda: np.zeros(_BINS))
    sums: F64 | None = None
    peaks: F64 | None = None
    places: int = 0
    channels: int = 1
    odd: bool = False

    def add(self, values: npt.NDArray[np.float32]) -> None:
        """The values of one run. NaN and infinities count for nothing."""
        wide = values.astype(np.float64)
        finite = wide[np.isfinite(wide)]
        self.odd |= finite.size < wide.size
        if finite.size == 0:
            return
        magnitudes = np.abs(finite)
        largest = float(magnitudes.max())
        while self.limit < largest:
            self._widen(largest)
        self.low, self.high = min(self.low, float(finite.min())), max(self.high, float(finite.max()))
        self.count += finite.size
        self.squares += float(np.square(finite).sum())
        if self.limit > 0:
            found, _ = np.histogram(magnitudes, _BINS, (0.0, self.limit))
            self.histogram += found
        else:
            self.histogram[0] += finite.size
        if wide.ndim > 1 and finite.size == wide.size:
            axes = tuple(axis for axis in range(wide.ndim) if axis != self.channels % wide.ndim)
            sums = wide.sum(axes)
            self.sums = sums if self.sums is None else self.sums + sums
            peaks = np.abs(wide).max(axes)
            self.peaks = peaks if self.peaks is None else np.maximum(self.peaks, peaks)
            self.places += wide.size // wide.shape[self.channels]

    def _widen(self, largest: float) -> None:
        """Room for larger magnitudes: bins are joined by twos."""
        if self.limit == 0.0:
            self.limit = largest
            return
        self.limit *= 2
        joined = self.histogram.reshape(-1, 2).sum(1)
        self.histogram = np.concatenate([joined, np.zeros(_BINS // 2)])

    def range(self, method: Method) -> Range | None:
        """What the table says; None where nothing but zeros (or no number) was seen, what is as little, or
        what is too large."""
        if self.too_large or not self.limit > LEAST:
            return None
        largest = max(-self.low, self.high)
        threshold = max(min(method(self.histogram, self.limit, self.low < 0), largest), LEAST)
        mean = () if self.sums is None or self.places == 0 else tuple(self.sums / self.places)
        return Range(self.low, self.high, threshold, self.squares / self.count, mean, self._peaks())

    @property
    def too_large(self) -> bool:
        """Whether there were finite numbers of which single precision has no steps."""
        return self.limit >= MOST

    def _peaks(self) -> tuple[float, ...]:
        """The largest magnitude of each channel; of few values what it would be of more, were they normal:
        it grows with the root of the logarithm of their number."""
        if self.peaks is None or self.places < _PEAK_FROM:
            return ()
        return tuple(self.peaks * max(np.sqrt(np.log(_PEAK_OF) / np.log(self.places)), 1.0))


Method = Callable[[F64, float, bool], float]
"""A histogram of magnitudes, its upper end, and whether there are negative values -> a threshold."""


def largest(histogram: F64, limit: float, signed: bool) -> float:
    """Nothing is cut."""
    return limit


def percentile(histogram: F64, limit: float, signed: bool) -> float:
    """One of ten thousand values is cut."""
    share = np.cumsum(histogram) / histogram.sum()
    return limit * (int(np.searchsorted(share, 0.9999)) + 1) / len(histogram)


def least_squares(histogram: F64, limit: float, signed: bool) -> float:
    """The threshold with the least mean square error of rounding and cutting together."""
    width = limit / len(histogram)
    centres = (np.arange(len(histogram)) + 0.5) * width
    steps = 127 if signed else 255
    best = (np.inf, limit)
    for part in range(_SEARCHED // 8, _SEARCHED + 1):
        threshold = limit * part / _SEARCHED
        scale = threshold / steps
        error = np.where(centres <= threshold, scale**2 / 12, (centres - threshold) ** 2)
        best = min(best, (float((histogram * error).sum()), threshold))
    return best[1]


def entropy(histogram: F64, limit: float, signed: bool) -> float:
    """The threshold whose integers' distribution says most of that of the values, by onnxruntime's
    calibration."""
    try:
        from onnxruntime.quantization.calibrate import HistogramCollector
    except ImportError as e:
        raise MissingError(
            "the method 'entropy' is onnxruntime's, which is not installed", hint="pip install tpulayer[onnx]"
        ) from e
    collector = HistogramCollector("entropy", True, _ENTROPY_BINS, _STEPS, 0, "same")
    joined = histogram.reshape(_ENTROPY_BINS // 2, -1).sum(1)
    both = np.concatenate([joined[::-1], joined])
    edges = np.linspace(-limit, limit, len(both) + 1)
    _, high, *_ = collector.get_entropy_threshold((both, edges, -limit, limit, limit), _STEPS)
    return float(high)


METHODS: Mapping[str, Method] = {
    "minmax": largest,
    "percentile": percentile,
    "mse": least_squares,
    "entropy": entropy,
}


def method_of(name: str) -> Method:
    """By its name. Errors: UsageError."""
    if name not in METHODS:
        raise UsageError(
            f"no calibration method {name!r}{did_you_mean(name, METHODS)}",
            hint=f"the methods are {', '.join(METHODS)}",
        )
    return METHODS[name]
