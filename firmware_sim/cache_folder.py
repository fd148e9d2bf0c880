"""The folder where built things that several workspaces share are kept."""

from __future__ import annotations

import os
from pathlib import Path

from firmware_sim.errors import MissingError

CACHE_VARIABLE = "TPULAYER_CACHE"
_HINT = f"set {CACHE_VARIABLE} to a folder that can be written"


def cache_root() -> Path:
    """TPULAYER_CACHE, or tpulayer/ in the user's cache folder. It is made when missing.

    Errors: MissingError when it cannot be made or written.
    """
    named = os.environ.get(CACHE_VARIABLE)
    try:
        if named:
            root = Path(named).expanduser().absolute()
        else:
            base = os.environ.get("XDG_CACHE_HOME")
            root = (Path(base) if base else Path.home() / ".cache").absolute() / "tpulayer"
        root.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError) as error:  # RuntimeError: no home folder is known
        raise MissingError(f"the cache folder cannot be made: {error}", hint=_HINT) from error
    if not os.access(root, os.W_OK | os.X_OK):
        raise MissingError(f"the cache folder {root} cannot be written", hint=_HINT)
    return root
