"""Where two arrays differ first, and how often."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Difference:
    """index: of the first element that differs; got, want: its values; count: of the elements that differ."""

    index: tuple[int, ...]
    got: Any
    want: Any
    count: int
    elements: int

    def __str__(self) -> str:
        return (
            f"DIFFERS in {self.count} of {self.elements} elements, first at {list(self.index)}: "
            f"{self.got!s}, numpy {self.want!s}"
        )


def difference(
    got: NDArray[Any], want: NDArray[Any], atol: float | None = None, rtol: float | None = None
) -> Difference | None:
    """How `got` differs from `want`, arrays of one shape and dtype; None when it does not.

    Without tolerances the bits must be the same, but any NaN equals any NaN. With one: equal values, or at
    most atol + rtol * |want| apart.
    """
    both_nan = np.isnan(got) & np.isnan(want) if want.dtype.kind == "f" else False
    if atol is None and rtol is None:
        bits = f"u{want.itemsize}"
        same = np.ascontiguousarray(got).view(bits) == np.ascontiguousarray(want).view(bits)
    else:
        wide = np.float64 if want.dtype.kind == "f" else np.int64
        g, w = got.astype(wide), want.astype(wide)
        with np.errstate(invalid="ignore"):
            near = np.abs(g - w) <= (atol or 0) + (rtol or 0) * np.abs(w)
        same = (g == w) | (near & np.isfinite(w))
    wrong = ~(same | both_nan)
    count = int(np.count_nonzero(wrong))
    if not count:
        return None
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(wrong)), wrong.shape))
    return Difference(index, got[index], want[index], count, want.size)
