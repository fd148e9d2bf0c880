"""Reading ONNX files: checked, with the shapes of the inputs fixed and those of all values inferred."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from firmware_sim.errors import MissingError, ModelError, UsageError
from user_layers.onnx.model import Array, Model, Node, Value

OLDEST_OPSET = 6
CUSTOM_DOMAIN = "tpulayer"
_STANDARD = ("", "ai.onnx")


def load_model(path: Path, shapes: Mapping[str, Sequence[int]] | None = None) -> Model:
    """Read a model file; shapes: of inputs, for those with free dimensions or to change them.

    Errors: MissingError when the package onnx is not installed; ModelError for a file that is none, a model
    that is not valid, an unknown opset or type; UsageError for shapes that do not fit.
    """
    onnx = _onnx()
    try:
        proto = onnx.load(str(path))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from None
    except Exception as error:  # protobuf raises several kinds
        raise ModelError(f"{path} is no ONNX model: {_line(error)}") from None
    return from_proto(proto, shapes, str(path))


def from_proto(proto: Any, shapes: Mapping[str, Sequence[int]] | None = None, where: str = "model") -> Model:
    """The same for an onnx.ModelProto in memory."""
    onnx = _onnx()
    opset = _opset(proto, where)
    if not proto.graph.node and not proto.graph.output:
        raise ModelError(f"{where} is no ONNX model: it has no graph")
    _fix_shapes(proto, dict(shapes or {}), where)
    nodes = tuple(_node(node, where) for node in proto.graph.node)
    known = {v.name for v in proto.graph.input} | {t.name for t in proto.graph.initializer}
    _check_nodes(nodes, known, where)
    custom = any(node.domain not in _STANDARD for node in proto.graph.node)
    try:
        proto = onnx.shape_inference.infer_shapes(proto, data_prop=True)
        if not custom:  # the checker refuses operations that it does not know
            onnx.checker.check_model(proto)
            proto = onnx.shape_inference.infer_shapes(
                proto, check_type=True, strict_mode=True, data_prop=True
            )
    except Exception as error:
        raise ModelError(f"{where} is not valid: {_line(error)}") from None
    graph = proto.graph
    constants = {t.name: _array(t, where) for t in graph.initializer}
    inputs = tuple(_value(v, where) for v in graph.input if v.name not in constants)
    values = {v.name: _value(v, where) for v in (*graph.value_info, *graph.input, *graph.output)}
    outputs = tuple(_value(v, where) for v in graph.output)
    return Model(graph.name or "net", opset, inputs, outputs, constants, nodes, values)


def _onnx() -> Any:
    try:
        import onnx
        import onnx.checker
        import onnx.shape_inference
    except ImportError:
        raise MissingError("the package onnx is not installed", hint="pip install 'tpulayer[onnx]'") from None
    return onnx


def _line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:3]) or type(error).__name__


def _opset(proto: Any, where: str) -> int:
    for entry in proto.opset_import:
        if entry.domain in _STANDARD:
            version, newest = int(entry.version), int(_onnx().defs.onnx_opset_version())
            if not OLDEST_OPSET <= version <= newest:
                raise ModelError(
                    f"{where} is of opset {version}; known are {OLDEST_OPSET} to {newest}",
                    hint="convert it with onnx.version_converter",
                )
            return version
    if not proto.opset_import:
        raise ModelError(f"{where} is no ONNX model: it names no opset")
    return int(_onnx().defs.onnx_opset_version())


def _fix_shapes(proto: Any, shapes: dict[str, Sequence[int]], where: str) -> None:
    """Write the given shapes into the graph's inputs. UsageError for a name or rank that does not fit."""
    known = {t.name for t in proto.graph.initializer}
    inputs = {v.name: v for v in proto.graph.input if v.name not in known}
    for name, shape in shapes.items():
        if name not in inputs:
            raise UsageError(f"{where} has no input {name!r}", hint=f"its inputs are {', '.join(inputs)}")
        dims = inputs[name].type.tensor_type.shape.dim
        if len(dims) != len(shape):
            raise UsageError(f"input {name!r} has {len(dims)} dimensions, the shape given has {len(shape)}")
        for dim, extent in zip(dims, shape, strict=True):
            if extent < 1:
                raise UsageError(f"input {name!r}: the extent {extent} is below 1")
            dim.Clear()
            dim.dim_value = int(extent)
    free = [
        f"{name} {[d.dim_param or d.dim_value or '?' for d in v.type.tensor_type.shape.dim]}"
        for name, v in inputs.items()
        if any(not d.HasField("dim_value") for d in v.type.tensor_type.shape.dim)
    ]
    if free:
        raise UsageError(
            f"{where} has free dimensions: {'; '.join(free)}", hint="give them with --shapes NAME=1x3x224x224"
        )


def _value(info: Any, where: str) -> Value:
    onnx = _onnx()
    kind = info.type.WhichOneof("value")
    if kind != "tensor_type":
        raise ModelError(
            f"{where}: {info.name} is a {kind or 'value without a type'}; only tensors are supported"
        )
    tensor = info.type.tensor_type
    dtype = None
    if tensor.elem_type:
        try:
            dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type))
        except KeyError:
            raise ModelError(
                f"{where}: {info.name} has the unknown element type {tensor.elem_type}"
            ) from None
    if not tensor.HasField("shape"):
        return Value(info.name, None, dtype)
    shape = tuple(
        int(d.dim_value) if d.HasField("dim_value") else d.dim_param or "?" for d in tensor.shape.dim
    )
    return Value(info.name, shape, dtype)


def _array(tensor: Any, where: str) -> Array:
    onnx = _onnx()
    try:
        array: Array = onnx.numpy_helper.to_array(tensor)
    except Exception as error:
        raise ModelError(f"{where}: the constant {tensor.name} is damaged: {_line(error)}") from None
    return array


def _node(node: Any, where: str) -> Node:
    onnx = _onnx()
    attributes: dict[str, Any] = {}
    for attribute in node.attribute:
        if attribute.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS):
            attributes[attribute.name] = attribute  # a subgraph stays as it is: it can only run on the CPU
            continue
        value = onnx.helper.get_attribute_value(attribute)
        if isinstance(value, bytes):
            value = value.decode(errors="replace")
        elif isinstance(value, onnx.TensorProto):
            value = _array(value, where)
        elif attribute.type in (onnx.AttributeProto.INTS, onnx.AttributeProto.FLOATS):
            value = list(value)
        elif attribute.type == onnx.AttributeProto.STRINGS:
            value = [text.decode(errors="replace") for text in value]
        attributes[attribute.name] = value
    return Node(node.op_type, node.domain, node.name, tuple(node.input), tuple(node.output), attributes)


def _check_nodes(nodes: Sequence[Node], known: set[str], where: str) -> None:
    """Every operation exists, and everything is made before it is read."""
    onnx = _onnx()
    made = set(known)
    for node in nodes:
        if node.domain in _STANDARD and not onnx.defs.has(node.op):
            raise ModelError(f"{where}: {node.title}: ONNX has no operation {node.op}")
        missing = next((name for name in node.inputs if name and name not in made), None)
        if missing is not None:
            raise ModelError(f"{where}: {node.title} reads {missing}, which nothing before it makes")
        made.update(node.outputs)
