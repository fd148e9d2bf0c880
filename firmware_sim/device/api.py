"""A device as the toolkit needs it, to record what it compiles and to run it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from firmware_sim.checks.finding import Attribute
from firmware_sim.checks.objects import BOTH
from firmware_sim.device.doubtful import Filled
from firmware_sim.firmware.image import FirmwareImage, FirmwareInfo, StreamGroup
from firmware_sim.wire import Program, Recorded, TensorRecord

Array = npt.NDArray[np.generic]


class DeviceApi(Protocol):
    """The part of firmware_sim.device.client.Device that compiler and runtime call. Addresses are absolute,
    sizes in bytes."""

    @property
    def firmware(self) -> FirmwareImage:
        """What runs on it: a library for this machine, or the controller's images."""

    @property
    def cycles(self) -> float:
        """Modelled time of everything executed so far, in cycles of chip.CLOCK_HZ."""

    @property
    def instructions(self) -> int:
        """What the controller has run; 0 where nobody counts."""

    def malloc(self, nbytes: int, name: str = "", rights: int = BOTH) -> int:
        """Address of new DDR memory. name: what findings call it; rights: what commands may do there.
        DeviceError when DDR is full."""

    def free(self, addr: int) -> None:
        """Give back what malloc returned. DeviceError for any other address."""

    def write(self, addr: int, data: bytes | Array) -> None:
        """Copy bytes, or an array's elements in C order, to DDR."""

    def read_array(
        self, addr: int, shape: Sequence[int], dtype: npt.DTypeLike, filled: Filled | None = None
    ) -> Array:
        """A copy of a continuous tensor in DDR; shape in elements; filled: what of it means nothing."""

    def query(self) -> FirmwareInfo:
        """The user layers and kernels of the running firmware, by which a net's layers are checked."""

    def infer_shape(
        self,
        op_type: int,
        param: bytes,
        inputs: Sequence[TensorRecord],
        out_num: int,
        scales: Sequence[float] = (),
    ) -> list[TensorRecord]:
        """The outputs of a layer by its own shape function; param: bytes of its parameter struct."""

    def record(self, program: Program, *, checked: bool = True) -> Recorded:
        """The descriptors that layers' kernels issue for a program with fixed addresses; none executes.
        checked: False where programs only measure."""

    def run_streams(
        self,
        groups: Sequence[StreamGroup],
        modelled: Callable[[], float] | None = None,
        where: Attribute | None = None,
    ) -> None:
        """Run command groups that lie in DDR, in turn. DeviceError for what a command does wrong.

        modelled: gives their seconds on the chip, for the limit of time. where: says of a finding's command
        who issued it.
        """

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
        """Run a dynamic program that lies in DDR, for inputs of these shapes.

        The firmware allocates from [neuron_addr, +neuron_bytes); coeff_addr: the constants. Returns the
        outputs with the shapes that came out.
        """

    def close(self) -> None:
        """End the device process; it may be called again."""
