"""What the runtime needs of a device: the part of firmware_sim.device.client.Device that it calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from firmware_sim.firmware.image import FirmwareInfo, StreamGroup
from firmware_sim.wire import TensorRecord

Array = npt.NDArray[np.generic]


class DeviceApi(Protocol):
    """DDR memory, and the two requests that run a net. Addresses are absolute, sizes in bytes."""

    @property
    def instructions(self) -> int:
        """What the controller has run; 0 where nobody counts."""

    def malloc(self, nbytes: int) -> int: ...

    def free(self, addr: int) -> None: ...

    def write(self, addr: int, data: bytes | Array) -> None: ...

    def read_array(self, addr: int, shape: Sequence[int], dtype: npt.DTypeLike) -> Array: ...

    def query(self) -> FirmwareInfo: ...

    def run_streams(self, groups: Sequence[StreamGroup]) -> None: ...

    def run_program(
        self,
        program_addr: int,
        program_bytes: int,
        inputs: Sequence[TensorRecord],
        outputs: Sequence[TensorRecord],
        neuron_addr: int,
        neuron_bytes: int,
        coeff_addr: int,
    ) -> list[TensorRecord]: ...
