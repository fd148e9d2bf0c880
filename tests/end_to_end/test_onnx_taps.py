"""Kernels that reach into pads alone: smaller ones with the same values."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from tests.support.examples import examples
from tests.support.onnx_models import make_model
from tests.support.workspaces import builtin_toolkit
from tpulayer import Graph
from user_layers.onnx.check import TOLERANCE, compare, reference
from user_layers.onnx.load import load_model
from user_layers.onnx.taps import without_idle_taps
from user_layers.toolkit import Toolkit


@pytest.fixture(scope="module")
def toolkit() -> Iterator[Toolkit]:
    with builtin_toolkit() as opened:
        yield opened


def test_only_the_middle_is_left() -> None:
    """3 x 3 with a dilation of 24 over 14 x 14, as in DeepLab's pyramid."""
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[24] * 4, dilations=[24, 24])
    weights = np.random.default_rng(0).standard_normal((4, 5, 3, 3)).astype(np.float32)
    model = without_idle_taps(load_model(make_model([node], {"x": (1, 5, 14, 14)}, ["y"], {"w": weights})))
    (conv,) = model.nodes
    assert conv.attributes["pads"] == [0] * 4 and conv.attributes["kernel_shape"] == [1, 1]
    assert np.array_equal(model.constants[conv.inputs[1]], weights[:, :, 1:2, 1:2])


@pytest.mark.parametrize(("depth", "stride", "left"), [(1, 1, 1), (2, 2, 2), (2, 1, 3)])
def test_planes_of_volumes(toolkit: Toolkit, depth: int, stride: int, left: int) -> None:
    """3 x 3 x 3 over one or two planes, as at the end of networks for videos."""
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1] * 6, strides=[stride, 1, 1])
    rng = np.random.default_rng(depth)
    weights = rng.standard_normal((6, 5, 3, 3, 3)).astype(np.float32)
    x = {"x": rng.standard_normal((1, 5, depth, 7, 7)).astype(np.float32)}
    made = make_model([node], {"x": x["x"].shape}, ["y"], {"w": weights})
    model = without_idle_taps(load_model(made))
    assert model.constants[model.nodes[0].inputs[1]].shape == (6, 5, left, 3, 3)
    (want,) = reference(load_model(made), x)
    graph = Graph.from_onnx(made, toolkit=toolkit)
    graph.compile()
    (difference,) = compare(["y"], graph.run(x), [want])
    assert difference.relative <= TOLERANCE


@examples(40)
@given(
    *(st.tuples(st.integers(1, 9), st.integers(1, 9)) for _ in range(3)),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.tuples(*[st.integers(0, 9)] * 4),
)
def test_the_same_values(
    toolkit: Toolkit,
    extents: tuple[int, int],
    dilations: tuple[int, int],
    kernel: tuple[int, int],
    strides: tuple[int, int],
    pads: tuple[int, int, int, int],
) -> None:
    kernel = (min(kernel[0], 4), min(kernel[1], 4))
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    grown = [e + pads[i] + pads[i + 2] for i, e in enumerate(extents)]
    more = [max(0, r - g) for r, g in zip(reach, grown, strict=True)]
    padded = [pads[0] + more[0], pads[1] + more[1], *pads[2:]]
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=padded, dilations=dilations, strides=strides)
    rng = np.random.default_rng(1)
    weights = rng.standard_normal((3, 2, *kernel)).astype(np.float32)
    x = {"x": rng.standard_normal((1, 2, *extents)).astype(np.float32)}
    model = load_model(make_model([node], {"x": x["x"].shape}, ["y"], {"w": weights}))
    (want,), (got,) = reference(model, x), reference(without_idle_taps(model), x)
    assert np.allclose(got, want, rtol=1e-5, atol=1e-5)
    graph = Graph.from_onnx(make_model([node], {"x": x["x"].shape}, ["y"], {"w": weights}), toolkit=toolkit)
    graph.compile()
    (difference,) = compare(["y"], graph.run(x), [want])
    assert difference.relative <= TOLERANCE
