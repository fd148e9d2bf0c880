"""What is said when a device process ends, or is stopped."""

from __future__ import annotations

from firmware_sim import wire
from firmware_sim.device.time_limit import MORE
from firmware_sim.errors import DeviceCrash
from firmware_sim.firmware import sanitized
from firmware_sim.firmware.image import FirmwareImage
from firmware_sim.firmware.source_lines import SourceLines, place_text
from firmware_sim.processes.process import Crash
from firmware_sim.processes.shared_memory import SharedMemory

_ADVICE = {
    "SIGSEGV": "the kernel's C code follows a pointer that is NULL or outside its memory, runs over an "
    "array, or uses up its stack",
    "SIGBUS": "the kernel's C code follows a pointer outside its memory, or firmware.so was overwritten "
    "while it ran",
    "SIGFPE": "a division or modulo by zero in the kernel's C code",
    "SIGABRT": "the lines printed before tell which assertion failed",
    "SIGILL": "the kernel reached __builtin_trap, __builtin_unreachable, or a function's end without return",
}
_EXITED = "a kernel returns when it is done; nothing in it may end the process"
_CLOSED = "the device answers through them; a kernel closes what it has opened itself"
_CHECKED = "AddressSanitizer's full report is in the device's output above"
_ENDLESS = f"does a loop in the kernel's C code never end? Otherwise {MORE}"


def describe(crash: Crash, firmware: FirmwareImage, memory: SharedMemory | None, dev_id: int) -> DeviceCrash:
    """The error for the user. memory: of the device, None when it is closed; dev_id: its number."""
    hint = _ADVICE.get(crash.signal or "", "")
    if crash.timeout is not None:
        hint = _ENDLESS
    elif crash.lost:
        hint = _CLOSED
    elif crash.exit_code is not None:
        hint = _EXITED
    finding = sanitized.finding(crash.output) if crash.signal == "SIGABRT" else ""
    detail = f": {finding}" if finding else ""
    if "AddressSanitizer" in finding:
        hint = _CHECKED
    place = _place(crash, firmware, memory)
    return DeviceCrash(
        f"{crash.activity or 'the device process'} {crash.what}{place}{detail}; device {dev_id} was reset",
        hint=hint,
        timed_out=crash.timeout is not None,
    )


def _place(crash: Crash, firmware: FirmwareImage, memory: SharedMemory | None) -> str:
    """Where it ended: " at kernel.c:7 in kernel", as far as that is known."""
    engine, index, base = crash.notes
    lines = SourceLines(firmware.debug)
    if engine and memory is not None:
        sites = memory.bd_site if engine == wire.NOTED_BD else memory.gdma_site
        issued = int(sites[index])
        line = lines.at(issued - base - 1) if issued else None
        where = f" issued at {line}" if line is not None else ""
        return f" in a {'BD' if engine == wire.NOTED_BD else 'GDMA'} command{where}"
    return place_text(lines, crash.frames, crash.newest - base if crash.newest else 0)
