"""Dynamic nets from ONNX models with smaller inputs than they were compiled for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from firmware_sim.errors import UsageError
from tests.support.onnx_models import build_graph, make_model
from tpulayer import Graph
from user_layers.bmodel import read
from user_layers.graph import BINARY_ADD
from user_layers.onnx.check import TOLERANCE, compare, reference
from user_layers.onnx.command import CompileOptions, run
from user_layers.onnx.load import from_proto
from user_layers.onnx.types import from_net
from user_layers.toolkit import Toolkit

node = helper.make_node
SHAPE = (4, 6, 12, 1)
BATCH, HEIGHT = (3, 6, 12, 1), (4, 6, 7, 1)


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


RESHAPES: dict[str, tuple[list[Any], dict[str, Any], list[tuple[int, ...]]]] = {
    "flatten": ([node("Flatten", ["x"], ["y"])], {}, [BATCH, HEIGHT]),
    "flatten to one row": ([node("Flatten", ["x"], ["y"], axis=0)], {}, []),
    "rest": ([node("Reshape", ["x", "s"], ["y"])], {"s": ints(0, 0, -1)}, [BATCH, HEIGHT]),
    "rest before": ([node("Reshape", ["x", "s"], ["y"])], {"s": ints(-1, 6)}, [BATCH, HEIGHT]),
    "fixed rows": ([node("Reshape", ["x", "s"], ["y"])], {"s": ints(-1, 6, 12)}, [BATCH]),
    "from a shape": (
        [
            node("Shape", ["x"], ["n"], end=1),
            node("Concat", ["n", "m"], ["s"], axis=0),
            node("Reshape", ["x", "s"], ["y"]),
        ],
        {"m": ints(-1)},
        [BATCH, HEIGHT],
    ),
    "squeeze": ([node("Squeeze", ["x"], ["y"])], {}, [BATCH, HEIGHT]),
    "squeeze one": ([node("Squeeze", ["x", "a"], ["y"])], {"a": ints(-1)}, [BATCH, HEIGHT]),
    "unsqueeze": ([node("Unsqueeze", ["x", "a"], ["y"])], {"a": ints(0, -1, 2)}, [BATCH, HEIGHT]),
}


@pytest.mark.parametrize("name", RESHAPES)
def test_reshapes_follow_the_input(name: str, toolkit: Toolkit) -> None:
    nodes, constants, shapes = RESHAPES[name]
    proto = make_model(nodes, {"x": SHAPE}, ["y"], constants)
    graph, _ = build_graph(from_proto(proto), "net", toolkit=toolkit, cpu=False)
    graph.compile(dynamic=True)
    for shape in (SHAPE, *shapes):
        model = from_proto(proto, {"x": shape})
        feeds = {"x": np.random.default_rng(0).standard_normal(shape).astype(np.float32)}
        got = [from_net(array, value) for array, value in zip(graph.run(feeds), model.outputs, strict=True)]
        (found,) = compare(["y"], got, reference(model, feeds))
        assert found.relative <= TOLERANCE


KERNEL = np.random.default_rng(0).standard_normal((4, 6, 3, 3)).astype(np.float32)
FREE: dict[str, tuple[Any, dict[str, Any], bool, bool]] = {
    "windows": (node("Conv", ["x", "w"], ["y"], name="a", pads=[1] * 4), {"w": KERNEL}, True, True),
    "an expanded shape": (
        node("Expand", ["x", "s"], ["y"], name="a"),
        {"s": ints(2, 1, 1, 1, 1)},
        False,
        False,
    ),
    "values from a shape": (node("Mul", ["x", "size"], ["y"], name="a"), {}, True, False),
    "reshape": (node("Flatten", ["x"], ["y"], name="a"), {}, True, True),
}


@pytest.mark.parametrize("name", FREE)
def test_what_a_net_may_not_take_is_found_when_compiling(name: str, toolkit: Toolkit, tmp_path: Path) -> None:
    last, constants, n, h_w = FREE[name]
    nodes = [
        node("Shape", ["x"], ["whole"]),
        node("Gather", ["whole", "two"], ["height"]),
        node("Cast", ["height"], ["size"], to=1),
        last,
    ]
    model = make_model(nodes, {"x": (4, 6, 12, 9)}, ["y"], {"two": np.int64(2), **constants})
    onnx.save(model, str(tmp_path / "m.onnx"))
    lines: list[str] = []
    assert run(CompileOptions(tmp_path / "m.onnx", tmp_path / "net", dynamic=True), lines.append, toolkit)
    (net,) = read(tmp_path / "net" / "compilation.bmodel").nets
    assert (net.stages[0].n_dynamic, net.stages[0].h_w_dynamic) == (n, h_w)
    notes = [line for line in lines if "depends on it" in line]
    expected = [(n, "first extent"), (h_w, "height and width")]
    assert notes == [
        f"inputs need the compiled {what}: layer a depends on it" for free, what in expected if not free
    ]


def test_a_graph_of_a_file_refuses_what_it_would_compute_wrong(toolkit: Toolkit, tmp_path: Path) -> None:
    """Its own layers decide, not what was added since."""
    path = tmp_path / "m.onnx"
    nodes = [node("Shape", ["x"], ["s"]), node("Expand", ["c", "s"], ["t"]), node("Add", ["x", "t"], ["y"])]
    onnx.save(make_model(nodes, {"x": (4, 6)}, ["y"], {"c": np.full(1, 2, np.float32)}), str(path))
    graph = Graph.from_onnx(path, toolkit=toolkit)
    graph.compile(dynamic=True)
    with pytest.raises(UsageError, match="needs the compiled first dimension, 4"):
        graph.run({"x": np.ones((3, 6), np.float32)})
    onnx.save(make_model([node("Relu", ["x"], ["y"])], {"x": (4, 6)}, ["y"]), str(path))
    graph = Graph.from_onnx(path, toolkit=toolkit)
    graph.add_const_binary_layer("y", 1.0, "z", BINARY_ADD)
    path.unlink()  # the graph holds all of the model
    graph.compile(dynamic=True)
    assert graph.run({"x": np.ones((3, 6), np.float32)})[0].shape == (3, 6)
