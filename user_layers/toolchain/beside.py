"""A native firmware of the same sources as the plain one, compiled in another way, in a folder beside it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from firmware_sim.firmware.image import FIRMWARE_NAME
from user_layers.files import write_if_changed
from user_layers.toolchain.compilers import Compiler
from user_layers.toolchain.ninja_file import NinjaFile, Objects
from user_layers.toolchain.ninja_run import run_ninja
from user_layers.toolchain.report import Reporter


def firmware_beside(
    root: Path,
    folder: Path,
    groups: Sequence[Objects],
    linker: Compiler,
    library: Path,
    identity: str,
    report: Reporter,
    label: str = "",
) -> tuple[Path, list[str]]:
    """firmware.so of the sources of `groups`, each with its own compiler, and of the built-in part `library`,
    in `folder`; and the commands that were run. identity: changes when a compiler does; label: for progress.

    Errors: BuildError with the compiler's text.
    """
    ninja = NinjaFile(root, folder)
    objects = [path for group in groups for path in ninja.objects(group)]
    image = ninja.shared(linker, folder / "out" / FIRMWARE_NAME, objects, whole=[library])
    file = folder / "build.ninja"
    write_if_changed(ninja.identity_file, identity + "\n")
    write_if_changed(file, ninja.text())
    return image, run_ninja(root, file, [image], report, label=label)[0]
