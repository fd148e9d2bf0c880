"""What a process has once, and a native kernel may change for everything after it: put back, and named."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
from collections.abc import Callable

_LC_ALL = 6  # of glibc and musl
_LIMITS = sorted(
    {value for name, value in vars(resource).items() if name.startswith("RLIMIT_") and isinstance(value, int)}
)
_STANDARD = (0, 1, 2)

File = tuple[int, int]  # device and inode


def identity(fd: int) -> File | None:
    """Which file is behind a number; None where none is open."""
    try:
        found = os.fstat(fd)
    except OSError:
        return None
    return found.st_dev, found.st_ino


class ProcessState:
    """Remembers it as it is when this is made, which is after boot."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None)
        self._libc.setlocale.restype = self._libc.uselocale.restype = ctypes.c_void_p
        self._libc.uselocale.argtypes = [ctypes.c_void_p]
        self._environ = ctypes.c_void_p.in_dll(self._libc, "environ")
        self._variables = self._variables_now()
        self._kept_variables = ctypes.create_string_buffer(self._variables, len(self._variables))
        self._locale = self._locale_now()
        self._thread_locale = self._libc.uselocale(None)
        self._folder = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC) if _current_folder() else None
        self._folder_known = _current_folder()
        self._umask = _umask()
        self._limits = [resource.getrlimit(limit) for limit in _LIMITS]
        self._standard = [identity(fd) for fd in _STANDARD]
        self._spare = [
            os.dup(fd) if known else -1 for fd, known in zip(_STANDARD, self._standard, strict=True)
        ]

    def put_back(self) -> list[str]:
        """What was changed, each as an object of "left": "another working folder". Raises OSError for what
        cannot be put back."""
        parts: tuple[tuple[str, Callable[[], bool]], ...] = (
            ("the standard files replaced", self._put_back_standard),
            ("another working folder", self._put_back_folder),
            ("another umask", self._put_back_umask),
            ("another locale", self._put_back_locale),
            ("the environment changed", self._put_back_variables),
            ("other limits of the process", self._put_back_limits),
        )
        return [name for name, changed in parts if changed()]

    def _put_back_standard(self) -> bool:
        changed = False
        for fd, known, spare in zip(_STANDARD, self._standard, self._spare, strict=True):
            if known is not None and identity(fd) not in (
                known,
                None,
            ):  # a closed one is lost, with its buffers
                os.dup2(spare, fd)
                changed = True
        return changed

    def _put_back_folder(self) -> bool:
        if self._folder is None or _current_folder() == self._folder_known:
            return False
        os.fchdir(self._folder)
        return True

    def _put_back_umask(self) -> bool:
        return os.umask(self._umask) != self._umask

    def _put_back_locale(self) -> bool:
        thread = self._libc.uselocale(None) != self._thread_locale
        if thread:
            self._libc.uselocale(self._thread_locale)
        now = self._locale_now()
        if now != self._locale:
            self._libc.setlocale(_LC_ALL, ctypes.c_char_p(self._locale))
        return thread or now != self._locale

    def _put_back_variables(self) -> bool:
        if self._variables_now() == self._variables:
            return False
        ctypes.memmove(self._kept_variables, self._variables, len(self._variables))
        self._environ.value = ctypes.addressof(self._kept_variables)
        return True

    def _put_back_limits(self) -> bool:
        changed = False
        for limit, known in zip(_LIMITS, self._limits, strict=True):
            if resource.getrlimit(limit) != known:
                try:
                    resource.setrlimit(limit, known)
                except ValueError as error:  # without the right to raise a hard limit again
                    raise PermissionError(str(error)) from None
                changed = True
        return changed

    def _locale_now(self) -> bytes:
        return ctypes.string_at(self._libc.setlocale(_LC_ALL, None))

    def _variables_now(self) -> bytes:
        """The pointers to the variables, with the NULL behind them."""
        start, size = self._environ.value, ctypes.sizeof(ctypes.c_void_p)
        if start is None:
            return bytes(size)
        count = 0
        while ctypes.c_void_p.from_address(start + count * size).value is not None:
            count += 1
        return ctypes.string_at(start, (count + 1) * size)


def _current_folder() -> File | None:
    with contextlib.suppress(OSError):
        found = os.stat(".")
        return found.st_dev, found.st_ino
    return None


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
