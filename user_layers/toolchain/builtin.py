"""The part of every firmware that no workspace changes: kernel API, message loop, built-in layers.

It is built once per state of the toolkit's sources and compiler, for all checkouts and installs, and kept
in the cache folder, so that users' builds stay small. The built-in layers take the same way as the user's:
scan, generate, compile.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from firmware_sim.errors import BuildError
from firmware_sim.firmware.image import DEBUG_NAME
from user_layers import __version__
from user_layers.files import write_if_changed
from user_layers.toolchain import entries
from user_layers.toolchain.arm import UNPROTECTED, arm_compiler, link_arm, write_images
from user_layers.toolchain.cache import cache_root
from user_layers.toolchain.compilers import Compiler, Toolchain, choose
from user_layers.toolchain.config import c_sources, cxx_sources
from user_layers.toolchain.loops import build_loops
from user_layers.toolchain.manifest import toolkit_files
from user_layers.toolchain.ninja_file import NinjaFile, Objects
from user_layers.toolchain.report import Reporter
from user_layers.toolchain.shared import STRIPPED, build_shared, linked_sdk, shared
from user_layers.toolchain.watched import watched
from user_layers.workspace import sdk_dir

if TYPE_CHECKING:
    from user_layers.scan import LayerTable

FIRMWARE_DEFINES = (
    "USING_CMODEL=1",
)  # kernels ask for it to tell a build for the model from one for the chip
FIRMWARE_OP_BASE = 0x10000  # FW_BUILTIN_OP_BASE
_BOTH = ("math_", "format", "heap", "stack")  # files of sdk/libc that both builds of the firmware have
_BMLIB = ("bmlib", "connection")  # files of sdk/host, by library
SEARCH = "$ORIGIN/../lib"  # where installed programs find the libraries


@dataclass(frozen=True)
class Builtin:
    """The built files: libtpufw.a goes into firmware images; firmware.so is one without user layers."""

    directory: Path

    @property
    def libtpufw(self) -> Path:
        """What every native firmware is linked with: kernel API, message loop, built-in layers."""
        return self.directory / "libtpufw.a"

    @property
    def firmware(self) -> Path:
        """The native firmware without user layers."""
        return self.directory / "firmware.so"

    @property
    def libtpufw_arm(self) -> Path:
        """The same for the chip's controller."""
        return self.directory / "libtpufw_arm.a"

    @property
    def arm_program(self) -> Path:
        """The linked program of the images in this folder, which have no user layers."""
        return self.directory / DEBUG_NAME

    @property
    def plugin(self) -> Path:
        """The descriptors of the built-in layers, for this machine."""
        return self.directory / "libbmplugin_builtin.so"

    @property
    def bmlib(self) -> Path:
        """libbmlib.so: the host's C library."""
        return self.directory / "libbmlib.so"

    @property
    def bmrt(self) -> Path:
        """libbmrt.so: nets of bmodels for the host's programs, on top of libbmlib.so."""
        return self.directory / "libbmrt.so"

    @property
    def bmcompiler(self) -> Path:
        """libbmcompiler.so: the compiler for the host's programs, on top of libbmlib.so."""
        return self.directory / "libbmcompiler.so"

    @property
    def bmcompiler_headers(self) -> list[Path]:
        """The headers of libbmcompiler.so, for host programs."""
        return [self.directory / path.name for path in _bmcompiler_headers()]

    @property
    def libraries(self) -> list[Path]:
        """All libraries for host programs, those that use others first."""
        return [self.bmcompiler, self.bmrt, self.bmlib]

    @property
    def load_firmware(self) -> Path:
        """The program load_firmware, which uses libbmlib.so."""
        return self.directory / "load_firmware"

    @property
    def layer_record(self) -> Path:
        """bmbuiltin.json: numbers and parameter structs of the built-in layers."""
        return self.directory / "bmbuiltin.json"

    def exists(self) -> bool:
        """Whether it is built: its folder appears in one step, and is whole."""
        return entries.is_whole(self.directory)


def builtin_location(toolchain: Toolchain) -> Builtin:
    """Where the built-in part for these compilers and these toolkit sources is, or will be."""
    digest = hashlib.sha256(f"{__version__}\n{toolchain.identity}\n{arm_compiler().identity}\n".encode())
    for name, path in toolkit_files().items():
        data = path.read_bytes()
        digest.update(f"{name}\n{len(data)}\n".encode())
        digest.update(data)
    return Builtin(cache_root() / "builtin" / digest.hexdigest()[:24])


