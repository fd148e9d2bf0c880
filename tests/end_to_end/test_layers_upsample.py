"""TPU_UPSAMPLE: elements repeated along h and w, against numpy, bit for bit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.support import layer_checks
from tests.support.examples import examples
from tests.support.layer_checks import refused, sample
from tests.support.window_layers import MODES, run
from user_layers.toolkit import Toolkit


def repeated(x: NDArray[Any], scale: Sequence[int]) -> NDArray[Any]:
    return np.repeat(np.repeat(x, scale[0], 2), scale[1], 3)


def check(toolkit: Toolkit, x: NDArray[Any], scale: tuple[int, int], **how: Any) -> str:
    """The log of the static net in groups. Dynamic nets are compiled for a larger input."""
    logs = []
    for opt, dynamic in MODES:
        shape = tuple(e + dynamic * (i != 1) for i, e in enumerate(x.shape))
        param = {"scale_h": scale[0], "scale_w": scale[1]}
        y, log = run(toolkit, "TPU_UPSAMPLE", x, param, opt=opt, dynamic=dynamic, compiled=shape, **how)
        assert np.array_equal(y, repeated(x, scale))
        logs.append(log)
    return logs[0]


@examples(15)
@given(
    shape=st.tuples(
        st.integers(1, 3), st.sampled_from([1, 3, 64, 70, 130]), st.integers(1, 12), st.integers(1, 12)
    ),
    scale=st.tuples(st.integers(1, 4), st.integers(1, 4)),
)
def test_any_scale(toolkit: Toolkit, shape: tuple[int, ...], scale: tuple[int, int]) -> None:
    x = np.random.default_rng(3).standard_normal(shape).astype(np.float32)
    assert "local" in check(toolkit, x, scale)


@pytest.mark.parametrize(
    ("shape", "scale"),
    [
        ((2, 100, 60, 70), (2, 2)),  # cut
        ((1, 65, 3, 9000), (1, 3)),  # rows cut
        ((1, 4500, 3, 2), (2, 2)),  # more planes than an instruction takes
        ((1, 2, 2, 70_000), (1, 1)),
        ((1, 1, 3, 2), (64, 64)),
    ],
)
def test_large(toolkit: Toolkit, shape: tuple[int, ...], scale: tuple[int, int]) -> None:
    check(toolkit, np.random.default_rng(4).standard_normal(shape).astype(np.float32), scale)


@pytest.mark.parametrize("scale", [(2, 2), (3, 1), (5, 2)])
def test_tiles_in_groups(toolkit: Toolkit, scale: tuple[int, int]) -> None:
    x = np.random.default_rng(5).standard_normal((1, 64, 130, 131)).astype(np.float32)
    param = {"scale_h": scale[0], "scale_w": scale[1]}
    y, log = run(toolkit, "TPU_UPSAMPLE", x, param, opt=2, around=True)
    assert "over h" in log or "over w" in log
    assert np.array_equal(y, repeated(2 * x, scale) + np.float32(1))


def test_whole_numbers(toolkit: Toolkit) -> None:
    x = sample((1, 3, 4, 5), "int32")
    (y,) = layer_checks.run(toolkit, "TPU_UPSAMPLE", {"scale_h": 2, "scale_w": 3}, [x])
    assert np.array_equal(y, repeated(x, (2, 3)))


def test_what_is_impossible(toolkit: Toolkit) -> None:
    x = sample((1, 3, 4, 5))
    refused(toolkit, "TPU_UPSAMPLE", {"scale_h": 0, "scale_w": 2}, x)
    refused(toolkit, "TPU_UPSAMPLE", {"scale_h": 2, "scale_w": 65}, x)
    refused(toolkit, "TPU_UPSAMPLE", {"scale_h": 2, "scale_w": 2}, x[0])
    refused(toolkit, "TPU_UPSAMPLE", {"scale_h": 2, "scale_w": 2}, sample((1, 3, 4, 5), "int8"))
