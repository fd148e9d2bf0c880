"""Built-in layers: sums over channels (LRN), against numpy in float64."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from firmware_sim.errors import TpulayerError
from tests.window_layers import MODES, Double, close, run, sample
from tests.workspaces import make_workspace
from user_layers.build.targets import build_layers
from user_layers.toolkit import Toolkit


@pytest.fixture(scope="module")
def toolkit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Toolkit]:
    ws = make_workspace(tmp_path_factory.mktemp("workspace"))
    build_layers(ws)
    with Toolkit(ws) as toolkit:
        yield toolkit


# ---- LRN ----


def lrn(x: NDArray[Any], size: int, alpha: float, beta: float, bias: float) -> Double:
    squares = x.astype(np.float64) ** 2
    padded = np.pad(squares, ((0, 0), ((size - 1) // 2, size // 2), *[(0, 0)] * (x.ndim - 2)))
    sums = np.lib.stride_tricks.sliding_window_view(padded, size, 1).sum(-1)
    y: Double = x / (bias + alpha / size * sums) ** beta
    return y


def check_lrn(
    toolkit: Toolkit, shape: tuple[int, ...], size: int, alpha: float, beta: float, bias: float = 1.0
) -> None:
    x = 3 * sample(*shape)
    want = lrn(x, size, alpha, beta, bias)
    param = {"size": size, "alpha": alpha, "beta": beta, "bias": bias}
    for opt, dynamic in MODES:
        compiled = tuple(e + dynamic for e in shape)
        y, _ = run(toolkit, "TPU_LRN", x, param, opt=opt, dynamic=dynamic, compiled=compiled)
        close(y, want)


@pytest.mark.parametrize(
    ("shape", "size"),
    [
        ((1, 96, 55, 55), 5),  # alexnet
        ((2, 7, 3, 3), 4),
        ((3, 40, 65), 40),
        ((2, 5, 1, 1), 100),  # all channels, and more
        ((2, 30), 3),
        ((1, 3, 5, 7, 2), 2),
        ((1, 3000, 10), 33),  # more channels than rows of an instruction
        ((1, 16, 700, 600), 5),
    ],
)
def test_sums_over_channels(toolkit: Toolkit, shape: tuple[int, ...], size: int) -> None:
    check_lrn(toolkit, shape, size, 0.3, 0.75)


@settings(max_examples=15, deadline=None, derandomize=True)
@given(
    shape=st.tuples(st.integers(1, 3), st.integers(1, 70), st.integers(1, 150)),
    size=st.integers(1, 12),
    alpha=st.floats(2**-13, 2, width=32),
    beta=st.sampled_from([0.0, 0.25, 0.5, 0.6, 0.75, 1.0, 1.3, 2.0, -0.75]),
    bias=st.floats(0.5, 4, width=32),
)
def test_any_sum_over_channels(
    toolkit: Toolkit, shape: tuple[int, int, int], size: int, alpha: float, beta: float, bias: float
) -> None:
    check_lrn(toolkit, shape, size, alpha, beta, bias)


@pytest.mark.parametrize(
    ("change", "shape", "code"),
    [
        ({"size": 0}, (1, 3, 4), "-2 (BM_LAYER_PARAM_INVALID)"),
        ({"beta": 33.0}, (1, 3, 4), "-1 (BM_LAYER_NOT_SUPPORTED)"),
        ({"size": 3000}, (1, 1500, 4), "-1 (BM_LAYER_NOT_SUPPORTED)"),
        ({}, (3,), "-1 (BM_LAYER_NOT_SUPPORTED)"),
    ],
)
def test_a_sum_over_channels_that_makes_no_sense(
    toolkit: Toolkit, change: Mapping[str, Any], shape: tuple[int, ...], code: str
) -> None:
    param = {"size": 5, "alpha": 1e-4, "beta": 0.75, "bias": 1.0, **change}
    with pytest.raises(TpulayerError) as error:
        run(toolkit, "TPU_LRN", sample(*shape), param)
    assert f"shape function returned {code}" in str(error.value)
