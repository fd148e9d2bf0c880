"""The axis of pictures over time: where its marks are, and drawing one."""

from __future__ import annotations

import math
from collections.abc import Iterator

from user_layers.report.svg import Svg

_TICKS = 10


def tick(svg: Svg, x: float, y: float, cycles: float) -> None:
    """A mark with its number of cycles below it."""
    svg.line(x, y, x, y + 4, "#888888")
    svg.write(x, y + 15, _short(cycles), anchor="middle", size=10)


def tick_step(cycles: float) -> float:
    """1, 2 or 5 times a power of ten, so that there are at most about _TICKS."""
    least = cycles / _TICKS
    if least <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * f for f in (1, 2, 5, 10) if power * f >= least)


def multiples(step: float, start: float, end: float) -> Iterator[float]:
    """The multiples of a step in [start, end)."""
    at = math.ceil(start / step - 1e-9)
    while at * step < end:
        yield at * step
        at += 1


def _short(cycles: float) -> str:
    for unit, name in ((1e6, "M"), (1e3, "k")):
        if cycles >= unit:
            return f"{cycles / unit:g}{name}"
    return f"{cycles:g}"
