"""What a command is at, on stderr, when that takes long."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import TextIO

from user_layers.toolchain.report import Reporter

_PATIENCE_S = 1.0


class Progress:
    """A context in which each step that takes longer than a second is named on stderr: a terminal overwrites
    the line and counts seconds, anything else gets a line for each such step."""

    def __init__(self, stream: TextIO | None = None, patience_s: float = _PATIENCE_S) -> None:
        self._reporter = Reporter(stream)
        self._patience_s = patience_s
        self._change = threading.Condition()
        self._text: str | None = None  # of the step that is under way
        self._ended = False
        self._thread = threading.Thread(target=self._watch, name="progress", daemon=True)

    def __enter__(self) -> Progress:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._change:
            self._ended = True
            self._change.notify()
        self._thread.join()
        self._reporter.close()

    def step(self, text: str) -> None:
        """A step begins, and the one before has ended."""
        with self._change:
            self._text = text
            self._change.notify()

    def done(self) -> None:
        """No step is under way, and the terminal is free for results."""
        with self._change:
            self._text = None
            self._change.notify()
        self._reporter.close()

    def _watch(self) -> None:
        """The thread: waits for a step to last, then tells of it once, then lets the seconds pass."""
        told: str | None = None
        with self._change:
            while not self._ended:
                if self._change.wait(self._patience_s) or self._text is None:
                    continue  # another step, or the end
                if self._text == told:
                    self._reporter.tick()
                else:
                    told = self._text
                    self._reporter.progress(told)
