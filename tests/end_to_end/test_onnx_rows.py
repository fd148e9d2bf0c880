"""Columns that go into products, rows of pictures that are joined, matrices that are turned: equal values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.support.onnx_models import equals_onnxruntime, make_model
from tpulayer import Graph
from user_layers.onnx.columns import fuse_columns
from user_layers.onnx.load import load_model
from user_layers.onnx.rows import join_rows
from user_layers.onnx.tokens import turn_tokens
from user_layers.toolkit import Toolkit

RNG = np.random.default_rng(8)
CONSTANTS: dict[str, Any] = {
    "w": RNG.standard_normal((6, 24)).astype(np.float32),
    "v": RNG.standard_normal((24, 6)).astype(np.float32),
    "b": RNG.standard_normal(24).astype(np.float32),
    "s": RNG.uniform(0.5, 2, 24).astype(np.float32),
    "m": RNG.standard_normal(24).astype(np.float32),
    "c": RNG.uniform(0.5, 2, 6).astype(np.float32),
    "k": RNG.standard_normal((6, 1, 3, 3)).astype(np.float32),
    "zero": np.float32(0),
    "half": np.float32(0.5),
    "flat": np.array([-1, 24]),
    "tokens": np.array([2, 35, 24]),
    "row": np.array([2, 6, 35]),
    "picture": np.array([2, 6, 5, 7]),
    "split": np.array([2, 35, 3, 2, 4]),
    "windows": np.array([2, 5, 7, 2, 3]),
}


def node(op: str, inputs: str, output: str, **attributes: Any) -> Any:
    return helper.make_node(op, inputs.split(), output.split(), **attributes)


PRODUCT = node("MatMul", "x w", "p")
# The nodes, the shape of x, the outputs, and the operations that are left.
COLUMNS: dict[str, tuple[list[Any], tuple[int, ...], Sequence[str], list[str]]] = {
    "batch normalisation of rows": (
        [PRODUCT, node("Reshape", "p flat", "f"), node("BatchNormalization", "f s b m s", "n"),
         node("Reshape", "n tokens", "y")],
        (2, 35, 6), "y", ["MatMul", "Reshape", "Reshape"],
    ),
    "and back, and on": (
        [PRODUCT, node("Reshape", "p flat", "f"), node("BatchNormalization", "f s b m s", "n"),
         node("Reshape", "n tokens", "r"), node("Relu", "r", "y")],
        (2, 35, 6), "y", ["MatMul", "Reshape", "Relu"],
    ),
    "a bias, a factor and more": (
        [PRODUCT, node("Add", "b p", "a"), node("Mul", "a s", "t"), node("Div", "t s", "d"),
         node("Sub", "d m", "e"),
         node("Mul", "half e", "y")],
        (2, 35, 6), "y", ["MatMul"],
    ),
    "a factor of a sum that is read twice": (
        [PRODUCT, node("Add", "b p", "a"), node("Mul", "a s", "t"), node("Add", "a t", "y")],
        (2, 35, 6), "y", ["MatMul", "Mul", "Add"],
    ),
    "divided by nothing": ([PRODUCT, node("Div", "p zero", "y")], (2, 35, 6), "y", ["MatMul", "Div"]),
    "a quotient of a number": ([PRODUCT, node("Div", "half p", "y")], (2, 35, 6), "y", ["MatMul", "Div"]),
}  # fmt: skip


def _model(nodes: Sequence[Any], shape: Sequence[int], outputs: Sequence[str]) -> Any:
    used = {name for each in nodes for name in each.input}
    return make_model(list(nodes), {"x": shape}, outputs, {n: v for n, v in CONSTANTS.items() if n in used})


def _input(shape: Sequence[int]) -> dict[str, Any]:
    return {"x": np.random.default_rng(1).standard_normal(shape).astype(np.float32)}


@pytest.mark.parametrize("name", COLUMNS)
def test_columns(toolkit: Toolkit, name: str) -> None:
    nodes, shape, outputs, left = COLUMNS[name]
    proto = _model(nodes, shape, outputs)
    assert [one.op for one in fuse_columns(load_model(proto)).nodes] == left
    if "nothing" not in name:
        equals_onnxruntime(toolkit, proto, _input(shape))


NORM = node("LayerNormalization", "x c", "n", axis=-1)
MLP = [
    NORM,
    node("MatMul", "n w", "p"),
    node("Add", "p b", "q"),
    node("Relu", "q", "r"),
    node("MatMul", "r v", "o"),
]
ROWS: dict[str, tuple[list[Any], tuple[int, ...], Sequence[str], int]] = {
    "a perceptron with its sum": ([*MLP, node("Add", "n o", "y")], (2, 5, 7, 6), "y", 2),
    "what is between is read": ([*MLP, node("Add", "n o", "y")], (2, 5, 7, 6), ["y", "q"], 3),
    "a transpose behind it": ([*MLP, node("Transpose", "o", "y", perm=[0, 3, 1, 2])], (2, 5, 7, 6), "y", 2),
    "a sum that is broadcast": ([*MLP, node("Add", "o c", "y")], (2, 5, 7, 6), "y", 2),
    "five dimensions": ([NORM, node("Sigmoid", "n", "y")], (2, 3, 2, 4, 6), "y", 2),
    "three dimensions": ([NORM, node("Sigmoid", "n", "y")], (2, 35, 6), "y", 0),
    "lanes are full": ([NORM, node("Sigmoid", "n", "y")], (1, 64, 3, 6), "y", 0),
    "another axis": ([node("LayerNormalization", "x k2", "y", axis=-2)], (2, 5, 7, 6), "y", 0),
}
CONSTANTS["k2"] = RNG.standard_normal((7, 6)).astype(np.float32)


@pytest.mark.parametrize("name", ROWS)
def test_rows(toolkit: Toolkit, name: str) -> None:
    nodes, shape, outputs, views = ROWS[name]
    proto = _model(nodes, shape, outputs)
    made = join_rows(load_model(proto)).nodes
    assert sum(one.op == "Reshape" for one in made) == views
    equals_onnxruntime(toolkit, proto, _input(shape))


TO, BACK = [0, 2, 3, 1], [0, 3, 1, 2]
CONV = node("Conv", "t k", "o", group=6, pads=[1] * 4)
# What is between two other nodes, which is there to be turned in local memory.
TURNS: dict[str, tuple[list[Any], tuple[int, ...], Sequence[str], list[str]]] = {
    "a row": ([node("Transpose", "i", "o", perm=[0, 2, 1])], (2, 35, 6), "y", ["Turn"]),
    "to a picture": (
        [node("Transpose", "i", "a", perm=[0, 2, 1]), node("Reshape", "a picture", "t"), CONV],
        (2, 35, 6), "y", ["Turn", "Conv"],
    ),
    "from a picture": (
        [node("Reshape", "i row", "a"), node("Transpose", "a", "o", perm=[0, 2, 1])],
        (2, 6, 5, 7), "y", ["Turn"],
    ),
    "channels to the end": ([node("Transpose", "i", "o", perm=TO)], (2, 6, 5, 7), "y", ["Turn", "Reshape"]),
    "and back": (
        [node("Transpose", "i", "t", perm=BACK), CONV], (2, 5, 7, 6), "y", ["Reshape", "Turn", "Conv"],
    ),
    "heads to channels": (
        [node("Reshape", "i split", "a"), node("Transpose", "a", "o", perm=[0, 2, 3, 4, 1])],
        (2, 35, 24), "y", ["Turn", "Reshape"],
    ),
    "no matrices": (
        [node("Reshape", "i split", "a"), node("Transpose", "a", "o", perm=[2, 0, 3, 1, 4])],
        (2, 35, 24), "y", ["Reshape", "Transpose"],
    ),
    "matrices of more than batches": (
        [node("Transpose", "i", "o", perm=[0, 1, 3, 2])], (2, 6, 5, 7), "y", ["Transpose"]
    ),
    "what is between is read": (
        [node("Transpose", "i", "a", perm=[0, 2, 1]), node("Reshape", "a picture", "t"), CONV],
        (2, 35, 6), ["y", "a"], ["Transpose", "Reshape", "Conv"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TURNS)
def test_turns(toolkit: Toolkit, name: str) -> None:
    nodes, shape, outputs, left = TURNS[name]
    proto = _model([node("Sigmoid", "x", "i"), *nodes, node("Sigmoid", "o", "y")], shape, outputs)
    made = turn_tokens(load_model(proto)).nodes
    assert [one.op for one in made] == ["Sigmoid", *left, "Sigmoid"]
    equals_onnxruntime(toolkit, proto, _input(shape))


def test_edges_are_not_turned() -> None:
    """Transposes of inputs and outputs stay, which take any type."""
    for nodes in (
        [node("Transpose", "x", "i", perm=TO), node("Neg", "i", "y")],
        [node("Neg", "x", "i"), node("Transpose", "i", "a", perm=TO), node("Reshape", "a flat", "y")],
    ):
        loaded = load_model(_model(nodes, (2, 24, 5, 7), "y"))
        assert turn_tokens(loaded).nodes == loaded.nodes


def test_turned_bits_are_the_same(toolkit: Toolkit) -> None:
    """They are moved, whatever they mean, infinities and NaN too."""
    graph = Graph(name="net", toolkit=toolkit)
    graph.add_input("x", (2, 6, 5, 7))
    graph.add_tpu_layer("TPU_TURN", ["x"], {"height": 0, "width": 0}, ["y"])
    x = np.arange(420, dtype=np.uint32).view(np.float32).reshape(2, 6, 5, 7).copy()
    x[0, 0, 0, :3] = np.inf, -np.inf, np.nan
    for opt in (0, 1):
        graph.compile(opt=opt)
        (got,) = graph.run({"x": x})
        assert got.tobytes() == np.ascontiguousarray(x.reshape(2, 6, 35).swapaxes(1, 2)).tobytes()
