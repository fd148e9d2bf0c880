"""Elements and rows chosen or replaced by indices, running sums, whole numbers computed as float32."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from tests.support.examples import examples
from tests.support.onnx_models import make_model
from tpulayer import Graph
from user_layers.onnx.check import TOLERANCE, compare, reference
from user_layers.onnx.load import load_model
from user_layers.onnx.types import from_net, to_net
from user_layers.toolkit import Toolkit

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(7)


def node(op: str, inputs: str, outputs: str = "y", /, **attributes: Any) -> Any:
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


def f32(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def whole(low: int, high: int, *shape: int) -> Array:
    return RNG.integers(low, high, shape)


def run(
    toolkit: Toolkit, nodes: Sequence[Any], x: Mapping[str, Array], c: Mapping[str, Array], opset: int = 18
) -> tuple[Graph, list[Array]]:
    """All of it in layers, as onnxruntime has it; the outputs y, and z where something makes it."""
    names = [name for name in ("y", "z") if any(name in one.output for one in nodes)]
    proto = make_model(nodes, {name: list(array.shape) for name, array in x.items()}, names, c, opset)
    for value in proto.graph.input:
        value.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(x[value.name].dtype)
    for value in proto.graph.output:
        value.type.tensor_type.ClearField("elem_type")
    proto = onnx.shape_inference.infer_shapes(proto)
    model = load_model(proto)
    graph = Graph.from_onnx(proto, toolkit=toolkit)
    assert not [one.name for one in graph.nodes if one.cpu is not None]
    graph.compile()
    given = {
        value.name: to_net(x[value.name], value) for value in model.inputs if graph.has_tensor(value.name)
    }
    results = graph.run(given)
    got = [from_net(array, value) for array, value in zip(results, model.outputs, strict=True)]
    for found in compare(names, got, reference(model, dict(x))):
        assert found.relative <= TOLERANCE, found
    return graph, got


@pytest.mark.parametrize("attributes", [{}, {"exclusive": 1}, {"reverse": 1}, {"exclusive": 1, "reverse": 1}])
@pytest.mark.parametrize(("shape", "axis"), [((9,), 0), ((5, 70), -1), ((3, 40, 6), 1), ((2, 3, 8, 5), 1)])
def test_running_sums(
    toolkit: Toolkit, shape: tuple[int, ...], axis: int, attributes: dict[str, int]
) -> None:
    run(toolkit, [node("CumSum", "x a", **attributes)], {"x": f32(*shape)}, {"a": np.array(axis)})


@examples(10)
@given(
    seed=st.integers(0, 2**20),
    before=st.lists(st.integers(1, 3), max_size=2),
    behind=st.lists(st.integers(1, 4), max_size=2),
    places=st.integers(1, 20),
    count=st.integers(1, 9),
    constant=st.booleans(),
    op=st.sampled_from(["GatherElements", "none", "add"]),
)
def test_elements_by_indices(
    toolkit: Toolkit,
    seed: int,
    before: list[int],
    behind: list[int],
    places: int,
    count: int,
    constant: bool,
    op: str,
) -> None:
    """Indices of both signs; each place is named once where updates are not added."""
    rng = np.random.default_rng(seed)
    count = min(count, places) if op == "none" else count
    shape, chosen = (*before, places, *behind), (*before, count, *behind)
    index = rng.integers(-places, places, chosen)
    if op == "none":
        order = np.argsort(rng.random(shape), axis=len(before))
        index = np.take(order, range(count), axis=len(before)) - places * rng.integers(0, 2, chosen)
    x: dict[str, Array] = {"x": rng.standard_normal(shape).astype(np.float32)}
    c: dict[str, Array] = {}
    (c if constant else x)["i"] = index
    if op == "GatherElements":
        made = node(op, "x i", axis=len(before))
    else:
        x["u"] = rng.standard_normal(chosen).astype(np.float32)
        made = node("ScatterElements", "x i u", axis=len(before), reduction=op)
    run(toolkit, [made], x, c)


@pytest.mark.parametrize(("first", "step", "slope"), [(63, 1, -1), (20, 0, 1), (60, -2, 1), (40, 3, -1)])
def test_rows_that_slide(toolkit: Toolkit, first: int, step: int, slope: int) -> None:
    """Relative positions, as attention has them: moves of whole rows, and nothing compared."""
    index = first + step * np.arange(16)[:, None] + slope * np.arange(20)
    index = np.broadcast_to(index, (2, 3, 16, 20)).copy()
    graph, _ = run(toolkit, [node("GatherElements", "x i", axis=-1)], {"x": f32(2, 3, 16, 110)}, {"i": index})
    assert {one.op.short for one in graph.nodes} <= {"RESHAPE", "PAD", "SLICE"}


@examples(10)
@given(
    seed=st.integers(0, 2**20),
    before=st.lists(st.integers(1, 3), max_size=2),
    rows=st.integers(2, 12),
    columns=st.integers(2, 12),
    places=st.integers(1, 20),
    rising=st.booleans(),
)
def test_elements_by_distances(
    toolkit: Toolkit, seed: int, before: list[int], rows: int, columns: int, places: int, rising: bool
) -> None:
    """The place depends on column - row, or on column + row, as with positions put into buckets."""
    rng = np.random.default_rng(seed)
    of_each = rng.integers(-places, places, rows + columns - 1)
    row, column = np.arange(rows)[:, None], np.arange(columns)
    index = of_each[column + row if rising else column - row + rows - 1]
    index = np.broadcast_to(index, (*before, rows, columns)).copy()
    x = {"x": rng.standard_normal((*before, rows, places)).astype(np.float32)}
    graph, _ = run(toolkit, [node("GatherElements", "x i", axis=-1)], x, {"i": index})
    assert "WHERE" not in {one.op.short for one in graph.nodes}


def test_indices_out_of_range_show_in_the_result(toolkit: Toolkit) -> None:
    nodes = [node("GatherElements", "x i", axis=1), node("ScatterElements", "x i u", "z", axis=1)]
    proto = make_model(nodes, {"x": [2, 5], "i": [2, 3], "u": [2, 3]}, ["y", "z"], {}, 18)
    proto.graph.input[1].type.tensor_type.elem_type = onnx.TensorProto.INT64
    graph = Graph.from_onnx(proto, toolkit=toolkit)
    graph.compile()
    index = np.array([[0, 4, 5], [-1, 2, -5]], np.int32)
    y, z = graph.run({"x": f32(2, 5), "i": index, "u": f32(2, 3)})
    assert np.isnan(y).tolist() == [[False, False, True], [False] * 3]
    assert np.isnan(z).all(axis=1).tolist() == [True, False] and not np.isnan(z[1]).any()


def test_rows_by_constant_indices(toolkit: Toolkit) -> None:
    nodes = [node("GatherND", "x i"), node("ScatterND", "x i u", "z")]
    index = np.array([[0, 1], [2, -1], [-1, 0]])
    run(toolkit, nodes, {"x": f32(3, 4, 5), "u": f32(3, 5)}, {"i": index})


@pytest.mark.parametrize(
    ("box", "shape", "parts"),
    [
        ([range(3), range(1, 3)], (3, 4, 50), 1),  # x[:, 1:3] = u, as torch writes it
        ([range(2), range(1, 4), range(2, 5)], (2, 5, 5, 7), 2),  # x[:, 1:4, 2:] = u
        ([range(1, 2), range(4)], (3, 4, 50), 1),  # x[1] = u
        ([range(2), range(3), range(4)], (2, 3, 4), 0),  # x[:] = u
    ],
)
def test_a_part_that_is_written_over(
    toolkit: Toolkit, box: list[range], shape: tuple[int, ...], parts: int
) -> None:
    """No list of rows goes to the device with it, however many there are."""
    index = np.stack(np.meshgrid(*box, indexing="ij"), -1)
    updates = f32(*map(len, box), *shape[len(box) :])
    nodes = [node("ScatterND", "x i u", "z"), node("Add", "z x", "y")]
    graph, _ = run(toolkit, nodes, {"x": f32(*shape), "u": updates}, {"i": index})
    made = [one.op.short for one in graph.nodes]
    assert "GATHER" not in made and made.count("CONCAT") == parts


@pytest.mark.parametrize("places", [[[0]], [[-1]], [[[0, 0], [0, 1]]]], ids=repr)
def test_an_input_that_is_all_written_over_disappears(toolkit: Toolkit, places: Any) -> None:
    """And so does what was computed of it for nothing else."""
    index = np.array(places)
    shape = (1, 2, 7) if index.shape[-1] == 2 else (1, 7)
    updates = f32(*index.shape[:-1], *shape[index.shape[-1] :])
    nodes = [node("Relu", "x", "r"), node("ScatterND", "r i u", "z"), node("Abs", "z", "y")]
    graph, _ = run(toolkit, nodes, {"x": f32(*shape), "u": updates}, {"i": index})
    assert list(graph.inputs) == ["u"]


def test_rows_that_change_places_when_they_are_written_over(toolkit: Toolkit) -> None:
    """All rows of a part, but not in its order."""
    index = np.array([[2], [1], [3]])
    run(toolkit, [node("ScatterND", "x i u")], {"x": f32(4, 50), "u": f32(3, 50)}, {"i": index})


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_one_hot(toolkit: Toolkit, axis: int) -> None:
    constants = {"d": np.array(6), "v": np.array([0.5, 2], np.float32)}
    run(toolkit, [node("OneHot", "i d v", axis=axis)], {"i": whole(-8, 8, 4, 5)}, constants)


@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("k", [None, -2, 1])
def test_triangles(toolkit: Toolkit, upper: int, k: int | None) -> None:
    constants = {} if k is None else {"k": np.array(k)}
    run(toolkit, [node("Trilu", "x k" if constants else "x", upper=upper)], {"x": f32(2, 6, 8)}, constants)


def test_positions_behind_padding_are_counted_on_the_device(toolkit: Toolkit) -> None:
    """cumsum(ids != 1) * (ids != 1) + 1, and a row for each; ids may be any numbers."""
    nodes = [
        node("Equal", "i one", "pad"),
        node("Not", "pad", "kept"),
        node("Cast", "kept", "k", to=onnx.TensorProto.INT32),
        node("CumSum", "k a", "s"),
        node("Mul", "s k", "p"),
        node("Cast", "p", "q", to=onnx.TensorProto.INT64),
        node("Add", "q one", "z"),
        node("Gather", "t z", "y"),
    ]
    ids = whole(0, 4, 2, 30)
    ids[0, :3] = [2**31 - 1, -(2**31), 2**24 + 1]
    _, (_, positions) = run(
        toolkit, nodes, {"i": ids}, {"one": np.array(1), "a": np.array(1), "t": f32(40, 8)}
    )
    assert positions.dtype == np.int64


def test_where_the_end_of_a_text_is(toolkit: Toolkit) -> None:
    """The first of the largest numbers, an argument of a sum."""
    nodes = [
        node("Equal", "i end", "e"),
        node("Cast", "e", "n", to=onnx.TensorProto.INT32),
        node("ArgMax", "n", "m", axis=1, keepdims=0),
        node("Add", "m first", "y"),
    ]
    constants = {"end": np.array(9), "first": np.arange(3) * 12}
    run(toolkit, nodes, {"i": whole(0, 12, 3, 12)}, constants)


def test_numbers_that_float32_may_not_hold_stay_on_the_host(toolkit: Toolkit) -> None:
    nodes = [node("Add", "i k", "s"), node("Cast", "s", "y", to=onnx.TensorProto.FLOAT)]
    for large, host in ((2**24, 1), (5, 1)):
        proto = make_model(nodes, {"i": [4]}, ["y"], {"k": np.array(large)}, 18)
        proto.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.INT64
        graph = Graph.from_onnx(proto, toolkit=toolkit)
        assert sum(one.cpu is not None for one in graph.nodes) == host
