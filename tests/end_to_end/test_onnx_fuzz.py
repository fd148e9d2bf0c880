"""A few random ONNX models; `python -m tests.onnx_fuzz` tries more of them."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from tests.onnx_fuzz import check_model
from tests.support.onnx_models import build_graph, make_model
from user_layers.onnx.check import reference
from user_layers.onnx.load import from_proto
from user_layers.toolkit import Toolkit


@pytest.mark.parametrize(
    "seed", [pytest.param(i, marks=pytest.mark.slow if i >= 4 else ()) for i in range(10)]
)
def test_random_models_agree_in_every_mode(seed: int, toolkit: Toolkit) -> None:
    assert check_model(seed, toolkit) == []


def test_a_layer_beside_one_with_a_larger_window(toolkit: Toolkit) -> None:
    """Both read one tile, of which the layer without a window computes its part."""
    nodes = [helper.make_node("Max", ["x", "x"], ["a"]), helper.make_node("Conv", ["x", "w"], ["b"])]
    rng = np.random.default_rng(0)
    w = rng.standard_normal((4, 7, 4, 4)).astype(np.float32)
    model = from_proto(make_model(nodes, {"x": (2, 7, 20, 28)}, ["a", "b"], {"w": w}))
    graph, _ = build_graph(model, "net", toolkit=toolkit)
    feeds = {"x": rng.standard_normal((2, 7, 20, 28)).astype(np.float32)}
    graph.compile(opt=2)
    a, b = graph.run(feeds)
    want = reference(model, feeds)
    assert np.array_equal(a, want[0])
    assert np.allclose(b, want[1], rtol=0, atol=1e-5)


@pytest.mark.parametrize("pads", [(0, 0, 1, 2, 0, 0, 1, 1), (0, 0, 0, 0, 0, 0, 2, 2)])
def test_around_a_single_element(pads: tuple[int, ...], toolkit: Toolkit) -> None:
    """An extent of 1 that grows is not always broadcast: pieces of the constant need nothing of the input."""
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Pad", ["a", "p"], ["y"])]
    shape = (1, 18, 1, 1)
    model = from_proto(make_model(nodes, {"x": shape}, ["y"], {"p": np.array(pads, np.int64)}))
    graph, _ = build_graph(model, "net", toolkit=toolkit)
    feeds = {"x": np.random.default_rng(0).standard_normal(shape).astype(np.float32)}
    graph.compile(opt=2)
    assert np.array_equal(graph.run(feeds)[0], reference(model, feeds)[0])
