"""What a graph needs around it: the layers' plugins and parameter structs, and a device.

A `Toolkit` belongs to one workspace (or to none: then only the built-in layers exist). Everything in
it is opened when first used and closed together, so that building a graph starts no device.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from firmware_sim.errors import CompileError, MissingError, UsageError
from firmware_sim.suggest import did_you_mean
from user_layers.net.ops import Descriptor, OpInfo

if TYPE_CHECKING:
    from firmware_sim.device.api import DeviceApi
    from firmware_sim.device.findings import OnFindings
    from user_layers.net.net import NetTensorInfo
    from user_layers.net.nodes import LayerNode
    from user_layers.plugin import PluginNode
    from user_layers.workspace import Workspace


class Closable(Protocol):
    """What a toolkit can end."""

    def close(self) -> None:
        """End it."""


C = TypeVar("C", bound=Closable)


class Plugins(Protocol):
    """The part of user_layers.plugin.PluginHost that compiling needs."""

    def layers(self) -> Sequence[Any]:
        """All layers of all plugins (plugin.PluginLayer)."""

    def create(self, node: PluginNode, /) -> Any:
        """The descriptor of a node (net.ops.Descriptor). UsageError when no plugin holds its op_type."""

    def close(self) -> None:
        """End the child process; descriptors answer no more."""


class Params(Protocol):
    """The part of user_layers.params.ParamTypes that building a graph needs."""

    def param_bytes(self, op: str, values: Mapping[str, Any] | None, /) -> bytes:
        """The struct's bytes from values by field name, else zeros. UsageError for what does not fit."""

    def param_values(self, op: str, data: bytes, /) -> dict[str, Any]:
        """Values by field name from the struct's bytes."""


