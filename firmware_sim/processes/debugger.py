"""A child process and a debugger: the child runs in it, or it runs beside the child.

Nobody's time is limited then, for what stands still may be what somebody looks at.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

LEFT = 125  # exit code of a child whose debugger's user has ended it
_LEAVE_LIMIT = 5.0  # s for a debugger to end when it is asked to


@dataclass(frozen=True)
class Debugger:
    """under: makes, of a child's command and of what its environment has more, the command that runs it in a
    debugger; None: the child runs as it does without. beside: a command to run beside the child, or empty.
    terminal: the debugger talks to the user. fds: files that
    become the child's, and are closed here. says: what the child tells
    once it waits for a debugger to connect."""

    under: Callable[[Sequence[str], Mapping[str, str]], list[str]] | None = None
    beside: Sequence[str] = ()
    terminal: bool = True
    fds: Sequence[int] = ()
    says: str = ""


class _Living(Protocol):
    @property
    def alive(self) -> bool: ...


_attended: weakref.WeakSet[_Living] = weakref.WeakSet()


def attend(child: _Living) -> None:
    """From now on, while this child lives, Ctrl-C is its debugger's (see `attended`)."""
    _attended.add(child)


@contextlib.contextmanager
def attended() -> Iterator[None]:
    """Within the block Ctrl-C belongs to a debugger where one talks to the user. In the main thread only, as
    signals are."""

    def interrupted(number: int, frame: object) -> None:
        if not any(child.alive for child in _attended):
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def leave(process: subprocess.Popen[bytes]) -> None:
    """End a debugger: asked first, so that it leaves the terminal as it was, and what runs in it ends too."""
    if process.poll() is None:
        process.send_signal(signal.SIGHUP)  # SIGTERM would interrupt gdb's own Python, which complains
    try:
        process.wait(_LEAVE_LIMIT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    _take_terminal()


def _take_terminal() -> None:
    """Make this process group the terminal's own again, if a debugger that was killed has given it away."""
    with contextlib.suppress(OSError):
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC | os.O_NOCTTY)
        try:
            if os.tcgetpgrp(terminal) != os.getpgrp():
                before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
                try:
                    os.tcsetpgrp(terminal, os.getpgrp())
                finally:
                    signal.pthread_sigmask(signal.SIG_SETMASK, before)
        finally:
            os.close(terminal)
