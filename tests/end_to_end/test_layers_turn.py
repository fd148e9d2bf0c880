"""TPU_TURN beside numpy: alone, between other layers in local memory, dynamically; the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_sim.errors import TpulayerError
from tests.support.examples import examples
from tests.support.layer_checks import refused
from tests.support.quantised import check, integers
from tpulayer import BINARY_ADD, Graph
from user_layers.toolkit import Toolkit

HOW = [(0, False), (1, False), (2, False), (0, True), (2, True)]


def sample(shape: tuple[int, ...]) -> Any:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def turned(x: Any, side: tuple[int, int] | None) -> Any:
    made = x.reshape(*x.shape[:2], -1).swapaxes(1, 2)
    return made if side is None else made.reshape(*made.shape[:2], *side)


def built(toolkit: Toolkit, shape: tuple[int, ...], side: tuple[int, int] | None) -> Graph:
    """Two of them between sums, the second one as it is."""
    graph = Graph(name="net", toolkit=toolkit)
    graph.add_input("x", shape)
    height, width = side or (0, 0)
    graph.add_const_binary_layer("x", 2.0, "a", BINARY_ADD)
    graph.add_tpu_layer("TPU_TURN", ["a"], {"height": height, "width": width}, ["b"])
    graph.add_const_binary_layer("b", 3.0, "y", BINARY_ADD)
    graph.add_tpu_layer("TPU_TURN", ["y"], {"height": 0, "width": 0}, ["z"])
    for name in ("y", "z"):
        graph.add_output(name)
    return graph


@examples(25)
@given(st.data(), st.sampled_from(HOW))
def test_any_matrices(toolkit: Toolkit, data: st.DataObject, how: tuple[int, bool]) -> None:
    batch, height, width, channels = (data.draw(st.integers(1, most)) for most in (3, 12, 12, 150))
    picture, flat = data.draw(st.booleans()), data.draw(st.booleans())
    shape: tuple[int, ...]
    if picture:
        shape, side = (batch, height * width, channels), (height, width)
    else:
        shape, side = (batch, channels, height * width) if flat else (batch, channels, height, width), None
    x = sample(shape)
    graph = built(toolkit, shape, side)
    log: list[str] = []
    graph.compile(opt=how[0], dynamic=how[1], log=log.append)
    want = turned(x + np.float32(2), side) + np.float32(3)
    for got, expected in zip(graph.run({"x": x}), (want, turned(want, None)), strict=True):
        assert np.array_equal(got, expected)
    if how[0] == 1:
        assert all(", local, group 0" in line for line in log if line.startswith("TURN"))
    if how[1] and batch > 1:
        (got, _) = graph.run({"x": x[:1]})
        assert np.array_equal(got, want[:1])


@examples(12)
@given(st.data(), st.sampled_from(("int8", "uint8", "int16")))
def test_integers(toolkit: Toolkit, data: st.DataObject, dtype: str) -> None:
    """Batches that share words, words that are not full, and what is made of them keeps type and scale."""
    batch, height, width, channels = (data.draw(st.integers(1, most)) for most in (9, 9, 9, 150))
    x = integers((batch, height * width, channels), dtype)

    def layers(graph: Graph) -> None:
        graph.add_tpu_layer("TPU_TURN", ["x"], {"height": height, "width": width}, ["y"])
        graph.add_tpu_layer("TPU_TURN", ["y"], {"height": 0, "width": 0}, ["z"])
        for name in ("y", "z"):
            graph.add_output(name)

    check(toolkit, layers, {"x": x}, [0.5], [turned(x, (height, width)), x])


@pytest.mark.parametrize("shape", [(1, 64, 56, 56), (2, 3136, 64), (1, 4097, 8), (1, 8, 4097)])
def test_large_ones(toolkit: Toolkit, shape: tuple[int, ...]) -> None:
    """Also with more rows, or columns, than a tensor in local memory has channels."""
    x = sample(shape)
    graph = built(toolkit, shape, None)
    graph.compile()
    want = turned(x + np.float32(2), None) + np.float32(3)
    assert np.array_equal(graph.run({"x": x})[0], want)


def test_wrong_parameters(toolkit: Toolkit) -> None:
    x = sample((2, 6, 5))
    refused(toolkit, "TPU_TURN", {"height": 2, "width": 2}, x)
    refused(toolkit, "TPU_TURN", {"height": 6, "width": 0}, x)
    refused(toolkit, "TPU_TURN", {"height": 0, "width": 0}, sample((6, 5)))
    with pytest.raises(TpulayerError):
        graph = Graph(name="net", toolkit=toolkit)
        graph.add_input("x", (2, 3, 4), np.int8)
        graph.add_tpu_layer("TPU_TURN", ["x"], {"height": 0, "width": 0}, ["y"])
        graph.compile()


@examples(20)
@given(st.data())
def test_rows_that_no_window_sees(toolkit: Toolkit, data: st.DataObject) -> None:
    """A picture is made whole, also where a convolution or pool behind it leaves rows and columns out."""
    height, width, channels = (data.draw(st.integers(low, high)) for low, high in ((5, 14), (5, 14), (1, 70)))
    kernel, stride = ([data.draw(st.integers(1, 4)) for _ in "hw"] for _ in range(2))
    names = [f"{what}_{axis}" for what in ("kernel", "stride", "dilation") for axis in "hw"]
    window = dict(zip(names, (*kernel, *stride, 1, 1), strict=True))
    window |= dict.fromkeys(("pad_top", "pad_bottom", "pad_left", "pad_right"), 0)
    graph = Graph(name="net", toolkit=toolkit)
    graph.add_input("x", (1, height * width, channels))
    graph.add_tpu_layer("TPU_TURN", ["x"], {"height": height, "width": width}, ["picture"])
    if data.draw(st.booleans()):
        weights = np.random.default_rng(0).standard_normal((3, channels, *kernel)).astype(np.float32)
        graph.add_const("w", weights)
        graph.add_tpu_layer("TPU_CONV", ["picture", "w"], {"groups": 1, **window}, ["seen"])
    else:
        graph.add_tpu_layer("TPU_POOL", ["picture"], {"mode": 0, **window}, ["seen"])
    graph.add_const_binary_layer("seen", 1.0, "y", BINARY_ADD)
    x = np.random.default_rng(1).standard_normal((1, height * width, channels)).astype(np.float32)
    made = []
    for opt in (0, 1):
        graph.compile(opt=opt)
        made.append(graph.run({"x": x})[0])
    assert np.array_equal(made[0], made[1])
