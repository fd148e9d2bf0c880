"""onnxruntime's InferenceSession on the TPU: for programs that are written for it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from firmware_sim.errors import ModelError, UsageError
from firmware_sim.shown import listed
from user_layers.bmodel import write
from user_layers.formats import in_onnx
from user_layers.onnx import graph_from_onnx
from user_layers.onnx.load import read_proto, value_of
from user_layers.onnx.model import Array, Value
from user_layers.onnx.types import from_net, to_net
from user_layers.product import compile_net
from user_layers.runtime.bmruntime import BModelRuntime
from user_layers.toolkit import Toolkit

if TYPE_CHECKING:
    import onnx

    from user_layers.onnx.custom import MapFunction

PROVIDER = "TpuLayerExecutionProvider"
_PROVIDERS = (PROVIDER, "CPUExecutionProvider")  # the second does what no layer does
_MOST_NETS = 8  # compiled for shapes of inputs; those used longest ago go first
_TYPES = {"float32": "float", "float64": "double", "float16": "float16", "object": "string"}
Shapes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class NodeArg:
    """An input or output. shape: extents, texts for those that are free; type: as onnxruntime writes it,
    `tensor(float)`."""

    name: str
    shape: list[int | str]
    type: str

    @classmethod
    def of(cls, value: Value) -> NodeArg:
        """What a value of the model is called, and what it holds."""
        kind = "?" if value.dtype is None else value.dtype.name
        return cls(value.name, list(value.shape or ()), f"tensor({_TYPES.get(kind, kind)})")


def get_available_providers() -> list[str]:
    """What may stand in `providers`."""
    return list(_PROVIDERS)


def get_device() -> str:
    """What onnxruntime says of CPU and GPU."""
    return "TPU"


class InferenceSession:
    """A model compiled for the TPU, with the methods and arguments of onnxruntime's; a context manager that
    ends its child processes.

    path_or_bytes: an ONNX model as a file, its bytes or an onnx.ModelProto; also a file of another framework
    (see `compile_file`). sess_options, provider_options: taken and not looked at. providers: names, or pairs
    of a name and options, of `get_available_providers()`; without CPUExecutionProvider every operation must
    have a layer.
    dynamic: one net for all shapes up to `shapes`; otherwise nets are compiled for exact shapes, those with
    free dimensions when they are first run with new ones. shapes, opt, custom: as of `compile_onnx`. toolkit:
    where the layers come from; one given stays open.
    Errors: those of `compile_onnx`.
    """

    def __init__(
        self,
        path_or_bytes: str | Path | bytes | onnx.ModelProto,
        sess_options: object = None,
        providers: Sequence[Any] | None = None,
        provider_options: object = None,
        *,
        dynamic: bool = False,
        shapes: Mapping[str, Sequence[int]] | None = None,
        opt: int = 2,
        custom: Mapping[str, str | MapFunction] | None = None,
        toolkit: Toolkit | None = None,
    ) -> None:
        self._cpu = _has_cpu(providers)
        self._proto, self._source = _read(path_or_bytes)
        graph = self._proto.graph
        constants = {tensor.name for tensor in graph.initializer}
        self._inputs = [value_of(info, "the model") for info in graph.input if info.name not in constants]
        self._outputs = [value_of(info, "the model") for info in graph.output]
        self._shapes, self._dynamic, self._opt, self._custom = dict(shapes or {}), dynamic, opt, custom
        self._own = toolkit is None
        self._toolkit = toolkit or Toolkit()
        self._nets: OrderedDict[Shapes, tuple[BModelRuntime, tuple[str, ...]]] = OrderedDict()
        try:
            given = [self._shapes.get(value.name, value.fixed) for value in self._inputs]
            if dynamic or None not in given:
                self._net(tuple(tuple(shape) for shape in given if shape is not None))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> InferenceSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        edges = (
            listed(f"{v.name} {NodeArg.of(v).shape}" for v in side) for side in (self._inputs, self._outputs)
        )
        return f"<InferenceSession {' -> '.join(edges)}; {len(self._nets)} compiled>"

    def close(self) -> None:
        """End the device that it opened; it may be called again."""
        while self._nets:
            self._nets.popitem()[1][0].close()
        if self._own:
            self._toolkit.close()

    def get_inputs(self) -> list[NodeArg]:
        """The inputs, in the model's order."""
        return [NodeArg.of(value) for value in self._inputs]

    def get_outputs(self) -> list[NodeArg]:
        """The outputs, in the model's order."""
        return [NodeArg.of(value) for value in self._outputs]

    def get_providers(self) -> list[str]:
        """What runs the model."""
        return list(_PROVIDERS if self._cpu else _PROVIDERS[:1])

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: object = None,
    ) -> list[Array]:
        """The outputs with these names, all for None or none. input_feed: an array for each input, of its
        type. run_options: taken and not looked at.

        Errors: UsageError for arrays or names that the model has not; DeviceError when the device fails.
        """
        arrays = [self._array(value, input_feed) for value in self._inputs]
        self._check_names("input", input_feed, self._inputs)
        self._check_names("output", output_names or (), self._outputs)
        runtime, used = self._net(tuple(array.shape for array in arrays))
        fed = {v.name: to_net(a, v) for v, a in zip(self._inputs, arrays, strict=True) if v.name in used}
        made = runtime.launch(runtime.networks[0].name, fed)
        found = {v.name: from_net(a, v) for v, a in zip(self._outputs, made, strict=True)}
        return [found[name] for name in output_names or found]

    def _array(self, value: Value, feed: Mapping[str, Any]) -> Array:
        if value.name not in feed:
            raise UsageError(
                f"input {value.name!r} is missing", hint=f"the inputs are {self._names(self._inputs)}"
            )
        array = np.asarray(feed[value.name])
        if array.dtype != value.dtype:
            raise UsageError(f"input {value.name!r} is {value.what}, given is {array.dtype}")
        shape = value.shape or ()
        if len(shape) != array.ndim or any(
            isinstance(n, int) and n != got and value.name not in self._shapes
            for n, got in zip(shape, array.shape, strict=True)
        ):
            raise UsageError(
                f"input {value.name!r} has the shape {list(shape)}, given is {list(array.shape)}"
            )
        return array

    def _check_names(
        self, what: str, given: Sequence[str] | Mapping[str, Any], values: Sequence[Value]
    ) -> None:
        unknown = [name for name in given if name not in {value.name for value in values}]
        if unknown:
            raise UsageError(
                f"the model has no {what} {unknown[0]!r}", hint=f"the {what}s are {self._names(values)}"
            )

    def _names(self, values: Sequence[Value]) -> str:
        return ", ".join(repr(value.name) for value in values)

    def _net(self, shapes: Shapes) -> tuple[BModelRuntime, tuple[str, ...]]:
        """The net for inputs of these shapes, loaded, and the inputs that it reads."""
        if self._dynamic and self._nets:
            return next(iter(self._nets.values()))
        if shapes not in self._nets:
            while len(self._nets) >= _MOST_NETS:
                self._nets.popitem(last=False)[1][0].close()
            self._nets[shapes] = self._compiled(shapes)
        self._nets.move_to_end(shapes)
        return self._nets[shapes]

    def _compiled(self, shapes: Shapes) -> tuple[BModelRuntime, tuple[str, ...]]:
        given = self._shapes
        if not self._dynamic:
            given = {value.name: shape for value, shape in zip(self._inputs, shapes, strict=True)}
        graph = graph_from_onnx(
            self._proto,
            shapes=given,
            custom=self._custom,
            toolkit=self._toolkit,
            cpu=self._cpu,
            source=self._source,
        )
        net = compile_net(graph, self._dynamic, opt=self._opt)
        runtime = BModelRuntime(self._toolkit.device)
        runtime.load(write([net]))
        return runtime, graph.inputs


def _read(model: Any) -> tuple[Any, Any]:
    """The onnx.ModelProto, and where it comes from if that is a file of another framework."""
    if isinstance(model, (bytes, bytearray, memoryview)):
        import onnx

        try:
            return onnx.load_model_from_string(bytes(model)), None
        except Exception as error:  # protobuf raises several kinds
            raise ModelError(f"the bytes are not an ONNX model: {error}") from None
    if isinstance(model, (str, Path)):
        made, source = in_onnx(model)
        return read_proto(made), source
    return read_proto(model), None


def _has_cpu(providers: Sequence[Any] | None) -> bool:
    names = [one if isinstance(one, str) else one[0] for one in providers or _PROVIDERS]
    unknown = [name for name in names if name not in _PROVIDERS]
    if unknown:
        raise UsageError(
            f"there is no provider {unknown[0]!r} here", hint=f"known are {', '.join(_PROVIDERS)}"
        )
    return _PROVIDERS[1] in names
