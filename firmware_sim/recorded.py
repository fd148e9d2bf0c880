"""Firmware pairs that load_firmware recorded: what a device boots when nobody says otherwise.

The images are copied, as loading them onto a card would, into a folder per device under $TPULAYER_STATE,
else $XDG_STATE_HOME/tpulayer, else ~/.local/state/tpulayer.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

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


def record(dev_id: int, files: Mapping[str, bytes]) -> Path:
    """Keep these files for a device, in place of those recorded before; other processes see all or none."""
    place = _place(dev_id)
    place.parent.mkdir(parents=True, exist_ok=True)
    fresh = place.parent / f".{dev_id}.{os.getpid()}"
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir()
    try:
        for name, data in files.items():
            (fresh / name).write_bytes(data)
        # A folder cannot be replaced by another: a link to it can.
        kept = place.parent / f"{dev_id}-{os.getpid()}-{os.urandom(4).hex()}"
        os.replace(fresh, kept)
        old = place.resolve() if place.is_symlink() else None
        link = place.parent / f".link.{dev_id}.{os.getpid()}"
        link.unlink(missing_ok=True)
        link.symlink_to(kept.name)
        os.replace(link, place)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    if old is not None:
        shutil.rmtree(old, ignore_errors=True)
    return place


def forget(dev_id: int) -> bool:
    """Remove what is recorded for a device; False when nothing was."""
    place = _place(dev_id)
    if not place.is_symlink():
        return False
    target = place.resolve()
    place.unlink()
    shutil.rmtree(target, ignore_errors=True)
    return True
