"""The runtime: what is needed of the wheel of MindSpore Lite 2.0.0, fetched once into the cache.

On PyPI there is only a wheel for CPython 3.7; its libraries need no Python, so pip fetches it as for that
one. Another MindSpore Lite (a folder with include/ and lib/) is used where TPULAYER_MINDSPORE names one.
"""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from firmware_sim.errors import MissingError
from user_layers.toolchain import entries
from user_layers.toolchain.cache import cache_root, locked
from user_layers.toolchain.report import Reporter

VARIABLE = "TPULAYER_MINDSPORE"
VERSION = "2.0.0"
SHA256 = "199cd0605cc985b88eddb273db9dfe9000a585ba10ca2292b6b36ebfff07b3ec"
_PACKAGE = f"mindspore-lite=={VERSION}"
_TARGET = ("manylinux1_x86_64", "37", "cp", "cp37m")
_FETCH_SECONDS = 1200.0
_TOP = "mindspore_lite/"
RUNTIME = "libmindspore-extendrt_python.so"
CORE = "libmindspore_core.so"
CONVERTER = "libmindspore_converter.so"
SESSIONS = "libmsplugin-ge-litert_python.so"  # loaded by the runtime for .ms and .mindir
REGISTRY = "libmslite_converter_plugin.so"
RELEASE = "libmindspore-lite.so"  # the runtime in releases for programs in C++
# What runtime and converter load; the wheel has 250 MB more for other devices.
LIBRARIES = (
    RUNTIME,
    CORE,
    CONVERTER,
    REGISTRY,
    "libmindspore_glog.so.0",
    SESSIONS,
    "libruntime_convert_plugin_python.so",
    "libdnnl.so.2",
    "libopencv_core.so.4.5",
    "libopencv_imgcodecs.so.4.5",
    "libopencv_imgproc.so.4.5",
)


@dataclass(frozen=True)
class Runtime:
    """A MindSpore Lite. folder: has include/ and lib/; identity: tells it from others; names: of libraries to
    link with."""

    folder: Path
    identity: str
    names: Sequence[str] = (RUNTIME, REGISTRY, CORE)

    @property
    def converts(self) -> bool:
        """Whether there is a converter beside it."""
        return (self.libraries / CONVERTER).exists()

    @property
    def libraries(self) -> Path:
        """The folder of its libraries."""
        return self.folder / "lib"


def find_runtime(report: Reporter | None = None) -> Runtime:
    """The MindSpore Lite to use; the wheel is fetched when it is not there.

    Errors: MissingError where the variable names none, where there is no wheel for this machine, where it
    cannot be fetched, or where what was fetched is not the wheel that this was made for.
    """
    named = os.environ.get(VARIABLE)
    if named:
        return _named(Path(named).expanduser().absolute())
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        raise MissingError(
            f"the wheel of MindSpore Lite {VERSION} is for x86-64 Linux, this is "
            f"{platform.system()} on {platform.machine()}",
            hint=f"set {VARIABLE} to a folder with include/ and lib/ of one for this machine",
        )
    folder = cache_root() / "mindspore" / VERSION
    report = report or Reporter()
    if not entries.is_whole(folder):
        with locked(
            folder.with_suffix(".lock"), waiting=lambda: report.note("waiting for another process's download")
        ):
            if not entries.is_whole(folder):
                report.note(f"fetching {_PACKAGE} (169 MB, once)")
                _fetch(folder)
    return Runtime(folder, VERSION)


def _named(folder: Path) -> Runtime:
    for name in (Path("include") / "api" / "delegate.h", Path("lib")):
        if not (folder / name).exists():
            raise MissingError(
                f"{VARIABLE} {folder}: there is no {name}", hint="name a folder with include/ and lib/"
            )
    found = {path.name: path.stat().st_mtime_ns for path in (folder / "lib").iterdir()}
    names = tuple(name for name in (RUNTIME, RELEASE, REGISTRY, CORE) if name in found)
    if RUNTIME not in names and RELEASE not in names:
        raise MissingError(
            f"{VARIABLE} {folder}: in lib/ there is neither {RELEASE} nor {RUNTIME}",
            hint="name the folder `runtime` of a release of MindSpore Lite, or what a wheel has",
        )
    return Runtime(folder, f"{folder} {max(found.values())}", names)


def _fetch(folder: Path) -> None:
    place, python, implementation, abi = _TARGET
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--disable-pip-version-check"]
    command += ["--only-binary=:all:", "--platform", place, "--python-version", python]
    command += ["--implementation", implementation, "--abi", abi]
    with tempfile.TemporaryDirectory() as scratch:
        try:
            done = subprocess.run(
                [*command, "-d", scratch, _PACKAGE],
                capture_output=True,
                text=True,
                timeout=_FETCH_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise MissingError(f"{_PACKAGE} cannot be fetched: {error}") from None
        found = list(Path(scratch).glob("*.whl"))
        if done.returncode or len(found) != 1:
            said = (done.stderr.strip() or done.stdout.strip() or "pip made no file").splitlines()
            raise MissingError(
                f"{_PACKAGE} cannot be fetched: {said[-1]}",
                hint=f"it needs pip and a network; or set {VARIABLE} to a folder with include/ and lib/",
            )
        unpack(found[0], folder)


def unpack(wheel: Path, folder: Path, sha256: str = SHA256) -> None:
    """Put headers and libraries of a wheel into the cache's folder. MissingError for another file."""
    with wheel.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest() if hasattr(hashlib, "file_digest") else ""
        digest = digest or hashlib.sha256(file.read()).hexdigest()
    if digest != sha256:
        raise MissingError(
            f"{wheel.name} has the SHA-256 {digest}, not {sha256}", hint="it is not what was published"
        )
    with zipfile.ZipFile(wheel) as archive, entries.building(folder) as temporary:
        for name in archive.namelist():
            inner = name.removeprefix(_TOP)
            wanted = inner.startswith("include/") or (
                inner.startswith("lib/") and inner[len("lib/") :] in LIBRARIES
            )
            if wanted and inner != name and ".." not in Path(inner).parts and not name.endswith("/"):
                target = temporary / inner
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(archive.read(name))
