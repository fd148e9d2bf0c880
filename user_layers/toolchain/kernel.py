"""A firmware with the free kernels of a few C files, kept in the cache and brought up to date by ninja."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from firmware_sim.errors import BuildError, UsageError
from firmware_sim.firmware.image import DEBUG_NAME, TCM_NAME, Kind, usual_kind
from firmware_sim.firmware.workspace_root import workspace_root
from user_layers.files import write_if_changed
from user_layers.toolchain import entries
from user_layers.toolchain.arm import arm_compiler, explain_overflow, link_arm, write_images
from user_layers.toolchain.builtin import FIRMWARE_DEFINES, builtin_artifacts
from user_layers.toolchain.cache import cache_root, locked
from user_layers.toolchain.compile_commands import write_commands
from user_layers.toolchain.compilers import choose
from user_layers.toolchain.debug import debug_firmware
from user_layers.toolchain.loops import start as start_loops
from user_layers.toolchain.ninja_file import NinjaFile, Objects
from user_layers.toolchain.ninja_run import run_ninja
from user_layers.toolchain.report import Reporter
from user_layers.toolchain.sanitize import sanitized_firmware
from user_layers.toolchain.watched import watched_if_used
from user_layers.workspace import sdk_dir


def kernel_firmware(
    sources: str | Path | Sequence[str | Path],
    includes: Sequence[str | Path] = (),
    report: Reporter | None = None,
    *,
    kind: Kind | None = None,
    sanitize: bool = False,
    debug: bool = False,
    commands: bool = False,
) -> Path:
    """The firmware with the free kernels of some C files and the kernel API, for `Device`; kept in the cache.

    sources: a C file, or several, with headers beside them or in the folders `includes`. report: gets what
    the build says, by default stderr. kind: native, a firmware.so with full debug information, or arm,
    firmware_tcm.bin with its other half beside it; else $TPULAYER_FIRMWARE says which. sanitize: a
    firmware.so with checks of the C. debug: one for a debugger, see `debug_firmware`; with checks those go
    first. commands: write compile_commands.json beside the first source, unless a workspace has one.
    Errors: UsageError for a missing file, BuildError with the compiler's text.
    """
    kind = kind or ("native" if sanitize else usual_kind() or "native")
    if sanitize and kind == "arm":
        raise UsageError(
            "the firmware for the controller has no checks", hint="leave --firmware or --sanitize out"
        )
    given = [sources] if isinstance(sources, (str, Path)) else sources
    paths, folders = [Path(path).resolve() for path in given], [Path(path).resolve() for path in includes]
    for path in paths:
        if not path.is_file():
            raise UsageError(f"there is no file {path}", hint="give the C file that holds the kernel")
    toolchain, report = choose(), report or Reporter()
    builtin = builtin_artifacts(toolchain, report)
    start_loops()
    parts = (builtin.directory, sdk_dir(), *paths, *folders)
    key = hashlib.sha256("\n".join(map(str, parts)).encode())
    folder = cache_root() / "kernels" / key.hexdigest()[:24]
    folder.mkdir(parents=True, exist_ok=True)
    # -g2 describes types too: the argument structs are read there. (After a -g1 zig does not look at -g.)
    search = [*dict.fromkeys(path.parent for path in paths), *folders, sdk_dir() / "include"]
    compiler = watched_if_used(replace(toolchain.c, flags=(*toolchain.c.flags, "-g2")), paths, search)
    with locked(folder.with_suffix(".lock")):
        ninja = NinjaFile(folder, folder)
        group = Objects(compiler, paths, search, "kernels", FIRMWARE_DEFINES)
        objects = ninja.objects(group)
        native = ninja.shared(toolchain.c, folder / "firmware.so", objects, whole=[builtin.libtpufw])
        arm = Objects(arm_compiler(), paths, search, "arm-kernels", after="kernels")
        arm_objects = ninja.objects(arm)
        program = link_arm(ninja, folder / "arm" / DEBUG_NAME, arm_objects, [builtin.libtpufw_arm])
        if commands and workspace_root(paths[0].parent) is None:
            with contextlib.suppress(OSError):  # a folder that is only read
                write_commands(ninja, paths[0].parent, report)
        write_if_changed(ninja.identity_file, f"{toolchain.identity} {arm.compiler.identity}\n")
        write_if_changed(folder / "build.ninja", ninja.text())
        wanted = [native] if kind == "native" else [native, program]
        try:
            built, warnings = run_ninja(folder, folder / "build.ninja", wanted, report, label="kernel ")
        except BuildError as error:
            raise explain_overflow(error, arm_objects) from None
        if kind == "arm":
            write_images(program, folder)
        if warnings:
            report.note(warnings.rstrip())
        os.utime(folder)
        if built:
            entries.remove_least_used(folder.parent, folder)
        if sanitize:
            return sanitized_firmware(folder, folder, [group], builtin, toolchain.c, report, "kernel ")[0]
        if debug and kind == "native":
            return debug_firmware(folder, folder, [group], builtin, toolchain.c, report, "kernel for gdb ")
    return native if kind == "native" else folder / TCM_NAME
