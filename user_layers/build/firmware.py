"""Which firmware runs."""

from __future__ import annotations

import os

from firmware_sim import recorded
from firmware_sim.errors import MissingError
from firmware_sim.firmware import FIRMWARE_VARIABLE, KINDS, FirmwareImage, find_firmware, usual_kind
from user_layers.workspace import Workspace

__all__ = ["FIRMWARE_VARIABLE", "firmware_image"]


def firmware_image(ws: Workspace | None = None, asked: str | None = None, dev_id: int = 0) -> FirmwareImage:
    """The firmware to run on a device.

    asked: `native`, `arm` (else $TPULAYER_FIRMWARE says which), or a path: a file or folder. Without
    one: what BMRUNTIME_FIRMWARE_PATH names, else the pair that load_firmware recorded for the device, else
    the workspace's; without a workspace one that holds the built-in layers only. Where both kinds are
    there, the library for this machine. MissingError when there is none.
    """
    kind = next((name for name in KINDS if name == asked), None)
    if asked is not None and kind is None:
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
