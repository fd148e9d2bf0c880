"""The controller's C library (sdk/libc) as a shared library of this process, and compiled for the ARM.

The fixture beside it exports a table of functions; `Libc` calls them by name.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.paths import SOURCES as SOURCE_FILES
from tests.support import firmware_harness as fh
from user_layers.toolchain.compilers import BASE_FLAGS

SOURCES = sorted((fh.SDK / "libc").glob("*.c"))
INCLUDES = [f"-I{d}" for d in (fh.SDK / "libc" / "include", fh.SDK / "libc")]
FLAGS = (*BASE_FLAGS, *fh.WARNINGS, "-Wshadow", "-Wno-format-nonliteral", "-fno-builtin", *INCLUDES)
ZIG = [sys.executable, "-m", "ziglang", "cc"]
ARM = [*ZIG, "-target", "arm-freestanding-eabi", "-mcpu=arm926ej_s", "-marm", "-fno-sanitize=all"]
LIMIT = 840


class _Entry(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("function", ctypes.c_void_p))


def build(compiler: str, directory: Path, fixture: str, sources: Sequence[Path], *flags: str) -> Path:
    """Compile these sources with a fixture into a shared library and return its path."""
    library = directory / f"{Path(fixture).stem}_{compiler}.so"
    command = [*fh.compilers()[compiler], *FLAGS, "-fno-sanitize=all", *flags, "-shared", "-Wl,-z,defs"]
    files = map(str, [*sources, SOURCE_FILES / fixture])
    subprocess.run([*command, "-o", str(library), *files], check=True, timeout=LIMIT)
    return library


class Libc:
    """A built library. Functions take and give integers and buffers; `result` is a ctypes type."""

    def __init__(self, library: Path) -> None:
        self.lib = ctypes.CDLL(str(library))
        table = ctypes.cast(self.lib.functions, ctypes.POINTER(_Entry))
        self.addresses: dict[str, int] = {}
        while (entry := table[len(self.addresses)]).name is not None:
            self.addresses[entry.name.decode()] = entry.function

    def call(self, name: str, *args: Any, result: Any = ctypes.c_int) -> Any:
        """Call a function; integers are passed as 64 bits, bytes as a pointer to them."""

        def passed(value: Any) -> Any:
            return ctypes.c_uint64(value % (1 << 64)) if isinstance(value, int) else value

        return ctypes.CFUNCTYPE(result)(self.addresses[name])(*map(passed, args))

    def text(self, name: str) -> str:
        """A text variable of the fixture, which is then empty."""
        buffer = (ctypes.c_char * 512).in_dll(self.lib, name)
        value = ctypes.string_at(ctypes.addressof(buffer)).decode()
        buffer[0] = b"\0"
        return value

    def failure(self, name: str, first: int = 0, second: int = 0) -> str:
        """What a call with up to two words ended with; empty when it returned."""
        self.call("made_to_fail", self.addresses[name], first, second, result=ctypes.c_void_p)
        return self.text("failed")
