"""From a code address in a firmware image to the line of C that it belongs to (DWARF, versions 4 and 5)."""

from __future__ import annotations

import bisect
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Line:
    """function is empty where the debug information does not name one."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        place = f"{_short(self.file)}:{self.line}"
        return f"{place} in {self.function}" if self.function else place


def _short(file: str) -> str:
    """Relative to the working directory where that is shorter."""
    try:
        relative = os.path.relpath(file)
    except ValueError:
        return file
    return relative if not relative.startswith("..") else file


class SourceLines:
    """The line table of one image; empty where it has no debug information."""

    def __init__(self, path: Path) -> None:
        self._starts: list[int] = []
        self._lines: list[tuple[str, int] | None] = []  # None: a gap begins
        self._functions: list[tuple[int, int, str]] = []
        self._read(path)

    def _read(self, path: Path) -> None:
        from elftools.common.exceptions import ELFError
        from elftools.elf.elffile import ELFFile

        rows: list[tuple[int, tuple[str, int] | None]] = []
        try:
            with open(path, "rb") as stream:
                image = ELFFile(stream)
                if not image.has_dwarf_info():
                    return
                info = image.get_dwarf_info()
                for unit in info.iter_CUs():
                    rows += _unit_rows(info, unit)
                    self._functions += _unit_functions(unit)
        except (OSError, ELFError, KeyError, IndexError, ValueError):
            return  # damaged debug information is no reason to fail: addresses stay as they are
        rows.sort(key=lambda row: row[0])
        self._starts = [address for address, _ in rows]
        self._lines = [line for _, line in rows]
        self._functions.sort()

    def at(self, offset: int) -> Line | None:
        """The line of the code at this offset from the image's load address."""
        i = bisect.bisect_right(self._starts, offset) - 1
        if i < 0 or self._lines[i] is None:
            return None
        file, line = self._lines[i] or ("", 0)
        return Line(file, line, self._function(offset))

    def _function(self, offset: int) -> str:
        i = bisect.bisect_right(self._functions, (offset, 1 << 64, "")) - 1
        if i >= 0 and offset < self._functions[i][1]:
            return self._functions[i][2]
        return ""


def _unit_rows(info: Any, unit: Any) -> list[tuple[int, tuple[str, int] | None]]:
    program = info.line_program_for_CU(unit)
    if program is None:
        return []
    folder = _text(unit.get_top_DIE().attributes.get("DW_AT_comp_dir"))
    version5 = program["version"] >= 5
    files, folders = program["file_entry"], program["include_directory"]

    @cache
    def name(index: int) -> str:
        entry = files[index if version5 else index - 1]
        at = entry.dir_index
        inside = (
            (_bytes(folders[at]) if version5 else (_bytes(folders[at - 1]) if at else "")) if folders else ""
        )
        return os.path.normpath(os.path.join(folder, inside, _bytes(entry.name)))

    rows: list[tuple[int, tuple[str, int] | None]] = []
    for entry in program.get_entries():
        state = entry.state
        if state is None:
            continue
        rows.append((state.address, None if state.end_sequence else (name(state.file), state.line)))
    return rows


def _unit_functions(unit: Any) -> list[tuple[int, int, str]]:
    found = []
    for die in unit.get_top_DIE().iter_children():
        if die.tag != "DW_TAG_subprogram" or "DW_AT_low_pc" not in die.attributes:
            continue
        low = die.attributes["DW_AT_low_pc"].value
        high = die.attributes.get("DW_AT_high_pc")
        if high is None:
            continue
        end = high.value if high.form == "DW_FORM_addr" else low + high.value
        found.append((low, end, _text(die.attributes.get("DW_AT_name"))))
    return found


def _bytes(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _text(attribute: Any) -> str:
    return "" if attribute is None else _bytes(attribute.value)
