"""What onnxruntime's session is given and gives besides arrays: options, values, what a model tells.

The options are those that programs set; they hold what is written to them, and nothing here looks at it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np

from firmware_sim.errors import UsageError
from user_layers.onnx.model import Array, Value

_TYPES = {"float32": "float", "float64": "double", "float16": "float16", "object": "string"}


class GraphOptimizationLevel(IntEnum):
    """Of onnxruntime; here `InferenceSession` has `opt`."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(IntEnum):
    """Of onnxruntime."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(IntEnum):
    """Of onnxruntime."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


@dataclass
class SessionOptions:
    """The attributes of onnxruntime's, with its defaults."""

    enable_cpu_mem_arena: bool = True
    enable_mem_pattern: bool = True
    enable_mem_reuse: bool = True
    enable_profiling: bool = False
    execution_mode: ExecutionMode = ExecutionMode.ORT_SEQUENTIAL
    execution_order: ExecutionOrder = ExecutionOrder.DEFAULT
    graph_optimization_level: GraphOptimizationLevel = GraphOptimizationLevel.ORT_ENABLE_ALL
    inter_op_num_threads: int = 0
    intra_op_num_threads: int = 0
    log_severity_level: int = -1
    log_verbosity_level: int = 0
    logid: str = ""
    optimized_model_filepath: str = ""
    profile_file_prefix: str = "onnxruntime_profile_"
    use_deterministic_compute: bool = False
    use_per_session_threads: bool = True
    _entries: dict[str, str] = field(default_factory=dict, repr=False)

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Keep an entry."""
        self._entries[key] = value

    def get_session_config_entry(self, key: str) -> str:
        """An entry. UsageError for one that was not added."""
        return _entry(self._entries, key)


@dataclass
class RunOptions:
    """The attributes of onnxruntime's, with its defaults."""

    log_severity_level: int = -1
    log_verbosity_level: int = 0
    logid: str = ""
    only_execute_path_to_fetches: bool = False
    terminate: bool = False
    _entries: dict[str, str] = field(default_factory=dict, repr=False)

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Keep an entry."""
        self._entries[key] = value

    def get_run_config_entry(self, key: str) -> str:
        """An entry. UsageError for one that was not added."""
        return _entry(self._entries, key)


def _entry(entries: Mapping[str, str], key: str) -> str:
    if key not in entries:
        raise UsageError(f"no entry {key!r} was added to the options")
    return entries[key]


@dataclass(frozen=True)
class NodeArg:
    """An input or output. shape: extents, texts for those that are free, None where they have no name; type:
    as onnxruntime writes it, `tensor(float)`."""

    name: str
    shape: list[int | str | None]
    type: str

    @classmethod
    def of(cls, value: Value) -> NodeArg:
        """What a value of the model is called, and what it holds."""
        shape = [None if extent == "?" else extent for extent in value.shape or ()]
        return cls(value.name, shape, type_name(value.dtype))


def type_name(dtype: np.dtype[Any] | None) -> str:
    """A tensor's type as onnxruntime writes it."""
    kind = "?" if dtype is None else dtype.name
    return f"tensor({_TYPES.get(kind, kind)})"


@dataclass(frozen=True)
class ModelMetadata:
    """What a model tells of itself."""

    producer_name: str
    graph_name: str
    domain: str
    description: str
    graph_description: str
    version: int
    custom_metadata_map: dict[str, str]

    @classmethod
    def of(cls, proto: Any) -> ModelMetadata:
        """Of an onnx.ModelProto."""
        return cls(
            proto.producer_name,
            proto.graph.name,
            proto.domain,
            proto.doc_string,
            proto.graph.doc_string,
            int(proto.model_version),
            {entry.key: entry.value for entry in proto.metadata_props},
        )


