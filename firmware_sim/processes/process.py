"""Child processes that hold code which may crash or never return: the device, and C++ plugins.

Parent::

    child = Child("package.module", ["arg"], name="plugin host", limit=5.0, crashed=describe)
    reply, data = child.request({"op": "add", "x": 1}, b"payload")   # dict (JSON) and bytes
    child.close()                                                    # also a context manager

Child, in package/module.py::

    def start(args: list[str], fds: list[int], link: Link) -> Handler:
        # heavy imports and set-up; an error raised here is raised by the parent's first request
        def handle(header: dict[str, object], payload: bytes) -> tuple[dict[str, object], bytes]:
            link.activity = "TPU_CROP: backward_hslice"      # begins the sentence of a crash report
            ...
            link.tick()                                      # the next part of it: its time starts again
            with link.aside(): ...                           # work of our own, whose time does not count
            link.log("text")                                 # -> on_log(text) in the parent, during request
            return {"y": 2}, b""
        return handle

- Requests are answered one at a time; `request` is thread-safe, and must not be called from on_log.
- A TpulayerError raised by the handler is raised by `request` with the same class, message and hint;
  any other exception there is an `InternalError` here that carries the child's traceback.
- When the child dies, takes longer than `limit` seconds for a request, prints more than MOST_PRINTED bytes
  while it runs, or breaks the connection, it is killed and reaped and `request` raises what `crashed(Crash)`
  returns. The Child is then closed; start a new one.
- Time in which the machine did not give the child a CPU, or did not run this process, does not count; nor
  does any while a debugger is attached to the child. One that the child is started with (see
  `debugger.Debugger`) has no limit at all; where its user ends the child, `request` raises KeyboardInterrupt.
- Large data does not go through the socket: pass the fd of a memfd in `fds` (same numbers in the child).
- stdout and stderr of the child are collected while a request runs and go to `on_output`, by default
  this process's stderr.
- The child dies with the parent, also after SIGKILL: its socket then reports the hang-up. Nothing has a
  name in the file system, so nothing is left behind.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from types import TracebackType
from typing import Any, cast

from firmware_sim import errors
from firmware_sim.errors import MissingError, TpulayerError
from firmware_sim.processes.debugger import LEFT, Debugger, attend, leave
from firmware_sim.processes.process_child import (
    ACTIVITY_BYTES,
    ACTIVITY_OFFSET,
    ERROR,
    FRAMES,
    FRAMES_OFFSET,
    HELLO,
    INTERNAL,
    LOG,
    NEWEST_OFFSET,
    NOTES,
    NOTES_OFFSET,
    PULSE_BYTES,
    PULSE_LOST,
    REPLY,
    REQUEST,
    FrameReader,
    Handler,
    Link,
    send_frame,
)

__all__ = ["Child", "Crash", "Handler", "InternalError", "Link"]

START_LIMIT = 60.0  # s for the child's start and its imports, on a cold and busy machine
ASIDE_LIMIT = 600.0  # s inside one Link.aside()
MOST_PRINTED = 16 << 20  # bytes of output and log of one request
_WAITING = (
    20  # times the limit, or s, that may be left out because a child got no CPU: it may be what keeps it busy
)
_ABORT_LIMIT = 0.5  # s for a child to end by a signal that it can handle
_CLOSED_LIMIT = 2.0  # s for a child to end after its socket closed
OUTPUT_TAIL = 16384  # bytes of the child's output kept for the report of a crash

_BOOT = (
    "import sys; p, *a = sys.argv[1:]; sys.path[:] = p.split('\\n'); "
    "from firmware_sim.processes.process_child import child_main; child_main(a)"
)

_SIGNALS = {
    "SIGSEGV": "invalid memory access",
    "SIGBUS": "invalid memory access",
    "SIGFPE": "integer division by zero",
    "SIGABRT": "abort or failed assertion",
    "SIGILL": "illegal instruction",
    "SIGTRAP": "trap",
    "SIGKILL": "killed from outside, perhaps because the machine ran out of memory",
    "SIGTERM": "ended from outside",
    "SIGPIPE": "wrote to a closed pipe",
}


class InternalError(RuntimeError):
    """An error in the child that is not meant for users; the text holds its traceback."""


@dataclass(frozen=True)
class Crash:
    """How a child ended.

    activity: the text set last with Link.activity, or by C code at its address; may be empty.
    signal: name such as "SIGSEGV", or None. exit_code: of a child that exited, or None.
    timeout: the limit in seconds at which it was killed, or None. reason: why else this process ended it.
    output: the last of what it wrote to stdout and stderr (sanitizer reports are here).
    fault: text of Python's faulthandler.
    frames: return addresses on the stack of the end, innermost first, where C code noted them
    (Link.frames_address); what they count from is that code's matter. notes: Link.notes at the end.
    newest: a code address that C code notes as it goes on (Link.newest_address), 0 none. lost: it could not
    answer any more, because C code has closed its files.
    """

    activity: str
    signal: str | None
    exit_code: int | None
    timeout: float | None
    output: str
    fault: str
    frames: tuple[int, ...] = ()
    notes: tuple[int, ...] = (0,) * NOTES
    newest: int = 0
    reason: str = ""
    lost: bool = False

    @property
    def what(self) -> str:
        """A predicate for the report: "crashed: SIGSEGV (invalid memory access)"."""
        if self.timeout is not None:
            return f"ran for {self.timeout:g} s and was stopped"
        if self.reason:
            return self.reason
        if self.signal is not None:
            meaning = _SIGNALS.get(self.signal)
            return f"crashed: {self.signal}" + (f" ({meaning})" if meaning else "")
        if self.lost:
            return "closed files of its process that are not its own"
        return f"ended its process with exit code {self.exit_code}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # the real-time signals have no names
        return f"signal {number}"


def _to_stderr(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


def _run_delay(pid: int) -> float:
    """Seconds in which `pid` could have run but had no CPU; 0.0 where the kernel does not tell."""
    try:
        with open(f"/proc/{pid}/schedstat", "rb") as file:
            return int(file.read().split()[1]) * 1e-9
    except (OSError, IndexError, ValueError):
        return 0.0


def _is_traced(pid: int) -> bool:
    """Whether a debugger is attached to `pid`."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            return any(line.startswith(b"TracerPid:") and int(line[10:]) != 0 for line in file)
    except OSError:
        return False


