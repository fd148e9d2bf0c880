"""What the device process needs of a firmware, however it runs, and where the image is found."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, cast

from firmware_sim.errors import MissingError, UsageError
from firmware_sim.firmware.controller_log import Chain, ControllerAccess, IssuedBy
from firmware_sim.firmware.recorded import Records
from firmware_sim.firmware.source_lines import Line
from firmware_sim.firmware.workspace_root import FIRMWARE_DIR
from firmware_sim.variables import FIRMWARE

FIRMWARE_VARIABLE = "BMRUNTIME_FIRMWARE_PATH"
FIRMWARE_NAME = "firmware.so"
TCM_NAME, DDR_NAME, DEBUG_NAME = "firmware_tcm.bin", "firmware_ddr.bin", "firmware.elf"

Kind = Literal["native", "arm"]
KINDS: tuple[Kind, ...] = ("native", "arm")


def kind_named(text: str, where: str) -> Kind:
    """`native` or `arm`. UsageError for anything else."""
    return cast(Kind, FIRMWARE.value(text, where))


def usual_kind() -> Kind | None:
    """What $TPULAYER_FIRMWARE says is to run where both kinds are there."""
    return cast("Kind | None", FIRMWARE.get())


@dataclass(frozen=True)
class FirmwareImage:
    """What boots: a shared library for this machine (ddr is None), or the two images for the controller; or a
    host program with kernels in it, a copy of which waits at the socket `server` (`hosted.py`)."""

    path: Path
    ddr: Path | None = None
    server: int | None = None

    @property
    def kind(self) -> Kind:
        """native: runs in a process of this machine; arm: on the emulated controller."""
        return "native" if self.ddr is None else "arm"

    @property
    def debug(self) -> Path:
        """The file with the line tables."""
        return self.path if self.ddr is None else self.path.with_name(DEBUG_NAME)

    def __str__(self) -> str:
        return str(self.path)

    def __repr__(self) -> str:
        return f"<FirmwareImage {self.kind}, {self.path}>"


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


class EngineFailed(Exception):
    """A request came to its end after an engine call raised `error`; reply: what the firmware answered."""

    def __init__(self, error: Exception, reply: bytes) -> None:
        super().__init__(error, reply)
        self.error = error
        self.reply = reply


class Firmware(Protocol):
    """A booted firmware."""

    @property
    def instructions(self) -> int:
        """How many the controller has run; 0 where nobody counts."""

    def handle(self, request: bytes) -> bytes:
        """Run one request (fw_request, payload) and return the reply (fw_reply, payload).

        Raises EngineFailed with the first error of an engine call made on the way.
        """

    def site(self, address: int) -> str:
        """The code address that issued a descriptor, as text: source line and function, or what is known.

        Empty for what the firmware issued by itself.
        """

    def layer(self, address: int) -> str:
        """The label at an address of the arena of layers; empty for none."""

    def watch(self, on: bool) -> None:
        """From the next request on, note who issues commands and what the controller's code accesses."""

    def accesses(self) -> list[ControllerAccess]:
        """What the controller's code did in DDR, local memory and L2 since the last call, in order; adjacent
        accesses of one place in the code are one."""

    @property
    def accesses_lost(self) -> bool:
        """Whether the last call of `accesses` gave less than there was: more than is kept."""

    def frames(self, engine_is_bd: bool, index: int) -> tuple[Line, ...]:
        """The user's code that issued a command in the arena: its line, and those of the calls around it,
        innermost first. Without `watch`, or for code that nothing is known of, less of it, or nothing."""

    def frames_at(self, *addresses: int) -> tuple[Line, ...]:
        """The user's lines at a chain of code addresses, innermost first; of one address alone the functions
        that the compiler put inside each other."""

    def function(self, name: str) -> Line | None:
        """The line where a function of the user's begins, None where that is not known."""

    def issued(self, bd_num: int, gdma_num: int) -> IssuedBy:
        """Which of `chains` each of the first commands in the arenas has."""

    def chains(self) -> list[Chain]:
        """Chains of code addresses of this request, counted as debug information does; the first is empty."""


def find_firmware(
    given: str | Path | FirmwareImage | None = None, kind: Kind | None = None, dev_id: int = 0
) -> FirmwareImage:
    """The firmware to boot: `given`, else $BMRUNTIME_FIRMWARE_PATH, else the pair recorded by load_firmware,
    else what the workspace around the current folder built.

    A path is a file (firmware.so, or firmware_tcm.bin with firmware_ddr.bin beside it) or their folder. kind,
    else $TPULAYER_FIRMWARE, chooses where both are there, the library otherwise. MissingError when there is
    none.
    """
    if isinstance(given, FirmwareImage):
        return given
    named = given if given is not None else os.environ.get(FIRMWARE_VARIABLE)
    if named:
        source = "" if given is not None else f" ({FIRMWARE_VARIABLE})"
        return _in_path(Path(named).expanduser(), kind, source)
    records = Records.here()
    if (image := recorded_image(records, kind, dev_id)) is not None:
        return image
    if records.workspace is not None and (built := records.workspace / FIRMWARE_DIR).is_dir():
        return _in_path(built, kind, "")
    raise MissingError(
        f"no firmware: none was given and {FIRMWARE_VARIABLE} is not set", hint="run build_layers"
    )


_told: set[Path] = set()  # recorded pairs that this process has said it runs


def recorded_image(records: Records, kind: Kind | None, dev_id: int) -> FirmwareImage | None:
    """The pair that load_firmware recorded for the device, None without any; a line on stderr says so.

    MissingError when it is not the one last built, or another workspace's (`Records.usable`).
    """
    if (kind or usual_kind()) == "native" or (record := records.usable(dev_id)) is None:
        return None
    if record.folder not in _told:
        _told.add(record.folder)
        print(record.text(records.workspace), file=sys.stderr, flush=True)
    return FirmwareImage(record.folder / TCM_NAME, record.folder / DDR_NAME)


def _in_path(path: Path, kind: Kind | None, source: str) -> FirmwareImage:
    if path.is_dir():
        kind = kind or usual_kind()
        native, tcm = path / FIRMWARE_NAME, path / TCM_NAME
        if kind != "arm" and native.is_file():
            return FirmwareImage(native.resolve())
        if kind != "native" and tcm.is_file():
            return _pair(tcm)
        wanted = native if kind != "arm" else tcm
        raise MissingError(f"no firmware at {wanted}{source}", hint="run build_layers")
    if not path.is_file():
        raise MissingError(f"no firmware at {path}{source}", hint="run build_layers")
    image = _pair(path) if path.suffix == ".bin" else FirmwareImage(path.resolve())
    if kind is not None and image.kind != kind:
        raise UsageError(
            f"{path}{source} is a firmware of kind {image.kind}, but {kind} is asked for",
            hint="give its folder, or leave the kind out",
        )
    return image


def _pair(tcm: Path) -> FirmwareImage:
    ddr = tcm.with_name(DDR_NAME)
    if not ddr.is_file():
        raise MissingError(f"{tcm} has no {DDR_NAME} beside it", hint="both images of a build are needed")
    return FirmwareImage(tcm.resolve(), ddr.resolve())
