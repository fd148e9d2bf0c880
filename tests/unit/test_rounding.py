"""Weights rounded so that the losses of kernels and channels add up to nothing."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from user_layers.quantize.rounding import HIGH, LOW, balanced, rounded


@given(
    count=st.integers(1, 5), channels=st.integers(1, 12), taps=st.sampled_from([1, 3, 9, 25]),
    scale=st.sampled_from([0.2, 3.0, 60.0]), seed=st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_sums_of_losses_are_at_most_half_a_unit(
    count: int, channels: int, taps: int, scale: float, seed: int
) -> None:
    ideal = np.clip(np.random.default_rng(seed).normal(0, scale, (count, channels, taps)), -126.9, 126.9)
    found = balanced(ideal)
    loss = found - ideal
    assert np.array_equal(found, np.rint(found)) and np.abs(loss).max() < 1
    assert np.abs(loss.sum((1, 2))).max() <= 0.5 + 1e-9
    if taps > 1:  # what the channel's sum takes back moves a kernel's by one
        assert np.abs(loss.sum(2)).max() <= 1 + 1e-9


def test_as_few_weights_as_possible_move() -> None:
    ideal = np.array([[[0.4, 0.4, 0.4, 2.0, -3.1]]])
    assert balanced(ideal).ravel().tolist() == [1, 0, 0, 2, -3]
    whole = np.array([[[5.0, -7.0], [0.25, -0.25]]])
    assert np.array_equal(balanced(whole), rounded(whole))


def test_nothing_leaves_eight_bits() -> None:
    ideal = np.full((1, 1, 9), 127.4)
    assert balanced(ideal).max() == HIGH
    assert balanced(-ideal - 1.0).min() == LOW
    mixed = np.array([[[127.4, 127.4, 127.4, 3.4]]])
    assert balanced(mixed).ravel().tolist() == [127, 127, 127, 4]


def test_what_reads_numbers_with_a_mean_loses_less() -> None:
    rng = np.random.default_rng(3)
    ideal = rng.normal(0, 20, (16, 64, 9))
    inputs = np.abs(rng.normal(0, 1, (400, 64, 9)))
    plain, better = (
        np.einsum("nck,ock->no", inputs, one(ideal) - ideal).std() for one in (rounded, balanced)
    )
    assert better < 0.65 * plain
