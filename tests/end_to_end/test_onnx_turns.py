"""Transposes between tokens and pictures stand where channels are fewest: the same values, fewer moved."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.support.onnx_models import build_graph, equals_onnxruntime, make_model
from user_layers.onnx.bias import fuse_bias
from user_layers.onnx.check import TOLERANCE, compare, reference
from user_layers.onnx.flexible import Fixed, fixed_extents_of
from user_layers.onnx.load import from_proto, load_model
from user_layers.onnx.model import Model
from user_layers.onnx.turns import turn_narrow
from user_layers.toolkit import Toolkit

RNG = np.random.default_rng(8)
CONSTANTS: dict[str, Any] = {
    "up": RNG.standard_normal((6, 24)).astype(np.float32),
    "down": RNG.standard_normal((24, 6)).astype(np.float32),
    "b": RNG.standard_normal(24).astype(np.float32),
    "c": RNG.standard_normal(6).astype(np.float32),
    "k": RNG.standard_normal((24, 1, 3, 3)).astype(np.float32),
    "picture": np.array([2, 24, 5, 7]),
    "row": np.array([2, 24, 35]),
}


def node(op: str, inputs: str, output: str, **attributes: Any) -> Any:
    return helper.make_node(op, inputs.split(), output.split(), **attributes)


TURN, TO, BACK = [0, 2, 1], [0, 2, 3, 1], [0, 3, 1, 2]
WIDE = [node("MatMul", "x up", "m"), node("Add", "m b", "w")]
DEEP = [
    node("Transpose", "w", "t", perm=TURN),
    node("Reshape", "t picture", "p"),
    node("Conv", "p k", "d", group=24, pads=[1] * 4),
    node("Reshape", "d row", "f"),
    node("Transpose", "f", "u", perm=TURN),
]
NARROW = [node("Relu", "u", "r"), node("MatMul", "r down", "n"), node("Add", "c n", "y")]
TOKENS = (2, 35, 6)
# The nodes, the shape of x, the outputs, the elements that are transposed before and after.
CASES: dict[str, tuple[list[Any], tuple[int, ...], Sequence[str], tuple[int, int]]] = {
    "both sides": ([*WIDE, *DEEP, *NARROW], TOKENS, ["y"], (2 * 1680, 2 * 420)),
    "the wide result is read": ([*WIDE, *DEEP, *NARROW], TOKENS, ["y", "w"], (2 * 1680, 1680 + 420)),
    "rows only": (
        [*WIDE, node("Tanh", "w", "h"), node("Transpose", "h", "y", perm=TURN)],
        TOKENS, ["y"], (1680, 420),
    ),
    "pictures": (
        [*WIDE, node("Transpose", "w", "p", perm=BACK), node("Conv", "p k", "d", group=24, pads=[1] * 4),
         node("Transpose", "d", "u", perm=TO), *NARROW],
        (2, 5, 7, 6), ["y"], (2 * 1680, 2 * 420),
    ),
    "narrow already": (
        [node("MatMul", "x down", "m"), node("Transpose", "m", "y", perm=TURN)],
        (2, 35, 24), ["y"], (420, 420),
    ),
    "to the end and on": (
        [node("Transpose", "x", "u", perm=TURN), *NARROW], (2, 24, 35), ["y"], (1680, 420),
    ),
    "two read it": (
        [node("Transpose", "x", "u", perm=TURN), *NARROW, node("Tanh", "u", "z")],
        (2, 24, 35), ["y", "z"], (1680, 1680),
    ),
}  # fmt: skip


def turned(model: Model) -> int:
    made = [each.outputs[0] for each in model.nodes if each.op == "Transpose"]
    return sum(math.prod(model.value(name).fixed or ()) for name in made)


@pytest.mark.parametrize("name", CASES)
def test_the_same_values(toolkit: Toolkit, name: str) -> None:
    nodes, shape, outputs, (before, after) = CASES[name]
    used = {value for each in nodes for value in each.input}
    proto = make_model(nodes, {"x": shape}, outputs, {n: v for n, v in CONSTANTS.items() if n in used})
    fused = fuse_bias(load_model(proto))
    assert (turned(fused), turned(turn_narrow(fused))) == (before, after)
    x = {"x": np.random.default_rng(2).standard_normal(shape).astype(np.float32)}
    for dynamic in (False, True):
        graph = equals_onnxruntime(toolkit, proto, x, dynamic=dynamic)
        assert all(each.cpu is None for each in graph.nodes)


OPEN: dict[
    str, list[Any]
] = {  # turns before a product and behind one, with extents that the model leaves open
    "to tokens": [
        node("Reshape", "x row", "r"),
        node("Transpose", "r", "t", perm=TURN),
        node("MatMul", "t down", "m"),
        node("Softmax", "m", "y"),
    ],
    "to a picture": [
        node("Transpose", "x", "t", perm=TO),
        node("Reshape", "t tokens", "r"),
        node("Softmax", "r", "s"),
        node("MatMul", "s wide", "m"),
        node("Transpose", "m", "u", perm=TURN),
        node("Reshape", "u picture", "p"),
        node("Relu", "p", "y"),
    ],
}


@pytest.mark.parametrize("name", OPEN)
def test_what_a_model_leaves_open_stays_so(toolkit: Toolkit, name: str) -> None:
    constants = {
        "row": np.array([0, 24, -1]),
        "tokens": np.array([0, -1, 24]),
        "picture": np.array([0, 48, -1, 7]),
        "down": CONSTANTS["down"],
        "wide": np.concatenate([CONSTANTS["down"]] * 8, axis=1),
    }
    used = {value for each in OPEN[name] for value in each.input}
    proto = make_model(
        OPEN[name], {"x": (2, 24, 5, 7)}, ["y"], {n: v for n, v in constants.items() if n in used}
    )
    model = from_proto(proto)
    narrow = turn_narrow(fuse_bias(model))
    products = [each.outputs[0] for each in narrow.nodes if each.op == "Conv"]
    assert [len(narrow.value(name).fixed or ()) for name in products] == [4]  # of the picture, not of a row
    graph, built = build_graph(model, toolkit=toolkit)
    fixed = fixed_extents_of(built, model, lambda shapes: from_proto(proto, shapes))
    assert fixed == Fixed(None, None, None)
    graph.compile(dynamic=True)
    for shape in ((2, 24, 5, 7), (1, 24, 3, 7)):
        x = {"x": np.random.default_rng(2).standard_normal(shape).astype(np.float32)}
        want = reference(from_proto(proto, {"x": shape}), x)
        for difference in compare(["y"], graph.run(x), want):
            assert difference.relative <= TOLERANCE, difference
