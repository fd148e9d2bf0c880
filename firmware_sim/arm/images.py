"""firmware_tcm.bin and firmware_ddr.bin: made from the linked program, and checked before they are loaded.

Each image carries a header of 64 bytes (at 0x40 in the one for ITCM, whose start holds the vectors; at 0 in
the one for DDR): magic, which part it is, the firmware's ABI, the toolkit's version, its size, a number that
both parts of one build share, and a checksum. A part that is damaged, cut, swapped or of another build is
refused by name.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path

from firmware_sim.arm.layout import CODE_BYTES, HEADER_BYTES, HEADER_TCM, WINDOW
from firmware_sim.chip import ITCM_BASE, ITCM_BYTES
from firmware_sim.errors import DeviceError, MissingError, UsageError
from firmware_sim.firmware.image import DDR_NAME, DEBUG_NAME, TCM_NAME, FirmwareImage
from firmware_sim.firmware.recorded import Records, way_out
from firmware_sim.wire import ABI_VERSION

_MAGIC = b"TPULAYFW"
_HEADER = struct.Struct("<8sIIIIQI12s16s")  # magic, format, part, abi, bytes, build, crc32, reserved, version
_FORMAT = 1
_PARTS = {1: "ITCM", 2: "DDR"}
_OFFSETS = {1: HEADER_TCM, 2: 0}
_LARGEST = 1 << 27  # bytes; more than any image has
_BASES = {1: (ITCM_BASE, ITCM_BYTES), 2: (WINDOW, CODE_BYTES)}
assert _HEADER.size == HEADER_BYTES


@dataclass(frozen=True)
class Images:
    """A pair that belongs together. version: of the toolkit that built it; build: 64-bit number."""

    tcm: bytes
    ddr: bytes
    version: str
    build: int


def from_elf(path: Path, version: str) -> Images:
    """The two images of a linked firmware; DeviceError when it is none."""
    bodies = {part: bytearray(HEADER_BYTES + offset) for part, offset in _OFFSETS.items()}
    for address, data in _sections(path):
        for part, (base, size) in _BASES.items():
            if base <= address < base + size:
                at = address - base
                body = bodies[part]
                body.extend(bytes(max(0, at + len(data) - len(body))))
                body[at : at + len(data)] = data
                break
        else:
            raise DeviceError(f"{path}: {len(data)} bytes for {address:#x}, which is neither ITCM nor DDR")
    digest = hashlib.sha256(bytes(bodies[1]) + bytes(bodies[2])).digest()
    build = int.from_bytes(digest[:8], "little")
    tcm, ddr = (_with_header(bytes(bodies[part]), part, build, version) for part in (1, 2))
    return Images(tcm, ddr, version, build)


def _sections(path: Path) -> list[tuple[int, bytes]]:
    from elftools.elf.elffile import ELFFile

    with open(path, "rb") as stream:
        elf = ELFFile(stream)
        return [
            (int(s["sh_addr"]), bytes(s.data()))
            for s in elf.iter_sections()
            if s["sh_flags"] & 2 and s["sh_type"] != "SHT_NOBITS" and s["sh_size"]
        ]


def _with_header(body: bytes, part: int, build: int, version: str) -> bytes:
    at = _OFFSETS[part]

    def header(crc: int) -> bytes:
        return _HEADER.pack(
            _MAGIC, _FORMAT, part, ABI_VERSION, len(body), build, crc, b"", version.encode()[:16]
        )

    crc = zlib.crc32(body[:at] + header(0) + body[at + HEADER_BYTES :])
    return body[:at] + header(crc) + body[at + HEADER_BYTES :]


def load_pair(tcm: Path, ddr: Path) -> Images:
    """Read and check two files. MissingError when one cannot be read, DeviceError when they do not fit."""
    data = {1: _read(tcm, "ITCM"), 2: _read(ddr, "DDR")}
    heads = {part: _check(path, data[part], part) for part, path in ((1, tcm), (2, ddr))}
    (build, version), (other, _) = heads[1], heads[2]
    if build != other:
        raise DeviceError(
            f"{tcm} and {ddr} come from different builds ({build:016x} and {other:016x})",
            hint="give the two files that one build_layers wrote",
        )
    return Images(data[1], data[2], version, build)


def keep(image: FirmwareImage, dev_id: int) -> None:
    """Record a pair for a device, with the line tables beside it: what later processes boot there.

    In the workspace around the current folder, else for the user (see `recorded`).
    """
    assert image.ddr is not None
    images = load_pair(image.path, image.ddr)
    files = {TCM_NAME: images.tcm, DDR_NAME: images.ddr}
    if image.debug.is_file():
        files[DEBUG_NAME] = image.debug.read_bytes()
    Records.here().keep(dev_id, files, {TCM_NAME: image.path, DDR_NAME: image.ddr})


def named(tcm: str | PathLike[str], ddr: str | PathLike[str]) -> str | FirmwareImage:
    """What okkernel_load_firmware is given: two images, which the caller is to `keep` once they have booted.

    Or one path, a firmware.so or a folder with a firmware; then the second name says nothing. UsageError when
    there is none.
    """
    if not fspath(tcm):
        raise UsageError("okkernel_load_firmware: the path of the firmware is empty")
    path = Path(tcm)
    if not fspath(ddr) or path.suffix == ".so" or path.is_dir():
        return str(path)
    return FirmwareImage(path.resolve(), Path(ddr).resolve())


def _read(path: Path, what: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(_LARGEST)  # a device may have no end
    except OSError as error:
        raise MissingError(
            f"the {what} image {path} cannot be read: {error.strerror}",
            hint=way_out(path) or "run build_layers",
        ) from None


def _check(path: Path, data: bytes, part: int) -> tuple[int, str]:
    hint = f"give the files {TCM_NAME} and {DDR_NAME} as build_layers wrote them, in this order"
    at = _OFFSETS[part]
    for kind, offset in _OFFSETS.items():
        head = data[offset : offset + HEADER_BYTES]
        known = kind != part and len(head) == HEADER_BYTES and head.startswith(_MAGIC)
        if known and _HEADER.unpack(head)[2] == kind:
            raise DeviceError(f"{path} is the {_PARTS[kind]} image, not that for {_PARTS[part]}", hint=hint)
    head = data[at : at + HEADER_BYTES]
    if len(head) < HEADER_BYTES or not head.startswith(_MAGIC):
        raise DeviceError(f"{path} is not the {_PARTS[part]} image of a firmware", hint=hint)
    magic, form, kind, abi, size, build, crc, _, version = _HEADER.unpack(head)
    if form != _FORMAT or kind != part:
        raise DeviceError(f"{path}: a header of format {form}, part {kind}", hint=hint)
    if abi != ABI_VERSION:
        raise DeviceError(
            f"{path} is of firmware ABI {abi}; this device speaks {ABI_VERSION}",
            hint=way_out(path) or "run build_layers",
        )
    if size != len(data):
        state = "cut off" if size > len(data) else "too long"
        raise DeviceError(f"{path} is {state}: {len(data)} bytes, its header says {size}", hint=hint)
    if size > _BASES[part][1]:
        raise DeviceError(f"{path}: {size} bytes do not fit into the {_BASES[part][1]} for it", hint=hint)
    plain = _HEADER.pack(magic, form, kind, abi, size, build, 0, b"", version)
    if zlib.crc32(data[:at] + plain + data[at + HEADER_BYTES :]) != crc:
        raise DeviceError(f"{path} is damaged: its checksum is wrong", hint=hint)
    return build, version.rstrip(b"\0").decode(errors="replace")
