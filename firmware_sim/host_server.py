"""The process behind libbmlib.so: holds one Device and answers the C library (sdk/host/bmlib.c).

    python -m firmware_sim.host_server SOCKET_FD DEVICE_ID

Requests and replies are fixed little-endian heads with a text and data behind them. Replies carry the
bm_status_t codes; the text is the message of an error. The process ends when the socket closes.
"""

from __future__ import annotations

import re
import socket
import struct
import sys

import numpy as np

from firmware_sim.device import Device
from firmware_sim.errors import DeviceCrash, DeviceError, MissingError, TpulayerError

_REQUEST = struct.Struct("<IIQQQQ")
_REPLY = struct.Struct("<iIQQ")
_MALLOC, _FREE, _WRITE, _READ, _COPY, _LOAD, _LAUNCH = range(1, 8)
_FAILURE, _TIMEOUT, _PARAM, _NOMEM, _NOT_READY = 2, 3, 4, 5, 1


def _status(error: TpulayerError, op: int) -> int:
    if isinstance(error, DeviceCrash):
        return _TIMEOUT if re.search(r"\bs without|watchdog|did not", error.message) else _FAILURE
    if isinstance(error, MissingError):
        return _NOT_READY
    if isinstance(error, DeviceError):
        return _NOMEM if op == _MALLOC else _FAILURE
    return _PARAM


class _Host:
    """The device is opened when it is first needed, so that a firmware may be named before."""

    def __init__(self, dev_id: int) -> None:
        self._dev_id = dev_id
        self._firmware: str | None = None
        self._device: Device | None = None

    def device(self) -> Device:
        if self._device is None:
            self._device = Device(self._firmware, dev_id=self._dev_id)
        return self._device

    def load(self, firmware: str) -> None:
        self._firmware = firmware
        if self._device is not None:
            self._device.load_firmware(firmware)

    def answer(self, op: int, text: str, a: int, b: int, c: int, data: bytes) -> tuple[int, bytes]:
        """(value, data) of the reply."""
        if op == _LOAD:
            self.load(text)
            return 0, b""
        device = self.device()
        if op == _MALLOC:
            return device.malloc(a), b""
        if op == _FREE:
            device.free(a)
        elif op == _WRITE:
            device.write(a, data)
        elif op == _READ:
            return 0, device.read(a, b)
        elif op == _COPY:
            device.write(a, np.frombuffer(device.read(b, c), np.uint8))
        elif op == _LAUNCH:
            device.launch(text, data)
        else:
            raise DeviceError(f"unknown request {op}")
        return 0, b""


def _receive(sock: socket.socket, size: int) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        part = sock.recv(min(size - len(data), 1 << 20))
        if not part:
            return None
        data += part
    return bytes(data)


def serve(sock: socket.socket, dev_id: int) -> None:
    host = _Host(dev_id)
    sock.sendall(_REPLY.pack(0, 0, 0, 0))
    while (head := _receive(sock, _REQUEST.size)) is not None:
        op, text_bytes, a, b, c, data_bytes = _REQUEST.unpack(head)
        text, data = _receive(sock, text_bytes), _receive(sock, data_bytes)
        if text is None or data is None:
            return
        status, message, value, out = 0, b"", 0, b""
        try:
            value, out = host.answer(op, text.decode(errors="replace"), a, b, c, data)
        except TpulayerError as error:
            status, message = _status(error, op), str(error).encode()
        sock.sendall(_REPLY.pack(status, len(message), value, len(out)) + message + out)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        serve(connection, int(sys.argv[2]))
