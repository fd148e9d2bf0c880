"""Writing files so that nobody ever sees half of one."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path


def write_atomic(path: Path, data: bytes | str) -> None:
    """Put data in path's place in one step; folders are made as needed. OSError when that fails."""
    raw = data.encode() if isinstance(data, str) else data
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary(path)
    try:
        temporary.write_bytes(raw)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_together(folder: Path, files: Mapping[str, bytes | str], gone: Iterable[str] = ()) -> None:
    """Put files in a folder: all are written aside before the first takes its place, then those named in
    `gone` are removed. OSError when that fails; up to the first replacement nothing has changed."""
    folder.mkdir(parents=True, exist_ok=True)
    made: dict[Path, Path] = {}
    try:
        for name, data in files.items():
            made[folder / name] = _temporary(folder / name)
            made[folder / name].write_bytes(data.encode() if isinstance(data, str) else data)
        for path, temporary in made.items():
            os.replace(temporary, path)
        for name in gone:
            (folder / name).unlink(missing_ok=True)
    finally:
        for temporary in made.values():
            temporary.unlink(missing_ok=True)


def write_if_changed(path: Path, data: bytes | str) -> bool:
    """Write only when the content differs, so that builds see unchanged time stamps; True when written."""
    raw = data.encode() if isinstance(data, str) else data
    try:
        if path.read_bytes() == raw:
            return False
    except FileNotFoundError:
        pass
    write_atomic(path, raw)
    return True


def replace_copy(source: Path, target: Path) -> None:
    """Put a copy of source, with its mode and times, in target's place in one step."""
    import shutil  # slow to import, and only builds copy

    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary(target)
    try:
        shutil.copy2(source, temporary)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def _temporary(path: Path) -> Path:
    """A name beside path that no other process or thread uses, hidden and unlike any source file."""
    return path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
