"""Sums of products: compiled loops against the plain reference, integers against Python's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_sim import flush
from firmware_sim.flush import flushing
from firmware_sim.instructions import conv, sums, workers
from firmware_sim.instructions.depthwise import average_weight
from tests.support.examples import examples

sizes = st.sampled_from([1, 2, 3, 5, 8, 17])
columns = st.sampled_from([1, 3, 16, 511, 512, 513, 1100])


def noise(rng: np.random.Generator, *shape: int) -> sums.F32:
    """A third of it so small that products and sums are denormal."""
    small = rng.integers(0, 3, shape) == 0
    values = rng.standard_normal(shape) * np.where(small, 2.0**-64, 1.0)
    return values.astype(np.float32)


@given(halves=st.sampled_from([1, 2]), rows=sizes, taps=sizes, count=columns, seed=st.integers(0, 99))
@examples(40)
def test_shared(halves: int, rows: int, taps: int, count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    base = rng.integers(0, 50, taps)
    xs, ws = noise(rng, halves, count + 50), noise(rng, halves, rows, taps)
    got, want = np.empty((rows, count), np.float32), np.empty((rows, count), np.float32)
    with flushing():
        sums.shared(xs, ws, base, got)
        sums.shared_reference(xs, ws, base, want)
    assert np.array_equal(got.view(np.uint32), want.view(np.uint32))


@given(rows=sizes, taps=sizes, count=columns, seed=st.integers(0, 99))
@examples(40)
def test_separate(rows: int, taps: int, count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    base = rng.integers(0, 50, taps)
    x, w = noise(rng, rows, count + 50), noise(rng, rows, taps)
    got, want = np.empty((rows, count), np.float32), np.empty((rows, count), np.float32)
    with flushing():
        sums.separate(x, w, base, got)
        sums.separate_reference(x, w, base, want)
    assert np.array_equal(got.view(np.uint32), want.view(np.uint32))


def test_without_the_processors_mode_the_result_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    left, right = noise(rng, 9, 31), noise(rng, 31, 40)
    with flushing():
        want = sums.matrix_product(left, right)
        monkeypatch.setattr(flush, "HARDWARE", False)
        got = sums.matrix_product(left, right)
    assert np.array_equal(got.view(np.uint32), want.view(np.uint32))


@given(
    m=sizes,
    k=st.sampled_from([1, 3, 300, 1100, 2000]),
    n=sizes,
    signed=st.booleans(),
    extreme=st.booleans(),
    seed=st.integers(0, 99),
)
@examples(60)
def test_integer_product(m: int, k: int, n: int, signed: bool, extreme: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    low, high = (-128, 128) if signed else (0, 256)
    left, right = (rng.integers(low, high, shape) for shape in ((m, k), (k, n)))
    if extreme:
        left[:], right[:] = (-128, -128) if signed else (255, 255)
    kind = np.int8 if signed else np.uint8
    got = sums.integer_product(left.astype(kind), right.astype(kind), 255 * 255)
    assert np.array_equal(got, left.astype(np.int64) @ right.astype(np.int64))


@pytest.mark.parametrize("x_signed", [False, True])
@pytest.mark.parametrize("w_signed", [False, True])
def test_the_limit_of_convolutions_is_their_largest_product(x_signed: bool, w_signed: bool) -> None:
    """Too small a limit, and sums of large elements are no longer exact."""
    xs, ws = ((-128, 127) if signed else (0, 255) for signed in (x_signed, w_signed))
    fixed = conv.Fixed(x_signed, w_signed, bias_signed=True, shift=0, relu=False, bits=16, signed=True)
    assert fixed.limit == max(abs(x * w) for x in xs for w in ws)
    k = 4096
    left, right = np.full((1, k), ws[1]), np.full((k, 1), xs[1])
    left[:, ::5] -= 1
    assert sums.integer_product(left, right, fixed.limit)[0, 0] == int(left.sum()) * xs[1]


def test_average_weights() -> None:
    """As the functional model's table has them."""
    known = {1: 1, 2: 1, 4: 1, 8: 1, 16: 1, 3: 171, 6: 171, 12: 171, 5: 205, 10: 205, 7: 73, 9: 57, 25: 41}
    assert {size: average_weight(size, 99) for size in known} == known
    assert average_weight(49, 99) == 167
    assert [average_weight(size, 0x1_63) for size in (225, 226, 240, 255, 256, 300)] == [
        average_weight(225, 0),
        0,
        0,
        0,
        0x63,
        0x63,
    ]


def test_ranges_cover_everything_once() -> None:
    for size, unit, pieces in ((10, 2, 4), (1, 512, 3), (513, 512, 4), (64, 2, 3)):
        cuts = workers.cut(size, unit, pieces)
        assert [i for a, b in cuts for i in range(a, b)] == list(range(size))
        assert len(cuts) <= pieces
        assert all(a % unit == 0 for a, _ in cuts)
