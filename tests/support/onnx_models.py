"""Small ONNX models for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from tpulayer import Graph
from user_layers.onnx.build import Built, build
from user_layers.onnx.check import TOLERANCE, compare, reference
from user_layers.onnx.load import load_model
from user_layers.onnx.model import Model
from user_layers.toolkit import Toolkit

FLOAT = TensorProto.FLOAT


def make_model(
    nodes: Sequence[Any],
    inputs: Mapping[str, Sequence[int | str]],
    outputs: Sequence[str],
    constants: Mapping[str, Any] | None = None,
    opset: int = 17,
) -> Any:
    """A ModelProto whose inputs and outputs are float32; the outputs' shapes are left to inference."""
    graph = helper.make_graph(
        list(nodes),
        "model",
        [helper.make_tensor_value_info(name, FLOAT, list(shape)) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in (constants or {}).items()],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("tpulayer", 1)]
    model = helper.make_model(graph, opset_imports=opsets)
    model.ir_version = 8
    return model


def normal_input(proto: Any, seed: int) -> dict[str, np.ndarray[Any, Any]]:
    """Random numbers for a model with one input."""
    (x,) = proto.graph.input
    shape = [extent.dim_value for extent in x.type.tensor_type.shape.dim]
    return {x.name: np.random.default_rng(seed).standard_normal(shape).astype(np.float32)}


def equals_onnxruntime(
    toolkit: Toolkit, proto: Any, x: Mapping[str, np.ndarray[Any, Any]], **options: Any
) -> Graph:
    """Compile the model, run it on these inputs and compare all outputs. options: of Graph.compile."""
    model = load_model(proto)
    graph = Graph.from_onnx(proto, toolkit=toolkit)
    graph.compile(**options)
    for difference in compare([value.name for value in model.outputs], graph.run(x), reference(model, x)):
        assert difference.relative <= TOLERANCE, difference
    return graph


def build_graph(model: Model, name: str = "net", **options: Any) -> tuple[Graph, Built]:
    """The graph of a model, to be compiled and run, and what became of its nodes. options: of `build`."""
    built = build(model, name, graph_type=Graph, **options)
    assert isinstance(built.graph, Graph)
    return built.graph, built
