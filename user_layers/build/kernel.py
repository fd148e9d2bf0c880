"""A firmware with the free kernels of a few C files, kept in the cache and brought up to date by ninja."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from firmware_sim.errors import UsageError
from user_layers.build.builtin import FIRMWARE_DEFINES, builtin_artifacts
from user_layers.build.cache import cache_root, locked
from user_layers.build.ninja_file import NinjaFile, Objects
from user_layers.build.ninja_run import run_ninja
from user_layers.build.report import Reporter
from user_layers.build.toolchain import choose
from user_layers.files import write_if_changed
from user_layers.workspace import sdk_dir


def kernel_firmware(
    sources: Sequence[Path], includes: Sequence[Path] = (), report: Reporter | None = None
) -> Path:
    """The image with these sources and the kernel API, with full debug information.

    Headers may also lie beside a source. UsageError for a missing file, BuildError with the compiler's text.
    """
    paths = [path.resolve() for path in sources]
    for path in paths:
        if not path.is_file():
            raise UsageError(f"there is no file {path}", hint="give the C file that holds the kernel")
    toolchain, report = choose(), report or Reporter()
    builtin = builtin_artifacts(toolchain, report)
    key = hashlib.sha256("\n".join([str(builtin.directory), *map(str, paths), *map(str, includes)]).encode())
    folder = cache_root() / "kernels" / key.hexdigest()[:24]
    folder.mkdir(parents=True, exist_ok=True)
    # -g describes types too: the argument structs are read from there
    compiler = replace(toolchain.c, flags=(*toolchain.c.flags, "-g2"))
    with locked(folder.with_suffix(".lock")):
        ninja = NinjaFile(folder, folder)
        search = [*dict.fromkeys(path.parent for path in paths), *includes, sdk_dir() / "include"]
        objects = ninja.objects(Objects(compiler, paths, search, "kernels", FIRMWARE_DEFINES))
        output = ninja.shared(toolchain.c, folder / "firmware.so", objects, whole=[builtin.libtpufw])
        write_if_changed(ninja.identity_file, toolchain.identity + "\n")
        write_if_changed(folder / "build.ninja", ninja.text())
        _, warnings = run_ninja(folder, folder / "build.ninja", [output], report, label="kernel ")
    if warnings:
        report.note(warnings.rstrip())
    return output
