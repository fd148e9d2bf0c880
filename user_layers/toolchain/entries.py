"""Folders in the cache: each is whole or as good as not there, and together they have a limit."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from firmware_sim.variables import CACHE_SIZE
from user_layers.files import replace_folder, write_atomic
from user_layers.toolchain.cache import locked

USUAL_SIZE = 2.0  # GB
_RECORD = "contents.json"
_IN_USE_S = 3600.0  # a folder used since may still be read
_LEFT_S = 86400.0  # nobody builds for so long
_GB = 10**9


def put(temporary: Path, folder: Path) -> None:
    """Make a folder that was built aside the entry `folder`, in place of what is there. OSError."""
    sizes = {name: size for name, size in _sizes(temporary).items() if name != _RECORD}
    write_atomic(temporary / _RECORD, json.dumps(sizes, indent=0))
    discard(folder)
    replace_folder(temporary, folder)


@contextmanager
def building(folder: Path) -> Iterator[Path]:
    """An empty folder to build the entry `folder` in; what is there at the end becomes it. OSError."""
    temporary = folder.with_suffix(f".{os.getpid()}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        yield temporary
        put(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def built_once(
    folder: Path, build: Callable[[Path], None], waiting: Callable[[], None] | None = None
) -> Path:
    """The entry `folder`. Where it is not whole, `build` gets an empty folder whose content becomes it; of
    several processes one builds, and the others wait for it: `waiting` is called once then.

    Errors: those of `locked` and of `build`; OSError.
    """
    if not is_whole(folder):
        with locked(folder.with_suffix(".lock"), waiting=waiting):
            if not is_whole(folder):
                with building(folder) as temporary:
                    build(temporary)
    os.utime(folder)
    return folder


def is_whole(folder: Path) -> bool:
    """Whether an entry is there, with all files as large as they were written; more may have come since."""
    try:
        sizes = json.loads((folder / _RECORD).read_bytes())
        return bool(sizes) and all((folder / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, AttributeError, TypeError):
        return False


def discard(folder: Path) -> None:
    """Remove an entry: at once from where others look for it."""
    if folder.is_dir():
        gone = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
        os.replace(folder, gone)
        shutil.rmtree(gone, ignore_errors=True)


def remove_least_used(parent: Path, keep: Path) -> None:
    """Remove the entries of a folder that were used longest ago, until the rest has at most the bytes that
    TPULAYER_CACHE_SIZE says. `keep` stays, and what was used within the hour. UsageError for no size."""
    left = most_bytes()
    now = time.time()
    used = {path: path.stat().st_mtime for path in parent.iterdir() if path.is_dir() and path.name != "scan"}
    for path in sorted(used, key=lambda path: (path == keep, used[path]), reverse=True):
        if path.suffix == ".tmp":
            if now - used[path] > _LEFT_S:
                shutil.rmtree(path, ignore_errors=True)
            continue
        left -= sum(_sizes(path).values())
        if left < 0 and path != keep and now - used[path] > _IN_USE_S:
            discard(path)


def most_bytes() -> float:
    """How large the entries may be together. UsageError."""
    size = CACHE_SIZE.get()
    return (USUAL_SIZE if size is None else size) * _GB


def _sizes(folder: Path) -> dict[str, int]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.stat().st_size for path in files}
