"""From a code address in a firmware image to the line of C that it belongs to (DWARF, versions 4 and 5)."""

from __future__ import annotations

import bisect
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from firmware_sim.sdk_folder import here

_FUNCTIONS = ("DW_TAG_subprogram", "DW_TAG_inlined_subroutine")
_Place = tuple[str, int]


class _Table(NamedTuple):
    """Lines of one unit by the addresses at which they begin; None: a gap begins."""

    starts: list[int]
    places: list[_Place | None]


_CALLERS = "_device_entry.c"  # generated: what calls layers
_OURS = ("sdk/firmware", "sdk/arm", "sdk/libc", "sdk/generated")


@dataclass(frozen=True)
class Line:
    """A line of a source file. function is the one that the line was written in, also where the compiler
    put it inside another; it is empty where the debug information does not name one. line is 0 for code that
    belongs to several lines."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        place = f"{_short(self.file)}:{self.line}" if self.line else _short(self.file)
        return f"{place} in {self.function}" if self.function else place


def _short(file: str) -> str:
    """Relative to the working directory where that is shorter."""
    try:
        relative = os.path.relpath(file)
    except (ValueError, OSError):  # the working directory may be gone
        return file
    return relative if not relative.startswith("..") else file


class SourceLines:
    """The line tables of one image, each read when an address in its unit is asked for; empty for None and
    where there is no sound debug information."""

    def __init__(self, path: Path | None) -> None:
        self._info: Any = None
        self._units: list[tuple[int, int, Any]] = []  # code from, up to, of which unit
        self._tables: dict[int, _Table] = {}  # by the unit's offset
        if path is not None:
            self._read(path)

    def _read(self, path: Path) -> None:
        from elftools.elf.elffile import ELFFile

        try:
            with open(path, "rb") as stream:
                image = ELFFile(stream)
                if not image.has_dwarf_info():
                    return
                self._info = image.get_dwarf_info()
            for unit in self._info.iter_CUs():
                about = unit.get_top_DIE()
                if _text(about.attributes.get("DW_AT_producer")).startswith("zig"):
                    continue  # its run-time library, which is large and nobody's code here
                spans = list(_ranges(self._info, unit, about))
                # linkers put the code that they dropped at 0
                self._units += [(low, high, unit) for low, high in spans if low]
        except Exception:  # pyelftools raises nearly anything for damaged debug information, which
            self._units.clear()  # is no reason to fail: addresses stay as they are

    def _table(self, unit: Any) -> _Table:
        known = self._tables.get(unit.cu_offset)
        if known is None:
            try:
                # one sequence may begin where another ends
                rows = sorted(_unit_rows(self._info, unit), key=lambda row: (row[0], row[1] is not None))
            except Exception:
                rows = []
            known = self._tables[unit.cu_offset] = _Table(
                [at for at, _ in rows], [place for _, place in rows]
            )
        return known

    def __bool__(self) -> bool:
        return bool(self._units)

    def at(self, offset: int) -> Line | None:
        """The line of the code at this offset from the image's load address."""
        found = self.chain(offset)
        return found[0] if found else None

    def chain(self, offset: int) -> tuple[Line, ...]:
        """That line, and behind it, where the compiler put its function inside another, the lines of the
        calls: innermost first, the last in the function that the code belongs to. Empty without a line."""
        unit = next((unit for low, high, unit in self._units if low <= offset < high), None)
        if unit is None:
            return ()
        table = self._table(unit)
        i = bisect.bisect_right(table.starts, offset) - 1
        row = table.places[i] if i >= 0 else None
        if row is None:
            return ()
        file, line = row
        while not line and i > 0 and (before := table.places[i - 1]) is not None and before[0] == file:
            i, line = i - 1, before[1]  # what the compiler added to a function, such as a check at its end
        found = list[Line]()
        try:
            functions = _functions(self._info, unit, offset)
            name = _names(self._info, unit)
            while functions:
                about = functions.pop()
                call = about.attributes
                outermost = "DW_AT_call_line" not in call
                # A function of the C library that a header defines: the line that calls it says more.
                if outermost or not _of_the_system(file):
                    found.append(Line(file, line, _name(about)))
                if outermost:
                    break
                file, line = name(call["DW_AT_call_file"].value), call["DW_AT_call_line"].value
        except Exception:
            found = found or [Line(file, line, "")]
        return tuple(found) or (Line(file, line, ""),)

    def function(self, name: str) -> Line | None:
        """Where a function begins that is not static in several files; None for one that is not known."""
        try:
            for unit in self._info.iter_CUs() if self._info is not None else ():
                for die in unit.get_top_DIE().iter_children():
                    about = die.attributes
                    if (
                        die.tag == "DW_TAG_subprogram"
                        and "DW_AT_low_pc" in about
                        and _name(die) == name
                        and (line := about.get("DW_AT_decl_line")) is not None
                    ):
                        file = _names(self._info, unit)(about["DW_AT_decl_file"].value)
                        return Line(file, line.value, name)
        except Exception:
            return None
        return None


