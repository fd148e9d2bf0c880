"""The standard streams of a command, whatever it was started with: closed, full, or for few characters."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_STDIN, _STDOUT, _STDERR = 0, 1, 2


def prepare() -> None:
    """Make all three usable. A closed stdin has nothing; writing to a closed stdout fails, as to a full one;
    what stderr cannot take is lost, because nobody is left to be told."""
    for number, mode in ((_STDIN, os.O_RDONLY), (_STDOUT, os.O_RDONLY), (_STDERR, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:  # the next file to be opened would be this stream
            _as(os.open(os.devnull, mode), number)
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(_STDIN, closefd=False)))
    sys.stdout = _text(_Output(_STDOUT, "w", closefd=False), sys.stdout, line_buffering=os.isatty(_STDOUT))
    sys.stderr = _text(_Lossy(_STDERR, "w", closefd=False), sys.stderr, line_buffering=True)


def discard_output() -> None:
    """Nobody takes what is printed: drop what is left of it, so that the interpreter's end does not fail."""
    _as(os.open(os.devnull, os.O_WRONLY), _STDOUT)


def _text(raw: io.FileIO, old: TextIO | None, *, line_buffering: bool) -> io.TextIOWrapper:
    encoding = old.encoding if old is not None else "utf-8"
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding, "backslashreplace", line_buffering=line_buffering
    )


class _Output(io.FileIO):
    """A file whose errors have its name."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise OSError(error.errno, error.strerror, "the standard output") from None


class _Lossy(io.FileIO):
    """A file that takes everything."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(memoryview(data).cast("B"))


def _as(descriptor: int, number: int) -> None:
    if descriptor != number:
        os.dup2(descriptor, number)
        os.close(descriptor)
