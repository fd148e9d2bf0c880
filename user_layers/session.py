"""onnxruntime's InferenceSession on the TPU: for programs that are written for it."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from firmware_sim.errors import ModelError, UsageError
from firmware_sim.shown import listed
from user_layers.bmodel import as_read
from user_layers.formats import in_onnx
from user_layers.onnx import graph_from_onnx
from user_layers.onnx.load import edge_of, read_proto
from user_layers.onnx.model import Array, Value
from user_layers.onnx.types import from_net, to_net
from user_layers.product import compile_net
from user_layers.runtime.bmruntime import BModelRuntime
from user_layers.session_values import IOBinding, ModelMetadata, NodeArg, OrtValue, SessionOptions
from user_layers.toolkit import Toolkit

if TYPE_CHECKING:
    import onnx

    from user_layers.onnx.custom import MapFunction

PROVIDER = "TpuLayerExecutionProvider"
_PROVIDERS = (PROVIDER, "CPUExecutionProvider")  # the second does what no layer does
_MOST_NETS = 8  # compiled for shapes of inputs; those used longest ago go first
VERSION = "1.31.1"  # of onnxruntime, whose names these are
Shapes = tuple[tuple[int, ...], ...]
Constants = tuple[tuple[str, tuple[int, ...], bytes], ...]  # given in place of the model's own


def get_available_providers() -> list[str]:
    """What may stand in `providers`."""
    return list(_PROVIDERS)


def get_all_providers() -> list[str]:
    """The same: there are no others."""
    return list(_PROVIDERS)


def get_device() -> str:
    """What onnxruntime says of CPU and GPU."""
    return "TPU"


class InferenceSession:
    """A model compiled for the TPU, with the methods and arguments of onnxruntime's; a context manager that
    ends its child processes.

    path_or_bytes: an ONNX model as a file, its bytes or an onnx.ModelProto; also a file of another framework
    (see `compile_file`). sess_options, provider_options: taken and not looked at. providers: names, or pairs
    of a name and options, of `get_available_providers()`; others are left out with a warning. Without
    CPUExecutionProvider every operation must have a layer.
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
        self._options = sess_options
        self._proto, self._source = _read(path_or_bytes)
        graph = self._proto.graph
        constants = {tensor.name for tensor in graph.initializer}
        edges = [edge_of(info, "the model") for info in graph.input]
        self._inputs = [value for value in edges if value.name not in constants]
        self._overridable = [value for value in edges if value.name in constants]
        self._outputs = [edge_of(info, "the model") for info in graph.output]
        self._shapes, self._dynamic, self._opt, self._custom = dict(shapes or {}), dynamic, opt, custom
        self._own = toolkit is None
        self._toolkit = toolkit or Toolkit()
        self._nets: OrderedDict[tuple[Shapes, Constants], tuple[BModelRuntime, tuple[str, ...]]] = (
            OrderedDict()
        )
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
        self._forget()
        if self._own:
            self._toolkit.close()

    def _forget(self) -> None:
        while self._nets:
            self._nets.popitem()[1][0].close()

    def get_inputs(self) -> list[NodeArg]:
        """The inputs, in the model's order."""
        return [NodeArg.of(value) for value in self._inputs]

    def get_outputs(self) -> list[NodeArg]:
        """The outputs, in the model's order."""
        return [NodeArg.of(value) for value in self._outputs]

    def get_overridable_initializers(self) -> list[NodeArg]:
        """The constants that a run may be given in place of the model's own."""
        return [NodeArg.of(value) for value in self._overridable]

    def get_modelmeta(self) -> ModelMetadata:
        """What the model tells of itself."""
        return ModelMetadata.of(self._proto)

    def get_session_options(self) -> Any:
        """Those that were given, or the usual ones."""
        return SessionOptions() if self._options is None else self._options

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """None for each provider."""
        return {name: {} for name in self.get_providers()}

    def set_providers(self, providers: Sequence[Any] | None = None, provider_options: object = None) -> None:
        """Compile anew for these; arguments as of the session."""
        self._cpu = _has_cpu(providers)
        self._forget()

    def get_providers(self) -> list[str]:
        """What runs the model."""
        return list(_PROVIDERS if self._cpu else _PROVIDERS[:1])

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: object = None,
    ) -> list[Array]:
        """The outputs with these names, all for None or none. input_feed: for each input an array of its
        type, or lists of numbers; also for constants that may be given. run_options: taken and not looked at.

        Errors: UsageError for arrays or names that the model has not; DeviceError when the device fails.
        """
        arrays = [self._array(value, input_feed) for value in self._inputs]
        other = {
            value.name: self._array(value, input_feed)
            for value in self._overridable
            if value.name in input_feed
        }
        self._check_names("input", input_feed, [*self._inputs, *self._overridable])
        self._check_names("output", output_names or (), self._outputs)
        runtime, used = self._net(tuple(array.shape for array in arrays), other)
        fed = {v.name: to_net(a, v) for v, a in zip(self._inputs, arrays, strict=True) if v.name in used}
        made = runtime.launch(runtime.networks[0].name, fed)
        found = {v.name: from_net(a, v) for v, a in zip(self._outputs, made, strict=True)}
        return [found[name] for name in output_names or found]

    def io_binding(self) -> IOBinding:
        """For `run_with_iobinding`."""
        return IOBinding()

    def run_with_iobinding(self, iobinding: IOBinding, run_options: object = None) -> None:
        """Run with what is bound; errors as of `run`."""
        iobinding.take(self.run(iobinding.asked(), iobinding.fed()) if iobinding.asked() else [])

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict: Mapping[str, OrtValue],
        run_options: object = None,
    ) -> list[OrtValue]:
        """`run` with the other kind of values."""
        return [
            OrtValue(array)
            for array in self.run(output_names, {name: value.numpy() for name, value in input_dict.items()})
        ]

    def _array(self, value: Value, feed: Mapping[str, Any]) -> Array:
        if value.name not in feed:
            raise UsageError(
                f"input {value.name!r} is missing", hint=f"the inputs are {self._names(self._inputs)}"
            )
        given = feed[value.name]
        try:
            array = np.asarray(given)
        except ValueError:
            raise UsageError(f"input {value.name!r}: the lists given are of different lengths") from None
        wanted = None if hasattr(given, "dtype") else value.dtype  # which lists of numbers do not tell
        if wanted is not None and np.can_cast(array.dtype, wanted, "same_kind"):
            array = array.astype(wanted)
        if array.dtype != value.dtype:
            raise UsageError(f"input {value.name!r} is {value.what}, given is {array.dtype}")
        shape = value.shape
        if shape is None:
            return array
        if len(shape) != array.ndim or any(
            isinstance(n, int) and n != got and value.name not in self._shapes
            for n, got in zip(shape, array.shape, strict=True)
        ):
            raise UsageError(
                f"input {value.name!r} has the shape {NodeArg.of(value).shape}, given is {list(array.shape)}"
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

    def _net(
        self, shapes: Shapes, other: Mapping[str, Array] | None = None
    ) -> tuple[BModelRuntime, tuple[str, ...]]:
        """The net for inputs of these shapes, loaded, and the inputs that it reads. other: constants."""
        key = (
            () if self._dynamic else shapes,
            tuple((name, array.shape, array.tobytes()) for name, array in (other or {}).items()),
        )
        if key not in self._nets:
            while len(self._nets) >= _MOST_NETS:
                self._nets.popitem(last=False)[1][0].close()
            self._nets[key] = self._compiled(shapes, other or {})
        self._nets.move_to_end(key)
        return self._nets[key]

    def _compiled(self, shapes: Shapes, other: Mapping[str, Array]) -> tuple[BModelRuntime, tuple[str, ...]]:
        given = self._shapes
        if not self._dynamic:
            given = {value.name: shape for value, shape in zip(self._inputs, shapes, strict=True)}
        graph = graph_from_onnx(
            _with_constants(self._proto, other) if other else self._proto,
            shapes=given,
            custom=self._custom,
            toolkit=self._toolkit,
            cpu=self._cpu,
            source=self._source,
        )
        net = compile_net(graph, self._dynamic, opt=self._opt)
        runtime = BModelRuntime(self._toolkit.device)
        runtime.load(as_read(net))
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


def _with_constants(proto: Any, other: Mapping[str, Array]) -> Any:
    """A copy of the model with these constants."""
    import onnx

    made = onnx.ModelProto()
    made.CopyFrom(proto)
    for tensor in made.graph.initializer:
        if tensor.name in other:
            tensor.CopyFrom(onnx.numpy_helper.from_array(other[tensor.name], tensor.name))
    return made


def _has_cpu(providers: Sequence[Any] | None) -> bool:
    names = [one if isinstance(one, str) else one[0] for one in providers or _PROVIDERS]
    unknown = [name for name in names if name not in _PROVIDERS]
    if len(unknown) == len(names):
        raise UsageError(
            f"there is no provider {unknown[0]!r} here", hint=f"known are {', '.join(_PROVIDERS)}"
        )
    if unknown:
        warnings.warn(
            f"there is no provider {listed(map(repr, unknown))} here; known are {', '.join(_PROVIDERS)}",
            stacklevel=3,
        )
    return _PROVIDERS[1] in names