def builtin_artifacts(toolchain: Toolchain | None = None, report: Reporter | None = None) -> Builtin:
    """The built-in part, built if it is not there yet. BuildError with the compiler's text when it fails."""
    toolchain = toolchain or choose()
    report = report or Reporter()
    builtin = builtin_location(toolchain)
    if builtin.exists():
        os.utime(builtin.directory)
        return builtin
    _scan()  # gives new layers their op_types, in a file that the build is named by
    builtin = builtin_location(toolchain)
    entries.built_once(
        builtin.directory,
        lambda folder: _build_all(folder, builtin, toolchain, report),
        lambda: report.note("waiting for another process that builds the built-in layers"),
    )
    entries.remove_least_used(builtin.directory.parent, builtin.directory)
    return builtin


def _build_all(folder: Path, builtin: Builtin, toolchain: Toolchain, report: Reporter) -> None:
    """The built-in part, and at the same time the emulator's loops, which who runs it first will want."""
    from concurrent.futures import ThreadPoolExecutor

    report.note("building the firmware's own part and the built-in layers (once per version and compiler)")
    with ThreadPoolExecutor(1) as pool:
        loops = pool.submit(build_loops, toolchain, report)
        _build(folder, toolchain, report)
        loops.result()
    if builtin_location(toolchain) != builtin:
        raise BuildError("the sources of the toolkit changed while they were built", hint="build again")


def _build(folder: Path, toolchain: Toolchain, report: Reporter) -> None:
    ninja, outputs = _plan(folder, toolchain)
    build_shared(ninja, outputs, toolchain.identity, report, "built-in part ")
    write_images(Builtin(folder).arm_program, folder)


def _bmcompiler_headers() -> list[Path]:
    """Made ahead of any build: `python -m user_layers.bmcompiler.regenerate`."""
    return sorted((sdk_dir() / "host" / "generated").glob("*.h"))


def _scan() -> LayerTable:
    """The built-in layers; new ones get their op_types."""
    from user_layers.scan import scan_layers

    sdk = sdk_dir()
    layers = sdk / "layers"
    return scan_layers(
        layers / "device",
        layers / "host",
        [sdk / "include", sdk / "generated", layers / "lib"],
        cache_dir=cache_root() / "builtin" / "scan",
        op_lock=layers / "config" / "op_types.lock",
        op_base=FIRMWARE_OP_BASE,
    )


def _plan(folder: Path, toolchain: Toolchain) -> tuple[NinjaFile, list[Path]]:
    """What is built in `folder`."""
    from user_layers.codegen import generate

    sdk = linked_sdk(folder)
    toolchain = replace(toolchain, c=shared(toolchain.c, folder), cxx=shared(toolchain.cxx, folder))
    controllers = shared(arm_compiler(sdk.relative_to(folder)), folder)
    layers = sdk / "layers"
    includes = [folder, sdk / "include", sdk / "generated"]
    generate(_scan(), folder, prefix="bmbuiltin")
    for path in _bmcompiler_headers():
        write_if_changed(folder / path.name, path.read_text())

    ninja = NinjaFile(folder, folder)
    own = [*includes, *(sdk / name for name in ("firmware", "libc", "arm"))]
    libc = c_sources(sdk / "libc")
    device = _layers(folder, toolchain.c, sdk)
    portable = [path for path in c_sources(sdk / "firmware") if not path.name.startswith("fw_native")]
    controller = [*portable, *c_sources(sdk / "arm"), *sorted((sdk / "arm").glob("*.S"))]
    trusted = replace(controllers, flags=(*controllers.flags, *UNPROTECTED))
    arm = [
        *ninja.objects(Objects(trusted, controller, own, "arm")),
        *ninja.objects(Objects(_plain(trusted), libc, own, "arm-libc")),
        *ninja.objects(replace(device, compiler=controllers, defines=(), folder="arm-device")),
    ]
    host = Objects(
        toolchain.cxx,
        [*cxx_sources(layers / "host"), folder / "bmbuiltin_host_entry.cpp"],
        [*includes, layers / "host"],
        "host",
    )
    built = Builtin(folder)
    stripped = replace(toolchain.cxx, link_flags=(*toolchain.cxx.link_flags, STRIPPED))
    layers_c = watched(toolchain.c, sdk.relative_to(folder))
    objects = library_objects(ninja, folder, toolchain.c, layers_c, sdk)
    outputs = [
        ninja.archive(toolchain.c, built.libtpufw, objects),
        ninja.shared(toolchain.c, built.firmware, [], whole=[built.libtpufw]),
        ninja.archive(controllers, built.libtpufw_arm, arm),
        link_arm(ninja, built.arm_program, [], [built.libtpufw_arm]),
        ninja.shared(stripped, built.plugin, ninja.objects(host)),
        *host_programs(ninja, toolchain.c, built, folder, objects, sdk),
    ]
    return ninja, outputs


