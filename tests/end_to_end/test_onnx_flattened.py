"""Tokens that a model flattens for its products: three dimensions all the way, and the same values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from tests.support.examples import examples
from tests.support.onnx_models import build_graph, equals_onnxruntime, make_model
from user_layers.onnx.load import from_proto
from user_layers.toolkit import Toolkit


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


def some(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


INNER, OUTER = 6, 10
STEPS = {
    "gemm": [node("Gemm", "f w b", "g")],
    "gemm, transposed": [node("Gemm", "f wt b", "g", transB=1)],
    "gemm without bias": [node("Gemm", "f w", "g")],
    "product": [node("MatMul", "f w", "p"), node("Add", "p b", "q"), node("Relu", "q", "g")],
    "written normalisation": [
        node("ReduceMean", "f", "m", axes=[-1]),
        node("Sub", "f m", "d"),
        node("Pow", "d two", "s"),
        node("ReduceMean", "s", "v", axes=[1]),
        node("Add", "v small", "e"),
        node("Sqrt", "e", "r"),
        node("Div", "d r", "n"),
        node("MatMul", "n w", "g"),
    ],
    "normalisation": [node("LayerNormalization", "f scale shift", "n"), node("Gemm", "n w b", "g")],
    "softmax": [node("Gemm", "f w b", "p"), node("Softmax", "p", "g", axis=1)],
}
CONSTANTS = {
    "w": some(INNER, OUTER),
    "wt": some(OUTER, INNER),
    "b": some(OUTER),
    "two": np.float32(2),
    "small": np.float32(1e-3),
    "scale": some(INNER),
    "shift": some(INNER) * np.float32(0.5),
}


def model(steps: list[Any], shape: tuple[int, int, int], more: tuple[Any, ...] = (), **constants: Any) -> Any:
    n, tokens, _ = shape
    known = {**CONSTANTS, "flat": np.array([-1, INNER]), "back": np.array([n, tokens, OUTER]), **constants}
    nodes = [
        node("Reshape", "x flat", "f"),
        *steps,
        node("Reshape", "g back", "u"),
        node("Neg", "u", "y"),
        *more,
    ]
    read = {name for one in nodes for name in one.input}
    outputs = ["y", "z"] if more else ["y"]
    return make_model(nodes, {"x": shape}, outputs, {k: v for k, v in known.items() if k in read})


def check(toolkit: Toolkit, proto: Any, shape: tuple[int, ...]) -> list[tuple[str, int]]:
    """The operations and ranks of what they make, of a model whose values are right."""
    _, built = build_graph(from_proto(proto), toolkit=toolkit)
    equals_onnxruntime(toolkit, proto, {"x": some(*shape)})
    return [(each.op, len(built.model.value(each.outputs[0]).fixed or ())) for each in built.model.nodes]


@pytest.mark.parametrize("kind", STEPS)
@pytest.mark.parametrize("n", [1, 3])
def test_three_dimensions(toolkit: Toolkit, kind: str, n: int) -> None:
    shape = (n, 40, INNER)
    made = check(toolkit, model(STEPS[kind], shape), shape)
    assert {rank for _, rank in made} == {3} and "Reshape" not in {op for op, _ in made}


@examples(8)
@given(
    n=st.integers(1, 4),
    tokens=st.integers(1, 70),
    kinds=st.lists(st.sampled_from(["Relu", "Add", "Mul", "Softmax", "Sum", "Both"]), max_size=5),
)
def test_random_steps(toolkit: Toolkit, n: int, tokens: int, kinds: list[str]) -> None:
    steps, name = [node("Gemm", "f w b", "h0")], "h0"
    for i, kind in enumerate(kinds):
        made = f"h{i + 1}"
        if kind == "Sum":
            steps += [node("ReduceSum", f"{name} last", f"{made}s"), node("Sub", f"{name} {made}s", made)]
        elif kind == "Both":
            steps.append(node("Add", f"{name} h0", made))
        else:
            more = " b" if kind in ("Add", "Mul") else ""
            steps.append(node(kind, name + more, made, **({"axis": -1} if kind == "Softmax" else {})))
        name = made
    steps.append(node("Neg", name, "g"))
    shape = (n, tokens, INNER)
    check(toolkit, model(steps, shape, last=np.array([-1])), shape)


OTHERS: dict[str, Callable[[], tuple[Any, tuple[int, ...], int]]] = {
    "rows of a picture": lambda: (model(STEPS["gemm"], (5, 4, INNER)), (5, 4, INNER), 2),
    "read as they are": lambda: (
        model(STEPS["gemm"], (1, 40, INNER), (node("Transpose", "g", "z", perm=[1, 0]),)),
        (1, 40, INNER),
        3,
    ),
    "a number for each row": lambda: (
        model([node("Mul", "f rows", "h"), node("Gemm", "h w b", "g")], (1, 40, INNER), rows=some(40, 1)),
        (1, 40, INNER),
        2,
    ),
    "rows multiplied with one another": lambda: (
        model(
            [node("Gemm", "f f", "p", transB=1), node("MatMul", "p other", "g")],
            (1, 40, INNER),
            other=some(40, OUTER),
        ),
        (1, 40, INNER),
        2,
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_others_as_onnxruntime(toolkit: Toolkit, name: str) -> None:
    proto, shape, rank = OTHERS[name]()
    made = check(toolkit, proto, shape)
    assert {rank for op, rank in made if op in ("MatMul", "Gemm")} == {rank}
