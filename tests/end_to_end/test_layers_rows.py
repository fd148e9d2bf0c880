"""Layers with windows on [N, C, H], which have one column: alone, and in groups that are cut along h."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from onnx import helper

from tests.support.examples import examples
from tests.support.layer_checks import refused, sample
from tests.support.onnx_models import make_model
from tpulayer import Graph
from user_layers.onnx.check import TOLERANCE, compare, reference
from user_layers.onnx.load import load_model
from user_layers.toolkit import Toolkit

HOW = [(0, False), (1, False), (2, False), (0, True)]


def checked(toolkit: Toolkit, model: Any, shape: tuple[int, ...], how: tuple[int, bool]) -> list[str]:
    """The log of a compile whose results are right."""
    x = {"x": np.random.default_rng(0).standard_normal(shape).astype(np.float32)}
    graph = Graph.from_onnx(model, toolkit=toolkit)
    assert all(node.cpu is None for node in graph.nodes)
    lines: list[str] = []
    graph.compile(opt=how[0], dynamic=how[1], log=lines.append)
    names = [value.name for value in model.graph.output]
    for difference in compare(names, graph.run(x), reference(load_model(model), x)):
        assert difference.relative <= TOLERANCE
    return lines


@st.composite
def sequences(draw: st.DrawFn) -> tuple[Any, tuple[int, ...]]:
    """Pads, convolutions, a normalization, pools and a sum on [N, C, L]."""
    length = draw(st.one_of(st.integers(1, 50), st.integers(2000, 5000)))
    groups = draw(st.sampled_from([1, 1, 2, 4]))
    shape = (draw(st.integers(1, 2)), groups * draw(st.integers(1, 5)), length)
    outs = shape[1] if draw(st.booleans()) else groups * draw(st.integers(1, 20))
    kernel, stride = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    dilation = 1 if outs == shape[1] == groups else draw(st.sampled_from([1, 2, 15, 16, 40]))
    before, after = (draw(st.integers(0, 2 * dilation)) for _ in range(2))
    assume(length + before + after > (kernel - 1) * dilation)
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    constants = {
        "w": rng.standard_normal((outs, shape[1] // groups, kernel)).astype(np.float32),
        "v": rng.standard_normal((outs, outs, 3)).astype(np.float32),
        "f": rng.standard_normal((outs, 1)).astype(np.float32),
        "ends": np.array([0, 0, before, 0, 0, after]),
    }
    conv: dict[str, Any] = {"strides": [stride], "dilations": [dilation], "group": groups}
    if draw(st.booleans()):
        first = [helper.make_node("Pad", ["x", "ends"], ["p"])]
    else:
        first = [helper.make_node("Identity", ["x"], ["p"])]
        conv["pads"] = [before, after]
    nodes = [
        *first,
        helper.make_node("Conv", ["p", "w"], ["c"], **conv),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Mul", ["r", "f"], ["m"]),
        helper.make_node("Conv", ["m", "v"], ["d"], pads=[1, 1]),
        helper.make_node("Add", ["d", "m"], ["a"]),
        helper.make_node("MaxPool", ["a"], ["y"], kernel_shape=[2], pads=[1, 0], strides=[2]),
        helper.make_node("AveragePool", ["a"], ["z"], kernel_shape=[3], pads=[1, 1]),
        helper.make_node("GlobalAveragePool", ["a"], ["g"]),
    ]
    return make_model(nodes, {"x": shape}, ["y", "z", "g"], constants), shape


@examples(15)
@given(sequences(), st.sampled_from(HOW))
def test_sequences(toolkit: Toolkit, net: tuple[Any, tuple[int, ...]], how: tuple[int, bool]) -> None:
    checked(toolkit, *net, how)


@pytest.mark.parametrize("dilation", [1, 15, 64, 512])
def test_causal_convolutions_are_groups(toolkit: Toolkit, dilation: int) -> None:
    """Longer than an instruction takes, with pads and taps of all lengths: no layer runs on DDR."""
    rng = np.random.default_rng(0)
    constants = {
        "w": rng.standard_normal((40, 24, 2)).astype(np.float32),
        "v": rng.standard_normal((24, 40, 1)).astype(np.float32),
        "ends": np.array([0, 0, dilation, 0, 0, 0]),
    }
    nodes = [
        helper.make_node("Pad", ["x", "ends"], ["p"]),
        helper.make_node("Conv", ["p", "w"], ["c"], dilations=[dilation]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Conv", ["r", "v"], ["d"]),
        helper.make_node("Add", ["d", "x"], ["y"]),
    ]
    shape = (1, 24, 4096)
    lines = checked(toolkit, make_model(nodes, {"x": shape}, ["y"], constants), shape, (2, False))
    assert not [line for line in lines if "global" in line]
    assert not [line for line in lines if line.startswith("RESHAPE")]


def test_more_columns_than_one(toolkit: Toolkit) -> None:
    """What has one column has no windows along it."""
    x = sample((1, 3, 9))
    one = {"stride_h": 1, "stride_w": 1, "dilation_h": 1, "dilation_w": 1}
    refused(toolkit, "TPU_POOL", {"kernel_h": 2, "kernel_w": 1, "pad_right": 1, **one}, x)
    refused(toolkit, "TPU_POOL", {"kernel_h": 2, "kernel_w": 2, **one}, x)
