"""A device for tests: DDR and GDMA copies of whole words, and programs as functions; no layers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

import numpy as np
import numpy.typing as npt

from firmware_sim import wire
from firmware_sim.checks.finding import Attribute
from firmware_sim.chip import DDR_BASE
from firmware_sim.device.api import Array
from firmware_sim.device.doubtful import Filled
from firmware_sim.device.heap import Heap
from firmware_sim.errors import DeviceError
from firmware_sim.firmware.image import FirmwareImage, FirmwareInfo, FirmwareLayer, StreamGroup
from firmware_sim.isa.layout import GDMA
from firmware_sim.wire import TensorRecord
from tests.support.bmodel_samples import LAYER

LAYERS = (FirmwareLayer(LAYER.op, LAYER.op_type, LAYER.param_bytes, LAYER.param_hash),)

Program = Callable[["FakeDevice", list[TensorRecord], list[TensorRecord]], list[TensorRecord]]

BASE = DDR_BASE + 0x5000_0000  # not where the samples were compiled for
SIZE = 1 << 22


class FakeDevice:
    """Allocates away from the compile-time addresses; `program` stands for the firmware's interpreter."""

    def __init__(self, program: Program | None = None, layers: tuple[FirmwareLayer, ...] = LAYERS) -> None:
        self.heap = Heap(BASE, SIZE, 4096)
        self.memory = np.zeros(SIZE, np.uint8)
        self.program = program
        self.layers = layers
        self.running = threading.Lock()
        self.launches = 0
        self.firmware = FirmwareImage(Path("fake.so"))
        self.closed = False
        self.calls: list[tuple[int, ...]] = []

    def infer_shape(
        self,
        op_type: int,
        param: bytes,
        inputs: Sequence[TensorRecord],
        out_num: int,
        scales: Sequence[float] = (),
    ) -> list[TensorRecord]:
        raise DeviceError("no layers here")

    def record(self, program: wire.Program, *, checked: bool = True) -> wire.Recorded:
        raise DeviceError("no layers here")

    def close(self) -> None:
        self.closed = True

    @property
    def cycles(self) -> float:
        return 0.0

    @property
    def instructions(self) -> int:
        return 1000 * self.launches

    def __enter__(self) -> FakeDevice:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self.heap.used == 0, "the runtime left memory allocated"

    def malloc(self, nbytes: int, name: str = "", rights: int = 3) -> int:
        return self.heap.malloc(nbytes)

    def free(self, addr: int) -> None:
        self.heap.free(addr)

    def _at(self, addr: int, nbytes: int) -> npt.NDArray[np.uint8]:
        assert addr >= BASE and addr + nbytes <= BASE + SIZE
        return self.memory[addr - BASE : addr - BASE + nbytes]

    def write(self, addr: int, data: bytes | Array) -> None:
        raw = np.ascontiguousarray(data).tobytes() if isinstance(data, np.ndarray) else data
        self._at(addr, len(raw))[:] = np.frombuffer(raw, np.uint8)

    def read(self, addr: int, nbytes: int) -> bytes:
        return self._at(addr, nbytes).tobytes()

    def read_array(
        self, addr: int, shape: Sequence[int], dtype: npt.DTypeLike, filled: Filled | None = None
    ) -> Array:
        count = int(np.prod(shape)) * np.dtype(dtype).itemsize
        raw = self._at(addr, count).copy()
        return np.frombuffer(raw, np.dtype(dtype)).reshape(shape)

    def query(self) -> FirmwareInfo:
        return FirmwareInfo(1, self.layers, ())

    def run_streams(
        self,
        groups: Sequence[StreamGroup],
        modelled: Callable[[], float] | None = None,
        where: Attribute | None = None,
    ) -> None:
        with self._alone():
            for group in groups:
                raw = self.read(group.gdma_addr, 128 * group.gdma_num)
                for i in range(group.gdma_num):
                    d = GDMA.decode(raw[128 * i : 128 * i + 128])
                    source = d["src_start_addr_l32"] | d["src_start_addr_h8"] << 32
                    target = d["dst_start_addr_l32"] | d["dst_start_addr_h8"] << 32
                    self.write(target, self.read(source, 4 * d["src_wsize"]))

    def run_program(
        self,
        program_addr: int,
        program_bytes: int,
        inputs: Sequence[TensorRecord],
        outputs: Sequence[TensorRecord],
        neuron_addr: int,
        neuron_bytes: int,
        coeff_addr: int,
    ) -> list[TensorRecord]:
        self.calls.append((program_addr, program_bytes, neuron_addr, neuron_bytes, coeff_addr))
        if self.program is None:
            raise DeviceError("no program here")
        with self._alone():
            return self.program(self, list(inputs), list(outputs))

    def _alone(self) -> threading.Lock:
        """Two requests at a time would be the runtime's mistake: the lock must be free."""
        assert not self.running.locked(), "two launches at the same time"
        self.launches += 1
        return self.running
