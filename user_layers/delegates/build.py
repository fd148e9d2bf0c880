"""The libraries of sdk/delegate, built when they are first asked for and kept in the cache."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from firmware_sim.errors import MissingError
from user_layers import __version__
from user_layers.files import write_if_changed
from user_layers.toolchain import entries
from user_layers.toolchain.builtin import Builtin, builtin_artifacts
from user_layers.toolchain.cache import cache_root, locked
from user_layers.toolchain.compilers import Compiler, Toolchain, choose
from user_layers.toolchain.config import c_sources
from user_layers.toolchain.homes import host_libraries
from user_layers.toolchain.ninja_file import NinjaFile, Objects
from user_layers.toolchain.ninja_run import run_ninja
from user_layers.toolchain.report import Reporter
from user_layers.workspace import sdk_dir

CORE = "libtpulayer_delegate.so"


@dataclass(frozen=True)
class Library:
    """A shared library to build; a program where it `uses` libraries, found at run time where they are.

    headers: folders that are searched, of which nothing is said in warnings; shows: the linker's script with
    the names that others see; link: further words for the linker.
    needs_gnu: it shares C++ objects with a framework, whose C++ library is GNU's."""

    name: str
    sources: Sequence[Path]
    cxx: bool = False
    headers: Sequence[Path] = ()
    defines: Sequence[str] = ()
    flags: Sequence[str] = ()
    link: Sequence[str] = ()
    shows: Path | None = None
    uses: Sequence[Path] = ()
    needs_gnu: bool = False


def core_library(report: Reporter | None = None) -> Path:
    """libtpulayer_delegate.so, which loads and runs partitions. BuildError with the compiler's text."""
    builtin = builtin_artifacts(report=report)
    folder = delegate_dir() / "core"
    place = host_libraries(builtin)  # whose libbmlib.so knows which toolkit to start
    library = Library(
        CORE,
        c_sources(folder),
        headers=_headers(builtin),
        defines=(f'TPULAYER_VERSION="{__version__}"',),
        flags=("-O3",),  # for the loops of copies
        link=(f"-L{place}", "-lbmrt", "-lbmlib", "-lpthread", f"-Wl,-rpath,{place}"),
        shows=folder / "libtpulayer_delegate.map",
    )
    return build_libraries("core", [library], report=report) / CORE


def framework_libraries(
    name: str, libraries: Sequence[Library], *, identity: str = "", report: Reporter | None = None
) -> Path:
    """Libraries of one framework that use libtpulayer_delegate.so; the folder with them and nothing else that
    could be loaded. identity: of the framework whose headers are used, such as its version.

    Errors: BuildError with the compiler's text; MissingError where GNU's C++ library is needed and the C++
    compiler is zig, which has another one.
    """
    core = core_library(report)
    linked = [
        replace(
            library,
            headers=(delegate_dir() / "core", *library.headers),
            link=(f"-L{core.parent}", "-ltpulayer_delegate", f"-Wl,-rpath,{core.parent}", *library.link),
        )
        for library in libraries
    ]
    return build_libraries(name, linked, identity=f"{core}\n{identity}", report=report)


def delegate_dir() -> Path:
    """sdk/delegate, with a folder for each library's sources."""
    return sdk_dir() / "delegate"


def build_libraries(
    name: str, libraries: Sequence[Library], *, identity: str = "", report: Reporter | None = None
) -> Path:
    """The folder in the cache that has these libraries, built if it is not there. Errors: as above."""
    toolchain = choose()
    for library in libraries:
        if library.needs_gnu and toolchain.cxx.family == "zig":
            raise MissingError(
                f"{library.name} needs a compiler with GNU's C++ library, as the framework was built with",
                hint="install g++, or set TPULAYER_CXX to one",
            )
    report = report or Reporter()
    folder = cache_root() / "delegates" / f"{name}-{_digest(libraries, toolchain, identity)}"
    if entries.is_whole(folder):
        os.utime(folder)
        return folder
    with locked(
        folder.with_suffix(".lock"),
        waiting=lambda: report.note(f"waiting for another process that builds {libraries[0].name}"),
    ):
        if not entries.is_whole(folder):
            report.note(f"building {', '.join(library.name for library in libraries)} (once per version)")
            _build(folder, libraries, toolchain, report)
            entries.remove_least_used(folder.parent, folder)
    return folder


def _headers(builtin: Builtin) -> list[Path]:
    sdk = sdk_dir()
    return [sdk / "include", sdk / "generated", sdk / "host", builtin.directory]


def _digest(libraries: Sequence[Library], toolchain: Toolchain, identity: str) -> str:
    digest = hashlib.sha256(f"{__version__}\n{toolchain.identity}\n{identity}\n".encode())
    digest.update(Path(__file__).read_bytes())
    for library in libraries:
        digest.update(repr(replace(library, sources=())).encode())
        ours = (path for path in library.headers if path.is_relative_to(delegate_dir()))
        folders = {path.parent for path in library.sources} | set(ours)
        own = {path for folder in folders for path in folder.glob("*.h")}
        shown = {library.shows} if library.shows is not None else set()
        for path in sorted({*library.sources, *own, *shown}):
            data = path.read_bytes()
            digest.update(f"{path}\n{len(data)}\n".encode() + data)
    return digest.hexdigest()[:24]


def _build(folder: Path, libraries: Sequence[Library], toolchain: Toolchain, report: Reporter) -> None:
    with entries.building(folder) as temporary:
        made = temporary / ".build"  # what is not for others, removed in the end
        made.mkdir()
        ninja = NinjaFile(temporary, made)
        outputs = [_add(ninja, library, toolchain, temporary) for library in libraries]
        write_if_changed(ninja.identity_file, toolchain.identity)
        write_if_changed(made / "build.ninja", ninja.text())
        _, warnings = run_ninja(temporary, made / "build.ninja", outputs, report, label="delegate ")
        if warnings:
            report.note(warnings.rstrip())
        shutil.rmtree(made)


def _add(ninja: NinjaFile, library: Library, toolchain: Toolchain, folder: Path) -> Path:
    compiler: Compiler = toolchain.cxx if library.cxx else toolchain.c
    headers = [word for path in library.headers for word in ("-isystem", str(path))]
    compiler = replace(compiler, flags=(*compiler.flags, *headers, *library.flags))
    own = sorted({path.parent for path in library.sources})
    objects = ninja.objects(
        Objects(compiler, library.sources, own, library.name.removesuffix(".so"), library.defines)
    )
    if library.uses:
        search = ":".join(sorted({str(path.parent) for path in library.uses}))
        return ninja.executable(compiler, folder / library.name, objects, library.uses, search, library.link)
    return ninja.shared(
        compiler, folder / library.name, objects, shows=library.shows, options=tuple(library.link)
    )
