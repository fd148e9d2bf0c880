"""The argument struct of a free kernel, as the compiler laid it out: read from the image's DWARF."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firmware_sim.errors import UsageError

_POINTER_LIKE = {
    "DW_TAG_pointer_type",
    "DW_TAG_const_type",
    "DW_TAG_typedef",
    "DW_TAG_volatile_type",
    "DW_TAG_restrict_type",
}
_CODES = {  # (DW_ATE, bytes) -> struct letter
    (2, 1): "?",
    (4, 4): "f",
    (4, 8): "d",
    **{(code, size): letter for code in (5, 6) for size, letter in ((1, "b"), (2, "h"), (4, "i"), (8, "q"))},
    **{(code, size): letter for code in (7, 8) for size, letter in ((1, "B"), (2, "H"), (4, "I"), (8, "Q"))},
}


@dataclass(frozen=True)
class Member:
    """code: the struct module's letter; count: elements of an array (1: a scalar)."""

    name: str
    offset: int
    code: str
    count: int

    @property
    def size(self) -> int:
        """Bytes of one element."""
        return struct.calcsize(f"<{self.code}")


@dataclass(frozen=True)
class Arguments:
    """A struct's name, size in bytes, and members; those of nested structs as `outer.inner`."""

    name: str
    size: int
    members: tuple[Member, ...]

    def member(self, name: str) -> Member:
        """Raises UsageError with the names there are."""
        for m in self.members:
            if m.name == name:
                return m
        raise UsageError(
            f"{self.name} has no member {name}", hint=f"it has {', '.join(m.name for m in self.members)}"
        )

    def argument_bytes(self, values: Mapping[str, Any]) -> bytes:
        """The struct's bytes. Every member must be given; UsageError for what is missing or does not fit."""
        out = bytearray(self.size)
        for name in values:
            self.member(name)
        if missing := [m.name for m in self.members if m.name not in values]:
            raise UsageError(f"{self.name}: no value for {', '.join(missing)}", hint="give all members")
        for m in self.members:
            value = values[m.name]
            given = list(value) if isinstance(value, (list, tuple)) else [value]
            if len(given) != m.count:
                raise UsageError(f"{m.name} takes {m.count} values, not {len(given)}")
            for i, one in enumerate(given):
                try:
                    struct.pack_into(f"<{m.code}", out, m.offset + i * m.size, one)
                except (struct.error, OverflowError):
                    raise UsageError(f"{m.name}: {one!r} does not fit into {_words(m)}") from None
        return bytes(out)


def _words(m: Member) -> str:
    kind = {"f": "fp32", "d": "fp64", "?": "bool"}.get(m.code)
    return kind or f"{'an unsigned' if m.code.isupper() else 'a signed'} integer of {8 * m.size} bits"


def find_arguments(
    image: Path, kernel: str, sources: list[Path], name: str | None = None, *, guess: bool = True
) -> Arguments | None:
    """The struct that `kernel` takes: the type of a local pointer of its function, or the one called `name`;
    else, to guess, the only struct of its source files; None when there is none.

    Raises UsageError when there are several, or none of that name.
    """
    from elftools.elf.elffile import ELFFile

    files = {str(path.resolve()) for path in sources}
    with open(image, "rb") as stream:
        info = ELFFile(stream).get_dwarf_info()
        structs: dict[str, Any] = {}
        used: list[Any] = []
        for unit in info.iter_CUs():
            top = unit.get_top_DIE()
            if _path(top) not in files:
                continue
            for die in top.iter_children():
                structs.update(_named(die))
                if die.tag == "DW_TAG_subprogram" and _text(die, "DW_AT_name") == kernel:
                    used += [found for found in _locals(die) if _own(found, files)]
        if name is not None:
            if name not in structs:
                raise UsageError(f"there is no struct {name}", hint=f"there are {', '.join(sorted(structs))}")
            return _layout(name, structs[name])
        for die in used:
            for label, found in structs.items():
                if found.offset == die.offset:
                    return _layout(label, found)
            return _layout("the argument struct", die)
        if not guess:
            return None
        own = {
            label: die
            for label, die in structs.items()
            if _own(die, files) and not label.startswith("__")  # such names are the compiler's
        }
        distinct = {die.offset: (label, die) for label, die in own.items()}
        if len(distinct) > 1:
            raise UsageError(
                f"{kernel} has several structs beside it: {', '.join(sorted(own))}",
                hint="say which it takes: --struct NAME",
            )
        for label, die in distinct.values():
            return _layout(label, die)
    return None


def _text(die: Any, attribute: str) -> str:
    value = die.attributes.get(attribute)
    return "" if value is None else value.value.decode(errors="replace")


