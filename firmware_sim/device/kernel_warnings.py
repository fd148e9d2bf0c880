"""What kernels do that the guide forbids and that works all the same: told, an error, or nothing.

The firmware counts each such place (fw_warn) and sends what it noted behind its reply.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, cast

from firmware_sim.errors import DeviceError
from firmware_sim.variables import WARNINGS

Mode = Literal["show", "error", "ignore"]
VARIABLE = WARNINGS.name

_CALLED_AT = re.compile(r" \[called at ([^\]]*?)(?: in [^\]]*)?\]$")


def choose(mode: str | None) -> None:
    """Make it that of this process and those that it starts; None leaves what the environment says."""
    if mode is not None:
        os.environ[VARIABLE] = chosen(mode)


@dataclass(frozen=True)
class KernelWarning:
    """text: what is wrong; place: "FILE:LINE" of the call, or ""; count: how often in this launch."""

    text: str
    place: str = ""
    count: int = 1

    def __str__(self) -> str:
        times = f" ({self.count} times)" if self.count > 1 else ""
        return f"{self.place}: {self.text}{times}" if self.place else f"{self.text}{times}"


def parsed(lines: str) -> list[KernelWarning]:
    """From lines "COUNT TEXT [called at PLACE]", as the firmware sends them, those of one place together.

    A line of C has several places in the code where the compiler unrolls a loop.
    """
    found: dict[tuple[str, str], int] = {}
    for line in lines.splitlines():
        count, _, text = line.partition(" ")
        if not count.isdigit() or not text:
            continue
        called = _CALLED_AT.search(text)
        key = (text[: called.start()], called[1]) if called else (text, "")
        found[key] = found.get(key, 0) + int(count)
    return [KernelWarning(text, place, times) for (text, place), times in found.items()]


def chosen(mode: str | None) -> Mode:
    """The mode asked for, else that of the environment's TPULAYER_WARNINGS, else "show".

    Raises UsageError for another word.
    """
    word = WARNINGS.get() or "show" if mode is None else WARNINGS.value(mode, "warnings")
    return cast(Mode, word)


def to_stderr(warning: KernelWarning) -> None:
    """As a line "warning: FILE:LINE: TEXT"."""
    sys.stderr.write(f"warning: {warning}\n")
    sys.stderr.flush()


class Told:
    """Passes warnings on, each place and text once, or raises them, by mode."""

    def __init__(self, mode: Mode, tell: Callable[[KernelWarning], None] | None) -> None:
        self._mode = mode
        self._tell = tell or to_stderr
        self._known: set[tuple[str, str]] = set()

    def __call__(self, activity: str, warnings: list[KernelWarning], *, failed: bool = False) -> None:
        """Raises DeviceError with the first where warnings are errors; not of a request that failed."""
        if self._mode == "ignore":
            return
        if self._mode == "error" and warnings and not failed:
            more = f" (and {len(warnings) - 1} more)" if len(warnings) > 1 else ""
            raise DeviceError(
                f"{activity}: {warnings[0]}{more}",
                hint=f"it ran, and is an error because warnings are; {VARIABLE}=show only tells",
            )
        for warning in warnings:
            key = (warning.place, warning.text)
            if key not in self._known:
                self._known.add(key)
                self._tell(warning)
