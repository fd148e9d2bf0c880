"""What a build makes: the ninja file of a workspace or of a bmkernel project, and what of it goes where.

A plan is data; nothing is written or run before it is whole.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from firmware_sim.firmware.image import DDR_NAME, DEBUG_NAME, FIRMWARE_NAME, TCM_NAME
from user_layers.files import write_if_changed
from user_layers.toolchain.arm import arm_compiler, link_arm
from user_layers.toolchain.builtin import FIRMWARE_DEFINES, SEARCH, Builtin, api_objects, host_programs
from user_layers.toolchain.compilers import Compiler, Toolchain
from user_layers.toolchain.config import BuildConfig, c_sources, cxx_sources
from user_layers.toolchain.ninja_file import NinjaFile, Objects
from user_layers.toolchain.watched import watched_if_used
from user_layers.workspace import Workspace, sdk_dir

HOST_HEADERS = (
    "bmlib_runtime.h",
    "bmlib_card.h",
    "bmlib_u64.h",
    "bmdef.h",
    "bmruntime_interface.h",
    "bmruntime_cpp.h",
    "bmruntime_legacy.h",
    "okk.h",
    "bm_atomic.h",
    "imp_bmnetu.h",
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

Pairs = list[tuple[Path, Path]]  # (built, installed)


@dataclass(frozen=True)
class Plan:
    """identity: the compilers; every object depends on them. toolchains: those that compile C++.

    groups        the sources of the native firmware, which is also built with checks
    arm_objects   those that make the controller's program
    program       that program, from which the images are made
    early, late   what ninja is asked for: without the built-in part, and with it
    installs      what is put where; the first is the native firmware
    sources       what is compiled, as far as a person wrote it, and `folders`, where more may appear
    scripts       executables that no compiler makes, by their place in the build folder
    host          the libbmlib.so that was built; its copy with the place of the toolkit is what is installed
    """

    ninja: NinjaFile
    identity: str
    toolchains: Sequence[Toolchain]
    groups: Sequence[Objects]
    arm_objects: Sequence[Path]
    program: Path
    early: Sequence[Path]
    late: Sequence[Path]
    installs: Pairs
    sources: Sequence[Path]
    folders: Sequence[Path]
    host: Path
    scripts: Mapping[Path, str] = field(default_factory=dict)

    @property
    def root(self) -> Path:
        """The folder of the workspace or project, where ninja is started."""
        return self.ninja.root

    @property
    def host_copy(self) -> Path:
        """Where the copy of `host` is made."""
        return _host_copy(self.ninja, self.host)

    @property
    def file(self) -> Path:
        """The ninja file."""
        return self.ninja.build_dir / "build.ninja"

    def write(self) -> None:
        """Write the ninja file and what the statements in it need; unchanged files keep their time."""
        write_if_changed(self.ninja.identity_file, self.identity)
        write_if_changed(self.file, self.ninja.text())
        for path, text in self.scripts.items():
            if write_if_changed(path, text) or not os.access(path, os.X_OK):
                path.chmod(0o755)


def bmkernel_plan(project: Path, toolchain: Toolchain, builtin: Builtin) -> Plan:
    """A firmware with the kernels of a bmkernel project and no user layers."""
    ninja = NinjaFile(project, project / "build")
    out, install = ninja.build_dir / "out", project / "install"
    includes = [project / "device", project / "include", sdk_dir() / "include"]
    group = _firmware_part(toolchain.c, c_sources(project / "device"), includes, "device")
    firmware = _native_firmware(ninja, toolchain.c, out, ninja.objects(group), builtin)
    arm_objects = _objects_for_controller(ninja, [group])
    program = _controller_program(ninja, out, arm_objects, builtin)
    return Plan(
        ninja=ninja,
        identity=f"{toolchain.identity} {arm_compiler().identity}\n",
        toolchains=(),
        groups=[group],
        arm_objects=arm_objects,
        program=program,
        early=[],
        late=[firmware, program],
        installs=[
            *_firmware_installs(firmware, install / "firmware" / FIRMWARE_NAME),
            *_host_library(ninja, builtin, builtin, install),
        ],
        sources=group.sources,
        folders=[project / "device", project / "include"],
        host=builtin.bmlib,
    )


def workspace_plan(
    ws: Workspace,
    config: BuildConfig,
    toolchain: Toolchain,
    cross: Toolchain,
    builtin: Builtin,
    included: Sequence[Path],
) -> Plan:
    """Firmware, plugin and test programs of a workspace. cross: for HOST_ARCH, the same as toolchain when it
    is this machine; included: files of host/ that the generated host entry includes."""
    ninja = NinjaFile(ws.root, ws.build_dir)
    out = ws.build_dir / "out"
    groups = firmware_parts(ws, config, toolchain.c)
    objects = [path for group in groups for path in ninja.objects(group)]
    arm_objects = _objects_for_controller(ninja, groups)
    layer = ninja.archive(arm_compiler(), out / ws.firmware_layer.name, arm_objects)
    descriptors = _descriptors(ws, config, cross.cxx, included)
    plugin = ninja.shared(cross.cxx, out / ws.plugin.name, ninja.objects(descriptors))
    host = _HostPart(builtin)
    if cross is not toolchain:
        host = _for_other_machine(ninja, ws, toolchain, cross, builtin, descriptors)
    imp = _caffe_layers(ninja, ws, toolchain, builtin)
    tests = _test_programs(ninja, ws, cross, builtin, host.library)
    firmware = _native_firmware(ninja, toolchain.c, out, objects, builtin)
    program = _controller_program(ninja, out, arm_objects, builtin)
    launcher = out / ws.launcher.name
    return Plan(
        ninja=ninja,
        identity=f"{toolchain.identity} {cross.identity} {arm_compiler().identity}\n",
        toolchains=(toolchain, cross),
        groups=groups,
        arm_objects=arm_objects,
        program=program,
        early=[layer, plugin, *objects, *host.plugins, *imp],
        late=[firmware, program, *host.programs, *tests],
        installs=[
            *_firmware_installs(firmware, ws.firmware),
            (layer, ws.firmware_layer),
            (plugin, ws.plugin),
            *((path, ws.imp_library) for path in imp),
            *((ws.generated_dir / path.name, path) for path in (ws.bmtpu_header, ws.layer_record)),
            (launcher, ws.launcher),
            *_host_library(ninja, host.library, builtin, ws.install_dir),
            *((path, ws.launcher.parent / path.name) for path in tests),
        ],
        sources=[
            *(p for g in (*groups, descriptors) for p in g.sources),
            *cxx_sources(ws.test_dir),
            *cxx_sources(ws.imp_dir),
        ],
        folders=_folders(ws, config),
        host=host.library.bmlib,
        scripts={launcher: _LAUNCHER},
    )


# --- parts of both ------------------------------------------------------------------------------------


def _firmware_part(
    compiler: Compiler, sources: Sequence[Path], includes: Sequence[Path], folder: str
) -> Objects:
    return Objects(watched_if_used(compiler, sources, includes), sources, includes, folder, FIRMWARE_DEFINES)


def _objects_for_controller(ninja: NinjaFile, groups: Sequence[Objects]) -> list[Path]:
    """Statements for the same sources on the controller, after those for this machine."""
    arm = arm_compiler()
    theirs = (
        replace(group, compiler=arm, defines=(), folder=f"arm-{group.folder}", after=group.folder)
        for group in groups
    )
    return [path for group in theirs for path in ninja.objects(group)]


def _native_firmware(
    ninja: NinjaFile, compiler: Compiler, out: Path, objects: Sequence[Path], builtin: Builtin
) -> Path:
    return ninja.shared(compiler, out / FIRMWARE_NAME, objects, whole=[builtin.libtpufw])


def _controller_program(ninja: NinjaFile, out: Path, objects: Sequence[Path], builtin: Builtin) -> Path:
    return link_arm(ninja, out / "arm" / DEBUG_NAME, objects, [builtin.libtpufw_arm])


def _firmware_installs(built: Path, installed: Path) -> Pairs:
    """The native firmware, and the controller's images, which are made beside it."""
    images = (TCM_NAME, DDR_NAME, DEBUG_NAME)
    return [(built, installed), *((built.parent / name, installed.parent / name) for name in images)]


