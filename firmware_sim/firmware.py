"""What the device process needs of a firmware, however it runs, and where the image is found."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from firmware_sim.errors import MissingError

FIRMWARE_VARIABLE = "BMRUNTIME_FIRMWARE_PATH"
FIRMWARE_NAME = "firmware.so"


@dataclass(frozen=True)
class StreamGroup:
    """Where one command group lies in DDR (fw_group): absolute addresses, numbers of descriptors."""

    bd_addr: int
    gdma_addr: int
    bd_num: int
    gdma_num: int


@dataclass(frozen=True)
class FirmwareLayer:
    """A user layer in a firmware (fw_layer_info); op is "TPU_CROP", param_* its parameter struct."""

    op: str
    op_type: int
    param_bytes: int
    param_hash: int


@dataclass(frozen=True)
class FirmwareInfo:
    """What a firmware says about itself: its user layers, and the names of its free kernels."""

    abi_version: int
    layers: tuple[FirmwareLayer, ...]
    kernels: tuple[str, ...]


class Engines(Protocol):
    """What a firmware can ask of the chip. Each call may raise: the request then ends with that error."""

    def flush(self, bd_num: int, gdma_num: int, reason: int) -> None:
        """Take the descriptors in the arenas; FlushReason says why now."""

    @property
    def filtered(self) -> int:
        """How many words the newest masked copy kept."""

    def run_group(self, group: StreamGroup) -> None:
        """Run both streams in DDR to their end."""

    def log(self, text: str) -> None:
        """One piece of the firmware's log."""


class Firmware(Protocol):
    """A booted firmware."""

    def handle(self, request: bytes) -> bytes:
        """Run one request (fw_request, payload) and return the reply (fw_reply, payload).

        Raises the error of an engine call made on the way.
        """

    def site(self, address: int) -> str:
        """The code address that issued a descriptor, as text: source line and function, or what is known.

        Empty for what the firmware issued by itself.
        """

    def layer(self, address: int) -> str:
        """The label at an address of the arena of layers; empty for none."""


def find_firmware(given: str | Path | None) -> Path:
    """The image to boot: `given` or $BMRUNTIME_FIRMWARE_PATH, a file or the folder of firmware.so.

    MissingError when there is none.
    """
    text = given if given is not None else os.environ.get(FIRMWARE_VARIABLE)
    if not text:
        raise MissingError(
            f"no firmware: none was given and {FIRMWARE_VARIABLE} is not set", hint="run build_layers"
        )
    path = Path(text)
    if path.is_dir():
        path = path / FIRMWARE_NAME
    if not path.is_file():
        source = "" if given is not None else f" ({FIRMWARE_VARIABLE})"
        raise MissingError(f"no firmware at {path}{source}", hint="run build_layers")
    return path.resolve()
