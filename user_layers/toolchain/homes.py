"""Which toolkit a program with libbmlib.so starts: it is written into the copies that are linked with.

The library itself is built once for all checkouts and installs with the same sources, and stays in the
cache. A copy has what is its own: the Python and the folder of the packages; and where the others are
listed, one of which does the work when this one is gone (sdk/host/bmlib_home.c).
"""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

from firmware_sim.errors import BuildError
from firmware_sim.sdk_folder import toolkit_home
from user_layers.files import replace_copy
from user_layers.toolchain import entries
from user_layers.toolchain.builtin import Builtin

_MARK = b"tpulayer home: \0"
_ROOM = 3 * 4096  # bytes behind the mark
_LIST = "homes"


def host_libraries(builtin: Builtin) -> Path:
    """The folder in the cache with the libraries for host programs that start the toolkit which asks."""

    def build(folder: Path) -> None:
        for library in builtin.libraries:
            replace_copy(library, folder / library.name)
        (folder / builtin.bmlib.name).write_bytes(with_home(builtin.bmlib, builtin))

    name = hashlib.sha256(_home()).hexdigest()[:16]
    return entries.built_once(builtin.directory / f"host-{name}", build)


def with_home(library: Path, builtin: Builtin) -> bytes:
    """What a libbmlib.so, for any machine, is when it starts the toolkit which asks. builtin: the built-in
    part that keeps the list of those with copies.

    Errors: BuildError for another library.
    """
    listed = builtin.directory / _LIST
    _enlist(listed)
    texts = _home() + os.fsencode(listed) + b"\0"
    data = library.read_bytes()
    at = data.find(_MARK) + len(_MARK)
    if at < len(_MARK) or len(texts) > _ROOM or any(data[at : at + _ROOM]):
        raise BuildError(f"{library} has no room for the place of the toolkit", hint="run rebuild_layers")
    return data[:at] + texts + data[at + len(texts) :]


def _home() -> bytes:
    """This Python, and the folder of the packages."""
    return b"".join(os.fsencode(text) + b"\0" for text in (sys.executable, toolkit_home()))


def _enlist(file: Path) -> None:
    """Add this toolkit to a file with pairs of texts, in one write: others may do the same."""
    try:
        texts = file.read_bytes().split(b"\0")
    except FileNotFoundError:
        texts = []
    if tuple(_home().split(b"\0")[:2]) not in list(zip(texts[::2], texts[1::2], strict=False)):
        with file.open("ab", buffering=0) as stream:
            stream.write(_home())
