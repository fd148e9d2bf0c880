"""The builds: the workspace's layers, the bmkernel project, and cleaning.

Everything is built in build/ and put into install/ only when all of it succeeded, each file in one
step, so install/ never holds half a build.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from firmware_sim.errors import BuildError, UsageError
from firmware_sim.firmware.image import FIRMWARE_NAME
from firmware_sim.firmware.sanitized import sanitized
from firmware_sim.instructions.loops.library import is_built
from user_layers.files import replace_copy, write_if_changed
from user_layers.toolchain import manifest
from user_layers.toolchain.arm import explain_overflow, write_images
from user_layers.toolchain.builtin import Builtin, builtin_artifacts, builtin_location
from user_layers.toolchain.cache import workspace_locked
from user_layers.toolchain.compile_commands import NAME as COMMANDS
from user_layers.toolchain.compile_commands import write_commands
from user_layers.toolchain.compilers import Compiler, Toolchain, choose, zig_environment
from user_layers.toolchain.config import cxx_sources, gen_config
from user_layers.toolchain.firmware import recorded_notes
from user_layers.toolchain.homes import with_home
from user_layers.toolchain.loops import build_loops
from user_layers.toolchain.ninja_file import relative
from user_layers.toolchain.ninja_run import dependencies, run_ninja
from user_layers.toolchain.plan import Plan, bmkernel_plan, workspace_plan
from user_layers.toolchain.report import Reporter
from user_layers.toolchain.sanitize import sanitized_firmware
from user_layers.workspace import Workspace, machine_arch

if TYPE_CHECKING:
    from user_layers.scan import LayerTable


@dataclass
class BuildResult:
    """What a build did: files replaced under install/ and files left, and the commands that it ran."""

    installed: list[Path] = field(default_factory=list)
    kept: list[Path] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)  # "what: why"
    seconds: float = 0.0
    sanitized: str = ""  # the checks in the installed firmware.so
    notes: list[tuple[str, str]] = field(default_factory=list)  # what may surprise whoever runs it, and hints

    @property
    def nothing_to_do(self) -> bool:
        """Whether everything was up to date: nothing was replaced and no command ran."""
        return not self.installed and not self.commands

    def add(self, part: BuildResult) -> None:
        """Count what a part of the build did, too."""
        self.installed += part.installed
        self.kept += part.kept
        self.commands += part.commands
        self.skipped += part.skipped


def manifest_path(ws: Workspace, sanitize: bool = False) -> Path:
    """The record of the last build of each kind. Both list the installed firmware.so, so that the one is not
    up to date after the other."""
    return _manifest(ws.build_dir, sanitize)


def _manifest(build_dir: Path, sanitize: bool) -> Path:
    return build_dir / ("manifest-sanitized.json" if sanitize else "manifest.json")


def gen_entry(ws: Workspace, *, dry_run: bool = False) -> tuple[LayerTable, list[Path]]:
    """Scan the layers and generate bmtpu.h, the two entry files and the record of the layers.

    Returns the layers, and the files that changed (or would, in a dry run).

    Errors: SourceError with file, line and column for what is wrong in the layers' sources.
    """
    from user_layers.codegen import generate
    from user_layers.scan import scan_layers

    includes = ws.scan_includes
    if not dry_run:
        cache = ws.scan_cache_dir
        table = scan_layers(ws.device_dir, ws.host_dir, includes, cache_dir=cache, op_lock=ws.op_lock)
        return table, generate(table, ws.generated_dir, prefix="bmtpu")
    with TemporaryDirectory(prefix="tpulayer-dry-run-") as name:
        folder = Path(name)
        lock = folder / ws.op_lock.name
        if ws.op_lock.exists():
            shutil.copy(ws.op_lock, lock)
        table = scan_layers(ws.device_dir, ws.host_dir, includes, cache_dir=folder / "scan", op_lock=lock)
        out = folder / "generated"
        fresh = generate(table, out, prefix="bmtpu")
        pairs = [(path, ws.generated_dir / path.relative_to(out)) for path in fresh] + [(lock, ws.op_lock)]
        return table, [old for new, old in pairs if not old.exists() or old.read_bytes() != new.read_bytes()]


def build_layers(
    ws: Workspace, report: Reporter | None = None, *, sanitize: bool = False, clean_first: bool = False
) -> BuildResult:
    """Build and install everything of the workspace that is not up to date. sanitize: the firmware.so that is
    installed is one with checks of its C (build/sanitize.py); the plain one is built beside it. clean_first:
    all that was built before is removed.

    Errors: SourceError, BuildError (the compiler's own text), MissingError (no compiler).
    """
    report = report or Reporter()
    begin = time.monotonic()
    with workspace_locked(ws.root, report.note):
        if clean_first:
            clean(ws)
        if manifest.is_current(manifest_path(ws, sanitize)):
            build_loops(report=report)
            result = BuildResult(skipped=["everything: no input or output changed since the last build"])
        else:
            result = _build_layers(ws, report, sanitize)
    result.notes = recorded_notes(ws)
    result.sanitized = _checks(ws.firmware)
    result.seconds = time.monotonic() - begin
    return result


def rebuild_layers(ws: Workspace, report: Reporter | None = None, *, sanitize: bool = False) -> BuildResult:
    """Remove what was built and build it again."""
    return build_layers(ws, report, sanitize=sanitize, clean_first=True)


def build_bmkernel(ws: Workspace, report: Reporter | None = None, *, sanitize: bool = False) -> BuildResult:
    """Build the bmkernel project by itself: a firmware with its kernels and no user layers.

    Errors: UsageError when the workspace names no bmkernel project; BuildError.
    """
    project = ws.bmkernel
    if project is None:
        raise UsageError(
            f"{ws.config_file} names no bmkernel project", hint="choose one with `set_bmkernel_path PATH`"
        )
    report = report or Reporter()
    begin = time.monotonic()
    toolchain = choose()
    result = _build_bmkernel(project, toolchain, builtin_artifacts(toolchain, report), report, sanitize)
    result.sanitized = _checks(project / "install" / "firmware" / FIRMWARE_NAME)
    result.seconds = time.monotonic() - begin
    return result


def clean(ws: Workspace, *, dry_run: bool = False) -> list[Path]:
    """Remove generated/, build/ and install/; those that were there. op_type numbers stay (config/)."""
    removed = []
    for folder in (ws.generated_dir, ws.build_dir, ws.install_dir):
        if folder.is_symlink():
            raise UsageError(f"{folder} is a link; it is not followed", hint="remove it by hand")
        if folder.exists():
            if not dry_run:
                shutil.rmtree(folder)
            removed.append(folder)
    return removed


def _checks(image: Path) -> str:
    found = sanitized(image)
    return "" if found is None else str(found)


def _build_layers(ws: Workspace, report: Reporter, sanitize: bool) -> BuildResult:
    started = time.time_ns()
    config, config_changed = gen_config(ws)
    result = BuildResult()
    _say_generated(
        report, result, "gen_config", config_changed, ws, f"{config.host_arch}, {config.firmware_arch}"
    )
    table, changed = gen_entry(ws)
    count = len(table.layers)
    _say_generated(report, result, "gen_entry", changed, ws, f"{count} layer{'' if count == 1 else 's'}")

    toolchain = choose()
    cross = choose(config.host_arch) if config.host_arch != machine_arch() else toolchain
    builtin = builtin_location(toolchain)
    plan = workspace_plan(ws, config, toolchain, cross, builtin, table.included_sources)
    state = manifest_path(ws, sanitize)
    _begin(plan, state, report)
    _announce_zig(toolchain, cross, report)
    if builtin.exists() and is_built():
        builtin_artifacts(toolchain, report)
        _run(plan, [*plan.early, *plan.late], report, result)
    else:
        _first_build(plan, toolchain, report, result)
    if config.bmkernel is not None:
        result.add(_build_bmkernel(Path(config.bmkernel), toolchain, builtin, report, sanitize))
    _put_in_place(plan, builtin, toolchain.c, report, result, sanitize)
    if ws.imp_dir.is_dir() and not cxx_sources(ws.imp_dir):
        ws.imp_library.unlink(missing_ok=True)  # of sources that were removed
    made = [ws.generated_dir / name for name in _generated(ws)]
    made += [path for path in (ws.op_lock,) if path.exists()]  # new layers get their number in a build
    _finish(plan, state, started, builtin, made)
    return result


def _build_bmkernel(
    project: Path, toolchain: Toolchain, builtin: Builtin, report: Reporter, sanitize: bool
) -> BuildResult:
    state = _manifest(project / "build", sanitize)
    result = BuildResult()
    with workspace_locked(project, report.note):
        if manifest.is_current(state):
            result.skipped.append(f"build_bmkernel: nothing changed in {project}")
            result.kept.append(project / "install" / "firmware" / FIRMWARE_NAME)
            return result
        started = time.time_ns()
        plan = bmkernel_plan(project, toolchain, builtin)
        _begin(plan, state, report)
        _run(plan, plan.late, report, result)
        _put_in_place(plan, builtin, toolchain.c, report, result, sanitize)
        _finish(plan, state, started, builtin)
    return result


def _begin(plan: Plan, state: Path, report: Reporter) -> None:
    """Write the ninja file, and note in the manifest `state` that a build of it has begun."""
    plan.write()
    write_commands(plan.ninja, plan.root, report)
    _forget_changed(state, plan.root, plan.file)


def _put_in_place(
    plan: Plan, builtin: Builtin, compiler: Compiler, report: Reporter, result: BuildResult, sanitize: bool
) -> None:
    """Install what ninja has built. compiler: of the native firmware; sanitize: install one with checks."""
    (firmware, installed), *others = plan.installs
    write_images(plan.program, firmware.parent)
    write_if_changed(plan.host_copy, with_home(plan.host, builtin))
    if sanitize:
        build_dir = plan.ninja.build_dir
        firmware, commands = sanitized_firmware(plan.root, build_dir, plan.groups, builtin, compiler, report)
        result.commands += commands
    _install([(firmware, installed), *others], result)


def _finish(plan: Plan, state: Path, started: int, builtin: Builtin, made: Sequence[Path] = ()) -> None:
    """Record in the manifest `state` what was read and written. made: files beside the installed ones."""
    outputs = [*(target for _, target in plan.installs), *made, builtin.libtpufw, plan.root / COMMANDS]
    inputs = [*plan.sources, *_headers(plan.root, plan.file)]
    own = set(outputs)
    manifest.finish(state, started, [path for path in inputs if path not in own], plan.folders, outputs)


def _forget_changed(state: Path, root: Path, ninja_file: Path) -> None:
    """Remove the objects made from files that changed, and note that a build has begun.

    Ninja alone looks whether a file is newer than its object; one that was replaced by an older file
    (a copy that keeps times, an archive unpacked over it) would go unseen.
    """
    changed = manifest.changed_files(state)
    if changed:
        others = (ninja_file.parent / folder / ninja_file.name for folder in ("sanitized", "debug"))
        for file in (ninja_file, *others):
            for output, sources in dependencies(root, file).items() if file.exists() else ():
                if not changed.isdisjoint(sources):
                    output.unlink(missing_ok=True)
    manifest.begin(state)


def _headers(root: Path, ninja_file: Path) -> set[Path]:
    return {path for sources in dependencies(root, ninja_file).values() for path in sources}


def _generated(ws: Workspace) -> list[str]:
    return sorted(path.name for path in ws.generated_dir.iterdir() if path.is_file())


def _say_generated(
    report: Reporter, result: BuildResult, step: str, changed: Sequence[Path], ws: Workspace, what: str
) -> None:
    if changed:
        report.note(f"{step}: {what}; wrote {', '.join(relative(path, ws.root) for path in changed)}")
    else:
        result.skipped.append(f"{step}: {what}; the generated files would be the same")


def _announce_zig(toolchain: Toolchain, cross: Toolchain, report: Reporter) -> None:
    for chain in {toolchain.cxx.identity: toolchain, cross.cxx.identity: cross}.values():
        if chain.cxx.family == "zig" and not _zig_marker(chain).exists():
            report.note(
                f"zig builds its C++ library for {chain.machine} once on this machine (up to a minute)"
            )


def _zig_marker(chain: Toolchain) -> Path:
    return Path(zig_environment()["ZIG_GLOBAL_CACHE_DIR"]) / f"tpulayer-{chain.identity}"


def _first_build(plan: Plan, toolchain: Toolchain, report: Reporter, result: BuildResult) -> None:
    """The built-in part, the emulator's loops, and the workspace's objects and plugin at once, then the
    firmware, which needs all but the loops."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(2) as pool:
        others = [pool.submit(build, toolchain, report) for build in (builtin_artifacts, build_loops)]
        _run(plan, plan.early, report, result)
        for other in others:
            other.result()
    _run(plan, [*plan.early, *plan.late], report, result)


def _run(plan: Plan, targets: Sequence[Path], report: Reporter, result: BuildResult) -> None:
    try:
        done, warnings = run_ninja(plan.root, plan.file, targets, report)
    except BuildError as error:
        raise explain_overflow(error, plan.arm_objects) from None
    if warnings:
        report.note(warnings.rstrip())
    result.commands += done
    for chain in plan.toolchains:
        if chain.cxx.family == "zig":
            _zig_marker(chain).touch()


def _install(pairs: Sequence[tuple[Path, Path]], result: BuildResult) -> None:
    for source, target in pairs:
        if _same(source, target):
            result.kept.append(target)
        else:
            replace_copy(source, target)
            result.installed.append(target)


def _same(source: Path, target: Path) -> bool:
    """The installed file is the copy of this built one (copies keep size and time)."""
    try:
        new, old = source.stat(), target.stat()
    except FileNotFoundError:
        return False
    return (new.st_size, new.st_mtime_ns, new.st_mode) == (old.st_size, old.st_mtime_ns, old.st_mode)
