"""TPU_POOL_INT8: bit for bit the maxima and weighted sums of windows that wide integers in numpy give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import sliding_window_view

from firmware_sim.errors import TpulayerError
from tests.support.examples import examples
from tests.support.quantised import DTYPE, ENDS, MODES, Array, check, half_up, integers, net, saturated
from tests.support.workspaces import built_workspace
from tpulayer import Graph
from user_layers.toolkit import Toolkit

TYPES = st.sampled_from(["int8", "uint8"])
MAXIMUM, AVERAGE = 0, 1
ONE = {"stride_h": 1, "stride_w": 1, "dilation_h": 1, "dilation_w": 1}


def pooled(x: Array, p: dict[str, Any], dtype: str) -> Array:
    """As the layer's first comment has it; x [n, c, h, w]."""
    kernel = x.shape[2:] if p.get("whole") else (p["kernel_h"], p["kernel_w"])
    step = (1, 1) if p.get("whole") else (p["stride_h"], p["stride_w"])
    rows = (p.get("pad_top", 0), p.get("pad_bottom", 0) + p.get("extra_bottom", 0))
    columns = (p.get("pad_left", 0), p.get("pad_right", 0) + p.get("extra_right", 0))
    fill = ENDS[x.dtype.name][0] if p["mode"] == MAXIMUM else 0
    wide = np.pad(x.astype(np.int64), ((0, 0), (0, 0), rows, columns), constant_values=fill)
    windows = sliding_window_view(wide, kernel, (2, 3))[:, :, :: step[0], :: step[1]]
    if p["mode"] == MAXIMUM:
        return saturated(windows.max((4, 5)), dtype)
    return saturated(half_up(windows.sum((4, 5)) * p["multiplier"], p["rshift"]), dtype)


def check_pool(
    toolkit: Toolkit, x: Array, p: dict[str, Any], dtype: str, modes: Any = MODES, want: Array | None = None
) -> None:
    scale = 0.25 if p["mode"] == MAXIMUM else 0.5
    param = {**p, "dtype": DTYPE[dtype], "scale": scale}
    check(
        toolkit,
        lambda graph: graph.add_tpu_layer("TPU_POOL_INT8", ["x"], param, ["y"]),
        {"x": x},
        [0.25],
        [pooled(x, p, dtype) if want is None else want],
        modes,
    )


def drawn_window(data: st.DataObject, h: int, w: int) -> dict[str, Any]:
    """A window that fits, with pads smaller than it."""
    kernel_h, kernel_w = data.draw(st.integers(1, min(h, 9))), data.draw(st.integers(1, min(w, 9)))
    return {
        **ONE,
        "kernel_h": kernel_h,
        "kernel_w": kernel_w,
        "stride_h": data.draw(st.integers(1, 4)),
        "stride_w": data.draw(st.integers(1, 4)),
        "pad_top": data.draw(st.integers(0, kernel_h - 1)),
        "pad_bottom": data.draw(st.integers(0, kernel_h - 1)),
        "pad_left": data.draw(st.integers(0, kernel_w - 1)),
        "pad_right": data.draw(st.integers(0, kernel_w - 1)),
    }


SIZES = st.tuples(st.integers(1, 9), st.integers(1, 140), st.integers(1, 20), st.integers(1, 20))


@examples(12)
@given(shape=SIZES, dtype=TYPES, data=st.data())
def test_maxima(toolkit: Toolkit, shape: tuple[int, int, int, int], dtype: str, data: st.DataObject) -> None:
    """Pads never win, nor do negative numbers lose against them."""
    x = integers(shape, dtype, shape[2])
    if dtype == "int8" and data.draw(st.booleans()):
        x = -np.abs(x.astype(np.int64)).astype(np.int8) - (x == 0)
    p = {"mode": MAXIMUM, **drawn_window(data, *shape[2:]), "extra_bottom": data.draw(st.integers(0, 1))}
    check_pool(toolkit, x.astype(dtype), p, dtype, [MODES[0], data.draw(st.sampled_from(MODES[1:]))])


@examples(12)
@given(
    shape=SIZES,
    source=TYPES,
    target=TYPES,
    multiplier=st.integers(1, 127),
    rshift=st.integers(0, 16),
    data=st.data(),
)
def test_averages(
    toolkit: Toolkit,
    shape: tuple[int, int, int, int],
    source: str,
    target: str,
    multiplier: int,
    rshift: int,
    data: st.DataObject,
) -> None:
    x = integers(shape, source, rshift)
    p = {
        "mode": AVERAGE,
        **drawn_window(data, *shape[2:]),
        "count_include_pad": 1,
        "multiplier": multiplier,
        "rshift": rshift,
    }
    check_pool(toolkit, x, p, target, [MODES[0], data.draw(st.sampled_from(MODES[1:]))])


