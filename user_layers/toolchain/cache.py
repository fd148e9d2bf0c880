"""The folder where built things that several workspaces share are kept, and locks between processes."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from firmware_sim.cache_folder import CACHE_VARIABLE, cache_root
from firmware_sim.errors import BuildError, MissingError

__all__ = ["CACHE_VARIABLE", "cache_root", "locked", "workspace_locked"]

LOCK_LIMIT = 900.0  # seconds: longer than a first build on a slow machine


@contextmanager
def locked(
    path: Path, *, limit: float = LOCK_LIMIT, waiting: Callable[[], None] | None = None
) -> Iterator[None]:
    """Hold an exclusive lock on the file or folder at path, between processes and threads.

    A file is made when nothing is there. `waiting` is called once if somebody else holds it.

    Errors: BuildError when it stays held for `limit` seconds; MissingError when it cannot be locked.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        kind = os.O_RDONLY | os.O_DIRECTORY if path.is_dir() else os.O_RDWR | os.O_CREAT
        handle = os.open(path, kind | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise MissingError(f"{path} cannot be locked: {error.strerror}") from error
    try:
        end = time.monotonic() + limit
        told = False
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                pass
            except OSError as error:
                raise MissingError(f"{path} cannot be locked: {error.strerror}") from error
            if time.monotonic() > end:
                raise BuildError(
                    f"another process has held {path} for {limit:.0f} s",
                    hint="wait for the other command, or end it, and try again",
                )
            if waiting is not None and not told:
                told = True
                waiting()
            time.sleep(0.05)
        yield
    finally:
        os.close(handle)


def workspace_locked(root: Path, note: Callable[[str], None]) -> AbstractContextManager[None]:
    """Hold the lock of a workspace or a bmkernel project, whose folder this is: one command changes it at a
    time. note: is told when somebody else holds it. Errors: those of `locked`."""
    return locked(root, waiting=lambda: note(f"waiting for another command that works in {root.absolute()}"))
