"""Transposed convolutions by phases of the stride: the same values, only where that takes fewer cycles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from onnx import helper

from tests.support.examples import examples
from tests.support.onnx_models import equals_onnxruntime, make_model
from tests.support.workspaces import builtin_toolkit
from tpulayer import Graph
from user_layers.net.phases import Direction, by_phases
from user_layers.onnx import phases
from user_layers.onnx.check import TOLERANCE, compare, reference
from user_layers.onnx.load import load_model
from user_layers.onnx.model import Model
from user_layers.toolkit import Toolkit


@pytest.fixture(scope="module")
def toolkit() -> Iterator[Toolkit]:
    with builtin_toolkit() as opened:
        yield opened


def model(*arguments: Any) -> Model:
    return load_model(transposed(*arguments))


def transposed(
    shape: tuple[int, ...],
    outs: int,
    kernel: int,
    stride: int,
    pad: int,
    more: int,
    bias: bool = True,
) -> Any:
    """A transposed convolution, of lines or pictures; more: output_padding."""
    rng, rank = np.random.default_rng(kernel), len(shape) - 2
    constants = {"w": rng.standard_normal((shape[1], outs, *[kernel] * rank)).astype(np.float32)}
    if bias:
        constants["b"] = rng.standard_normal(outs).astype(np.float32)
    node = helper.make_node(
        *("ConvTranspose", ["x", *constants], ["y"]),
        strides=[stride] * rank,
        pads=[pad] * 2 * rank,
        output_padding=[more] * rank,
    )
    return make_model([node], {"x": shape}, ["y"], constants)


@examples(60)
@given(
    st.tuples(st.integers(1, 2), st.integers(1, 5), st.integers(2, 7), st.integers(2, 7)),
    *(st.integers(1, 4), st.integers(1, 9), st.integers(2, 4), st.integers(0, 4), st.integers(0, 3)),
    *(st.booleans(), st.booleans()),
)
def test_the_same_values(
    shape: tuple[int, ...],
    outs: int,
    kernel: int,
    stride: int,
    pad: int,
    more: int,
    bias: bool,
    line: bool,
) -> None:
    """As onnxruntime computes both, whatever it costs here."""
    assume(pad < kernel and more < stride)
    shape = shape[:3] if line else shape
    assume(all((n - 1) * stride + kernel - 2 * pad + more > 0 for n in shape[2:]))
    plain = model(shape, outs, kernel, stride, pad, more, bias)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(phases, "_MOVED", -(10**9))
        split = phases.split_phases(plain)
    if len(split.nodes) == 1:
        assert split.nodes == plain.nodes
        whole = all(((n - 1) * stride + kernel - 2 * pad + more) % stride == 0 for n in shape[2:])
        assert not whole or pad or more  # only pads that a convolution has not may be in the way
        return
    x = {"x": np.random.default_rng(1).standard_normal(shape).astype(np.float32)}
    (difference,) = compare(["y"], reference(split, x), reference(plain, x))
    assert difference.relative <= TOLERANCE


def test_super_resolution(toolkit: Toolkit) -> None:
    """One output channel, through the whole of compiling."""
    shape = (1, 24, 20, 22)
    x = {"x": np.random.default_rng(1).standard_normal(shape).astype(np.float32)}
    proto = transposed(shape, 1, 9, 2, 4, 1)
    graph = Graph.from_onnx(proto, toolkit=toolkit)
    assert [node.op.short for node in graph.resolve().nodes] == ["CONV", "DEPTH_TO_SPACE"]
    graph.compile()
    (difference,) = compare(["y"], graph.run(x), reference(load_model(proto), x))
    assert difference.relative <= TOLERANCE


def test_sound_from_frames(toolkit: Toolkit) -> None:
    """Lines: a decoder's last layer, through the whole of compiling, dynamic too."""
    shape = (1, 256, 90)
    x = {"x": np.random.default_rng(1).standard_normal(shape).astype(np.float32)}
    proto = transposed(shape, 1, 16, 8, 0, 0)
    graph = equals_onnxruntime(toolkit, proto, x)
    assert "DECONV" not in {node.op.short for node in graph.resolve().nodes}
    equals_onnxruntime(toolkit, proto, x, dynamic=True)


