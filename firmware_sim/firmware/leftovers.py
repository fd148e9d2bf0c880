"""What a native kernel leaves behind in its process: nothing separates it from the emulator there.

Open files are closed, programs that it started are ended and timers stopped, and what the process has once is
put back (`process_state.py`), so that the next launch finds the process as this one did. Threads cannot be
ended, and files of the device that were closed or replaced cannot be opened again: then the process has to
go.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import threading
import time

from firmware_sim.firmware.process_state import File, ProcessState, identity

_TIMER_DELETE = 111 if os.uname().machine == "aarch64" else 226  # of x86-64
_PR_SET_CHILD_SUBREAPER = 36
_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
_ENDING = 5  # looks, 10 ms apart, at a thread that may just be ending


class Leftovers:
    """Remembers the process as it is after boot and after each launch."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        # What a kernel's programs have started becomes this process's when they end.
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._state = ProcessState()
        self._foreign = _threads() - threading.active_count()
        self._next, self._files = _next_file(), _open_files()

    def clear(self) -> tuple[list[str], str]:
        """After a launch: what is gone now, and why the process has to go, as predicates ("left 2 files
        open"); empty for nothing. Ends a copy of the process that fork() made."""
        if os.getpid() != self._pid:
            os._exit(0)
        gone = []
        if programs := _end_programs():
            gone.append(f"left {_counted(programs, 'program')} running")
        if _stop_timers():
            gone.append("left a timer running")
        try:
            gone += [f"left {what}" for what in self._state.put_back()]
        except OSError:
            return gone, "changed its process in a way that cannot be undone"
        opened, closed, replaced = self._changed_files()
        if opened:
            gone.append(f"left {_counted(opened, 'file')} open")
        if closed:
            return gone, f"closed {_counted(closed, 'file')} of the device's"
        if replaced:
            return gone, f"replaced {_counted(replaced, 'file')} of the device's"
        for _ in range(_ENDING):
            threads = _threads() - threading.active_count() - self._foreign
            if threads <= 0:
                return gone, ""
            time.sleep(0.01)
        return gone, f"left {_counted(threads, 'thread')} running"

    def _changed_files(self) -> tuple[int, int, int]:
        """How many were opened, which are closed now, how many closed, and how many are others now."""
        replaced = sum(file != identity(fd) for fd, file in self._files.items())
        if _next_file() == self._next and not replaced:  # files take the lowest free number
            return 0, 0, 0
        now = _open_files()
        opened, closed = now.keys() - self._files.keys(), self._files.keys() - now.keys()
        for fd in opened:
            with contextlib.suppress(OSError):  # the listing's own
                os.close(fd)
        self._next = _next_file()
        return len(opened), len(closed), replaced - len(closed)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def _next_file() -> int:
    fd = os.open(os.devnull, os.O_RDONLY)
    os.close(fd)
    return fd


def _open_files() -> dict[int, File]:
    """By their numbers."""
    found = {fd: identity(fd) for fd in map(int, os.listdir("/proc/self/fd"))}
    return {fd: file for fd, file in found.items() if file is not None}  # without the listing's own


def _stop_timers() -> bool:
    """Those of setitimer and alarm, and those of timer_create, which /proc lists where Linux was built so."""
    stopped = [signal.setitimer(timer, 0) != (0.0, 0.0) for timer in _TIMERS]
    running = any(stopped)
    with contextlib.suppress(OSError), open("/proc/self/timers") as file:
        for line in file:
            if line.startswith("ID: "):
                ctypes.CDLL(None).syscall(_TIMER_DELETE, int(line[4:]))
                running = True
    return running


def _threads() -> int:
    return os.stat("/proc/self/task").st_nlink - 2


def _end_programs() -> int:
    found = 0
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            with open(f"/proc/self/task/{threading.get_native_id()}/children") as file:
                pids = [int(text) for text in file.read().split()]
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            found += len(pids)
            if not pids:  # of another thread, with which it ends
                return found
        else:
            found += 1
