"""The C++ side: built for the installed ExecuTorch, and registered into its runtime."""

from __future__ import annotations

import ctypes
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from firmware_sim.errors import MissingError
from user_layers.delegates.build import Library, build_libraries, delegate_dir, framework_libraries
from user_layers.delegates.counters import read_counters
from user_layers.toolchain.report import Reporter

if TYPE_CHECKING:
    from executorch.runtime import Runtime

BACKEND = "libtpulayer_executorch.so"
RUNNER = "tpulayer_et_run"
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
    library = Library(
        BACKEND,
        [delegate_dir() / "executorch" / "backend.cpp"],
        cxx=True,
        headers=_headers(place),
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


def counters() -> dict[str, int]:
    """What the devices of this process did so far: runs, commands, modelled time, bytes moved."""
    return read_counters(load_backend()).named()


def runner(report: Reporter | None = None) -> Path:
    """A program that runs .pte files without Python: tpulayer_et_run FILE.pte BACKEND.so INPUT.bin... OUTPUT;
    built the first time. Errors: as of `backend_library`."""
    place, found = wheel()
    names = ("executorch", "executorch_kernels_optimized", "executorch_threadpool")
    program = Library(
        RUNNER,
        [delegate_dir() / "executorch" / "runner.cpp"],
        cxx=True,
        headers=_headers(place),
        defines=["C10_USING_CUSTOM_GENERATED_MACROS"],
        flags=["-std=c++17"],
        link=["-Wl,--no-as-needed", "-ldl"],
        uses=[place / "lib" / f"lib{name}.so" for name in names],
        needs_gnu=True,
    )
    return build_libraries("executorch_runner", [program], identity=found, report=report) / RUNNER


def _headers(place: Path) -> list[Path]:
    include = place / "include"
    return [include, include / "executorch" / "runtime" / "core" / "portable_type" / "c10"]
