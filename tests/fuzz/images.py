"""Damaged firmware: the controller's two images with their checksums repaired, so that they really boot, and
firmware.so cut or with wrong bytes."""

from __future__ import annotations

import random
import struct
import tempfile
import zlib
from pathlib import Path
from typing import Any

from firmware_sim.arm import images
from firmware_sim.errors import TpulayerError
from firmware_sim.firmware.image import DDR_NAME, FIRMWARE_NAME, TCM_NAME, FirmwareImage
from tests.fuzz.driver import Case, Finding, Target
from tests.fuzz.requests import check_device, fuzz_limits, open_device
from user_layers.toolchain.kernel import kernel_firmware

_PARTS = {"tcm": 1, "ddr": 2}
_SPOT = struct.pack("<Qf", 0x1_0580_0000, 2.0)


def _repaired(data: bytes, part: int) -> bytes:
    """With the size and checksum that its header should state."""
    at, form = images._OFFSETS[part], images._HEADER
    if len(data) < at + form.size:
        return data
    fields = list(form.unpack_from(data, at))
    fields[4], fields[6] = len(data), 0
    body = data[:at] + form.pack(*fields) + data[at + form.size :]
    fields[6] = zlib.crc32(body)
    return data[:at] + form.pack(*fields) + data[at + form.size :]


def _change(data: bytes, changes: list[list[Any]], cut: float | None) -> bytes:
    out = bytearray(data)
    for place, text in changes:
        at, new = int(place * len(out)), bytes.fromhex(text)
        out[at : at + len(new)] = new[: len(out) - at]
    return bytes(out if cut is None else out[: int(cut * len(out))])


class Images(Target):
    """A case tells the places, as parts of the file's length, and the bytes there, so that it is one for
    every build: {"tcm" or "ddr" or "native": [[place, hex], ...], "cut": part or null, "repair": bool}."""

    def __init__(self) -> None:
        fuzz_limits()
        source = Path(__file__).with_name("kernels.c")
        self._folder = tempfile.TemporaryDirectory()
        self._arm = kernel_firmware([source], kind="arm")
        self._native = kernel_firmware([source], kind="native")
        self._data = {
            "tcm": self._arm.read_bytes(),
            "ddr": self._arm.with_name(DDR_NAME).read_bytes(),
            "native": self._native.read_bytes(),
        }
        self._device = open_device(self._native)
        self._number = 0

    def make(self, rng: random.Random) -> Case:
        what = rng.choice(("tcm", "tcm", "tcm", "tcm", "ddr", "ddr", "native"))
        data = self._data[what]
        changes = []
        for _ in range(rng.choice((1, 1, 2, 4, 16, 64))):
            at = rng.randrange(len(data))
            if rng.randrange(6) == 0:
                at = rng.randrange(256)
            if rng.randrange(2):
                at = at // 4 * 4
                word = int.from_bytes(data[at : at + 4], "little") ^ 1 << rng.randrange(32)
                new = word.to_bytes(4, "little")
            else:
                new = rng.randbytes(rng.choice((1, 1, 4, 32)))
            changes.append([at / len(data) + 1e-9, new.hex()])
        return {
            what: changes,
            "cut": rng.random() if rng.randrange(12) == 0 else None,
            "repair": bool(rng.randrange(30)),
        }

    def run(self, case: Case) -> str:
        folder = Path(self._folder.name)
        what = next(name for name in ("tcm", "ddr", "native") if name in case)
        changed = _change(self._data[what], case[what], case["cut"])
        if what == "native":
            # a new file: the one before may be mapped
            path = folder / f"{self._number}" / FIRMWARE_NAME
            self._number += 1
            path.parent.mkdir()
            path.write_bytes(changed)
            image = FirmwareImage(path)
        else:
            if case["repair"]:
                changed = _repaired(changed, _PARTS[what])
            image = FirmwareImage(folder / TCM_NAME, folder / DDR_NAME)
            image.path.write_bytes(changed if what == "tcm" else self._data["tcm"])
            (folder / DDR_NAME).write_bytes(changed if what == "ddr" else self._data["ddr"])
        try:
            self._device.load_firmware(image)
        except TpulayerError as error:
            return f"{what}: does not boot: {type(error).__name__}"
        try:
            self._device.query()
            self._device.launch("sane", _SPOT)
            self._device.record_launch("sane", _SPOT)
        except TpulayerError as error:
            return f"{what}: boots, fails: {type(error).__name__}"
        return f"{what}: boots and runs"

    def check(self) -> None:
        try:
            self._device.load_firmware(self._arm if self._number % 2 else self._native)
        except TpulayerError as error:
            raise Finding(f"good firmware does not boot afterwards: {error}") from None
        check_device(self._device, 1)

    def close(self) -> None:
        self._device.close()
        self._folder.cleanup()


def make() -> Any:
    return Images()
