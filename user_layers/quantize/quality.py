"""How near the numbers of a quantised net are to those of the float net."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from firmware_sim.shown import count
from user_layers.quantize.report import some

Array = npt.NDArray[np.generic]
_USELESS = 3.0  # dB: half as much noise as signal
_TOLD = 0.25  # of the noise: what is worth a word


@dataclass
class Sums:
    """Of one tensor: squares of what was wanted, of what came, of the difference, and their product. cut,
    vanished: of the difference, where integers end, and where they are 0 for what is not. odd: places where
    one of both is NaN or infinite, which no sum has."""

    want: float = 0.0
    got: float = 0.0
    noise: float = 0.0
    product: float = 0.0
    cut: float = 0.0
    vanished: float = 0.0
    odd: int = 0

    def add(self, want: Array, got: Array, ends: Array | None = None, zeros: Array | None = None) -> None:
        """The numbers of some samples. ends, zeros: not 0 where what came is the greatest or least integer,
        or 0."""
        a, b = want.astype(np.float64).ravel(), got.astype(np.float64).ravel()
        finite = np.isfinite(a) & np.isfinite(b)
        if not finite.all():
            self.odd += int(finite.size - np.count_nonzero(finite))
            a, b = a[finite], b[finite]
        noise = np.square(a - b)
        self.want += float(a @ a)
        self.got += float(b @ b)
        self.noise += float(noise.sum())
        self.product += float(a @ b)
        if ends is not None and zeros is not None:
            self.cut += float(noise[ends.ravel()[finite] != 0].sum())
            self.vanished += float(noise[zeros.ravel()[finite] != 0].sum())

    def merge(self, other: Sums) -> None:
        """Those of other samples."""
        self.want += other.want
        self.got += other.got
        self.noise += other.noise
        self.product += other.product
        self.cut += other.cut
        self.vanished += other.vanished
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
    def parts(self) -> tuple[float, float]:
        """cut and vanished in parts of the noise."""
        return (self.cut / self.noise, self.vanished / self.noise) if self.noise else (0.0, 0.0)

    @property
    def why(self) -> str:
        """For people: what most of the noise is, where that is one of both, or nothing."""
        cut, vanished = self.parts
        said = [f"{cut:.0%} beyond the range"] if cut >= _TOLD else []
        said += [f"{vanished:.0%} became 0"] if vanished >= _TOLD else []
        return f"  ({', '.join(said)})" if said else ""

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


def line(name: str, sums: Sums, *, nothing: bool = False) -> str:
    """Of an output for the log. nothing: the net that made it has no layer in 8 bits."""
    added = "the distance (nothing is in 8 bits)" if nothing else "what 8 bits add"
    far = f"{sums.sqnr:.1f} dB of signal over {added}"
    return f"{name}: {far}, cosine {sums.cosine:.6f}{sums.left_out}"


def useless(outputs: Mapping[str, Sums]) -> list[str]:
    """For the log, a warning where 8 bits leave next to nothing of outputs, which have names."""
    lost = [name for name, sums in outputs.items() if sums.sqnr < _USELESS]
    if not lost:
        return []
    least = min(outputs[name].sqnr for name in lost)
    return [
        f"warning: the net is of no use: noise is most of {some(lost)} ({least:.1f} dB); calibrate with data "
        "like the net's own, see where the noise comes from (`tpulayer evaluate DIR --data DATA --layers`), "
        "and leave such layers in fp32 (--fp32, --search)"
    ]
