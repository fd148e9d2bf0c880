"""Runs the kernels on one device."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType

import numpy as np

from firmware_sim.checks.finding import Finding
from firmware_sim.device.client import Device
from firmware_sim.errors import TpulayerError
from firmware_sim.firmware.image import Kind
from tests.faults.kernel_case import FOLDER, Array, Kernel
from tests.faults.verdict import Outcome
from user_layers.toolchain.kernel import kernel_firmware


class KernelRunner:
    """A device with all kernels of a folder; a context manager. kind: native or arm."""

    def __init__(self, kind: Kind = "native") -> None:
        image = kernel_firmware(sorted(FOLDER.glob("*.c")), kind=kind)
        self._findings: list[Finding] = []
        self._device = Device(image, on_findings=self._findings.extend, warnings="ignore")
        self._device.query()  # has booted, so the tables are there
        self._l2 = self._device.l2.copy()

    def __enter__(self) -> KernelRunner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._device.close()

    def run(self, case: Kernel) -> Outcome:
        """Launch it as the case says. Its buffers are of exactly its sizes and freed afterwards."""
        self._findings.clear()
        device = self._device
        device.l2[:] = self._l2  # a case may have written over the chip's tables
        error = ""
        with ExitStack() as stack:
            stack.enter_context(device.checking(case.checks or "memory,init,hazard,sync"))
            places: dict[str, int] = {}
            sizes = {name: array.nbytes for name, array in case.given.items()}
            for name, result in case.results.items():
                sizes.setdefault(name, int(np.prod(result.shape)) * np.dtype(result.dtype).itemsize)
            if case.scratch:
                sizes["scratch"] = case.scratch
            for name, nbytes in sizes.items():
                places[name] = device.malloc(nbytes)
            for name, array in case.given.items():
                device.write(places[name], array)
            held = dict(places)
            stack.callback(lambda: list(map(device.free, held.values())))
            for name in case.freed:
                device.free(held.pop(name))
            try:
                for i, changed in enumerate(case.launches):
                    for name in case.between if i else ():
                        if name in held:
                            device.free(held.pop(name))
                        if case.renewed:
                            places[name] = held[name] = device.malloc(sizes[name])
                    device.launch(case.name, case.arguments(places, changed))
            except TpulayerError as raised:
                error = raised.message
            found: list[Array] = [
                device.read_array(places[name], result.shape, result.dtype)
                for name, result in case.results.items()
                if name not in case.freed
            ]
        return Outcome(tuple(self._findings), error, _difference(case, found))


def _difference(case: Kernel, found: Sequence[Array]) -> str:
    if case.expected is None:
        return ""
    wanted = case.expected(*case.given.values())
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    for name, got, want in zip(case.results, found, wanted, strict=True):
        want = np.asarray(want).astype(got.dtype).reshape(got.shape)
        close = np.isclose(got, want, rtol=case.tolerance, atol=case.tolerance, equal_nan=True)
        if not close.all():
            at = np.unravel_index(int(np.argmin(close)), got.shape)
            wrong = np.count_nonzero(~close)
            return f"{name} differs in {wrong} of {got.size}: {got[at]} for {want[at]} at {at}"
    return ""
