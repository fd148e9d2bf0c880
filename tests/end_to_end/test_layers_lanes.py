"""Layers on few channels, few rows or long ones: how they lie in the lanes must not change what comes out,
and takes few commands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.layer_checks import check, sample
from tests.support.window_layers import Pads, close, convolution, pool, run, window_param
from tests.support.window_layers import sample as numbers
from tpulayer import Graph
from user_layers.report.model import total
from user_layers.toolkit import Toolkit

# ---- lists of indices, in the order of local memory ----


def gathered(toolkit: Toolkit, shape: Sequence[int], axis: int, indices: Sequence[int]) -> None:
    x, chosen = sample(shape), np.array(indices, np.int32)
    want = np.take(x, chosen, axis)
    check(toolkit, "TPU_GATHER", {"axis": axis, "scalar": 0}, x, want, consts=[chosen])


@pytest.mark.parametrize(
    ("shape", "axis", "indices"),
    [
        ((700, 3), 1, [2, 1, 0]),  # exchanged channels of pixels
        ((43, 41, 4), 2, [2, 1, 0, 3]),
        ((5000, 5), 1, [4, 4, 0, 3]),  # one twice, one not at all
        ((64, 7, 9), 1, [6, 0, 3, 1]),
        ((3, 500, 2), 0, [1, 2, 0]),
        ((600, 40), 1, [*range(0, 40, 3), *range(1, 40, 3), *range(2, 40, 3)]),
        ((200, 64), 1, list(range(63, -1, -1))),
    ],
)
def test_lists_of_indices(toolkit: Toolkit, shape: tuple[int, ...], axis: int, indices: list[int]) -> None:
    gathered(toolkit, shape, axis, indices)


@examples(15)
@given(st.integers(1, 2000), st.integers(1, 9), st.integers(1, 3), st.data())
def test_any_list(toolkit: Toolkit, rows: int, extent: int, inner: int, data: st.DataObject) -> None:
    indices = data.draw(st.lists(st.integers(0, extent - 1), min_size=1, max_size=12))
    gathered(toolkit, (rows, extent, inner), 1, indices)


@examples(10)
@given(st.lists(st.integers(1, 40), min_size=2, max_size=3), st.data())
def test_backwards(toolkit: Toolkit, shape: list[int], data: st.DataObject) -> None:
    axes = data.draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, max_size=2, unique=True))
    x = sample(shape)
    param = {"count": len(axes), "axes": axes, "starts": [-1] * len(axes), "ends": [-(2**31)] * len(axes)}
    check(toolkit, "TPU_SLICE", param | {"steps": [-1] * len(axes)}, x, np.flip(x, tuple(axes)))


# ---- rows ----


def commands_of(toolkit: Toolkit, op: str, x: Any, param: dict[str, Any]) -> tuple[Any, int]:
    """What a layer makes of x, and its commands."""
    graph = Graph(name="net", toolkit=toolkit)
    graph.add_input("x", x.shape)
    graph.add_tpu_layer(op, ["x"], param, ["y"])
    work = total(graph.compile(report=True, opt=0).report[0].recorded)
    return graph.run({"x": x})[0], work.bd_commands + work.gdma_commands


def softmax(x: Any, axis: int) -> Any:
    with np.errstate(invalid="ignore"):
        powers = np.exp(x.astype(np.float64) - x.max(axis, keepdims=True))
        return powers / powers.sum(axis, keepdims=True)


@pytest.mark.parametrize(
    ("shape", "axis", "most"),
    [
        ((1, 1000), 1, 24),
        ((6132, 21), 1, 45),
        ((1, 370, 13, 13), 1, 40),  # the reduced ones over the lanes
        ((2, 67, 5, 33), 1, 80),
        ((4, 2, 45, 283), 1, 70),  # parts of each picture over the lanes
        ((79, 1021), 1, 70),
        ((7, 65), 1, 50),
        ((3, 4090), 1, 60),
    ],
)
def test_softmax(toolkit: Toolkit, shape: tuple[int, ...], axis: int, most: int) -> None:
    x = numbers(*shape) * np.float32(4)
    x[0, 0] = -np.inf if axis == 1 and shape[1] > 1 else x[0, 0]
    y, commands = commands_of(toolkit, "TPU_SOFTMAX", x, {"axis": axis})
    want = softmax(x, axis)
    assert (np.abs(y - want) <= 2e-6 * want).all()
    assert commands <= most


def test_softmax_over_the_lanes_of_nan_and_infinities(toolkit: Toolkit) -> None:
    x = numbers(1, 370, 13, 13)
    x[0, :, 2, 3] = -np.inf
    x[0, 100, 4, 5] = np.nan
    y, _ = commands_of(toolkit, "TPU_SOFTMAX", x, {"axis": 1})
    odd = np.zeros((13, 13), bool)
    odd[2, 3] = odd[4, 5] = True
    assert np.isnan(y[0, :, odd]).all()
    assert np.abs(y - softmax(x, 1))[0, :, ~odd].max() <= 1e-6


@examples(12)
@given(
    st.sampled_from([1, 2, 7, 63, 65, 300]),
    st.sampled_from([1, 2, 3, 31, 65, 74, 200, 521]),
    st.sampled_from([1, 2, 5, 64, 169]),
    st.sampled_from([0, 2, 9]),
)
def test_any_rows(toolkit: Toolkit, outer: int, reduced: int, inner: int, log: int) -> None:
    x = numbers(outer, reduced, inner)
    if log != 9:
        y, _ = commands_of(toolkit, "TPU_SOFTMAX", x, {"axis": 1, "log": int(log > 0)})
        want = softmax(x, 1)
        assert np.abs(y - (np.log(want) if log else want)).max() <= 1e-5
        return
    y, _ = commands_of(toolkit, "TPU_ARG", x, {"axis": 1, "select_last": 0})
    assert np.array_equal(y, x.argmax(1))


# ---- windows ----


def pads_within(data: st.DataObject, kernel: Sequence[int]) -> Pads:
    h, w = (st.integers(0, extent - 1) for extent in kernel)
    return data.draw(h), data.draw(w), data.draw(h), data.draw(w)


@examples(15)
@given(st.data())
def test_depthwise_of_few_channels(toolkit: Toolkit, data: st.DataObject) -> None:
    n, c = data.draw(st.sampled_from([(1, 3), (4, 3), (7, 2), (2, 65), (3, 40), (1, 21)]))
    size = data.draw(st.integers(9, 70)), data.draw(st.integers(5, 40))
    kernel = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 5))
    stride = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 3))
    pads = pads_within(data, kernel)
    x, w, b = numbers(n, c, *size), numbers(c, 1, *kernel), numbers(c, seed=3)
    consts = [w, b] if data.draw(st.booleans()) else [w]
    param = {"groups": c, **window_param(kernel, stride, pads, (1, 1))}
    for dynamic in (False, True):
        compiled = [extent + dynamic * (i != 1) for i, extent in enumerate(x.shape)]
        y, _ = run(toolkit, "TPU_CONV", x, param, consts, dynamic=dynamic, compiled=compiled)
        close(y, convolution(x, w, b if len(consts) == 2 else None, c, stride, (1, 1), pads))


@examples(15)
@given(st.data())
def test_pools_of_few_channels(toolkit: Toolkit, data: st.DataObject) -> None:
    n, c = data.draw(st.sampled_from([(1, 1), (1, 3), (7, 2), (2, 65), (1, 40)]))
    size = data.draw(st.integers(17, 70)), data.draw(st.integers(17, 40))
    kernel = data.draw(st.sampled_from([(1, 1), (3, 3), (2, 5), (16, 17), (17, 16)]))
    stride = kernel if kernel[0] > 5 else (data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3)))
    pads = (0, 0, 0, 0) if kernel[0] > 5 else pads_within(data, kernel)
    mode, include = data.draw(st.integers(0, 1)), data.draw(st.integers(0, 1))
    x = numbers(n, c, *size)
    param = {"mode": mode, "whole": 0, **window_param(kernel, stride, pads, (1, 1))}
    param |= {"extra_bottom": 0, "extra_right": 0, "count_include_pad": include}
    y, _ = run(toolkit, "TPU_POOL", x, param)
    close(y, pool(x, mode, kernel, stride, (1, 1), pads, (0, 0), include))


@pytest.mark.parametrize("shape", [(3, 300, 7, 7), (1, 5, 9, 11), (1, 1, 31, 3), (2, 65, 40, 40)])
def test_average_of_whole_planes(toolkit: Toolkit, shape: tuple[int, ...]) -> None:
    x = numbers(*shape)
    param = {"mode": 1, "whole": 1, **window_param((1, 1), (1, 1), (0, 0, 0, 0), (1, 1))}
    y, _ = run(toolkit, "TPU_POOL", x, param)
    close(y, x.mean((2, 3), dtype=np.float64, keepdims=True))


def test_a_point_convolution_passes_over_rows(toolkit: Toolkit) -> None:
    x, w = numbers(2, 70, 15, 33), numbers(66, 70, 1, 1)
    param = {"groups": 1, **window_param((1, 1), (2, 2), (0, 0, 0, 0), (1, 1))}
    y, _ = run(toolkit, "TPU_CONV", x, param, [w])
    close(y, convolution(x, w, None, 1, (2, 2), (1, 1), (0, 0, 0, 0)))
