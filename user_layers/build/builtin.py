"""The part of every firmware that no workspace changes: kernel API, message loop, built-in layers.

It is built once per toolkit version and compiler and kept in the cache folder, so that users' builds
stay small. The built-in layers take the same way as the user's: scan, generate, compile.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import firmware_sim
from firmware_sim.errors import BuildError
from user_layers import __version__
from user_layers.build.cache import cache_root, locked
from user_layers.build.config import c_sources, cxx_sources
from user_layers.build.manifest import toolkit_files
from user_layers.build.ninja_file import NinjaFile, Objects
from user_layers.build.ninja_run import run_ninja
from user_layers.build.report import Reporter
from user_layers.build.toolchain import Toolchain, choose
from user_layers.files import write_atomic
from user_layers.workspace import sdk_dir

FIRMWARE_DEFINES = (
    "USING_CMODEL=1",
)  # kernels ask for it to tell a build for the model from one for the chip
FIRMWARE_OP_BASE = 0x10000  # FW_BUILTIN_OP_BASE
_KEEP = 6  # builds of the built-in part in the cache; older ones are removed


@dataclass(frozen=True)
class Builtin:
    """The built files: libtpufw.a goes into firmware images; firmware.so is one without user layers."""

    directory: Path

    @property
    def libtpufw(self) -> Path:
        return self.directory / "libtpufw.a"

    @property
    def firmware(self) -> Path:
        return self.directory / "firmware.so"

    @property
    def plugin(self) -> Path:
        """The descriptors of the built-in layers, for this machine."""
        return self.directory / "libbmplugin_builtin.so"

    @property
    def bmlib(self) -> Path:
        """libbmlib.so: the host's C library."""
        return self.directory / "libbmlib.so"

    @property
    def header(self) -> Path:
        """bmbuiltin.h: op_types and parameter structs of the built-in layers."""
        return self.directory / "bmbuiltin.h"

    def exists(self) -> bool:
        return self.directory.is_dir()


def builtin_location(toolchain: Toolchain) -> Builtin:
    """Where the built-in part for these compilers and these toolkit sources is, or will be."""
    digest = hashlib.sha256(f"{__version__}\n{toolchain.identity}\n{sys.executable}\n".encode())
    for path in toolkit_files():
        data = path.read_bytes()
        digest.update(f"{path}\n{len(data)}\n".encode())
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
    lock = builtin.directory.with_suffix(".lock")
    with locked(
        lock, waiting=lambda: report.note("waiting for another process that builds the built-in layers")
    ):
        if not builtin.exists():
            report.note(
                "building the firmware's own part and the built-in layers (once per version and compiler)"
            )
            _build(builtin, toolchain, report)
    return builtin


def _build(builtin: Builtin, toolchain: Toolchain, report: Reporter) -> None:
    temporary = builtin.directory.with_suffix(f".{os.getpid()}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        ninja, outputs = _plan(temporary, toolchain)
        write_atomic(ninja.identity_file, toolchain.identity)
        file = temporary / "build.ninja"
        write_atomic(file, ninja.text())
        _, warnings = run_ninja(temporary, file, outputs, report, label="built-in part ")
        if warnings:
            report.note(warnings.rstrip())
        if builtin_location(toolchain) != builtin:
            raise BuildError("the sources of the toolkit changed while they were built", hint="build again")
        shutil.rmtree(temporary / "obj")
        os.replace(temporary, builtin.directory)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    _remove_old(builtin.directory.parent)


def _plan(folder: Path, toolchain: Toolchain) -> tuple[NinjaFile, list[Path]]:
    from firmware_sim.isa.c_header import c_header
    from user_layers.codegen import generate
    from user_layers.scan import scan_layers

    sdk = sdk_dir()
    layers = sdk / "layers"
    includes = [folder, sdk / "include"]
    table = scan_layers(
        layers / "device",
        layers / "host",
        [sdk / "include"],
        cache_dir=cache_root() / "builtin" / "scan",
        op_lock=layers / "config" / "op_types.lock",
        op_base=FIRMWARE_OP_BASE,
    )
    generate(table, folder, prefix="bmbuiltin")
    write_atomic(folder / "bm1684_fields.h", c_header())

    ninja = NinjaFile(folder, folder)
    firmware = Objects(
        toolchain.c, c_sources(sdk / "firmware"), [*includes, sdk / "firmware"], "firmware", FIRMWARE_DEFINES
    )
    device = Objects(
        toolchain.c,
        [*c_sources(layers / "device"), folder / "bmbuiltin_device_entry.c"],
        [*includes, layers / "device"],
        "device",
        FIRMWARE_DEFINES,
    )
    host = Objects(
        toolchain.cxx,
        [*cxx_sources(layers / "host"), folder / "bmbuiltin_host_entry.cpp"],
        [*includes, layers / "host"],
        "host",
    )
    baked = {"TPULAYER_PYTHON": sys.executable, "TPULAYER_PATH": str(Path(firmware_sim.__file__).parents[1])}
    lines = [f"#define {name} {json.dumps(text, ensure_ascii=False)}\n" for name, text in baked.items()]
    write_atomic(folder / "bmlib_python.h", "".join(lines))
    library = Objects(toolchain.c, c_sources(sdk / "host"), includes, "bmlib")
    built = Builtin(folder)
    objects = [*ninja.objects(firmware), *ninja.objects(device)]
    outputs = [
        ninja.archive(toolchain.c, built.libtpufw, objects),
        ninja.shared(toolchain.c, built.firmware, [], whole=[built.libtpufw]),
        ninja.shared(toolchain.cxx, built.plugin, ninja.objects(host)),
        ninja.shared(toolchain.c, built.bmlib, ninja.objects(library)),
    ]
    return ninja, outputs


def _remove_old(folder: Path) -> None:
    """Keep the cache small: only the builds used last stay, and no lock that nobody holds for a build."""
    builds = [path for path in folder.iterdir() if path.is_dir() and not path.suffix and path.name != "scan"]
    builds.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    for path in builds[_KEEP:]:
        shutil.rmtree(path, ignore_errors=True)
