"""The emulator's compiled loops: built once per version and processor, for all workspaces.

`start` has them built by a process of low priority, beside what needs them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from firmware_sim.instructions.loops.library import (
    c_sources,
    is_being_built,
    is_built,
    level,
    location,
    lock_of,
)
from user_layers.files import write_if_changed
from user_layers.toolchain.cache import locked
from user_layers.toolchain.compilers import Compiler, Toolchain, choose
from user_layers.toolchain.ninja_file import NinjaFile, Objects
from user_layers.toolchain.ninja_run import run_ninja
from user_layers.toolchain.report import Reporter

# Nothing that changes a result: no fast-math, and no fused operations (SAME_RESULTS).
_FLAGS = ("-O3", "-fno-math-errno", "-fno-trapping-math")
_BESIDE = (
    f"import os, sys; sys.path[:] = sys.argv[1].split(os.pathsep); from {__name__} import beside; beside()"
)
_NICE = 10
_KEEP = 4  # libraries in the cache; older ones are removed


def build_loops(toolchain: Toolchain | None = None, report: Reporter | None = None) -> None:
    """Build them if they are not there. BuildError with the compiler's text when it fails."""
    place = location()
    if place is None or is_built():
        return
    report = report or Reporter()
    with locked(
        lock_of(place), waiting=lambda: report.note("waiting for another process that builds the loops")
    ):
        if not is_built():
            report.note("compiling the emulator's loops (once per version and processor)")
            _build(place, (toolchain or choose()).c, report)
    _remove_old(place.parent)


def start() -> None:
    """Begin to build them in another process, if they are not there; the emulator goes on without them."""
    if is_built() or is_being_built():
        return
    print(
        "compiling the emulator's loops beside this run, which is slower until they are there; "
        "`build_layers` does it ahead",
        file=sys.stderr,
        flush=True,
    )
    subprocess.Popen(
        [sys.executable, "-c", _BESIDE, os.pathsep.join(sys.path)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C ends the run, not the build
    )


def beside() -> None:
    """What that process does."""
    os.nice(_NICE)
    build_loops(report=Reporter(quiet=True))


def _for_this_processor(compiler: Compiler) -> Compiler:
    """The compiler with the switches for this processor's level."""
    chosen = f"-mcpu={level().replace('-', '_')}" if compiler.family == "zig" else f"-march={level()}"
    return replace(compiler, flags=(*compiler.flags, *_FLAGS, chosen))


def _build(place: Path, compiler: Compiler, report: Reporter) -> None:
    from firmware_sim.instructions.loops import source

    folder = place.with_suffix(f".{os.getpid()}.tmp")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        write_if_changed(folder / "codes.h", source.codes_header())
        made = folder / "elementwise.c"
        write_if_changed(made, source.elementwise_source(source.table_expressions()))
        ninja = NinjaFile(folder, folder)
        fixed = c_sources()
        group = Objects(_for_this_processor(compiler), [*fixed, made], [fixed[0].parent, folder], "loops")
        library = ninja.shared(compiler, folder / place.name, ninja.objects(group))
        write_if_changed(ninja.identity_file, compiler.identity)
        write_if_changed(folder / "build.ninja", ninja.text())
        _, warnings = run_ninja(folder, folder / "build.ninja", [library], report, label="loops ")
        if warnings:
            report.note(warnings.rstrip())
        os.replace(library, place)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_old(folder: Path) -> None:
    """Keep the cache small: only the newest libraries stay. Who has an older one open keeps it."""
    built = sorted(folder.glob("*.so"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in built[_KEEP:]:
        path.unlink(missing_ok=True)
        lock_of(path).unlink(missing_ok=True)
