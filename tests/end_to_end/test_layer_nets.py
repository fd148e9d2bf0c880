"""Each layer of a graph as a net of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from firmware_sim.errors import ModelError, UsageError
from tests.support.workspaces import builtin_toolkit
from tpulayer import BINARY_ADD, BINARY_MUL, Graph, compile_onnx
from user_layers.bmodel import read
from user_layers.bmrt import bmrt_test
from user_layers.card.pack import pack
from user_layers.layer_nets import layer_nets
from user_layers.runtime import BModelRuntime
from user_layers.toolkit import Toolkit


@pytest.fixture(scope="module")
def kit() -> Iterator[Toolkit]:
    with builtin_toolkit() as toolkit:
        yield toolkit


def branches(kit: Toolkit) -> Graph:
    """x -> y -> z, x + y -> s, and a layer that no output needs."""
    graph = Graph("BM1684", name="net", toolkit=kit)
    graph.add_input("x", (2, 5))
    graph.add_const_binary_layer("x", 3.0, "y", BINARY_MUL, name="times")
    graph.add_const_binary_layer("y", 1.0, "z", BINARY_ADD)
    graph.add_const_binary_layer("x", 9.0, "idle", BINARY_ADD)
    graph.add_tpu_layer("TPU_BINARY", ["x", "y"], {}, ["s"])
    for name in ("z", "s"):
        graph.add_output(name)
    return graph


def test_names_inputs_and_data(kit: Toolkit) -> None:
    x = np.arange(10, dtype=np.float32).reshape(2, 5)
    nets, references = layer_nets(branches(kit), {"x": x})
    edges = [
        (net.name, [t.name for t in net.stages[0].inputs], [t.name for t in net.stages[0].outputs])
        for net in nets
    ]
    assert edges == [
        ("000 times (TPU_CONST_BINARY)", ["x"], ["y"]),
        ("001 const_binary_1 (TPU_CONST_BINARY)", ["y"], ["z"]),
        ("003 binary_0 (TPU_BINARY)", ["x", "y"], ["s"]),
        ("whole net", ["x"], ["z", "s"]),
    ]
    assert references[2].inputs == x.tobytes() + (3 * x).tobytes()
    assert references[2].outputs == (4 * x).tobytes()
    assert references[3].outputs == (3 * x + 1).tobytes() + (4 * x).tobytes()


def test_the_folder_is_one_that_bmrt_test_runs(kit: Toolkit, tmp_path: Path) -> None:
    branches(kit).compile(True, directory=tmp_path, layers=True)
    nets = read(tmp_path / "layers" / "compilation.bmodel").nets
    assert [net.is_dynamic for net in nets] == [False] * 4  # also of a dynamic net
    options = bmrt_test.BmrtTestOptions(context_dir=tmp_path / "layers")
    said: list[str] = []
    assert bmrt_test.run(options, device=lambda *_: nullcontext(kit.device), say=said.append) == 0
    assert sum("cmp success" in line for line in said) == 4


def test_the_graph_stays_as_it_is(kit: Toolkit, tmp_path: Path) -> None:
    graph = branches(kit)
    before = (graph.outputs, list(graph.nodes), dict(graph.tensors))
    graph.compile(directory=tmp_path, layers=True)
    assert (graph.outputs, list(graph.nodes), dict(graph.tensors)) == before
    x = np.ones((2, 5), np.float32)
    assert [a.tolist() for a in graph.run({"x": x})] == [(3 * x + 1).tolist(), (4 * x).tolist()]


def test_layers_need_a_directory(kit: Toolkit) -> None:
    with pytest.raises(UsageError, match="layers without a directory"):
        branches(kit).compile(layers=True)


def test_of_a_model_with_a_part_on_the_host(kit: Toolkit, tmp_path: Path) -> None:
    """What runs on the host has no net, nor has the whole; the layers behind it get what it makes."""
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Det", ["r"], ["d"]),
        helper.make_node("Mul", ["d", "d"], ["y"]),
    ]
    info = [helper.make_tensor_value_info("x", TensorProto.FLOAT, (4, 3, 3))]
    out = [helper.make_tensor_value_info("y", TensorProto.FLOAT, (4,))]
    model = helper.make_model(
        helper.make_graph(nodes, "part", info, out), opset_imports=[helper.make_opsetid("", 13)]
    )
    model.ir_version = 8
    compile_onnx(model, tmp_path / "part", layers=True, toolkit=kit)
    nets = read(tmp_path / "part" / "layers" / "compilation.bmodel").nets
    assert len(nets) == 2 and all("CPU" not in net.name for net in nets)
    with BModelRuntime(kit.device) as runtime:
        assert len(runtime.load(tmp_path / "part" / "layers")) == 2
    with pytest.raises(ModelError, match="has a part that runs on the host"):
        pack(tmp_path / "part", tmp_path / "out", machines=["x86_64"], toolkit=kit)
    assert not (tmp_path / "out").exists()
