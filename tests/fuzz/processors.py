"""The emulated chip as the fuzzers run it: with less memory, so that no command can fill the machine."""

from __future__ import annotations

import os
import resource
from pathlib import Path

from firmware_sim.chip import LOCAL_BYTES, NPU_NUM
from firmware_sim.device.main import Processor
from firmware_sim.memory import Memory
from firmware_sim.processes.shared_memory import SharedMemory
from firmware_sim.tpu import Tpu

DDR_BYTES = 256 << 20
_PRIVATE_BYTES = 6 << 30  # of the process: an emulator that takes more is a finding


def make(memory: SharedMemory) -> Processor:
    os.environ.setdefault("TPULAYER_THREADS", "2")
    if "libasan" not in Path("/proc/self/maps").read_text():  # which reserves terabytes
        resource.setrlimit(resource.RLIMIT_DATA, (_PRIVATE_BYTES, _PRIVATE_BYTES))
    local = memory.local.reshape(NPU_NUM, LOCAL_BYTES)
    processor: Processor = Tpu(Memory(memory.ddr[:DDR_BYTES], local, memory.l2))
    return processor
