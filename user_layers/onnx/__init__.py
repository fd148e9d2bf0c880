"""ONNX models into graphs: `graph_from_onnx`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx

    from user_layers.graph import GraphBuilder
    from user_layers.onnx.custom import MapFunction
    from user_layers.onnx.load import Source
    from user_layers.onnx.model import Model
    from user_layers.toolkit import Toolkit

__all__ = ["graph_from_onnx"]


def graph_from_onnx(
    model: str | Path | onnx.ModelProto,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    custom: Mapping[str, str | MapFunction] | None = None,
    name: str | None = None,
    toolkit: Toolkit | None = None,
    cpu: bool = True,
    graph_type: type[GraphBuilder] | None = None,
    source: Source | None = None,
) -> GraphBuilder:
    """The graph of a model file or an onnx.ModelProto; its inputs and outputs keep their names.

    shapes: of inputs with free dimensions. custom: what nodes become, by their names or operations: a layer
    ("TPU_CROP", with their attributes as fields of the parameter struct), "FILE.py:FUNCTION", or a function
    (see `user_layers.onnx.custom`); nodes in the domain `tpulayer` are layers by themselves. cpu: what no
    layer computes runs on onnxruntime; otherwise it is an error. graph_type: the class of the graph, None:
    GraphBuilder. source: what messages call a ModelProto that stands for a file of another kind.
    Errors: ModelError for files that are not valid models, CompileError naming the nodes that cannot be had,
    UsageError, MissingError without the extra `onnx`.
    """
    from user_layers.graph import GraphBuilder
    from user_layers.onnx.build import build
    from user_layers.onnx.flexible import fixed_extents_of, restricted
    from user_layers.onnx.load import Source as SourceOf
    from user_layers.onnx.load import read_proto

    proto, source = read_proto(model), source or SourceOf.of(model)
    loaded, custom = source.load(proto, shapes), source.mapped(custom)
    kind = graph_type or GraphBuilder
    built = build(loaded, name or source.name, custom=custom, toolkit=toolkit, cpu=cpu, graph_type=kind)

    def read(given: Mapping[str, Sequence[int]]) -> Model:
        return source.load(proto, given)

    built.graph.restrict = lambda net: restricted(net, fixed_extents_of(built, loaded, read, custom, cpu))
    return built.graph
