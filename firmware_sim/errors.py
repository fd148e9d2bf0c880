"""The errors that users see: one clear message each, and the exit code it ends a command with.

A message says what happened, where, why, and what to do. Exit codes: 0 ok, 1 the check found
something, 2 usage, 3 the environment lacks something, 4 an internal error.
"""

from __future__ import annotations


class TpulayerError(Exception):
    """Base of all errors meant for the user.

    `message` is the whole text without the program's name; `hint` is the advice that ends it.
    """

    exit_code = 1

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
