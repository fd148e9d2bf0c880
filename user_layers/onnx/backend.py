"""This compiler as a backend of the onnx package (`onnx.backend.base.Backend`).

    from user_layers.onnx import backend
    outputs = backend.run_model(onnx.load("small.onnx"), [x])

Models are compiled for the BM1684 and run on its emulator. `prepare` takes, besides what the onnx package
gives it, the options of `Graph.compile` (dynamic, opt), `cpu` (whether parts may run on onnxruntime), and
`toolkit` (where own layers come from). Models with free dimensions are compiled when they run, for the
shapes of the inputs that they get.
"""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep

from firmware_sim.errors import DeviceError, UsageError
from user_layers.net.compiled import CompiledNet
from user_layers.onnx.build import Built, build
from user_layers.onnx.load import edge_of, from_proto, value_of
from user_layers.onnx.model import Array, Model, Value
from user_layers.onnx.types import from_net, held_as, to_net
from user_layers.product import compile_net
from user_layers.runtime.bmruntime import BModelRuntime
from user_layers.runtime.references import load_net
from user_layers.toolkit import Toolkit

__all__ = ["PreparedModel", "TpulayerBackend", "prepare", "run_model", "run_node", "supports_device"]

_LEFT: list[BModelRuntime] = []
"""Those of models that are no more, unloaded before the next one is loaded: the garbage collector may run in
the middle of a device's call, in which no other can be made."""


class PreparedModel(BackendRep):  # type: ignore[misc]  # the onnx package has no types
    """A compiled model. `built` is its graph and what of it runs on the CPU (None until shapes are known).

    Its net stays on the device from the first run to the last, or to `close`.
    """

    def __init__(
        self, proto: Any, toolkit: Toolkit, *, dynamic: bool = False, opt: int = 2, cpu: bool = True
    ) -> None:
        self._proto = proto
        self._toolkit = toolkit
        self._dynamic, self._opt, self._cpu = dynamic, opt, cpu
        self._model: Model | None = None
        self._shapes: dict[str, tuple[int, ...]] = {}
        self.built: Built | None = None
        self._net: CompiledNet | None = None
        self._runtime: BModelRuntime | None = None  # with the net, once it has run
        self._forget: weakref.finalize[..., PreparedModel] | None = None
        constants = {t.name for t in proto.graph.initializer}
        self._inputs = [edge_of(v, "model") for v in proto.graph.input if v.name not in constants]
        if all(value.fixed is not None for value in self._inputs):
            self._compile({})

    def run(self, inputs: Any, **_: Any) -> tuple[Array, ...]:
        """The outputs for these inputs: an array each, or a mapping by name; one alone may stand for itself.

        Errors: UsageError for a wrong number, shape or type; those of compiling where that was not possible
        before.
        """
        arrays = self._named(inputs)
        if any(value.fixed is None for value in self._inputs):
            shapes = {name: array.shape for name, array in arrays.items()}
            if self.built is None or shapes != self._shapes:
                self._compile(shapes)
        assert self.built is not None and self._model is not None
        values = {value.name: value for value in self._model.inputs}
        fed = {name: to_net(arrays[name], values[name]) for name in self.built.graph.inputs}
        got = iter(self._launch(self._net, fed) if self._net is not None else [])
        return tuple(
            self.built.empty[value.name] if value.name in self.built.empty else from_net(next(got), value)
            for value in self._model.outputs
        )

    def close(self) -> None:
        """Give its device memory back; another run takes it again."""
        runtime, self._runtime = self._runtime, None
        if self._forget is not None:
            self._forget.detach()
        if runtime is not None:
            with suppress(DeviceError):  # a device that has ended holds nothing
                runtime.close()

    def _launch(self, net: CompiledNet, fed: Mapping[str, Array]) -> list[Array]:
        if self._runtime is None:
            while _LEFT:
                with suppress(DeviceError):
                    _LEFT.pop().close()
            self._runtime = load_net(net, self._toolkit)
            self._forget = weakref.finalize(self, _LEFT.append, self._runtime)
            self._forget.atexit = False
        try:
            return self._runtime.launch(net.name, fed)
        except DeviceError:
            self.close()  # so that the next run begins anew
            raise

    def _compile(self, shapes: Mapping[str, Sequence[int]]) -> None:
        free = {value.name: shapes[value.name] for value in self._inputs if value.fixed is None and shapes}
        self.close()
        model = from_proto(self._proto, free)
        built = build(model, "net", toolkit=self._toolkit, cpu=self._cpu, allow_empty=True)
        nodes = built.graph.nodes
        self._net = compile_net(built.graph, self._dynamic, opt=self._opt) if nodes else None
        self._model, self.built = model, built
        self._shapes = {name: tuple(shape) for name, shape in shapes.items()}

    def _named(self, inputs: Any) -> dict[str, Array]:
        names = [value.name for value in self._inputs]
        if isinstance(inputs, Mapping):
            given = {str(name): np.asarray(array) for name, array in inputs.items()}
        else:
            listed = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
            given = dict(zip(names, map(np.asarray, listed), strict=False))
            if len(listed) != len(names):
                raise UsageError(f"{len(listed)} inputs are given; the model has {len(names)}")
        if set(given) != set(names):
            raise UsageError(f"the inputs given are {sorted(given)}; the model has {names}")
        for value in self._inputs:
            array = given[value.name]
            if array.dtype != value.dtype:
                raise UsageError(f"input {value.name!r} is {array.dtype}; the model has {value.what}")
            if value.fixed is not None and array.shape != value.fixed:
                raise UsageError(
                    f"input {value.name!r} is {list(array.shape)}; the model has {list(value.fixed)}"
                )
        return given


