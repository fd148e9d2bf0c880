"""A program for tests: boots a firmware, launches a kernel and prints what the firmware notes, as JSON.

    python -m tests.support.watched_run FIRMWARE KERNEL ARGUMENTS [DDR]

FIRMWARE: firmware.so, or firmware_tcm.bin; ARGUMENTS: the kernel's, in hexadecimal digits; DDR: "OFFSET=HEX",
bytes above the firmware's memory. Commands are not executed. The text has a list of hand-overs, each with the
frames of its commands and the accesses before it, and the bytes of all commands as one hash.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

from firmware_sim import wire
from firmware_sim.arm.firmware_arm import ArmFirmware
from firmware_sim.chip import DDR_BASE, STATIC_CONTEXT_OFFSET
from firmware_sim.firmware.image import Firmware, FirmwareImage, StreamGroup, find_firmware
from firmware_sim.firmware.native import NativeFirmware
from firmware_sim.firmware.source_lines import Line
from firmware_sim.processes.process_child import ACTIVITY_BYTES, PULSE_BYTES, Link
from firmware_sim.processes.shared_memory import SharedMemory

BUFFER = DDR_BASE + STATIC_CONTEXT_OFFSET
"""Where a kernel may have its buffers."""


def _frames(lines: tuple[Line, ...]) -> list[list[object]]:
    return [[Path(line.file).name, line.line, line.function] for line in lines]


class Engines:
    """Notes what is handed over."""

    filtered = 0

    def __init__(self, memory: SharedMemory) -> None:
        self._memory = memory
        self.firmware: Firmware | None = None
        self.link: Link | None = None  # C code writes into its page as long as it runs
        self.batches: list[dict[str, Any]] = []
        self.hash = hashlib.sha256()

    def flush(self, bd_num: int, gdma_num: int, reason: int) -> None:
        """Note one hand-over."""
        assert self.firmware is not None
        self.hash.update(self._memory.bd[:bd_num].tobytes() + self._memory.gdma[:gdma_num].tobytes())
        batch: dict[str, Any] = {
            name: [_frames(self.firmware.frames(name == "bd", i)) for i in range(count)]
            for name, count in (("bd", bd_num), ("gdma", gdma_num))
        }
        base = STATIC_CONTEXT_OFFSET
        batch["accesses"] = [
            {
                "space": a.space.name,
                "offset": a.offset - (base if a.space.name == "DDR" else 0),
                "nbytes": a.nbytes,
                "write": a.write,
                "pending": [a.bd, a.gdma],
                "frames": _frames(self.firmware.frames_at(a.site, *a.callers)),
            }
            for a in self.firmware.accesses()
        ]
        batch["lost"] = self.firmware.accesses_lost
        batch["numbers"] = [part.tolist() for part in self.firmware.issued(bd_num, gdma_num)]
        self.batches.append(batch)

    def run_group(self, group: StreamGroup) -> None:
        """Never called."""

    def log(self, text: str) -> None:
        """To stderr."""
        sys.stderr.write(text)


def boot(image: FirmwareImage, memory: SharedMemory, engines: Engines) -> Firmware:
    """The firmware in this process."""
    page = os.memfd_create("pulse")
    os.ftruncate(page, PULSE_BYTES)
    link = engines.link = Link(socket.socketpair()[0], page)
    if image.kind == "arm":
        return ArmFirmware(image, memory, engines, link, "device 0")
    activity = (link.activity_address, ACTIVITY_BYTES)
    return NativeFirmware(image.path, memory, engines, activity, link.frames_address, link.newest_address)


def main(firmware: str, kernel: str, arguments: str, *contents: str) -> None:
    """See above."""
    memory = SharedMemory.create("test")
    engines = Engines(memory)
    engines.firmware = boot(find_firmware(firmware), memory, engines)
    for content in contents:
        offset, data = content.split("=")
        raw = bytes.fromhex(data)
        start = STATIC_CONTEXT_OFFSET + int(offset)
        memory.ddr[start : start + len(raw)] = memoryview(raw)
    args = bytes.fromhex(arguments)
    payload = wire.LAUNCH.pack(kernel.encode(), len(args))
    payload += bytes(-len(payload) % 8) + args
    request = wire.REQUEST.pack(wire.Op.LAUNCH, len(payload), 0, 0) + payload
    engines.firmware.watch(True)
    reply = engines.firmware.handle(request)
    status, size = wire.REPLY.unpack_from(reply)
    text = reply[wire.REPLY.size : wire.REPLY.size + size].decode()
    print(
        json.dumps(
            {"status": status, "text": text, "batches": engines.batches, "commands": engines.hash.hexdigest()}
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
