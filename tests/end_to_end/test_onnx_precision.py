"""Models in float16 and bfloat16 on the device: computed in float32, said in the log and the report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from firmware_sim.wire import DType
from tests.support.onnx_models import build_graph
from user_layers.bmodel import read
from user_layers.onnx.command import CompileOptions, run
from user_layers.onnx.load import from_proto
from user_layers.toolkit import Toolkit

KINDS = {
    "float16": (TensorProto.FLOAT16, np.float16),
    "bfloat16": (TensorProto.BFLOAT16, ml_dtypes.bfloat16),
    "float32": (TensorProto.FLOAT, np.float32),
}


def _net(weights: str, edge: str) -> Any:
    """A convolution, a Sigmoid and a product, between casts where the edge has other types."""
    rng = np.random.default_rng(5)
    kind, dtype = KINDS[weights]
    constants = {
        "w": rng.standard_normal((8, 3, 3, 3)).astype(dtype),
        "m": rng.standard_normal((6, 4)).astype(dtype),
    }
    nodes = [
        helper.make_node("Conv", ["a", "w"], ["b"], pads=[1] * 4),
        helper.make_node("Sigmoid", ["b"], ["c"]),
        helper.make_node("MatMul", ["c", "m"], ["d"]),
    ]
    first = helper.make_node("Identity", ["x"], ["a"])
    last = helper.make_node("Identity", ["d"], ["y"])
    if edge != weights:
        first = helper.make_node("Cast", ["x"], ["a"], to=kind)
        last = helper.make_node("Cast", ["d"], ["y"], to=KINDS[edge][0])
    graph = helper.make_graph(
        [first, *nodes, last],
        "g",
        [helper.make_tensor_value_info("x", KINDS[edge][0], [1, 3, 5, 6])],
        [helper.make_tensor_value_info("y", KINDS[edge][0], None)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize(
    ("weights", "edge", "held"),
    [
        ("float16", "float16", "float16"),
        ("float16", "float32", "float32"),
        ("bfloat16", "bfloat16", "float32"),
    ],
)
def test_all_of_it_runs_on_the_tpu(
    weights: str, edge: str, held: str, toolkit: Toolkit, tmp_path: Path
) -> None:
    onnx.save(_net(weights, edge), str(tmp_path / "m.onnx"))
    lines: list[str] = []
    assert run(CompileOptions(tmp_path / "m.onnx", tmp_path / "net", report=True), lines.append, toolkit)
    assert "CPU" not in lines[0]
    about = next(line for line in lines if "all of it is computed in float32" in line)
    assert about.startswith(f"{weights} in the model")
    assert sum("equals onnxruntime's" in line for line in lines) == 1
    assert ("own types is" if weights == "float16" else "does not run the model in its own") in lines[-1]
    (net,) = read(tmp_path / "net" / "compilation.bmodel").nets
    stage = net.stages[0]
    assert [DType(t.dtype).numpy_name for t in (*stage.inputs, *stage.outputs)] == [held, held]
    assert about in " ".join((tmp_path / "net" / "report.txt").read_text().split())
    assert about in json.dumps(json.loads((tmp_path / "net" / "report.json").read_text()))


def test_casts_between_equal_types_cost_nothing(toolkit: Toolkit) -> None:
    """float32 at the edge: what made float16 of it has nothing to do."""
    graph, built = build_graph(from_proto(_net("float16", "float32")), toolkit=toolkit)
    # The copy is that of an output, which has a name of its own; the views join rows.
    layers = [node.op.op for node in graph.nodes if node.op.op != "TPU_RESHAPE"]
    assert layers == ["TPU_CONV", "TPU_UNARY", "TPU_MATMUL", "TPU_COPY"]
    assert not built.on_cpu
