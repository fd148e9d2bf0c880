"""Which firmware runs."""

from __future__ import annotations

import os
from pathlib import Path

from firmware_sim.errors import MissingError, UsageError
from firmware_sim.firmware.image import (
    FIRMWARE_VARIABLE,
    KINDS,
    FirmwareImage,
    find_firmware,
    recorded_image,
    usual_kind,
)
from firmware_sim.firmware.recorded import Records
from user_layers.toolchain.loops import start as start_loops
from user_layers.workspace import Workspace, check_installed

__all__ = ["FIRMWARE_VARIABLE", "firmware_image", "recorded_notes"]


def firmware_image(ws: Workspace | None = None, asked: str | None = None, dev_id: int = 0) -> FirmwareImage:
    """The firmware to run on a device, for `Device`.

    ws: the workspace whose firmware it is. dev_id: the device's number, for which a pair may be recorded.
    asked: `native`, `arm` (else $TPULAYER_FIRMWARE says which), or a path: a file or folder. Without
    one: what BMRUNTIME_FIRMWARE_PATH names, else the pair that load_firmware recorded for the device in the
    workspace, else what the workspace built; without a workspace the user's record, else a firmware that
    holds the built-in layers only. Where both kinds are there, the library for this machine. MissingError
    when there is none, and for a record that is not to be run (`Records.usable`).
    """
    image = _image(ws, asked, dev_id)
    start_loops()
    return image


def _image(ws: Workspace | None, asked: str | None, dev_id: int) -> FirmwareImage:
    kind = next((name for name in KINDS if name == asked), None)
    if asked is not None and kind is None:
        if not Path(asked).expanduser().exists():
            raise UsageError(f"--firmware {asked}: neither native, nor arm, nor a path that exists")
        return find_firmware(asked)
    kind = kind or usual_kind()
    if os.environ.get(FIRMWARE_VARIABLE):
        return find_firmware(kind=kind, dev_id=dev_id)
    recorded = recorded_image(Records(None if ws is None else ws.root), kind, dev_id)
    if recorded is not None:
        return recorded
    if ws is not None:
        check_installed(ws.firmware)
        return find_firmware(ws.firmware.parent, kind)
    from user_layers.toolchain.builtin import builtin_artifacts

    return find_firmware(builtin_artifacts().directory, kind)


def recorded_notes(ws: Workspace) -> list[tuple[str, str]]:
    """Of each device that does not boot what was built, because of load_firmware: what to say, and a hint."""
    named = os.environ.get(FIRMWARE_VARIABLE)
    if named:
        folder = Path(named).expanduser().resolve()
        if ws.firmware.parent in (folder, folder.parent):
            return []
        what = f"what was built here is not what runs: {FIRMWARE_VARIABLE} names {named}"
        return [(what, f"unset {FIRMWARE_VARIABLE}, or set it to {ws.firmware.parent}")]
    if usual_kind() == "native":
        return []
    notes: list[tuple[str, str]] = []
    records = Records(ws.root)
    for dev_id in records.devices():
        try:
            record = records.usable(dev_id)
        except MissingError as error:
            notes.append((error.message, error.hint))
            continue
        if record is not None and not record.is_built_in(ws.root):
            notes.append((record.text(ws.root), f"load_firmware --forget {dev_id} ends that"))
    return notes
