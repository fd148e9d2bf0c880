"""Slices, splits and gathers that lie in their input as they are: nothing runs; the values are numpy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tpulayer import Graph
from user_layers.compiler.aliases import find_aliases
from user_layers.compiler.attributes import gather_attributes
from user_layers.graph.shapes import infer_shapes
from user_layers.toolkit import Toolkit

ADD = {"binary_op": 0}


def cut(count: int, axis: int, start: int, end: int, step: int = 1) -> dict[str, Any]:
    return {"count": count, "axes": (axis,), "starts": (start,), "ends": (end,), "steps": (step,)}


def net(toolkit: Toolkit, shape: tuple[int, ...], op: str, param: dict[str, Any], outputs: int) -> Graph:
    """The layer on what another one makes, and one behind each of its outputs."""
    graph = Graph(name="net", toolkit=toolkit)
    graph.add_input("x", shape)
    graph.add_tpu_layer("TPU_UNARY", ["x"], {"unary_op": 0}, ["r"])
    inputs = ["r"]
    if op == "TPU_GATHER":
        graph.add_const("list", np.array(param.pop("list"), np.int32))
        inputs.append("list")
    names = [f"p{i}" for i in range(outputs)]
    graph.add_tpu_layer(op, inputs, param, names)
    for i, name in enumerate(names):
        graph.add_tpu_layer("TPU_UNARY", [name], {"unary_op": 0}, [f"y{i}"])
    return graph


# The input's shape, the layer, its outputs, whether it runs, and the outputs by numpy.
CASES: dict[str, tuple[tuple[int, ...], str, dict[str, Any], int, bool, Any]] = {
    "rows": ((1, 8, 5), "TPU_SLICE", cut(1, 1, 2, 7), 1, False, lambda x: [x[:, 2:7]]),
    "from the end": ((8, 5), "TPU_SLICE", cut(1, -2, -3, 99), 1, False, lambda x: [x[-3:]]),
    "one column": ((1, 1, 8), "TPU_SLICE", cut(1, 2, 3, 4, 5), 1, False, lambda x: [x[..., 3:4]]),
    "one column back": ((1, 1, 8), "TPU_SLICE", cut(1, 2, 99, 6, -1), 1, False, lambda x: [x[..., 7:]]),
    "columns": ((8, 5), "TPU_SLICE", cut(1, 1, 1, 4), 1, True, lambda x: [x[:, 1:4]]),
    "steps": ((8, 5), "TPU_SLICE", cut(1, 0, 0, 8, 2), 1, True, lambda x: [x[::2]]),
    "backwards": ((8, 5), "TPU_SLICE", cut(1, 0, 7, 2, -1), 1, True, lambda x: [x[7:2:-1]]),
    "split": ((1, 8, 5), "TPU_SPLIT", {"axis": 1, "sizes": (3, 5)}, 2, False,
              lambda x: [x[:, :3], x[:, 3:]]),
    "split columns": ((2, 8, 5), "TPU_SPLIT", {"axis": 1, "sizes": (3, 5)}, 2, True,
                      lambda x: [x[:, :3], x[:, 3:]]),
    "plane": ((3, 8, 5), "TPU_GATHER", {"axis": 0, "scalar": 1, "list": [-1]}, 1, False, lambda x: [x[-1]]),
    "planes": ((6, 8, 5), "TPU_GATHER", {"axis": 0, "scalar": 0, "list": [2, 3, 4]}, 1, False,
               lambda x: [x[2:5]]),
    "planes apart": ((6, 8, 5), "TPU_GATHER", {"axis": 0, "scalar": 0, "list": [2, 4]}, 1, True,
                     lambda x: [x[[2, 4]]]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("opt", [0, 2])
def test_what_runs(toolkit: Toolkit, name: str, opt: int) -> None:
    shape, op, param, outputs, runs, want = CASES[name]
    graph = net(toolkit, shape, op, dict(param), outputs)
    described = gather_attributes(infer_shapes(graph), toolkit)
    aliases = find_aliases(described, dynamic=False)
    assert (1 in aliases.elided) is not runs
    assert 1 not in find_aliases(described, dynamic=True).elided
    x = np.abs(np.random.default_rng(0).standard_normal(shape)).astype(np.float32)
    graph.compile(opt=opt)
    for got, array in zip(graph.run({"x": x}), want(x), strict=True):
        np.testing.assert_array_equal(got, array)


def test_outputs_and_constants_have_their_places(toolkit: Toolkit) -> None:
    graph = Graph(name="net", toolkit=toolkit)
    graph.add_input("x", (4, 6))
    graph.add_const("c", np.zeros((4, 6), np.float32))
    graph.add_tpu_layer("TPU_SPLIT", ["x"], {"axis": 0, "sizes": (1, 3)}, ["y", "p"])
    graph.add_tpu_layer("TPU_SLICE", ["c"], cut(1, 0, 1, 4), ["q"])
    graph.add_tpu_layer("TPU_EXPAND_DIMS", ["c"], {"axis": 0}, ["e"])
    graph.add_tpu_layer("TPU_SLICE", ["e"], cut(1, 1, 1, 4), ["r"])
    graph.add_tpu_layer("TPU_BINARY", ["p", "q"], ADD, ["pq"])
    graph.add_tpu_layer("TPU_BINARY", ["pq", "r"], ADD, ["z"])
    described = gather_attributes(infer_shapes(graph), toolkit)
    assert not find_aliases(described, dynamic=False).part
    x = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
    graph.compile()
    y, z = graph.run({"x": x})
    np.testing.assert_array_equal(y, x[:1])
    np.testing.assert_array_equal(z, x[None, 1:])


@examples(20)
@given(data=st.data())
def test_pieces_of_pieces(toolkit: Toolkit, data: st.DataObject) -> None:
    """Slices of slices, joined again and written over, in any order: always what numpy gives."""
    graph = Graph(name="net", toolkit=toolkit)
    graph.add_input("x", (1, 12, 4))
    x = np.random.default_rng(0).standard_normal((1, 12, 4)).astype(np.float32)
    known = {"x": x}
    for i in range(data.draw(st.integers(2, 7))):
        name, made = data.draw(st.sampled_from(sorted(known))), f"v{i}"
        value = known[name]
        kind = data.draw(st.sampled_from(["slice", "add", "concat", "relu"]))
        if kind == "slice" and value.shape[1] > 1:
            start = data.draw(st.integers(0, value.shape[1] - 1))
            graph.add_tpu_layer("TPU_SLICE", [name], cut(1, 1, start, 99), [made])
            known[made] = value[:, start:]
        elif kind == "concat":
            other = data.draw(st.sampled_from(sorted(known)))
            graph.add_tpu_layer("TPU_CONCAT", [name, other], {"axis": 1}, [made])
            known[made] = np.concatenate([value, known[other]], 1)
        elif kind == "add":
            graph.add_tpu_layer("TPU_BINARY", [name, name], ADD, [made])
            known[made] = value + value
        else:
            graph.add_tpu_layer("TPU_UNARY", [name], {"unary_op": 0}, [made])
            known[made] = np.maximum(value, 0)
    graph.compile(opt=data.draw(st.sampled_from([0, 1, 2])))
    outputs = [o if isinstance(o, str) else o.name for o in graph.resolve().outputs]
    for name, got in zip(outputs, graph.run({"x": x}), strict=True):
        np.testing.assert_array_equal(got, known[name])
