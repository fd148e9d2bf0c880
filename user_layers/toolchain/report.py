"""What a build says while it runs: lasting notes, and a progress line that a terminal overwrites."""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import TextIO


class Reporter:
    """Notes and progress on stderr; thread-safe, since two parts of a build may run at once."""

    def __init__(self, stream: TextIO | None = None, *, quiet: bool = False) -> None:
        self._stream = stream or sys.stderr
        self._quiet = quiet
        self._terminal = not quiet and self._stream.isatty()
        self._lock = threading.Lock()
        self._line = ""
        self._shown = False
        self._started = time.monotonic()

    def note(self, text: str) -> None:
        """A line (or several) that stays."""
        if self._quiet:
            return
        with self._lock:
            self._clear()
            print(text, file=self._stream, flush=True)

    def progress(self, text: str) -> None:
        """A step that has ended."""
        if self._quiet:
            return
        with self._lock:
            if self._terminal:
                self._line = text
                self._show()
            else:
                print(text, file=self._stream, flush=True)

    def tick(self) -> None:
        """Nothing has ended for a while: show on a terminal that time passes."""
        with self._lock:
            if self._terminal:
                self._show()

    def close(self) -> None:
        """Remove what is left of the progress line."""
        with self._lock:
            self._clear()

    def _show(self) -> None:
        try:
            columns = os.get_terminal_size(self._stream.fileno()).columns or 80
        except OSError:
            columns = 80
        text = f"{self._line} ({time.monotonic() - self._started:.0f} s)" if self._line else "building"
        self._stream.write("\r\x1b[K" + text[: max(1, columns - 1)])
        self._stream.flush()
        self._shown = True

    def _clear(self) -> None:
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._line, self._shown = "", False
