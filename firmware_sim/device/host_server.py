"""What the process behind libbmlib.so does: holds one Device and answers the C library (sdk/host/bmlib.c).

The process itself is user_layers.bmrt.bmrt_server, which knows further requests. Requests and replies are
fixed little-endian heads with a text and data behind them. Replies carry bm_status_t codes and, but for the
first, what the device has executed so far; the text is the message of an error. An asynchronous launch
(_START) has no reply: its error waits for _SYNC. Requests are served in order, so the socket is the queue.
The process ends when the socket closes.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Protocol

import numpy as np

from firmware_sim.checks.error import CheckError
from firmware_sim.chip import CLOCK_HZ, L2_LOOKUP_BYTES, L2_LOOKUP_START
from firmware_sim.device.client import Device
from firmware_sim.device.findings import together
from firmware_sim.errors import (
    AddressError,
    DeviceCrash,
    DeviceError,
    MissingError,
    TpulayerError,
    UsageError,
)
from firmware_sim.firmware.image import FirmwareImage
from firmware_sim.processes.process_child import die_with_parent

PROTOCOL = 6  # PROTOCOL of bmlib.c: a library installed before an update of the toolkit is told so
_REQUEST = struct.Struct("<IIQQQQ")
_REPLY = struct.Struct("<iIQQ")
_EXECUTED = struct.Struct("<QQ")  # behind each but the first
_MALLOC, _FREE, _WRITE, _READ, _COPY, _LOAD, _LAUNCH, _START, _SYNC, _MAP, _TABLE, _STATE = range(1, 13)
_STATE_REPLY = struct.Struct("<5Q")  # device_state of bmlib_internal.h
_SUCCESS, _NOT_READY, _FAILURE, _TIMEOUT, _PARAM, _NOMEM = range(6)  # bm_status_t


def _status(error: TpulayerError, op: int) -> int:
    if isinstance(error, DeviceCrash) and error.timed_out:
        return _TIMEOUT
    if isinstance(error, AddressError):
        return _PARAM
    if isinstance(error, CheckError):
        return _SUCCESS if op == _MAP else _FAILURE  # memory that is not mapped cannot be looked at
    if isinstance(error, DeviceError):
        return _NOMEM if op == _MALLOC else _FAILURE
    if isinstance(error, MissingError) and op != _LOAD:
        return _NOT_READY
    return _PARAM


class Server(Protocol):
    """What a process of this protocol does with a request."""

    def answer(self, op: int, text: str, a: int, b: int, c: int, data: bytes) -> tuple[int, bytes] | None:
        """(value, data) of the reply, or None when there is to be none."""

    def executed(self) -> tuple[int, int]:
        """Commands of the engines so far, and their modelled cycles; zeros where nobody asks for them."""


class Host:
    """Opens the device when it is first needed, so that a program may name the firmware before.

    program: the host program as a firmware, where it has kernels in it; they count until it names another.
    """

    def __init__(self, dev_id: int, program: FirmwareImage | None = None) -> None:
        self.dev_id = dev_id
        self.program = program
        self._device: Device | None = None
        self._newest = 0.0  # cycles of the newest launch
        self._made = 0  # buffers
        self._failed: list[TpulayerError] = []  # of asynchronous launches since the last sync

    def usual_firmware(self) -> FirmwareImage | None:
        """What boots when the program names none; None leaves it to `find_firmware`."""
        return None

    @property
    def device(self) -> Device:
        """The device, opened. MissingError when there is no firmware for it."""
        if self._device is None:
            self._device = Device(self.program or self.usual_firmware(), dev_id=self.dev_id)
        return self._device

    def executed(self) -> tuple[int, int]:
        """Commands of the engines so far, and their modelled cycles."""
        return (0, 0) if self._device is None else (self._device.commands, round(self._device.cycles))

    def _load(self, tcm: str, ddr: str) -> None:
        from firmware_sim.arm.images import keep, named

        firmware = named(tcm, ddr)
        if self._device is None:
            self._device = Device(firmware, dev_id=self.dev_id)
        else:
            self._device.load_firmware(firmware)
        if isinstance(firmware, FirmwareImage):
            keep(firmware, self.dev_id)

    @contextmanager
    def timed(self) -> Iterator[Device]:
        """Around a launch: its modelled time becomes that of the newest one."""
        before = self.device.cycles
        try:
            yield self.device
        finally:
            self._newest = self.device.cycles - before

    def _launch_kernel(self, kernel: str, args: bytes) -> None:
        with self.timed() as device:
            device.launch(kernel, args)

    def _load_table(self, table: bytes) -> None:
        if len(table) > L2_LOOKUP_BYTES:
            raise UsageError(f"a table of {len(table)} bytes; L2 has room for {L2_LOOKUP_BYTES}")
        place = self.device.l2[L2_LOOKUP_START : L2_LOOKUP_START + len(table)]
        place[:] = np.frombuffer(table, np.uint8)

    def _state(self) -> bytes:
        heap, ns = self.device.heap, 1e9 / CLOCK_HZ
        times = (self.device.cycles, self._newest)
        return _STATE_REPLY.pack(heap.size, heap.used, heap.start, *(round(cycles * ns) for cycles in times))

    def _start(self, kernel: str, args: bytes) -> None:
        try:
            self._launch_kernel(kernel, args)
        except TpulayerError as error:
            self._failed.append(error)

    def _sync(self) -> None:
        failed, self._failed = self._failed, []
        if failed:
            if len(failed) > 1:
                failed[0].message += f" (the first of {len(failed)} launches that failed)"
            raise failed[0]

    def answer(self, op: int, text: str, a: int, b: int, c: int, data: bytes) -> tuple[int, bytes] | None:
        """(value, data) of the reply, or None when there is to be none."""
        if op == _START:
            self._start(text, data)
            return None
        if op == _SYNC:
            self._sync()
        elif op == _LOAD:
            self._load(text, data.decode(errors="replace"))
        elif op == _MALLOC:
            self._made += 1
            name = f"buffer {self._made} of {a} bytes (bm_malloc_device_byte)"
            return self.device.malloc(a, name), b""
        elif op == _FREE:
            self.device.free(a)
        elif op == _WRITE:
            self.device.write(a, data)
        elif op == _READ:
            return 0, self.device.read(a, b)
        elif op == _COPY:
            self.device.write(a, self.device.read(b, c))
        elif op == _MAP:
            path, offset = self.device.file_of(a, b)
            return offset, path.encode()
        elif op == _TABLE:
            self._load_table(data)
        elif op == _STATE:
            return 0, self._state()
        elif op == _LAUNCH:
            self._launch_kernel(text, data)
        else:
            raise DeviceError(f"unknown request {op} from libbmlib.so")
        return 0, b""


def _receive(sock: socket.socket, size: int) -> bytes | None:
    """None at the end of the stream."""
    data = bytearray(size)
    view, at = memoryview(data), 0
    while at < size:
        count = sock.recv_into(view[at:])
        if count == 0:
            return None
        at += count
    return bytes(data)


def serve(sock: socket.socket, host: Server) -> None:
    """Answer requests until the socket closes."""
    sock.sendall(_REPLY.pack(_SUCCESS, 0, PROTOCOL, 0))
    while (request := _receive(sock, _REQUEST.size)) is not None:
        op, text_bytes, a, b, c, data_bytes = _REQUEST.unpack(request)
        text, data = _receive(sock, text_bytes), _receive(sock, data_bytes)
        if text is None or data is None:
            return
        status, message = _SUCCESS, b""
        reply: tuple[int, bytes] | None = (0, b"")
        try:
            # A launch that nobody waits for keeps what was found for the next _SYNC.
            with nullcontext() if op == _START else together():
                reply = host.answer(op, text.decode(errors="replace"), a, b, c, data)
        except CheckError as error:  # once all is done: the reply is what it would be without
            status, message = _status(error, op), str(error).encode(errors="replace")
        except TpulayerError as error:
            status, message, reply = _status(error, op), str(error).encode(errors="replace"), (0, b"")
        if reply is not None:
            value, out = reply
            head = _REPLY.pack(status, len(message), value, len(out)) + _EXECUTED.pack(*host.executed())
            sock.sendall(head + message + out)


def main(make: Callable[[int, FirmwareImage | None], Server] = Host) -> None:
    """Arguments: the toolkit's folder and the module (for the boot line), the socket, the device's number,
    and the socket where a copy of the program waits that has kernels in it (-1: none)."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C belongs to the program
    *_, socket_fd, dev_id, program_fd = sys.argv
    die_with_parent(int(socket_fd))
    with socket.socket(fileno=int(socket_fd)) as connection:
        serve(connection, make(int(dev_id), _program(int(program_fd))))


def _program(server: int) -> FirmwareImage | None:
    if server < 0:
        return None
    return FirmwareImage(Path(os.readlink(f"/proc/{os.getppid()}/exe")), server=server)
