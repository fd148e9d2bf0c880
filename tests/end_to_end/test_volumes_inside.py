"""Convolutions of volumes that wait for their planes: one layer in local memory instead of two."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from onnx import helper

from tests.support.examples import examples
from tests.support.onnx_models import make_model
from tpulayer import Graph
from user_layers.compiler.volumes import keep_planes
from user_layers.graph.shapes import infer_shapes
from user_layers.onnx.check import TOLERANCE, compare, reference
from user_layers.onnx.load import load_model
from user_layers.toolkit import Toolkit


def factored(
    shape: tuple[int, ...], channels: int, kernel: tuple[int, int, int], twice: bool = False, **how: Any
) -> Any:
    """Planes convolved by themselves, then along the depth, and by themselves again. twice: the second one is
    an output, too."""
    rng = np.random.default_rng(0)
    constants = {
        "u": rng.standard_normal((channels, shape[1], 1, 3, 3), np.float32),
        "v": rng.standard_normal((channels, channels, *kernel), np.float32),
        "w": rng.standard_normal((shape[1], channels, 1, 1, 1), np.float32),
        "b": rng.standard_normal(channels, np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "u"], ["k"], pads=[0, 1, 1] * 2),
        helper.make_node("Relu", ["k"], ["l"]),
        helper.make_node("Conv", ["l", "v", "b"], ["m"], **how),
        helper.make_node("Relu", ["m"], ["n"]),
        helper.make_node("Conv", ["n", "w"], ["y"]),
    ]
    return make_model(nodes, {"x": shape}, ["y", "m"] if twice else ["y"], constants)


def right(graph: Graph, model: Any, shape: tuple[int, ...]) -> bool:
    x = {"x": np.random.default_rng(1).standard_normal(shape, np.float32)}
    found = compare(list(graph.outputs), graph.run(x), reference(load_model(model), x))
    return all(one.relative <= TOLERANCE for one in found)


@pytest.mark.parametrize(
    ("opt", "dynamic", "inside"), [(2, False, True), (1, False, False), (2, True, False)]
)
def test_along_the_depth(toolkit: Toolkit, opt: int, dynamic: bool, inside: bool) -> None:
    shape = (1, 16, 12, 40, 40)
    model = factored(shape, 20, (3, 1, 1), pads=[1, 0, 0] * 2)
    graph = Graph.from_onnx(model, toolkit=toolkit)
    lines: list[str] = []
    graph.compile(opt=opt, dynamic=dynamic, log=lines.append)
    assert sum(line.startswith("CONV3D") for line in lines) == inside
    assert sum(line.startswith("UNFOLD") for line in lines) == (not inside)
    assert any("volumes in local memory" in line for line in lines) == inside
    assert right(graph, model, shape)


@examples(15)
@given(
    st.tuples(st.integers(1, 2), st.integers(4, 9), st.integers(2, 6), st.integers(3, 9), st.integers(3, 9)),
    st.integers(4, 70),
    st.tuples(st.integers(2, 4), st.integers(1, 2), st.integers(1, 2)),
    st.tuples(*[st.integers(1, 2)] * 3),
    st.booleans(),
)
def test_the_same_values(
    toolkit: Toolkit,
    shape: tuple[int, ...],
    channels: int,
    kernel: tuple[int, int, int],
    strides: tuple[int, int, int],
    twice: bool,
) -> None:
    pads = [size // 2 for size in kernel]
    model = factored(shape, channels, kernel, twice, pads=pads * 2, strides=list(strides))
    graph = Graph.from_onnx(model, toolkit=toolkit)
    whole = keep_planes(graph, infer_shapes(graph))
    assume(whole is not None)  # computing takes longer than loading
    assert whole is not None
    assert [node.op.short for node in whole.nodes].count("CONV3D") == 1
    for opt in (0, 1):
        whole.compile(opt=opt)
        assert right(whole, model, shape)


def test_what_stays(toolkit: Toolkit) -> None:
    """More products than loads; planes side by side that something else reads, too."""
    deep = Graph.from_onnx(factored((1, 16, 8, 24, 24), 64, (3, 3, 3), pads=[1] * 6), toolkit=toolkit)
    assert keep_planes(deep, infer_shapes(deep)) is None
    net = Graph(name="net", toolkit=toolkit)
    net.add_input("x", (8, 16, 24, 24))
    side = {"planes": 8, "kernel_d": 3, "stride_d": 1, "dilation_d": 1, "pad_front": 1, "pad_back": 1}
    side |= {"kernel_h": 1, "stride_h": 1, "dilation_h": 1, "pad_top": 0, "pad_bottom": 0}
    net.add_tpu_layer("TPU_UNFOLD", ["x"], side, ["u"])
    ones = ("kernel_h", "kernel_w", "stride_h", "stride_w", "dilation_h", "dilation_w")
    net.add_const("w", np.ones((16, 48, 1, 1), np.float32))
    net.add_tpu_layer("TPU_CONV", ["u", "w"], {"groups": 1, **dict.fromkeys(ones, 1)}, ["y"])
    assert keep_planes(net, infer_shapes(net)) is not None
    net.add_tpu_layer("TPU_UNARY", ["u"], {"unary_op": 0}, ["z"])
    assert keep_planes(net, infer_shapes(net)) is None
