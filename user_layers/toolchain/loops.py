"""The emulator's compiled loops: built once per version and processor, for all workspaces.

`start` has them built by a process of low priority, beside what needs them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from firmware_sim.instructions.loops.library import FOLDER, is_being_built, is_built, level, location
from user_layers.files import write_if_changed
from user_layers.toolchain import entries
from user_layers.toolchain.compilers import Compiler, Toolchain, choose
from user_layers.toolchain.config import c_sources
from user_layers.toolchain.ninja_file import NinjaFile, Objects
from user_layers.toolchain.report import Reporter
from user_layers.toolchain.shared import build_shared, linked, shared

# Nothing that changes a result: no fast-math, and no fused operations (SAME_RESULTS).
_FLAGS = ("-O3", "-fno-math-errno", "-fno-trapping-math")
_BESIDE = (
    f"import os, sys; sys.path[:] = sys.argv[1].split(os.pathsep); from {__name__} import beside; beside()"
)
_NICE = 10


def build_loops(toolchain: Toolchain | None = None, report: Reporter | None = None) -> None:
    """Build them if they are not there. BuildError with the compiler's text when it fails."""
    place = location()
    if place is None or is_built():
        return
    report = report or Reporter()
    entries.built_once(
        place.parent,
        lambda folder: _build(folder / place.name, (toolchain or choose()).c, report),
        lambda: report.note("waiting for another process that builds the loops"),
    )
    entries.remove_least_used(place.parent.parent, place.parent)


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
    name, plus, more = level().partition("+")
    if compiler.family == "zig":
        chosen = [f"-mcpu={name.replace('-', '_')}{plus}{more}"]
    else:
        chosen = [f"-march={name}", *([f"-m{more}"] if more else [])]
    return replace(compiler, flags=(*compiler.flags, *_FLAGS, *chosen))


def _build(place: Path, compiler: Compiler, report: Reporter) -> None:
    from firmware_sim.instructions.loops import source

    report.note("compiling the emulator's loops (once per version and processor)")
    folder, fixed = place.parent, linked(place.parent, FOLDER)
    write_if_changed(folder / "codes.h", source.codes_header())
    made = folder / "elementwise.c"
    write_if_changed(made, source.elementwise_source(source.table_expressions()))
    ninja = NinjaFile(folder, folder)
    tuned = shared(_for_this_processor(compiler), folder)
    group = Objects(tuned, [*c_sources(fixed), made], [fixed, folder], "loops")
    library = ninja.shared(compiler, place, ninja.objects(group))
    build_shared(ninja, [library], compiler.identity, report, "loops ")
