"""Firmware pairs that load_firmware recorded: what a device boots when nobody says otherwise.

The images are copied, as loading them onto a card would, into a folder per device under $TPULAYER_STATE,
else $XDG_STATE_HOME/tpulayer, else ~/.local/state/tpulayer. Who uses such a folder holds a lock on it until
the process ends: load_firmware leaves it there then, because a device that runs may have to boot it again.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from firmware_sim.errors import MissingError

STATE_VARIABLE = "TPULAYER_STATE"
_held: set[Path] = set()  # folders on which this process has a lock


def _root() -> Path:
    named = os.environ.get(STATE_VARIABLE)
    if named:
        return Path(named).expanduser()
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "tpulayer"


def _place(dev_id: int) -> Path:
    return _root() / "devices" / str(dev_id)


def folder_of(dev_id: int) -> Path | None:
    """The folder with the recorded files of a device, None without any. They stay until this process ends."""
    place = _place(dev_id)
    while place.is_dir():
        folder = place.resolve()
        if folder in _held:
            return folder
        try:
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:  # replaced just now
            continue
        except OSError:
            return folder  # whoever reads the files says why that is not possible
        fcntl.flock(lock, fcntl.LOCK_SH)
        if place.resolve() == folder and folder.is_dir():
            _held.add(folder)
            return folder
        os.close(lock)
    return None


def _remove_unused(dev_id: int) -> None:
    """Remove what was recorded for a device before, unless somebody uses it."""
    place = _place(dev_id)
    current = place.resolve()
    for folder in place.parent.glob(f"{dev_id}-*"):
        if folder.resolve() == current:
            continue
        try:
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except BlockingIOError:
            pass
        finally:
            os.close(lock)


def way_out(path: Path) -> str:
    """For hints: what helps when this file, of a recorded pair, is of no use. Empty for any other file."""
    folder = path.parent
    if folder.parent != _place(0).parent.resolve():
        return ""
    dev_id = folder.name.partition("-")[0]
    return f"load_firmware recorded it: load a pair again, or forget it with load_firmware --forget {dev_id}"


@contextmanager
def _explained(doing: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise MissingError(
            f"{doing} in {_root()}: {error.strerror}",
            hint=f"set {STATE_VARIABLE} to a folder that can be written",
        ) from None


def record(dev_id: int, files: Mapping[str, bytes]) -> Path:
    """Keep these files for a device, in place of those recorded before; other processes see all or none.

    MissingError when they cannot be written: then what was recorded before stays.
    """
    place = _place(dev_id)
    kept = place.parent / f"{dev_id}-{os.getpid()}-{os.urandom(4).hex()}"
    fresh, link = place.parent / f".{kept.name}", place.parent / f".link.{kept.name}"
    with _explained(f"the firmware of device {dev_id} cannot be recorded"), ExitStack() as stack:
        stack.callback(shutil.rmtree, fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        lock = os.open(fresh, os.O_RDONLY | os.O_DIRECTORY)
        stack.callback(os.close, lock)
        fcntl.flock(lock, fcntl.LOCK_SH)  # nobody removes it between the next two steps
        for name, data in files.items():
            (fresh / name).write_bytes(data)
        os.replace(fresh, kept)
        try:
            # A folder cannot be replaced by another: a link to it can.
            link.symlink_to(kept.name)
            os.replace(link, place)
        except BaseException:
            link.unlink(missing_ok=True)
            shutil.rmtree(kept, ignore_errors=True)
            raise
    _remove_unused(dev_id)
    return place


def forget(dev_id: int) -> bool:
    """Remove what is recorded for a device; False when nothing was. MissingError when it cannot be."""
    place = _place(dev_id)
    if not place.is_symlink():
        return False
    with _explained(f"what is recorded for device {dev_id} cannot be removed"):
        place.unlink()
    _remove_unused(dev_id)
    return True
