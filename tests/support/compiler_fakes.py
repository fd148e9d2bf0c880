"""Layers, plugin and device for compiler tests, without any C: what a descriptor says is set by the test."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from firmware_sim.errors import DeviceError
from firmware_sim.firmware.image import FirmwareInfo, FirmwareLayer
from firmware_sim.wire import (
    BUILTIN_OP_BASE,
    CommandGroup,
    DType,
    Format,
    Program,
    Recorded,
    TensorRecord,
    TType,
)
from tests.support.fake_device import FakeDevice
from user_layers.graph import LayerNode
from user_layers.net.net import NetTensorInfo
from user_layers.net.ops import Descriptor
from user_layers.toolkit import Toolkit

ShapeFunction = Callable[[Sequence[TensorRecord], bytes], list[TensorRecord]]


def same_shape(inputs: Sequence[TensorRecord], param: bytes) -> list[TensorRecord]:
    return [TensorRecord(inputs[0].shape, inputs[0].dtype)]


@dataclass
class FakeLayer:
    """A layer type. says: answers of its descriptor's methods, a value or a function of the arguments."""

    op: str
    op_type: int
    has_local: bool = True
    param_size: int = 4
    param_hash: int = 1
    shape: ShapeFunction = same_shape
    says: dict[str, Any] = field(default_factory=dict)
    name: str = "UNKNOWN"


DEFAULTS: dict[str, Any] = {
    "must_dynamic_run": False,
    "output_shape_is_dynamic": False,
    "force_use_global_layer": False,
    "can_split_local_h_w": True,
    "can_inplace": False,
    "can_h_w_dynamic": True,
    "just_reshape": False,
    "is_share_mem_layer": False,
    "is_concat_layer": False,
    "get_global_buffer_size": 0,
    "input_type": TType.NEURON,
    "get_local_buffer_size": 0,
    "should_input_on_l2mem": False,
    "takes": lambda i: Format(),
    "prepared": None,
    "prepared_with": lambda i: i,
    "prepare": lambda i, constants, nbytes: constants[i],
    "backward_hslice": lambda n: n,
    "backward_wslice": lambda n: n,
    "backward_hidx": lambda i: i,
    "backward_widx": lambda i: i,
    "backward_kh": lambda n: n,
    "backward_stride_h": lambda n: n,
    "backward_up_pad_h": lambda n: n,
    "backward_down_pad_h": lambda n: n,
    "forward_height": lambda h: h,
    "is_backslice_optimize_support_layer": False,
    "accepts_larger_tiles": False,
    "each_row_alone": False,
}


class FakeDescriptor:
    def __init__(self, layer: FakeLayer, asked: list[tuple[str, tuple[Any, ...]]]) -> None:
        self._answers = {**DEFAULTS, **layer.says}
        self._asked = asked
        self.name = layer.name

    def ask(self, calls: Sequence[tuple[str, Sequence[int]]]) -> None:
        """Answers are known without asking."""

    def __getattr__(self, method: str) -> Callable[..., Any]:
        if method not in DEFAULTS:
            raise AttributeError(method)

        def ask(*args: Any) -> Any:
            self._asked.append((method, args))
            answer = self._answers[method]
            return answer(*args) if callable(answer) else answer

        return ask


class FakePlugins:
    def __init__(self, layers: Sequence[FakeLayer]) -> None:
        self._layers = {layer.op_type: layer for layer in layers}
        self.asked: list[tuple[str, tuple[Any, ...]]] = []
        self.closed = False

    def layers(self) -> list[SimpleNamespace]:
        return [
            SimpleNamespace(
                op_name=x.op,
                op_type=x.op_type,
                param_size=x.param_size,
                param_hash=x.param_hash,
                has_local=x.has_local,
            )
            for x in self._layers.values()
        ]

    def create(self, node: Any) -> FakeDescriptor:
        return FakeDescriptor(self._layers[node.op_type], self.asked)

    def close(self) -> None:
        self.closed = True


