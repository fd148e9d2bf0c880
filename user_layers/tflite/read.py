"""Reads .tflite files (FlatBuffers, by the classes of the package tflite)."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from firmware_sim.errors import MissingError, ModelError, UsageError
from user_layers.files import read_input
from user_layers.spelling.foreign import QUANTIZED, Array, ForeignModel, Operation, Scaled, Tensor
from user_layers.tflite.stored import stored, with_stored

WHAT = "TFLite"  # what messages call these models
_IDENTIFIER = b"TFL3"
_DTYPES = {
    "FLOAT32": np.float32,
    "FLOAT16": np.float16,
    "FLOAT64": np.float64,
    "INT8": np.int8,
    "INT16": np.int16,
    "INT32": np.int32,
    "INT64": np.int64,
    "UINT8": np.uint8,
    "UINT16": np.uint16,
    "UINT32": np.uint32,
    "UINT64": np.uint64,
    "BOOL": np.bool_,
}
_SPARSE = "is stored sparsely, which is not read"
_DEPTH = 16  # composites inside composites
_OPERATIONS = 100_000  # of a model whose composites are written out


def read_tflite(model: str | Path | bytes, *, name: str = "") -> ForeignModel:
    """The first subgraph of a model, a file or its bytes; composites are replaced by what they are made of.

    Inputs and outputs have the names of the model's signature, if it has one. name: of the model, by default
    the file's.
    Errors: MissingError without the package tflite; UsageError for a file that cannot be read; ModelError for
    one that is no TFLite model, or damaged.
    """
    if isinstance(model, (str, Path)):
        path = Path(model)
        try:
            data, place, name = read_input(path), str(path), name or path.stem
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror or error}") from None
    else:
        data, place = model, "the model"
    if data[4:8] != _IDENTIFIER:
        raise ModelError(f"{place} is not a TFLite model: it does not say TFL3 in bytes 4 to 7")
    schema = _schema()
    try:
        return with_stored(_Reader(schema, data, place).model(name or "net"))
    except (
        struct.error,
        ValueError,
        TypeError,
        IndexError,
        KeyError,
        AttributeError,
        OverflowError,
    ) as error:
        raise ModelError(f"{place} is a damaged TFLite model: {type(error).__name__}: {error}") from None


def _schema() -> ModuleType:
    try:
        import tflite
    except ImportError:
        raise MissingError(
            "the package tflite is not installed, which has the format of these models",
            hint='pip install "tpulayer[tflite]"',
        ) from None
    module: ModuleType = tflite
    return module


def with_options(operation: Operation, data: bytes) -> Operation:
    """A CUSTOM operation with its parameters, which a layer of the user's needs by name.

    Those of other makers may have a format of their own: they stay bytes, in the attribute `custom_options`.
    """
    try:
        return replace(operation, attributes=custom_options(data))
    except ValueError as error:
        return replace(operation, attributes={"custom_options": data}, odd=str(error))


def custom_options(data: bytes) -> dict[str, Any]:
    """The parameters of a CUSTOM operation by name: FlexBuffers that hold a map; none where it is empty.
    Raises ValueError for other bytes."""
    from flatbuffers import flexbuffers

    if not data:
        return {}
    try:
        value = flexbuffers.Loads(data)
    except Exception as error:  # it has no type of its own for damage
        raise ValueError(f"its parameters are not FlexBuffers: {error}") from None
    if not isinstance(value, dict):
        raise ValueError("its parameters are not a map")
    return {str(key): tuple(item) if isinstance(item, list) else item for key, item in value.items()}


@dataclass(frozen=True)
class _Part:
    """A subgraph with names that are unique in the model."""

    names: tuple[str, ...]
    tensors: Mapping[str, Tensor]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    operations: tuple[Operation, ...]


class _Reader:
    def __init__(self, schema: ModuleType, data: bytes, place: str) -> None:
        self.schema, self.data, self.place = schema, data, place
        self.root = schema.Model.GetRootAs(data, 0)
        self.kinds = _names_of(schema.BuiltinOperator)
        self.types = _names_of(schema.TensorType)
        self.options = _names_of(schema.BuiltinOptions)
        self._count = 0

    def model(self, name: str) -> ForeignModel:
        if self.root.SubgraphsLength() < 1:
            raise ModelError(f"{self.place} has no subgraph")
        part = self.part(0, "", 0)
        renamed = self._signature(part)

        def called(tensor: str) -> str:
            return renamed.get(tensor, tensor)

        return ForeignModel(
            WHAT,
            name,
            {called(n): t for n, t in part.tensors.items()},
            tuple(called(n) for n in part.inputs),
            tuple(called(n) for n in part.outputs),
            tuple(
                replace(
                    op,
                    inputs=tuple(None if n is None else called(n) for n in op.inputs),
                    outputs=tuple(called(n) for n in op.outputs),
                )
                for op in part.operations
            ),
        )

    def part(self, index: int, prefix: str, depth: int) -> _Part:
        graph = self.root.Subgraphs(index)
        names: list[str] = []
        tensors: dict[str, Tensor] = {}
        for i in range(self._length(graph.TensorsLength())):
            raw = graph.Tensors(i)
            stem = prefix + (raw.Name() or b"").decode("utf-8", "replace")
            name = stem if stem and stem not in tensors else f"{stem or prefix + 'tensor'}#{i}"
            while name in tensors:
                name += "'"
            names.append(name)
            tensors[name] = self._tensor(raw)
        inputs = tuple(names[graph.Inputs(i)] for i in range(self._length(graph.InputsLength())))
        outputs = tuple(names[graph.Outputs(i)] for i in range(self._length(graph.OutputsLength())))
        operations: list[Operation] = []
        for i in range(self._length(graph.OperatorsLength())):
            operation = self._operation(graph, i, names, prefix)
            if operation.kind == "STABLEHLO_COMPOSITE":
                inner, values = self._composite(operation, depth)
                tensors.update(values)
                operations += inner
            else:
                operations.append(operation)
            self._count += 1
            if self._count > _OPERATIONS:
                raise ModelError(f"{self.place} has more than {_OPERATIONS} operations")
        return _Part(tuple(names), tensors, inputs, outputs, tuple(operations))

    def _length(self, count: int) -> int:
        """A vector's length. Raises ValueError for one that the file cannot hold."""
        if count * 4 > len(self.data):
            raise ValueError(f"a vector of {count} elements in {len(self.data)} bytes")
        return count

    def _tensor(self, raw: Any) -> Tensor:
        shape = tuple(int(raw.Shape(i)) for i in range(self._length(raw.ShapeLength())))
        if min(shape, default=0) < 0:
            raise ValueError(f"a tensor of the shape {list(shape)}")
        if raw.Sparsity() is not None:
            return Tensor(shape, None, odd=_SPARSE)
        scales = raw.Quantization()
        quantized = scales is not None and scales.ScaleLength() > 0
        kind = None if quantized else _DTYPES.get(self.types.get(raw.Type(), ""))
        if kind is None:
            return (
                Tensor(shape, None, odd=QUANTIZED, scaled=self._scaled(raw))
                if quantized
                else Tensor(shape, None)
            )
        dtype = np.dtype(kind)
        stored = self._bytes(raw.Buffer())
        return Tensor(shape, dtype, None if stored is None else _array(stored, dtype, shape))

    def _scaled(self, raw: Any) -> Scaled | None:
        """Scales of a quantized tensor; None for any other."""
        told, kind = raw.Quantization(), _DTYPES.get(self.types.get(raw.Type(), ""))
        if told is None or kind is None or raw.Sparsity() is not None or self._length(told.ScaleLength()) < 1:
            return None
        if told.DetailsType():  # scales of another kind
            return None
        shape = tuple(int(raw.Shape(i)) for i in range(self._length(raw.ShapeLength())))
        zeros = told.ZeroPointAsNumpy() if self._length(told.ZeroPointLength()) else np.zeros(1, np.int64)
        data, dtype = self._bytes(raw.Buffer()), np.dtype(kind)
        elements = None if data is None else _array(data, dtype, shape)
        return Scaled(dtype, told.ScaleAsNumpy(), zeros, told.QuantizedDimension(), elements)

    def _stored(self, raw: Any) -> dict[str, Any]:
        """Elements and scales of a quantized constant; nothing for any other tensor."""
        told = self._scaled(raw)
        if told is None or told.data is None:
            return {}
        return stored(told.data, told.scales, told.zero_points, told.axis)

    def _bytes(self, index: int) -> bytes | memoryview | None:
        """What a buffer holds; None for one without data."""
        if not 0 <= index < self.root.BuffersLength():
            raise ValueError(f"there is no buffer {index}")
        buffer = self.root.Buffers(index)
        offset, size = buffer.Offset(), buffer.Size()
        if offset > 1:  # behind the FlatBuffer: files of more than 2 GiB
            if offset + size > len(self.data):
                raise ValueError(f"buffer {index} lies beyond the end of the file")
            return memoryview(self.data)[offset : offset + size]
        if buffer.DataLength() == 0:
            return None
        stored: bytes = buffer.DataAsNumpy().tobytes()
        return stored

    def _operation(self, graph: Any, index: int, names: list[str], prefix: str) -> Operation:
        raw = graph.Operators(index)
        code = self.root.OperatorCodes(raw.OpcodeIndex())
        number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
        kind = self.kinds.get(number, f"operation {number}")
        own = kind == "CUSTOM"
        if own:
            kind = (code.CustomCode() or b"").decode("utf-8", "replace")
            size = self._length(raw.CustomOptionsLength() // 4) and raw.CustomOptionsLength()
            stored = raw.CustomOptionsAsNumpy().tobytes() if raw.CustomOptionsLength() else b""
            options = stored[:size] if size else stored
        attributes = {} if own else self._attributes(raw)
        places = [raw.Inputs(i) for i in range(self._length(raw.InputsLength()))]
        if kind == "DEQUANTIZE" and places and 0 <= places[0] < graph.TensorsLength():
            attributes |= self._stored(graph.Tensors(places[0]))
        made = [raw.Outputs(i) for i in range(self._length(raw.OutputsLength()))]
        if min([*made, 0]) < 0 or min([*places, -1]) < -1:
            raise ValueError(f"operation {index} names a tensor that does not exist")
        operation = Operation(
            kind,
            names[made[0]] if made else f"{prefix}{kind}#{index}",
            tuple(None if i < 0 else names[i] for i in places),
            tuple(names[i] for i in made),
            attributes,
            own,
        )
        return with_options(operation, options) if own else operation

    def _attributes(self, raw: Any) -> dict[str, Any]:
        """All fields of an operation's options, with the names that the schema has."""
        table = self.options.get(raw.BuiltinOptionsType())
        union = raw.BuiltinOptions()
        if raw.BuiltinOptions2Type():
            table = _names_of(self.schema.BuiltinOptions2).get(raw.BuiltinOptions2Type())
            union = raw.BuiltinOptions2()
        if table in (None, "NONE") or union is None:
            return {}
        options = getattr(self.schema, table)()
        options.Init(union.Bytes, union.Pos)
        found: dict[str, Any] = {}
        for method in _fields(type(options)):
            if hasattr(options, method + "AsNumpy"):
                count = self._length(getattr(options, method + "Length")())
                found[_snake(method)] = tuple(getattr(options, method)(i) for i in range(count))
            else:
                value = getattr(options, method)()
                found[_snake(method)] = (
                    value.decode("utf-8", "replace") if isinstance(value, bytes) else value
                )
        return found

    def _composite(self, operation: Operation, depth: int) -> tuple[list[Operation], dict[str, Tensor]]:
        """The operations of a composite in its place, and their tensors."""
        index = operation.attributes["decomposition_subgraph_index"]
        if depth >= _DEPTH or not 0 < index < self.root.SubgraphsLength():
            raise ValueError(f"the composite {operation.name} has no decomposition of its own")
        part = self.part(index, f"{operation.name}/", depth + 1)
        outside = dict(zip(part.inputs, operation.inputs, strict=True))
        made = dict(zip(part.outputs, operation.outputs, strict=True))
        if len(made) < len(operation.outputs) or made.keys() & outside.keys():
            raise ValueError(f"the composite {operation.name} passes an input on as it is")
        return [
            replace(
                inner,
                name=made.get(inner.name, inner.name),
                inputs=tuple(n if n is None else outside.get(n, made.get(n, n)) for n in inner.inputs),
                outputs=tuple(made.get(n, n) for n in inner.outputs),
            )
            for inner in part.operations
        ], {name: tensor for name, tensor in part.tensors.items() if name not in {*outside, *made}}

    def _signature(self, part: _Part) -> dict[str, str]:
        """What inputs and outputs are called by the signature of the first subgraph."""
        for i in range(self.root.SignatureDefsLength()):
            signature = self.root.SignatureDefs(i)
            if signature.SubgraphIndex() == 0:
                break
        else:
            return {}
        pairs = [signature.Inputs(i) for i in range(self._length(signature.InputsLength()))]
        pairs += [signature.Outputs(i) for i in range(self._length(signature.OutputsLength()))]
        found: dict[str, str] = {}
        for pair in pairs:
            old, new = part.names[pair.TensorIndex()], (pair.Name() or b"").decode("utf-8", "replace")
            taken = new in part.tensors and new != old
            if new and not taken and new not in found.values():
                found.setdefault(old, new)
        return found


def _array(stored: bytes | memoryview, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    array: Array = np.frombuffer(stored, dtype.newbyteorder("<"))
    return array.astype(dtype, copy=False).reshape(shape)


def _names_of(enumeration: Any) -> dict[int, str]:
    return {value: name for name, value in vars(enumeration).items() if isinstance(value, int)}


def _fields(table: type) -> list[str]:
    """The fields of a generated class: its methods without those that belong to the format."""
    names = [n for n, m in vars(table).items() if callable(m) and not isinstance(m, classmethod)]
    skip = re.compile(r"(Init|.*Length|.*IsNone|.*AsNumpy|_.*)$")
    return [name for name in names if not skip.match(name)]


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
