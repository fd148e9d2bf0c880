"""Running again what a folder keeps."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from firmware_sim.errors import DeviceError
from firmware_sim.firmware.workspace_root import CONFIG_FILE, ROOT_CONFIG_FILE
from user_layers.repro.folder import FILES, load

LIMIT = 900.0
"""Seconds that building and the command may take, each."""

_FOREIGN = ("TPULAYER_WORKSPACE", "BMCOMPILER_PLUGIN_PATH", "BMRUNTIME_FIRMWARE_PATH")
"""Variables that would name another workspace or another build than the folder's own."""


def replay(folder: Path, say: Callable[[str], None]) -> int:
    """Build the folder's workspace if it has one, and run its command; the exit code of that, or of a build
    that fails. What they print goes where this process's does; say: gets lines about it.

    Errors: UsageError for a folder that is none; DeviceError when one of them does not end.
    """
    kept = load(folder)
    place = (folder / FILES).resolve()
    say(kept.what)
    variables = {name: value for name, value in os.environ.items() if name not in _FOREIGN}
    variables |= kept.variables
    if any((place / config).is_file() for config in (CONFIG_FILE, ROOT_CONFIG_FILE)):
        code = _run(("build_layers",), place, variables)
        if code:
            say(f"build_layers ended with code {code}")
            return code
    say(f"tpulayer {' '.join(kept.command)}")
    code = _run(kept.command, place, variables)
    if code == kept.exit_code:
        say(f"exit code {code}, as when it was kept")
    else:
        say(f"exit code {code}; it was {kept.exit_code} when it was kept, by tpulayer {kept.release}")
    return code


def _run(words: Sequence[str], place: Path, variables: Mapping[str, str]) -> int:
    sys.stdout.flush()
    command = [sys.executable, "-m", "user_layers.cli.main", *words]
    try:
        code = subprocess.run(
            command, cwd=place, env=dict(variables), stdin=subprocess.DEVNULL, timeout=LIMIT, check=False
        ).returncode
    except subprocess.TimeoutExpired:
        raise DeviceError(
            f"`tpulayer {' '.join(words)}` in {place} has not ended after {LIMIT:.0f} s"
        ) from None
    return code if code >= 0 else 128 - code
