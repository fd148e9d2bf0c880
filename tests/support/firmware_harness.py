"""The firmware in this process, on a platform that only collects what the firmware hands over.

`Harness` boots a compiled firmware and sends it requests.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from firmware_sim import chip, wire
from firmware_sim.firmware.image import FirmwareLayer
from firmware_sim.firmware.native import FLUSH, LOG, RUN_GROUP, Platform
from firmware_sim.memory import Memory
from firmware_sim.tpu import Tpu
from tests.paths import ROOT
from user_layers.encode.calls import RESULT_WORDS, Calls, dispatcher_c
from user_layers.kernel_api.prototypes import functions

LIBRARY = "firmware.so"
SDK = ROOT / "sdk"
FIRMWARE_C = sorted(
    [*(SDK / "firmware").glob("*.c"), *(SDK / "libc").glob("format*.c"), *(SDK / "libc").glob("heap*.c")]
)
LAYERS_C = sorted(
    [
        *(SDK / "layers" / "device").glob("*.c"),
        *(SDK / "layers" / "lib").glob("*.c"),
        *(ROOT / "device").glob("*.c"),
    ]
)
USER_LAYERS = (  # those of firmware_fixture.c
    FirmwareLayer("TPU_CROP", 0, 64, 0x1122_3344_5566_7788),
    FirmwareLayer("TPU_DOUBLE", 1, 4, 0x8877_6655_4433_2211),
    FirmwareLayer("TPU_PROBE", 2, 4, 0x99AA_BBCC_DDEE_FF00),
)
INCLUDES = [f"-I{SDK / name}" for name in ("include", "generated", "layers/lib", "firmware", "libc", "arm")]
WARNINGS = ("-std=c11", "-Wall", "-Wextra", "-Werror")


def param_check(op_type: int) -> int:
    """What a step carries of a layer of the fixture; built-in layers are not checked."""
    return next((x.param_hash & 0xFFFF_FFFF for x in USER_LAYERS if x.op_type == op_type), 0)


def compilers() -> dict[str, list[str]]:
    """The C compilers at hand, by name."""
    found = {"zig": [sys.executable, "-m", "ziglang", "cc"]}
    for name in ("gcc", "cc"):
        if path := shutil.which(name):
            return {"gcc": [path], **found}
    return found


COMPILERS = [
    pytest.param(name, marks=pytest.mark.slow if i else ()) for i, name in enumerate(sorted(compilers()))
]
"""Names of `compilers()` as parameters: all but the first are slow, as they find little that it does not."""
CHOICES = [
    pytest.param("", id="the system's compiler"),
    pytest.param("zig", id="zig", marks=pytest.mark.slow),
]
"""Values of TPULAYER_CC for tests; with zig the built-in part is built once more."""


# ---- the platform ----

POLL, FULL, SPLIT, END, STEP = range(5)
DDR = chip.DDR_BASE
RESULTS = DDR + 0xC0000  # what call_api writes


@dataclass
class Batch:
    """One flush: its reason and the descriptors, 128 bytes each, with the code addresses."""

    reason: int
    bd: list[bytes]
    gdma: list[bytes]
    bd_site: list[int]
    gdma_site: list[int]


@dataclass
class Reply:
    status: int
    payload: bytes
    warnings: str = ""
    """Lines "COUNT TEXT"."""

    @property
    def text(self) -> str:
        return self.payload.decode()


@dataclass
class Harness:
    """A booted firmware; batches, groups and log collect what came since the newest request."""

    library: Path
    capacity: int = 70000
    batches: list[Batch] = field(default_factory=list)
    groups: list[bytes] = field(default_factory=list)
    log: str = ""
    flush_result: int = 0
    executes: bool = False
    """Flushed descriptors run on the emulator (except while recording)."""
    ddr_bytes: int = 1 << 20

    def __post_init__(self) -> None:
        self.lib = ctypes.CDLL(str(self.library))
        self.lib.fw_handle.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_uint32]
        self.lib.fw_handle.restype = ctypes.c_uint32
        self.arenas = {e: np.zeros((self.capacity, 128), np.uint8) for e in ("bd", "gdma")}
        self.sites = {e: np.zeros(self.capacity, np.uint64) for e in ("bd", "gdma")}
        self.layers = {e: np.zeros(self.capacity, np.uint64) for e in ("bd", "gdma")}
        self.ddr = np.zeros(self.ddr_bytes, np.uint8)
        self.local = np.zeros(64 << 19, np.uint8)
        self.l2 = np.zeros(4 << 20, np.uint8)
        self.dtcm = np.zeros(512 << 10, np.uint8)
        self.tpu = Tpu(Memory(self.ddr, self.local.reshape(64, -1), self.l2)) if self.executes else None
        self.activity = ctypes.create_string_buffer(128)
        self._callbacks = (FLUSH(self._flush), RUN_GROUP(self._run_group), LOG(self._log))
        self.platform = Platform(
            wire.ABI_VERSION,
            self.capacity,
            self.arenas["bd"].ctypes.data,
            self.arenas["gdma"].ctypes.data,
            self.sites["bd"].ctypes.data,
            self.sites["gdma"].ctypes.data,
            self.ddr.ctypes.data,
            self.ddr.nbytes,
            self.local.ctypes.data,
            self.l2.ctypes.data,
            self.dtcm.ctypes.data,
            *self._callbacks,
            ctypes.addressof(self.activity),
            len(self.activity),
            0,
            self.layers["bd"].ctypes.data,
            self.layers["gdma"].ctypes.data,
            None,
            0,
            None,
        )
        assert self.boot() == 0

    def boot(self) -> int:
        return int(self.lib.fw_boot(ctypes.byref(self.platform)))

    def _flush(self, bd_num: int, gdma_num: int, reason: int) -> int:
        def take(engine: str, n: int) -> list[bytes]:
            return [row.tobytes() for row in self.arenas[engine][:n]]

        sites = [self.sites[e][:n].tolist() for e, n in (("bd", bd_num), ("gdma", gdma_num))]
        self.batches.append(Batch(reason, take("bd", bd_num), take("gdma", gdma_num), *sites))
        if self.tpu is not None and not self.recording:
            bd, gdma = (self.arenas[e][:n].view(np.uint32) for e, n in (("bd", bd_num), ("gdma", gdma_num)))
            self.tpu.execute(bd, gdma)
            if reason in (FULL, END):
                self.tpu.restart()
        return self.flush_result

    def array(self, addr: int, shape: Sequence[int], dtype: str = "float32") -> npt.NDArray[Any]:
        """What lies in DDR at an absolute address, as a view."""
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        start = addr - chip.DDR_BASE
        view: npt.NDArray[Any] = self.ddr[start : start + size].view(dtype).reshape(shape)
        return view

    def _run_group(self, group: Any) -> int:
        self.groups.append(ctypes.string_at(group, wire.GROUP.size))
        return self.flush_result

    def _log(self, text: int, size: int) -> None:
        self.log += ctypes.string_at(text, size).decode()

    def raw(self, request: bytes, capacity: int = 1 << 20) -> Reply:
        """Send the bytes of a whole request, whatever they are."""
        self.batches, self.groups, self.log = [], [], ""
        self.recording = len(request) >= 12 and bool(request[8] & wire.FLAG_RECORD)
        assert self.boot() == 0  # harnesses of one library share its state: the platform is this one's now
        source = ctypes.create_string_buffer(request, len(request))
        room = np.empty(capacity, np.uint8)
        n = self.lib.fw_handle(ctypes.addressof(source), len(request), room.ctypes.data, capacity)
        assert n >= wire.REPLY.size and n <= capacity
        reply = room[:n].tobytes()
        status, size = wire.REPLY.unpack_from(reply)
        end = wire.REPLY.size + size
        assert end <= n
        return Reply(status, reply[wire.REPLY.size : end], reply[end:].decode())

    def request(self, op: int, parts: Sequence[bytes] = (), *, record: bool = False) -> Reply:
        """Send a request of these parts, each at the next multiple of 8."""
        payload = b""
        for part in parts:
            payload += b"\0" * (-len(payload) % 8) + part
        head = wire.REQUEST.pack(op, len(payload), wire.FLAG_RECORD if record else 0, 0)
        return self.raw(head + payload)

    def launch(self, kernel: str, args: bytes = b"", *, record: bool = False) -> Reply:
        head = wire.LAUNCH.pack(kernel.encode(), len(args))
        return self.request(wire.Op.LAUNCH, [head, args], record=record)

    def okk(self, name: str, args: Mapping[str, Any] | None = None) -> Reply:
        """Launch a kernel that makes one call; args in the order of the prototype, whatever their names."""
        fn = functions()[name]
        if args is not None and fn.struct is None:
            args = dict(zip((p for _, p in fn.parameters), args.values(), strict=True))
        return self.call_api(Calls().call(name, args))

    def call_api(self, calls: Calls) -> Reply:
        """Launch a kernel that makes these calls."""
        self.called = calls.count
        return self.launch("call_api", calls.encode(RESULTS))

    def _results(self) -> list[list[int]]:
        rows: list[list[int]] = self.array(RESULTS, (self.called, RESULT_WORDS), "uint64").tolist()
        return rows

    def trace(self) -> list[tuple[int, int, bool]]:
        """(bd, gdma, parallel) after each call of the newest call_api."""
        return [(bd, gdma, bool(parallel)) for bd, gdma, parallel, *_ in self._results()]

    def result(self) -> int:
        """What the newest call returned, as 64 bits."""
        return self._results()[-1][3]

    @property
    def bd(self) -> list[bytes]:
        return [d for b in self.batches for d in b.bd]

    @property
    def gdma(self) -> list[bytes]:
        return [d for b in self.batches for d in b.gdma]

    def run(
        self,
        program: wire.Program,
        mode: wire.RunMode = wire.RunMode.FIXED,
        inputs: Sequence[wire.TensorRecord] = (),
        outputs: Sequence[wire.TensorRecord] = (),
        neurons: tuple[int, int] = (DDR, 1 << 19),
        coeff_addr: int = 0,
        record: bool = False,
    ) -> Reply:
        data = program.encode()
        head = wire.RUN.pack(mode, len(inputs), len(outputs), len(data), 0, *neurons, coeff_addr)
        tensors = [b"".join(t.encode() for t in group) for group in (inputs, outputs)]
        return self.request(wire.Op.PROGRAM, [head, *tensors, data], record=record)


def build(directory: Path, fixture: Path = ROOT / "tests" / "sources" / "firmware_fixture.c") -> None:
    """Compile the firmware with its fixture into the shared library LIBRARY of a folder."""
    (directory / "dispatch.c").write_text(dispatcher_c())
    library = directory / LIBRARY
    sources = [
        *FIRMWARE_C,
        *LAYERS_C,
        fixture,
        SDK / "tools" / "call_api.c",
        directory / "dispatch.c",
    ]
    command = [
        *next(iter(compilers().values())),
        *WARNINGS,
        "-O1",
        "-g",
        "-fPIC",
        "-shared",
        "-o",
        str(library),
    ]
    command += INCLUDES
    subprocess.run([*command, *map(str, sources)], check=True, timeout=840)
