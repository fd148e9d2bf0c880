"""The programs for a card as packs carry them: built by zig for both machines; aarch64 runs under qemu."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection

from tests.support.card import hand_made_pack, mock_libraries
from user_layers.card.explain import as_text, explain
from user_layers.card.programs import CALLS, MACHINES, PROGRAMS, card_programs
from user_layers.card.result import read_result
from user_layers.toolchain.cache import cache_root, locked
from user_layers.toolchain.compilers import zig

pytestmark = pytest.mark.slow

PACKAGES = ("qemu-user-static", "libc6-arm64-cross")  # Debian's; nothing is installed
SYSTEM = {"libc.so.6", "libdl.so.2", "libm.so.6"}
FETCH_SECONDS = 300


@pytest.mark.parametrize("machine", MACHINES)
def test_what_the_programs_ask_for(machine: str) -> None:
    """The libraries by the vendor's names, no place where to look for them, an old C library."""
    for program in PROGRAMS:
        with (card_programs(machine) / program).open("rb") as file:
            elf = ELFFile(file)
            assert elf.get_machine_arch() == {"x86_64": "x64", "aarch64": "AArch64"}[machine]
            tags = list(elf.get_section_by_name(".dynamic").iter_tags())
            own = {f"lib{name}.so" for name in (CALLS if program == "check" else ("bmlib",))}
            needed = {tag.needed for tag in tags if tag.entry.d_tag == "DT_NEEDED"}
            assert own <= needed <= own | SYSTEM
            assert not {"DT_RPATH", "DT_RUNPATH"} & {tag.entry.d_tag for tag in tags}
            versions = [
                tuple(map(int, need.name.removeprefix("GLIBC_").split(".")))
                for section in elf.iter_sections()
                if isinstance(section, GNUVerNeedSection)
                for _, auxiliaries in section.iter_versions()
                for need in auxiliaries
            ]
            assert versions and max(versions) <= (2, 17)
            foreign = {
                symbol.name
                for symbol in elf.get_section_by_name(".dynsym").iter_symbols()
                if symbol["st_shndx"] == "SHN_UNDEF" and symbol.name.startswith(("bm", "okkernel"))
            }
            assert foreign <= {call for calls in CALLS.values() for call in calls}


def emulator() -> list[str]:
    """The words before an aarch64 program, fetched once into the cache; skips with the reason."""
    folder = cache_root() / "qemu"
    with locked(folder.with_suffix(".lock")):
        if not (folder / "ready").exists():
            (folder / "root").mkdir(parents=True, exist_ok=True)
            try:
                commands: list[Sequence[str]] = [("apt-get", "download", "-q", *PACKAGES)]
                subprocess.run(
                    commands[0], cwd=folder, check=True, capture_output=True, timeout=FETCH_SECONDS
                )
                for package in folder.glob("*.deb"):
                    subprocess.run(
                        ("dpkg", "-x", package, folder / "root"), check=True, capture_output=True, timeout=120
                    )
                    package.unlink()
            except (OSError, subprocess.SubprocessError) as error:
                pytest.skip(f"{' and '.join(PACKAGES)} cannot be fetched with apt-get: {error}")
            (folder / "ready").touch()
    root = folder / "root" / "usr"
    return [str(root / "bin" / "qemu-aarch64-static"), "-L", str(root / "aarch64-linux-gnu")]


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the fetched qemu is for x86-64")
def test_aarch64_programs_run(tmp_path: Path) -> None:
    machine = "aarch64"
    qemu = emulator()
    libraries = mock_libraries(tmp_path / "libraries", zig("c", MACHINES[machine]))
    array = np.random.default_rng(5).standard_normal((3, 70, 2, 5)).astype(np.float32)
    array[0, 0, 0, 0] = np.nan
    runs = (("layer", "one_a", array), ("net", "b", array[:2]))
    pack = hand_made_pack(tmp_path / "pack", machine, card_programs(machine), runs)
    log = tmp_path / "log"

    def run(program: str, *words: str, **mock: str) -> int:
        given = {"LD_LIBRARY_PATH": str(libraries), "MOCK_LOG": str(log), **mock}
        settings = [part for name, value in given.items() for part in ("-E", f"{name}={value}")]
        command = [*qemu, *settings, str(pack / "bin" / machine / program), *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=120).returncode

    assert run("load_firmware", "a", "b", "1") == 0
    assert log.read_text() == "bm_dev_request 1\nokkernel_load_firmware 1 a b 0\nbm_dev_free 1\n"
    out = pack / "result"
    assert run("check", str(pack), str(out), "--load-firmware") == 0
    found = explain(read_result(pack))
    assert found.good and found.verdict == "equal: all bits of 2 runs", as_text(found)
    assert run("check", str(pack), str(out), MOCK_MODE="lane", MOCK_NET="b") == 1
    text = as_text(explain(read_result(pack)))
    assert "first differs: b" in text and "lanes: 5 of 64" in text
    assert run("check", str(pack), str(out), MOCK_MODE="crash", MOCK_NET="b") == 1
    assert "crashed (signal 11)" in explain(read_result(pack)).verdict
