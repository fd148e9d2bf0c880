"""The programs for a machine with a card, load_firmware and check, for x86_64 and aarch64.

They are linked with the libraries' plain names, libbmlib.so and libbmrt.so, and with no search path, so that
LD_LIBRARY_PATH chooses whose libraries they run on. Nothing of these libraries is needed to link: stand-ins
with the same names and the functions that the programs call take their place.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from firmware_sim.errors import BuildError
from user_layers.toolchain import entries
from user_layers.toolchain.cache import cache_root, locked
from user_layers.toolchain.compilers import Compiler, run_compiler, zig
from user_layers.toolchain.config import c_sources
from user_layers.workspace import sdk_dir

MACHINES = {"x86_64": "x86", "aarch64": "aarch64"}  # `uname -m`: the word of HOST_ARCH
PROGRAMS = ("check", "load_firmware")
HEADERS = ("bmlib_runtime.h", "bmlib_card.h", "bmlib_u64.h", "bmdef.h", "bmruntime_interface.h")
CALLS: Mapping[str, Sequence[str]] = {
    "bmlib": (
        "bm_dev_request",
        "bm_dev_free",
        "bm_malloc_device_byte",
        "bm_free_device",
        "bm_mem_get_device_size",
        "bm_memcpy_s2d_partial",
        "bm_memcpy_d2s_partial",
        "bm_thread_sync",
        "okkernel_load_firmware",
    ),
    "bmrt": (
        "bmrt_create",
        "bmrt_destroy",
        "bmrt_load_bmodel",
        "bmrt_get_network_info",
        "bmrt_launch_tensor_ex",
    ),
}
"""What the programs call of each library; all of it is in the vendor's public headers."""

_FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIE", "-fno-sanitize=all")
# A function that one version of a library lacks fails when it is called, not when the program starts.
_LINK = ("-pie", "-s", "-Wl,-z,lazy", "-Wl,-z,noexecstack")

_LIMIT = 600.0  # s: zig makes a C library before the first program for a machine, on a busy one for minutes

SOURCES = Path(__file__).with_name("sources")


def card_sources() -> dict[str, list[Path]]:
    """The C files of each program."""
    return {
        "check": c_sources(SOURCES),
        "load_firmware": [sdk_dir() / "host" / "tools" / "load_firmware.c"],
    }


def card_headers() -> list[Path]:
    """The headers that the programs are built with; the vendor's of the same names will do, too."""
    return [SOURCES / "check.h", *(sdk_dir() / "include" / name for name in HEADERS)]


def card_programs(machine: str) -> Path:
    """The folder with the programs for one of MACHINES, built once per state of the sources.

    Errors: MissingError without zig, BuildError with the compiler's words.
    """
    compiler = zig("c", MACHINES[machine])
    digest = hashlib.sha256(repr((compiler.identity, CALLS, _FLAGS, _LINK)).encode())
    for path in (*(p for paths in card_sources().values() for p in paths), *card_headers()):
        data = path.read_bytes()
        digest.update(f"{path.name}\n{len(data)}\n".encode() + data)
    folder = cache_root() / "card" / machine / digest.hexdigest()[:24]
    with locked(folder.parent / "lock"):
        if not entries.is_whole(folder):
            _build(folder, compiler)
        os.utime(folder)
    return folder


def _build(folder: Path, compiler: Compiler) -> None:
    with entries.building(folder) as made, TemporaryDirectory(prefix="stand-ins-") as name:
        stand_ins = Path(name)
        _stand_ins(compiler, stand_ins)
        for program, sources in card_sources().items():
            libraries = CALLS if program == "check" else ("bmlib",)
            words = [*_FLAGS, *_LINK, f"-I{sdk_dir() / 'include'}", *map(str, sources)]
            words += [f"-L{stand_ins}", *(f"-l{library}" for library in libraries), "-ldl", "-lm"]
            _compile(compiler, [*words, "-o", str(made / program)])
    entries.remove_least_used(folder.parent, folder)


def _stand_ins(compiler: Compiler, folder: Path) -> None:
    for library, calls in CALLS.items():
        source, target = folder / f"{library}.c", folder / f"lib{library}.so"
        source.write_text("".join(f"void {call}(void) {{}}\n" for call in calls))
        _compile(compiler, ["-shared", "-fPIC", f"-Wl,-soname,{target.name}", str(source), "-o", str(target)])


def _compile(compiler: Compiler, words: Sequence[str]) -> None:
    done = run_compiler((*compiler.argv, *words), limit=_LIMIT)
    if done.returncode != 0:
        raise BuildError(f"{compiler.title} fails on the programs for a card:\n{done.stderr.strip()}")
