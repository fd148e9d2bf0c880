"""Powers with a constant exponent are products and roots, where a few of them are the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx.helper import make_node as make

from tests.support.onnx_models import build_graph, equals_onnxruntime, make_model
from user_layers.onnx.load import from_proto
from user_layers.toolkit import Toolkit

POWERS: dict[float, list[str]] = {
    2: ["UNARY"],
    3: ["UNARY", "BINARY"],
    4: ["UNARY", "UNARY"],
    0.5: ["UNARY"],
    -0.5: ["UNARY", "UNARY"],
    -1: ["UNARY"],
    -2: ["UNARY", "UNARY"],
    1.5: ["BINARY"],  # no few of them
    5: ["BINARY"],
}


def _ops(toolkit: Toolkit, proto: Any) -> list[str]:
    return [
        node.op.op.removeprefix("TPU_") for node in build_graph(from_proto(proto), toolkit=toolkit)[0].nodes
    ]


@pytest.mark.parametrize("exponent", POWERS)
def test_constant_exponents(toolkit: Toolkit, exponent: float) -> None:
    constants = {"e": np.full((1, 1), exponent, np.float32)}
    proto = make_model([make("Pow", ["x", "e"], ["y"])], {"x": (2, 7, 9)}, ["y"], constants, opset=18)
    x = np.random.default_rng(0).standard_normal((2, 7, 9)).astype(np.float32)
    if exponent % 1:
        x = np.abs(x)
    equals_onnxruntime(toolkit, proto, {"x": x})
    assert _ops(toolkit, proto) == POWERS[exponent]


def test_zeros_and_small_numbers(toolkit: Toolkit) -> None:
    """As the host has them: the root of nothing is 0, and what is squared to nothing is."""
    x = np.array([1e-19, 7e-20, 1e-10, 1.0, 1e18], np.float32)
    for exponent in (2.0, 0.5, -2.0):
        if exponent > 0:
            x[:2] = 0.0, 1e-30
        else:
            x[:2] = 1e-19, 7e-20  # whose squares are denormal
        proto = make_model(
            [make("Pow", ["x", "e"], ["y"])], {"x": (5,)}, ["y"], {"e": np.float32(exponent)}, opset=18
        )
        equals_onnxruntime(toolkit, proto, {"x": x})


def test_other_powers_stay(toolkit: Toolkit) -> None:
    """An exponent for each column, one that makes a larger result, and a constant base."""
    nodes = [
        make("Pow", ["x", "each"], ["a"]),
        make("Pow", ["x", "wide"], ["b"]),
        make("Pow", ["two", "x"], ["c"]),
    ]
    constants = {
        "each": np.array([2, 3, 2], np.float32),
        "wide": np.full((1, 1, 1), 2, np.float32),
        "two": np.float32(2),
    }
    proto = make_model(nodes, {"x": (4, 3)}, ["a", "b", "c"], constants, opset=18)
    x = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
    equals_onnxruntime(toolkit, proto, {"x": x})
    assert _ops(toolkit, proto) == ["BINARY"] * 3


def test_powers_of_volumes(toolkit: Toolkit) -> None:
    """Of what a convolution of volumes made, plane by plane."""
    nodes = [
        make("Conv", ["x", "w"], ["c"], pads=[1] * 6),
        make("Pow", ["c", "three"], ["p"]),
        make("Pow", ["p", "two"], ["q"]),
        make("Conv", ["q", "v"], ["y"]),
    ]
    rng = np.random.default_rng(1)
    constants = {
        "w": rng.standard_normal((4, 3, 3, 3, 3)).astype(np.float32),
        "v": rng.standard_normal((5, 4, 1, 1, 1)).astype(np.float32),
        "three": np.float32(3),
        "two": np.float32(2),
    }
    proto = make_model(nodes, {"x": (1, 3, 4, 5, 6)}, ["y"], constants, opset=18)
    equals_onnxruntime(toolkit, proto, {"x": rng.standard_normal((1, 3, 4, 5, 6)).astype(np.float32)})
    assert "TRANSPOSE" not in _ops(toolkit, proto)[2:-2]