@pytest.mark.parametrize("mode", [MAXIMUM, AVERAGE])
@pytest.mark.parametrize(("size", "n"), [(7, 1), (14, 4), (16, 5), (20, 2), (56, 6), (128, 1)])
def test_whole_planes(toolkit: Toolkit, size: int, n: int, mode: int) -> None:
    """Global pools of any size: 1 / size^2 as a multiplier of 7 bits and a shift."""
    x = integers((n, 70, size, size), "uint8", size)
    rshift = int(np.floor(np.log2(127 * size * size)))
    p = {"mode": mode, "whole": 1, "multiplier": round(2**rshift / size**2), "rshift": rshift}
    check_pool(toolkit, x, p, "uint8", MODES if size < 50 else MODES[:2])


def test_large_kernels_and_pads(toolkit: Toolkit) -> None:
    """Pads that no command has are laid out, also around negative numbers; kernels of maxima are cut."""
    x = np.minimum(integers((2, 3, 300, 260), "int8", 1), -5).astype(np.int8)
    p = {"mode": MAXIMUM, **ONE, "kernel_h": 20, "kernel_w": 20, "pad_top": 17, "pad_right": 18}
    check_pool(toolkit, x, p, "int8", MODES[:2])
    check_pool(toolkit, x, {"mode": MAXIMUM, "whole": 1}, "int8", MODES[:2])


def test_three_dimensions(toolkit: Toolkit) -> None:
    x = integers((5, 66, 30), "int8", 1)
    p = {"mode": AVERAGE, **ONE, "kernel_h": 4, "kernel_w": 1, "stride_h": 2, "multiplier": 64, "rshift": 8}
    check_pool(toolkit, x, p, "int8", want=pooled(x[..., None], p, "int8")[..., 0])


P = {"mode": AVERAGE, **ONE, "kernel_h": 3, "kernel_w": 3, "pad_top": 1, "pad_left": 1, "pad_bottom": 1}
P |= {"pad_right": 1, "count_include_pad": 1, "multiplier": 57, "rshift": 9}
M = {"mode": MAXIMUM, **ONE, "kernel_h": 5, "kernel_w": 5, "stride_h": 2, "stride_w": 2, "pad_top": 2}


def two_pools(graph: Graph) -> None:
    graph.add_tpu_layer("TPU_POOL_INT8", ["x"], {**P, "dtype": DTYPE["int8"], "scale": 0.25}, ["a"])
    graph.add_tpu_layer("TPU_UPSAMPLE", ["a"], {"scale_h": 1, "scale_w": 2}, ["b"])
    graph.add_tpu_layer("TPU_POOL_INT8", ["b"], {**M, "dtype": DTYPE["int8"], "scale": 0.25}, ["y"])


def two_pooled(x: Array) -> Array:
    return pooled(pooled(x, P, "int8").repeat(2, 3), M, "int8")


def test_in_the_middle_of_a_group(toolkit: Toolkit) -> None:
    """Tiles with halos of other layers' results, cut along rows."""
    x = integers((3, 64, 120, 90), "int8", 1)
    check(toolkit, two_pools, {"x": x}, [0.25], [two_pooled(x)], [MODES[0], MODES[1], MODES[3]])


def test_the_controller_does_the_same(tmp_path_factory: pytest.TempPathFactory) -> None:
    """On the images for the controller, static and dynamic."""
    x = integers((5, 66, 12, 9), "int8", 1)
    with Toolkit(built_workspace(tmp_path_factory), firmware="arm") as controller:
        check(controller, two_pools, {"x": x}, [0.25], [two_pooled(x)], [MODES[1], MODES[3]])


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"mode": 2}, "PARAM_INVALID"),
        ({"multiplier": 0}, "PARAM_INVALID"),
        ({"rshift": 32}, "PARAM_INVALID"),
        ({"kernel_h": 9}, "PARAM_INVALID"),
        ({"scale": -1.0}, "PARAM_INVALID"),
        ({"pad_top": 1}, "NOT_SUPPORTED"),
        ({"pad_top": 1, "count_include_pad": 1, "extra_right": 1}, "NOT_SUPPORTED"),
        ({"dilation_w": 2}, "NOT_SUPPORTED"),
        ({"stride_h": 16}, "NOT_SUPPORTED"),
        ({"mode": MAXIMUM, "scale": 0.5}, "NOT_SUPPORTED"),
        ({"mode": MAXIMUM, "dtype": DTYPE["uint8"]}, "NOT_SUPPORTED"),
    ],
    ids=str,
)
def test_refusals(toolkit: Toolkit, wrong: dict[str, Any], why: str) -> None:
    good = {"mode": AVERAGE, **ONE, "kernel_h": 3, "kernel_w": 3, "multiplier": 57, "rshift": 9}
    graph = net(toolkit, {"x": integers((2, 3, 5, 6), "int8")}, [0.25])
    graph.add_tpu_layer("TPU_POOL_INT8", ["x"], {**good, "dtype": 2, "scale": 0.25, **wrong}, ["y"])
    with pytest.raises(TpulayerError, match=rf"TPU_POOL_INT8.*shape function.*BM_LAYER_{why}"):
        graph.compile()
