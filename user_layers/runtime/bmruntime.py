"""Loads bmodels onto a device and runs their nets.

with Device(firmware) as device, BModelRuntime(device) as runtime:
    runtime.load("compilation.bmodel")
    (y,) = runtime.launch("net", {"x": x})
"""

from __future__ import annotations

import threading
from pathlib import Path
from types import TracebackType

from firmware_sim.errors import ModelError, UsageError
from user_layers.bmodel import BModel, read
from user_layers.runtime.device_api import Array, DeviceApi
from user_layers.runtime.loaded import LoadedNet, Ran
from user_layers.runtime.network import (
    Inputs,
    NetworkInfo,
    bind_inputs,
    check_stages,
    choose_stage,
    network_info,
)
from user_layers.runtime.runnable import check_firmware, check_runnable


class BModelRuntime:
    """The nets on one device. Calls from several threads run one after the other.

    As a context manager it unloads everything at the end; the device stays the caller's.
    """

    def __init__(self, device: DeviceApi) -> None:
        self._device = device
        self._lock = threading.RLock()
        self._nets: dict[str, tuple[NetworkInfo, LoadedNet]] = {}

    def __enter__(self) -> BModelRuntime:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Unload all nets."""
        for name in list(self._nets):
            self.unload(name)

    def load(self, source: Path | str | bytes | BModel) -> tuple[str, ...]:
        """Load all nets of a bmodel (a file, its bytes, or what read() returned); returns their names.

        Raises ModelError when the file is damaged or foreign, when its user layers are not those of
        the device's firmware, or when a net of that name is loaded; then nothing of it stays loaded.
        """
        model = source if isinstance(source, BModel) else read(source)
        with self._lock:
            info = self._device.query()
            for net in model.nets:
                if net.name in self._nets:
                    raise ModelError(f"a net named {net.name!r} is loaded", hint="unload it first")
                check_stages(net)
                check_runnable(net)
                check_firmware(net, info)
            loaded: dict[str, tuple[NetworkInfo, LoadedNet]] = {}
            try:
                for net in model.nets:
                    loaded[net.name] = (network_info(net), LoadedNet(self._device, net))
            except BaseException:
                for _, made in loaded.values():
                    made.free()
                raise
            self._nets |= loaded
            return tuple(loaded)

    def unload(self, name: str) -> None:
        """Forget a net and give back its device memory."""
        with self._lock:
            self._find(name)[1].free()
            del self._nets[name]

    @property
    def networks(self) -> tuple[NetworkInfo, ...]:
        """The loaded nets, in the order of loading."""
        return tuple(info for info, _ in self._nets.values())

    def network(self, name: str) -> NetworkInfo:
        """One loaded net's names, types and shapes. UsageError for a name that is not loaded."""
        return self._find(name)[0]

    def launch(self, name: str, inputs: Inputs, stage: int | None = None) -> list[Array]:
        """Run a net on arrays of its inputs, by name or in order; returns its outputs in order.

        stage: which one to run; by default the one that fits the shapes. Raises UsageError when the
        inputs do not fit the net, and DeviceError when the device refuses or fails.
        """
        return self.run(name, inputs, stage).outputs

    def run(self, name: str, inputs: Inputs, stage: int | None = None) -> Ran:
        """launch(), with the stage that ran and the time of each part."""
        with self._lock:
            info, loaded = self._find(name)
            arrays = bind_inputs(info, inputs)
            index = choose_stage(info, [a.shape for a in arrays], stage)
            return loaded.run(index, arrays)

    def _find(self, name: str) -> tuple[NetworkInfo, LoadedNet]:
        try:
            return self._nets[name]
        except KeyError:
            listed = ", ".join(self._nets) or "none"
            raise UsageError(f"no net named {name!r} is loaded; loaded are: {listed}") from None
