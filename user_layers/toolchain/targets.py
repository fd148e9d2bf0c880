"""The builds: the workspace's layers, the bmkernel project, and cleaning.

Everything is built in build/ and put into install/ only when all of it succeeded, each file in one
step, so install/ never holds half a build.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from firmware_sim.errors import BuildError, UsageError
from firmware_sim.firmware.image import DDR_NAME, DEBUG_NAME, FIRMWARE_NAME, TCM_NAME
from firmware_sim.firmware.sanitized import sanitized
from user_layers.files import replace_copy, write_if_changed
from user_layers.toolchain import manifest
from user_layers.toolchain.arm import arm_compiler, explain_overflow, link_arm, write_images
from user_layers.toolchain.builtin import (
    FIRMWARE_DEFINES,
    SEARCH,
    Builtin,
    builtin_artifacts,
    builtin_location,
    host_programs,
)
from user_layers.toolchain.cache import cache_root, locked
from user_layers.toolchain.compilers import Toolchain, choose, zig_environment
from user_layers.toolchain.config import BuildConfig, c_sources, cxx_sources, gen_config
from user_layers.toolchain.firmware import recorded_notes
from user_layers.toolchain.ninja_file import NinjaFile, Objects, relative
from user_layers.toolchain.ninja_run import dependencies, run_ninja
from user_layers.toolchain.report import Reporter
from user_layers.toolchain.sanitize import sanitized_firmware
from user_layers.workspace import Workspace, machine_arch, sdk_dir

if TYPE_CHECKING:
    from user_layers.scan import LayerTable

HOST_HEADERS = (
    "bmlib_runtime.h",
    "bmdef.h",
    "bmruntime_interface.h",
    "bmruntime_cpp.h",
    "bmruntime_legacy.h",
)

_LAUNCHER = """#!/bin/sh
# Made by build_layers: runs the demo graph in the workspace that this file is installed in.
TPULAYER_WORKSPACE=$(cd "$(dirname "$0")/../.." && pwd) || exit 3
export TPULAYER_WORKSPACE
if command -v tpulayer >/dev/null 2>&1; then
    exec tpulayer test_tpu_layer "$@"
elif [ -x "$TPULAYER_WORKSPACE/.venv/bin/tpulayer" ]; then
    exec "$TPULAYER_WORKSPACE/.venv/bin/tpulayer" test_tpu_layer "$@"
