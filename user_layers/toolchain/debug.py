"""The native firmware as a debugger wants it: not optimized, with all debug information.

It is built beside the plain one, from the same sources, and issues the same commands.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from firmware_sim.errors import UsageError
from firmware_sim.suggest import did_you_mean
from user_layers.toolchain.beside import firmware_beside
from user_layers.toolchain.builtin import Builtin, builtin_artifacts
from user_layers.toolchain.cache import workspace_locked
from user_layers.toolchain.compilers import Compiler, choose
from user_layers.toolchain.config import gen_config
from user_layers.toolchain.ninja_file import Objects
from user_layers.toolchain.plan import firmware_parts
from user_layers.toolchain.report import Reporter
from user_layers.workspace import Workspace

# After a -g1 zig does not look at -g3. Warnings come from the plain build.
_DROPPED = ("-O2", "-g1", "-g2")
_DEBUG = ("-O0", "-g3", "-w")


def debug_firmware(
    root: Path,
    build_dir: Path,
    groups: Sequence[Objects],
    builtin: Builtin,
    compiler: Compiler,
    report: Reporter,
    label: str = "",
) -> Path:
    """firmware.so for a debugger, of the sources of `groups` and the built-in part, in build_dir/debug.
    `compiler` is the one of the plain build, which must have succeeded before. Errors: BuildError."""
    changed = [replace(group, compiler=_plain(group.compiler)) for group in groups]
    identity = f"{compiler.identity} {' '.join(_DEBUG)}"
    folder = build_dir / "debug"
    return firmware_beside(
        root, folder, changed, compiler, builtin.libtpufw, identity, report, label or "for gdb "
    )[0]


def debug_workspace(ws: Workspace, report: Reporter | None = None) -> Path:
    """The same of a workspace that is built, and of its bmkernel project's kernels."""
    report = report or Reporter()
    toolchain = choose()
    builtin = builtin_artifacts(toolchain, report)
    with workspace_locked(ws.root, report.note):
        config, _ = gen_config(ws, dry_run=True)
        groups = firmware_parts(ws, config, toolchain.c)
        return debug_firmware(ws.root, ws.build_dir, groups, builtin, toolchain.c, report)


def layer_functions(ws: Workspace, names: Iterable[str] = ()) -> list[str]:
    """The global and local functions of layers of a workspace, by the layers' short names; of all without
    names. UsageError for a name that no layer has, SourceError for what is wrong in the sources."""
    from user_layers.scan import scan_layers

    table = scan_layers(
        ws.device_dir, ws.host_dir, ws.scan_includes, cache_dir=ws.scan_cache_dir, op_lock=ws.op_lock
    )
    known = {layer.name: layer for layer in table.layers}
    for name in names:
        if name not in known:
            raise UsageError(f"{ws.root} has no layer {name}{did_you_mean(name, known)}")
    found = []
    for name, layer in known.items():
        if not names or name in names:
            functions = (layer.global_fn, layer.local_fn)
            found += [function.name for function in functions if function is not None]
    return found


def _plain(compiler: Compiler) -> Compiler:
    flags = tuple(flag for flag in compiler.flags if flag not in _DROPPED)
    return replace(compiler, flags=(*flags, *_DEBUG), note=" for gdb")
