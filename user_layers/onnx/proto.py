"""Parts of a model as ONNX models of their own: for onnxruntime, and for inference of shapes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from firmware_sim.errors import CompileError, ModelError
from user_layers.onnx.fuse import AFFINE
from user_layers.onnx.model import DOMAIN, STANDARD, Array, Model, Node, Value
from user_layers.runtime.onnx_session import first_line

IR_VERSION = 10  # what the oldest onnxruntime that this package takes reads
_LARGEST = 1 << 31  # bytes of a protobuf message


def part_proto(
    model: Model,
    nodes: Sequence[Node],
    inputs: Sequence[str],
    outputs: Sequence[str],
    *,
    shapes: bool = False,
) -> Any:
    """An onnx.ModelProto of some nodes of a model; what they read that is not an input must be a constant.

    Inputs are declared with their types and ranks, with shapes=True also with their extents, outputs with
    their types, where these are known.
    """
    import onnx

    read = dict.fromkeys(name for node in nodes for name in node.reads)
    made = {name for node in nodes for name in node.makes}
    declared = set(inputs)
    kept = [name for name in read if name in model.constants and name not in declared and name not in made]
    graph = onnx.helper.make_graph(
        [proto for node in nodes for proto in _protos(model, node)],
        model.name or "part",
        [_declared(model.value(name), shapes) for name in inputs],
        [_result(model.value(name)) for name in outputs],
        [tensor_proto(model.constants[name], name) for name in kept],
    )
    for node in nodes:
        if node.domain == DOMAIN and node.op == AFFINE:
            graph.initializer.extend(_affine_constants(model, node))
        if node.domain == DOMAIN and node.op == "MatMul":
            graph.initializer.append(_factor(node))
    proto = onnx.helper.make_model(graph, opset_imports=_opsets(model, nodes))
    proto.ir_version = IR_VERSION
    return proto


def with_oldest_opset(proto: Any) -> Any:
    """A copy under the oldest opset of ONNX's own operations in which all its nodes are what they are now."""
    import onnx

    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    for entry in copy.opset_import:
        if entry.domain in STANDARD:
            names = {node.op_type for node in _all_nodes(copy.graph) if node.domain in STANDARD}
            since = [since_version(name, entry.version) for name in names]
            entry.version = max([*since, 1])
    return copy


def since_version(op: str, opset: int) -> int:
    """The opset in which an operation of ONNX became what it is in this one."""
    import onnx

    try:
        return int(onnx.defs.get_schema(op, opset).since_version)
    except onnx.defs.SchemaError:
        return opset


def _all_nodes(graph: Any) -> Iterable[Any]:
    for node in graph.node:
        yield node
        for inner in subgraphs(node):
            yield from _all_nodes(inner)


def serialized(proto: Any, what: str) -> bytes:
    """The bytes of a model. CompileError for one that is too large for the format."""
    size = proto.ByteSize()
    if size >= _LARGEST:
        raise CompileError(f"{what} has constants of {size} bytes; an ONNX model holds less than {_LARGEST}")
    data: bytes = proto.SerializeToString()
    return data


def tensor_proto(array: Array, name: str) -> Any:
    """A constant as an onnx.TensorProto."""
    import onnx

    return onnx.numpy_helper.from_array(np.asarray(array), name)


def array_of(tensor: Any, where: str) -> Array:
    """The values of an onnx.TensorProto. ModelError for one that is damaged."""
    import onnx

    try:
        array: Array = onnx.numpy_helper.to_array(tensor)
    except Exception as error:
        raise ModelError(f"{where}: the constant {tensor.name} is damaged: {first_line(error)}") from None
    return array


def element_type(dtype: np.dtype[Any]) -> int:
    """ONNX's number of a type."""
    import onnx

    return int(onnx.helper.np_dtype_to_tensor_dtype(dtype))


def _declared(value: Value, shapes: bool) -> Any:
    import onnx

    if value.kind != "tensor" or value.dtype is None:
        return onnx.helper.make_empty_tensor_value_info(value.name)
    extents: list[Any] | None = None
    if value.shape is not None:
        extents = [n if shapes and not isinstance(n, str) else None for n in value.shape]
    return onnx.helper.make_tensor_value_info(value.name, element_type(value.dtype), extents)


def _result(value: Value) -> Any:
    import onnx

    if value.kind != "tensor" or value.dtype is None:
        return onnx.helper.make_empty_tensor_value_info(value.name)
    return onnx.helper.make_tensor_value_info(value.name, element_type(value.dtype), None)


def _opsets(model: Model, nodes: Iterable[Node]) -> list[Any]:
    import onnx

    used = {"" if node.domain in STANDARD or is_written_out(node) else node.domain for node in nodes}
    for graph in (graph for node in nodes if node.proto is not None for graph in subgraphs(node.proto)):
        used |= {"" if inner.domain in STANDARD else inner.domain for inner in _all_nodes(graph)}
    known = {**model.opsets, "": model.opset}
    return [onnx.helper.make_opsetid(domain, known.get(domain, 1)) for domain in sorted(used)]


def subgraphs(proto: Any) -> list[Any]:
    """The graphs in the attributes of an onnx.NodeProto."""
    return [
        graph
        for attribute in proto.attribute
        for graph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs)
    ]


def is_written_out(node: Node) -> bool:
    """Whether an operation of this compiler is written in ONNX's own. The others have layers whatever they
    are given, so they never run on the host; inference leaves their results as the patterns knew them."""
    return node.domain == DOMAIN and node.op in (AFFINE, "MatMul")


def _protos(model: Model, node: Node) -> list[Any]:
    import onnx

    if is_written_out(node) and node.op == "MatMul":
        product, scaled = f"{node.outputs[0]}:product", f"{node.outputs[0]}:scaled"
        added = len(node.inputs) > 2
        return [
            onnx.helper.make_node("MatMul", node.inputs[:2], [product]),
            onnx.helper.make_node(
                "Mul", [product, _factor(node).name], [scaled if added else node.outputs[0]]
            ),
            *([onnx.helper.make_node("Add", [scaled, node.inputs[2]], [node.outputs[0]])] if added else []),
        ]
    if is_written_out(node):
        between = f"{node.outputs[0]}:scaled"
        names = [f"{name}:channels" for name in node.inputs[1:]]
        return [
            onnx.helper.make_node("Mul", [node.inputs[0], names[0]], [between]),
            onnx.helper.make_node("Add", [between, names[1]], [node.outputs[0]]),
        ]
    if node.proto is None:
        attributes = {
            key: tensor_proto(value, key) if isinstance(value, np.ndarray) else value
            for key, value in node.attributes.items()
        }
        return [
            onnx.helper.make_node(
                node.op, node.inputs, node.outputs, name=node.name, domain=node.domain, **attributes
            )
        ]
    proto = onnx.NodeProto()
    proto.CopyFrom(node.proto)
    del proto.input[:], proto.output[:]
    proto.input.extend(node.inputs)
    proto.output.extend(node.outputs)
    return [proto]


def _factor(node: Node) -> Any:
    """The factor of a product."""
    return tensor_proto(np.float32(node.attributes.get("alpha", 1.0)).reshape(()), f"{node.outputs[0]}:alpha")


def _affine_constants(model: Model, node: Node) -> list[Any]:
    """Factor and summand of channels as they broadcast in ONNX."""
    rank = len(model.value(node.outputs[0]).shape or ())
    return [
        tensor_proto(model.constants[name].reshape(-1, *[1] * (rank - 2)), f"{name}:channels")
        for name in node.inputs[1:]
    ]
