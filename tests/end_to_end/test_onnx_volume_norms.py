"""Normalisations of volumes that are there as planes: these stay where they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.support.onnx_models import build_graph, equals_onnxruntime, make_model
from tests.support.workspaces import builtin_toolkit
from tpulayer import Graph
from user_layers.onnx.check import reference
from user_layers.onnx.load import load_model
from user_layers.quantize.calibrate import calibrate
from user_layers.quantize.rewrite import Int8
from user_layers.toolkit import Toolkit

CHANNELS = 6
R = np.random.default_rng(0)


@pytest.fixture(scope="module")
def toolkit() -> Iterator[Toolkit]:
    with builtin_toolkit() as opened:
        yield opened


def volumes(
    groups: int, *, affine: bool = True, far: float = 0.0, batches: int = 1, spread: float = 1.0
) -> Any:
    """A convolution, a normalisation over groups of channels (0: each by itself), as exporters write it, and
    another convolution. far: by how much means are away from 0; spread: how much more the last channel
    varies than the first."""
    constants = {
        "v": R.standard_normal((CHANNELS, 2, 3, 3, 3)).astype(np.float32),
        "b": (R.standard_normal(CHANNELS) + far).astype(np.float32),
        "w": R.standard_normal((3, CHANNELS, 1, 3, 3)).astype(np.float32),
        "scale": R.uniform(0.5, 2, CHANNELS).astype(np.float32) if affine else np.ones(CHANNELS, np.float32),
        "shift": R.standard_normal(CHANNELS).astype(np.float32) if affine else np.zeros(CHANNELS, np.float32),
    }
    constants["v"] *= np.geomspace(1, spread, CHANNELS, dtype=np.float32).reshape(-1, 1, 1, 1, 1)
    norm = [helper.make_node("InstanceNormalization", ["c", "scale", "shift"], ["n"])]
    if groups:
        constants |= {
            "ones": np.ones(groups, np.float32),
            "zeros": np.zeros(groups, np.float32),
            "groups": np.array([0, groups, -1]),
            "volume": np.array([batches, CHANNELS, 5, 8, 9]),
        }
        constants |= {name: constants[name].reshape(-1, 1, 1, 1) for name in ("scale", "shift")}
        norm = [
            helper.make_node("Reshape", ["c", "groups"], ["apart"]),
            helper.make_node("InstanceNormalization", ["apart", "ones", "zeros"], ["normal"]),
            helper.make_node("Reshape", ["normal", "volume"], ["back"]),
            helper.make_node("Mul", ["back", "scale"], ["scaled"]),
            helper.make_node("Add", ["scaled", "shift"], ["n"]),
        ]
    nodes = [
        helper.make_node("Conv", ["x", "v", "b"], ["c"], pads=[1] * 6),
        *norm,
        helper.make_node("LeakyRelu", ["n"], ["r"]),
        helper.make_node("Conv", ["r", "w"], ["y"], pads=[0, 1, 1] * 2),
    ]
    return make_model(nodes, {"x": (batches, 2, 5, 8, 9)}, ["y"], constants)


def sample(batches: int = 1) -> dict[str, Any]:
    return {"x": R.standard_normal((batches, 2, 5, 8, 9)).astype(np.float32)}


@pytest.mark.parametrize("groups", [0, 1, 2, 6])
@pytest.mark.parametrize("options", [{"opt": 0}, {"opt": 2}, {"dynamic": True}])
def test_planes_stay(toolkit: Toolkit, groups: int, options: dict[str, Any]) -> None:
    graph = equals_onnxruntime(toolkit, volumes(groups), sample(), **options)
    ops = [node.op.op for node in graph.nodes]
    assert "TPU_NORM" not in ops
    assert ops.count("TPU_TRANSPOSE") == 2  # at the net's input and output


@pytest.mark.parametrize("groups", [0, 2])
def test_a_large_mean_costs_no_digits(toolkit: Toolkit, groups: int) -> None:
    equals_onnxruntime(toolkit, volumes(groups, affine=False, far=300.0), sample())


def test_several_volumes_are_normalised_as_such(toolkit: Toolkit) -> None:
    graph = equals_onnxruntime(toolkit, volumes(2, batches=2), sample(2))
    assert "TPU_NORM" in [node.op.op for node in graph.nodes]


def test_in_8_bits_statistics_stay_float(toolkit: Toolkit) -> None:
    """Of channels whose deviations differ, squares on one scale would vanish."""
    proto = volumes(0, spread=30.0)
    samples = [sample() for _ in range(3)]
    table = calibrate(Graph.from_onnx(proto, toolkit=toolkit), samples)
    graph, built = build_graph(load_model(proto), int8=Int8(table), toolkit=toolkit)
    assert built.quantised is not None
    assert [row.reason for row in built.quantised.rows].count("part of a normalisation") > 10
    graph.compile()
    (got,), (want,) = graph.run(samples[0]), reference(load_model(proto), samples[0])
    assert np.sqrt(((got - want) ** 2).mean() / (want**2).mean()) < 0.3  # 1.9 where all is in 8 bits