def _host_copy(ninja: NinjaFile, library: Path) -> Path:
    return ninja.build_dir / "out" / "lib" / library.name


def _host_library(ninja: NinjaFile, host: Builtin, builtin: Builtin, install: Path) -> Pairs:
    """The libraries and headers for host programs in C and C++, and a program that uses them.

    host: those built for the host; builtin: for this machine.
    """
    built = (_host_copy(ninja, path) if path == host.bmlib else path for path in host.libraries)
    headers = [*(sdk_dir() / "include" / name for name in HOST_HEADERS), *builtin.bmcompiler_headers]
    return [
        *((path, install / "lib" / path.name) for path in built),
        (host.load_firmware, install / "bin" / host.load_firmware.name),
        *((path, install / "include" / path.name) for path in headers),
    ]


# --- parts of a workspace -----------------------------------------------------------------------------


def firmware_parts(ws: Workspace, config: BuildConfig, compiler: Compiler) -> list[Objects]:
    """The layers, and the kernels of the bmkernel project."""
    layers = [*c_sources(ws.device_dir), ws.generated_dir / "bmtpu_device_entry.c"]
    kernels = [ws.root / name for name in config.bmkernel_sources]
    includes = [ws.root / name for name in config.device_includes]
    return [
        _firmware_part(compiler, layers, includes, "device"),
        _firmware_part(compiler, kernels, includes, "bmkernel"),
    ]


