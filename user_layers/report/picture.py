"""A picture of local memory over time: one SVG file that needs nothing else.

First the whole net, then groups: what lies where in the banks that they use, and below it what both engines
do at that time. Of a group with many tiles the first ones and the last are drawn. A group of one layer is
drawn where it is the only one; of the others those that take longest, as far as there is room.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from firmware_sim.chip import BANK_BYTES, CLOCK_HZ, LOCAL_BANKS, LOCAL_BYTES
from firmware_sim.instructions.instruction import Engine
from firmware_sim.isa import timing
from firmware_sim.shown import count
from user_layers.report.model import (
    Bar,
    GroupReport,
    NetReport,
    NodeReport,
    PartReport,
    Role,
    StageReport,
    Stay,
    Work,
    total,
)
from user_layers.report.svg import LETTER, Svg, letters
from user_layers.report.time_axis import multiples, tick, tick_step

WIDTH = 1600
_LEFT, _RIGHT = 120, 30
_PLOT = WIDTH - _LEFT - _RIGHT
_MEMORY = 320  # height of a group's local memory, as far as it is used
_OVERVIEW = 180  # and of all of it
_STRIP = 20  # height of what one engine does
_LEAST_STEP = 128  # bytes of local memory
_LEAST_TICK = 25
_GAP = 12  # height of local memory that is never used
_BREAK = 70  # between the first tiles and the last one
_FIRST_TILES = 3
_ROW_STEPS = 36  # calls of layers side by side
_MOST_ROWS = 12  # of a stretch of time; with more calls they are narrower
_TALLEST = 16_000  # of all groups: what browsers and viewers still draw
_UNKNOWN = 110  # width of a part that nothing is known of

_COLORS = {
    Role.LOADED: "#8ecae6",
    Role.CONSTANT: "#d4b5e0",
    Role.MADE: "#a8dab5",
    Role.STORED: "#f6b65c",
    Role.WORK: "#c8c8c8",
}
_MEANINGS = {
    Role.LOADED: "loaded from DDR",
    Role.CONSTANT: "constant, loaded",
    Role.MADE: "made and used here",
    Role.STORED: "made and stored to DDR",
    Role.WORK: "work buffer",
}
_LAYERS = ("#5b8e7d", "#8cb369")  # layers one after the other
_ALONE = "#dddddd"
_GROUPS = ("#5c9ead", "#8fb8c4")


def report_picture(nets: Sequence[NetReport]) -> str:
    """The SVG text."""
    svg = Svg(WIDTH, (name for net in nets for stage in net.stages for name in _names(stage)))
    stages = 0
    room = _TALLEST // max(sum(len(net.stages) for net in nets), 1)
    for net in nets:
        for number, stage in enumerate(net.stages):
            which = f", stage {number} of {len(net.stages)}" if len(net.stages) > 1 else ""
            stages += 1
            _stage(svg, f"net {net.name}{which}", stage, f"stage{stages}", room)
    return svg.text("Local memory over time")


def _names(stage: StageReport) -> Iterator[str]:
    """Those of layers and tensors, which are beside one another in pictures."""
    for part in stage.parts:
        yield from (node.name for node in part.nodes)
        yield from (stay.name for group in part.groups for stay in group.stays)


def _stage(svg: Svg, title: str, stage: StageReport, place: str, room: int) -> None:
    """place: begins the names that links lead to; room: pixels for pictures of groups."""
    svg.anchor(place)
    svg.down(34)
    svg.write(20, 0, f"Local memory over time: {title}", size=20, bold=True)
    svg.down(24)
    if not stage.recorded:
        svg.write(20, 0, "The firmware issues the commands when the net runs: nothing is known of them here.")
        svg.down(20)
        return
    work = total(stage.recorded)
    svg.write(
        20,
        0,
        f"{round(work.cycles):,} cycles, {_ms(work.cycles)} at {CLOCK_HZ // 1_000_000} MHz "
        f"({timing.modelled()}); "
        f"{work.traffic.read / 1e6:,.1f} MB read from DDR, {work.traffic.written / 1e6:,.1f} MB written. "
        "Every lane has the same layout. Point at anything to read more.",
    )
    svg.down(16)
    groups = [group for part in stage.parts if part.work is not None for group in part.groups]
    if groups:
        _legend(svg)
    drawn = _drawn(groups, room)
    _overview(svg, stage, place, drawn)
    for group in groups:
        if group.index in drawn:
            svg.anchor(_target(place, group))
            _group(svg, group, place)
    if missing := [group for group in groups if group.index not in drawn]:
        share = sum(group.work.cycles for group in missing) / (work.cycles or 1)
        svg.down(34)
        svg.write(
            20,
            0,
            f"{count(len(missing), 'more group')}, {share:.1%} of the time, shown above only: "
            "of one layer, or without room here. report.txt and report.json have them.",
        )
    svg.down(20)


def _drawn(groups: Sequence[GroupReport], room: int) -> frozenset[int]:
    """The numbers of groups that get a picture: the only one, else of those with several layers the longest
    that have room."""
    found = set()
    for group in sorted(groups, key=lambda g: (-g.work.cycles, g.index)):
        height = _height(group)
        if height <= room and (len(group.nodes) > 1 or len(groups) == 1):
            found.add(group.index)
            room -= height
    return frozenset(found)


def _legend(svg: Svg) -> None:
    x = 20.0
    for role, meaning in _MEANINGS.items():
        svg.rect(x, 0, 14, 14, _COLORS[role])
        svg.write(x + 20, 11, meaning)
        x += 20 + LETTER * 11 * len(meaning) + 30
    svg.down(20)


# ---- the whole net ----


@dataclass(frozen=True)
class _Column:
    """One group or layer of the overview, or a part that nothing is known of (work None). short: a label for
    where there is no room."""

    label: str
    about: str
    color: str
    local_bytes: int
    work: Work | None
    link: str = ""
    short: str = ""


def _overview(svg: Svg, stage: StageReport, place: str, drawn: Collection[int]) -> None:
    columns = [column for part in stage.parts for column in _columns(part, place, drawn)]
    unknown = sum(column.work is None for column in columns)
    cycles = sum(column.work.cycles for column in columns if column.work is not None)
    scale = max(_PLOT - unknown * _UNKNOWN, _PLOT / 4) / (cycles or 1)
    unknown_width = (_PLOT - cycles * scale) / unknown if unknown else 0.0
    svg.down(30)
    svg.write(20, 0, "The whole net: local memory in use, and how busy both engines are", bold=True, size=14)
    svg.down(10)
    svg.rect(_LEFT, 0, _PLOT, _OVERVIEW, "#fbfbfb")
    for i in range(0, LOCAL_BANKS + 1, 2):
        y = _OVERVIEW * (1 - i / LOCAL_BANKS)
        svg.line(_LEFT - 4, y, _LEFT + _PLOT, y, "#d8d8d8")
        svg.write(_LEFT - 8, y + 4, f"{i * BANK_BYTES >> 10} KiB", anchor="end")
    bd, gdma = _OVERVIEW + 6, _OVERVIEW + 6 + _STRIP + 4
    for y, name in ((bd, "tensor unit"), (gdma, "DMA engine")):
        svg.write(_LEFT - 8, y + 14, name, anchor="end")
        svg.rect(_LEFT, y, _PLOT, _STRIP, "#f4f4f4")
    x, time = float(_LEFT), 0.0
    ticks = tick_step(cycles)
    for column in columns:
        if column.work is None:
            svg.rect(x, 0, unknown_width, gdma + _STRIP, "url(#unknown)", column.about)
            svg.label(x, 0, unknown_width, gdma + _STRIP, column.label)
            x += unknown_width
            continue
        width = column.work.cycles * scale
        height = _OVERVIEW * column.local_bytes / LOCAL_BYTES
        with svg.link(column.link):
            svg.rect(x, _OVERVIEW - height, width, height, column.color, column.about)
            label = column.label if letters(width) >= len(column.label) or not column.short else column.short
            if not svg.label(x, _OVERVIEW - height, width, height, label):
                svg.label(x, _OVERVIEW - height - _STRIP, width, _STRIP, label, size=10)
        for y, busy, color in (
            (bd, column.work.bd_cycles, _LAYERS[0]),
            (gdma, column.work.gdma_cycles, _COLORS[Role.LOADED]),
        ):
            share = busy / column.work.cycles if column.work.cycles else 0.0
            svg.rect(
                x, y + _STRIP * (1 - share), width, _STRIP * share, color, f"{column.label}: {share:.0%}"
            )
        for at in multiples(ticks, time, time + column.work.cycles):
            tick(svg, x + (at - time) * scale, gdma + _STRIP, at)
        x += width
        time += column.work.cycles
    svg.down(gdma + _STRIP + 24)


def _columns(part: PartReport, place: str, drawn: Collection[int]) -> Iterator[_Column]:
    """drawn: groups to which a link can lead."""
    if part.work is None:
        what = "on the host" if part.kind == "cpu" else "dynamic"
        yield _Column(what, f"subnet {part.index}, {what}: {len(part.nodes)} layers", "", 0, None)
        return
    for item in part.order:
        if isinstance(item, GroupReport):
            about = f"group {item.index}: {_group_text(item)}\n" + "\n".join(item.nodes)
            color = _GROUPS[item.index % 2]
            name = f"group {item.index}"
            link = f"#{_target(place, item)}" if item.index in drawn else ""
            short = str(item.index)
            yield _Column(name, about, color, item.local_bytes, item.work, link, short)
        else:
            node = part.nodes[item]
            if node.work is not None:
                about = f"{node.name} ({node.label}) alone, {node.reason}: {_node_text(node, node.work)}"
                yield _Column(node.name, about, _ALONE, node.local_bytes or 0, node.work)


def _target(place: str, group: GroupReport) -> str:
    return f"{place}-group{group.index}"


def _node_text(node: NodeReport, work: Work) -> str:
    local = (node.local_bytes or 0) / 1024
    return f"{round(work.cycles):,} cycles, touches {local:,.1f} KiB of local memory"


def _group_text(group: GroupReport) -> str:
    n, h, w = group.slices
    cut = " x ".join(f"{slices} over {axis}" for slices, axis in ((n, "n"), (h, "h"), (w, "w")) if slices > 1)
    layers = f"{len(group.nodes)} layer{'s' if len(group.nodes) > 1 else ''}"
    tiles = f"slices: {cut}" if cut else "one slice"
    overlapped = ", loads and stores overlapped" if group.overlapped else ""
    return (
        f"{layers}, {tiles}{overlapped}; {group.local_bytes / 1024:,.1f} of {LOCAL_BYTES >> 10} KiB; "
        f"{round(group.work.cycles):,} cycles, {_ms(group.work.cycles)}"
    )


# ---- one group ----


@dataclass(frozen=True)
class _Window:
    """A stretch of time that is drawn, and where."""

    start: float
    end: float
    x: float
    width: float

    def at(self, time: float) -> float:
        return self.x + (min(max(time, self.start), self.end) - self.start) * self._scale

    @property
    def _scale(self) -> float:
        return self.width / (self.end - self.start) if self.end > self.start else 0.0

    def shows(self, start: float, end: float) -> bool:
        return start < self.end and end > self.start


def _height(group: GroupReport) -> int:
    """Pixels that `_group` goes down."""
    rows = list(_rows(group))
    one = _MEMORY + 2 * _STRIP + 10 + 20 + 16
    return 34 + 18 + 22 + len(rows) * one + 26 * sum(bool(row.left_out) for row in rows)


def _group(svg: Svg, group: GroupReport, place: str) -> None:
    svg.down(34)
    first, last = group.nodes[0], group.nodes[-1]
    names = first if len(group.nodes) == 1 else f"{first} to {last}"
    with svg.link(f"#{place}"):
        svg.write(20, 0, f"group {group.index}: {names}", bold=True, size=14)
    svg.down(18)
    svg.write(20, 0, _group_text(group))
    svg.down(22)
    axis = _Axis(group.stays)
    for row in _rows(group):
        if row.left_out:
            svg.down(4)
            svg.write(_LEFT, 0, row.left_out)
            svg.down(22)
        _row(svg, group, axis, row.windows)
        svg.down(16)


def _row(svg: Svg, group: GroupReport, axis: _Axis, windows: Sequence[_Window]) -> None:
    axis.draw(svg)
    gdma, bd = _MEMORY + 6, _MEMORY + 6 + _STRIP + 4
    for y, name in ((gdma, "DMA engine"), (bd, "tensor unit")):
        svg.write(_LEFT - 8, y + 14, name, anchor="end")
    colors = {name: _LAYERS[i % 2] for i, name in enumerate(group.nodes)}
    for window in windows:
        svg.rect(window.x, gdma, window.width, _STRIP, "#f4f4f4")
        svg.rect(window.x, bd, window.width, _STRIP, "#f4f4f4")
        for stay in group.stays:
            if window.shows(stay.start, stay.end):
                _draw_stay(svg, window, stay, group, axis)
        for bar in group.bars:
            if window.shows(bar.start, bar.end):
                y = bd if bar.engine is Engine.BD else gdma
                color = colors[bar.name] if bar.role is None else _COLORS[bar.role]
                x, width = window.at(bar.start), window.at(bar.end) - window.at(bar.start)
                svg.rect(x, y, width, _STRIP, color, _bar_text(bar, group), line="#ffffff")
                svg.label(x, y, width, _STRIP, bar.name, size=10)
        step = tick_step((window.end - window.start) * _PLOT / (window.width or 1))
        for at in multiples(step, window.start - group.work.start, window.end - group.work.start):
            tick(svg, window.at(at + group.work.start), bd + _STRIP, at)
        _tile_marks(svg, window, group)
    if len(windows) > 1:
        x = windows[0].x + windows[0].width
        svg.rect(x, 0, _BREAK, bd + _STRIP, "#ffffff")
        svg.label(x, 0, _BREAK, _MEMORY, _left_out(group))
    svg.down(bd + _STRIP + 20)


@dataclass(frozen=True)
class _Row:
    """What is drawn side by side. left_out: says what is missing before it."""

    windows: tuple[_Window, ...]
    left_out: str = ""


def _rows(group: GroupReport) -> Iterator[_Row]:
    """All of the group, or its first tiles and the last one; in several rows where there are many steps."""
    stretches = _stretches(group)
    counts = [
        sum(bar.role is None and start < bar.end and bar.start < end for bar in group.bars)
        for start, end in stretches
    ]
    if len(stretches) == 2 and sum(counts) <= _ROW_STEPS:
        (start, stop), (again, end) = stretches
        room = _PLOT - _BREAK
        first = room * min(max((stop - start) / (stop - start + end - again), 0.4), 0.8)
        yield _Row(
            (
                _Window(start, stop, _LEFT, first),
                _Window(again, end, _LEFT + first + _BREAK, room - first),
            )
        )
        return
    for number, ((start, end), calls) in enumerate(zip(stretches, counts, strict=True)):
        rows = min(max(1, math.ceil(calls / _ROW_STEPS)), _MOST_ROWS)
        length = (end - start) / rows
        for row in range(rows):
            window = _Window(start + row * length, start + (row + 1) * length, _LEFT, _PLOT)
            yield _Row((window,), _left_out(group) if number and not row else "")


def _stretches(group: GroupReport) -> list[tuple[float, float]]:
    """The times that are drawn."""
    start, end = group.work.start, group.work.end
    if group.tiles > _FIRST_TILES + 1:
        calls = [bar for bar in group.bars if bar.role is None]
        stop = max((b.end for b in calls if b.tile < _FIRST_TILES), default=end)
        again = min((b.start for b in calls if b.tile == group.tiles - 1), default=start)
        if stop < again:
            return [(start, stop), (again, end)]
    return [(start, end)]


def _left_out(group: GroupReport) -> str:
    return count(group.tiles - _FIRST_TILES - 1, "more tile")


def _draw_stay(svg: Svg, window: _Window, stay: Stay, group: GroupReport, axis: _Axis) -> None:
    x, y = window.at(stay.start), axis.y(stay.offset)
    width, height = window.at(stay.end) - x, stay.nbytes * axis.scale
    about = (
        f"{stay.name}: {_MEANINGS[stay.role]}{_tile_text(stay.tile, group)}\n"
        f"{stay.nbytes / 1024:,.1f} KiB from {stay.offset / 1024:,.1f} KiB on ({_banks(stay)})\n"
        f"{_span_text(stay.start, stay.end, group)}"
    )
    svg.rect(x, y, width, height, _COLORS[stay.role], about, line="#555555")
    svg.label(x, y, width, height, stay.name, second=f"{stay.nbytes / 1024:,.1f} KiB")


def _banks(stay: Stay) -> str:
    first, last = stay.offset // BANK_BYTES, (stay.offset + max(stay.nbytes, 1) - 1) // BANK_BYTES
    return f"bank {first}" if first == last else f"banks {first} to {last}"


_MOVES = {Role.STORED: "store", Role.MADE: "copy"}


def _bar_text(bar: Bar, group: GroupReport) -> str:
    what = bar.name
    if bar.role is not None:
        what = f"{_MOVES.get(bar.role, 'load')} {bar.name}"
    return f"{what}{_tile_text(bar.tile, group)}\n{_span_text(bar.start, bar.end, group)}"


def _tile_text(tile: int, group: GroupReport) -> str:
    return f", tile {tile + 1} of {group.tiles}" if group.tiles > 1 else ""


def _span_text(start: float, end: float, group: GroupReport) -> str:
    begin = group.work.start
    return f"{round(end - start):,} cycles, from {round(start - begin):,} to {round(end - begin):,}"


def _tile_marks(svg: Svg, window: _Window, group: GroupReport) -> None:
    """Where computing each tile begins."""
    if group.tiles == 1:
        return
    begins: dict[int, float] = {}
    for bar in group.bars:
        if bar.role is None:
            begins[bar.tile] = min(bar.start, begins.get(bar.tile, bar.start))
    for tile, time in sorted(begins.items()):
        if window.start <= time < window.end:
            x = window.at(time)
            svg.line(x, -4, x, _MEMORY, "#333333", dashed=True)
            svg.write(x + 2, -6, f"tile {tile + 1}", size=10)


# ---- axes ----


class _Axis:
    """Offsets in local memory downwards: what is used at some time to scale, and what is not as narrow gaps.

    ranges: (first byte, end, y) of each stretch that is used.
    """

    def __init__(self, stays: Sequence[Stay]) -> None:
        used: list[list[int]] = []
        least_gap = sum(s.nbytes for s in {s.offset: s for s in stays}.values()) // 32
        for first, end in sorted((s.offset, s.offset + s.nbytes) for s in stays):
            if used and first - used[-1][1] <= least_gap:
                used[-1][1] = max(used[-1][1], end)
            else:
                used.append([first, end])
        self.scale = (_MEMORY - _GAP * (len(used) - 1)) / max(sum(end - first for first, end in used), 1)
        self.ranges: list[tuple[int, int, float]] = []
        y = 0.0
        for first, end in used:
            self.ranges.append((first, end, y))
            y += (end - first) * self.scale + _GAP

    def y(self, offset: int) -> float:
        """Of a byte that is used, or the end of a stretch."""
        return next(y + (offset - first) * self.scale for first, end, y in self.ranges if offset <= end)

    def draw(self, svg: Svg) -> None:
        """Banks, and offsets where there is room for them."""
        written: list[float] = []

        def write(offset: int, y: float) -> None:
            svg.line(_LEFT - 4, y, _LEFT + _PLOT, y, "#d8d8d8")
            if all(abs(y - other) >= 10 for other in written):
                svg.write(_LEFT - 8, y + 3, f"{offset / 1024:.4g} KiB", anchor="end", size=9)
                written.append(y)

        step = _LEAST_STEP
        while step * self.scale < _LEAST_TICK:
            step *= 2
        named: list[float] = []
        for first, end, y in self.ranges:
            for bank in range(first // BANK_BYTES, -(-end // BANK_BYTES)):
                low, high = max(first, bank * BANK_BYTES), min(end, (bank + 1) * BANK_BYTES)
                top, height = y + (low - first) * self.scale, (high - low) * self.scale
                svg.rect(_LEFT, top, _PLOT, height, "#f1f1f1" if bank % 2 else "#fafafa")
                middle = top + height / 2 + 4
                if all(abs(middle - other) >= 12 for other in named):
                    svg.write(_LEFT - 62, middle, f"bank {bank}", anchor="end")
                    named.append(middle)
            svg.line(_LEFT, y, _LEFT, y + (end - first) * self.scale, "#888888")
            write(first, y)
        for first, end, y in self.ranges:
            write(end, y + (end - first) * self.scale)
            for offset in range(-(-first // step) * step, end, step):
                write(offset, y + (offset - first) * self.scale)


def _ms(cycles: float) -> str:
    return f"{cycles / CLOCK_HZ * 1000:.3f} ms"
