"""Is everything built? Answered from sizes and times of files alone, before anything heavy is imported.

After a successful build the manifest lists every input and output with its size and time. If all are
as they were, nothing needs to be done. It only ever errs towards building: a file whose time is as
new as the build itself may have changed while it was read, so such a build does not count as finished.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from user_layers import __version__
from user_layers.files import write_atomic
from user_layers.workspace import sdk_dir

_VERSION = 2
_CLOCK_GRAIN_NS = 20_000_000  # file systems stamp with a clock that ticks every 4 to 10 ms
_VARIABLES = ("TPULAYER_CC", "TPULAYER_CXX", "TPULAYER_CACHE", "XDG_CACHE_HOME", "HOME", "PATH")


def toolkit_files() -> dict[str, Path]:
    """The files of the toolkit that decide what a build produces, the firmware's C and the generators, by
    names that are the same in every checkout and install. The libraries of sdk/delegate are built apart,
    when they are asked for."""
    package = Path(__file__).resolve().parent.parent
    folders = {"sdk": sdk_dir(), **{name: package / name for name in ("codegen", "scan", "toolchain")}}
    found = {"__init__.py": package / "__init__.py"}
    for images in ("images.py", "layout.py"):
        found[f"arm/{images}"] = package.parent / "firmware_sim" / "arm" / images
    for room, folder in folders.items():
        for base, names, files in os.walk(folder):
            names[:] = sorted(name for name in names if name not in ("__pycache__", "delegate"))
            inside = os.path.relpath(base, folder)
            for name in sorted(files):
                if not name.endswith((".pyc", ".tmp")):
                    found[os.path.normpath(os.path.join(room, inside, name))] = Path(base, name)
    return found


def is_current(path: Path) -> bool:
    """True when the manifest at path exists and everything in it is unchanged."""
    return not changes(path)


def changes(path: Path) -> list[str]:
    """Why a build is needed, one reason per line; empty when everything is unchanged."""
    known = _load(path)
    if known is None:
        return ["no build is recorded"]
    found = [f"{name} changed" for name in _changed(known["files"])]
    if known["key"] != _key(path):
        found.append("the environment, Python or the toolkit's version changed")
    if known["toolkit"] != len(toolkit_files()):
        found.append("a file of the toolkit was added or removed")
    if not known["finished"] and not found:
        found.append("the last build did not finish, or a file was saved while it ran")
    return found


def older_than_toolkit(path: Path) -> str:
    """The first file of the toolkit that is not as it was for the build at path; empty when all are, or when
    no build is recorded."""
    known = _load(path)
    if known is None:
        return ""
    now = {str(path) for path in toolkit_files().values()}
    changed = (name for name in _changed(known["files"]) if name in now)
    return next((Path(name).name for name in (*changed, *sorted(now - known["files"].keys()))), "")


def changed_files(path: Path) -> set[Path]:
    """The recorded files that are not as they were; whatever their time, they are to be compiled again."""
    known = _load(path)
    return set() if known is None else {Path(name) for name in _changed(known["files"])}


def is_building(path: Path) -> bool:
    """Whether the build that was begun last has not come to its end: it failed, or it still runs."""
    known = _load(path)
    return known is not None and bool(known.get("building"))


def begin(path: Path) -> None:
    """A build starts: record what the files are now, as a build that has not finished."""
    known = _load(path)
    if known is not None:
        known["finished"], known["building"] = False, True
        known["files"] = {name: entry for name in known["files"] if (entry := _entry(name)) is not None}
        write_atomic(path, json.dumps(known, indent=0), durable=False)


def finish(
    path: Path, started_ns: int, inputs: Iterable[Path], folders: Iterable[Path], outputs: Iterable[Path]
) -> None:
    """Record a successful build that began at started_ns (time.time_ns()).

    folders are those whose listing is an input: a file added or removed changes their time. They may
    be absent.
    """
    toolkit, listed = list(toolkit_files().values()), list(folders)
    before = [str(name) for name in (*inputs, *toolkit, *listed)]
    files: dict[str, list[int] | None] = {
        name: entry for name in before if (entry := _entry(name)) is not None
    }
    finished = all(entry[1] < started_ns - _CLOCK_GRAIN_NS for entry in files.values() if entry is not None)
    files |= {str(folder): None for folder in listed if str(folder) not in files}
    for output in outputs:
        entry = _entry(str(output))
        if entry is not None:
            files[str(output)] = entry
    known = {"finished": finished, "key": _key(path), "toolkit": len(toolkit), "files": files}
    write_atomic(path, json.dumps(known, indent=0), durable=False)


def _entry(name: str) -> list[int] | None:
    """[size, or -1 of a folder; time] of a file; None when it does not exist."""
    try:
        found = os.stat(name)
    except OSError:
        return None
    return [-1 if stat.S_ISDIR(found.st_mode) else found.st_size, found.st_mtime_ns]


def _changed(files: dict[str, list[int] | None]) -> list[str]:
    return [name for name, entry in files.items() if _entry(name) != entry]


def _load(path: Path) -> dict[str, Any] | None:
    """The record, or None when there is none or it is damaged: then a build finds out what is to be done."""
    try:
        known = json.loads(path.read_bytes())
        complete = isinstance(known["files"], dict) and {"finished", "key", "toolkit"} <= known.keys()
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return known if complete else None


def _key(path: Path) -> list[str]:
    return [
        str(_VERSION),
        str(path.resolve()),  # a copied workspace has everything to build: its files are others
        __version__,
        sys.executable,
        sys.version,
        *(f"{name}={os.environ.get(name, '')}" for name in _VARIABLES),
    ]
