"""Which firmware runs."""

from __future__ import annotations

import os
from pathlib import Path

from firmware_sim.errors import MissingError
from user_layers.workspace import Workspace

FIRMWARE_VARIABLE = "BMRUNTIME_FIRMWARE_PATH"


def firmware_path(ws: Workspace | None = None) -> Path:
    """The firmware.so to run: of BMRUNTIME_FIRMWARE_PATH (its folder, or the file), else the workspace's.

    Without a workspace: one that holds the built-in layers only. MissingError when it is not built.
    """
    named = os.environ.get(FIRMWARE_VARIABLE)
    if named:
        path = Path(named).expanduser()
        path = path / "firmware.so" if path.is_dir() else path
        if not path.is_file():
            raise MissingError(
                f"{FIRMWARE_VARIABLE} is {named}, but there is no {path}",
                hint=f"set it to the folder that holds firmware.so, or unset {FIRMWARE_VARIABLE}",
            )
        return path.absolute()
    if ws is None:
        from user_layers.build.builtin import builtin_artifacts

        return builtin_artifacts().firmware
    if not ws.firmware.is_file():
        raise MissingError(f"{ws.firmware} is not built", hint="run `build_layers`")
    return ws.firmware
