"""The lines that findings must name: comments /* FAULT rule|rule */ and /* OTHER */ in the sources of cases.

The part of a kernel ends where it is registered, that of a layer where the next parameter struct begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_COMMENT = re.compile(r"/\* (FAULT|OTHER)\b ?([\w.|]*) ?\*/")
_KERNEL = re.compile(r"^OKKERNEL_FUNC_REGISTER\((\w+)\)")
_LAYER = re.compile(r"^__BM_PARAM__\((\w+)\)")


@dataclass
class Marks:
    """faults: the rules that are right for each line that is marked; no rules where the kernel API refuses
    the call. other: lines that a finding may name beside one of these."""

    file: Path
    faults: dict[int, frozenset[str]] = field(default_factory=dict)
    other: set[int] = field(default_factory=set)

    @property
    def rules(self) -> frozenset[str]:
        """Of all lines."""
        return frozenset().union(*self.faults.values())

    def _add(self, line: int, word: str, rules: str) -> None:
        if word == "OTHER":
            self.other.add(line)
        else:
            self.faults[line] = frozenset(filter(None, rules.split("|")))


def _kernels(path: Path, text: str) -> Iterator[tuple[str, Marks]]:
    marks = Marks(path)
    for number, line in enumerate(text.splitlines(), 1):
        for word, rules in _COMMENT.findall(line):
            marks._add(number, word, rules)
        if found := _KERNEL.match(line):
            yield found[1], marks
            marks = Marks(path)


def _layers(path: Path, text: str) -> Iterator[tuple[str, Marks]]:
    name, marks = "", Marks(path)
    for number, line in enumerate(text.splitlines(), 1):
        if found := _LAYER.match(line):
            if name:
                yield name, marks
            name, marks = found[1], Marks(path)
        for word, rules in _COMMENT.findall(line):
            marks._add(number, word, rules)
    if name:
        yield name, marks


def marks_in(folder: Path) -> dict[str, Marks]:
    """By the name of a kernel or a layer, of all C files of a folder. A comment that is not understood is a
    ValueError, and so is a name that comes twice."""
    found: dict[str, Marks] = {}
    for path in sorted(folder.glob("*.c")):
        text = path.read_text()
        for number, line in enumerate(text.splitlines(), 1):
            if ("FAULT" in line or "OTHER" in line) and "says" not in line and not _COMMENT.search(line):
                raise ValueError(f"{path}:{number}: a mark that is not understood: {line.strip()}")
        for name, marks in (*_kernels(path, text), *_layers(path, text)):
            if name in found:
                raise ValueError(f"{path}: {name} is there twice")
            found[name] = marks
    return found
