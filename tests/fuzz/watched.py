"""The native firmware with AddressSanitizer, UndefinedBehaviorSanitizer and counters of its branches, loaded
into this process beside libFuzzer; engines that execute nothing.

zig compiles it, the library of AddressSanitizer comes with the package atheris: no other compiler is needed.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt

from firmware_sim import wire
from firmware_sim.chip import DDR_BASE
from firmware_sim.firmware.image import StreamGroup
from firmware_sim.firmware.native import NativeFirmware
from firmware_sim.processes.shared_memory import SharedMemory
from tests.fuzz.driver import Finding
from user_layers.toolchain.builtin import FIRMWARE_DEFINES, builtin_artifacts
from user_layers.toolchain.cache import cache_root, locked
from user_layers.toolchain.compilers import zig
from user_layers.toolchain.ninja_file import Objects
from user_layers.toolchain.report import Reporter
from user_layers.toolchain.sanitize import sanitized_firmware
from user_layers.workspace import machine_arch, sdk_dir

BLOBS = DDR_BASE + 0x600_0000  # what an input puts into DDR
_FLAGS = ("-fsanitize=address", "-fsanitize-coverage=inline-8bit-counters,pc-table,trace-cmp")
_UNDEFINED = re.compile(r"(\S+\.[ch]):\d+:\d+: .*")  # how sdk/sanitize begins its texts
_DDR_BYTES = 0x700_0000
_FORGET = 1000  # inputs until DDR is empty again
_SANE_BYTES = 12  # of its arguments
_IMAGE = "TPULAYER_FUZZ_IMAGE"


def build() -> Path:
    """firmware.so with the kernels and the layer of kernels.c. BuildError with the compiler's text."""
    plain = zig("c", machine_arch())
    links = tuple(flag for flag in plain.link_flags if flag != "-Wl,-z,defs")  # libFuzzer has what is missing
    compiler = replace(plain, flags=(*plain.flags, *_FLAGS), link_flags=links)
    source = Path(__file__).with_name("kernels.c")
    folder = cache_root() / "fuzz"
    folder.mkdir(parents=True, exist_ok=True)
    group = Objects(compiler, [source], [source.parent, sdk_dir() / "include"], "kernels", FIRMWARE_DEFINES)
    with locked(folder.with_suffix(".lock")):
        return sanitized_firmware(
            folder, folder, [group], builtin_artifacts(), compiler, Reporter(quiet=True)
        )[0]


def watched_environment() -> dict[str, str]:
    """For the process that loads it: the sanitizer's library first, and each object of Python in a block of
    its own, so that a byte read behind a request is seen."""
    spec = find_spec("atheris")
    assert spec is not None and spec.origin is not None
    package = Path(spec.origin).parent
    # libFuzzer, which is in the sanitizer's library, looks for changes of our own when it is loaded
    first = [package.parent / "asan_with_fuzzer.so", *package.glob("custom_mutator.*.so")]
    return {
        "LD_PRELOAD": ":".join(map(str, first)),
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:quarantine_size_mb=16:color=never:"
        "symbolize=0:detect_odr_violation=0:alloc_dealloc_mismatch=0:handle_abort=2:detect_stack_use_after_return=0",
        "PYTHONMALLOC": "malloc",
        _IMAGE: str(build()),
    }


def refuse_undefined(status: int, reply: bytes) -> None:
    """Raise Finding when firmware with checks ended a request for undefined behaviour."""
    if status == wire.Status.ASSERT and (
        found := _UNDEFINED.search(reply[wire.REPLY.size :].decode(errors="replace"))
    ):
        raise Finding(f"undefined behaviour: {found[0]}")


class _Memory(SharedMemory):
    """With less DDR: no request can have gigabytes copied."""

    def controller_window(self, reserved: int = 0) -> npt.NDArray[np.uint8]:
        return super().controller_window()[:_DDR_BYTES]


class _Engines:
    """Takes everything and does nothing."""

    filtered = 0

    def flush(self, bd_num: int, gdma_num: int, reason: int) -> None:
        pass

    def run_group(self, group: StreamGroup) -> None:
        pass

    def log(self, text: str) -> None:
        pass


def _starves(message: bytes) -> bool:
    """Whether it launches `sane` of kernels.c with fewer arguments than that uses."""
    payload = message[wire.REQUEST.size :]
    if len(payload) < wire.LAUNCH.size or wire.REQUEST.unpack_from(message)[0] != wire.Op.LAUNCH:
        return False
    name, size = wire.LAUNCH.unpack_from(payload)
    return bool(name.split(b"\0")[0] == b"sane" and size < _SANE_BYTES)


class Watched:
    """The firmware, booted."""

    def __init__(self) -> None:
        self._memory = _Memory.create("fuzz")
        self._memory.protect_guards()
        self._firmware = NativeFirmware(Path(os.environ[_IMAGE]), self._memory, _Engines(), (0, 0), 0, 0)
        self._query = wire.REQUEST.pack(wire.Op.QUERY, 0, 0, 0)
        self._known = self._firmware.handle(self._query)
        self._taken = 0

    def take(self, message: bytes, ddr: bytes) -> str:
        """Send one request, and ask afterwards what the firmware is. Raises Finding."""
        if _starves(message):
            return "not sent: kernel sane would read behind its arguments"
        self._taken += 1
        if self._taken % _FORGET == 0:
            self._memory.discard_ddr(0, len(self._memory.ddr))
        if ddr:
            at = BLOBS - DDR_BASE
            self._memory.ddr[at : at + len(ddr)] = memoryview(ddr)
        reply = self._firmware.handle(message)
        if len(reply) < wire.REPLY.size:
            raise Finding("no reply")
        status, size = wire.REPLY.unpack_from(reply)
        if size != len(reply) - wire.REPLY.size:
            raise Finding(f"a reply of {len(reply)} bytes announces {size}")
        refuse_undefined(status, reply)
        if status < 0 and not size:
            raise Finding(f"status {status} without a text")
        if self._firmware.handle(self._query) != self._known:
            raise Finding("the firmware says something else of itself afterwards")
        if status >= 0:
            return "answered"
        known = status in wire.Status.__members__.values()
        return f"refused: {wire.Status(status).name if known else 'a code of its own'}"
