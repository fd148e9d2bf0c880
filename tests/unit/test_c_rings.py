"""No C file of the SDK calls a function of a file that, perhaps through others, calls one of its own.

Seen in the objects of the existing build: who defines a function, and who leaves it undefined.
"""

from __future__ import annotations

import io
import subprocess
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from tests.paths import ROOT
from user_layers.toolchain import builtin_artifacts
from user_layers.toolchain.compilers import choose

SDK = ROOT / "sdk"
MAGIC, HEADER = b"!<arch>\n", 60


def members(archive: Path) -> Iterator[tuple[str, bytes]]:
    """Names and contents of the objects in an archive."""
    data, at, names = archive.read_bytes(), len(MAGIC), b""
    assert data.startswith(MAGIC)
    while at < len(data):
        name = data[at : at + 16].decode().rstrip()
        size = int(data[at + 48 : at + 58])
        content = data[at + HEADER : at + HEADER + size]
        at += HEADER + size + size % 2
        if name == "//":
            names = content
        elif name not in ("/", "/SYM64/"):
            if name.startswith("/"):
                begin = int(name[1:])
                name = names[begin : names.index(b"\n", begin)].decode()
            yield Path(name.rstrip("/")).name, content


def calls(objects: Iterator[tuple[str, bytes]]) -> dict[str, dict[str, str]]:
    """For each object the others that it calls, with one of the functions; data do not count."""
    home: dict[str, str] = {}
    wanted: dict[str, list[str]] = {}
    for name, content in objects:
        table = ELFFile(io.BytesIO(content)).get_section_by_name(".symtab")
        symbols = [s for s in table.iter_symbols() if s["st_info"]["bind"] != "STB_LOCAL"]
        wanted[name] = [s.name for s in symbols if s["st_shndx"] == "SHN_UNDEF"]
        functions = (s.name for s in symbols if s["st_info"]["type"] == "STT_FUNC")
        home |= {f: name for f in functions if f not in wanted[name]}
    return {
        name: {home[f]: f for f in functions if f in home and home[f] != name}
        for name, functions in wanted.items()
    }


def ring(graph: dict[str, dict[str, str]]) -> str:
    """One ring as text, "" when there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        files = error.args[1][::-1]  # each calls the next
        return "; ".join(f"{a} calls {graph[a][b]} of {b}" for a, b in pairwise(files))
    return ""


def compiled(
    sources: list[Path], folder: Path, includes: list[Path], *options: str
) -> Iterator[tuple[str, bytes]]:
    compiler = choose().c
    flags = (*compiler.flags, "-O0", *(f"-I{path}" for path in includes), *options, "-c")
    subprocess.run([*compiler.argv, *flags, *map(str, sources)], cwd=folder, check=True, timeout=840)
    yield from ((path.name, path.read_bytes()) for path in sorted(folder.glob("*.o")))


def test_firmware_and_layers() -> None:
    for archive, some in (
        (builtin_artifacts().libtpufw, ("fw_core.c.o", "fw_native.c.o", "bm_layer_move.c.o")),
        (builtin_artifacts().libtpufw_arm, ("fw_core.c.o", "fw_arm.c.o", "crt.S.o", "heap.c.o")),
    ):
        graph = calls(members(archive))
        assert set(some) <= set(graph) and "fw_port.c.o" in {b for callees in graph.values() for b in callees}
        assert ring(graph) == ""


def test_libraries_of_the_host(tmp_path: Path) -> None:
    host = SDK / "host"
    sources = [*host.glob("*.c"), *(host / "generated").glob("*.c")]
    includes = [builtin_artifacts().directory, SDK / "include", SDK / "generated", SDK / "firmware", host]
    graph = calls(compiled(sources, tmp_path, includes))
    assert len(graph) == len(sources) and "bmrt_say.o" in graph["bmrt.o"]
    assert ring(graph) == ""


def test_library_of_the_delegates(tmp_path: Path) -> None:
    core = SDK / "delegate" / "core"
    includes = [
        builtin_artifacts().directory,
        *(SDK / name for name in ("include", "generated", "host")),
        core,
    ]
    sources = sorted(core.glob("*.c"))
    text = tmp_path / "version.h"
    text.write_text('#define TPULAYER_VERSION "0"\n')
    graph = calls(compiled(sources, tmp_path, includes, "-include", str(text)))
    assert len(graph) == len(sources) and "device.o" in graph["partition.o"]
    assert ring(graph) == ""


@pytest.mark.parametrize(("back", "found"), [("c_calls()", True), ("c_data", False)])
def test_a_ring_is_found(tmp_path: Path, back: str, found: bool) -> None:
    """Of three files; data that a file reads in another one close none."""
    parts = {
        "a": "int b_calls(void);\nint c_data = 1;\nint c_calls(void) { return b_calls(); }\n",
        "b": "int d_calls(void);\nint b_calls(void) { return d_calls(); }\n",
        "d": f"extern int c_data;\nint c_calls(void);\nint d_calls(void) {{ return {back}; }}\n",
    }
    for name, text in parts.items():
        (tmp_path / f"{name}.c").write_text(text)
    sources = [tmp_path / f"{name}.c" for name in parts]
    text = ring(calls(compiled(sources, tmp_path, [])))
    parts_of_ring = ["a.o calls b_calls of b.o", "b.o calls d_calls of d.o", "d.o calls c_calls of a.o"]
    assert sorted(text.split("; ")) == (parts_of_ring if found else [""])
