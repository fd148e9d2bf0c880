"""Transposed convolutions in 8 bits, as plain ones and squares of pixels."""

from __future__ import annotations

import numpy as np
import onnx
from hypothesis import assume, given
from hypothesis import strategies as st
from onnx import helper, numpy_helper

from tests.support.examples import examples
from tpulayer import Graph
from user_layers.quantize.calibrate import calibrate
from user_layers.quantize.quality import compared
from user_layers.quantize.rewrite import quantise
from user_layers.toolkit import Toolkit

Pads = tuple[int, int, int, int]


def model(
    batch: int, size: tuple[int, int], kernel: int, stride: int, pads: Pads, more: int
) -> onnx.ModelProto:
    """With a bias; then relu for batches of more than one."""
    rng = np.random.default_rng(kernel)
    weights = rng.standard_normal((8, 12, kernel, kernel)) * (8 * max(kernel / stride, 1) ** 2) ** -0.5
    told = (("w", weights), ("b", rng.standard_normal(12) / 5))
    constants = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in told]
    at = {"strides": [stride] * 2, "pads": pads, "output_padding": [more] * 2}
    nodes = [helper.make_node("ConvTranspose", ["x", "w", "b"], ["y"], **at)]
    if batch > 1:
        nodes.append(helper.make_node("Relu", ["y"], ["z"]))
    inputs = [helper.make_tensor_value_info("x", 1, [batch, 8, *size])]
    outputs = [helper.make_tensor_value_info("z" if batch > 1 else "y", 1, None)]
    graph = helper.make_graph(nodes, "net", inputs, outputs, constants)
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


@given(
    st.sampled_from([1, 3]),
    st.tuples(st.integers(4, 9), st.integers(4, 9)),
    st.integers(1, 5),
    st.integers(1, 3),
    st.tuples(*[st.integers(0, 4)] * 4),
    st.integers(0, 2),
)
@examples(10)
def test_any_window(
    toolkit: Toolkit, batch: int, size: tuple[int, int], kernel: int, stride: int, pads: Pads, more: int
) -> None:
    """All of it in 8 bits, near what float makes; alone, in groups and dynamically the same."""
    assume(max(pads) < kernel and more < stride)
    extents = [(s - 1) * stride + kernel - pads[k] - pads[k + 2] + more for k, s in enumerate(size)]
    assume(min(extents) >= 1)
    graph = Graph.from_onnx(model(batch, size, kernel, stride, pads, more), toolkit=toolkit)
    x = np.random.default_rng(0).standard_normal((batch, 8, *size)).astype(np.float32)
    done = quantise(graph, calibrate(graph, [{"x": x}], "minmax"))
    assert done.share == 1.0
    graph.compile()
    (wanted,) = graph.run({"x": x})
    found = []
    for options in ({"opt": 0}, {"opt": 2}, {"dynamic": True}):
        done.graph.compile(**options)
        found.append(done.graph.run({"x": x})[0])
    assert compared(wanted, found[0]).sqnr > 25
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
