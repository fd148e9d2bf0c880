"""TPU_DEPTH_TO_SPACE beside numpy: alone, in tiles in local memory, cut off, dynamically; the same bits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import layer_checks
from tests.support.examples import examples
from tests.support.layer_checks import DTYPES, Array, sample
from tests.support.window_layers import MODES, run
from tpulayer import BINARY_MUL, Graph
from user_layers.toolkit import Toolkit

OP = "TPU_DEPTH_TO_SPACE"


def in_rows(x: Array, rows: int, height: int, crd: int = 0) -> Array:
    n, c, h, w = x.shape
    if crd:
        made = x.reshape(n, c // rows, rows, h, w).transpose(0, 1, 3, 2, 4)
    else:
        made = x.reshape(n, rows, c // rows, h, w).transpose(0, 2, 3, 1, 4)
    whole: Array = made.reshape(n, c // rows, h * rows, w)
    return whole[:, :, : height or h * rows]


def sizes(most: int) -> st.SearchStrategy[tuple[int, int, int, int]]:
    channels = st.sampled_from([1, 3, 16, 33, 64, 70])
    return st.tuples(st.integers(1, 3), channels, st.integers(1, most), st.integers(1, most))


@examples(10)
@given(sizes(12), st.integers(1, 5), st.integers(0, 4), st.integers(0, 1))
def test_any_rows(toolkit: Toolkit, size: tuple[int, int, int, int], rows: int, less: int, crd: int) -> None:
    """Static ones with rows left out, and dynamic ones, which were compiled for a larger input."""
    n, c, h, w = size
    x = np.random.default_rng(3).standard_normal((n, c * rows, h, w)).astype(np.float32)
    height = h * rows - less if less < rows and less else 0
    for opt, dynamic in MODES:
        own = 0 if dynamic else height
        param = {"block_h": rows, "block_w": 1, "crd": crd, "height": own}
        larger = tuple(e + dynamic * (i != 1) for i, e in enumerate(x.shape))
        y, log = run(toolkit, OP, x, param, opt=opt, dynamic=dynamic, compiled=larger)
        assert np.array_equal(y, in_rows(x, rows, own, crd))
        assert ("local" in log) == (opt > 0 and (c == 1 or not crd or rows == 1))


def in_columns(x: Array, columns: int, width: int) -> Array:
    made: Array = in_rows(x.swapaxes(2, 3), columns, width).swapaxes(2, 3)
    return made


@examples(10)
@given(sizes(12), st.integers(2, 5), st.integers(0, 4), st.integers(0, 1))
def test_any_columns(
    toolkit: Toolkit, size: tuple[int, int, int, int], columns: int, less: int, crd: int
) -> None:
    """The same of columns, of whole pictures in local memory."""
    n, c, h, w = size
    x = np.random.default_rng(3).standard_normal((n, c * columns, h, w)).astype(np.float32)
    width = w * columns - less if less < columns and less else 0
    for opt, dynamic in MODES:
        own = 0 if dynamic else width
        param = {"block_h": 1, "block_w": columns, "crd": crd, "width": own}
        larger = tuple(e + dynamic * (i != 1) for i, e in enumerate(x.shape))
        y, log = run(toolkit, OP, x, param, opt=opt, dynamic=dynamic, compiled=larger)
        want = in_rows(x.swapaxes(2, 3), columns, own, crd).swapaxes(2, 3)
        assert np.array_equal(y, want)
        assert ("local" in log) == (opt > 0 and (c == 1 or not crd))


@pytest.mark.parametrize(("columns", "less"), [(2, 0), (3, 2), (8, 7)])
def test_columns_in_groups_cut_over_batches(toolkit: Toolkit, columns: int, less: int) -> None:
    x = np.random.default_rng(5).standard_normal((24, 12 * columns, 13, 131)).astype(np.float32)
    width = 131 * columns - less if less else 0
    param = {"block_h": 1, "block_w": columns, "crd": 0, "width": width}
    y, log = run(toolkit, OP, x, param, opt=2, around=True)
    assert "over n" in log
    assert np.array_equal(y, in_columns(2 * x, columns, width) + np.float32(1))


@pytest.mark.parametrize(("rows", "less"), [(2, 0), (3, 2), (5, 1), (4, 3)])
def test_tiles_in_groups(toolkit: Toolkit, rows: int, less: int) -> None:
    x = np.random.default_rng(5).standard_normal((1, 12 * rows, 130, 1031)).astype(np.float32)
    param = {"block_h": rows, "block_w": 1, "crd": 0, "height": 130 * rows - less if less else 0}
    y, log = run(toolkit, OP, x, param, opt=2, around=True)
    assert "over h" in log or "over w" in log
    assert np.array_equal(y, in_rows(2 * x, rows, 130 * rows - less) + np.float32(1))


@pytest.mark.parametrize(("shape", "rows", "less"), [((3, 6, 7, 9), 3, 2), ((1, 32, 127, 300), 2, 1)])
def test_its_own_store(toolkit: Toolkit, shape: tuple[int, ...], rows: int, less: int) -> None:
    """Where no layer of the group reads the rows they go to DDR as they are, unless they are short."""
    n, c, h, w = shape
    x = np.random.default_rng(6).standard_normal((n, c * rows, h, w)).astype(np.float32)
    graph = Graph(name="net", toolkit=toolkit)
    graph.add_input("x", x.shape)
    graph.add_const_binary_layer("x", 2.0, "a", BINARY_MUL)
    graph.add_tpu_layer(OP, ["a"], {"block_h": rows, "block_w": 1, "height": h * rows - less}, ["y"])
    net = graph.compile(opt=1, report=True)
    (group,) = net.report[0].parts[0].groups
    assert "y" not in [value.name for value in group.values]
    (y,) = graph.run({"x": x})
    assert np.array_equal(y, in_rows(2 * x, rows, h * rows - less))


@pytest.mark.parametrize(("shape", "block"), [((3, 6, 7, 7), (3, 1)), ((1, 12, 4, 40), (1, 4))])
def test_short_runs_are_stored_together(
    toolkit: Toolkit, shape: tuple[int, ...], block: tuple[int, int]
) -> None:
    n, c, h, w = shape
    x = np.random.default_rng(6).standard_normal((n, c * block[0] * block[1], h, w)).astype(np.float32)
    graph = Graph(name="net", toolkit=toolkit)
    graph.add_input("x", x.shape)
    graph.add_const_binary_layer("x", 2.0, "a", BINARY_MUL)
    graph.add_tpu_layer(OP, ["a"], {"block_h": block[0], "block_w": block[1]}, ["y"])
    net = graph.compile(opt=1, report=True)
    (group,) = net.report[0].parts[0].groups
    assert "y" in [value.name for value in group.values]
    (y,) = graph.run({"x": x})
    assert np.array_equal(y, in_rows(2 * x, block[0], 0) if block[0] > 1 else in_columns(2 * x, block[1], 0))


@examples(10)
@given(
    sizes(5),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(0, 2),
    st.integers(0, 2),
    st.sampled_from(DTYPES),
)
def test_any_type_and_rectangle(
    toolkit: Toolkit,
    size: tuple[int, int, int, int],
    rows: int,
    columns: int,
    less: int,
    narrower: int,
    dtype: str,
) -> None:
    n, c, h, w = size
    x = sample((n, c * rows * columns, h, w), dtype)
    height = h * rows - less if less < rows and less else 0
    width = w * columns - narrower if narrower < columns and narrower else 0
    want = (
        x.reshape(n, rows, columns, c, h, w).transpose(0, 3, 4, 1, 5, 2).reshape(n, c, h * rows, w * columns)
    )
    param = {"block_h": rows, "block_w": columns, "height": height, "width": width}
    (y,) = layer_checks.run(toolkit, OP, param, [x])
    layer_checks.same(y, want[:, :, : height or None, : width or None])
