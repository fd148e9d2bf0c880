"""Normalisations written out, at the ends of the numbers, with other extents than compiled, and in 8 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.support.onnx_models import build_graph, make_model
from tpulayer import Graph
from user_layers.onnx.check import TOLERANCE, compare, reference
from user_layers.onnx.load import load_model
from user_layers.quantize.calibrate import calibrate
from user_layers.quantize.quality import compared
from user_layers.quantize.rewrite import Int8
from user_layers.toolkit import Toolkit

EPSILON, SMALL = {"e": np.float32(1e-5)}, {"e": np.float32(1e-40)}
INFINITE = np.array([1, 2, np.inf], np.float32)


def node(op: str, inputs: str, output: str, **attributes: Any) -> Any:
    return helper.make_node(op, inputs.split(), [output], **attributes)


def normalised(axis: int, *, centred: bool, epsilon: bool) -> list[Any]:
    """x, or its distance from the mean, divided by the root of the mean of its squares."""
    nodes = [node("ReduceMean", "x", "mean", axes=[axis]), node("Sub", "x mean", "d")] if centred else []
    x = "d" if centred else "x"
    nodes += [node("Mul", f"{x} {x}", "q"), node("ReduceMean", "q", "v", axes=[axis])]
    nodes += [node("Add", "v e", "s")] if epsilon else []
    return [*nodes, node("Sqrt", "s" if epsilon else "v", "r"), node("Div", f"{x} r", "y")]


def ran(toolkit: Toolkit, nodes: list[Any], x: Any, constants: Any) -> tuple[Any, Any]:
    proto = make_model(nodes, {"x": x.shape}, ["y"], constants, opset=13)
    graph = Graph.from_onnx(proto, toolkit=toolkit)
    assert "TPU_NORM" in [layer.op.op for layer in graph.resolve().nodes]
    graph.compile()
    return graph.run({"x": x})[0], reference(load_model(proto), {"x": x})[0]


@pytest.mark.parametrize("axis", [1, -1])
@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize(
    ("numbers", "constants"),
    [
        (INFINITE, EPSILON),
        (np.array([2e19, -1e19, 2e19], np.float32), EPSILON),  # squares are infinite
        (np.zeros(3, np.float32), {}),
        (np.zeros(3, np.float32), SMALL),
        (np.array([1, np.nan, 2], np.float32), EPSILON),
        (np.array([1e-18, -2e-18, 3e-18], np.float32), {}),
    ],
)
def test_ends(toolkit: Toolkit, axis: int, centred: bool, numbers: Any, constants: Any) -> None:
    """As on the host: NaN, infinities and zeros where it has them. The other rows are common numbers."""
    x = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
    x[2] = numbers
    x = x.T[None, :, :, None] if axis == 1 else x[None, None]
    made, want = ran(toolkit, normalised(axis, centred=centred, epsilon=bool(constants)), x, constants)
    np.testing.assert_allclose(made, want, rtol=3e-3, atol=1e-6)


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize(("axis", "epsilon"), [(1, True), (1, False), (-1, False)])
def test_other_extents_in_a_dynamic_net(toolkit: Toolkit, axis: int, centred: bool, epsilon: bool) -> None:
    """Without numbers of its own a normalisation takes any: fewer channels, shorter rows."""
    nodes = normalised(axis, centred=centred, epsilon=epsilon)
    constants = EPSILON if epsilon else {}
    graph = Graph.from_onnx(make_model(nodes, {"x": (2, 20, 9)}, ["y"], constants, opset=13), toolkit=toolkit)
    graph.compile(dynamic=True)
    for shape in ((2, 20, 9), (2, 5, 9), (1, 7, 4)):
        x = {"x": np.random.default_rng(1).standard_normal(shape).astype(np.float32)}
        want = reference(load_model(make_model(nodes, {"x": shape}, ["y"], constants, opset=13)), x)
        (difference,) = compare(["y"], graph.run(x), want)
        assert difference.relative <= TOLERANCE


@pytest.mark.parametrize("written", ["ReduceL2", "ReduceSumSquare", "Pow"])
def test_squares_stay_fp32_beside_8_bits(toolkit: Toolkit, written: str) -> None:
    """Positions of a picture that differ by a factor of 20: of the squares of the small ones 8 bits leave
    nothing, and what is divided by their sum would be without measure."""
    rng = np.random.default_rng(11)
    sums = {
        "ReduceL2": [node("ReduceL2", "c", "l", axes=[1])],
        "ReduceSumSquare": [node("ReduceSumSquare", "c", "s", axes=[1]), node("Sqrt", "s", "l")],
        "Pow": [node("Pow", "c two", "p"), node("ReduceSum", "p one", "s"), node("Sqrt", "s", "l")],
    }[written]
    nodes = [
        node("Conv", "x w", "c", pads=[1] * 4),
        *sums,
        node("Add", "l e", "root"),
        node("Div", "c root", "n"),
        node("Conv", "n v", "y"),
    ]
    constants = {
        "w": (rng.standard_normal((32, 3, 3, 3)) * 0.3).astype(np.float32),
        "v": (rng.standard_normal((8, 32, 1, 1)) * 0.2).astype(np.float32),
        "e": np.float32(1e-10),
        "two": np.float32(2),
        "one": np.array([1]),
    }
    used = {name for each in nodes for name in each.input}
    constants = {name: value for name, value in constants.items() if name in used}
    x = rng.standard_normal((2, 3, 16, 16)) * np.geomspace(1, 1 / 20, 16)[:, None]
    given = {"x": x.astype(np.float32)}
    model = load_model(make_model(nodes, {"x": x.shape}, ["y"], constants, opset=13))
    table = calibrate(build_graph(model, toolkit=toolkit)[0], [given])
    graph, _ = build_graph(model, toolkit=toolkit, int8=Int8(table))
    graph.compile()
    assert compared(reference(model, given)[0], graph.run(given)[0]).sqnr > 19