def _path(top: Any) -> str:
    return os.path.normpath(os.path.join(_text(top, "DW_AT_comp_dir"), _text(top, "DW_AT_name")))


def _referred(die: Any) -> Any:
    return die.get_DIE_from_attribute("DW_AT_type") if "DW_AT_type" in die.attributes else None


def _bare(die: Any) -> Any:
    """The type behind typedefs, qualifiers and (one) pointer."""
    while die is not None and die.tag in _POINTER_LIKE:
        die = _referred(die)
    return die


def _named(die: Any) -> Iterator[tuple[str, Any]]:
    """Structs by tag and by typedef."""
    if die.tag == "DW_TAG_structure_type" and "DW_AT_byte_size" in die.attributes:
        if label := _text(die, "DW_AT_name"):
            yield label, die
    elif die.tag == "DW_TAG_typedef":
        inner = _referred(die)
        if inner is not None and inner.tag == "DW_TAG_structure_type":
            yield _text(die, "DW_AT_name"), inner


def _locals(function: Any) -> list[Any]:
    """Structs that local pointers (and copies) of a function are of, in order."""
    found = []
    for die in function.iter_children():
        if die.tag == "DW_TAG_variable":
            bare = _bare(_referred(die))
            if bare is not None and bare.tag == "DW_TAG_structure_type":
                found.append(bare)
        elif die.tag in ("DW_TAG_lexical_block", "DW_TAG_inlined_subroutine"):
            found += _locals(die)
    return found


_API = ("okk.h", "bm_atomic.h")


def _own(die: Any, files: set[str]) -> bool:
    """Whether a struct is the user's: not one of the kernel API or of the C library."""
    path = _declared_in(die)
    if path is None:
        return True
    if path.name in _API:
        return False
    if any(path.is_relative_to(Path(file).parent) for file in files):
        return True
    return not path.is_relative_to("/usr") and "ziglang" not in path.parts


def _declared_in(die: Any) -> Path | None:
    """The file that declares a struct, where the debug information tells it."""
    program = die.dwarfinfo.line_program_for_CU(die.cu)
    index = die.attributes.get("DW_AT_decl_file")
    if program is None or index is None:
        return None
    first = 0 if program["version"] >= 5 else 1  # of files and folders; before that version 0 is the unit's
    entry = program["file_entry"][index.value - first]
    folders = program["include_directory"]
    at = entry.dir_index - first
    folder = folders[at].decode(errors="replace") if 0 <= at < len(folders) else ""
    base = _text(die.cu.get_top_DIE(), "DW_AT_comp_dir")
    return Path(os.path.normpath(os.path.join(base, folder, entry.name.decode(errors="replace"))))


def _layout(name: str, die: Any) -> Arguments:
    return Arguments(name, die.attributes["DW_AT_byte_size"].value, tuple(_members(die, 0, "")))


def _members(die: Any, base: int, prefix: str) -> Iterator[Member]:
    for child in die.iter_children():
        if child.tag != "DW_TAG_member":
            continue
        label = prefix + _text(child, "DW_AT_name")
        if "DW_AT_bit_size" in child.attributes:
            raise UsageError(f"{label} is a bit field", hint="arguments are whole numbers")
        at = child.attributes.get("DW_AT_data_member_location")
        offset = base + (at.value if at is not None else 0)
        kind, count = _referred(child), 1
        while kind is not None and kind.tag in (*_POINTER_LIKE, "DW_TAG_array_type"):
            if kind.tag == "DW_TAG_pointer_type":
                raise UsageError(f"{label} is a pointer", hint="pass device addresses as 64-bit integers")
            if kind.tag == "DW_TAG_array_type":
                for extent in kind.iter_children():
                    bound = extent.attributes.get("DW_AT_upper_bound") or extent.attributes.get("DW_AT_count")
                    if bound is not None:
                        count *= bound.value + (1 if "DW_AT_upper_bound" in extent.attributes else 0)
            kind = _referred(kind)
        if kind is not None and kind.tag == "DW_TAG_structure_type" and count == 1:
            yield from _members(kind, offset, f"{label}.")
            continue
        if kind is not None and kind.tag == "DW_TAG_enumeration_type":
            yield Member(label, offset, "i", count)
            continue
        key = None
        if kind is not None and kind.tag == "DW_TAG_base_type":
            key = (kind.attributes["DW_AT_encoding"].value, kind.attributes["DW_AT_byte_size"].value)
        if key not in _CODES:
            raise UsageError(
                f"{label} has a type that cannot be given", hint="use numbers and arrays of them"
            )
        yield Member(label, offset, _CODES[key], count)
