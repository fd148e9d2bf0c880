"""GridSample: weights of pixels, as onnxruntime computes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from firmware_sim.errors import TpulayerError
from tests.support.examples import examples
from tests.support.onnx_models import build_graph, make_model
from tpulayer import Graph
from user_layers.onnx.check import reference
from user_layers.onnx.load import from_proto
from user_layers.toolkit import Toolkit

RNG = np.random.default_rng(20)
NEAR = 1e-5


def _model(x: tuple[int, ...], grid: tuple[int, ...], opset: int = 16, **attributes: Any) -> Any:
    node = helper.make_node("GridSample", ["x", "grid"], ["y"], **attributes)
    return make_model([node], {"x": x, "grid": grid}, ["y"], opset=opset)


def _picture(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def _places(*shape: int, far: float = 1.4) -> Any:
    """Inside, outside and, of every third, in the middle of pixels or between two."""
    given = RNG.uniform(-far, far, shape)
    return np.where(RNG.random(shape) < 1 / 3, np.round(given * 8) / 8, given).astype(np.float32)


def _sampled(toolkit: Toolkit, proto: Any, x: Any, grid: Any, **options: Any) -> Any:
    graph = Graph.from_onnx(proto, toolkit=toolkit, cpu=False)
    graph.compile(**options)
    (y,) = graph.run({"x": x, "grid": grid})
    return y


def _wanted(proto: Any, x: Any, grid: Any) -> Any:
    return reference(from_proto(proto), {"x": x, "grid": grid})[0]


@examples(3)
@given(data=st.data())
def test_places_in_pictures(toolkit: Toolkit, data: st.DataObject) -> None:
    """All modes, by rows and by pixels, static and dynamic."""
    opset = data.draw(st.sampled_from([16, 20]))
    attributes = {
        "mode": data.draw(st.sampled_from(["bilinear" if opset == 16 else "linear", "nearest"])),
        "padding_mode": data.draw(st.sampled_from(["zeros", "border"])),
        "align_corners": data.draw(st.integers(0, 1)),
    }
    n, c, h, w, y, x = (data.draw(st.integers(1, most)) for most in (3, 9, 12, 20, 9, 9))
    picture, grid = _picture(n, c, h, w), _places(n, y, x, 2)
    proto = _model(picture.shape, grid.shape, opset, **attributes)
    want = _wanted(proto, picture, grid)
    got = _sampled(toolkit, proto, picture, grid, dynamic=data.draw(st.booleans()))
    assert got.shape == want.shape and np.abs(got - want).max() <= NEAR * np.abs(picture).max()


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize("pads", ["zeros", "border"])
def test_places_that_are_no_numbers(mode: str, pads: str, toolkit: Toolkit) -> None:
    """NaN says so, or is no pixel; what is infinite or far is outside, on its side. Others are as ever."""
    picture, grid = _picture(1, 2, 5, 6), _places(1, 3, 4, 2, far=1.0)
    grid[0, 0] = [[np.nan, 0], [np.inf, 0], [-np.inf, 0], [3e38, 0]]
    proto = _model(picture.shape, grid.shape, mode=mode, padding_mode=pads, align_corners=1)
    y = _sampled(toolkit, proto, picture, grid)
    assert np.isnan(y[..., 0, 0]).all() if mode == "bilinear" else (y[..., 0, 0] == 0).all()
    border, middle = pads == "border", picture[0, :, 2]
    for place, side in ((1, 5), (2, 0), (3, 5)):
        assert np.abs(y[0, :, 0, place] - middle[:, side] * border).max() < NEAR
    want = _wanted(proto, picture, grid)
    assert np.abs(y - want)[:, :, 1:].max() <= NEAR * np.abs(picture).max()


@pytest.mark.slow
def test_on_the_controller(controller: Toolkit) -> None:
    picture, grid = _picture(2, 3, 5, 6), _places(2, 4, 3, 2)
    proto = _model(picture.shape, grid.shape)
    got, want = _sampled(controller, proto, picture, grid), _wanted(proto, picture, grid)
    assert np.abs(got - want).max() <= NEAR * np.abs(picture).max()


def test_fewer_pictures_of_a_dynamic_net(toolkit: Toolkit) -> None:
    proto = _model((3, 2, 6, 9), (3, 4, 5, 2))
    graph = Graph.from_onnx(proto, toolkit=toolkit, cpu=False)
    graph.compile(dynamic=True)
    picture, grid = _picture(2, 2, 6, 9), _places(2, 4, 5, 2)
    (got,) = graph.run({"x": picture, "grid": grid})
    want = _wanted(_model(picture.shape, grid.shape), picture, grid)
    assert np.abs(got - want).max() <= NEAR * np.abs(picture).max()
    with pytest.raises(TpulayerError):
        graph.run({"x": _picture(2, 2, 3, 9), "grid": grid})


@pytest.mark.parametrize(
    ("x", "grid", "attributes", "why"),
    [
        ((1, 1, 4, 4), (1, 2, 2, 2), {"mode": "cubic"}, "the mode 'cubic' with padding 'zeros'"),
        (
            (1, 1, 4, 4),
            (1, 2, 2, 2),
            {"padding_mode": "reflection"},
            "the mode 'linear' with padding 'reflection'",
        ),
        ((1, 1, 4, 4, 4), (1, 2, 2, 2, 3), {}, "places in a volume"),
        ((1, 64, 200, 200), (1, 200, 200, 2), {}, "40000 places in a picture of 200x200"),
    ],
)
def test_what_stays_on_the_host(
    x: tuple[int, ...], grid: tuple[int, ...], attributes: dict[str, Any], why: str, toolkit: Toolkit
) -> None:
    graph, built = build_graph(from_proto(_model(x, grid, 20, **attributes)), toolkit=toolkit)
    (part,) = [layer.cpu for layer in graph.nodes if layer.cpu is not None]
    assert len(built.on_cpu) == 1 and why in part.reason
