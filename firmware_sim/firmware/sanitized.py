"""Firmware images with checks: how the device recognizes one, what its process needs, what findings say.

`build_layers --sanitize` and its like put a text into firmware.so (sdk/sanitize/fw_findings.c): the checks
that are in it, and the library of AddressSanitizer that must be in the process before any other.
"""

from __future__ import annotations

import mmap
import os
import re
from dataclasses import dataclass
from pathlib import Path

_MARK = b"tpulayer-sanitized:"
_NAMES = {"undefined": "UndefinedBehaviorSanitizer", "address": "AddressSanitizer"}

# Signals stay ours: their handlers know the kernel and the line. Python and the libraries below it keep
# memory to the end, and reserve more of it than they use.
_OPTIONS = (
    "detect_leaks=0:abort_on_error=1:handle_segv=0:handle_sigbus=0:handle_sigfpe=0:handle_sigill=0:handle_abort=0:"
    "use_sigaltstack=0:allow_user_segv_handler=1:alloc_dealloc_mismatch=0:detect_odr_violation=0:"
    "allocator_may_return_null=1:quarantine_size_mb=32:verify_asan_link_order=0:color=never"
)


@dataclass(frozen=True)
class Sanitized:
    """checks: "undefined" and perhaps "address"; runtime: the library to load first, or ""."""

    checks: tuple[str, ...]
    runtime: str

    def __str__(self) -> str:
        return " and ".join(_NAMES.get(check, check) for check in self.checks)


def sanitized(image: Path) -> Sanitized | None:
    """What checks the image has; None for a plain one and for what cannot be read."""
    try:
        with open(image, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            at = data.find(_MARK)
            if at < 0:
                return None
            text = data[at + len(_MARK) : data.find(b"\0", at)].decode(errors="replace")
    except (OSError, ValueError):
        return None
    checks, _, runtime = text.partition(":")
    return Sanitized(tuple(checks.split(",")), runtime)


def preloaded(runtime: str) -> dict[str, str]:
    """The environment of a process that loads such an image. The user's own options come last and win."""
    before = [os.environ[name] for name in ("LD_PRELOAD",) if os.environ.get(name)]
    options = [text for text in (os.environ.get("ASAN_OPTIONS"),) if text]
    return {
        "LD_PRELOAD": ":".join((runtime, *before)),
        "ASAN_OPTIONS": ":".join((_OPTIONS, *options)),
    }


def environment(image: Path) -> dict[str, str]:
    """What the environment of the device process needs for this image; empty for most."""
    found = sanitized(image)
    return preloaded(found.runtime) if found is not None and found.runtime else {}


_ERROR = re.compile(r"ERROR: AddressSanitizer: (.+?)(?: on (?:unknown )?address|:| \(|$)", re.MULTILINE)
_NO_ROOM = re.compile(r"ERROR: (AddressSanitizer failed to allocate \w+)")
_ABORT = re.compile(
    r"\*\*\* .+ detected \*\*\*.*|(?:free|malloc|realloc|munmap_chunk)\(\).*|corrupted .*|double free .*"
    r"|.*: Assertion `.*' failed\.|(?:memory|a local array) was written beyond .*"
)
_ACCESS = re.compile(r"^((?:READ|WRITE) of size \d+)", re.MULTILINE)
_BLOCK = re.compile(r"^0x[0-9a-f]+ is located (.+? \d+-byte region)", re.MULTILINE)
_OBJECT = re.compile(
    r"^0x[0-9a-f]+ is located (.+?) of global variable '([^']+)' .*of size (\d+)", re.MULTILINE
)
_VARIABLE = re.compile(
    r"^ *\[(\d+), (\d+)\) '([^']+)'(?: \(line \d+\))? <== Memory access at offset (\d+)", re.MULTILINE
)


def finding(output: str) -> str:
    """Why a process aborted itself, from what it printed last, as one line; empty when it did not say.

    Of AddressSanitizer's report: "AddressSanitizer: heap-buffer-overflow, WRITE of size 4, 0 bytes to the
    right of 16-byte region". Of the C library's own checks and of assert() the line itself.
    """
    errors = list(_ERROR.finditer(output))
    if not errors:
        if room := _NO_ROOM.search(output):
            return f"{room[1]} bytes of address space; a limit (ulimit -v) is too low for it"
        last = output.rstrip().rpartition("\n")[2]
        return last if _ABORT.fullmatch(last) else ""
    report = output[errors[-1].start() :]
    parts = [f"AddressSanitizer: {errors[-1][1].strip()}"]
    if access := _ACCESS.search(report):
        parts.append(access[1])
    if variable := _VARIABLE.search(report):
        low, high, name, at = variable.groups()
        parts.append(f"byte {int(at) - int(low)} of variable {name}, which has {int(high) - int(low)}")
    elif items := _OBJECT.findall(report):
        where, name, size = min(
            items, key=lambda item: int(re.sub(r"\D.*", "", item[0]))
        )  # of its neighbours
        parts.append(f"{where} of variable {name}, which has {size} bytes")
    elif block := _BLOCK.search(report):
        parts.append(block[1])
    return ", ".join(parts)
