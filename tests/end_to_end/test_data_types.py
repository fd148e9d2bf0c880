"""Quantised tensors through the whole house: layers that take integers in 4N and 2N, alone, in groups and
dynamically, with the conversions that the compiler puts around them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware_sim.errors import CompileError, UsageError
from firmware_sim.wire import DType, StoreMode
from tests.support.quantised import ENDS, MODES, Array, floats, integers
from tests.support.workspaces import layers_toolkit
from tpulayer import Graph
from user_layers.bmodel.read import read
from user_layers.compiler.attributes import gather_attributes
from user_layers.compiler.grouping import Group
from user_layers.compiler.pipeline import compile_graph, plan_net
from user_layers.compiler.prepare import prepare_constants
from user_layers.graph import BINARY_ADD, BINARY_MUL
from user_layers.graph.shapes import infer_shapes
from user_layers.toolkit import Toolkit


@pytest.fixture(scope="module")
def toolkit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Toolkit]:
    with layers_toolkit(tmp_path_factory, "data_type_layers") as opened:
        yield opened


def twice(x: Array) -> Array:
    found: Array = np.clip(2 * x.astype(np.int64), *ENDS[x.dtype.name]).astype(x.dtype)
    return found


def quantised(x: Array, scale: float, dtype: str) -> Array:
    """TPU_QUANTIZE as its documentation has it."""
    steps = x.astype(np.float32) * (np.float32(1) / np.float32(scale))
    found: Array = np.clip(np.rint(steps), *ENDS[dtype]).astype(dtype)
    return found


def ran(graph: Graph, x: Array, **options: Any) -> Array:
    graph.compile(**options)
    (y,) = graph.run({"x": x})
    return y


@pytest.mark.parametrize("options", MODES, ids=str)
@pytest.mark.parametrize("n", [1, 4, 6])
@pytest.mark.parametrize(("op", "dtype"), [("8", "int8"), ("8", "uint8"), ("16", "int16")])
def test_an_integer_layer_doubles(
    toolkit: Toolkit, op: str, dtype: str, n: int, options: dict[str, Any]
) -> None:
    """Alone and in a chain, which is a group where there are groups: the same integers everywhere."""
    graph = Graph(name="net", toolkit=toolkit)
    shape = (n, 70, 5, 7)
    graph.add_input("x", shape, dtype, scale=0.25)
    for i in range(3):
        graph.add_tpu_layer(f"TPU_DOUBLE{op}", [f"t{i}" if i else "x"], {}, [f"t{i + 1}"])
    x = integers(shape, dtype, n)
    assert np.array_equal(ran(graph, x, **options), twice(twice(twice(x))))


@pytest.mark.parametrize("options", MODES, ids=str)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_conversions_stand_around_layers(toolkit: Toolkit, dtype: str, options: dict[str, Any]) -> None:
    """An fp32 layer, an integer one, an fp32 one: fp32 at both ends, and the exact integers in between."""
    graph = Graph(name="net", toolkit=toolkit)
    shape, scale = (5, 66, 9, 3), 0.05
    graph.add_input("x", shape)
    graph.add_const_binary_layer("x", 0.5, "a", BINARY_MUL)
    graph.set_scale("a", scale)
    graph.add_tpu_layer("TPU_DOUBLE8", ["a"], {}, ["b"])
    graph.add_const_binary_layer("b", 1.0, "y", BINARY_ADD)
    x = np.random.default_rng(1).normal(0, 8, shape).astype(np.float32)
    want = floats(twice(quantised(x * np.float32(0.5), scale, "int8")), scale) + np.float32(1)
    assert np.array_equal(ran(graph, x, **options), want)


def test_a_long_group_is_cut_at_whole_words(toolkit: Toolkit) -> None:
    """Tiles along n begin at multiples of 4 batches, also of the fp32 tensors beside them."""
    graph = Graph(name="net", toolkit=toolkit)
    shape = (22, 64, 60, 61)
    graph.add_input("x", shape)
    graph.set_scale("x", 0.1)
    graph.add_tpu_layer("TPU_DOUBLE8", ["x"], {}, ["b"])
    graph.add_const_binary_layer("b", 3.0, "y", BINARY_MUL)
    described = prepare_constants(gather_attributes(infer_shapes(graph), toolkit))
    plan = plan_net(described, opt=1)
    (group,) = (s for s in plan.schedule.segments if isinstance(s, Group))
    assert len(group.tiling.n) > 1
    assert all(window.first % 4 == 0 for part in group.tiling.n for window in part.made.values())
    x = np.random.default_rng(2).normal(0, 5, shape).astype(np.float32)
    want = floats(twice(quantised(x, 0.1, "int8")), 0.1) * np.float32(3)
    assert np.array_equal(ran(graph, x, opt=1), want)


def test_the_controller_does_the_same(toolkit: Toolkit) -> None:
    """On the images for the controller, static and dynamic."""
    x = np.random.default_rng(3).normal(0, 8, (5, 66, 9, 3)).astype(np.float32)
    results = []
    with Toolkit(toolkit.workspace, firmware="arm") as controller:
        for dynamic in (False, True):
            graph = Graph(name="net", toolkit=controller)
            graph.add_input("x", x.shape)
            graph.set_scale("x", 0.1)
            graph.add_tpu_layer("TPU_DOUBLE8", ["x"], {}, ["b"])
            graph.add_const_binary_layer("b", 3.0, "y", BINARY_MUL)
            results.append(ran(graph, x, dynamic=dynamic))
    want = floats(twice(quantised(x, 0.1, "int8")), 0.1) * np.float32(3)
    assert all(np.array_equal(y, want) for y in results)


@settings(max_examples=25)
@given(
    n=st.integers(1, 9),
    rest=st.lists(st.integers(1, 70), max_size=2),
    seed=st.integers(0, 99),
    dtype=st.sampled_from(["int8", "uint8"]),
)
def test_conversions_of_any_shape(toolkit: Toolkit, n: int, rest: list[int], seed: int, dtype: str) -> None:
    """TPU_DEQUANTIZE and TPU_QUANTIZE, in DDR and in local memory, against numpy."""
    shape, scale = (n, *rest), 0.07
    for opt in (0, 1):
        graph = Graph(name="net", toolkit=toolkit)
        graph.add_input("x", shape, dtype, scale=scale)
        graph.add_const_binary_layer("x", 1.5, "a", BINARY_MUL)
        graph.add_tpu_layer("TPU_QUANTIZE", ["a"], {"dtype": int(DType.INT8), "scale": 0.11}, ["y"])
        x = integers(shape, dtype, seed)
        want = quantised(floats(x, scale) * np.float32(1.5), 0.11, "int8")
        assert np.array_equal(ran(graph, x, opt=opt), want)


def test_formats_are_in_the_net_and_the_bmodel(toolkit: Toolkit, tmp_path: Path) -> None:
    graph = Graph(name="net", toolkit=toolkit)
    graph.add_input("x", (2, 8, 4, 4), "int8", scale=0.5)
    graph.add_tpu_layer("TPU_DOUBLE8", ["x"], {"rescale": 1}, ["y"])
    assert repr(graph).count("int8 4N x 0.5") == 1
    net = compile_graph(graph)
    (stage,) = net.stages
    (y,) = stage.outputs
    assert (y.dtype, y.store_mode, y.scale, y.nbytes) == (DType.INT8, StoreMode.N4, 1.0, 4 * 8 * 4 * 4)
    graph.compile(directory=tmp_path)
    model = read(tmp_path / "compilation.bmodel")
    (x,) = model.nets[0].stages[0].inputs
    assert (x.dtype, x.store_mode, x.scale) == (int(DType.INT8), int(StoreMode.N4), 0.5)
    x_values = integers((2, 8, 4, 4), "int8")
    assert np.array_equal(ran(graph, x_values), x_values)


def test_a_tensor_is_converted_once_for_several_layers(toolkit: Toolkit) -> None:
    graph = Graph(name="net", toolkit=toolkit)
    graph.add_input("x", (1, 4, 4, 4), "uint8", scale=0.5)
    graph.add_const_binary_layer("x", 2.0, "a", BINARY_MUL)
    graph.add_const_binary_layer("x", 3.0, "b", BINARY_MUL)
    assert [node.op.short for node in infer_shapes(graph).nodes] == [
        "DEQUANTIZE",
        "CONST_BINARY",
        "CONST_BINARY",
    ]


def test_other_integers_go_by_fp32(toolkit: Toolkit) -> None:
    """To int16 there is no conversion yet."""
    graph = Graph(name="net", toolkit=toolkit)
    graph.add_input("x", (1, 4, 4, 4), "uint8", scale=0.5)
    graph.add_tpu_layer("TPU_DOUBLE16", ["x"], {}, ["y"])
    with pytest.raises(
        CompileError,
        match=r"int16 2N x 0.0038\d*, and 'x:float32' is float32: float32 becomes int8",
    ):
        infer_shapes(graph)


def test_mistakes_are_told(toolkit: Toolkit) -> None:
    graph = Graph(name="net", toolkit=toolkit)
    with pytest.raises(UsageError, match="a scale for float32"):
        graph.add_input("x", (1, 4), scale=0.5)
    with pytest.raises(UsageError, match="int8 has no store mode 2N"):
        graph.add_input("x", (1, 4), "int8", store_mode="2N")
    with pytest.raises(UsageError, match="no store mode is '3N'"):
        graph.add_input("x", (1, 4), "int8", store_mode="3N")
    for scale in (0, -1.0, float("nan"), float("inf"), 1e300, "one", True):
        with pytest.raises(UsageError, match="is not a positive number"):
            graph.add_input("x", (1, 4), "int8", scale=scale)  # type: ignore[arg-type]
    graph.add_input("x", (1, 4, 4, 4))
    graph.add_tpu_layer("TPU_DOUBLE8", ["x"], {}, ["y"])
    with pytest.raises(CompileError, match="'x' is float32 without a scale"):
        graph.compile()
    graph.add_input("z", (1, 4, 4, 4), "int8", store_mode="4N")
    graph.add_const_binary_layer("z", 2.0, "a", BINARY_MUL)
    with pytest.raises(CompileError, match="'z' is int8 4N: a tensor without a scale is not converted"):
        infer_shapes(graph, ["a"])
    with pytest.raises(UsageError, match="no tensor is called 'nobody'"):
        graph.set_scale("nobody", 1.0)
