"""Products that are used in parts: the same values, without cutting."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from tests.support.examples import examples
from tests.support.onnx_models import equals_onnxruntime, make_model
from user_layers.onnx.column_parts import split_products
from user_layers.onnx.load import load_model
from user_layers.toolkit import Toolkit


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


def gated(shape: tuple[int, ...], counts: list[int]) -> Any:
    """x w + b in parts: the first one's sigmoid times the second, and the others as they are."""
    rng, width = np.random.default_rng(sum(counts)), sum(counts)
    constants = {
        "w": rng.standard_normal((shape[-1], width)).astype(np.float32),
        "b": rng.standard_normal(width).astype(np.float32),
        "sizes": np.array(counts),
    }
    parts = " ".join(f"p{i}" for i in range(len(counts)))
    nodes = [
        node("MatMul", "x w", "product"),
        node("Add", "product b", "sum"),
        node("Split", "sum sizes", parts, axis=-1),
        node("Sigmoid", "p0", "gate"),
        *(node("Neg", f"p{i}", f"y{i}") for i in range(1, len(counts))),
        node("Exp", "gate", "y0"),
    ]
    return make_model(nodes, {"x": shape}, [f"y{i}" for i in range(len(counts))], constants)


@pytest.mark.parametrize("dynamic", [False, True])
def test_gates(toolkit: Toolkit, dynamic: bool) -> None:
    shape = (1, 14, 14, 64)
    x = {"x": np.random.default_rng(0).standard_normal(shape).astype(np.float32)}
    graph = equals_onnxruntime(toolkit, gated(shape, [128, 96]), x, dynamic=dynamic)
    assert "SPLIT" not in {one.op.short for one in graph.nodes}


@examples(8)
@given(
    shape=st.lists(st.integers(1, 9), min_size=2, max_size=4),
    counts=st.lists(st.integers(1, 20), min_size=1, max_size=4),
)
def test_any_parts(toolkit: Toolkit, shape: list[int], counts: list[int]) -> None:
    x = {"x": np.random.default_rng(1).standard_normal(shape).astype(np.float32)}
    equals_onnxruntime(toolkit, gated(tuple(shape), counts), x)


def test_what_is_read_as_a_whole_too_stays() -> None:
    nodes = [
        node("MatMul", "x w", "all"),
        node("Slice", "all zero four last", "part"),
        node("Relu", "all", "other"),
    ]
    constants = {"w": np.ones((16, 8), np.float32), "zero": np.array([0]), "four": np.array([4])}
    constants["last"] = np.array([-1])
    for outputs, readers in ((["part", "other"], 3), (["part", "all"], 2)):
        loaded = load_model(make_model(nodes[:readers], {"x": (2, 9, 16)}, outputs, constants))
        assert split_products(loaded) is loaded
    (product,) = split_products(
        load_model(make_model(nodes[:2], {"x": (2, 9, 16)}, ["part"], constants))
    ).nodes
    assert product.op == "MatMul" and product.outputs == ("part",)
