"""TPU_CAST: every type into every other, as numpy does it where the chip can."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.layer_checks import DTYPES, Array, check, refused, run, same, sample
from user_layers.toolkit import Toolkit

CODES = {"float32": 0, "float16": 1, "int8": 2, "uint8": 3, "int16": 4, "uint16": 5, "int32": 6, "uint32": 7}


def values_of(source: str, target: str, count: int) -> Array:
    """Values of every size that the target type has too, those around the borders among them."""
    kind, rng = np.dtype(source), np.random.default_rng(count)
    if kind.kind != "f":
        return sample((count,), source, count)
    scale = 2.0 ** rng.integers(-12, 40, count)
    x = rng.standard_normal(count) * scale
    edges = [
        0,
        -0.0,
        0.5,
        -0.5,
        0.99999994,
        -0.99999994,
        1.5,
        2.5,
        126.9,
        -127.9,
        3e-5,
        65504,
        -65504,
        2.0**-14,
    ]
    x[: len(edges)] = edges[:count]
    low, high = -65504.0, 65504.0
    if np.dtype(target).kind != "f":
        low, high = float(np.iinfo(target).min), float(min(np.iinfo(target).max, 2**31 - 200))
    if source == "float16":
        low, high = max(low, -65504.0), min(high, 65504.0)
    return np.asarray(np.clip(x, low, high), dtype=source)


@pytest.mark.parametrize("target", DTYPES)
@pytest.mark.parametrize("source", DTYPES)
def test_cast(toolkit: Toolkit, source: str, target: str) -> None:
    for count in (1, 63, 64, 5000):
        x = values_of(source, target, count)
        if target == "float16":
            x = np.where(np.abs(x.astype(np.float64)) > 65504, np.array(7, source), x)
        want = x.astype(target)
        if target == "float16" and source == "float32":  # the chip has none that are smaller
            want = np.where(np.abs(want) < 2.0**-14, np.float16(0), want)
            same(abs(run(toolkit, "TPU_CAST", {"to": 1}, [x])[0]), abs(want))  # zero has any sign
            continue
        check(toolkit, "TPU_CAST", {"to": CODES[target]}, x, want, modes=[count == 64])


def test_cast_of_what_does_not_fit(toolkit: Toolkit) -> None:
    x = np.array([300, -300, 1e9, -1e9, 3e9, -3e9, np.inf, -np.inf, 65519, 65520, 1e-9], np.float32)
    limits = {"int8": (-128, 127), "uint8": (0, 255), "int32": (-(2**31), 2**31 - 1)}
    for target, (low, high) in limits.items():
        want = np.clip(x.astype(np.float64), low, high).astype(np.int64).astype(target)
        check(toolkit, "TPU_CAST", {"to": CODES[target]}, x, want)
    with np.errstate(over="ignore"):
        check(toolkit, "TPU_CAST", {"to": 1}, x, np.where(x == np.float32(1e-9), 0, x).astype(np.float16))


def test_cast_of_every_half(toolkit: Toolkit) -> None:
    x = np.arange(65536, dtype=np.uint16).view(np.float16)
    (y,) = run(toolkit, "TPU_CAST", {"to": 0}, [x])
    want = x.astype(np.float32)
    assert np.array_equal(np.isnan(y), np.isnan(want))
    numbers = ~np.isnan(want)
    same(y[numbers], want[numbers])


def test_cast_that_is_impossible(toolkit: Toolkit) -> None:
    for to in (-1, 8):
        refused(toolkit, "TPU_CAST", {"to": to}, sample((2, 3)))
