"""TPU_SLICE and TPU_GATHER in local memory beside numpy, and splits as slices; the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.support.examples import examples
from tests.support.window_layers import MODES, run, sample
from tpulayer import BINARY_ADD, BINARY_MUL, Graph
from user_layers.toolkit import Toolkit

Cuts = dict[int, tuple[int, int, int]]  # by axis: start, end, step


def slices(cuts: Cuts) -> dict[str, Any]:
    columns = zip(*cuts.values(), strict=True) if cuts else ((), (), ())
    padded = ([*values, *[0] * (8 - len(cuts))] for values in ([*cuts], *columns))
    return {"count": len(cuts), **dict(zip(("axes", "starts", "ends", "steps"), padded, strict=True))}


def taken(x: NDArray[Any], cuts: Cuts) -> NDArray[Any]:
    return x[tuple(slice(*cuts[d]) if d in cuts else slice(None) for d in range(x.ndim))]


def sizes(most: int) -> st.SearchStrategy[tuple[int, ...]]:
    channels = st.sampled_from([1, 3, 16, 64, 70, 129, 200])
    rest = st.lists(st.integers(1, most), min_size=0, max_size=2)
    return st.tuples(st.integers(1, 3), channels, rest).map(lambda s: (s[0], s[1], *s[2]))


@st.composite
def shapes_and_cuts(draw: st.DrawFn) -> tuple[tuple[int, ...], Cuts]:
    shape = draw(sizes(14))
    cuts: Cuts = {}
    for d in draw(st.sets(st.integers(1, len(shape) - 1))):
        first = draw(st.integers(0, shape[d] - 1))
        step = 1 if d == 1 else draw(st.integers(1, 4))
        if draw(st.booleans()):  # all that is behind it, however large the input
            cuts[d] = (first - shape[d] if first and draw(st.booleans()) else first, 2**31 - 1, step)
        else:
            cuts[d] = (first, draw(st.integers(first + 1, shape[d])), step)
    return shape, cuts


def is_local(cuts: Cuts) -> bool:
    """Channels that change lanes are copied with all columns, or those that follow one another."""
    return not (1 in cuts and cuts[1][0] != 0 and 3 in cuts and cuts[3][2] > 1)


def in_local_memory(layer: str, log: str) -> bool:
    return any(line.startswith(layer) and ", local, group" in line for line in log.splitlines())


@examples(25)
@given(shapes_and_cuts(), st.booleans())
def test_any_part(toolkit: Toolkit, drawn: tuple[tuple[int, ...], Cuts], around: bool) -> None:
    """At every level, also between other layers, where it is part of their group."""
    shape, cuts = drawn
    x = sample(*shape)
    want = taken(x, cuts) if not around else taken(2 * x, cuts) + np.float32(1)
    for opt, dynamic in (*MODES, (1, True)):
        y, log = run(toolkit, "TPU_SLICE", x, slices(cuts), opt=opt, dynamic=dynamic, around=around)
        assert np.array_equal(y, want)
        assert in_local_memory("SLICE", log) == (opt > 0 and is_local(cuts))


@examples(15)
@given(shapes_and_cuts(), st.integers(0, 5), st.integers(0, 5))
def test_of_a_smaller_input(toolkit: Toolkit, drawn: tuple[tuple[int, ...], Cuts], h: int, w: int) -> None:
    """A dynamic net that was compiled for a larger one, in groups where that is possible."""
    shape, cuts = drawn
    x = sample(*shape)
    larger = tuple(e + more for e, more in zip(shape, (1, 0, h, w), strict=False))
    want = taken(2 * x, cuts) + np.float32(1)
    for opt in (1, 2):
        y, _ = run(toolkit, "TPU_SLICE", x, slices(cuts), opt=opt, dynamic=True, compiled=larger, around=True)
        assert np.array_equal(y, want)


@pytest.mark.parametrize(
    ("shape", "cuts"),
    [
        ((1, 8, 260, 1031), {2: (3, 255, 1)}),
        ((1, 8, 260, 1031), {2: (1, 260, 3), 3: (5, 1000, 2)}),
        ((1, 200, 130, 300), {1: (70, 199, 1)}),
        ((1, 200, 130, 300), {1: (64, 130, 1), 2: (7, 120, 1)}),
        ((9, 70, 31, 300), {1: (1, 70, 1), 3: (-290, -3, 1)}),
    ],
)
def test_tiles_in_groups(toolkit: Toolkit, shape: tuple[int, ...], cuts: Cuts) -> None:
    x = sample(*shape)
    y, log = run(toolkit, "TPU_SLICE", x, slices(cuts), opt=2, around=True)
    assert "over " in log
    assert np.array_equal(y, taken(2 * x, cuts) + np.float32(1))


@examples(20)
@given(sizes(14), st.data(), st.booleans())
def test_any_rows(toolkit: Toolkit, shape: tuple[int, ...], data: st.DataObject, around: bool) -> None:
    """Constant indices, in any order and repeated, of channels, rows and columns."""
    axis = data.draw(st.integers(1, len(shape) - 1))
    extent = shape[axis]
    drawn = data.draw(st.lists(st.integers(-extent, extent - 1), min_size=1, max_size=20))
    indices = np.array(drawn, np.int32)
    if data.draw(st.booleans()):
        indices = np.arange(extent, dtype=np.int32)[data.draw(st.integers(0, extent - 1)) :: 2]
        indices = np.tile(indices, data.draw(st.integers(1, 2)))
    x = sample(*shape)
    param = {"axis": axis - (len(shape) if data.draw(st.booleans()) else 0), "scalar": 0}
    want = (2 * x if around else x).take(indices, axis) + np.float32(around)
    for opt, dynamic in (*MODES, (1, True)):
        y, log = run(toolkit, "TPU_GATHER", x, param, [indices], opt=opt, dynamic=dynamic, around=around)
        assert np.array_equal(y, want)
        assert in_local_memory("GATHER", log) == (opt > 0)


@pytest.mark.parametrize(("axis", "over"), [(1, "over h"), (2, "over n"), (3, "over n")])
def test_gathered_in_tiles(toolkit: Toolkit, axis: int, over: str) -> None:
    x = sample(6, 70, 60, 170)
    indices = np.array([5, 6, 7, 0, 2, 4, 59, 5, 5, 1, *range(10, 40)], np.int32)
    y, log = run(toolkit, "TPU_GATHER", x, {"axis": axis, "scalar": 0}, [indices], opt=2, around=True)
    assert over in log or "over n" in log
    assert np.array_equal(y, (2 * x).take(indices, axis) + np.float32(1))


@examples(10)
@given(shapes_and_cuts(), st.integers(0, 5))
def test_words(toolkit: Toolkit, drawn: tuple[tuple[int, ...], Cuts], seed: int) -> None:
    """Of 8-bit integers four of which share a word."""
    shape, cuts = drawn
    assume(len(shape) == 4)
    x = np.random.default_rng(seed).integers(-128, 128, (shape[0] + 3, *shape[1:])).astype(np.int8)
    order = np.arange(shape[1], dtype=np.int32)[::-1].copy()
    for opt in (0, 1, 2):
        graph = Graph(name="net", toolkit=toolkit)
        graph.add_input("x", x.shape, "int8", scale=0.5)
        graph.add_tpu_layer("TPU_UPSAMPLE", ["x"], {"scale_h": 1, "scale_w": 1}, ["a"])
        graph.add_tpu_layer("TPU_SLICE", ["a"], slices(cuts), ["b"])
        graph.add_tpu_layer("TPU_GATHER", ["a", graph.add_const("order", order)], {"axis": 1}, ["c"])
        for name in "bc":
            graph.add_tpu_layer("TPU_UPSAMPLE", [name], {"scale_h": 1, "scale_w": 1}, [f"{name}1"])
        graph.compile(opt=opt)
        assert {"QUANTIZE", "DEQUANTIZE"}.isdisjoint(node.op.short for node in graph.resolve().nodes)
        got = graph.run({"x": x})
        for y, want in zip(got, (taken(x, cuts), x[:, ::-1]), strict=True):
            assert np.array_equal(y, want)


def test_a_part_that_lies_in_ddr_as_it_is_is_read_in_groups_too(toolkit: Toolkit) -> None:
    """Both halves of the channels of one batch need no layer in DDR; in a group they are copied."""
    x = sample(1, 48, 20, 20)
    graph = Graph(name="net", toolkit=toolkit)
    graph.add_input("x", x.shape)
    graph.add_const_binary_layer("x", 2.0, "a", BINARY_MUL)
    graph.add_tpu_layer("TPU_SLICE", ["a"], slices({1: (0, 24, 1)}), ["b"])
    graph.add_tpu_layer("TPU_SLICE", ["a"], slices({1: (24, 48, 1)}), ["c"])
    graph.add_const_binary_layer("b", 1.0, "b1", BINARY_ADD)
    graph.add_const_binary_layer("c", 3.0, "c1", BINARY_ADD)
    lines: list[str] = []
    graph.compile(opt=2, log=lines.append)
    b, c = graph.run({"x": x})
    assert np.array_equal(b, 2 * x[:, :24] + np.float32(1))
    assert np.array_equal(c, 2 * x[:, 24:] + np.float32(3))
    assert all("group 0" in line or "group" in line for line in lines if line.startswith("SLICE"))


@pytest.mark.parametrize("axis", [1, 2, -1])
def test_splits_are_slices(toolkit: Toolkit, axis: int) -> None:
    """In static nets, but of batches; a dynamic net keeps them, for its parts may be other ones."""
    x = sample(2, 12, 6, 9)
    sizes = [2, 1, 3] if axis == 2 else []
    for dynamic, opt in ((False, 0), (False, 2), (True, 2)):
        graph = Graph(name="net", toolkit=toolkit)
        graph.add_input("x", x.shape)
        graph.add_const_binary_layer("x", 2.0, "a", BINARY_MUL)
        param = {"axis": axis, "sizes": [*sizes, *[0] * (16 - len(sizes))]}
        graph.add_tpu_layer("TPU_SPLIT", ["a"], param, ["b", "c", "d"], name="parts")
        graph.add_const_binary_layer("c", 1.0, "c1", BINARY_ADD)
        for name in ("b", "c1", "d"):
            graph.add_output(name)
        lines: list[str] = []
        graph.compile(dynamic=dynamic, opt=opt, log=lines.append)
        assert sum(line.startswith("SLICE parts") for line in lines) == (3 if opt and not dynamic else 0)
        got = graph.run({"x": x})
        want = np.split(2 * x, [2, 3] if axis == 2 else 3, axis)
        for y, part in zip(got, (want[0], want[1] + np.float32(1), want[2]), strict=True):
            assert np.array_equal(y, part)
