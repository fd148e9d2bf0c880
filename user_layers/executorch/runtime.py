"""The C++ side: built for the installed ExecuTorch, and registered into its runtime."""

from __future__ import annotations

import ctypes
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from firmware_sim.errors import MissingError
from user_layers.delegates.build import Library, delegate_dir, framework_libraries
from user_layers.toolchain.cache import cache_root
from user_layers.toolchain.compilers import choose
from user_layers.toolchain.report import Reporter

if TYPE_CHECKING:
    from executorch.runtime import Runtime

BACKEND = "libtpulayer_executorch.so"
BACKEND_ID = "TpuLayerBackend"
KNOWN = "1.5"  # whose wheels have the runtime as a library
TORCH = "2.13"  # with which these were built; their metadata does not ask for it


def wheel() -> tuple[Path, str]:
    """Where the package executorch is, and its version. MissingError where it or the torch beside it is
    missing or of a version that does not fit."""
    try:
        found = version("executorch")
    except PackageNotFoundError:
        raise MissingError(
            "the package executorch is not installed", hint='pip install "tpulayer[executorch]"'
        ) from None
    spec = find_spec("executorch")
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    if not found.startswith(f"{KNOWN}.") or not places:
        raise MissingError(
            f"executorch {found} is installed; the backend is for {KNOWN}.x",
            hint=f'pip install "executorch=={KNOWN}.*" "torch=={TORCH}.*"',
        )
    try:
        beside = f"torch {version('torch')}"
    except PackageNotFoundError:
        beside = "no torch"
    if not beside.startswith(f"torch {TORCH}."):
        raise MissingError(
            f"{beside} is installed; executorch {found} was built with torch {TORCH}",
            hint=f'pip install "torch=={TORCH}.*"',
        )
    return Path(places[0]), found


def backend_library(report: Reporter | None = None) -> Path:
    """The runtime backend as a library; built the first time for this version of ExecuTorch.

    Errors: MissingError without ExecuTorch or g++, BuildError with the compiler's text.
    """
    place, found = wheel()
    include = place / "include"
    library = Library(
        BACKEND,
        [delegate_dir() / "executorch" / "backend.cpp"],
        cxx=True,
        headers=[include, include / "executorch" / "runtime" / "core" / "portable_type" / "c10"],
        defines=["C10_USING_CUSTOM_GENERATED_MACROS", "ET_EVENT_TRACER_ENABLED"],
        flags=["-std=c++17"],
        link=[f"-L{place / 'lib'}", "-lexecutorch", f"-Wl,-rpath,{place / 'lib'}"],
        needs_gnu=True,
    )
    return framework_libraries("executorch", [library], identity=found, report=report) / BACKEND


@cache
def load_backend() -> Path:
    """Register the backend into the runtime of this process, once; where its library is. Errors: as above;
    MissingError for a library that cannot be loaded."""
    library = backend_library()
    import executorch.runtime  # noqa: F401 (its libraries must be there first)

    try:
        loaded = ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        raise MissingError(f"{library} cannot be loaded: {error}") from None
    refused = loaded.tpulayer_executorch_registered()
    if refused:
        raise MissingError(f"ExecuTorch's runtime does not take another backend: its error {refused:#x}")
    return library


def runtime() -> Runtime:
    """ExecuTorch's runtime with the backend in it."""
    from executorch.runtime import Runtime

    load_backend()
    return Runtime.get()


class Counters(ctypes.Structure):
    """What the devices of this process did; see tpulayer_delegate.h."""

    _fields_ = (
        *((name, ctypes.c_uint64) for name in ("runs", "failures", "bytes_in", "bytes_out", "commands")),
        *((name, ctypes.c_uint64) for name in ("cycles", "ns", "wall_ns", "copy_wall_ns")),
        *((name, ctypes.c_uint32) for name in ("has_commands", "reopened")),
    )


def counters() -> dict[str, int]:
    """What the devices of this process did so far: runs, commands, modelled time, bytes moved."""
    core = ctypes.CDLL(str(load_backend()))
    found = Counters()
    core.tpld_counters.argtypes = [ctypes.c_void_p, ctypes.POINTER(Counters)]
    if core.tpld_counters(None, ctypes.byref(found)) != 0:
        raise AssertionError("the core refused to tell its counters")
    return {name: int(getattr(found, name)) for name, *_ in Counters._fields_}


def runner(report: Reporter | None = None) -> Path:
    """A program that runs .pte files without Python: tpulayer_et_run FILE.pte BACKEND.so INPUT.bin... OUTPUT.
    Errors: as of `backend_library`; MissingError with what the compiler said."""
    place, found = wheel()
    include = place / "include"
    target = cache_root() / "delegates" / f"tpulayer_et_run-{found}"
    source = delegate_dir() / "executorch" / "runner.cpp"
    if target.exists() and target.stat().st_mtime > source.stat().st_mtime:
        return target
    compiler = choose().cxx
    target.parent.mkdir(parents=True, exist_ok=True)
    words = [
        *compiler.argv,
        "-std=c++17",
        "-O2",
        "-DC10_USING_CUSTOM_GENERATED_MACROS",
        *("-isystem", str(include)),
        *("-isystem", str(include / "executorch" / "runtime" / "core" / "portable_type" / "c10")),
        str(source),
        *("-o", str(target)),
        f"-L{place / 'lib'}",
        *("-lexecutorch", "-lexecutorch_kernels_optimized", "-lexecutorch_threadpool", "-ldl"),
        f"-Wl,-rpath,{place / 'lib'}",
    ]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise MissingError(f"{source} cannot be built:\n{done.stderr[-2000:]}")
    return target
