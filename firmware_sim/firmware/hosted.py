"""A firmware whose kernels are linked into a host program: it runs in a copy of that program.

libbmlib.so has the firmware in it, and the program's kernels register there. A copy of the program waits at a
socket (sdk/host/bmlib_server.c); for each device process it makes one more copy of itself (bmlib_kernels.c),
which maps the chip's memories, and sends here what a firmware asks of the engines. sdk/host/bmlib_program.h
has the twins of the structs below.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import NoReturn

import numpy as np

from firmware_sim.chip import STATIC_CONTEXT_OFFSET
from firmware_sim.errors import DeviceError
from firmware_sim.firmware.controller_log import Chain, ControllerAccess, IssuedBy
from firmware_sim.firmware.image import EngineFailed, Engines, StreamGroup
from firmware_sim.firmware.source_lines import Line, SourceLines, of_the_user
from firmware_sim.processes.process_child import (
    ACTIVITY_BYTES,
    ACTIVITY_OFFSET,
    FRAMES_OFFSET,
    NEWEST_OFFSET,
    PULSE_BYTES,
    Link,
)
from firmware_sim.processes.shared_memory import ARENA_CAPACITY, SharedMemory
from firmware_sim.wire import ABI_VERSION

_BOOT = struct.Struct("<IIII8Q16Q6Q")
_MESSAGE = struct.Struct("<IIQQII")
_TO_REQUEST, _TO_RESULT, _TO_SITE, _TO_LABEL = range(1, 5)
_BOOTED, _FLUSH, _GROUP, _LOG, _REPLY, _SITE, _LABEL, _ENDED = range(1, 9)
_GUARDS = 8  # PROGRAM_GUARDS
_NOTING = 0.4  # s for the kernels' process to note where it is; the parent waits 0.5 s for this one


class HostedFirmware:
    """Boots the kernels of the program that waits behind the socket `fd`; DeviceError when that fails.

    When the kernels' process crashes, this process ends by the same signal, so that a crash is reported as
    that of a firmware in this process would be.
    """

    def __init__(self, program: Path, fd: int, memory: SharedMemory, engines: Engines, link: Link) -> None:
        self._program = program
        self._engines = engines
        self._link = link
        self._error: Exception | None = None
        self._memory = memory
        self._lines: dict[str, SourceLines] = {}
        self._socket, theirs = socket.socketpair()
        with theirs, socket.socket(fileno=os.dup(fd)) as server:
            try:
                socket.send_fds(server, [_boot(memory)], [memory.fd, link.page_fd, theirs.fileno()])
            except OSError as error:
                raise self._gone(f": {error}") from None
        _, self._pid, link.notes[2], status, _, _ = self._await(_BOOTED)
        if status != 0:
            raise DeviceError(f"{program}: its kernels cannot be used", hint="the lines before tell why")
        signal.signal(signal.SIGABRT, self._on_abort)

    @property
    def instructions(self) -> int:
        """Always 0: nobody counts the processor's own instructions."""
        return 0

    def handle(self, request: bytes) -> bytes:
        """Send one request (fw_request, payload) and serve what it asks until its reply comes.

        Raises EngineFailed for the first error of an engine call made on the way. A crash ends this process.
        """
        self._error = None
        self._send(_TO_REQUEST, data=request)
        while True:
            kind, a, b, c, d, data = self._receive()
            if kind == _REPLY:
                break
            if kind == _FLUSH:
                self._answer(partial(self._engines.flush, a, b, c))
            elif kind == _GROUP:
                self._answer(partial(self._engines.run_group, StreamGroup(a, b, c, d)))
        if self._error is not None:
            raise EngineFailed(self._error, data)
        return data

    def site(self, address: int) -> str:
        """The source line of a return address, else `symbol+0x...`; empty where nothing lies."""
        path, loaded, symbol, start = self._lies(address)
        if not path:
            return ""
        offset = address - loaded
        if line := self._lines_of(path).at(offset - 1):  # a return address: the call is just before it
            return str(line)
        return f"{symbol}+{address - start:#x}" if symbol else f"{Path(path).name}+{offset:#x}"

    def layer(self, address: int) -> str:
        """The label at an address of the kernels' process; empty for 0."""
        return self._ask(_TO_LABEL, address, _LABEL)[-1].decode(errors="replace") if address else ""

    def watch(self, on: bool) -> None:
        """Nothing: the user compiled the kernels, in whatever way."""

    def accesses(self) -> list[ControllerAccess]:
        """None: see `watch`."""
        return []

    @property
    def accesses_lost(self) -> bool:
        """Always False: there is no log."""
        return False

    def frames(self, engine_is_bd: bool, index: int) -> tuple[Line, ...]:
        """See `Firmware`: the line that called the kernel API, and those around it that the compiler put
        into the same function."""
        sites = self._memory.bd_site if engine_is_bd else self._memory.gdma_site
        return self.frames_at(int(sites[index]))

    def frames_at(self, *addresses: int) -> tuple[Line, ...]:
        """See `Firmware`."""
        found = list[Line]()
        for address in addresses:
            path, loaded, _, _ = self._lies(address)
            if path:
                found += filter(of_the_user, self._lines_of(path).chain(address - loaded - 1))
        return tuple(found)

    def function(self, name: str) -> Line | None:
        """See `Firmware`: the kernels are in the program itself."""
        return self._lines_of(str(self._program)).function(name)

    def issued(self, bd_num: int, gdma_num: int) -> IssuedBy:
        """See `Firmware`: all unknown."""
        return np.zeros(bd_num, np.uint32), np.zeros(gdma_num, np.uint32)

    def chains(self) -> list[Chain]:
        """See `Firmware`: none."""
        return [()]

    def _lies(self, address: int) -> tuple[str, int, str, int]:
        """In which image a code address lies and where that was loaded, the symbol before it and where that
        is; "" for none."""
        if not address:
            return "", 0, "", 0
        _, loaded, start, _, _, data = self._ask(_TO_SITE, address, _SITE)
        path, symbol, *_ = data.decode(errors="replace").split("\0")
        return path, loaded, symbol, start

    def _lines_of(self, path: str) -> SourceLines:
        if path not in self._lines:
            self._lines[path] = SourceLines(Path(path))
        return self._lines[path]

    def _answer(self, call: Callable[[], None]) -> None:
        """Make one engine call and tell its result; after an error all that follow are refused."""
        if self._error is None:
            try:
                call()
            except Exception as error:
                self._error = error
        status = 0 if self._error is None else 0xFFFFFFFF
        self._send(_TO_RESULT, c=status, d=self._engines.filtered)

    def _ask(self, kind: int, address: int, wanted: int) -> tuple[int, int, int, int, int, bytes]:
        self._send(kind, a=address)
        return self._await(wanted)

    def _await(self, wanted: int) -> tuple[int, int, int, int, int, bytes]:
        while (message := self._receive())[0] != wanted:
            pass
        return message

    def _send(self, kind: int, *, a: int = 0, c: int = 0, d: int = 0, data: bytes = b"") -> None:
        try:
            self._socket.sendall(_MESSAGE.pack(kind, len(data), a, 0, c, d) + data)
        except OSError:
            self._receive()  # tells how it ended

    def _receive(self) -> tuple[int, int, int, int, int, bytes]:
        """The next message; the log is passed on here, and the process's end ends this one."""
        while True:
            head = self._take(_MESSAGE.size)
            kind, size, a, b, c, d = _MESSAGE.unpack(head)
            data = self._take(size)
            if kind == _ENDED:
                self._end(c)
            if kind != _LOG:
                return kind, a, b, c, d, data
            self._engines.log(data.decode(errors="replace"))

    def _take(self, size: int) -> bytes:
        data = bytearray(size)
        view, at = memoryview(data), 0
        while at < size:
            try:
                count = self._socket.recv_into(view[at:])
            except OSError:
                count = 0
            if count == 0:
                raise self._gone()
            at += count
        return bytes(data)

    def _gone(self, why: str = "") -> DeviceError:
        return DeviceError(f"{self._program}: the process that holds its kernels has ended{why}")

    def _end(self, status: int) -> NoReturn:
        code = os.waitstatus_to_exitcode(status)
        sys.stderr.flush()
        if code >= 0:
            os._exit(code)
        self._die(-code)

    def _die(self, number: int) -> NoReturn:
        signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
        os._exit(128 + number)

    def _on_abort(self, number: int, frame: FrameType | None) -> None:
        """The limit of time ends this process: the kernels' process notes first where it is."""
        try:
            os.kill(self._pid, signal.SIGABRT)
        except OSError:
            self._die(number)
        until = time.monotonic() + _NOTING
        while not self._link.frames_noted and time.monotonic() < until:
            time.sleep(0.005)
        time.sleep(0.01)  # the frames behind the first
        self._die(number)


def _boot(memory: SharedMemory) -> bytes:
    """program_boot: where in the two files what lies."""
    at = memory.offsets
    guards = memory.guards[: len(memory.guards) - 1]  # what lies behind DDR is not mapped there
    pairs = [number for guard in guards for number in guard] + [0] * 2 * (_GUARDS - len(guards))
    return _BOOT.pack(
        ABI_VERSION,
        ARENA_CAPACITY,
        len(guards),
        memory.guard_bytes,
        at["ddr"],
        *(at[name] for name in ("local", "l2", "dtcm", "bd", "gdma", "sites")),
        memory.window_bytes,
        *pairs,
        PULSE_BYTES,
        ACTIVITY_OFFSET,
        ACTIVITY_BYTES,
        FRAMES_OFFSET,
        NEWEST_OFFSET,
        STATIC_CONTEXT_OFFSET,
    )
