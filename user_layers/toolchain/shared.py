"""Building what all checkouts and installs with the same sources share: nothing in it names one of them.

The sources are compiled through links in the build's own folder, by relative names: not only debug
information has these, but also `__FILE__` and the places that UndefinedBehaviorSanitizer tells, which no
option of the compilers changes. `firmware_sim.sdk_folder` leads from these names to the files.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from firmware_sim.sdk_folder import SHARED_ROOT
from user_layers.files import write_if_changed
from user_layers.toolchain.compilers import Compiler
from user_layers.toolchain.ninja_file import NinjaFile
from user_layers.toolchain.ninja_run import run_ninja
from user_layers.toolchain.report import Reporter
from user_layers.workspace import sdk_dir

# What zig links into programs and C++ libraries it builds where it is first called, and says so.
STRIPPED = "-Wl,-S"

_SHARED_ZIG = "/ziglang"


def linked_sdk(folder: Path) -> Path:
    """The toolkit's C as the folder `sdk` in a build's folder."""
    return linked(folder, sdk_dir())


def linked(folder: Path, sources: Path) -> Path:
    """A folder with sources under its own name in a build's folder."""
    link = folder / sources.name.lstrip("_")  # a wheel has the sdk as _sdk
    link.symlink_to(sources)
    return link


def shared(compiler: Compiler, *folders: Path) -> Compiler:
    """The compiler with switches under which what it makes does not name the build's folders, nor its own."""
    maps = [f"-ffile-prefix-map={folder}={SHARED_ROOT}" for folder in folders]
    if compiler.family == "zig":
        maps.append(f"-ffile-prefix-map={Path(compiler.argv[0]).parent}={_SHARED_ZIG}")
    return replace(compiler, flags=(*compiler.flags, *maps))


def build_shared(
    ninja: NinjaFile, outputs: Sequence[Path], identity: str, report: Reporter, label: str
) -> None:
    """Build what an entry of the cache is to hold in its folder, and remove there what was needed for it.
    identity: of the compilers; label: for progress.

    Errors: BuildError with the compiler's text.
    """
    folder, file = ninja.root, ninja.build_dir / "build.ninja"
    write_if_changed(ninja.identity_file, identity)
    write_if_changed(file, ninja.text())
    _, warnings = run_ninja(folder, file, outputs, report, label=label)
    if warnings:
        report.note(warnings.rstrip())
    shutil.rmtree(folder / "obj")
    links = (path for path in folder.iterdir() if path.is_symlink())
    for path in (ninja.identity_file, file, *folder.glob(".ninja_*"), *links):
        path.unlink()
