"""Two saved profiles side by side: what became faster or slower, what is new and what is gone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from firmware_sim.chip import CLOCK_HZ
from firmware_sim.errors import UsageError
from firmware_sim.shown import count
from user_layers.files import read_input
from user_layers.profile.document import FORMAT, VERSION
from user_layers.profile.text import TOP, aligned
from user_layers.report.model import cycles_text

TABLES = {
    "lines": "source lines",
    "functions": "functions",
    "nodes": "layers",
    "layers": "layers by type",
    "operations": "operations",
    "instructions": "instructions",
}
"""The tables that are compared: how JSON and how text calls them."""


@dataclass(frozen=True)
class Side:
    """One row of one profile: cycles of the critical path, of the engines' work, and of their waiting."""

    time: float
    busy: float
    waits: float
    commands: int


@dataclass(frozen=True)
class Change:
    """The same row of both; None where one of them has none."""

    name: str
    before: Side | None
    after: Side | None

    @property
    def slower(self) -> float:
        """By how many cycles of the critical path; less than 0: faster."""
        return (self.after.time if self.after else 0.0) - (self.before.time if self.before else 0.0)

    @property
    def kind(self) -> str:
        """In a word."""
        if self.before is None or self.after is None:
            return "new" if self.before is None else "gone"
        return "same" if abs(self.slower) < 0.05 else "slower" if self.slower > 0 else "faster"


@dataclass(frozen=True)
class Saved:
    """A profile from a file: its name, its cycles and its tables by JSON's words."""

    what: str
    cycles: float
    tables: Mapping[str, Mapping[str, Side]]


@dataclass(frozen=True)
class Diff:
    """Changes by table, the largest first."""

    before: Saved
    after: Saved
    changes: Mapping[str, tuple[Change, ...]]


def read_saved(path: Path) -> Saved:
    """What `tpulayer profile --json` printed. UsageError for anything else."""
    hint = "save one with `tpulayer profile ... --json > FILE`"
    try:
        data = json.loads(read_input(path))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}", hint=hint) from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is no saved profile: {error}", hint=hint) from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise UsageError(
            f"{path} is no saved profile: it does not say that its format is {FORMAT!r}", hint=hint
        )
    if data.get("version") != VERSION:
        raise UsageError(
            f"{path} is a profile of version {data.get('version')}, this toolkit reads version {VERSION}",
            hint="make it anew: both profiles have to be of the same toolkit",
        )
    try:
        tables = {name: _table(data[name], name) for name in TABLES}
        return Saved(str(data["what"]), float(data["cycles"]), tables)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        what = f"{type(error).__name__}: {error}"
        raise UsageError(f"{path} is a damaged profile: {what}", hint=hint) from None


def compare(before: Saved, after: Saved) -> Diff:
    """Row by row. Lines of source are the same when file, function and text are, wherever they moved."""
    changes = {}
    for name in TABLES:
        a, b = before.tables[name], after.tables[name]
        rows = [Change(key, a.get(key), b.get(key)) for key in dict.fromkeys((*a, *b))]
        changes[name] = tuple(sorted(rows, key=lambda one: (-abs(one.slower), one.name)))
    return Diff(before, after, changes)


def _table(rows: Sequence[Mapping[str, Any]], table: str) -> dict[str, Side]:
    found: dict[str, Side] = {}
    for row in rows:
        name = _name(row, table)
        numbers = row["all"] if table == "functions" else row
        old = found.get(name, Side(0.0, 0.0, 0.0, 0))
        found[name] = Side(
            old.time + float(numbers["time"]),
            old.busy + sum(map(float, numbers["busy_cycles"].values())),
            old.waits + sum(map(float, numbers["stall_cycles"].values())),
            old.commands + sum(map(int, numbers["commands"].values())),
        )
    return found


def _name(row: Mapping[str, Any], table: str) -> str:
    """Of the row, without what differs between two states of the same source."""
    if table == "lines":
        if not row["file"]:
            return "(no source line)"
        place = f"{Path(row['file']).name} in {row['function']}"
        return f"{place}: {row['text'] or 'line ' + str(row['line'])}"
    if table == "functions":
        return f"{row['name'] or '(no function)'} {Path(row['file']).name}".rstrip()
    return str(row["name"])


def diff_json(diff: Diff) -> str:
    """One object; ends with a line end."""
    answer = {
        "format": "tpulayer profile diff",
        "version": VERSION,
        "before": {"what": diff.before.what, "cycles": diff.before.cycles},
        "after": {"what": diff.after.what, "cycles": diff.after.cycles},
        **{
            table: [{**asdict(one), "slower": round(one.slower, 1), "kind": one.kind} for one in changes]
            for table, changes in diff.changes.items()
        },
    }
    return f"{json.dumps(answer, indent=1)}\n"


def diff_text(diff: Diff, top: int = TOP) -> str:
    """For people: `top` rows of each table that has changes; ends with a line end."""
    a, b = diff.before, diff.after
    ratio = f"{a.cycles / b.cycles:.2f} times as fast" if b.cycles else "nothing"
    micros = (b.cycles - a.cycles) / CLOCK_HZ * 1e6
    lines = [
        f"before  {a.what}: {cycles_text(a.cycles)}",
        f"after   {b.what}: {cycles_text(b.cycles)}, {micros:+,.1f} us: {ratio}",
    ]
    for table, title in TABLES.items():
        lines += _rows([one for one in diff.changes[table] if one.kind != "same"], title, top)
    lines += [
        "",
        "before, after: cycles of the critical path; works, waits: how those of the engines changed.",
    ]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _rows(changes: Sequence[Change], title: str, top: int) -> Iterator[str]:
    if not changes:
        return
    rows = []
    for one in changes[:top]:
        a, b = one.before or Side(0, 0, 0, 0), one.after or Side(0, 0, 0, 0)
        commands = f"{a.commands:,}" if a.commands == b.commands else f"{a.commands:,} to {b.commands:,}"
        rows.append(
            (
                f"{a.time:,.0f}" if one.before else "",
                f"{b.time:,.0f}" if one.after else "",
                f"{one.slower:+,.0f}",
                f"{b.busy - a.busy:+,.0f}",
                f"{b.waits - a.waits:+,.0f}",
                commands,
                f"{one.kind:6}  {one.name}",
            )
        )
    yield ""
    titles = ("before", "after", "change", "works", "waits", "commands", f"        {title}")
    yield from aligned(titles, rows)
    if len(changes) > top:
        yield f"{count(len(changes) - top, 'more change')}"
