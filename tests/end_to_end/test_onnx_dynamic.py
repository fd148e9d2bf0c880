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
FREE: dict[str, tuple[Any, dict[str, Any], bool, bool, bool]] = {
    "windows": (node("Conv", ["x", "w"], ["y"], name="a", pads=[1] * 4), {"w": KERNEL}, True, True, True),
    "an expanded shape": (
        node("Expand", ["x", "s"], ["y"], name="a"),
        {"s": ints(2, 1, 1, 1, 1)},
        False,
        False,
        False,
    ),
    "values from a shape": (node("Mul", ["x", "size"], ["y"], name="a"), {}, True, True, False),
    "a triangle": (node("Trilu", ["x"], ["y"], name="a"), {}, True, True, False),
    "reshape": (node("Flatten", ["x"], ["y"], name="a"), {}, True, True, True),
}


@pytest.mark.parametrize("name", FREE)
def test_what_a_net_may_not_take_is_found_when_compiling(name: str, toolkit: Toolkit, tmp_path: Path) -> None:
    last, constants, n, c, h_w = FREE[name]
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
    stage = net.stages[0]
    assert (stage.n_dynamic, stage.c_dynamic, stage.h_w_dynamic) == (n, c, h_w)
    notes = [line for line in lines if "depends on it" in line]
    expected = [(n, "first extent"), (c, "second extent"), (h_w, "height and width")]
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


def extent(axis: int) -> list[Any]:
    """That of x, as n and, in a tensor of one dimension, as k."""
    return [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", f"i{axis}"], ["n"]),
        node("Unsqueeze", ["n", "zero"], ["k"]),
    ]


def sliced(size: str, by: str) -> list[Any]:
    """So much of an axis."""
    return [node("Div", [size, by], ["part"]), node("Slice", ["x", "zero", "part", "a"], ["y"])]


DEPENDING: dict[str, tuple[list[Any], dict[str, Any], tuple[int, ...], tuple[int, ...]]] = {
    "a mean by the number of steps": (
        [
            *extent(1),
            node("Cast", ["n"], ["f"], to=1),
            node("ReduceSum", ["x", "a"], ["s"]),
            node("Div", ["s", "f"], ["y"]),
        ],
        {"a": ints(1)},
        (3, 6, 8),
        (3, 4, 8),
    ),
    "steps in one row": (
        [
            *extent(1),
            node("Mul", ["k", "eight"], ["w"]),
            node("Concat", ["m", "w"], ["s"], axis=0),
            node("Reshape", ["x", "s"], ["y"]),
        ],
        {"eight": ints(8), "m": ints(-1)},
        (4, 6, 8),
        (4, 3, 8),
    ),
    "the first half of the steps": (
        [*extent(1), *sliced("k", "two")],
        {"two": ints(2), "a": ints(1)},
        (2, 7, 8),
        (2, 5, 8),
    ),
    "the first half of the batches": (
        [*extent(0), *sliced("k", "two")],
        {"two": ints(2), "a": ints(0)},
        (5, 4, 8),
        (3, 4, 8),
    ),
    "a quarter of the batches and one": (
        [*extent(0), node("Add", ["k", "four"], ["more"]), *sliced("more", "four")],
        {"four": ints(4), "a": ints(0)},
        (7, 4, 8),
        (3, 4, 8),
    ),
}


@pytest.mark.parametrize("name", DEPENDING)
def test_what_follows_from_an_extent_holds_it(name: str, toolkit: Toolkit) -> None:
    nodes, constants, shape, smaller = DEPENDING[name]
    known = {"zero": ints(0), "i0": np.int64(0), "i1": np.int64(1), **constants}
    read = {value for each in nodes for value in each.input}
    proto = make_model(nodes, {"x": shape}, ["y"], {k: v for k, v in known.items() if k in read})
    graph = Graph.from_onnx(proto, toolkit=toolkit)
    graph.compile(dynamic=True)
    which, most = ("first", shape[0]) if shape[0] != smaller[0] else ("second", shape[1])
    with pytest.raises(UsageError, match=f"needs the compiled {which} dimension, {most}"):
        graph.run({"x": np.ones(smaller, np.float32)})
    free = (shape[0] - 1, *shape[1:]) if which == "second" else (shape[0], shape[1] - 1, *shape[2:])
    feeds = {"x": np.random.default_rng(0).standard_normal(free).astype(np.float32)}
    (found,) = compare(["y"], graph.run(feeds), reference(from_proto(proto, {"x": free}), feeds))
    assert found.relative <= TOLERANCE


def test_inputs_become_smaller_together_where_they_must(toolkit: Toolkit) -> None:
    """The mask has in its third and fourth extents what the tokens have in their second."""
    nodes = [
        *extent(1),
        node("Cast", ["n"], ["f"], to=1),
        node("Transpose", ["x"], ["t"], perm=[0, 2, 1]),
        node("MatMul", ["x", "t"], ["s"]),
        node("Add", ["s", "mask"], ["masked"]),
        node("Div", ["masked", "f"], ["y"]),
    ]
    shapes = {"x": (2, 6, 8), "mask": (1, 6, 6)}
    proto = make_model(nodes, shapes, ["y"], {"zero": ints(0), "i1": np.int64(1)})
    graph = Graph.from_onnx(proto, toolkit=toolkit)
    graph.compile(dynamic=True)
    with pytest.raises(UsageError, match="needs the compiled second dimension, 6"):
        graph.run({"x": np.ones((2, 4, 8), np.float32), "mask": np.ones((1, 4, 4), np.float32)})


def test_a_layer_that_refuses_what_becomes_of_a_smaller_input(toolkit: Toolkit) -> None:
    """The target of the reshape fits no smaller input, so there is no model to compare with."""
    proto = make_model([node("Reshape", ["x", "s"], ["y"])], {"x": (2, 6)}, ["y"], {"s": ints(3, 4)})
    graph = Graph.from_onnx(proto, toolkit=toolkit)
    graph.compile(dynamic=True)
    with pytest.raises(
        UsageError, match=r"'x' has the shape \[2, 5\], compiled for \[2, 6\], .*RESHAPE"
    ) as told:
        graph.run({"x": np.ones((2, 5), np.float32)})
    assert "compile the net for these" in told.value.hint
    assert graph.run({"x": np.ones((2, 6), np.float32)})[0].shape == (3, 4)
