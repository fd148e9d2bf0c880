"""Channels that come last for a while stay where they are, biases and factors go into products, and
normalisations written out are one layer: the same values, and other layers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.support.onnx_models import make_model
from tests.support.workspaces import builtin_toolkit
from tpulayer import Graph
from user_layers.onnx.check import TOLERANCE, compare, reference
from user_layers.onnx.load import load_model
from user_layers.toolkit import Toolkit


def node(op: str, inputs: str, output: str, **attributes: Any) -> Any:
    return helper.make_node(op, inputs.split(), output.split(), **attributes)


def numbers(shape: Sequence[int], seed: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


CONSTANTS: dict[str, Any] = {
    "up": numbers((6, 10), 1),
    "down": numbers((10, 6), 2),
    "ten": numbers((10,), 3),
    "six": numbers((6,), 4),
    "also": numbers((6,), 5),
    "column": numbers((5, 1), 6),
    "half": np.float32(0.5),
    "three": np.float32(3),
    "two": np.float32(2),
    "one": np.float32(1),
    "least": np.float32(1e-5),
    "zero": np.float32(0),
    "minus_half": np.float32(-0.5),
    "first": np.array([1]),
    "last": np.array([3]),
    "planes_six": numbers((6, 1, 1), 7),
    "planes_also": numbers((1, 6, 1, 1), 8),
}
TO, BACK = [0, 2, 3, 1], [0, 3, 1, 2]
MLP = [
    node("LayerNormalization", "a six also", "b", axis=-1),
    node("MatMul", "b up", "c"),
    node("Add", "ten c", "d"),
    node("Relu", "d", "e"),
    node("MatMul", "e down", "f"),
    node("Mul", "f half", "g"),
    node("Add", "g six", "h"),
    node("Mul", "also h", "i"),
]
MEAN = [node("ReduceMean", "x", "m", axes=[-1]), node("Sub", "x m", "d")]


def root(axis: int) -> list[Any]:
    return [
        node("ReduceMean", "q", "v", axes=[axis], keepdims=1),
        node("Add", "v least", "e"),
        node("Sqrt", "e", "r"),
    ]


ROOT, ACROSS = root(3), root(1)
# The nodes, the layers that they become, and the shape of x.
CASES: dict[str, tuple[list[Any], list[str], tuple[int, ...]]] = {
    "a block": (
        [node("Transpose", "x", "a", perm=TO), *MLP, node("Transpose", "i", "y", perm=BACK)],
        ["NORM", "CONV", "UNARY", "CONV"],
        (2, 6, 5, 4),
    ),
    "tokens": (
        [
            node("Transpose", "x", "a", perm=[0, 2, 1]),
            node("RMSNormalization", "a six", "b", axis=-1),
            node("MatMul", "b up", "c"),
            node("Sub", "ten c", "d"),
            node("Transpose", "d", "y", perm=[0, 2, 1]),
        ],
        ["NORM", "CONV", "BINARY"],
        (2, 6, 9),
    ),
    "nothing between": (
        [
            node("Transpose", "x", "a", perm=TO),
            node("Transpose", "a", "b", perm=BACK),
            node("Relu", "b", "y"),
        ],
        ["COPY", "UNARY"],
        (1, 6, 5, 4),
    ),
    "channels that others see": (
        [
            node("Transpose", "x", "a", perm=TO),
            node("Relu", "a", "b"),
            node("Transpose", "b", "c", perm=BACK),
            node("ReduceSum", "b", "s", keepdims=0),
            node("Add", "c s", "y"),
        ],
        ["TRANSPOSE", "UNARY", "TURN", "REDUCE", "BINARY"],
        (1, 6, 5, 4),
    ),
    "what differs along a row": (
        [
            node("Transpose", "x", "a", perm=TO),
            node("Mul", "a column", "b"),
            node("Transpose", "b", "y", perm=BACK),
        ],
        ["TRANSPOSE", "BINARY", "TRANSPOSE"],
        (1, 4, 3, 5),
    ),
    "a layer normalisation": (
        [
            *MEAN,
            node("Pow", "d two", "q"),
            *ROOT,
            node("Div", "d r", "n"),
            node("Mul", "n six", "s"),
            node("Add", "also s", "y"),
        ],
        ["NORM"],
        (2, 5, 4, 6),
    ),
    "with a difference of its own": (
        [
            node("ReduceMean", "x", "m", axes=[-1]),
            node("Sub", "x m", "d"),
            node("Sub", "x m", "d2"),
            node("Mul", "d2 d2", "q"),
            *ROOT,
            node("Div", "d r", "y"),
        ],
        ["NORM"],
        (2, 5, 4, 6),
    ),
    "by the mean of squares": (
        [
            node("Mul", "x x", "q"),
            *ROOT,
            node("Div", "one r", "t"),
            node("Mul", "x t", "n"),
            node("Mul", "six n", "y"),
        ],
        ["NORM"],
        (2, 5, 4, 6),
    ),
    "by the mean of squares, and a shift": (
        [
            node("Mul", "x x", "q"),
            *ROOT,
            node("Div", "x r", "n"),
            node("Mul", "six n", "s"),
            node("Add", "s also", "y"),
        ],
        ["NORM"],
        (2, 5, 4, 6),
    ),
    "a difference by the mean of its squares": (
        [node("Sub", "x six", "d"), node("Mul", "d d", "q"), *ROOT, node("Div", "d r", "y")],
        ["BINARY", "NORM"],
        (2, 6, 4, 6),
    ),
    "a difference from another mean": (
        [
            node("ReduceMean", "x", "m", axes=[1]),
            node("Sub", "x m", "d"),
            node("Pow", "d two", "q"),
            *ROOT,
            node("Div", "d r", "y"),
        ],
        ["REDUCE", "BINARY", "NORM"],
        (2, 5, 4, 6),
    ),
    "transposes that are both": (
        [
            node("Transpose", "x", "a", perm=[0, 2, 1]),
            node("Relu", "a", "b"),
            node("Transpose", "b", "c", perm=[0, 2, 1]),
            node("Tanh", "c", "d"),
            node("Transpose", "d", "y", perm=[0, 2, 1]),
        ],
        ["UNARY", "UNARY", "TRANSPOSE"],
        (2, 6, 8),
    ),
    "by a reciprocal": (
        [node("Pow", "x two", "q"), *ROOT, node("Reciprocal", "r", "t"), node("Mul", "t x", "y")],
        ["NORM"],
        (2, 5, 4, 6),
    ),
    "by a power": (
        [
            node("Pow", "x two", "q"),
            *ROOT[:2],
            node("Pow", "e minus_half", "t"),
            node("Mul", "t x", "n"),
            node("Mul", "n six", "y"),
        ],
        ["NORM"],
        (2, 5, 4, 6),
    ),
    "by a power that is a root": (
        [node("Mul", "x x", "q"), *ROOT[:2], node("Pow", "e half", "r"), node("Div", "x r", "y")],
        ["NORM"],
        (2, 5, 4, 6),
    ),
    "by another power": (
        [node("Mul", "x x", "q"), *ROOT[:2], node("Pow", "e two", "r"), node("Div", "x r", "y")],
        ["BINARY", "REDUCE", "SCALE_SHIFT", "UNARY", "BINARY"],
        (2, 5, 4, 6),
    ),
    "of channels": (
        [
            node("ReduceMean", "x", "m", axes=[1]),
            node("Sub", "x m", "d"),
            node("Pow", "d two", "q"),
            *ACROSS,
            node("Div", "d r", "n"),
            node("Mul", "n planes_six", "s"),
            node("Add", "s planes_also", "y"),
        ],
        ["NORM"],
        (2, 6, 5, 4),
    ),
    "of channels by the mean of squares": (
        [
            node("Pow", "x two", "q"),
            *ACROSS,
            node("Reciprocal", "r", "t"),
            node("Mul", "x t", "n"),
            node("Mul", "n planes_six", "s"),
            node("Relu", "s", "y"),
        ],
        ["NORM", "UNARY"],
        (2, 6, 4, 6),  # as wide as it has channels
    ),
    "of channels, with numbers of columns": (
        [node("Mul", "x x", "q"), *ACROSS, node("Div", "x r", "n"), node("Mul", "n six", "y")],
        ["NORM", "BINARY"],
        (2, 6, 4, 6),
    ),
    "of channels of a line": (
        [
            node("ReduceMean", "x", "m", axes=[-2]),
            node("Sub", "x m", "d"),
            node("Mul", "d d", "q"),
            *ACROSS,
            node("Div", "d r", "y"),
        ],
        ["NORM"],
        (2, 70, 9),
    ),
    "of channels, with a mean whose dimensions come back": (
        [
            node("ReduceMean", "x", "m", axes=[1]),
            node("Sub", "x m", "d"),
            node("Mul", "d d", "q"),
            node("ReduceMean", "q", "flat", axes=[1], keepdims=0),
            node("Unsqueeze", "flat first", "v"),
            *ACROSS[1:],
            node("Div", "d r", "y"),
        ],
        ["NORM"],
        (2, 6, 5, 4),
    ),
    "of channels, without an epsilon": (
        [
            node("Pow", "x two", "q"),
            ACROSS[0],
            node("Sqrt", "v", "r"),
            node("Reciprocal", "r", "t"),
            node("Mul", "t x", "y"),
        ],
        ["NORM"],
        (2, 6, 5, 4),
    ),
    "of all of a batch, factors on what is divided": (
        [
            node("ReduceMean", "x", "m", axes=[1, 2, 3]),
            node("Sub", "x m", "d"),
            node("Pow", "d two", "q"),
            node("ReduceMean", "q", "v", axes=[-1, 1, 2]),
            ACROSS[1],
            node("Pow", "e half", "r"),
            node("Mul", "planes_six d", "s"),
            node("Div", "s r", "n"),
            node("Add", "n planes_also", "y"),
        ],
        ["NORM"],
        (2, 6, 5, 4),
    ),
    "of all of a batch by the mean of squares": (
        [
            node("Mul", "x x", "q"),
            node("ReduceMean", "q", "v", axes=[1, 2, 3]),
            *ACROSS[1:],
            node("Div", "x r", "y"),
        ],
        ["BINARY", "REDUCE", "SCALE_SHIFT", "UNARY", "BINARY"],
        (2, 6, 5, 4),
    ),
    "a shift without a factor": (
        [node("Mul", "x x", "q"), *ACROSS, node("Div", "x r", "n"), node("Add", "n planes_also", "y")],
        ["NORM", "SCALE_SHIFT"],
        (2, 6, 5, 4),
    ),
    "a mean that comes back elsewhere": (
        [
            node("ReduceMean", "x", "flat", axes=[1], keepdims=0),
            node("Unsqueeze", "flat last", "m"),
            node("Relu", "m", "y"),
        ],
        ["REDUCE", "UNARY"],
        (2, 6, 5, 4),
    ),
    "of a volume's channels": (
        [node("Mul", "x x", "q"), *ACROSS, node("Div", "x r", "y")],
        ["BINARY", "REDUCE", "SCALE_SHIFT", "UNARY", "BINARY"],
        (1, 6, 3, 2, 4),
    ),
    "a factor and a bias": (
        [node("MatMul", "x up", "a"), node("Div", "a three", "b"), node("Add", "b ten", "y")],
        ["MATMUL"],
        (2, 5, 4, 6),
    ),
    "a bias that is one number": (
        [node("MatMul", "x up", "a"), node("Add", "half a", "y")],
        ["MATMUL"],
        (3, 4, 6),
    ),
    "a product divides": (
        [node("MatMul", "x up", "a"), node("Div", "three a", "y")],
        ["MATMUL", "BINARY"],
        (3, 4, 6),
    ),
}


@pytest.fixture(scope="module")
def toolkit() -> Iterator[Toolkit]:
    with builtin_toolkit() as opened:
        yield opened


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_the_layers_and_their_values(toolkit: Toolkit, name: str, dynamic: bool) -> None:
    nodes, layers, shape = CASES[name]
    used = {value for each in nodes for value in each.input}
    opset = 23 if any(each.op_type == "RMSNormalization" for each in nodes) else 17
    constants = {n: v for n, v in CONSTANTS.items() if n in used}
    proto = make_model(nodes, {"x": shape}, ["y"], constants, opset=opset)
    graph = Graph.from_onnx(proto, toolkit=toolkit)
    made = [layer.op.op.removeprefix("TPU_") for layer in graph.resolve().nodes]
    assert [op for op in made if op != "RESHAPE"] == layers
    graph.compile(dynamic=dynamic)
    x = {"x": numbers(shape, 9) + np.float32(0.5)}
    (difference,) = compare(["y"], graph.run(x), reference(load_model(proto), x))
    assert difference.relative <= TOLERANCE
