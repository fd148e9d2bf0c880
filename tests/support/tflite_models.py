"""Writes small TFLite models, by the classes of the package tflite."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np
import pytest
from flatbuffers import flexbuffers

tflite: Any = pytest.importorskip("tflite", reason="needs the package tflite: pip install tflite")

_TYPES = {
    "float32": 0, "float16": 1, "int32": 2, "uint8": 3, "int64": 4, "bool": 6, "int16": 7, "int8": 9,
}  # fmt: skip
_OPTIONS = {
    "AVERAGE_POOL_2D": "Pool2DOptions",
    "MAX_POOL_2D": "Pool2DOptions",
    "L2_POOL_2D": "Pool2DOptions",
    "BATCH_MATMUL": "BatchMatMulOptions",
    "L2_NORMALIZATION": "L2NormOptions",
    "STABLEHLO_COMPOSITE": "StableHLOCompositeOptions",
    **{f"REDUCE_{kind}": "ReducerOptions" for kind in ("MAX", "MIN", "PROD", "ANY", "ALL")},
    "MEAN": "ReducerOptions",
    "SUM": "ReducerOptions",
}
_SECOND = ("StableHLOCompositeOptions",)  # of the union BuiltinOptions2


@dataclass
class _Tensor:
    name: str
    shape: tuple[int, ...]
    dtype: str
    data: bytes | None = None
    scale: float = 0.0
    scales: tuple[float, ...] = ()  # one for each part along `axis`
    zeros: tuple[int, ...] = ()
    axis: int = 0
    free: tuple[int, ...] = ()  # axes of which the extent may change
    sparse: bool = False


@dataclass
class _Op:
    kind: str
    inputs: list[int]
    outputs: list[int]
    options: dict[str, Any]
    custom: bool
    raw: bytes | None = None  # instead of the options of a custom one


@dataclass
class Net:
    """A subgraph that is built: tensors are told by their numbers."""

    name: str = "main"
    tensors: list[_Tensor] = field(default_factory=list)
    ops: list[_Op] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)

    def tensor(self, shape: Sequence[int], dtype: str = "float32", name: str | None = None) -> int:
        """A tensor that an operation makes."""
        stem = f"t{len(self.tensors)}" if name is None else name
        self.tensors.append(_Tensor(stem, tuple(int(n) for n in shape), dtype))
        return len(self.tensors) - 1

    def input(self, shape: Sequence[int], dtype: str = "float32", name: str | None = None) -> int:
        self.inputs.append(self.tensor(shape, dtype, name))
        return self.inputs[-1]

    def const(self, array: Any, dtype: str | None = None, name: str | None = None) -> int:
        data = np.asarray(array, dtype)
        index = self.tensor(data.shape, str(data.dtype), name)
        self.tensors[index].data = data.tobytes()
        return index

    def op(
        self,
        kind: str,
        inputs: Sequence[int],
        *shapes: Sequence[int],
        dtype: str = "float32",
        custom: bool = False,
        **options: Any,
    ) -> int:
        """Add an operation with so many outputs; returns the first."""
        outputs = [self.tensor(shape, dtype) for shape in shapes]
        self.ops.append(_Op(kind, list(inputs), outputs, options, custom))
        return outputs[0]


def to_bytes(*nets: Net, signature: Mapping[str, int] | None = None) -> bytes:
    """The file of a model with these subgraphs. signature: names of the first one's inputs and outputs."""
    b = flatbuffers.Builder(1024)
    codes: list[tuple[str, bool]] = list(
        dict.fromkeys((op.kind, op.custom) for net in nets for op in net.ops)
    )
    buffers: list[bytes] = [b""]
    graphs = [_graph(b, net, codes, buffers) for net in nets]
    made_codes = [_code(b, *code) for code in codes]
    made_buffers = []
    for data in buffers:
        content = _numbers(b, np.frombuffer(data, np.uint8), 16) if data else None
        made_buffers.append(_table(b, "Buffer", Data=content))
    signatures = None
    if signature is not None:
        key = b.CreateString("serving_default")
        maps = {}
        for part, indices in (("Inputs", nets[0].inputs), ("Outputs", nets[0].outputs)):
            entries = [
                _table(b, "TensorMap", Name=b.CreateString(n), TensorIndex=i)
                for n, i in signature.items()
                if i in indices
            ]
            maps[part] = _offsets(b, entries)
        signatures = _offsets(b, [_table(b, "SignatureDef", SignatureKey=key, SubgraphIndex=0, **maps)])
    model = _table(
        b,
        "Model",
        Version=3,
        OperatorCodes=_offsets(b, made_codes),
        Subgraphs=_offsets(b, graphs),
        Description=b.CreateString("test"),
        Buffers=_offsets(b, made_buffers),
        SignatureDefs=signatures,
    )
    b.Finish(model, b"TFL3")
    return bytes(b.Output())


