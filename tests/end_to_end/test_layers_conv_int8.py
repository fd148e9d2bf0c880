"""TPU_CONV_INT8 against plain integers, bit for bit: alone, in groups, dynamically, on both firmwares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_sim.errors import TpulayerError
from tests.support.examples import examples
from tests.support.int8_reference import conv_int8
from tests.support.quantised import MODES, Array, integers
from tests.support.window_layers import window_param
from tpulayer import Graph
from user_layers.toolkit import Toolkit


def parameters(w: Array, rshift: int, relu: bool, **window: Any) -> dict[str, Any]:
    made = window_param(
        w.shape[2:],
        window.get("stride", (1, 1)),
        window.get("pads", (0, 0, 0, 0)),
        window.get("dilation", (1, 1)),
    )
    return {"groups": window.get("groups", 1), **made, "rshift": rshift, "relu": relu, "scale": 0.5}


def check(
    toolkit: Toolkit,
    x: Array,
    w: Array,
    bias: Array | None,
    rshift: int,
    relu: bool,
    modes: Sequence[dict[str, Any]] = MODES,
    smaller: bool = True,
    **window: Any,
) -> None:
    """The integers in all modes; dynamic nets are compiled for larger inputs."""
    rows = x.reshape(*x.shape, *(1,) * (4 - x.ndim))
    want = conv_int8(rows, w, bias, rshift, relu, **window)
    want = want.reshape(want.shape[: x.ndim])
    param = parameters(w, rshift, relu, **window)
    for options in modes:
        more = options.get("dynamic", False) and smaller
        graph = Graph(name="net", toolkit=toolkit)
        shape = tuple(extent + more * (axis != 1) for axis, extent in enumerate(x.shape))
        graph.add_input("x", shape, x.dtype, scale=0.25)
        names = ["x", graph.add_const("w", w), *([] if bias is None else [graph.add_const("b", bias)])]
        graph.add_tpu_layer("TPU_CONV_INT8", names, param, ["y"])
        graph.compile(**options)
        (y,) = graph.run({"x": x})
        assert y.dtype == want.dtype and np.array_equal(y, want), options


CONVOLUTIONS: dict[str, dict[str, Any]] = {
    "plain": {"x": (1, 3, 20, 20), "w": (8, 3, 3, 3), "pads": (1, 1, 1, 1)},
    "all slots": {"x": (4, 64, 14, 14), "w": (64, 64, 3, 3), "pads": (1, 1, 1, 1)},
    "two words of batches": {"x": (6, 20, 9, 9), "w": (130, 20, 3, 3), "pads": (1, 1, 1, 1)},
    "uneven pads and strides": {
        "x": (2, 3, 20, 23),
        "w": (70, 3, 3, 5),
        "pads": (1, 2, 0, 1),
        "stride": (2, 3),
    },
    "1 x 1": {"x": (3, 65, 7, 7), "w": (130, 65, 1, 1)},
    "groups": {
        "x": (2, 15, 20, 23),
        "w": (90, 5, 3, 3),
        "groups": 3,
        "dilation": (2, 3),
        "pads": (1, 1, 1, 1),
    },
    "depthwise": {"x": (5, 70, 20, 23), "w": (70, 1, 3, 3), "groups": 70, "pads": (1, 1, 1, 1)},
    "depthwise with stride": {"x": (1, 130, 20, 23), "w": (130, 1, 5, 5), "groups": 130, "stride": (2, 2)},
    "one dimension": {"x": (2, 9, 50), "w": (5, 9, 3, 1), "pads": (1, 0, 1, 0)},
    "no local version": {"x": (1, 5, 9, 9), "w": (6, 5, 3, 3), "pads": (4, 4, 4, 4)},
    "many channels": {"x": (1, 600, 5, 5), "w": (300, 600, 3, 3), "pads": (1, 1, 1, 1)},
}


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(toolkit: Toolkit, name: str, relu: bool) -> None:
    case = dict(CONVOLUTIONS[name])
    x = integers(case.pop("x"), "uint8" if relu else "int8")
    w = integers(case.pop("w"), "int8", 1)
    check(toolkit, x, w, integers(w.shape[:1], "int16", 2) if relu else None, 9, relu, **case)


@examples(12)
@given(data=st.data())
def test_random_convolutions(toolkit: Toolkit, data: st.DataObject) -> None:
    draw = data.draw
    depthwise = draw(st.booleans())
    kernel = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    groups = draw(st.sampled_from([2, 65, 66])) if depthwise else draw(st.integers(1, 3))
    in_c = groups if depthwise else groups * draw(st.integers(1, 9))
    out_c = groups if depthwise else groups * draw(st.sampled_from([1, 5, 23, 40]))
    pads = draw(st.tuples(*(st.integers(0, k - 1) for k in (kernel[0], kernel[0], kernel[1], kernel[1]))))
    shape = (draw(st.integers(1, 9)), in_c, draw(st.integers(5, 20)), draw(st.integers(5, 20)))
    x = integers(shape, draw(st.sampled_from(["int8", "uint8"])), draw(st.integers(0, 99)))
    w = integers((out_c, in_c // groups, *kernel), "int8", 1)
    bias = integers((out_c,), "int16", 2) if draw(st.booleans()) else None
    window: dict[str, Any] = {
        "groups": groups,
        "stride": draw(st.tuples(st.integers(1, 3), st.integers(1, 3))),
        "pads": pads,
    }
    modes = [draw(st.sampled_from(MODES))]
    check(toolkit, x, w, bias, draw(st.integers(0, 14)), draw(st.booleans()), modes, **window)


def test_chains_in_a_group(toolkit: Toolkit) -> None:
    """Depthwise and plain ones behind each other, cut into tiles with halos, for six batches."""
    shape = (6, 40, 60, 61)
    graph = Graph(name="net", toolkit=toolkit)
    graph.add_input("x", shape, "int8", scale=0.25)
    x = y = integers(shape, "int8")
    name = "x"
    for i, groups in enumerate((1, 40, 1, 1)):
        w, b = integers((40, 40 // groups, 3, 3), "int8", i), integers((40,), "int16", 9 + i)
        window: dict[str, Any] = {"groups": groups, "pads": (1, 1, 1, 1)}
        relu = i % 2 == 0
        graph.add_const(f"w{i}", w), graph.add_const(f"b{i}", b)
        param = parameters(w, 8, relu, **window)
        graph.add_tpu_layer("TPU_CONV_INT8", [name, f"w{i}", f"b{i}"], param, [f"y{i}"])
        y, name = conv_int8(y, w, b, 8, relu, **window), f"y{i}"
    for opt in (0, 1, 2):
        graph.compile(opt=opt)
        assert np.array_equal(graph.run({"x": x})[0], y), opt


def test_the_controller_does_the_same(controller: Toolkit) -> None:
    x, w = integers((5, 20, 9, 9), "uint8"), integers((70, 20, 3, 3), "int8", 1)
    modes: list[dict[str, Any]] = [{}, {"dynamic": True}]
    check(controller, x, w, integers((70,), "int16", 2), 7, True, modes, pads=(1, 1, 1, 1))


@pytest.mark.parametrize(
    ("changed", "weights", "bias", "message"),
    [
        ({"rshift": 32}, "int8", "int16", "BM_LAYER_PARAM_INVALID"),
        ({"scale": 0.0}, "int8", "int16", "BM_LAYER_PARAM_INVALID"),
        ({"stride_h": 16}, "int8", "int16", "BM_LAYER_NOT_SUPPORTED"),
        ({}, "uint8", "int16", r"weights are int8 \[OC, IC, KH, KW\]"),
        ({}, "int8", "int32", "the bias has one int16 for each output channel"),
    ],
)
def test_refused(toolkit: Toolkit, changed: dict[str, Any], weights: str, bias: str, message: str) -> None:
    graph = Graph(name="net", toolkit=toolkit)
    graph.add_input("x", (1, 3, 40, 40), "int8", scale=0.25)
    w = np.ones((4, 3, 3, 3), weights)
    names = ["x", graph.add_const("w", w), graph.add_const("b", np.ones(4, bias))]
    graph.add_tpu_layer("TPU_CONV_INT8", names, parameters(w, 3, True) | changed, ["y"])
    with pytest.raises(TpulayerError, match=message):
        graph.compile()


@pytest.mark.parametrize(
    ("channels", "groups", "taken"), [(4032, 1, True), (4033, 1, False), (8064, 2, True)]
)
def test_input_channels(toolkit: Toolkit, channels: int, groups: int, taken: bool) -> None:
    """As many as one command adds up, for each group."""
    x, w = integers((2, channels, 1, 1), "int8"), integers((2, channels // groups, 1, 1), "int8", 1)
    graph = Graph(name="net", toolkit=toolkit)
    graph.add_input("x", x.shape, "int8", scale=0.5)
    names = ["x", graph.add_const("w", w)]
    graph.add_tpu_layer("TPU_CONV_INT8", names, parameters(w, 12, False, groups=groups), ["y"])
    graph.add_output("y")
    if not taken:
        with pytest.raises(TpulayerError, match="TPU_CONV_INT8"):
            graph.compile()
        return
    graph.compile()
    wanted = conv_int8(x, w, None, 12, False, groups=groups)
    np.testing.assert_array_equal(graph.run({"x": x})[0], wanted)
