"""Is everything built? Answered from sizes and times of files alone, before anything heavy is imported.

After a successful build the manifest lists every input and output with its size and time. If all are
as they were, nothing needs to be done. It only ever errs towards building: a file whose time is as
new as the build itself may have changed while it was read, so then no manifest is kept.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from user_layers import __version__
from user_layers.files import write_atomic
from user_layers.workspace import sdk_dir

_VERSION = 1
_CLOCK_GRAIN_NS = 20_000_000  # file systems stamp with a clock that ticks every 4 to 10 ms
_VARIABLES = ("TPULAYER_CC", "TPULAYER_CXX", "TPULAYER_CACHE", "XDG_CACHE_HOME", "HOME", "PATH")


def toolkit_files() -> list[Path]:
    """The files of the toolkit that decide what a build produces: the firmware's C and the generators."""
    package = Path(__file__).resolve().parent.parent
    chip = package.parent / "firmware_sim"
    folders = [sdk_dir(), package / "build", package / "codegen", package / "scan", chip / "isa"]
    found = [chip / "chip.py", package / "__init__.py"]
    for folder in folders:
        for base, names, files in os.walk(folder):
            names[:] = sorted(name for name in names if name != "__pycache__")
            found += [Path(base, name) for name in sorted(files) if not name.endswith((".pyc", ".tmp"))]
    return found


def is_current(path: Path) -> bool:
    """True when the manifest at path exists and everything in it is unchanged."""
    return not changes(path)


def changes(path: Path) -> list[str]:
    """Why a build is needed, one reason per line; empty when everything is unchanged."""
    found = []
    try:
        known = json.loads(path.read_bytes())
        files: dict[str, list[int]] = known["files"]
        if known["key"] != _key():
            found.append("the environment, Python or the toolkit's version changed")
        for name, (size, time) in files.items():
            try:
                stat = os.stat(name)
            except OSError:
                found.append(f"{name} is gone")
                continue
            if stat.st_mtime_ns != time or (stat.st_size != size and size >= 0):
                found.append(f"{name} changed")
        if known["toolkit"] != len(toolkit_files()):
            found.append("a file of the toolkit was added or removed")
    except FileNotFoundError:
        return ["no finished build is recorded"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return [f"the record of the last build cannot be read: {error}"]
    return found


def write(
    path: Path, started_ns: int, inputs: Iterable[Path], folders: Iterable[Path], outputs: Iterable[Path]
) -> bool:
    """Record a finished build that began at started_ns (time.time_ns()).

    False, and no manifest, when an input is too new to trust.
    folders are those whose listing is an input: a file added or removed changes their time.
    """
    files: dict[str, tuple[int, int]] = {}
    toolkit = toolkit_files()
    for name in (*inputs, *toolkit):
        stat = os.stat(name)
        if stat.st_mtime_ns >= started_ns - _CLOCK_GRAIN_NS:
            path.unlink(missing_ok=True)
            return False
        files[str(name)] = (stat.st_size, stat.st_mtime_ns)
    for folder in folders:
        if folder.is_dir():
            stat = os.stat(folder)
            if stat.st_mtime_ns >= started_ns - _CLOCK_GRAIN_NS:
                path.unlink(missing_ok=True)
                return False
            files[str(folder)] = (-1, stat.st_mtime_ns)
    for name in outputs:
        stat = os.stat(name)
        files[str(name)] = (stat.st_size, stat.st_mtime_ns)
    known = {"key": _key(), "toolkit": len(toolkit), "files": files}
    write_atomic(path, json.dumps(known, indent=0))
    return True


def _key() -> list[str]:
    return [
        str(_VERSION),
        __version__,
        sys.executable,
        sys.version,
        *(f"{name}={os.environ.get(name, '')}" for name in _VARIABLES),
    ]
