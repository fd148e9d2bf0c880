"""What checkouts and installs with the same sources share: the key in the cache, the bytes, the way back."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from firmware_sim.firmware.source_lines import SourceLines
from firmware_sim.sdk_folder import here, message_here, sdk_dir
from tests.paths import ROOT
from tests.support.workspaces import environment
from user_layers.toolchain import shared
from user_layers.toolchain.arm import arm_compiler
from user_layers.toolchain.builtin import builtin_artifacts, builtin_location
from user_layers.toolchain.compilers import Compiler, choose, zig
from user_layers.toolchain.ninja_file import NinjaFile, Objects
from user_layers.toolchain.report import Reporter
from user_layers.toolchain.sanitize import sanitizers
from user_layers.workspace import machine_arch

KEY = "from user_layers.toolchain.builtin import *; print(builtin_location(choose()).directory)"


def _key(checkout: Path) -> Path:
    """Where a copy of the sources has its built-in part, as seen by a process of its own."""
    words = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(checkout)!r}); {KEY}"]
    env = environment(PYTHONPATH=str(checkout))
    done = subprocess.run(
        words, cwd=checkout, env=env, capture_output=True, text=True, timeout=60, check=True
    )
    return Path(done.stdout.strip())


def test_the_key_depends_on_what_the_sources_are_and_not_on_where(tmp_path: Path) -> None:
    checkout = tmp_path / "another checkout"
    for room in ("firmware_sim", "user_layers", "sdk"):
        shutil.copytree(ROOT / room, checkout / room, ignore=shutil.ignore_patterns("__pycache__"))
    assert _key(checkout) == builtin_location(choose()).directory
    header = checkout / "sdk" / "include" / "okk.h"
    header.rename(header.with_name("okk2.h"))
    renamed = _key(checkout)
    header.with_name("okk2.h").rename(header)
    header.write_text(header.read_text() + "\n")
    assert len({renamed, _key(checkout), builtin_location(choose()).directory}) == 3


def _compilers() -> dict[str, Compiler]:
    plain = choose().c
    own = zig("c", machine_arch())
    return {
        plain.family: plain,
        f"{plain.family} with checks": sanitizers(plain).compiler,
        "zig": own,
        "zig with checks": sanitizers(own).compiler,
        "controller": arm_compiler(Path("sdk")),
    }


@pytest.mark.parametrize("name", ["chosen", "chosen with checks", "zig", "zig with checks", "controller"])
def test_objects_of_two_checkouts_are_the_same(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = _compilers()[name.replace("chosen", choose().c.family)]
    objects = []
    for checkout in (tmp_path / "one", tmp_path / "other" / "deeper"):
        for part in ("include", "generated", "libc"):
            shutil.copytree(sdk_dir() / part, checkout / "_sdk" / part)
        monkeypatch.setattr(shared, "sdk_dir", lambda checkout=checkout: checkout / "_sdk")
        folder = checkout / "cache"
        folder.mkdir()
        sdk = shared.linked_sdk(folder)
        ninja = NinjaFile(folder, folder)
        group = Objects(shared.shared(compiler, folder), [sdk / "libc" / "heap.c"], [sdk / "include"], "heap")
        archive = ninja.archive(compiler, folder / "heap.a", ninja.objects(group))
        shared.build_shared(ninja, [archive], "", Reporter(quiet=True), "")
        assert [path.name for path in folder.iterdir()] == ["heap.a"]
        objects.append(archive.read_bytes())
    assert objects[0] == objects[1]
    assert b"sdk/libc/heap.c" in objects[0] and bytes(tmp_path) not in objects[0]


def test_lines_of_shared_images_are_in_files_that_are_here() -> None:
    symbol = "okk_initialize"
    for image in (builtin_artifacts().firmware, builtin_artifacts().arm_program):
        with image.open("rb") as stream:
            table = ELFFile(stream).get_section_by_name(".symtab")
            assert table is not None, image
            addresses = [one["st_value"] for one in table.get_symbol_by_name(symbol) or ()]
        (line,) = (SourceLines(image).at(address) for address in addresses)
        assert line is not None and line.file.startswith(f"{sdk_dir()}/firmware/") and line.function == symbol
        assert symbol in Path(line.file).read_text().splitlines()[line.line - 1]


def test_names_lead_back_to_the_files() -> None:
    sdk = str(sdk_dir())
    assert here("/tpulayer/sdk/libc/heap.c") == f"{sdk}/libc/heap.c"
    for path in ("/tpulayer/sdkx/heap.c", "/home/tpulayer/sdk/heap.c", "sdk/libc/heap.c", ""):
        assert here(path) == path
    for text, wanted in (
        ("sdk/libc/heap.c:7: it", f"{sdk}/libc/heap.c:7: it"),
        ("kernel k: sdk/a.h:12:3: it, then sdk/b.c:1", f"kernel k: {sdk}/a.h:12:3: it, then {sdk}/b.c:1"),
        ("my/sdk/libc/heap.c:7", "my/sdk/libc/heap.c:7"),
        ("the sdk/libc/heap.c", "the sdk/libc/heap.c"),
        ("/sdk/heap.c:7 asdk/heap.c:7", "/sdk/heap.c:7 asdk/heap.c:7"),
    ):
        assert message_here(text.encode()).decode() == wanted
