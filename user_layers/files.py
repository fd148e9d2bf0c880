"""Writing files so that nobody ever sees half of one."""

from __future__ import annotations

import os
from pathlib import Path


def write_if_changed(path: Path, text: str) -> bool:
    """Write text to path unless it holds it already; True when written."""
    data = text.encode()
    try:
        if path.read_bytes() == data:
            return False
    except FileNotFoundError:
        pass
    replace_bytes(path, data)
    return True


def replace_bytes(path: Path, data: bytes) -> None:
    """Put data in path's place in one step; folders are made as needed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary(path)
    try:
        temporary.write_bytes(data)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


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
    return path.with_name(f".{path.name}.{os.getpid()}.tmp")
