"""ONNX models into graphs: `graph_from_onnx`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from user_layers.graph import Graph
    from user_layers.toolkit import Toolkit

__all__ = ["graph_from_onnx"]


def graph_from_onnx(
    path: str | Path,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    custom: Mapping[str, str] | None = None,
    name: str | None = None,
    toolkit: Toolkit | None = None,
) -> Graph:
    """The graph of a model file; its inputs and outputs keep their names.

    shapes: of inputs with free dimensions. custom: layers for nodes, {node name or operation: "TPU_CROP"};
    nodes in the domain `tpulayer` are layers by themselves. Their attributes are fields of the parameter
    struct. Errors: ModelError for files that are no valid model, CompileError naming the nodes that no layer
    computes, UsageError, MissingError without the extra `onnx`.
    """
    from user_layers.graph import Graph
    from user_layers.onnx.fold import fold_constants
    from user_layers.onnx.fuse import fuse_affine
    from user_layers.onnx.load import load_model
    from user_layers.onnx.lower import Lowering

    model = fuse_affine(fold_constants(load_model(Path(path), shapes)))
    graph = Graph(name=name or Path(path).stem, toolkit=toolkit)
    try:
        Lowering(model, graph, custom).run()
    except BaseException:
        if toolkit is None:
            graph.close()
        raise
    return graph