class TpulayerBackend(Backend):  # type: ignore[misc]  # the onnx package has no types
    """The classmethods that the onnx package's test runner calls; options as the module says."""

    @classmethod
    def is_compatible(cls, model: Any, device: str = "CPU", **_: Any) -> bool:
        """Whether the device holds the types of the model's inputs and outputs."""
        return unheld(model) is None

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **options: Any) -> PreparedModel:
        """Compile a model. Errors: those of `graph_from_onnx` and `Graph.compile`, UsageError."""
        if not cls.supports_device(device):
            raise UsageError(f"there is no device {device!r}", hint="CPU: the emulator runs there")
        toolkit = options.pop("toolkit", None) or _toolkit()
        known = {key: options[key] for key in ("dynamic", "opt", "cpu") if key in options}
        return PreparedModel(model, toolkit, **known)

    @classmethod
    def run_model(cls, model: Any, inputs: Any, device: str = "CPU", **options: Any) -> tuple[Array, ...]:
        """Compile a model and run it once; outputs in the model's order. Errors: those of prepare and run."""
        prepared = cls.prepare(model, device, **options)
        try:
            return prepared.run(inputs)
        finally:
            prepared.close()

    @classmethod
    def run_node(
        cls,
        node: Any,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[Any, Sequence[int]]] | None = None,
        **options: Any,
    ) -> tuple[Array, ...]:
        """Compile a node as a model of its own and run it once. opset_version: by default the newest."""
        arrays = [np.asarray(array) for array in inputs]
        names = [name for name in node.input if name]
        kinds = [onnx.helper.np_dtype_to_tensor_dtype(array.dtype) for array in arrays]
        made = [name for name in node.output if name]
        infos = [
            onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(np.dtype(d)), shape)
            for name, (d, shape) in zip(made, outputs_info or (), strict=False)
        ] or [onnx.helper.make_empty_tensor_value_info(name) for name in made]
        graph = onnx.helper.make_graph(
            [node],
            "node",
            [
                onnx.helper.make_tensor_value_info(name, kind, array.shape)
                for name, kind, array in zip(names, kinds, arrays, strict=True)
            ],
            infos,
        )
        opset = int(options.pop("opset_version", onnx.defs.onnx_opset_version()))
        proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
        if outputs_info is None:
            proto = onnx.shape_inference.infer_shapes(proto)
        return cls.run_model(proto, arrays, device, **options)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """The emulator runs on the host, which the onnx package calls CPU."""
        return device.partition(":")[0] == "CPU"


def unheld(proto: Any) -> Value | None:
    """An input or output of a model whose type the device cannot hold; None where there is none."""
    for info in (*proto.graph.input, *proto.graph.output):
        value = value_of(info, "model")
        if value.kind != "tensor" or (value.dtype is not None and held_as(value.dtype) is None):
            return value
    return None


@cache
def _toolkit() -> Toolkit:
    """One device for all models; it ends with the process."""
    opened = Toolkit()
    atexit.register(opened.close)
    return opened


prepare = TpulayerBackend.prepare
run_model = TpulayerBackend.run_model
run_node = TpulayerBackend.run_node
supports_device = TpulayerBackend.supports_device
is_compatible = TpulayerBackend.is_compatible
