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
from user_layers.mindspore.wheel import CONVERTER, CORE, REGISTRY, RUNTIME, VERSION, Runtime
from user_layers.toolchain import entries
from user_layers.toolchain.cache import cache_root, locked
from user_layers.toolchain.compilers import Compiler, choose
from user_layers.toolchain.report import Reporter

LIBRARY = "libtpulayer_mindspore.so"
_OLD_ABI = "-D_GLIBCXX_USE_CXX11_ABI=0"  # that of the wheel's C++ library
_BUILD_SECONDS = 600.0
_PROGRAMS = ("run", "convert")


@dataclass(frozen=True)
class Programs:
    """What was built. library: the delegate; run, convert: see the comments of their sources."""

    runtime: Runtime
    library: Path
    run: Path
    convert: Path

    def environment(self) -> dict[str, str]:
        """For processes that load the runtime."""
        paths = [str(self.runtime.libraries), os.environ.get("LD_LIBRARY_PATH", "")]
        return {
            **os.environ,
            "LD_LIBRARY_PATH": ":".join(filter(None, paths)),
            "GLOG_v": os.environ.get("GLOG_v", "3"),  # noqa: SIM112
        }


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
    return Programs(runtime, folder / LIBRARY, *(folder / name for name in _PROGRAMS))


def _build(folder: Path, final: Path, source: Path, core: Path, compiler: Compiler, runtime: Runtime) -> None:
    libraries = runtime.libraries
    common = ["-std=c++17", "-O2", "-fPIC", _OLD_ABI, "-Wall", "-Wextra", "-Wno-unused-parameter"]
    common += ["-isystem", str(runtime.folder), "-I", str(source), "-I", str(core.parent)]
    common += ["-I", str(delegate_dir() / "core")]
    if runtime.identity == VERSION:
        common.append("-DTPULAYER_WHEEL_2_0_0")
    # The framework's libraries name others that only some devices have.
    link = ["-L", str(libraries), "-Wl,--allow-shlib-undefined", f"-Wl,-rpath,{libraries}"]
    apart = [source / f"{name}.cc" for name in _PROGRAMS]
    sources = [str(path) for path in sorted(source.glob("*.cc")) if path not in apart]
    cores = ["-L", str(core.parent), "-ltpulayer_delegate", f"-Wl,-rpath,{core.parent}"]
    runtimes = [f"-l:{RUNTIME}", f"-l:{REGISTRY}", f"-l:{CORE}"]
    hidden = ["-shared", "-fvisibility=hidden", "-Wl,-z,defs"]
    _call(
        compiler, [*common, *hidden, *sources, "-o", str(folder / LIBRARY), *link, *cores, *runtimes, "-ldl"]
    )
    # The delegate's library before the framework's: its DelegateInit must be found first.
    ours = ["-L", str(folder), f"-l:{LIBRARY}", f"-Wl,-rpath,{final}"]
    _call(compiler, [*common, str(apart[0]), "-o", str(folder / "run"), *ours, *link, *cores, *runtimes])
    converters = [f"-l:{CONVERTER}", *runtimes]
    _call(compiler, [*common, str(apart[1]), "-o", str(folder / "convert"), *link, *converters])


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
    digest = sha256(said.encode())
    for path in sorted(source.rglob("*")):
        if path.is_file():
            digest.update(f"{path.name}\n".encode() + path.read_bytes())
    digest.update((delegate_dir() / "core" / "tpulayer_delegate.h").read_bytes())
    return digest.hexdigest()[:24]
