"""A profile as one HTML file that needs nothing else: no network, no scripts; its size is bounded."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from user_layers.profile.model import Profile
from user_layers.profile.picture import profile_picture
from user_layers.profile.tables import (
    EXPLANATION,
    Source,
    Table,
    facts,
    shortened,
    sources,
    tables,
    waits,
)
from user_layers.profile.totals import Sums, sums

_ROWS = 60  # of a table
_LINES = 2_000  # of source, over all files
_LETTERS = 400  # of a name or a line of source
_STYLE = """
body { font: 13px/1.45 Helvetica, Arial, sans-serif; color: #222; margin: 1.5em; }
h1 { font-size: 1.3em; } h2 { font-size: 1.05em; margin: 1.6em 0 .4em; }
table { border-collapse: collapse; } th, td { padding: 1px 9px; text-align: right; white-space: pre; }
th { font-weight: normal; color: #666; border-bottom: 1px solid #ccc; }
td:last-child, th:last-child, dl dd { text-align: left; }
td:last-child { white-space: pre-wrap; }
.source td { font-family: monospace; } .source td:last-child { white-space: pre; }
.plot { overflow-x: auto; }
dl { display: grid; grid-template-columns: 6em 1fr; margin: 0; } dt { color: #666; } dd { margin: 0; }
p { max-width: 70em; color: #666; }
"""


def profile_page(profile: Profile) -> str:
    """The whole file."""
    title = escape(f"Profile of {profile.what}"[:_LETTERS])
    head = f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
    return f"{head}<style>{_STYLE}</style></head><body>\n{_body(profile)}</body></html>\n"


def notebook(profile: Profile) -> str:
    """A part of a page, for notebooks; the page is in a frame, since its styles are its own."""
    style = "width: 100%; height: 520px; border: 0"
    page = escape(profile_page(profile))
    return f'<iframe title="Profile" style="{style}" srcdoc="{page}"></iframe>\n'


def _body(profile: Profile) -> str:
    found = sums(profile)
    facts_ = "".join(f"<dt>{escape(w)}</dt><dd>{escape(text)}</dd>" for w, text in facts(profile, found))
    parts = [
        f"<h1>Profile of {escape(profile.what[:_LETTERS])}</h1>\n<dl>{facts_}</dl>\n",
        f'<div class="plot">{profile_picture(profile)}</div>\n',
    ]
    if len(profile.columns):
        parts += map(_table, tables(profile, found, _ROWS))
        parts.append(f"<p>{escape(EXPLANATION)}</p>\n")
        parts += _sources(found, profile.cycles)
    return "".join(parts)


def _table(table: Table) -> str:
    title = table.titles[-1]
    head = "".join(f"<th>{escape(word)}</th>" for word in table.titles)
    rows = "".join(
        f"<tr{_heat(share)}>{''.join(f'<td>{escape(cell[:_LETTERS])}</td>' for cell in row)}</tr>\n"
        for row, share in zip(table.rows, table.shares, strict=True)
    )
    rest = f"<p>{escape(table.rest)}</p>\n" if table.rest else ""
    return f"<h2>{escape(title.capitalize())}</h2>\n<table><tr>{head}</tr>\n{rows}</table>\n{rest}"


def _sources(found: Sums, whole: float) -> Iterator[str]:
    left = _LINES
    for source in sources(found):
        if left <= 0:
            yield "<p>Further files are left out.</p>\n"
            return
        yield _source(source, whole, left)
        left -= len(source.lines)


def _source(source: Source, whole: float, most: int) -> str:
    rows = []
    for line in source.lines[:most]:
        if line.gap:
            rows.append("<tr><td></td><td></td><td></td><td></td><td>...</td></tr>\n")
        t, cells, heat = line.total, ("", "", "", ""), ""
        if t is not None:
            share = f"{t.time / whole:.1%}{'>' if line.called else ' '}"
            cells = share, f"{t.time:,.0f}", waits(t), f"{sum(t.commands):,}"
            heat = "" if line.called else _heat(t.time / whole)
        text = f"{line.number:5}  {line.text[:_LETTERS]}"
        rows.append(f"<tr{heat}>{''.join(f'<td>{escape(cell)}</td>' for cell in (*cells, text))}</tr>\n")
    head = "".join(f"<th>{word}</th>" for word in ("time", "cycles", "waits", "commands", "line"))
    more = "<p>&gt; what the functions take that the line calls</p>\n"
    title = f"<h2>{escape(shortened(source.file))}</h2>\n"
    called = more if any(line.called for line in source.lines) else ""
    return f'{title}<table class="source"><tr>{head}</tr>\n{"".join(rows)}</table>\n{called}'


def _heat(share: float) -> str:
    """The more of the time, the warmer."""
    return f' style="background: rgba(232, 140, 75, {min(share, 1.0) * 0.6:.2f})"' if share >= 0.01 else ""
