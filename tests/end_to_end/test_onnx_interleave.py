"""Stacked values whose elements lie between one another: a product brings them into their order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from tests.support.examples import examples
from tests.support.onnx_models import build_graph, equals_onnxruntime, make_model, normal_input
from user_layers.onnx.load import from_proto
from user_layers.toolkit import Toolkit


def stacked(
    shape: list[int], parts: int, *, axis: int = -1, more: tuple[Any, ...] = (), merged: bool = True
) -> Any:
    """Parts of x, each times another number, between one another."""
    rank = len(shape)
    nodes = []
    constants: dict[str, Any] = {"new": np.array([rank])}
    for k in range(parts):
        constants[f"f{k}"] = np.float32(k + 1)
        nodes.append(helper.make_node("Mul", ["x", f"f{k}"], [f"m{k}"]))
        nodes.append(helper.make_node("Unsqueeze", [f"m{k}", "new"], [f"u{k}"]))
    nodes.append(helper.make_node("Concat", [f"u{k}" for k in range(parts)], ["s"], axis=axis))
    end = [shape[-1] * parts] if merged else [parts * shape[-1] // 2, 2]
    constants["shape"] = np.array([*shape[:-1], *end])
    nodes += [helper.make_node("Reshape", ["s", "shape"], ["y"]), *more]
    return make_model(nodes, {"x": shape}, ["y", "z"] if more else ["y"], constants)


def ops(toolkit: Toolkit, proto: Any) -> set[str]:
    _, built = build_graph(from_proto(proto), toolkit=toolkit)
    return {each.op for each in built.model.nodes}


@examples(8)
@given(
    shape=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    parts=st.integers(2, 4),
    last=st.booleans(),
)
def test_as_onnxruntime(toolkit: Toolkit, shape: list[int], parts: int, last: bool) -> None:
    proto = stacked(shape, parts, axis=-1 if last else len(shape))
    assert "MatMul" in ops(toolkit, proto)
    equals_onnxruntime(toolkit, proto, normal_input(proto, 1))


STAYS = {
    "wide": lambda: stacked([1, 2, 3000], 2),
    "in another shape": lambda: stacked([1, 3, 4], 2, merged=False),
    "read elsewhere": lambda: stacked([1, 3, 4], 2, more=(helper.make_node("Relu", ["s"], ["z"]),)),
}


@pytest.mark.parametrize("name", STAYS)
def test_what_stays(toolkit: Toolkit, name: str) -> None:
    proto = STAYS[name]()
    assert "MatMul" not in ops(toolkit, proto)
    equals_onnxruntime(toolkit, proto, normal_input(proto, 1))
