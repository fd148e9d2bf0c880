"""Protobufs of models with float32 in place of float16 and bfloat16: constants, attributes, types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from user_layers.onnx.proto import array_of, element_type, subgraphs, tensor_proto

_FLOAT = np.dtype(np.float32)
_BFLOAT16 = 16  # in ONNX's files
_ELEMENT_TYPES = (10, _BFLOAT16)
_TYPE_ATTRIBUTES = frozenset({"to", "dtype", "output_dtype", "stash_type"})


def holds_bfloat16(graph: Any) -> bool:
    """Whether an onnx.GraphProto has inputs or constants in bfloat16."""
    types = (info.type.tensor_type.elem_type for info in graph.input)
    return _BFLOAT16 in types or any(tensor.data_type == _BFLOAT16 for tensor in graph.initializer)


def wide_node(proto: Any, names: Mapping[str, str]) -> Any:
    """A copy of an onnx.NodeProto with wide types; names: new ones of values."""
    wide = type(proto)()
    wide.CopyFrom(proto)
    for part in (wide.input, wide.output):
        part[:] = [names.get(name, name) for name in part]
    for attribute in wide.attribute:
        if attribute.name in _TYPE_ATTRIBUTES and attribute.i in _ELEMENT_TYPES:
            attribute.i = element_type(_FLOAT)
        for tensor in (*([attribute.t] if attribute.HasField("t") else []), *attribute.tensors):
            _widen_tensor(tensor)
    for graph in subgraphs(wide):
        widen_graph(graph, names)
    return wide


def widen_graph(graph: Any, names: Mapping[str, str]) -> None:
    """The same for an onnx.GraphProto, which is changed."""
    for info in (*graph.input, *graph.output, *graph.value_info):
        info.name = names.get(info.name, info.name)
        _widen_type(info.type)
    for tensor in graph.initializer:
        _widen_tensor(tensor)
    nodes = [wide_node(node, names) for node in graph.node]
    del graph.node[:]
    graph.node.extend(nodes)


def _widen_type(kind: Any) -> None:
    """An onnx.TypeProto, also of sequences and optional values."""
    which = kind.WhichOneof("value")
    if which == "tensor_type" and kind.tensor_type.elem_type in _ELEMENT_TYPES:
        kind.tensor_type.elem_type = element_type(_FLOAT)
    elif which in ("sequence_type", "optional_type"):
        _widen_type(getattr(kind, which).elem_type)


def _widen_tensor(tensor: Any) -> None:
    if tensor.data_type in _ELEMENT_TYPES:
        tensor.CopyFrom(tensor_proto(array_of(tensor, "the model").astype(_FLOAT), tensor.name))
