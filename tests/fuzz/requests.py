"""Sending raw requests to firmware, native and on the controller; and knowing that a device still works."""

from __future__ import annotations

import abc
import os
import random
import struct
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from firmware_sim import wire
from firmware_sim.chip import DDR_BASE
from firmware_sim.device import client as device_module
from firmware_sim.device.client import Device
from firmware_sim.errors import DeviceCrash, TpulayerError
from firmware_sim.firmware.image import KINDS, Kind
from tests.fuzz.driver import Case, Finding, outcome_of
from tests.fuzz.guided import Guided
from tests.fuzz.watched import BLOBS, Watched, refuse_undefined, watched_environment
from user_layers.toolchain.kernel import kernel_firmware

_SANE = DDR_BASE + 0x580_0000
SANITIZE = "TPULAYER_FUZZ_SANITIZE"  # an environment variable: native firmware with checks when it is set
TIME_LIMIT = 3.0  # s
_BOOT_LIMIT = 3.0  # s


def fuzz_limits() -> None:
    """A device that boots in three seconds or not at all."""
    device_module.BOOT_LIMIT = _BOOT_LIMIT


def open_device(image: Path, **more: Any) -> Device:
    options: dict[str, Any] = {"time_limit": TIME_LIMIT, "check": "off"}  # a finding is no failure here
    return Device(
        image, on_log=lambda text: None, processor="tests.fuzz.processors:make", **{**options, **more}
    )


class Devices:
    """One device of each kind, with the kernels of kernels.c."""

    def __init__(self) -> None:
        fuzz_limits()
        source = Path(__file__).with_name("kernels.c")
        checked = bool(os.environ.get(SANITIZE))
        self._open = {
            kind: open_device(kernel_firmware([source], kind=kind, sanitize=checked and kind == "native"))
            for kind in KINDS
        }
        self._calls = 0

    def of(self, kind: Kind) -> Device:
        return self._open[kind]

    def check(self) -> None:
        for device in self._open.values():
            self._calls += 1
            check_device(device, self._calls)

    def restart(self) -> None:
        """Boot all again."""
        for device in self._open.values():
            device.load_firmware(device.firmware)

    def close(self) -> None:
        for device in self._open.values():
            device.close()


def check_device(device: Device, number: int) -> None:
    """Raise Finding unless kernel `sane` works."""
    try:
        device.launch("sane", struct.pack("<Qf", _SANE, number))
    except TpulayerError as error:
        raise Finding(f"the device works no more ({device.firmware.kind}): {error}") from None
    if device.read(_SANE, 256) != struct.pack("<f", number) * 64:
        raise Finding(f"the device computes nonsense afterwards ({device.firmware.kind})")


def send(device: Device, request: bytes, *, record: bool) -> str:
    """One request as it stands; a crash that is not a kernel's is a finding."""
    header: dict[str, object] = {
        "op": "handle",
        "activity": "a request of the fuzzer",
        "record": record,
        "parts": False,
        "checks": [],
        "trace": "",
    }
    try:
        answer, data = device._started().request(header, request)
    except DeviceCrash as error:
        if not error.timed_out and not error.message.startswith("kernel sane"):
            raise Finding(f"crash ({device.firmware.kind}): {error}") from None
        raise
    if int(str(answer["reply"])) < wire.REPLY.size:
        raise Finding("no reply")
    status, _ = wire.REPLY.unpack_from(data)
    refuse_undefined(status, data)
    if status >= 0:
        return "answered"
    known = status in wire.Status.__members__.values()
    return f"refused: {wire.Status(status).name if known else 'a code of its own'}"


def request(op: int, payload: bytes, flags: int = 0) -> bytes:
    return wire.REQUEST.pack(op, len(payload), flags, 0) + payload


def any_kind(rng: random.Random) -> Kind:
    return rng.choice(KINDS)


# ---- requests that coverage guides ----

_LENGTH = struct.Struct("<I")
_AS_IT_IS = 1 << 31  # in the length: the request's own length is not repaired


def packed(message: bytes, ddr: bytes = b"") -> bytes:
    """An input: the request's length, the request, and what lies in DDR at BLOBS."""
    return _LENGTH.pack(len(message)) + message + ddr


def unpacked(data: bytes, operations: tuple[wire.Op, ...] = ()) -> tuple[bytes, bytes]:
    """Request and DDR of any bytes; operations: what alone is asked for."""
    (length,) = _LENGTH.unpack_from(data.ljust(_LENGTH.size, b"\0"))
    message, ddr = data[_LENGTH.size :][: length % _AS_IT_IS], data[_LENGTH.size :][length % _AS_IT_IS :]
    if len(message) < wire.REQUEST.size:
        return message, ddr
    op, size, flags, reserved = wire.REQUEST.unpack_from(message)
    if operations and op not in operations:
        op = operations[op % len(operations)]
    if length < _AS_IT_IS:
        size = len(message) - wire.REQUEST.size
    return wire.REQUEST.pack(op, size, flags, reserved) + message[wire.REQUEST.size :], ddr


class Requests(Guided):
    """An input is a request (see `packed`). What is watched is the native firmware with checks, by itself; a
    case that is run again goes to devices of both kinds."""

    longest = 2048
    megabytes = 4096
    own = 4
    operations: ClassVar[tuple[wire.Op, ...]] = ()
    words = (
        struct.pack("<II", wire.PROGRAM_MAGIC, wire.PROGRAM_VERSION),
        struct.pack("<I", wire.NONE),
        struct.pack("<Q", BLOBS),
        struct.pack("<I", wire.BUILTIN_OP_BASE),
        b"sane\0",
    )

    def __init__(self) -> None:
        self._devices: Devices | None = None
        self._watched: Watched | None = None

    @abc.abstractmethod
    def generated(self, rng: random.Random) -> bytes:
        """A request in form, most of them with something wrong."""

    def changed(self, rng: random.Random, data: bytes) -> bytes:
        return self.generated(rng)

    def environment(self) -> dict[str, str]:
        return watched_environment()

    def start(self) -> None:
        self._watched = Watched()

    def one(self, data: bytes) -> str:
        assert self._watched is not None
        return self._watched.take(*unpacked(data, self.operations))

    def run(self, case: Case) -> str:
        if self._devices is None:
            self._devices = Devices()
        message, ddr = unpacked(bytes.fromhex(case["input"]), self.operations)
        flags = wire.REQUEST.unpack_from(message)[2] if len(message) >= wire.REQUEST.size else 0
        out = []
        for kind in KINDS:
            device = self._devices.of(kind)
            if ddr:
                device.write(BLOBS, ddr)
            out.append(outcome_of(partial(send, device, message, record=bool(flags & 1))))
        return ", ".join(dict.fromkeys(out))

    def check(self) -> None:
        if self._devices is not None:
            self._devices.check()

    def close(self) -> None:
        if self._devices is not None:
            self._devices.close()
