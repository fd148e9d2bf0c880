"""Gather with computed indices: copies by the controller, and products with small tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from firmware_sim.errors import TpulayerError
from tests.support.examples import examples
from tpulayer import Graph
from user_layers.toolkit import Toolkit

RNG = np.random.default_rng(12)


def _lookup(table: Any, places: tuple[int, ...], axis: int = 0, kind: int = TensorProto.INT64) -> Any:
    """A model that looks up places of the table, which is a constant where it is an array, else an input."""
    fixed = isinstance(table, np.ndarray)
    inputs = [helper.make_tensor_value_info("i", kind, places)]
    if not fixed:
        inputs.insert(0, helper.make_tensor_value_info("t", TensorProto.FLOAT, table))
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    nodes = [helper.make_node("Gather", ["t", "i"], ["y"], axis=axis)]
    constants = [numpy_helper.from_array(table, "t")] if fixed else []
    graph = helper.make_graph(nodes, "g", inputs, outputs, constants)
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


def _ops(graph: Graph) -> set[str]:
    return {layer.op.op for layer in graph.nodes}


@examples(6)
@given(data=st.data())
def test_rows_of_a_table(toolkit: Toolkit, data: st.DataObject) -> None:
    """Whichever way they are looked up, their bits, static and dynamic, from either end."""
    places = tuple(data.draw(st.lists(st.integers(1, 4), min_size=0, max_size=3)))
    rows, rest = data.draw(st.integers(1, 70)), data.draw(st.lists(st.integers(1, 5), max_size=2))
    table = RNG.standard_normal((rows, *rest)).astype(np.float32)
    if data.draw(st.booleans()):
        table.reshape(-1)[0] = -0.0  # which a product would not keep
    indices = RNG.integers(-rows, rows, places)
    graph = Graph.from_onnx(_lookup(table, places), toolkit=toolkit, cpu=False)
    graph.compile(dynamic=data.draw(st.booleans()))
    (y,) = graph.run({"i": np.asarray(indices, np.int32).reshape(places or (1,))})
    want = table[indices].reshape((*places, *rest) or (1,))
    assert y.shape == want.shape and y.tobytes() == want.tobytes()


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_planes_of_what_the_net_computes(axis: int, toolkit: Toolkit) -> None:
    x, indices = RNG.standard_normal((3, 4, 5)).astype(np.float32), np.array([[2, -1], [0, 0]])
    graph = Graph.from_onnx(
        _lookup(x.shape, indices.shape, axis, TensorProto.INT32), toolkit=toolkit, cpu=False
    )
    graph.compile()
    (y,) = graph.run({"t": x, "i": indices.astype(np.int32)})
    assert np.array_equal(y, np.take(x, indices, axis))


@pytest.mark.parametrize(
    ("rows", "width", "count", "product"),
    [(2, 64, 40, True), (500, 32, 60, True), (20_000, 32, 8, False), (500, 32, 1, False)],
)
def test_small_tables_are_read_as_a_whole(
    rows: int, width: int, count: int, product: bool, toolkit: Toolkit
) -> None:
    table = RNG.standard_normal((rows, width)).astype(np.float32)
    graph = Graph.from_onnx(_lookup(table, (count,)), toolkit=toolkit, cpu=False)
    assert ("TPU_MATMUL" in _ops(graph), "TPU_GATHER" in _ops(graph)) == (product, not product)
    indices = RNG.integers(-rows, rows, count).astype(np.int32)
    graph.compile()
    assert np.array_equal(graph.run({"i": indices})[0], table[indices])


@pytest.mark.parametrize("value", [np.inf, np.nan, -0.0, 1e-40])
def test_tables_that_products_do_not_keep(value: float, toolkit: Toolkit) -> None:
    table = RNG.standard_normal((3, 8)).astype(np.float32)
    table[1, 2] = value
    graph = Graph.from_onnx(_lookup(table, (60,)), toolkit=toolkit, cpu=False)
    assert _ops(graph) == {"TPU_GATHER"}


@pytest.mark.parametrize("wrong", [7, -8, 2**31 - 1, -(2**31)])
def test_an_index_that_is_out_of_range(wrong: int, toolkit: Toolkit) -> None:
    """NaN in its row, or an error; nothing else is touched."""
    table = RNG.standard_normal((7, 8)).astype(np.float32)
    indices = np.arange(-7, 50) % 7
    indices[20] = wrong
    product = Graph.from_onnx(_lookup(table, indices.shape), toolkit=toolkit, cpu=False)
    product.compile()
    (y,) = product.run({"i": indices.astype(np.int32)})
    assert "TPU_MATMUL" in _ops(product) and np.isnan(y[20]).all()
    rest = np.arange(len(indices)) != 20
    assert np.array_equal(y[rest], table[indices[rest]])
    copies = Graph.from_onnx(_lookup(table.shape, indices.shape), toolkit=toolkit, cpu=False)
    copies.compile()
    with pytest.raises(TpulayerError, match=r"TPU_GATHER.*BM_LAYER_RUNTIME_ERROR"):
        copies.run({"t": table, "i": indices.astype(np.int32)})


def test_smaller_shapes_of_a_dynamic_net(toolkit: Toolkit) -> None:
    table = RNG.standard_normal((30, 16)).astype(np.float32)
    graph = Graph.from_onnx(_lookup(table, (4, 12)), toolkit=toolkit, cpu=False)
    assert "TPU_MATMUL" in _ops(graph)
    graph.compile(dynamic=True)
    for shape in ((4, 12), (3, 12), (1, 5)):
        indices = RNG.integers(-30, 30, shape).astype(np.int32)
        assert np.array_equal(graph.run({"i": indices})[0], table[indices])