def test_many_channels_stay_as_they_are() -> None:
    """All lanes work anyway, and the way through DDR would cost more."""
    plain = model((1, 64, 8, 8), 64, 2, 2, 0, 0)
    assert phases.split_phases(plain).nodes == plain.nodes


@pytest.mark.parametrize(
    ("outs", "kernel", "stride", "pad"), [(21, 64, 32, 16), (4, 32, 32, 0), (1, 34, 17, 0)]
)
def test_strides_beyond_the_instruction(
    toolkit: Toolkit, outs: int, kernel: int, stride: int, pad: int
) -> None:
    """FCN's last layer: no other way has a layer."""
    shape = (1, 21, 5, 6)
    x = {"x": np.random.default_rng(1).standard_normal(shape).astype(np.float32)}
    graph = equals_onnxruntime(toolkit, transposed(shape, outs, kernel, stride, pad, 0), x)
    assert all(node.cpu is None for node in graph.nodes)


@examples(60)
@given(
    channels=st.integers(1, 40),
    kernel=st.tuples(st.integers(1, 40), st.integers(1, 6)),
    stride=st.tuples(st.integers(1, 6), st.integers(1, 4)),
    dilation=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    pads=st.tuples(*[st.integers(0, 3)] * 4),
    more=st.tuples(st.integers(0, 3), st.integers(0, 3)),
)
def test_when_phases_are_made_one_after_the_other(
    toolkit: Toolkit,
    channels: int,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    dilation: tuple[int, int],
    pads: tuple[int, int, int, int],
    more: tuple[int, int],
) -> None:
    """As the layer's descriptor says: these have a work buffer."""
    fields = [f"{what}_{axis}" for what in ("kernel", "stride", "dilation", "output_pad") for axis in "hw"]
    values = dict(zip(fields, (*kernel, *stride, *dilation, *more), strict=True))
    values |= dict(zip(("pad_top", "pad_bottom", "pad_left", "pad_right"), pads, strict=True))
    graph = Graph(name="net", toolkit=toolkit)
    graph.add_input("x", (1, channels, 20, 20))
    graph.add_const("w", np.ones((channels, 2, *kernel), np.float32))
    (y,) = graph.add_tpu_layer("TPU_DECONV", ["x", "w"], {"groups": 1, **values}, ["y"])
    net = graph.resolve()
    tensors = [[net.tensors[name] for name in names] for names in (("x", "w"), ("y",))]
    room = toolkit.describe(net.nodes[0], *tensors).get_local_buffer_size(net.tensors[y].shape)
    along = []
    for k, s, d, low, high, out in zip(kernel, stride, dilation, pads[::2], pads[1::2], more, strict=True):
        reach = (k - 1) * d
        along.append(Direction(k, s, d, reach - low, reach - high + out))
    assert by_phases(channels, *along) == (room > 0)


@examples(5)
@given(st.data())
def test_volumes(toolkit: Toolkit, data: st.DataObject) -> None:
    """By phases along depth alone, whatever is left out at either end."""

    def three(low: int, most: Iterable[int]) -> list[int]:
        return [data.draw(st.integers(low, max(low, high))) for high in most]

    kernel, stride, extents = three(1, (4, 3, 3)), three(1, (3, 2, 3)), three(2, (4, 4, 4))
    before, after = three(0, (n - 1 for n in kernel)), three(0, (n - 1 for n in kernel))
    more = three(0, (n - 1 for n in stride))
    assume(
        all(
            (n - 1) * s + k - b - a + m > 0
            for n, s, k, b, a, m in zip(extents, stride, kernel, before, after, more, strict=True)
        )
    )
    n, ins, outs = three(1, (2, 3, 3))
    constants = {
        "w": np.random.default_rng(0).standard_normal((ins, outs, *kernel)).astype(np.float32),
        "b": np.arange(outs, dtype=np.float32),
    }
    node = helper.make_node(
        *("ConvTranspose", ["x", "w", "b"], ["y"]),
        strides=stride,
        pads=[*before, *after],
        output_padding=more,
    )
    proto = make_model([node], {"x": (n, ins, *extents)}, ["y"], constants)
    x = np.random.default_rng(1).standard_normal((n, ins, *extents)).astype(np.float32)
    graph = equals_onnxruntime(toolkit, proto, {"x": x}, opt=0)
    assert all(layer.cpu is None for layer in graph.nodes) or before[0] + after[0] > 0
