"""Which firmware runs."""

from __future__ import annotations

import os
from pathlib import Path

from firmware_sim import recorded
from firmware_sim.errors import MissingError, UsageError
from firmware_sim.firmware import (
    DDR_NAME,
    FIRMWARE_VARIABLE,
    KINDS,
    TCM_NAME,
    FirmwareImage,
    find_firmware,
    usual_kind,
)
from user_layers.workspace import Workspace

__all__ = ["FIRMWARE_VARIABLE", "firmware_image", "other_recorded"]


def firmware_image(ws: Workspace | None = None, asked: str | None = None, dev_id: int = 0) -> FirmwareImage:
    """The firmware to run on a device, for `Device`.

    ws: the workspace whose firmware it is. dev_id: the device's number, for which a pair may be recorded.
    asked: `native`, `arm` (else $TPULAYER_FIRMWARE says which), or a path: a file or folder. Without
    one: what BMRUNTIME_FIRMWARE_PATH names, else the pair that load_firmware recorded for the device, else
    the workspace's; without a workspace one that holds the built-in layers only. Where both kinds are
    there, the library for this machine. MissingError when there is none.
    """
    kind = next((name for name in KINDS if name == asked), None)
    if asked is not None and kind is None:
        if not Path(asked).expanduser().exists():
            raise UsageError(f"--firmware {asked}: neither native, nor arm, nor a path that exists")
        return find_firmware(asked)
    kind = kind or usual_kind()
    if os.environ.get(FIRMWARE_VARIABLE) or (kind != "native" and recorded.folder_of(dev_id) is not None):
        return find_firmware(kind=kind, dev_id=dev_id)
    if ws is not None:
        if not ws.firmware.is_file():
            raise MissingError(f"{ws.firmware} is not built", hint="run `build_layers`")
        return find_firmware(ws.firmware.parent, kind)
    from user_layers.build.builtin import builtin_artifacts

    return find_firmware(builtin_artifacts().directory, kind)


def other_recorded(ws: Workspace) -> str:
    """What to say when device 0 boots a pair that load_firmware recorded and that is not this workspace's;
    empty otherwise."""
    if os.environ.get(FIRMWARE_VARIABLE) or usual_kind() == "native":
        return ""
    folder = recorded.folder_of(0)
    if folder is None or all(
        _same(folder / name, ws.firmware.parent / name) for name in (TCM_NAME, DDR_NAME)
    ):
        return ""
    return "device 0 boots another firmware, which load_firmware recorded; load_firmware --forget 0 ends that"


def _same(a: Path, b: Path) -> bool:
    try:
        return a.read_bytes() == b.read_bytes()
    except OSError:
        return False
