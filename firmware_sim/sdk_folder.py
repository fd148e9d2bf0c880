"""The folder with the C of the firmware, and the name that it has in what is built of it for everybody.

What several checkouts and installs share is built by whichever needs it first. So that it does not say
which one that was, debug information has the folder as SHARED_SDK, and names in messages begin with `sdk/`.
"""

from __future__ import annotations

import re
from pathlib import Path

from firmware_sim.errors import MissingError

SHARED_ROOT = "/tpulayer"
SHARED_SDK = f"{SHARED_ROOT}/sdk"

_IN_MESSAGE = re.compile(rb"(?<![\w./-])sdk(?=/[\w./-]+\.\w+:\d)")


def sdk_dir() -> Path:
    """The folder with the C of the firmware: the wheel's package data, or the repository's sdk/.

    Errors: MissingError when neither is there (a broken installation).
    """
    home = toolkit_home()
    for candidate in (home / "user_layers" / "_sdk", home / "sdk"):
        if (candidate / "include").is_dir():
            return candidate
    raise MissingError(
        f"the C sources of the firmware are missing beside {home / 'user_layers'}",
        hint="install the package again: pip install --force-reinstall tpulayer",
    )


def toolkit_home() -> Path:
    """The folder that holds the toolkit's packages."""
    return Path(__file__).resolve().parent.parent


def here(path: str) -> str:
    """The path of a source file, from debug information, as it is in this checkout or install."""
    if not path.startswith(f"{SHARED_SDK}/"):
        return path
    try:
        return str(sdk_dir()) + path.removeprefix(SHARED_SDK)
    except MissingError:
        return path


def message_here(text: bytes) -> bytes:
    """A message of the firmware with its `sdk/...:LINE` as files of this checkout or install."""
    if b"sdk/" not in text:
        return text
    try:
        folder = str(sdk_dir()).encode()
    except MissingError:
        return text
    return _IN_MESSAGE.sub(lambda _: folder, text)
