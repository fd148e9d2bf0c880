"""The emulated chip, which also writes down every descriptor that it executes."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import numpy.typing as npt

from firmware_sim.device.main import Where
from firmware_sim.memory import Memory
from firmware_sim.processes.shared_memory import SharedMemory
from firmware_sim.tpu import Tpu

FILE_VARIABLE = "TPULAYER_TEST_STREAMS"  # names the file that the descriptors are added to


class StreamProcessor(Tpu):
    def execute(
        self,
        bd: npt.NDArray[np.uint32],
        gdma: npt.NDArray[np.uint32],
        *,
        where: Where | None = None,
        streamed: bool = False,
    ) -> None:
        with Path(os.environ[FILE_VARIABLE]).open("ab") as file:
            file.write(f"{len(bd)} {len(gdma)}\n".encode() + bd.tobytes() + gdma.tobytes())
        super().execute(bd, gdma, where=where, streamed=streamed)


def make(memory: SharedMemory) -> StreamProcessor:
    return StreamProcessor(Memory(memory.ddr, memory.local.reshape(64, -1), memory.l2))
