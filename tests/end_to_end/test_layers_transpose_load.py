"""TPU_TRANSPOSE as the load of what it makes, beside numpy: in tiles and groups, dynamically, of words."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.window_layers import MODES, run, sample
from tpulayer import BINARY_ADD, BINARY_MUL, Graph
from user_layers.toolkit import Toolkit


def order_of(order: tuple[int, ...]) -> dict[str, Any]:
    return {"dims": len(order), "order": [*order, *[0] * (8 - len(order))]}


def is_local(order: tuple[int, ...]) -> bool:
    """Rows stay whole."""
    return len(order) > 2 and order[-1] == len(order) - 1


@st.composite
def turned(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    rank = draw(st.integers(2, 4))
    extents = st.sampled_from([1, 2, 3, 7, 16, 33, 65])
    shape = tuple(draw(extents) for _ in range(rank))
    while np.prod(shape) > 40_000:
        shape = tuple(max(1, e // 2) for e in shape)
    order = tuple(draw(st.permutations(range(rank))))
    return shape, order if draw(st.booleans()) else (*(d for d in order if d < rank - 1), rank - 1)


@examples(25)
@given(turned())
def test_any_order(toolkit: Toolkit, drawn: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    shape, order = drawn
    x = sample(*shape)
    for opt, dynamic in (*MODES, (1, True), (2, False)):
        y, log = run(toolkit, "TPU_TRANSPOSE", x, order_of(order), opt=opt, dynamic=dynamic, around=True)
        assert np.array_equal(y, (2 * x).transpose(order) + np.float32(1))
        local = any(line.startswith("TRANSPOSE") and ", local, group" in line for line in log.splitlines())
        assert opt == 2 or local == (opt == 1 and is_local(order))


@examples(15)
@given(turned(), st.lists(st.integers(0, 5), min_size=4, max_size=4))
def test_of_a_smaller_input(
    toolkit: Toolkit, drawn: tuple[tuple[int, ...], tuple[int, ...]], more: list[int]
) -> None:
    shape, order = drawn
    x = sample(*shape)
    larger = tuple(e + m for e, m in zip(shape, more, strict=False))
    for opt in (1, 2):
        y, _ = run(
            toolkit, "TPU_TRANSPOSE", x, order_of(order), opt=opt, dynamic=True, compiled=larger, around=True
        )
        assert np.array_equal(y, (2 * x).transpose(order) + np.float32(1))


@pytest.mark.parametrize(
    ("shape", "order"),
    [
        ((197, 12, 64), (1, 0, 2)),
        ((60, 190, 200), (1, 0, 2)),
        ((3, 150, 8, 700), (0, 2, 1, 3)),
        ((6, 500, 30, 33), (2, 0, 1, 3)),
    ],
)
def test_tiles_in_groups(toolkit: Toolkit, shape: tuple[int, ...], order: tuple[int, ...]) -> None:
    """Two layers behind it, so that the group is faster than one copy in DDR."""
    x = sample(*shape)
    graph = Graph(name="net", toolkit=toolkit)
    graph.add_input("x", x.shape)
    graph.add_tpu_layer("TPU_TRANSPOSE", ["x"], order_of(order), ["a"])
    graph.add_const_binary_layer("a", 2.0, "b", BINARY_MUL)
    graph.add_const_binary_layer("b", 1.0, "y", BINARY_ADD)
    for opt in (1, 2):
        lines: list[str] = []
        graph.compile(opt=opt, log=lines.append)
        (y,) = graph.run({"x": x})
        assert np.array_equal(y, 2 * x.transpose(order) + np.float32(1))
        (line,) = (line for line in lines if line.startswith("TRANSPOSE"))
        assert opt == 2 or ", local, group" in line


@pytest.mark.parametrize("order", list(itertools.permutations((1, 2, 3))))
def test_words(toolkit: Toolkit, order: tuple[int, ...]) -> None:
    """Of 8-bit integers four of which share a word: batches stay."""
    x = np.random.default_rng(1).integers(-128, 128, (6, 70, 5, 9)).astype(np.int8)
    for opt in (0, 1, 2):
        graph = Graph(name="net", toolkit=toolkit)
        graph.add_input("x", x.shape, "int8", scale=0.5)
        graph.add_tpu_layer("TPU_TRANSPOSE", ["x"], order_of((0, *order)), ["a"])
        graph.add_tpu_layer("TPU_UPSAMPLE", ["a"], {"scale_h": 1, "scale_w": 1}, ["y"])
        graph.compile(opt=opt)
        assert {"QUANTIZE", "DEQUANTIZE"}.isdisjoint(node.op.short for node in graph.resolve().nodes)
        (y,) = graph.run({"x": x})
        assert np.array_equal(y, x.transpose(0, *order))