class _Clock:
    """Measures the time of a request in steps, so that time in which nobody ran is left out. limit: seconds,
    0 for none. more: asked once, when the limit has passed: the one that counts."""

    def __init__(self, pid: int, limit: float, more: Callable[[], float] | None = None) -> None:
        self._pid = pid
        self._limit = limit
        self._more = more
        self._most_waited = max(_WAITING, _WAITING * limit)
        self._passed = self._passed_aside = self._waited = 0.0
        self._state = (0, 0)
        self._delay = _run_delay(pid)
        self._checked = time.monotonic()

    @property
    def step(self) -> float:
        """Seconds until the next check."""
        if self._limit == 0:
            return 0.25
        return max(0.001, min(self._limit / 4, 0.25, self._limit - self._passed))

    def expired(self, ticks: int, aside: int) -> float | None:
        """The limit that has passed, or None. A change of `ticks` starts the time again; while `aside` is
        not 0 another one applies."""
        step, now, delay = self.step, time.monotonic(), _run_delay(self._pid)
        # More than twice the step: this process itself was stopped or starved.
        elapsed = min(now - self._checked, 2 * step)
        waited = min(elapsed, max(0.0, delay - self._delay), max(0.0, self._most_waited - self._waited))
        self._waited += waited
        elapsed -= waited
        before, self._state = self._state, (ticks, aside)
        if ticks != before[0]:
            self._passed = 0.0
        if aside and before[1]:
            self._passed_aside += elapsed
        else:
            self._passed_aside = 0.0
            self._passed += 0.0 if aside else elapsed
        self._checked, self._delay = now, delay
        if self._passed_aside >= ASIDE_LIMIT:
            return ASIDE_LIMIT
        if self._limit == 0 or self._passed < self._limit:
            return None
        if _is_traced(self._pid):
            self._passed = 0.0
            return None
        if self._more is not None:
            more, self._more = self._more, None
            self._limit = max(self._limit, more())
        return self._limit if self._passed >= self._limit else None


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a child, and what it has started, which may live longer."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _dispose(
    owner: int,
    process: subprocess.Popen[bytes],
    debuggers: Sequence[subprocess.Popen[bytes]],
    sock: socket.socket,
    fds: Sequence[int],
) -> None:
    if os.getpid() == owner:  # a forked copy of this program must not end its parent's child
        if process not in debuggers:
            _kill(process)
            process.wait()
        for debugger in debuggers:
            leave(debugger)
    else:
        for one in (process, *debuggers):
            one.returncode = 0  # not ours to wait for
    sock.close()
    for fd in fds:
        os.close(fd)


