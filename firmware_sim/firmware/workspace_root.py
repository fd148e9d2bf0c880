"""Where a workspace begins, and where its built firmware lies: what the chip's side knows of workspaces."""

from __future__ import annotations

import os
from pathlib import Path

from firmware_sim.errors import UsageError

CONFIG_FILE = Path("config") / "Makefile.config"
ROOT_CONFIG_FILE = Path("Makefile.config")  # where the vendor's workspaces have it
WORKSPACE_VARIABLE = "TPULAYER_WORKSPACE"
FIRMWARE_DIR = Path("install") / "firmware"


def is_workspace(folder: Path) -> bool:
    """Whether the folder holds a configuration: config/Makefile.config, or Makefile.config beside device/."""
    if (folder / CONFIG_FILE).is_file():
        return True
    return (folder / ROOT_CONFIG_FILE).is_file() and (folder / "device").is_dir()


def workspace_root(start: Path | None = None) -> Path | None:
    """The workspace around `start`; None when there is none.

    Without start: the one that TPULAYER_WORKSPACE names (UsageError when that is none), else the one around
    the current folder.
    """
    named = os.environ.get(WORKSPACE_VARIABLE) if start is None else None
    if named:
        root = Path(named).expanduser().resolve()
        if not is_workspace(root):
            raise UsageError(
                f"{WORKSPACE_VARIABLE} names {root}, which holds no {CONFIG_FILE}",
                hint=f"unset {WORKSPACE_VARIABLE}, or set it to a workspace made by `tpulayer init`",
            )
        return root
    begin = (start or Path.cwd()).resolve()
    return next((f for f in (begin, *begin.parents) if is_workspace(f)), None)


def workspace_built(file: Path) -> Path | None:
    """The workspace whose build installed this file of a firmware; None for a file from elsewhere."""
    folder = file.resolve().parent
    root = folder.parents[1] if len(folder.parents) > 1 else folder
    return root if folder == root / FIRMWARE_DIR and is_workspace(root) else None
