"""A processor for tests/firmware/test_device.py: descriptors of a few obvious commands, no chip."""

from __future__ import annotations

import time

import numpy as np
import numpy.typing as npt

from firmware_sim.device.main import Where
from firmware_sim.errors import DeviceError
from firmware_sim.instructions.instruction import Engine
from firmware_sim.processes.shared_memory import SharedMemory

STORE, REFUSE, BUG, SLEEP, DENORMAL = 1, 2, 3, 4, 5


class FakeProcessor:
    """Word 0 is the command, words 1 and 2 its operands; GDMA commands run before BD commands."""

    def __init__(self, memory: SharedMemory) -> None:
        self.ddr = memory.ddr
        self.cycles = 0.0
        self.filtered = 0
        self.restarts = 0
        self.place: memoryview[int] | list[int] = [0, 0]

    def check(
        self, bd: npt.NDArray[np.uint32], gdma: npt.NDArray[np.uint32], *, where: Where | None = None
    ) -> None:
        pass

    def allow(self, seconds: float) -> None:
        pass

    def restart(self) -> None:
        self.restarts += 1

    def end_launch(self) -> None:
        pass

    def execute(
        self,
        bd: npt.NDArray[np.uint32],
        gdma: npt.NDArray[np.uint32],
        *,
        where: Where | None = None,
        streamed: bool = False,
    ) -> None:
        self.cycles += 10 * len(bd) + 100 * len(gdma)
        for engine, rows in ((Engine.GDMA, gdma), (Engine.BD, bd)):
            for index in np.flatnonzero(rows[:, 0]):
                row = rows[index]
                self._one(row, where(engine, int(index)) if where and row[0] == REFUSE else "")

    def _one(self, row: npt.NDArray[np.uint32], site: str) -> None:
        offset, value = int(row[1]), row[2]
        if row[0] == STORE:
            self.ddr[offset : offset + 4].view(np.uint32)[0] = value
        elif row[0] == REFUSE:
            raise DeviceError(f"command refused, issued at {site}", hint="do not do that")
        elif row[0] == BUG:
            raise KeyError("a bug in the processor")
        elif row[0] == SLEEP:
            time.sleep(int(value) / 1000)
        elif row[0] == DENORMAL:
            tiny = np.array([1e-39], np.float32) * np.float32(0.5)
            self.ddr[offset : offset + 4].view(np.float32)[0] = tiny[0]


def make(memory: SharedMemory) -> FakeProcessor:
    return FakeProcessor(memory)
