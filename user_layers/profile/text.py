"""A profile as text: the head, tables of what takes most of the time, source lines with their shares."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap

from user_layers.profile.model import Profile
from user_layers.profile.tables import EXPLANATION, Source, facts, shortened, sources, tables, waits
from user_layers.profile.totals import sums

TOP = 15
"""Rows of a table."""
WIDTH = 110
_SOURCE = ("time", "cycles", "waits", "commands", "line")


def profile_text(profile: Profile, top: int = TOP, *, annotate: bool = True) -> str:
    """Head, tables of `top` rows, and with `annotate` the source; ends with a line end."""
    found = sums(profile)
    lines = [f"profile of {profile.what}"]
    for word, text in facts(profile, found):
        lines += wrap(text, WIDTH, initial_indent=f"  {word:10}", subsequent_indent=" " * 12)
    if len(profile.columns):
        for table in tables(profile, found, top):
            lines += ["", *aligned(table.titles, table.rows), *([table.rest] if table.rest else [])]
        lines += ["", *wrap(EXPLANATION, WIDTH)]
        if annotate:
            for source in sources(found):
                lines += ["", *_annotated(source, profile.cycles)]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _annotated(source: Source, whole: float) -> Iterator[str]:
    rows: list[tuple[str, ...]] = []
    for line in source.lines:
        if line.gap:
            rows.append(("", "", "", "", "  ..."))
        text, t = f"{line.number:5} | {line.text}", line.total
        if t is None:
            rows.append(("", "", "", "", text))
        else:
            share = f"{t.time / whole:.1%}{'>' if line.called else ' '}"
            rows.append((share, f"{t.time:,.0f}", waits(t), f"{sum(t.commands):,}", text))
    yield shortened(source.file)
    yield from aligned(_SOURCE, rows)
    if any(line.called for line in source.lines):
        yield "> what the functions take that the line calls"


def aligned(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Titles and rows in columns as wide as they need, to the right; the last column to the left."""
    table = [tuple(titles), *map(tuple, rows)]
    widths = [max(map(len, column)) for column in zip(*(row[:-1] for row in table), strict=True)]
    for row in table:
        cells = [cell.rjust(width) for cell, width in zip(row[:-1], widths, strict=True)]
        yield "  ".join([*cells, row[-1]])
