"""What a profile says to people, as sentences and tables: text and page write the same ones."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from firmware_sim.checks.finding import Frame
from firmware_sim.checks.text import place
from firmware_sim.chip import CLOCK_HZ
from firmware_sim.isa import timing
from firmware_sim.shown import count
from user_layers.profile.model import STALLS, Cause, Command, Profile
from user_layers.profile.sources import lines_of
from user_layers.profile.totals import Sums, Total, hottest
from user_layers.report.model import cycles_text, megabytes

EXPLANATION = (
    "time: share of the cycles that decide how long it takes (the critical path), those of the controller "
    "for issuing among them; cycles: these. BD, GDMA: cycles that the engines work. waits: cycles that an "
    "engine did nothing before such a command, and for what most of them. MB: moved from and to DDR. eff: "
    "the least time by the roofline in per cent of the busier engine's, and what bounds it."
)
_NUMBERS = ("time", "cycles", "BD", "GDMA", "waits", "commands", "MB", "eff")
_AROUND = 2  # lines of source shown before and after one with commands


@dataclass(frozen=True)
class Table:
    """numbers: how many of the titles stand over numbers; the last one is over names. shares: of the time, of
    each row. rest: what is left out."""

    titles: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    shares: tuple[float, ...]
    rest: str = ""

    @property
    def numbers(self) -> int:
        """All columns but the last one."""
        return len(self.titles) - 1


@dataclass(frozen=True)
class SourceLine:
    """One line of a file. total: of its commands, or of those of the functions that it calls (called); None
    where it has none. gap: lines before it are left out."""

    number: int
    text: str
    total: Total | None = None
    called: bool = False
    gap: bool = False


@dataclass(frozen=True)
class Source:
    """A file, as far as it is of interest."""

    file: str
    lines: tuple[SourceLine, ...]


def facts(profile: Profile, found: Sums) -> Iterator[tuple[str, str]]:
    """What holds for the whole run: a word and a sentence each."""
    whole = profile.cycles or 1.0
    t = found.total
    requests = count(len(profile.requests), "request")
    batches = f"{len(profile.batches)} batch{'es' * (len(profile.batches) != 1)}"
    yield "time", f"{cycles_text(profile.cycles)} at {CLOCK_HZ // 1_000_000} MHz, {timing.modelled()}"
    yield "", f"{requests}, {batches}, {count(len(profile.columns), 'command')}"
    launch = sum(one.launch for one in profile.requests)
    yield "launch", f"{launch:,.0f} cycles beside the commands, {launch / whole:.1%}"
    for number, (engine, busy) in enumerate(profile.busy.items()):
        waits = profile.stalls[engine]
        told = sorted((c for c in STALLS if waits[c] / whole >= 0.0005), key=lambda c: -waits[c])
        text = ", ".join(f"{cause.words} {waits[cause] / whole:.1%}" for cause in told)
        commands = count(t.commands[number], "command")
        yield engine.value, f"{commands}, works {busy / whole:.1%} of the time; waits for {text or 'nothing'}"
    share = f"{t.moving / whole:.1%} of what it can move in that time"
    yield "DDR", f"{megabytes(t.ddr_read)} MB read, {megabytes(t.ddr_written)} MB written, {share}"
    least = f"{t.computing:,.0f} for computing, {t.moving:,.0f} for DDR"
    yield "roofline", f"{t.least:,.0f} cycles at least, {t.least / whole:.1%} of the time: {least}"
    if t.conflict:
        yield (
            "banks",
            f"for {t.conflict / 2:,.0f} cycles both engines touched one bank of local memory; the clock "
            "charges nothing for it, because nobody says what it costs",
        )


def tables(profile: Profile, found: Sums, top: int) -> Iterator[Table]:
    """Those that have something to say, each with at most `top` rows."""
    if len(profile.requests) > 1:
        yield _requests(profile, top)
    called = [
        (f"{one.name or '(no function)'} {shortened(one.file)}".rstrip(), one.all) for one in found.functions
    ]
    named: list[tuple[str, Sequence[tuple[str, Total]]]] = [
        ("source lines", [(where(frame), total) for frame, total in found.lines]),
        ("functions, with what they call", called),
        ("layers by type", found.layers),
        ("layers", found.nodes),
        ("operations", found.operations),
        ("instructions", found.instructions),
    ]
    for title, rows in named:
        if rows:
            yield _table(title, rows, top, profile.cycles, rows is not called)
    yield _commands(profile, top)


def _table(title: str, rows: Sequence[tuple[str, Total]], top: int, whole: float, own: bool) -> Table:
    """own: no command is in two rows, so that those left out have a share together."""
    rest = count(len(rows) - top, "more row") if len(rows) > top else ""
    if rest and own:
        rest += f", {sum(total.time for _, total in rows[top:]) / whole:.1%} of the time"
    shown = rows[:top]
    return Table(
        (*_NUMBERS, title),
        tuple((*_cells(total, whole), name) for name, total in shown),
        tuple(total.time / whole for _, total in shown),
        rest,
    )


def _requests(profile: Profile, top: int) -> Table:
    found = sorted(profile.requests, key=lambda one: -one.cycles)
    return Table(
        ("time", "cycles", "launch", "commands", "requests"),
        tuple(
            (
                f"{one.cycles / profile.cycles:.1%}",
                f"{one.cycles:,.0f}",
                f"{one.launch:,.0f}",
                f"{one.last - one.first:,}",
                one.what,
            )
            for one in found[:top]
        ),
        tuple(one.cycles / profile.cycles for one in found[:top]),
        f"{count(len(found) - top, 'more request')}" if len(found) > top else "",
    )


def _commands(profile: Profile, top: int) -> Table:
    found = [profile.command(index) for index in hottest(profile, top)]
    return Table(
        ("time", "cycles", "works", "waits", "eff", "commands"),
        tuple(
            (
                f"{one.critical / profile.cycles:.1%}",
                f"{one.critical:,.0f}",
                f"{one.cycles:,.0f}",
                f"{one.stall:,.0f}" if one.stall else "",
                f"{one.efficiency:.0%}",
                f"{one.engine.value} {one.id} {one.name}, {_issuer(one)}{_waited(one, profile)}",
            )
            for one in found
        ),
        tuple(one.critical / profile.cycles for one in found),
    )


def _waited(one: Command, profile: Profile) -> str:
    if one.cause is Cause.NONE:
        return ""
    if one.blocker is None:
        return f"; waited for {one.cause.words}"
    other = profile.command(one.blocker)
    return f"; waited for {other.engine.value} {other.id} {other.name}"


def _issuer(one: Command) -> str:
    words = [place(one.issued.frames[0])] if one.issued.frames else []
    words += [f"node {one.issued.node}"] if one.issued.node else []
    tile = one.issued.tile  # "2 of 8", or the tensor that a transfer moves in brackets
    words += [tile if tile.startswith("(") else f"tile {tile}"] if tile else []
    return ", ".join(words) or "no source line"


def _cells(total: Total, whole: float) -> tuple[str, ...]:
    efficiency = "" if total.efficiency is None else f"{total.efficiency:.0%} {total.bound}"
    moved = total.ddr_read + total.ddr_written
    return (
        f"{total.time / whole:.1%}",
        f"{total.time:,.0f}",
        *(f"{busy:,.0f}" for busy in total.busy),
        waits(total),
        f"{sum(total.commands):,}",
        megabytes(moved) if moved else "",
        efficiency,
    )


def waits(total: Total) -> str:
    """`1,200 ddr`, or nothing."""
    return f"{total.stalled:,.0f} {total.cause.name.lower()}" if total.stalled else ""


def sources(found: Sums) -> Iterator[Source]:
    """The files from which commands come, what takes longest first, as far as they are here."""
    marked: dict[str, dict[int, tuple[Total, bool]]] = {}
    own = dict(found.lines)
    for frame, total in found.through.items():
        marked.setdefault(frame.file, {})[frame.line] = (own.get(frame, total), frame not in own)
    for file, numbers in marked.items():
        if lines := lines_of(file):
            yield Source(file, tuple(_lines(lines, numbers)))


def _lines(lines: Sequence[str], marked: dict[int, tuple[Total, bool]]) -> Iterator[SourceLine]:
    near = {n for line in marked for n in range(line - _AROUND, line + _AROUND + 1)}
    last = 0
    for number in sorted(n for n in near if 0 < n <= len(lines)):
        total, called = marked.get(number, (None, False))
        text = lines[number - 1].expandtabs(4)
        yield SourceLine(number, text, total, called, gap=last > 0 and number > last + 1)
        last = number


def where(frame: Frame) -> str:
    """`kernel.c:12 in step`; loads and stores between the layers of a net are no line's."""
    return place(frame) if frame.file else "(no source line)"


def shortened(file: str) -> str:
    """Relative to the working directory where that is shorter."""
    if not file:
        return ""
    try:
        short = os.path.relpath(file)
    except (ValueError, OSError):  # the working directory may be gone
        return file
    return file if short.startswith("..") else short