def of_the_user(line: Line) -> bool:
    """Whether a line is the user's, or a layer's: where the firmware itself was helps nobody."""
    folder, name = os.path.split(line.file)
    return not (folder.endswith(_OURS) or name.endswith(_CALLERS) or _of_the_system(line.file))


def place_text(lines: SourceLines, frames: Sequence[int], newest: int = 0) -> str:
    """Where a stack of return addresses (offsets from the load address, innermost first) is in the user's
    code: " at kernel.c:7 in kernel". Without any of it: after which call of the kernel API (newest: its
    return address, 0 none). Empty when nothing is known: where the firmware itself was helps nobody."""
    places = [(" at", address) for address in frames]
    if newest:
        places.append((" after its call at", newest))
    for how, address in places:
        if (line := lines.at(address - 1)) is not None and of_the_user(line):
            return f"{how} {line}"
    return ""


def _unit_rows(info: Any, unit: Any) -> list[tuple[int, _Place | None]]:
    program = info.line_program_for_CU(unit)
    if program is None:
        return []
    name = _names(info, unit)
    rows: list[tuple[int, _Place | None]] = []
    sequence: list[tuple[int, _Place | None]] = []
    for entry in program.get_entries():
        state = entry.state
        if state is None:
            continue
        sequence.append((state.address, None if state.end_sequence else (name(state.file), state.line)))
        if state.end_sequence:
            if sequence[0][0] != 0:  # linkers put the lines of code that they dropped at 0
                rows += sequence
            sequence = []
    return rows


def _names(info: Any, unit: Any) -> Callable[[int], str]:
    """What gives the path of a unit's file with a number."""
    program = info.line_program_for_CU(unit)
    folder = _text(unit.get_top_DIE().attributes.get("DW_AT_comp_dir"))
    version5 = program["version"] >= 5
    files, folders = program["file_entry"], program["include_directory"]

    @cache
    def name(index: int) -> str:
        entry = files[index if version5 else index - 1]
        at = entry.dir_index if version5 else entry.dir_index - 1  # before version 5, 0 is the unit's own
        inside = _bytes(folders[at]) if at >= 0 else ""
        return here(os.path.normpath(os.path.join(folder, inside, _bytes(entry.name))))

    return name


def _of_the_system(file: str) -> bool:
    return file.startswith("/usr/") or "/ziglang/" in file


def _functions(info: Any, unit: Any, offset: int) -> list[Any]:
    """The functions whose text holds the address; behind each those that the compiler put inside it."""
    die, found = unit.get_top_DIE(), list[Any]()
    while True:
        for child in die.iter_children():
            if any(low <= offset < high for low, high in _ranges(info, unit, child)):
                if child.tag in _FUNCTIONS:
                    found.append(child)
                die = child
                break
        else:
            return found


def _ranges(info: Any, unit: Any, die: Any) -> Iterator[tuple[int, int]]:
    if die.tag not in (*_FUNCTIONS, "DW_TAG_lexical_block", "DW_TAG_compile_unit"):
        return
    if (low := die.attributes.get("DW_AT_low_pc")) and low.value:
        if high := die.attributes.get("DW_AT_high_pc"):
            yield low.value, high.value if high.form == "DW_FORM_addr" else low.value + high.value
    elif pieces := die.attributes.get("DW_AT_ranges"):
        base = unit.get_top_DIE().attributes.get("DW_AT_low_pc")
        start = base.value if base is not None else 0
        for piece in info.range_lists().get_range_list_at_offset(pieces.value, unit):
            if hasattr(piece, "base_address"):
                start = piece.base_address
            else:
                shift = 0 if getattr(piece, "is_absolute", False) else start
                yield piece.begin_offset + shift, piece.end_offset + shift


def _name(die: Any) -> str:
    for _ in range(4):  # an inlined function refers to its declaration, which may refer on
        if "DW_AT_name" in die.attributes or "DW_AT_abstract_origin" not in die.attributes:
            break
        die = die.get_DIE_from_attribute("DW_AT_abstract_origin")
    return _text(die.attributes.get("DW_AT_name"))


def _bytes(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _text(attribute: Any) -> str:
    return "" if attribute is None else _bytes(attribute.value)
