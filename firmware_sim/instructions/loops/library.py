"""Where the library of compiled loops is: in the user's cache, by sources and processor.

Nothing heavy is imported here, for whoever only asks whether it is there.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
from functools import cache
from pathlib import Path

from firmware_sim.cache_folder import cache_root

FOLDER = Path(__file__).resolve().parent  # with the C that is not made from tables
_INSTRUCTIONS = FOLDER.parent
_MAKE_C = (FOLDER / "source.py", _INSTRUCTIONS.parent / "isa" / "codes.py")
_STATES_EXPRESSIONS = (b"of_floats(", b"of_words(", b"Expression(")
# What a level of the x86-64 architecture has more than the one before, as Linux names it.
_V4 = frozenset({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"})
_LEVELS = (
    ("x86-64-v4+avx512vnni", _V4 | {"avx512_vnni"}),
    ("x86-64-v4", _V4),
    ("x86-64-v3", frozenset({"avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"})),
)
_FLAGS_WITHIN = 1 << 14  # bytes of /proc/cpuinfo that hold the first processor's


@cache
def level() -> str:
    """The level of this processor by the names of gcc's -march, what it has beyond behind a plus; empty where
    loops are not used: only x86-64 flushes denormals as the chip does."""
    if platform.machine() not in ("x86_64", "AMD64") or platform.system() != "Linux":
        return ""
    try:
        with open("/proc/cpuinfo", "rb") as file:
            text = file.read(_FLAGS_WITHIN).decode(errors="replace")
    except OSError:
        text = ""
    line = next((one for one in text.splitlines() if one.startswith("flags")), "")
    has = set(line.partition(":")[2].split())
    return next((name for name, needs in _LEVELS if needs <= has), "x86-64")


def _sources() -> dict[str, bytes]:
    """What the library is made from, by name: C, what makes C, and the modules with expressions."""
    files = [*sorted(FOLDER.glob("*.c")), *sorted(FOLDER.glob("*.h")), *_MAKE_C]
    found = {path.name: path.read_bytes() for path in files}
    modules = {path.name: path.read_bytes() for path in sorted(_INSTRUCTIONS.glob("*.py"))}
    return found | {
        name: data for name, data in modules.items() if any(one in data for one in _STATES_EXPRESSIONS)
    }


@cache
def _key() -> str:
    digest = hashlib.sha256(level().encode())
    for name, data in _sources().items():
        digest.update(f"{name}\n{len(data)}\n".encode())
        digest.update(data)
    return digest.hexdigest()[:24]


def location() -> Path | None:
    """The library for the sources as they were when this process first asked, there or not; None where loops
    are not used. MissingError when there is no cache folder."""
    return cache_root() / "loops" / _key() / "loops.so" if level() else None


def lock_of(place: Path) -> Path:
    """The file that whoever makes the library at `place` holds locked."""
    return place.parent.with_suffix(".lock")


def is_being_built() -> bool:
    """Whether some process makes the library now: it holds the lock."""
    place = location()
    if place is None:
        return False
    try:
        handle = os.open(lock_of(place), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def is_built() -> bool:
    """Whether the library is there, or not wanted."""
    place = location()
    return place is None or os.path.isfile(place)
