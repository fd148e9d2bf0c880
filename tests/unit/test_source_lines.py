"""Code addresses to lines: inlined functions, both compilers, both DWARF versions, damaged images."""

from __future__ import annotations

import ctypes
import random
import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from firmware_sim.firmware.source_lines import Line, SourceLines
from tests.support.firmware_harness import compilers

# Each function writes down where it was called; tests find the lines by their comments.
SOURCE = """
#include <stdint.h>
uint64_t sites[8];
int count;
__attribute__((noinline)) void issue(void) {
    sites[count++] = (uint64_t)__builtin_return_address(0);
}
static inline __attribute__((always_inline)) void inner(int n) {
    if (n > 0) issue(); /* inner */
    count += n;
}
static inline __attribute__((always_inline)) void outer(int n) {
    inner(n); /* into inner */
    issue(); /* outer */
    count += 0 * n;
}
void kernel(int n) {
    issue(); /* kernel */
    outer(n); /* into outer */
    issue(); /* end */
    count += 0;
}
"""
OTHER = """
void issue(void);
extern int count;
void neighbour(void) {
    issue(); /* neighbour */
    count -= 0;
}
"""
FLAGS = ["-O2", "-g1", "-fPIC", "-shared", "-fno-optimize-sibling-calls"]


def compiled(folder: Path, compiler: list[str], *flags: str) -> Path:
    for name, text in (("kernel.c", SOURCE), ("other.c", OTHER)):
        (folder / name).write_text(text)
    image = folder / "image.so"
    command = [*compiler, *FLAGS, *flags, "kernel.c", "other.c", "-o", str(image)]
    subprocess.run(command, check=True, cwd=folder, timeout=120)
    return image


class DlInfo(ctypes.Structure):
    _fields_ = tuple((n, ctypes.c_void_p) for n in ("file", "base", "symbol", "address"))


def offsets(image: Path) -> list[int]:
    """Where issue() was called from, as offsets into the image; just before the return address."""
    library = ctypes.CDLL(str(image))
    library.kernel(1)
    library.neighbour()
    info = DlInfo()
    assert ctypes.CDLL(None).dladdr(ctypes.c_void_p.from_buffer(library.issue), ctypes.byref(info))
    count = ctypes.c_int.in_dll(library, "count").value
    assert count == 6  # inner counts one more
    sites = (ctypes.c_uint64 * 8).in_dll(library, "sites")
    return [at - int(info.base or 0) - 1 for at in sites[:count] if at]


def line_of(text: str, mark: str) -> int:
    return next(i for i, line in enumerate(text.splitlines(), 1) if f"/* {mark} */" in line)


@pytest.mark.parametrize("dwarf", ["-gdwarf-4", "-gdwarf-5"])
@pytest.mark.parametrize("compiler", compilers())
def test_lines_and_functions(compiler: str, dwarf: str, tmp_path: Path) -> None:
    image = compiled(tmp_path, compilers()[compiler], dwarf)
    lines = SourceLines(image)
    expected = [
        ("kernel", "kernel.c", SOURCE, "kernel"),
        ("inner", "kernel.c", SOURCE, "inner"),
        ("outer", "kernel.c", SOURCE, "outer"),
        ("end", "kernel.c", SOURCE, "kernel"),
        ("neighbour", "other.c", OTHER, "neighbour"),
    ]
    want = [
        Line(str(tmp_path / file), line_of(text, mark), function) for mark, file, text, function in expected
    ]
    at = offsets(image)
    assert [lines.at(one) for one in at] == want
    kernel, inner, outer, end, neighbour = want
    into_inner = Line(outer.file, line_of(SOURCE, "into inner"), "outer")
    into_outer = Line(outer.file, line_of(SOURCE, "into outer"), "kernel")
    chains = [(kernel,), (inner, into_inner, into_outer), (outer, into_outer), (end,), (neighbour,)]
    assert [lines.chain(one) for one in at] == chains


@pytest.mark.parametrize("dwarf", ["-gdwarf-4", "-gdwarf-5"])
@pytest.mark.parametrize("compiler", compilers())
def test_functions_of_system_headers_are_their_callers(compiler: str, dwarf: str, tmp_path: Path) -> None:
    """As memset is with -D_FORTIFY_SOURCE: the header's line says nothing about the kernel's."""
    (tmp_path / "ziglang").mkdir()
    header = tmp_path / "ziglang" / "string.h"
    start = SOURCE.index("static inline")
    header.write_text(SOURCE[start : SOURCE.index("void kernel")])
    (tmp_path / "k.c").write_text(
        SOURCE[:start] + '#include "ziglang/string.h"\n'
        "void neighbour(void) {}\n"
        "void kernel(int n) {\n    issue();\n    count += 0;\n    outer(n); /* call */\n    count += 2;\n}\n"
    )
    image = tmp_path / "image.so"
    command = [*compilers()[compiler], *FLAGS, dwarf, "k.c", "-o", str(image)]
    subprocess.run(command, check=True, cwd=tmp_path, timeout=120)
    call = Line(str(tmp_path / "k.c"), line_of((tmp_path / "k.c").read_text(), "call"), "kernel")
    lines = SourceLines(image)
    assert [lines.at(at) for at in offsets(image)[1:]] == [call, call]


def test_a_file_below_the_working_directory_is_named_shortly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert str(Line(str(tmp_path / "device/a.c"), 7, "f")) == "device/a.c:7 in f"
    assert str(Line("/elsewhere/a.c", 7, "")) == "/elsewhere/a.c:7"


def test_what_lies_outside_has_no_line(tmp_path: Path) -> None:
    lines = SourceLines(compiled(tmp_path, next(iter(compilers().values()))))
    assert lines.at(0) is None
    assert lines.chain(0) == ()
    assert lines.at(1 << 40) is None
    assert lines.at(-5) is None


def test_no_or_damaged_debug_information_is_no_error(tmp_path: Path) -> None:
    compiler = next(iter(compilers().values()))
    image = compiled(tmp_path, compiler)
    at = offsets(image)
    good = image.read_bytes()
    with open(image, "rb") as stream:
        sections = [s for s in ELFFile(stream).iter_sections() if s.name.startswith(".debug")]
        spans = [range(s["sh_offset"], s["sh_offset"] + s["sh_size"]) for s in sections]
    stripped = compiled(tmp_path, compiler, "-g0", "-s")
    assert SourceLines(stripped).at(at[0]) is None
    damaged = tmp_path / "damaged.so"
    for content in (b"", b"\x7fELF", good[: len(good) // 2]):
        damaged.write_bytes(content)
        assert SourceLines(damaged).at(at[0]) is None
    assert SourceLines(tmp_path / "absent.so").at(at[0]) is None
    chance = random.Random(1)
    for i in range(300):
        broken = bytearray(good)
        for _ in range(1 + i % 5):
            broken[chance.choice(chance.choice(spans))] = chance.randrange(256)
        damaged.write_bytes(broken)
        lines = SourceLines(damaged)
        for offset in at:
            lines.at(offset)  # whatever it finds: nothing is raised
