"""The list of mutants: one file in tests/mutate/rooms for each room, written much as a diff.

    # a remark
    --- firmware_sim/memory.py
    tests: unit/test_tpu.py firmware/test_device.py
    @@ memory-1 seeded
    -        if address < 0:
    +        if address <= 0:
    why: no address is zero here

`---` names the file that the following mutants change, `tests:` what must fail for one of them, below
tests/; after `@@` it adds tests for this mutant alone. The lines that begin with `-`, or with a space
when they stay and only tell where, must be in the file exactly once. `seeded` are those that `propose`
picked at random, `chosen` those that somebody thought of. `why:` tells why a mutant may survive.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.paths import ROOT, TESTS

ROOMS = TESTS / "mutate" / "rooms"
_ORIGINS = ("seeded", "chosen")


class ListError(Exception):
    """The list of mutants is wrong: what, and where."""


@dataclass
class Mutant:
    """One change; `old` and `new` are whole lines without the last line's end."""

    id: str
    """ROOM/NAME."""
    file: str
    origin: str
    tests: list[str]
    """Files below tests/."""
    old: str = ""
    new: str = ""
    why: str = ""
    """Why it may survive; empty: it must not."""
    lines: list[str] = field(default_factory=list)
    """As written in the list."""

    @property
    def room(self) -> str:
        return self.id.partition("/")[0]

    def line(self, root: Path = ROOT) -> int:
        """The number of the first changed line. ListError unless the snippet is there exactly once."""
        text = f"\n{_read(root / self.file, self.id)}\n"
        count = times(self.old, text)
        if count != 1:
            raise ListError(f"{self.id}: its lines are {count} times in {self.file}, not once:\n{self.old}")
        before = text[: text.index(f"\n{self.old}\n")]
        return before.count("\n") + 1 + next(i for i, row in enumerate(self.lines) if row[:1] == "-")

    def mutated(self, root: Path = ROOT) -> str:
        """The file's text with the change. ListError like `line`."""
        self.line(root)
        text = f"\n{_read(root / self.file, self.id)}\n"
        return text.replace(f"\n{self.old}\n", f"\n{self.new}\n")[1:-1]

    def shown(self, root: Path = ROOT) -> str:
        """FILE:LINE: OLD -> NEW."""
        removed, added = (
            " ".join(row[1:].strip() for row in self.lines if row[:1] == sign) for sign in ("-", "+")
        )
        return f"{self.file}:{self.line(root)}: {removed} -> {added or '(nothing)'}"


def times(lines: str, text: str) -> int:
    """How often these whole lines are in a text."""
    return len(re.findall(rf"(?=\n{re.escape(lines)}\n)", f"\n{text}\n"))


def _read(path: Path, who: str) -> str:
    if not path.is_file():
        raise ListError(f"{who}: there is no file {path}")
    return path.read_text(encoding="utf-8")


def room_names() -> list[str]:
    return sorted(path.stem for path in ROOMS.glob("*.diff"))


def all_mutants() -> list[Mutant]:
    """Those of all rooms. ListError for what is written wrong."""
    found: list[Mutant] = []
    for name in room_names():
        found += parse(name, (ROOMS / f"{name}.diff").read_text(encoding="utf-8"))
    return found


def parse(room: str, text: str) -> list[Mutant]:
    """The mutants of one room's file."""
    found = list(_blocks(room, text))
    seen: set[str] = set()
    for mutant in found:
        if mutant.id in seen:
            raise ListError(f"{mutant.id}: there are two of this name")
        seen.add(mutant.id)
        _finish(mutant)
    return found


def _blocks(room: str, text: str) -> Iterator[Mutant]:
    file = ""
    tests: list[str] = []
    mutant: Mutant | None = None
    for number, row in enumerate(text.split("\n"), 1):
        key, _, rest = row.partition(" ")
        if key in ("---", "@@"):
            if mutant is not None:
                yield mutant
            mutant = None
        if key == "---":
            file, tests = rest, []
        elif key == "@@":
            name, _, origin = rest.partition(" ")
            if not file or origin not in _ORIGINS:
                raise ListError(f"{room}.diff:{number}: expected '@@ NAME {'|'.join(_ORIGINS)}' below a file")
            mutant = Mutant(f"{room}/{name}", file, origin, list(tests))
        elif key == "tests:":
            (mutant.tests if mutant else tests).extend(rest.split())
        elif key == "why:" and mutant is not None:
            mutant.why = f"{mutant.why} {rest}".strip()
        elif mutant is not None and row[:1] in ("-", "+", " "):
            mutant.lines.append(row)
        elif row and not row.startswith("#"):
            raise ListError(f"{room}.diff:{number}: not understood: {row}")
    if mutant is not None:
        yield mutant


def _finish(mutant: Mutant) -> None:
    mutant.old, mutant.new = (
        "\n".join(row[1:] for row in mutant.lines if row[:1] in (" ", sign)) for sign in ("-", "+")
    )
    if not any(row[:1] == "-" for row in mutant.lines) or mutant.old == mutant.new:
        raise ListError(f"{mutant.id}: it changes nothing")
    if not mutant.tests:
        raise ListError(f"{mutant.id}: no tests")
    for name in mutant.tests:
        if not (TESTS / name).is_file():
            raise ListError(f"{mutant.id}: there is no tests/{name}")
