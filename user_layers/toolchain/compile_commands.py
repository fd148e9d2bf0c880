"""compile_commands.json: how each source is compiled, for clangd and editors that use it.

The text comes from the ninja file itself (`NinjaFile.compile_commands`), so it cannot say anything else than
what is built.
"""

from __future__ import annotations

import json
from pathlib import Path

from user_layers.files import write_if_changed
from user_layers.toolchain.ninja_file import NinjaFile
from user_layers.toolchain.report import Reporter

NAME = "compile_commands.json"
_KEYS = {"directory", "file", "arguments"}


def write_commands(ninja: NinjaFile, folder: Path, report: Reporter) -> None:
    """Put what `ninja` compiles for this machine into `folder`, whole or not at all. A file there that other
    tools have written stays, and the report says so; OSError when it cannot be written."""
    path = folder / NAME
    if not _is_ours(path):
        report.note(f"{path} is of another tool and stays; remove it, and the next build writes one")
        return
    write_if_changed(path, ninja.compile_commands())


def _is_ours(path: Path) -> bool:
    """Whether there is no file, or one as we write it: other tools' entries have other keys."""
    try:
        known = json.loads(path.read_bytes())
    except FileNotFoundError:
        return True
    except (OSError, ValueError):
        return False
    return isinstance(known, list) and all(isinstance(one, dict) and one.keys() == _KEYS for one in known)
