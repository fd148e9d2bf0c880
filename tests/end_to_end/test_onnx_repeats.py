"""Gates of channels as models write them: what is repeated for an operation that repeats it by itself is not
written, and means of whole planes are pools, with and without their dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.support.onnx_models import make_model
from tpulayer import Graph
from user_layers.onnx.check import TOLERANCE, compare, reference
from user_layers.onnx.load import load_model
from user_layers.toolkit import Toolkit

RNG = np.random.default_rng(5)
X = (2, 70, 5, 6)


def layers(toolkit: Toolkit, nodes: Sequence[Any], constants: dict[str, Any], shapes: Any = None) -> set[str]:
    """The layers of a net whose values are right."""
    shapes = shapes or {"x": X}
    proto = make_model(list(nodes), shapes, ["y"], constants, opset=18)
    graph = Graph.from_onnx(proto, toolkit=toolkit)
    made = {layer.op.op.removeprefix("TPU_") for layer in graph.resolve().nodes}
    graph.compile()
    given = {name: RNG.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    for difference in compare(["y"], graph.run(given), reference(load_model(proto), given)):
        assert difference.relative <= TOLERANCE
    return made


def repeated(source: str, shape: Sequence[int], to: str) -> tuple[Any, dict[str, Any]]:
    return helper.make_node("Expand", [source, f"{to}s"], [to]), {f"{to}s": np.array(shape, np.int64)}


@pytest.mark.parametrize("op", ["Mul", "Sub", "Max"])
def test_an_operation_that_repeats_by_itself(toolkit: Toolkit, op: str) -> None:
    mean = helper.make_node("ReduceMean", ["x", "axes"], ["m"], keepdims=1)
    expand, constants = repeated("m", X, "e")
    nodes = [mean, expand, helper.make_node(op, ["e", "x"], ["y"])]
    constants["axes"] = np.array([2, 3])
    assert "EXPAND" not in layers(toolkit, nodes, constants)


def test_two_that_need_each_other(toolkit: Toolkit) -> None:
    """Either one may be short, not both."""
    a, first = repeated("a", (4, 3, 5), "p")
    b, second = repeated("b", (4, 3, 5), "q")
    add = helper.make_node("Add", ["p", "q"], ["y"])
    assert "EXPAND" in layers(toolkit, [a, b, add], {**first, **second}, {"a": (3, 1), "b": (3, 5)})


def test_others_read_what_is_repeated(toolkit: Toolkit) -> None:
    expand, constants = repeated("s", X, "e")
    nodes = [
        expand,
        helper.make_node("Mul", ["x", "e"], ["m"]),
        helper.make_node("Concat", ["m", "e"], ["y"], axis=1),
    ]
    assert "EXPAND" in layers(toolkit, nodes, constants, {"x": X, "s": (2, 70, 1, 1)})


@pytest.mark.parametrize("keep", [0, 1])
@pytest.mark.parametrize("op", ["Mean", "Max", "Sum", "L2", "SumSquare"])
def test_whole_planes(toolkit: Toolkit, op: str, keep: int) -> None:
    reduce = helper.make_node(f"Reduce{op}", ["x", "axes"], ["r"], keepdims=keep)
    made = layers(toolkit, [reduce, helper.make_node("Sigmoid", ["r"], ["y"])], {"axes": np.array([-1, 2])})
    assert "POOL" in made and "REDUCE" not in made
