"""The errors that users see: one clear message each, and the exit code it ends a command with.

A message says what happened, where, why, and what to do. Exit codes: 0 ok, 1 the check found
something, 2 usage, 3 the environment lacks something, 4 an internal error, 5 checks found something in
what ran (CheckError of firmware_sim/checks).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any


class TpulayerError(Exception):
    """Base of all errors meant for the user.

    `message` is the whole text without the program's name; `hint` is the advice that ends it; `noted`:
    warnings that came before it, which nobody has shown yet, in lines "COUNT TEXT"; `found`: the same of
    checks, as in the header of a reply.
    """

    exit_code = 1
    noted = ""
    found: Mapping[str, Any] = {}

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint}" if self.hint else self.message


class SourceError(TpulayerError):
    """Something in a user's file is wrong: `file:line:column: what`."""


class BuildError(TpulayerError):
    """A compiler or linker run failed; the message holds the compiler's own text."""


class CompileError(TpulayerError):
    """A graph cannot be compiled."""


class ModelError(TpulayerError):
    """A bmodel or a reference file is damaged, foreign, or does not match what runs it."""


class DeviceError(TpulayerError):
    """The device refused or failed: a kernel's error, an illegal instruction, out of memory."""


class AddressError(DeviceError):
    """An address in DDR that a program gave, for bytes that are not there or are not its own to write."""


class DeviceCrash(DeviceError):
    """The device process died, or was stopped at its limit of time (timed_out); the device is reset."""

    def __init__(self, message: str, *, hint: str = "", timed_out: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.timed_out = timed_out


class UsageError(TpulayerError):
    """The command's words, or the state of the workspace, do not fit what was asked."""

    exit_code = 2


class MissingError(TpulayerError):
    """The environment lacks something (a compiler, a built firmware, a package)."""

    exit_code = 3


# Of Python itself and of the loader, which have no number and no class of their own.
_REFUSED = (
    *("can't allocate", "can't start new thread", "failed to map segment", "Cannot allocate memory"),
    *("cannot allocate memory", "Too many open files", "cannot create shared object"),
)


def folder_is_gone() -> str:
    """What to say when the current folder was removed; empty when it is there."""
    try:
        os.getcwd()
    except FileNotFoundError:
        named = os.environ.get("PWD", "")
        return f"the current folder{' ' * bool(named)}{named} does not exist any more; cd to one that does"
    return ""


def system_error(error: BaseException) -> str:
    """What the system refused, and for which file; empty for an error of another kind."""
    if isinstance(error, MemoryError):
        return f"there is not enough memory{f': {error}' if str(error) else ''}"
    if isinstance(error, FileNotFoundError) and error.filename is None and (gone := folder_is_gone()):
        return gone
    if isinstance(error, OSError):
        what = error.strerror or str(error) or type(error).__name__
        return what if error.filename is None else f"{os.fsdecode(error.filename)}: {what}"
    if isinstance(error, (RuntimeError, ImportError)) and any(text in str(error) for text in _REFUSED):
        return str(error)
    return ""
