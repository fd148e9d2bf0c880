"""Groups of convolutions that are computed together: the same values, only where it is faster."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from onnx import helper

from tests.support.onnx_models import make_model
from tests.support.workspaces import builtin_toolkit
from tpulayer import Graph
from user_layers.onnx.check import TOLERANCE, compare, reference
from user_layers.onnx.groups import join_groups
from user_layers.onnx.load import load_model
from user_layers.toolkit import Toolkit


@pytest.fixture(scope="module")
def toolkit() -> Iterator[Toolkit]:
    with builtin_toolkit() as opened:
        yield opened


@pytest.mark.parametrize(
    ("groups", "inputs", "outputs", "kernel", "side", "left"),
    [
        (32, 4, 4, 3, 14, 8),  # as in ResNeXt: 16 channels together
        (6, 3, 5, 3, 9, 1),
        (3, 70, 64, 3, 9, 3),  # lanes are full
        (4, 2, 1, 1, 9, 1),
        (8, 1, 1, 3, 9, 8),  # depthwise
        (8, 1, 2, 3, 9, 1),
    ],
)
def test_groups(
    toolkit: Toolkit, groups: int, inputs: int, outputs: int, kernel: int, side: int, left: int
) -> None:
    rng = np.random.default_rng(groups)
    shape = (2, groups * inputs, side, side)
    constants = {
        "w": rng.standard_normal((groups * outputs, inputs, kernel, kernel)).astype(np.float32),
        "b": rng.standard_normal(groups * outputs).astype(np.float32),
    }
    node = helper.make_node("Conv", ["x", "w", "b"], ["y"], group=groups, pads=[kernel // 2] * 4)
    proto = make_model([node], {"x": shape}, ["y"], constants)
    model = load_model(proto)
    joined = join_groups(model)
    assert joined.nodes[0].attributes["group"] == left
    x = {"x": rng.standard_normal(shape).astype(np.float32)}
    want = reference(model, x)
    assert np.allclose(reference(joined, x)[0], want[0], atol=1e-4)
    graph = Graph.from_onnx(proto, toolkit=toolkit)
    graph.compile()
    (difference,) = compare(["y"], graph.run(x), want)
    assert difference.relative <= TOLERANCE


@pytest.mark.parametrize(
    ("groups", "inputs", "outputs", "kernel", "left"),
    [
        (32, 4, 4, (3, 3, 3), 8),  # as in ResNeXt over volumes
        (6, 3, 5, (3, 1, 1), 1),
        (3, 70, 64, (1, 3, 3), 3),  # lanes are full
        (8, 1, 1, (3, 3, 3), 8),  # depthwise
    ],
)
def test_groups_of_volumes(
    toolkit: Toolkit, groups: int, inputs: int, outputs: int, kernel: tuple[int, int, int], left: int
) -> None:
    rng = np.random.default_rng(groups)
    shape = (2, groups * inputs, 5, 9, 8)
    constants = {
        "w": rng.standard_normal((groups * outputs, inputs, *kernel)).astype(np.float32),
        "b": rng.standard_normal(groups * outputs).astype(np.float32),
    }
    pads = [size // 2 for size in kernel] * 2
    node = helper.make_node("Conv", ["x", "w", "b"], ["y"], group=groups, pads=pads, strides=[2, 1, 1])
    proto = make_model([node], {"x": shape}, ["y"], constants)
    assert join_groups(load_model(proto)).nodes[0].attributes["group"] == left
    x = {"x": rng.standard_normal(shape).astype(np.float32)}
    graph = Graph.from_onnx(proto, toolkit=toolkit)
    graph.compile()
    (difference,) = compare(["y"], graph.run(x), reference(load_model(proto), x))
    assert difference.relative <= TOLERANCE