class Toolkit:
    """The environment of a graph; a context manager.

    workspace: a Workspace, a folder inside one, or None for the one around the current folder (without
    one there are only the built-in layers). firmware: what records and infers shapes, see
    `firmware_image`. device, plugins, params (of the user's ops) and
    builtin_params replace what would be opened. check, on_findings: of the device that is opened, as `Device`
    takes them.
    """

    def __init__(
        self,
        workspace: Workspace | str | Path | None = None,
        *,
        firmware: str | None = None,
        device: DeviceApi | None = None,
        plugins: Plugins | None = None,
        params: Params | None = None,
        builtin_params: Params | None = None,
        check: str | None = None,
        on_findings: OnFindings | None = None,
    ) -> None:
        self._workspace_given = workspace
        self._firmware = firmware
        self._device = device
        self._plugins = plugins
        self._params = params
        self._builtin_params = builtin_params
        self._check, self._on_findings = check, on_findings
        self._closed = False
        self._kept: dict[str, Closable] = {}
        self._known_to_firmware: set[OpInfo] = set()
        self.old_build = False  # whether the firmware was built with another state of the toolkit

    def __enter__(self) -> Toolkit:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the child processes that were started; a closed toolkit can only be closed again."""
        self._closed = True
        device, plugins, kept = self._device, self._plugins, self._kept
        self._device, self._plugins, self._kept = None, None, {}
        with ExitStack() as stack:
            for other in (*kept.values(), plugins, device):
                if other is not None:
                    stack.callback(other.close)

    def keep(self, name: str, make: Callable[[], C]) -> C:
        """What others start for this toolkit, made when first asked for and closed with it."""
        if name not in self._kept:
            self._check_open()
            self._kept[name] = make()
        found: C = self._kept[name]  # type: ignore[assignment]  # one name, one kind
        return found

    def __repr__(self) -> str:
        if "workspace" in self.__dict__:  # it has been looked for
            place = f"of {self.workspace.root}" if self.workspace is not None else "without a workspace"
        else:
            given = self._workspace_given
            place = f"of {given}" if given is not None else "of the workspace around the current folder"
        running = [name for name, what in (("device", self._device), ("plugins", self._plugins)) if what]
        started = f"; running: {', '.join(running)}" if running else ""
        return f"<Toolkit {place}, {'closed' if self.closed else 'open'}{started}>"

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._closed

    @cached_property
    def workspace(self) -> Workspace | None:
        """The workspace whose layers there are; None for the built-in ones alone. Errors: UsageError."""
        return _find_workspace(self._workspace_given)

    @property
    def device(self) -> DeviceApi:
        """The device that infers shapes and records (and runs references)."""
        if self._device is None:
            self._check_open()
            from firmware_sim.device.client import Device
            from user_layers.toolchain import firmware_image

            image = firmware_image(self.workspace, self._firmware)
            if self.workspace is not None and image.path.is_relative_to(self.workspace.install_dir):
                self.old_build = _warn_of_old_build(self.workspace)
            self._device = Device(image, check=self._check, on_findings=self._on_findings)
        return self._device

    def check_firmware(self, info: OpInfo, title: str) -> None:
        """Refuse a layer that the device's firmware does not have as the plugin has it.

        CompileError; title: of the node. Nothing may be asked of such a firmware: another layer would answer.
        """
        if info.is_builtin or info in self._known_to_firmware:
            return
        from firmware_sim.firmware.image import FIRMWARE_VARIABLE
        from firmware_sim.firmware.recorded import way_out
        from user_layers.layer_identity import difference
        from user_layers.net.compiled import LayerUse

        use = LayerUse(info.op, info.op_type, info.param_size, info.param_hash)
        image = self.device.firmware
        found = difference(use, self.device.query(), firmware=f"the firmware {image}", known="in the plugin")
        if found:
            raise CompileError(
                f"{title}: the plugin has the layer {info.op} (op_type {info.op_type}){found}",
                hint=way_out(image.path)
                or "plugin and firmware must come from one build: run `build_layers`, and name no other "
                f"firmware ({FIRMWARE_VARIABLE}, --firmware)",
            )
        self._known_to_firmware.add(info)

    @property
    def plugins(self) -> Plugins:
        """The process that asks the layers' descriptors; started when first asked for."""
        if self._plugins is None:
            self._check_open()
            from user_layers.plugin import PluginHost, find_plugins
            from user_layers.toolchain import builtin_artifacts

            self._plugins = PluginHost([builtin_artifacts().plugin, *find_plugins(self.workspace)])
        return self._plugins

    @cached_property
    def ops(self) -> dict[str, OpInfo]:
        """All known layer types by name: the user's and the built-in ones."""
        return {
            layer.op_name: OpInfo(
                layer.op_name, layer.op_type, layer.param_size, layer.param_hash, layer.has_local
            )
            for layer in self.plugins.layers()
        }

    def op(self, op: int | str, where: str) -> OpInfo:
        """The layer type named "TPU_CROP" or numbered 0. UsageError, with the known ones, for another."""
        for info in self.ops.values():
            if op in (info.op, info.op_type):
                return info
        users = sorted(name for name, info in self.ops.items() if not info.is_builtin)
        builtin = sorted(name for name, info in self.ops.items() if info.is_builtin)
        raise UsageError(
            f"{where}: unknown layer {op!r}{did_you_mean(str(op), self.ops)}",
            hint=f"the workspace's layers are {', '.join(users) or '(none)'}, the built-in ones "
            f"{', '.join(builtin) or '(none)'}; a layer of the workspace is known after `build_layers`",
        )

    def layer_param(self, info: OpInfo, values: Mapping[str, Any] | bytes | None, where: str) -> bytes:
        """The parameter struct of one layer: from field names and values, or bytes of exactly its size."""
        if isinstance(values, (bytes, bytearray, memoryview)):
            data = bytes(values)
            if info.param_size == 0 and len(data) == 1:  # sizeof of an empty struct in C++; in C it is 0
                data = b""
            if len(data) != info.param_size:
                raise UsageError(
                    f"{where}: layer_param has {len(data)} bytes, the parameter struct of {info.op} "
                    f"{info.param_size}",
                    hint="give the fields by name, or the bytes of the struct in bmtpu.h",
                )
            return data
        try:
            data = self._params_of(info).param_bytes(info.op, values)
        except UsageError as e:
            raise UsageError(f"{where}: {e.message}", hint=e.hint) from e
        if len(data) != info.param_size:
            raise UsageError(
                f"{where}: bmtpu.h gives {info.op} {len(data)} bytes of parameters, the plugin "
                f"{info.param_size}",
                hint="they come from different builds: run `rebuild_layers`",
            )
        return data

    def param_values(self, info: OpInfo, data: bytes) -> dict[str, Any]:
        """Values by field name of one layer's parameter struct."""
        return self._params_of(info).param_values(info.op, data)

    def describe(
        self, node: LayerNode, inputs: Sequence[NetTensorInfo], outputs: Sequence[NetTensorInfo]
    ) -> Descriptor:
        """The layer's descriptor, bound to this node; it sees constants as they are in the graph."""
        from user_layers.plugin import PluginNode, PluginTensor

        def plain(t: NetTensorInfo) -> PluginTensor:
            t = t.plain or t
            return PluginTensor(t.name, t.shape, t.dtype, t.ttype, t.store_mode, t.scale)

        ins = [plain(t) for t in inputs]
        for i, taken in sorted((i, t) for x in inputs for i, t in x.holds.items()):
            ins.insert(i, plain(taken))

        handle: Descriptor = self.plugins.create(
            PluginNode(
                name=node.name,
                op_type=node.op.op_type,
                param=node.param,
                inputs=tuple(ins),
                outputs=tuple(plain(t) for t in outputs),
            )
        )
        return handle

    def _params_of(self, info: OpInfo) -> Params:
        from user_layers.params import ParamTypes

        if info.is_builtin:
            if self._builtin_params is None:
                from user_layers.toolchain import builtin_artifacts

                self._builtin_params = ParamTypes.from_record(builtin_artifacts().layer_record)
            return self._builtin_params
        if self._params is None:
            if self.workspace is None:
                raise MissingError(
                    f"no workspace here, so the fields of {info.op} are unknown",
                    hint="run inside the workspace, or give layer_param as bytes",
                )
            self._params = ParamTypes.from_record(self.workspace.layer_record)
        return self._params

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError("the graph is closed", hint="compile and run inside its `with` block")


def _warn_of_old_build(ws: Workspace) -> bool:
    """A firmware of an older toolkit may know other built-in layers: say so, since they then fail oddly."""
    from user_layers.toolchain import manifest
    from user_layers.toolchain.targets import manifest_path

    changed = manifest.older_than_toolkit(manifest_path(ws))
    if changed:
        print(
            f"warning: the firmware of {ws.root} was built with another state of the toolkit ({changed} has "
            "changed); run `build_layers`",
            file=sys.stderr,
        )
    return bool(changed)


def _find_workspace(given: Workspace | str | Path | None) -> Workspace | None:
    from user_layers.workspace import Workspace

    if isinstance(given, Workspace):
        return given
    return Workspace.around() if given is None else Workspace.find(Path(given))
