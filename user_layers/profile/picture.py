"""A picture of a run over time, of bounded size however many commands there are.

Slices of equal length show which share of each the engines work and wait, and for what; below are DDR and
local memory. A run of few commands shows each of them, too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from firmware_sim.checks.text import place
from firmware_sim.chip import LOCAL_BYTES
from firmware_sim.instructions.instruction import Engine
from user_layers.profile.counters import Slices, at_most, slices
from user_layers.profile.model import ENGINES, STALLS, Cause, Command, Profile, Times
from user_layers.report.svg import LETTER, Svg
from user_layers.report.time_axis import multiples, tick, tick_step

WIDTH = 1200
_LEFT, _RIGHT = 110, 20
_PLOT = WIDTH - _LEFT - _RIGHT
_SLICES = 530  # each two pixels wide
_TOLD = 106  # stretches that tell more when one points at them
_BAND, _CURVE = 56, 44
_EACH = 400  # commands that are drawn one by one

COLORS = {
    Cause.NONE: "#4c8c6b",
    Cause.DDR: "#e8b04b",
    Cause.ENGINE: "#d98c5f",
    Cause.CONTROLLER: "#b4656f",
    Cause.BATCH: "#d5d5d5",
    Cause.LAUNCH: "#a9b4c2",
}
_NAMES = {Engine.BD: "tensor unit", Engine.GDMA: "DMA engine"}
_CURVES = ("#5c9ead", "#9a7fb0")


def profile_picture(profile: Profile) -> str:
    """The SVG text; of a run that takes no time one that says so."""
    svg = Svg(WIDTH)
    svg.down(16)
    if not profile.cycles:
        svg.write(20, 0, "No commands ran.")
        return svg.text(profile.what)
    _legend(svg)
    found = slices(profile, _SLICES)
    for engine in ENGINES:
        _band(svg, profile, found, engine)
    _curve(svg, "DDR", found.ddr, at_most(found.ddr), f"{at_most(found.ddr):.1f} GB/s", _CURVES[0])
    local = f"{at_most(found.local) / 1024:.0f} of {LOCAL_BYTES >> 10} KiB"
    _curve(svg, "local memory", found.local, float(LOCAL_BYTES), local, _CURVES[1])
    for at in multiples(tick_step(profile.cycles), 0.0, profile.cycles):
        tick(svg, _LEFT + at / profile.cycles * _PLOT, 0, at)
    svg.down(24)
    if len(profile.columns) <= _EACH:
        _one_by_one(svg, profile)
    return svg.text(profile.what)


def _legend(svg: Svg) -> None:
    x = float(_LEFT)
    for cause in (Cause.NONE, *STALLS):
        text = "works" if cause is Cause.NONE else f"waits for {cause.words}"
        svg.rect(x, 0, 12, 12, COLORS[cause])
        svg.write(x + 17, 10, text)
        x += 17 + LETTER * 11 * len(text) + 22
    svg.down(24)


def _band(svg: Svg, profile: Profile, found: Slices, engine: Engine) -> None:
    """Shares of one engine's time, one above the other."""
    svg.write(_LEFT - 8, _BAND / 2 + 4, _NAMES[engine], anchor="end")
    low = np.zeros(_SLICES)
    for cause in (Cause.NONE, *STALLS):
        share = found.does[engine][cause]
        if at_most(share) > 0:
            _area(svg, low, low + share, _BAND, COLORS[cause])
        low = low + share
    step = _SLICES // _TOLD
    width = _PLOT / _TOLD
    for i in range(_TOLD):
        shares = {
            cause: float(one[i * step : (i + 1) * step].mean()) for cause, one in found.does[engine].items()
        }
        words = [f"works {shares[Cause.NONE]:.0%}"]
        words += [f"waits for {cause.words} {shares[cause]:.0%}" for cause in STALLS if shares[cause] > 0.004]
        begin, end = found.edges[i * step], found.edges[(i + 1) * step]
        svg.rect(_LEFT + i * width, 0, width, _BAND, "transparent", "\n".join([_span(begin, end), *words]))
    svg.down(_BAND + 8)


def _curve(svg: Svg, name: str, values: Times, top: float, most: str, color: str) -> None:
    svg.write(_LEFT - 8, _CURVE / 2, name, anchor="end")
    svg.write(_LEFT - 8, _CURVE / 2 + 12, most, anchor="end", size=9)
    svg.rect(_LEFT, 0, _PLOT, _CURVE, "#f6f6f6", f"{name}, at most {most}")
    if top > 0:
        _area(svg, np.zeros(_SLICES), values / top, _CURVE, color)
    svg.down(_CURVE + 8)


def _area(svg: Svg, low: Times, high: Times, height: int, color: str) -> None:
    """Between two heights, in parts, of each slice: steps, drawn only where they change."""
    points = _steps(high, height)
    svg.area([*points, *reversed(_steps(low, height))], color)


def _steps(values: Times, height: int) -> list[tuple[float, float]]:
    y = (np.round((1 - np.clip(values, 0.0, 1.0)) * height, 1)).tolist()
    width = _PLOT / _SLICES
    points = [(float(_LEFT), y[0])]
    for i in range(1, _SLICES):
        if y[i] != y[i - 1]:
            points += [(_LEFT + i * width, y[i - 1]), (_LEFT + i * width, y[i])]
    return [*points, (float(_LEFT + _PLOT), y[-1])]


def _one_by_one(svg: Svg, profile: Profile) -> None:
    svg.down(26)
    svg.write(20, 0, "Each command; those that decide how long it takes have a dark edge", bold=True, size=13)
    svg.down(12)
    y = {engine: number * 30 for number, engine in enumerate(ENGINES)}
    for engine in ENGINES:
        svg.write(_LEFT - 8, y[engine] + 15, _NAMES[engine], anchor="end")
        svg.rect(_LEFT, y[engine], _PLOT, 24, "#f4f4f4")
    scale = _PLOT / profile.cycles
    for one in profile.commands():
        x, width = _LEFT + one.start * scale, one.cycles * scale
        edge = "#222222" if one.critical >= one.cycles > 0 else "#ffffff"
        color = COLORS[Cause.DDR] if one.moved.ddr else COLORS[Cause.NONE]
        svg.rect(x, y[one.engine], width, 24, color, command_text(one), line=edge)
        svg.label(x, y[one.engine], width, 24, one.name, size=10)
    svg.down(60)
    for at in multiples(tick_step(profile.cycles), 0.0, profile.cycles):
        tick(svg, _LEFT + at * scale, 0, at)
    svg.down(24)


def command_text(one: Command) -> str:
    """What there is to say of a command, in lines."""
    lines = [f"{one.engine.value} {one.id} {one.name}", _span(one.start, one.end)]
    if one.cause is not Cause.NONE:
        lines.append(f"after {one.stall:,.0f} cycles of waiting for {one.cause.words}")
    lines += _places(one)
    return "\n".join([*lines, *one.operands])


def _places(one: Command) -> Sequence[str]:
    named = (("layer", one.issued.layer), ("node", one.issued.node), ("tile", one.issued.tile))
    return [*map(place, one.issued.frames), *(f"{word} {value}" for word, value in named if value)]


def _span(begin: float, end: float) -> str:
    return f"{end - begin:,.0f} cycles, from {begin:,.0f} to {end:,.0f}"
