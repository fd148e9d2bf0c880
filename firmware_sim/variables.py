"""The variables of the environment that hold numbers or words: what each may be, in one place.

Each is read where it is needed. Commands, and devices when they are opened, look at all of them before they
begin, so that a wrong one is said at once, and not by the first work that happens to use it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from firmware_sim.errors import UsageError

T = TypeVar("T")
MOST = float(1 << 40)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    return value if 0 <= value < MOST else None


def _count(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and 0 < int(text) < MOST else None


def _kinds(text: str) -> tuple[str, ...] | None:
    every = ("memory", "init", "hazard", "sync", "numeric")
    if text == "off":
        return ()
    words = [word.strip() for word in text.split(",")]
    if not {*words} <= {*every, "waits", "schedule", "all"}:
        return None
    return tuple(dict.fromkeys(kind for word in words for kind in (every if word == "all" else (word,))))


def _word(*words: str) -> Callable[[str], str | None]:
    return lambda text: text if text in words else None


@dataclass(frozen=True)
class Variable(Generic[T]):
    """form: what it may be, behind "give"; parse: its value, None for a text that is none."""

    name: str
    form: str
    parse: Callable[[str], T | None]

    def get(self) -> T | None:
        """What the environment says; None where it says nothing. UsageError for what it may not be."""
        text = os.environ.get(self.name, "").strip()
        return self.value(text, self.name) if text else None

    def value(self, text: str, source: str) -> T:
        """What a text says that stands in `source`, such as an option. UsageError for what it may not be."""
        value = self.parse(text)
        if value is None:
            raise self.wrong(text, source)
        return value

    def wrong(self, text: str, source: str) -> UsageError:
        """The error of a text that it may not be."""
        return UsageError(f"{source} {text}: give {self.form}")


TIME_LIMIT = Variable("TPULAYER_TIME_LIMIT", "a number of seconds, 0 for no limit", _number)
HOST_LIMIT = Variable(
    "TPULAYER_HOST_LIMIT", "a whole number of seconds, 1 or more", _count
)  # sdk/host/connection.c
HOST_MEMORY = Variable("TPULAYER_HOST_MEMORY", "a number of gigabytes, 0 for no limit", _number)
CACHE_SIZE = Variable("TPULAYER_CACHE_SIZE", "a number of gigabytes", _number)
THREADS = Variable("TPULAYER_THREADS", "a number of threads, 1 or more", _count)
WARNINGS = Variable("TPULAYER_WARNINGS", "one of show, error, ignore", _word("show", "error", "ignore"))
FIRMWARE = Variable("TPULAYER_FIRMWARE", "one of native, arm", _word("native", "arm"))
CHECK = Variable(
    "TPULAYER_CHECK",
    "off, or some of memory,init,hazard,sync,numeric (all for these), waits, schedule with commas between",
    _kinds,
)
CHECK_LIMIT = Variable("TPULAYER_CHECK_LIMIT", "a number of findings, 1 or more", _count)

_ALL = (TIME_LIMIT, HOST_LIMIT, HOST_MEMORY, CACHE_SIZE, THREADS, WARNINGS, FIRMWARE, CHECK, CHECK_LIMIT)


def check() -> None:
    """UsageError when one of them is set to what it may not be."""
    for variable in _ALL:
        variable.get()
