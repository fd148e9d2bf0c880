"""How near the numbers of a quantised net are to those of the float net."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from firmware_sim.shown import count
from user_layers.quantize.report import some

Array = npt.NDArray[np.generic]
_USELESS = 3.0  # dB: half as much noise as signal


@dataclass
class Sums:
    """Of one tensor: squares of what was wanted, of what came, of the difference, and their product. odd:
    places where one of both is NaN or infinite, which no sum has."""

    want: float = 0.0
    got: float = 0.0
    noise: float = 0.0
    product: float = 0.0
    odd: int = 0

    def add(self, want: Array, got: Array) -> None:
        """The numbers of some samples."""
        a, b = want.astype(np.float64).ravel(), got.astype(np.float64).ravel()
        finite = np.isfinite(a) & np.isfinite(b)
        if not finite.all():
            self.odd += int(finite.size - np.count_nonzero(finite))
            a, b = a[finite], b[finite]
        self.want += float(a @ a)
        self.got += float(b @ b)
        self.noise += float(np.square(a - b).sum())
        self.product += float(a @ b)

    def merge(self, other: Sums) -> None:
        """Those of other samples."""
        self.want += other.want
        self.got += other.got
        self.noise += other.noise
        self.product += other.product
        self.odd += other.odd

    @property
    def empty(self) -> bool:
        """Whether all places were left out, or those that were not hold zeros in both."""
        return bool(self.odd) and self.want == self.got == 0

    @property
    def sqnr(self) -> float:
        """Signal to quantisation noise in dB: infinite where both are equal, minus infinity where nothing was
        wanted but something came, NaN where there was no number to compare."""
        if self.empty:
            return math.nan
        if self.noise == 0:
            return math.inf
        return 10 * math.log10(self.want / self.noise) if self.want else -math.inf

    @property
    def cosine(self) -> float:
        """Of the angle between wanted and made as vectors; 1 where both are 0, NaN as sqnr."""
        if self.empty:
            return math.nan
        length = math.sqrt(self.want * self.got)
        return self.product / length if length else float(self.want == self.got)

    @property
    def left_out(self) -> str:
        """For people: what no sum has, or nothing."""
        return (
            f", without {count(self.odd, 'number')} that are NaN or infinite in one net" if self.odd else ""
        )


def compared(want: Array, got: Array) -> Sums:
    """Of two arrays alone."""
    sums = Sums()
    sums.add(want, got)
    return sums


def line(name: str, want: Array, got: Array, *, nothing: bool = False) -> str:
    """For the log. nothing: the net that made it has no layer in 8 bits."""
    sums = compared(want, got)
    added = "the distance (nothing is in 8 bits)" if nothing else "what 8 bits add"
    far = f"{sums.sqnr:.1f} dB of signal over {added}"
    return f"{name}: {far}, cosine {sums.cosine:.6f}{sums.left_out}"


def useless(outputs: Mapping[str, Sequence[Array]]) -> list[str]:
    """For the log, a warning where 8 bits leave next to nothing of outputs: what was wanted and what came, by
    names."""
    found = {name: compared(*two).sqnr for name, two in outputs.items()}
    lost = [name for name, sqnr in found.items() if sqnr < _USELESS]
    if not lost:
        return []
    least = min(found[name] for name in lost)
    return [
        f"warning: the net is of no use: noise is most of {some(lost)} ({least:.1f} dB); calibrate with data "
        "like the net's own, see where the noise comes from (`tpulayer evaluate DIR --data DATA --layers`), "
        "and leave such layers in fp32 (--fp32, --search)"
    ]
