"""Loads bmodels onto a device and runs their nets.

with load_bmodel("net/compilation.bmodel") as nets:
    (y,) = nets.launch("net", {"x": x})
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from firmware_sim import shown
from firmware_sim.device.api import Array, DeviceApi
from firmware_sim.device.client import FirmwareError
from firmware_sim.device.findings import OnFindings, together
from firmware_sim.errors import ModelError, UsageError
from user_layers.bmodel import BModel, read
from user_layers.bmodel.directory import BMODEL
from user_layers.runtime.attribution import Attribution
from user_layers.runtime.loaded import LoadedNet, Ran
from user_layers.runtime.network import (
    Inputs,
    NetworkInfo,
    bind_inputs,
    check_stages,
    choose_stage,
    contradiction,
    network_info,
)
from user_layers.runtime.runnable import check_firmware, check_runnable

if TYPE_CHECKING:
    from user_layers.workspace import Workspace


class BModelRuntime:
    """The nets on one device. Calls from several threads run one after the other.

    As a context manager it unloads everything at the end; the device stays the caller's. on_close: called
    after that, once.
    """

    def __init__(self, device: DeviceApi, on_close: Callable[[], None] | None = None) -> None:
        self._device = device
        self._on_close = on_close
        self._lock = threading.RLock()
        self._nets: dict[str, tuple[NetworkInfo, LoadedNet]] = {}

    def __enter__(self) -> BModelRuntime:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<BModelRuntime on {self._device!r}: {shown.listed(map(repr, self.networks))}>"

    def close(self) -> None:
        """Unload all nets; of `load_bmodel` also end the device that it opened."""
        on_close, self._on_close = self._on_close, None
        try:
            for name in list(self._nets):
                self.unload(name)
        finally:
            if on_close is not None:
                on_close()

    def load(
        self, source: Path | str | bytes | BModel, attribution: Attribution | None = None
    ) -> tuple[str, ...]:
        """Load all nets of a bmodel; returns their names.

        source: the file or the folder that compiling wrote, the file's bytes, or what read() returned.
        attribution: who issued the commands of its static nets, by default what lies beside the file.

        Raises ModelError when the file is damaged or foreign, when its user layers are not those of
        the device's firmware, or when a net of that name is loaded; then nothing of it stays loaded.
        """
        file = source if isinstance(source, BModel) else _file(source)
        model = file if isinstance(file, BModel) else read(file)
        known = attribution or Attribution(file if isinstance(file, Path) else None)
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
                    loaded[net.name] = (network_info(net), LoadedNet(self._device, net, known))
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
        inputs do not fit the net, or are smaller than compiled and one of its layers refuses what becomes of
        them; DeviceError when the device refuses or fails, and CheckError when it has run and checks found
        something.
        """
        return self.run(name, inputs, stage).outputs

    def run(self, name: str, inputs: Inputs, stage: int | None = None) -> Ran:
        """launch(), with the stage that ran and the time of each part."""
        with self._lock:
            info, loaded = self._find(name)
            arrays = bind_inputs(info, inputs)
            index = choose_stage(info, [a.shape for a in arrays], stage)
            with together(f"net {name!r}"):
                try:
                    return loaded.run(index, arrays)
                except FirmwareError as error:
                    told = contradiction(info, index, [a.shape for a in arrays], error.message)
                    if told is None:
                        raise
                    raise told from error

    def _find(self, name: str) -> tuple[NetworkInfo, LoadedNet]:
        try:
            return self._nets[name]
        except KeyError:
            listed = ", ".join(self._nets) or "none"
            raise UsageError(f"no net named {name!r} is loaded; loaded are: {listed}") from None


def _file(source: Path | str | bytes) -> Path | bytes:
    if isinstance(source, bytes):
        return source
    path = Path(source)
    return path / BMODEL if path.is_dir() else path


def load_bmodel(
    source: str | Path | bytes | BModel,
    *,
    device: DeviceApi | None = None,
    workspace: Workspace | str | Path | None = None,
    firmware: str | Path | None = None,
    check: str | None = None,
    on_findings: OnFindings | None = None,
) -> BModelRuntime:
    """Load the nets of a bmodel and run them: `load_bmodel("compilation.bmodel").launch("net", {"x": x})`.

    source: the file or the folder that compiling wrote, or the file's bytes.
    device: an open `Device`, which stays the caller's; by default one is opened, which ends when the result
    is closed (use it in a `with` block), with the firmware of the workspace around the current folder.
    workspace: another one, or a folder inside it. firmware: `native`, `arm` or the path of one. check,
    on_findings: of that device, as `Device` takes them.

    `launch` takes and returns numpy arrays, of the shapes and types that `networks` lists; a dynamic net
    takes smaller shapes too.
    Errors: ModelError for a file that cannot be read, is damaged or was made for other layers than the
    firmware's; UsageError where device and firmware are given; MissingError without a firmware.
    """
    if device is not None:
        if workspace is not None or firmware is not None:
            raise UsageError(
                "load_bmodel: the device given has its firmware", hint="leave firmware and workspace out"
            )
        if check is not None or on_findings is not None:
            raise UsageError(
                "load_bmodel: the device given has its checks", hint="leave check and on_findings out"
            )
        runtime = BModelRuntime(device)
    else:
        from user_layers.toolkit import Toolkit

        named = None if firmware is None else str(firmware)
        toolkit = Toolkit(workspace, firmware=named, check=check, on_findings=on_findings)
        runtime = BModelRuntime(toolkit.device, toolkit.close)
    try:
        runtime.load(source)
    except BaseException:
        runtime.close()
        raise
    return runtime