def _graph(b: Any, net: Net, codes: list[tuple[str, bool]], buffers: list[bytes]) -> int:
    tensors = []
    for tensor in net.tensors:
        buffer = 0
        if tensor.data is not None:
            buffer = len(buffers)
            buffers.append(tensor.data)
        scales = None
        many = tensor.scales or ((tensor.scale,) if tensor.scale else ())
        if many:
            scales = _table(
                b,
                "QuantizationParameters",
                Scale=_numbers(b, np.array(many, np.float32)),
                ZeroPoint=_numbers(b, np.array(tensor.zeros or [0] * len(many), np.int64)),
                QuantizedDimension=tensor.axis,
            )
        sparsity = None
        if tensor.sparse:
            sparsity = _table(b, "SparsityParameters", TraversalOrder=_numbers(b, np.array([0], np.int32)))
        free = [-1 if i in tensor.free else n for i, n in enumerate(tensor.shape)]
        tensors.append(
            _table(
                b,
                "Tensor",
                Shape=_numbers(b, np.array(tensor.shape, np.int32)),
                Type=_TYPES[tensor.dtype],
                Buffer=buffer,
                Name=b.CreateString(tensor.name),
                Quantization=scales,
                Sparsity=sparsity,
                ShapeSignature=_numbers(b, np.array(free, np.int32)) if tensor.free else None,
            )
        )
    ops = []
    for op in net.ops:
        told: dict[str, Any] = {}
        if op.custom:
            data = op.raw if op.raw is not None else flexbuffers.Dumps(op.options)
            told["CustomOptions"] = _numbers(b, np.frombuffer(data, np.uint8))
        elif op.options:
            name = _OPTIONS.get(op.kind, _camel(op.kind.replace("_ND", "_Nd").lower()) + "Options")
            table = _table(b, name, **{_camel(k): _field(b, v) for k, v in op.options.items()})
            second = "2" if name in _SECOND else ""
            union = getattr(tflite, "BuiltinOptions" + second)
            told[f"BuiltinOptions{second}Type"] = getattr(union, name)
            told[f"BuiltinOptions{second}"] = table
        ops.append(
            _table(
                b,
                "Operator",
                OpcodeIndex=codes.index((op.kind, op.custom)),
                Inputs=_numbers(b, np.array(op.inputs, np.int32)),
                Outputs=_numbers(b, np.array(op.outputs, np.int32)),
                **told,
            )
        )
    return _table(
        b,
        "SubGraph",
        Tensors=_offsets(b, tensors),
        Inputs=_numbers(b, np.array(net.inputs, np.int32)),
        Outputs=_numbers(b, np.array(net.outputs, np.int32)),
        Operators=_offsets(b, ops),
        Name=b.CreateString(net.name),
    )


def _code(b: Any, kind: str, custom: bool) -> int:
    number = tflite.BuiltinOperator.CUSTOM if custom else getattr(tflite.BuiltinOperator, kind)
    text = b.CreateString(kind) if custom else None
    return _table(
        b,
        "OperatorCode",
        DeprecatedBuiltinCode=min(number, 127),
        BuiltinCode=number,
        CustomCode=text,
        Version=_VERSIONS.get(kind, 1),
    )


_VERSIONS = {
    "BROADCAST_TO": 2,
    "FULLY_CONNECTED": 5,
    "TRANSPOSE_CONV": 3,
    "RESIZE_BILINEAR": 3,
    "RESIZE_NEAREST_NEIGHBOR": 3,
}


def _field(b: Any, value: Any) -> Any:
    if isinstance(value, str):
        return b.CreateString(value)
    if isinstance(value, bytes):
        return _numbers(b, np.frombuffer(value, np.uint8))
    if isinstance(value, (list, tuple)):
        return _numbers(b, np.array(value, np.int32))
    return value


def _table(b: Any, name: str, **fields: Any) -> int:
    getattr(tflite, name + "Start")(b)
    for key, value in fields.items():
        if value is not None:
            getattr(tflite, f"{name}Add{key}")(b, value)
    made: int = getattr(tflite, name + "End")(b)
    return made


def _numbers(b: Any, array: Any, align: int = 0) -> int:
    if align:
        b.Prep(align, array.nbytes)
    made: int = b.CreateNumpyVector(array)
    return made


def _offsets(b: Any, offsets: Sequence[int]) -> int:
    b.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        b.PrependUOffsetTRelative(offset)
    made: int = b.EndVector()
    return made


def _camel(name: str) -> str:
    words = [word[:1].upper() + word[1:] for word in re.split("_", name)]
    return "".join(words).replace("2d", "2D").replace("3d", "3D")
