"""Sending raw requests to firmware, native and on the controller; and knowing that a device still works."""

from __future__ import annotations

import os
import random
import struct
from pathlib import Path
from typing import Any

from firmware_sim import wire
from firmware_sim.chip import DDR_BASE
from firmware_sim.device import client as device_module
from firmware_sim.device.client import Device
from firmware_sim.errors import DeviceCrash, TpulayerError
from firmware_sim.firmware.image import KINDS, Kind
from tests.fuzz.driver import Case, Finding
from user_layers.toolchain.kernel import kernel_firmware

BLOBS = DDR_BASE + 0x600_0000  # what a case puts into DDR
_SANE = DDR_BASE + 0x580_0000
SANITIZE = "TPULAYER_FUZZ_SANITIZE"  # an environment variable: native firmware with checks when it is set
WATCHDOG = 0.5  # s
_BOOT_LIMIT = 3.0  # s


def fuzz_limits() -> None:
    """A device that boots in three seconds or not at all."""
    device_module.BOOT_LIMIT = _BOOT_LIMIT


def open_device(image: Path, **more: Any) -> Device:
    options = {"watchdog": WATCHDOG, "engine_limit": 15.0, "max_instructions": 100_000}
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
    header: dict[str, object] = {"op": "handle", "activity": "a request of the fuzzer", "record": record}
    try:
        answer, data = device._started().request(header, request)
    except DeviceCrash as error:
        if not error.timed_out and not error.message.startswith("kernel sane"):
            raise Finding(f"crash ({device.firmware.kind}): {error}") from None
        raise
    if int(str(answer["reply"])) < wire.REPLY.size:
        raise Finding("no reply")
    status, _ = wire.REPLY.unpack_from(data)
    if status >= 0:
        return "answered"
    known = status in wire.Status.__members__.values()
    return f"refused: {wire.Status(status).name if known else 'a code of its own'}"


def request(op: int, payload: bytes, flags: int = 0) -> bytes:
    return wire.REQUEST.pack(op, len(payload), flags, 0) + payload


def any_kind(rng: random.Random) -> Kind:
    return rng.choice(KINDS)


def fill(device: Device, case: Case) -> None:
    """Put the bytes that a case wants into DDR."""
    if case.get("ddr"):
        device.write(BLOBS, bytes.fromhex(case["ddr"]))
