"""The delegate's library and the two programs around the runtime, built once into the cache."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from firmware_sim.errors import BuildError, MissingError
from user_layers import __version__
from user_layers.delegates.build import core_library, delegate_dir
from user_layers.mindspore.wheel import CONVERTER, SESSIONS, VERSION, Runtime
from user_layers.toolchain import entries
from user_layers.toolchain.cache import cache_root, locked
from user_layers.toolchain.compilers import Compiler, choose
from user_layers.toolchain.report import Reporter

LIBRARY = "libtpulayer_mindspore.so"
_OLD_ABI = "-D_GLIBCXX_USE_CXX11_ABI=0"  # that of the wheel's C++ library
_BUILD_SECONDS = 600.0
_PROGRAMS = {  # and their sources; what is of none of them alone is the library's
    "run": ("run.cc",),
    "convert": ("convert.cc", "converter_layers.cc", "layer.cc", "primitive.cc", "text.cc"),
}
_ALONE = ("run.cc", "convert.cc", "converter_layers.cc")


@dataclass(frozen=True)
class Programs:
    """What was built. library: the delegate; core: what it stands on; run, convert: see the comments of their
    sources, the latter where the runtime has a converter."""

    runtime: Runtime
    library: Path
    core: Path
    run: Path
    convert: Path | None

    def environment(self) -> dict[str, str]:
        """For processes that load the runtime."""
        paths = [str(self.runtime.libraries), os.environ.get("LD_LIBRARY_PATH", "")]
        return {
            **os.environ,
            "LD_LIBRARY_PATH": ":".join(filter(None, paths)),
            "GLOG_v": os.environ.get("GLOG_v", "3"),  # noqa: SIM112
        }

    def command(self, source: str, program: str) -> list[str]:
        """What builds a program that uses the delegate, as its words."""
        before, behind = _program(self.runtime, self.core, self.library.parent)
        return [*choose().cxx.argv, *before, source, "-o", program, *behind]


def build_programs(runtime: Runtime, report: Reporter | None = None) -> Programs:
    """The programs for one runtime. Errors: MissingError without a C++ compiler that has GNU's C++ library;
    BuildError with the compiler's text."""
    report = report or Reporter()
    core = core_library(report)
    compiler = choose().cxx
    if compiler.family == "zig":
        raise MissingError(
            "MindSpore Lite's libraries use GNU's C++ library, and this machine's C++ compiler is zig",
            hint="install g++, or set TPULAYER_CXX to one",
        )
    source = delegate_dir() / "mindspore"
    folder = cache_root() / "delegates" / f"mindspore-{_digest(source, core, compiler, runtime)}"
    if not entries.is_whole(folder):
        with locked(folder.with_suffix(".lock"), waiting=lambda: report.note("waiting for another build")):
            if not entries.is_whole(folder):
                report.note(f"building {LIBRARY} (once per version)")
                with entries.building(folder) as temporary:
                    _build(temporary, folder, source, core, compiler, runtime)
                entries.remove_least_used(folder.parent, folder)
    os.utime(folder)
    convert = folder / "convert" if runtime.converts else None
    return Programs(runtime, folder / LIBRARY, core, folder / "run", convert)


def _program(runtime: Runtime, core: Path, folder: Path) -> tuple[list[str], list[str]]:
    """Words before and behind the source of a program that uses the delegate's library in the folder."""
    headers = (runtime.folder, delegate_dir() / "mindspore", delegate_dir() / "core")
    before = ["-std=c++17", _OLD_ABI, *(word for path in headers for word in ("-isystem", str(path)))]
    # The delegate's library before the framework's: its DelegateInit must be found first.
    ours = [*_from(folder), f"-l:{LIBRARY}", *_from(core.parent), "-ltpulayer_delegate"]
    return before, [*ours, *_framework(runtime)]


def _framework(runtime: Runtime, *first: str) -> list[str]:
    """Words for the linker. The framework's libraries name others that only some devices have."""
    names = [f"-l:{name}" for name in (*first, *runtime.names)]
    return [*_from(runtime.libraries), "-Wl,--allow-shlib-undefined", *names]


def _from(folder: Path) -> list[str]:
    return ["-L", str(folder), f"-Wl,-rpath,{folder}"]


def _build(folder: Path, final: Path, source: Path, core: Path, compiler: Compiler, runtime: Runtime) -> None:
    before, behind = _program(runtime, core, final)
    before = [*before, "-O2", "-fPIC", "-Wall", "-Wextra", "-Wno-unused-parameter", "-I", str(source)]
    if runtime.identity == VERSION:
        # Both have the code of sessions; which one runs is up to the linker.
        sizes = [(runtime.libraries / name).stat().st_size for name in (SESSIONS, CONVERTER)]
        before += [f"-DTPULAYER_WHEEL_2_0_0={sizes[0]}", f"-DTPULAYER_WHEEL_CONVERTER={sizes[1]}"]
    apart = {name: [str(source / file) for file in files] for name, files in _PROGRAMS.items()}
    sources = [str(path) for path in sorted(source.glob("*.cc")) if path.name not in _ALONE]
    before_library = [*before, "-shared", "-fvisibility=hidden", "-Wl,-z,defs"]
    cores = [*_from(core.parent), "-ltpulayer_delegate", *_framework(runtime), "-ldl"]
    _call(compiler, [*before_library, *sources, "-o", str(folder / LIBRARY), *cores])
    run = [*before, *apart["run"], "-o", str(folder / "run"), "-L", str(folder), *behind]
    _call(compiler, run)
    if runtime.converts:
        convert = [*before, *apart["convert"], "-o", str(folder / "convert")]
        _call(compiler, [*convert, *_framework(runtime, CONVERTER)])


def _call(compiler: Compiler, words: list[str]) -> None:
    try:
        done = subprocess.run(
            [*compiler.argv, *words], capture_output=True, text=True, timeout=_BUILD_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(f"the C++ compiler cannot be run: {error}") from None
    if done.returncode:
        raise BuildError(f"{LIBRARY} cannot be built:\n{done.stderr.strip()}")


def _digest(source: Path, core: Path, compiler: Compiler, runtime: Runtime) -> str:
    said = f"{__version__}\n{compiler.identity}\n{core}\n{runtime.identity}\n"
    digest = sha256(said.encode() + Path(__file__).read_bytes())  # and how they are built
    for path in sorted(source.rglob("*")):
        if path.is_file():
            digest.update(f"{path.name}\n".encode() + path.read_bytes())
    digest.update((delegate_dir() / "core" / "tpulayer_delegate.h").read_bytes())
    return digest.hexdigest()[:24]