def _layers(folder: Path, compiler: Compiler, sdk: Path) -> Objects:
    """The built-in layers and what they share; their generated files are in `folder`."""
    shared = sdk / "layers" / "lib"
    device = c_sources(sdk / "layers" / "device")
    sources = [*device, *c_sources(shared), folder / "bmbuiltin_device_entry.c"]
    includes = [folder, sdk / "include", sdk / "generated", shared]
    return Objects(compiler, sources, includes, "device", FIRMWARE_DEFINES)


def library_objects(
    ninja: NinjaFile, folder: Path, compiler: Compiler, layers: Compiler, sdk: Path
) -> list[Path]:
    """Statements for all of libtpufw.a; layers: compiler of the built-in ones; `folder` has the generated
    files, `sdk` the toolkit's C."""
    return [*api_objects(ninja, folder, compiler, sdk), *ninja.objects(_layers(folder, layers, sdk))]


def api_objects(ninja: NinjaFile, folder: Path, compiler: Compiler, sdk: Path) -> list[Path]:
    """Of libtpufw.a what is no built-in layer: the kernel API and what serves messages."""
    own = [folder, *(sdk / name for name in ("include", "generated", "firmware", "libc", "arm"))]
    libc = [path for path in c_sources(sdk / "libc") if path.name.startswith(_BOTH)]
    # Kernels and layers are protected; what a check calls cannot be.
    trusted = replace(compiler, flags=(*compiler.flags, "-fno-stack-protector"))
    return [
        *ninja.objects(Objects(trusted, c_sources(sdk / "firmware"), own, "firmware", FIRMWARE_DEFINES)),
        *ninja.objects(Objects(_plain(trusted), libc, own, "libc")),
    ]


def host_programs(
    ninja: NinjaFile,
    compiler: Compiler,
    place: Builtin,
    generated: Path,
    firmware: Sequence[Path],
    sdk: Path,
) -> list[Path]:
    """Statements for libbmlib.so, libbmrt.so, libbmcompiler.so and load_firmware in the folder of `place`.
    generated: the folder with the built-in part's generated files; firmware: objects of the one that
    libbmlib.so has in it for programs with kernels; sdk: the toolkit's C."""
    # A program's malloc is its own, also for its kernels: the same objects with the heap switched off.
    heap = [path for path in c_sources(sdk / "libc") if path.name.startswith("heap")]
    off = Objects(compiler, heap, [sdk / "libc"], "hosted", ("FW_OWN_HEAP=0",))
    without = {f"{path.name}.o" for path in heap} | {"fw_native_heap.c.o"}
    hosted = [*(path for path in firmware if path.name not in without), *ninja.objects(off)]
    archive = ninja.archive(compiler, place.bmlib.with_name("libtpufw_hosted.a"), hosted)
    includes = [generated, *(sdk / name for name in ("include", "generated", "host", "firmware"))]
    sources = [*c_sources(sdk / "host"), *c_sources(sdk / "host" / "generated")]
    libraries = {place.bmlib: _BMLIB, place.bmrt: ("bmrt",), place.bmcompiler: ("bmcompiler",)}
    for library, names in libraries.items():
        own = [path for path in sources if path.name.startswith(names)]
        objects = ninja.objects(Objects(compiler, own, includes, library.stem.removeprefix("lib")))
        if library == place.bmlib:
            ninja.shared(compiler, library, objects, whole=[archive], shows=sdk / "host" / "libbmlib.map")
        else:
            ninja.shared(compiler, library, objects, uses=place.bmlib)
    tools = ninja.objects(Objects(compiler, c_sources(sdk / "host" / "tools"), includes, "host-tools"))
    ninja.executable(compiler, place.load_firmware, tools, [place.bmlib], SEARCH, [STRIPPED])
    return [*libraries, place.load_firmware]


def _plain(compiler: Compiler) -> Compiler:
    """For the C library itself: no function is what its name says until this code makes it so."""
    return replace(compiler, flags=(*compiler.flags, "-fno-builtin"))