class OrtValue:
    """An array, with onnxruntime's methods; it is in the host's memory whatever device is named."""

    def __init__(self, array: Array) -> None:
        self._array = array

    @classmethod
    def ortvalue_from_numpy(cls, array: Array, device_type: str = "cpu", device_id: int = 0) -> OrtValue:
        """Of an array, which is not copied."""
        return cls(np.asarray(array))

    @classmethod
    def ortvalue_from_shape_and_type(
        cls, shape: Sequence[int], element_type: Any, device_type: str = "cpu", device_id: int = 0
    ) -> OrtValue:
        """Of zeros. element_type: as numpy has it, or its number in ONNX."""
        if isinstance(element_type, int):
            import onnx

            element_type = onnx.helper.tensor_dtype_to_np_dtype(element_type)
        return cls(np.zeros(tuple(shape), element_type))

    def numpy(self) -> Array:
        """The array."""
        return self._array

    def update_inplace(self, array: Array) -> None:
        """Write other elements. UsageError for another shape or type."""
        if array.shape != self._array.shape or array.dtype != self._array.dtype:
            raise UsageError(
                f"the value is {self._array.dtype} {list(self._array.shape)}, "
                f"given is {array.dtype} {list(array.shape)}"
            )
        self._array[...] = array

    def shape(self) -> list[int]:
        """The extents."""
        return list(self._array.shape)

    def data_type(self) -> str:
        """`tensor(float)`."""
        return type_name(self._array.dtype)

    def element_type(self) -> int:
        """The type's number in ONNX."""
        import onnx

        return int(onnx.helper.np_dtype_to_tensor_dtype(self._array.dtype))

    def data_ptr(self) -> int:
        """The address of the first element."""
        return int(self._array.ctypes.data)

    def device_name(self) -> str:
        """Where it is."""
        return "cpu"

    def is_tensor(self) -> bool:
        """Nothing else is here."""
        return True

    def has_value(self) -> bool:
        """It always has."""
        return True

    def tensor_size_in_bytes(self) -> int:
        """Of all elements."""
        return int(self._array.nbytes)


class IOBinding:
    """Inputs and outputs of runs by `InferenceSession.run_with_iobinding`. Outputs come in the order in which
    they were bound."""

    def __init__(self) -> None:
        self._inputs: dict[str, OrtValue] = {}
        self._outputs: dict[str, OrtValue | None] = {}  # those that were given are written to
        self._made: list[OrtValue] = []

    def bind_cpu_input(self, name: str, array: Array) -> None:
        """Give an input."""
        self._inputs[name] = OrtValue(np.asarray(array))

    def bind_ortvalue_input(self, name: str, value: OrtValue) -> None:
        """Give an input."""
        self._inputs[name] = value

    def bind_output(self, name: str, device_type: str = "cpu", device_id: int = 0) -> None:
        """Ask for an output."""
        self._outputs[name] = None

    def bind_ortvalue_output(self, name: str, value: OrtValue) -> None:
        """Ask for an output, written to this value."""
        self._outputs[name] = value

    def clear_binding_inputs(self) -> None:
        """Forget the inputs."""
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        """Forget the outputs, and what was made of them."""
        self._outputs.clear()
        self._made.clear()

    def synchronize_inputs(self) -> None:
        """Nothing is on its way."""

    def synchronize_outputs(self) -> None:
        """Nothing is on its way."""

    def get_outputs(self) -> list[OrtValue]:
        """What the last run made."""
        return list(self._made)

    def copy_outputs_to_cpu(self) -> list[Array]:
        """The same as arrays."""
        return [value.numpy().copy() for value in self._made]

    def fed(self) -> dict[str, Array]:
        """The inputs as arrays."""
        return {name: value.numpy() for name, value in self._inputs.items()}

    def asked(self) -> list[str]:
        """The names of the outputs."""
        return list(self._outputs)

    def take(self, arrays: Sequence[Array]) -> None:
        """What a run made, in the order of `asked`. UsageError for a value that does not fit."""
        self._made = []
        for array, value in zip(arrays, self._outputs.values(), strict=True):
            if value is not None:
                value.update_inplace(array)
            self._made.append(value or OrtValue(array))


def set_default_logger_severity(severity: int) -> None:
    """Nothing here logs."""


def set_default_logger_verbosity(verbosity: int) -> None:
    """Nothing here logs."""