fi
echo "error: the command tpulayer is not on the PATH" >&2
echo "  hint: source $TPULAYER_WORKSPACE/envsetup.sh" >&2
exit 3
"""


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


def build_layers(ws: Workspace, report: Reporter | None = None, *, sanitize: bool = False) -> BuildResult:
    """Build and install everything of the workspace that is not up to date. sanitize: the firmware.so that is
    installed is one with checks of its C (build/sanitize.py); the plain one is built beside it.

    Errors: SourceError, BuildError (the compiler's own text), MissingError (no compiler).
    """
    report = report or Reporter()
    begin = time.monotonic()
    with _lock(ws.root, report):
        if manifest.is_current(manifest_path(ws, sanitize)):
            result = BuildResult(skipped=["everything: no input or output changed since the last build"])
        else:
            result = _build_layers(ws, report, sanitize)
    report.close()
    result.notes = recorded_notes(ws)
    result.sanitized = _checks(ws.firmware)
    result.seconds = time.monotonic() - begin
    return result


def rebuild_layers(ws: Workspace, report: Reporter | None = None, *, sanitize: bool = False) -> BuildResult:
    """Remove what was built and build it again."""
    clean(ws)
    return build_layers(ws, report, sanitize=sanitize)


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
    report.close()
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


def _lock(root: Path, report: Reporter) -> AbstractContextManager[None]:
    name = hashlib.sha256(str(root).encode()).hexdigest()[:24]
    return locked(
        cache_root() / "locks" / name, waiting=lambda: report.note(f"waiting for another build of {root}")
    )


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
    plan = _Plan(ws, config, toolchain, cross, builtin, table.included_sources)
    plan.write()
    state = manifest_path(ws, sanitize)
    _forget_changed(state, ws.root, plan.file)
    _announce_zig(toolchain, cross, report)
    if builtin.exists():
        builtin_artifacts(toolchain, report)
        _run(plan, plan.outputs, report, result)
    else:
        _first_build(plan, toolchain, report, result)
    if config.bmkernel is not None:
        part = _build_bmkernel(Path(config.bmkernel), toolchain, builtin, report, sanitize)
        result.commands += part.commands
        result.skipped += part.skipped
        result.installed += part.installed
        result.kept += part.kept
    write_images(plan.program, plan.program.parents[1])
    installs = plan.installs
    if sanitize:
        image, commands = sanitized_firmware(ws.root, ws.build_dir, plan.groups, builtin, toolchain.c, report)
        result.commands += commands
        installs = [
            (image, target) if target == ws.firmware else (source, target) for source, target in installs
        ]
    _install(installs, result)
    outputs = [target for _, target in plan.installs] + [ws.generated_dir / name for name in _generated(ws)]
    inputs = [*plan.sources, *_headers(ws.root, plan.file)]
    outputs += [path for path in (ws.op_lock,) if path.exists()]  # new layers get their number in a build
    own = set(outputs) | {builtin.libtpufw}
    manifest.finish(
        state,
        started,
        [path for path in inputs if path not in own],
        [*plan.folders, *ws.config_places],  # a further Makefile.config counts, too
        [*outputs, builtin.libtpufw],
    )
    return result


def _forget_changed(state: Path, root: Path, ninja_file: Path) -> None:
    """Remove the objects made from files that changed, and note that a build has begun.

    Ninja alone looks whether a file is newer than its object; one that was replaced by an older file
    (a copy that keeps times, an archive unpacked over it) would go unseen.
    """
    changed = manifest.changed_files(state)
    if changed:
        for file in (ninja_file, ninja_file.parent / "sanitized" / ninja_file.name):
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


def _first_build(plan: _Plan, toolchain: Toolchain, report: Reporter, result: BuildResult) -> None:
    """The built-in part and the workspace's objects and plugin at once, then the firmware that needs both."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(builtin_artifacts, toolchain, report)
        _run(plan, plan.early, report, result)
        other.result()
    _run(plan, plan.outputs, report, result)


def _run(plan: _Plan, targets: Sequence[Path], report: Reporter, result: BuildResult) -> None:
    try:
        done, warnings = run_ninja(plan.ws.root, plan.file, targets, report)
    except BuildError as error:
        raise explain_overflow(error, plan.arm_objects) from None
    if warnings:
        report.note(warnings.rstrip())
    result.commands += done
    for chain in (plan.toolchain, plan.cross):
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


def _host_library(host: Builtin, builtin: Builtin, install: Path) -> list[tuple[Path, Path]]:
    """The libraries and headers for host programs in C and C++, and a program that uses them.

    host: those built for the host; builtin: for this machine.
    """
    headers = [*(sdk_dir() / "include" / name for name in HOST_HEADERS), *builtin.bmcompiler_headers]
    return [
        *((path, install / "lib" / path.name) for path in host.libraries),
        (host.load_firmware, install / "bin" / host.load_firmware.name),
        *((path, install / "include" / path.name) for path in headers),
    ]


class _Plan:
    """The ninja file of a workspace, and what of it goes where."""

    def __init__(
        self,
        ws: Workspace,
        config: BuildConfig,
        toolchain: Toolchain,
        cross: Toolchain,
        builtin: Builtin,
        included: Sequence[Path],
    ) -> None:
        self.ws = ws
        self.toolchain = toolchain
        self.cross = cross
        self.file = ws.build_dir / "build.ninja"
        out = ws.build_dir / "out"
        ninja = NinjaFile(ws.root, ws.build_dir)
        device_includes = [ws.root / name for name in config.device_includes]
        device = Objects(
            toolchain.c,
            [*c_sources(ws.device_dir), ws.generated_dir / "bmtpu_device_entry.c"],
            device_includes,
            "device",
            FIRMWARE_DEFINES,
        )
        kernels = Objects(
            toolchain.c,
            [ws.root / name for name in config.bmkernel_sources],
            device_includes,
            "bmkernel",
            FIRMWARE_DEFINES,
        )
        # A .cpp with a descriptor class is part of the host entry, which includes it.
        own = [path for path in cxx_sources(ws.host_dir) if path not in included]
        host_sources = [*own, ws.generated_dir / "bmtpu_host_entry.cpp"]
        host_includes = [ws.root / name for name in config.host_includes]
        self.groups = [device, kernels]
        objects = [path for group in self.groups for path in ninja.objects(group)]
        arm = arm_compiler()
        self.arm_objects = [
            *ninja.objects(replace(device, compiler=arm, defines=(), folder="arm-device", after="device")),
            *ninja.objects(
                replace(kernels, compiler=arm, defines=(), folder="arm-bmkernel", after="bmkernel")
            ),
        ]
        layer = ninja.archive(arm, out / ws.firmware_layer.name, self.arm_objects)
        plugin = ninja.shared(
            cross.cxx,
            out / ws.plugin.name,
            ninja.objects(Objects(cross.cxx, host_sources, host_includes, "host")),
        )
        self.early = [layer, plugin, *objects]
        host, programs = builtin, list[Path]()
        if cross is not toolchain:
            host = Builtin(out / "host")
            includes = [builtin.directory, sdk_dir() / "include"]
            programs = host_programs(ninja, cross.c, host, includes)
            # the compiler on this machine asks the descriptors too
            self.early.append(
                ninja.shared(
                    toolchain.cxx,
                    ws.local_plugin,
                    ninja.objects(Objects(toolchain.cxx, host_sources, host_includes, "host-native")),
                )
            )
        tests = []
        includes = [ws.generated_dir, ws.include_dir, builtin.directory, sdk_dir() / "include"]
        for source in cxx_sources(ws.test_dir):
            made = ninja.objects(Objects(cross.cxx, [source], includes, "test"))
            program = out / "test" / source.stem
            tests.append(ninja.executable(cross.cxx, program, made, host.libraries, SEARCH))
        firmware = ninja.shared(toolchain.c, out / ws.firmware.name, objects, whole=[builtin.libtpufw])
        self.program = link_arm(ninja, out / "arm" / DEBUG_NAME, self.arm_objects, [builtin.libtpufw_arm])
        self.outputs = [*self.early, firmware, self.program, *programs, *tests]
        self.launcher = out / ws.launcher.name
        self.installs = [
            (firmware, ws.firmware),
            *((out / name, ws.firmware.parent / name) for name in (TCM_NAME, DDR_NAME, DEBUG_NAME)),
            (layer, ws.firmware_layer),
            (plugin, ws.plugin),
            *((ws.generated_dir / path.name, path) for path in (ws.bmtpu_header, ws.layer_record)),
            (self.launcher, ws.launcher),
            *_host_library(host, builtin, ws.install_dir),
            *((path, ws.launcher.parent / path.name) for path in tests),
        ]
        self.sources = [*device.sources, *kernels.sources, *host_sources, *cxx_sources(ws.test_dir)]
        self.folders = [ws.device_dir, ws.host_dir, ws.include_dir, ws.test_dir]
        if config.bmkernel is not None:
            self.folders += [Path(config.bmkernel) / "device", Path(config.bmkernel) / "include"]
        self._ninja = ninja

    def write(self) -> None:
        """Write the ninja file and what the statements in it need; unchanged files keep their time."""
        identity = f"{self.toolchain.identity} {self.cross.identity} {arm_compiler().identity}\n"
        write_if_changed(self._ninja.identity_file, identity)
        write_if_changed(self.file, self._ninja.text())
        if write_if_changed(self.launcher, _LAUNCHER) or not os.access(self.launcher, os.X_OK):
            self.launcher.chmod(0o755)


def _build_bmkernel(
    project: Path, toolchain: Toolchain, builtin: Builtin, report: Reporter, sanitize: bool
) -> BuildResult:
    build_dir = project / "build"
    installed = project / "install" / "firmware" / FIRMWARE_NAME
    state = _manifest(build_dir, sanitize)
    result = BuildResult()
    with _lock(project, report):
        if manifest.is_current(state):
            result.skipped.append(f"build_bmkernel: nothing changed in {project}")
            result.kept.append(installed)
            return result
        started = time.time_ns()
        ninja = NinjaFile(project, build_dir)
        group = Objects(
            toolchain.c,
            c_sources(project / "device"),
            [project / "device", project / "include", sdk_dir() / "include"],
            "device",
            FIRMWARE_DEFINES,
        )
        out = build_dir / "out"
        built = ninja.shared(toolchain.c, out / FIRMWARE_NAME, ninja.objects(group), whole=[builtin.libtpufw])
        arm = replace(group, compiler=arm_compiler(), defines=(), folder="arm-device", after="device")
        arm_objects = ninja.objects(arm)
        program = link_arm(ninja, out / "arm" / DEBUG_NAME, arm_objects, [builtin.libtpufw_arm])
        file = build_dir / "build.ninja"
        write_if_changed(ninja.identity_file, f"{toolchain.identity} {arm.compiler.identity}\n")
        write_if_changed(file, ninja.text())
        _forget_changed(state, project, file)
        try:
            done, warnings = run_ninja(project, file, [built, program], report)
        except BuildError as error:
            raise explain_overflow(error, arm_objects) from None
        if warnings:
            report.note(warnings.rstrip())
        result.commands += done
        if sanitize:
            built, done = sanitized_firmware(project, build_dir, [group], builtin, toolchain.c, report)
            result.commands += done
        images = [(path, installed.parent / path.name) for path in write_images(program, out)]
        _install([(built, installed), *images, *_host_library(builtin, builtin, project / "install")], result)
        manifest.finish(
            state,
            started,
            [*group.sources, *_headers(project, file)],
            [project / "device", project / "include"],
            [installed, *(target for _, target in images), builtin.libtpufw],
        )
    return result