def _descriptors(ws: Workspace, config: BuildConfig, compiler: Compiler, included: Sequence[Path]) -> Objects:
    """The plugin's sources. A .cpp with a descriptor class is part of the host entry, which includes it."""
    own = [path for path in cxx_sources(ws.host_dir) if path not in included]
    includes = [ws.root / name for name in config.host_includes]
    sources = [*own, ws.generated_dir / "bmtpu_host_entry.cpp"]
    return Objects(compiler, sources, includes, "host", included=included)


@dataclass(frozen=True)
class _HostPart:
    """library: what host programs use, for HOST_ARCH; programs: what of it is built here; plugins: more of
    them than the installed one."""

    library: Builtin
    programs: Sequence[Path] = ()
    plugins: Sequence[Path] = ()


def _for_other_machine(
    ninja: NinjaFile,
    ws: Workspace,
    toolchain: Toolchain,
    cross: Toolchain,
    builtin: Builtin,
    descriptors: Objects,
) -> _HostPart:
    """Statements for host libraries of HOST_ARCH, and for a plugin that the compiler on this machine asks."""
    library = Builtin(ninja.build_dir / "out" / "host")
    api = api_objects(ninja, builtin.directory, cross.c, sdk_dir())
    programs = host_programs(ninja, cross.c, library, builtin.directory, api, sdk_dir())
    native = replace(descriptors, compiler=toolchain.cxx, folder="host-native")
    plugin = ninja.shared(toolchain.cxx, ws.local_plugin, ninja.objects(native))
    return _HostPart(library, programs, [plugin])


def _caffe_layers(ninja: NinjaFile, ws: Workspace, toolchain: Toolchain, builtin: Builtin) -> list[Path]:
    """Statements for the library of imp_bmnetu/, which the compiler on this machine loads; none without
    sources."""
    sources = cxx_sources(ws.imp_dir)
    if not sources:
        return []
    includes = [ws.generated_dir, ws.include_dir, builtin.directory, sdk_dir() / "include"]
    objects = ninja.objects(Objects(toolchain.cxx, sources, includes, "imp_bmnetu"))
    return [ninja.shared(toolchain.cxx, ninja.build_dir / "out" / ws.imp_library.name, objects)]


def _test_programs(
    ninja: NinjaFile, ws: Workspace, cross: Toolchain, builtin: Builtin, host: Builtin
) -> list[Path]:
    """Statements for one program of each C++ file in test/."""
    includes = [ws.generated_dir, ws.include_dir, builtin.directory, sdk_dir() / "include"]
    return [
        ninja.executable(
            cross.cxx,
            ninja.build_dir / "out" / "test" / source.stem,
            ninja.objects(Objects(cross.cxx, [source], includes, "test")),
            host.libraries,
            SEARCH,
        )
        for source in cxx_sources(ws.test_dir)
    ]


def _folders(ws: Workspace, config: BuildConfig) -> list[Path]:
    """Where sources are looked for, and what the configuration is read from."""
    project = [] if config.bmkernel is None else [Path(config.bmkernel) / d for d in ("device", "include")]
    # a further Makefile.config counts, too
    own = [ws.device_dir, ws.host_dir, ws.include_dir, ws.test_dir, ws.imp_dir]
    return [*own, *project, *ws.config_places]
