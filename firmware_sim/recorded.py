"""Firmware pairs that load_firmware recorded: what a device boots when nobody says otherwise.

The images are copied, as loading them onto a card would, into a folder per device under $TPULAYER_STATE,
else $XDG_STATE_HOME/tpulayer, else ~/.local/state/tpulayer.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from firmware_sim.errors import MissingError

STATE_VARIABLE = "TPULAYER_STATE"


def _root() -> Path:
    named = os.environ.get(STATE_VARIABLE)
    if named:
        return Path(named).expanduser()
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "tpulayer"


def _place(dev_id: int) -> Path:
    return _root() / "devices" / str(dev_id)


def folder_of(dev_id: int) -> Path | None:
    """The folder with the recorded files of a device, or None."""
    place = _place(dev_id)
    return place.resolve() if place.is_dir() else None


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
    link = place.parent / f".link.{kept.name}"
    with _explained(f"the firmware of device {dev_id} cannot be recorded"):
        old = place.resolve() if place.is_symlink() else None
        try:
            kept.mkdir(parents=True)
            for name, data in files.items():
                (kept / name).write_bytes(data)
            # A folder cannot be replaced by another: a link to it can.
            link.symlink_to(kept.name)
            os.replace(link, place)
        except BaseException:
            link.unlink(missing_ok=True)
            shutil.rmtree(kept, ignore_errors=True)
            raise
    if old is not None:
        shutil.rmtree(old, ignore_errors=True)
    return place


def forget(dev_id: int) -> bool:
    """Remove what is recorded for a device; False when nothing was. MissingError when it cannot be."""
    place = _place(dev_id)
    if not place.is_symlink():
        return False
    target = place.resolve()
    with _explained(f"what is recorded for device {dev_id} cannot be removed"):
        place.unlink()
    shutil.rmtree(target, ignore_errors=True)
    return True