class RecordingDevice(FakeDevice):
    """What is recorded is kept, and every step is one empty range of commands."""

    def __init__(self, layers: Sequence[FakeLayer]) -> None:
        super().__init__()
        self._layers = {layer.op_type: layer for layer in layers}
        self.recorded: list[Program] = []
        self.refuses: str | None = None

    def query(self) -> FirmwareInfo:
        users = (x for x in self._layers.values() if x.op_type < BUILTIN_OP_BASE)
        return FirmwareInfo(
            1, tuple(FirmwareLayer(x.op, x.op_type, x.param_size, x.param_hash) for x in users), ()
        )

    def infer_shape(
        self,
        op_type: int,
        param: bytes,
        inputs: Sequence[TensorRecord],
        out_num: int,
        scales: Sequence[float] = (),
    ) -> list[TensorRecord]:
        return self._layers[op_type].shape(inputs, param)

    def record(self, program: Program, *, checked: bool = True) -> Recorded:
        if self.refuses is not None:
            raise DeviceError(self.refuses, hint="do something")
        self.recorded.append(program)
        return Recorded((CommandGroup(b"", b""),), ((0, 0),) * len(program.steps))

    def close(self) -> None:
        self.closed = True


class FakeParams:
    def param_bytes(self, op: str, values: Mapping[str, Any] | None) -> bytes:
        return int((values or {}).get("v", 0)).to_bytes(4, "little")

    def param_values(self, op: str, data: bytes) -> dict[str, Any]:
        return {"v": int.from_bytes(data, "little")}


class FakeToolkit(Toolkit):
    """A toolkit with these layers only."""

    def __init__(self, *layers: FakeLayer) -> None:
        self.fake_device = RecordingDevice(layers)
        self.fake_plugins = FakePlugins(layers)
        super().__init__(
            device=self.fake_device,
            plugins=self.fake_plugins,
            params=FakeParams(),
            builtin_params=FakeParams(),
        )

    def describe(
        self, node: LayerNode, inputs: Sequence[NetTensorInfo], outputs: Sequence[NetTensorInfo]
    ) -> Descriptor:
        return cast("Descriptor", self.fake_plugins.create(node.op))


def local_layer(op: str = "TPU_LOC", op_type: int = 0, **says: Any) -> FakeLayer:
    """An elementwise layer with a local function."""
    return FakeLayer(op, op_type, says=says)


def global_layer(op: str = "TPU_GLOB", op_type: int = 1, **says: Any) -> FakeLayer:
    """An elementwise layer without a local function."""
    return FakeLayer(op, op_type, has_local=False, says=says)


def reshape_layer(shape: tuple[int, ...], op_type: int = BUILTIN_OP_BASE, **says: Any) -> FakeLayer:
    """A built-in layer that gives its input another shape."""
    return FakeLayer(
        "TPU_RESHAPE",
        op_type,
        has_local=False,
        shape=lambda inputs, param: [TensorRecord(shape, inputs[0].dtype)],
        says={"just_reshape": True, **says},
    )


def window_layer(
    op: str, op_type: int, *, kernel: int = 1, stride: int = 1, pad: int = 0, axes: str = "hw", **says: Any
) -> FakeLayer:
    """A layer whose output row h reads `kernel` input rows from h * stride - pad (and columns alike)."""

    def extent(n: int) -> int:
        return (n + 2 * pad - kernel) // stride + 1

    def shape(inputs: Sequence[TensorRecord], param: bytes) -> list[TensorRecord]:
        s = list(inputs[0].shape)
        for axis, d in (("h", 2), ("w", 3)):
            if axis in axes and d < len(s):
                s[d] = extent(s[d])
        return [TensorRecord(tuple(s), DType.FP32)]

    for axis in axes:
        says[f"backward_{axis}slice"] = lambda n: (n - 1) * stride + kernel
        says[f"backward_{axis}idx"] = lambda i: i * stride - pad
    return FakeLayer(op, op_type, shape=shape, says=says)
