"""TPU_RESHAPE in local memory, where batches and lanes stay: in place nothing runs, else a copy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.window_layers import MODES, run, sample, window_param
from tpulayer import BINARY_ADD, BINARY_MUL, Graph
from user_layers.toolkit import Toolkit

Shape = tuple[int, ...]


def to(*shape: int) -> dict[str, Any]:
    return {"dims": len(shape), "shape": [*shape, *[0] * (8 - len(shape))]}


@st.composite
def shapes(draw: st.DrawFn) -> tuple[Shape, Shape]:
    """The same batches and channels, with rows and columns in two orders or as one dimension."""
    n, c = draw(st.integers(1, 3)), draw(st.sampled_from([1, 3, 64, 70, 130]))
    h, w = draw(st.integers(1, 12)), draw(st.integers(1, 12))
    forms = [(n, c, h, w), (n, c, w, h), (n, c, h * w), (n, c, 1, h * w), (n, c, h * w, 1)]
    if h == w == 1:
        forms.append((n, c))
    return draw(st.sampled_from(forms)), draw(st.sampled_from(forms))


def in_a_group(log: str) -> bool:
    return any(line.startswith("RESHAPE") and ", local, group" in line for line in log.splitlines())


@examples(25)
@given(shapes())
def test_any_shape(toolkit: Toolkit, drawn: tuple[Shape, Shape]) -> None:
    before, after = drawn
    x = sample(*before)
    for opt, dynamic in (*MODES, (1, True), (2, False)):
        y, log = run(toolkit, "TPU_RESHAPE", x, to(*after), opt=opt, dynamic=dynamic, around=True)
        assert np.array_equal(y, (2 * x).reshape(after) + np.float32(1))
        assert opt == 2 or in_a_group(log) == (opt == 1 and not dynamic)


@examples(15)
@given(
    st.integers(1, 3),
    st.integers(1, 9),
    st.integers(1, 9),
    st.lists(st.integers(0, 4), min_size=3, max_size=3),
)
def test_of_a_smaller_input(toolkit: Toolkit, n: int, h: int, w: int, more: list[int]) -> None:
    x = sample(n, 70, h, w)
    larger = (n + more[0], 70, h + more[1], w + more[2])
    for opt in (1, 2):
        y, _ = run(
            toolkit, "TPU_RESHAPE", x, to(0, 0, -1), opt=opt, dynamic=True, compiled=larger, around=True
        )
        assert np.array_equal(y, (2 * x).reshape(n, 70, -1) + np.float32(1))


@examples(10)
@given(shapes(), st.booleans(), st.booleans())
def test_what_others_read_is_copied(
    toolkit: Toolkit, drawn: tuple[Shape, Shape], later: bool, stored: bool
) -> None:
    """The input is read once more behind the reshape, or is an output of the net."""
    before, after = drawn
    x = sample(*before)
    for opt in (0, 1, 2):
        graph = Graph(name="net", toolkit=toolkit)
        graph.add_input("x", x.shape)
        graph.add_const_binary_layer("x", 2.0, "a", BINARY_MUL)
        graph.add_tpu_layer("TPU_RESHAPE", ["a"], to(*after), ["b"])
        graph.add_const_binary_layer("b", 1.0, "y", BINARY_ADD)
        graph.add_output("y")
        wanted = [(2 * x).reshape(after) + np.float32(1)]
        if later:
            graph.add_const_binary_layer("a", 5.0, "z", BINARY_ADD)
            graph.add_output("z")
            wanted.append(2 * x + np.float32(5))
        if stored:
            graph.add_output("a")
            wanted.append(2 * x)
        graph.compile(opt=opt)
        for got, want in zip(graph.run({"x": x}), wanted, strict=True):
            assert np.array_equal(got, want)


@examples(10)
@given(shapes())
def test_words(toolkit: Toolkit, drawn: tuple[Shape, Shape]) -> None:
    """Of 8-bit integers four of which share a word."""
    before, after = drawn
    assume(len(before) == 4)
    x = np.random.default_rng(0).integers(-128, 128, (before[0] + 4, *before[1:])).astype(np.int8)
    for opt in (0, 1, 2):
        graph = Graph(name="net", toolkit=toolkit)
        graph.add_input("x", x.shape, "int8", scale=0.5)
        graph.add_tpu_layer("TPU_UPSAMPLE", ["x"], {"scale_h": 1, "scale_w": 1}, ["a"])
        graph.add_tpu_layer("TPU_RESHAPE", ["a"], to(0, *after[1:]), ["b"])
        graph.add_tpu_layer("TPU_COPY", ["b"], None, ["y"])
        graph.compile(opt=opt)
        assert {"QUANTIZE", "DEQUANTIZE"}.isdisjoint(node.op.short for node in graph.resolve().nodes)
        (y,) = graph.run({"x": x})
        assert np.array_equal(y, x.reshape(x.shape[0], *after[1:]))


def test_views_between_pictures_and_lines_are_in_one_group(toolkit: Toolkit) -> None:
    x = sample(1, 64, 12, 12)
    weights = sample(64, 64, 1, 1) / np.float32(math.sqrt(64))
    graph = Graph(name="net", toolkit=toolkit)
    graph.add_input("x", x.shape)
    window = window_param((1, 1), (1, 1), (0, 0, 0, 0), (1, 1))
    graph.add_tpu_layer("TPU_CONV", ["x", graph.add_const("w", weights)], {**window, "groups": 1}, ["a"])
    graph.add_tpu_layer("TPU_RESHAPE", ["a"], to(1, 64, 144), ["b"])
    graph.add_const_binary_layer("b", 2.0, "c", BINARY_MUL)
    graph.add_tpu_layer("TPU_RESHAPE", ["c"], to(1, 64, 12, 12), ["d"])
    graph.add_const_binary_layer("d", 1.0, "y", BINARY_ADD)
    lines: list[str] = []
    graph.compile(opt=2, log=lines.append)
    assert all(", local, group 0" in line for line in lines[:5])
    (y,) = graph.run({"x": x})
    want = 2 * np.einsum("oc,nchw->nohw", weights[:, :, 0, 0].astype(np.float64), x) + 1
    assert np.abs(y - want).max() < 1e-4