class Child:
    """A child process that answers requests; see the module's text for both sides.

    module: must define start(args, fds, link) -> handler. limit: seconds that a request may take, 0 for any
    time (a call may give its own). crashed: makes the error of a crash. env: added to the environment.
    debugger: which it is started with.
    The process starts at once; the constructor does not wait for it.
    """

    def __init__(
        self,
        module: str,
        args: Sequence[str] = (),
        *,
        fds: Sequence[int] = (),
        limit: float,
        name: str,
        crashed: Callable[[Crash], TpulayerError],
        on_log: Callable[[str], None] = _to_stderr,
        on_output: Callable[[str], None] = _to_stderr,
        env: Mapping[str, str] | None = None,
        debugger: Debugger | None = None,
    ) -> None:
        self.name = name
        self._debugger = debugger
        self._owner = os.getpid()
        self._limit = limit
        self._printed = 0  # bytes, of the request that runs
        self._crashed = crashed
        self._on_log = on_log
        self._on_output = on_output
        self._lock = threading.RLock()
        self._pending = False  # a reply is on its way
        self._thread: int | None = None  # the thread whose request runs
        self._ready = False
        self._tail = b""
        self._sock, theirs = socket.socketpair()
        out_read, out_write = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(out_read, False)
        self._out = out_read
        self._pulse = os.memfd_create(f"pulse {name}")
        os.ftruncate(self._pulse, PULSE_BYTES)
        paths = [p for p in sys.path if isinstance(p, str)]
        if debugger is not None:
            fds = (*fds, *debugger.fds)
        own = [module, str(theirs.fileno()), str(self._pulse), ",".join(map(str, fds)), *args]
        passed = [theirs.fileno(), self._pulse, *fds]
        debuggers: list[subprocess.Popen[bytes]] = []
        try:
            if debugger is not None and debugger.under is not None:
                command = [sys.executable, "-m", "firmware_sim.processes.apart", str(out_write), *own]
                self._process = subprocess.Popen(
                    debugger.under(command, {**(env or {}), "PYTHONPATH": os.pathsep.join(paths)}),
                    pass_fds=[*passed, out_write],
                    stdin=None if debugger.terminal else subprocess.DEVNULL,
                    stdout=sys.stderr.fileno(),
                    start_new_session=not debugger.terminal,
                )
                debuggers.append(self._process)
            else:
                self._process = subprocess.Popen(
                    [sys.executable, "-c", _BOOT, "\n".join(paths), *own],
                    pass_fds=passed,
                    stdin=subprocess.DEVNULL,
                    stdout=out_write,
                    stderr=out_write,
                    env={**os.environ, **(env or {})},
                    start_new_session=True,  # so that what it starts itself can be ended with it
                )
            if debugger is not None and debugger.beside:
                debuggers.append(subprocess.Popen(debugger.beside, stdout=sys.stderr.fileno()))
        except BaseException:
            self._sock.close()
            os.close(out_read)
            os.close(self._pulse)
            raise
        finally:
            theirs.close()
            for fd in (out_write, *(() if debugger is None else debugger.fds)):
                os.close(fd)
        self._debuggers = debuggers
        self._finalizer = weakref.finalize(
            self, _dispose, self._owner, self._process, debuggers, self._sock, (self._out, self._pulse)
        )
        self._reader = FrameReader(self._sock)
        if debugger is not None and debugger.terminal:
            attend(self)

    def __enter__(self) -> Child:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def alive(self) -> bool:
        """False after close() or a crash."""
        return self._finalizer.alive

    @property
    def pid(self) -> int:
        """The child's process id; it stays when the child is gone."""
        return self._process.pid

    def close(self) -> None:
        """End the process and wait until it is gone; may be called again, and after a crash."""
        if self._finalizer.alive and os.getpid() == self._owner:
            # also ends a request that another thread waits for
            end = leave if self._process in self._debuggers else _kill
            end(self._process)
        with self._lock:
            if self._finalizer.alive:
                self._drain_output()
                self._finalizer()

    def request(
        self,
        header: Mapping[str, object],
        payload: bytes = b"",
        *,
        limit: float | None = None,
        more: Callable[[], float] | None = None,
    ) -> tuple[dict[str, object], bytes]:
        """Send one request and wait for its reply.

        header must be JSON. more: asked when the limit has passed, how many seconds the request may take.
        Raises what the handler raised, the error made by `crashed`, or RuntimeError when the Child is closed
        or on_log calls back in.
        """
        if self._thread == threading.get_ident():
            raise RuntimeError(f"{self.name}: a request from within a log callback")
        with self._lock:
            if not self.alive:
                raise RuntimeError(f"{self.name}: the process has ended")
            self._thread = threading.get_ident()
            try:
                if not self._ready:
                    self._wait(START_LIMIT, HELLO)
                    self._ready = True
                self._pending = True
                self._printed = 0
                self._send(dict(header), payload)
                return self._wait(self._limit if limit is None else limit, REPLY, more)
            except BaseException:
                if self._pending:  # Ctrl-C, or on_log raised: the reply would come to the next request
                    self.close()
                raise
            finally:
                self._thread = None
                self._pending = False

    def _send(self, header: dict[str, object], payload: bytes) -> None:
        # The child reads whenever it is between requests: only a dead one makes this fail or wait.
        self._sock.settimeout(START_LIMIT)
        try:
            send_frame(self._sock, REQUEST, header, payload)
        except TimeoutError:
            raise self._end(START_LIMIT) from None
        except OSError:
            raise self._end() from None

    def _wait(
        self, limit: float, want: bytes, more: Callable[[], float] | None = None
    ) -> tuple[dict[str, object], bytes]:
        clock = _Clock(self.pid, limit, more)
        poll = select.poll()
        poll.register(self._sock.fileno(), select.POLLIN)
        poll.register(self._out, select.POLLIN)
        clock.expired(*self._pulse_words())
        while True:
            ready = {fd for fd, _ in poll.poll(clock.step * 1000)}
            if self._out in ready and not self._drain_output():
                poll.unregister(self._out)
            if self._sock.fileno() in ready:
                reply = self._read(want)
                if reply is not None:
                    return reply
            passed = clock.expired(*self._pulse_words())
            if passed is not None and self._debugger is None:
                raise self._end(passed)
            if self._printed > MOST_PRINTED:
                raise self._end(reason=f"printed more than {MOST_PRINTED >> 20} MiB and was stopped")

    def _read(self, want: bytes) -> tuple[dict[str, object], bytes] | None:
        """Take in what the socket has; the reply if it is complete."""
        try:
            more = self._reader.read_available()
        except ConnectionError:
            more = False
        while True:
            try:
                frame = self._reader.next()
                if frame is None:
                    break
                kind, header, data = frame
                if kind not in (want, ERROR, LOG) or (kind == LOG and "text" not in header):
                    raise ValueError("a frame that nobody asked for")
            except ValueError:
                raise self._end(reason="wrote into the connection of its process and was stopped") from None
            if kind == LOG:
                self._printed += len(str(header["text"]))
                self._on_log(str(header["text"]))
                continue
            self._drain_output()
            self._pending = False
            if kind == ERROR:
                if want == HELLO:
                    self.close()
                raise self._error(header)
            return header, data
        if not more:
            raise self._end()
        return None

    def _error(self, header: dict[str, object]) -> Exception:
        message, hint = str(header["message"]), str(header["hint"])
        kind = getattr(errors, str(header["error"]), None)
        if header["error"] != INTERNAL and isinstance(kind, type) and issubclass(kind, TpulayerError):
            error: TpulayerError = kind(message, hint=hint)
            error.noted = str(header["noted"])
            error.found = cast("dict[str, Any]", header["found"])
            return error
        return InternalError(f"internal error in the process of {self.name}:\n{message}")

    def _pulse_words(self) -> tuple[int, int]:
        ticks, aside = struct.unpack("<QQ", os.pread(self._pulse, 16, 0))
        return ticks, aside

    def _drain_output(self) -> bool:
        """Pass on what the child printed; False at the end of its output."""
        while True:
            try:
                data = os.read(self._out, 65536)
            except BlockingIOError:
                return True
            if not data:
                return False
            self._printed += len(data)
            self._tail = (self._tail + data)[-OUTPUT_TAIL:]
            self._on_output(data.decode(errors="replace"))

    def _await_end(self, limit: float) -> None:
        """Wait until the child ends by itself, at most for so many seconds in which it could run. What it
        still sends is dropped, so that it does not wait for a reader."""
        clock = _Clock(self.pid, limit)
        self._sock.setblocking(False)
        while clock.expired(0, 0) is None:
            self._drop_sent()
            self._drain_output()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(min(clock.step, 0.005))
                return

    def _drop_sent(self) -> None:
        with contextlib.suppress(OSError):
            while self._sock.recv(1 << 20):
                pass

    def _end(self, timeout: float | None = None, *, reason: str = "") -> TpulayerError:
        """Kill (timeout, reason) or reap the child, and describe how it ended."""
        stopped = timeout is not None or bool(reason)
        apart = self._debugger is not None and self._debugger.under is not None
        notes = struct.unpack(f"<{NOTES}Q", os.pread(self._pulse, 8 * NOTES, NOTES_OFFSET))
        (lost,) = struct.unpack("<Q", os.pread(self._pulse, 8, 8 * PULSE_LOST))
        (newest,) = struct.unpack("<Q", os.pread(self._pulse, 8, NEWEST_OFFSET))
        if apart:  # the process that we know is the debugger; the child ends with it
            leave(self._process)
        elif stopped:
            # Its C code notes where it is when it gets this signal.
            self._process.send_signal(signal.SIGABRT)
            self._await_end(_ABORT_LIMIT)
        else:
            # The socket closed: the process is about to be gone, unless it closed the socket itself.
            self._await_end(_CLOSED_LIMIT)
        _kill(self._process)
        code = self._process.wait()
        self._drain_output()
        text = os.pread(self._pulse, ACTIVITY_BYTES, ACTIVITY_OFFSET).split(b"\0", 1)[0]
        frames = struct.unpack(f"<{FRAMES}Q", os.pread(self._pulse, 8 * FRAMES, FRAMES_OFFSET))
        if self._debugger is not None and not stopped and (not any(frames) if apart else code == LEFT):
            self.close()
            if apart and not self._ready:
                raise MissingError(
                    f"{self.name} did not start in the debugger, whose messages stand above",
                    hint="where a container forbids ptrace, its option --cap-add=SYS_PTRACE helps",
                )
            raise KeyboardInterrupt  # nothing in it crashed: the user has left the debugger
        if apart:
            stopped, reason = True, reason or "ended in the debugger"
        crash = Crash(
            activity=text.decode(errors="replace"),
            signal=_signal_name(-code) if code < 0 and not stopped else None,
            exit_code=code if code >= 0 and not apart else None,
            timeout=timeout,
            output=self._tail.decode(errors="replace"),
            fault=os.pread(self._pulse, 65536, PULSE_BYTES).decode(errors="replace"),
            frames=tuple(takewhile(bool, frames)),
            notes=notes,
            newest=newest,
            reason=reason,
            lost=lost != 0,
        )
        self.close()
        return self._crashed(crash)
