"""Scales, shifts and multipliers: within what the commands hold, and as near as they can be."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.examples import examples
from user_layers.quantize.scales import Step, multiplier, product_step, quantised_weights, sum_of

SCALES = st.floats(1e-4, 10.0)


@examples(60)
@given(seed=st.integers(0, 999), given_scale=SCALES, threshold=st.floats(0.01, 100), relu=st.booleans())
def test_weights_and_biases_fit(seed: int, given_scale: float, threshold: float, relu: bool) -> None:
    """The integers stand for the weights within half a grid step where the means are known, else within one,
    and no bias is cut."""
    rng = np.random.default_rng(seed)
    weights = rng.standard_normal((5, 3, 3, 3)) * 10.0 ** rng.uniform(-3, 1)
    bias = rng.standard_normal(5) * 10.0 ** rng.uniform(-3, 2)
    source, result = Step(given_scale, True), Step.for_threshold(threshold, not relu)
    found = quantised_weights(weights, bias, source, result, free=True, power=1.0)
    if found is None:
        least = max(np.abs(weights).max() * source.scale / 127, np.abs(bias).max() / 32767)
        assert least > result.scale  # not even without a shift
        return
    assert 0 <= found.rshift <= 31
    assert result.scale * 0.999 <= found.scale <= result.scale * 1.415
    grid = found.scale / source.scale / 2**found.rshift
    assert np.abs(found.weights * grid - weights).max() <= grid * 1.01
    known = quantised_weights(
        weights, bias, source, result, free=True, power=1.0, mean=np.zeros(weights.shape[1])
    )
    assert known is not None and (known.scale, known.rshift) == (found.scale, found.rshift)
    assert np.abs(known.weights * grid - weights).max() <= grid * 0.51
    step = found.scale / 2**found.rshift
    integers = np.zeros(5) if found.bias is None else found.bias.astype(float)
    assert np.abs(integers * step - bias).max() <= step * 0.51


def test_the_free_scale_uses_all_bits() -> None:
    """Where the grid of the threshold's scale would waste nearly a bit."""
    weights = np.array([[[[1.0]]], [[[-0.4]]]])
    source, result = Step(1.0, True), Step(0.49, True)
    fixed = quantised_weights(weights, None, source, result, free=False, power=100.0)
    free = quantised_weights(weights, None, source, result, free=True, power=100.0)
    assert fixed is not None and free is not None
    assert np.abs(fixed.weights.astype(int)).max() < 70
    assert np.abs(free.weights.astype(int)).max() > 85


def test_a_large_bias_costs_bits_of_the_weights() -> None:
    weights, source, result = np.full((1, 1, 1, 1), 0.01), Step(0.02, True), Step(0.02, True)
    small = quantised_weights(weights, np.array([0.01]), source, result, free=False, power=1.0)
    large = quantised_weights(weights, np.array([50.0]), source, result, free=False, power=1.0)
    assert small is not None and large is not None and large.bias is not None
    assert small.short == 0 and large.short > 0
    assert large.rshift + large.short == small.rshift
    assert abs(int(large.bias[0]) * large.scale / 2**large.rshift - 50.0) < 0.01


def test_the_bias_takes_what_rounding_adds() -> None:
    """With the means of the input's channels the mean of the result is right."""
    rng = np.random.default_rng(0)
    weights, mean = rng.standard_normal((4, 6, 3, 3)), rng.uniform(1, 3, 6)
    source, result = Step(0.03, False), Step(0.2, True)
    sums = (weights * mean[:, None, None]).sum((1, 2, 3))
    errors = []
    for known in (None, mean):
        made = quantised_weights(weights, np.zeros(4), source, result, free=False, power=1.0, mean=known)
        assert made is not None
        grid = made.scale / source.scale / 2**made.rshift
        bias = 0.0 if made.bias is None else made.bias * made.scale / 2**made.rshift
        errors.append(np.abs((made.weights * grid * mean[:, None, None]).sum((1, 2, 3)) + bias - sums).max())
    assert errors[1] < errors[0] / 10


def test_depthwise_means_belong_to_their_channels() -> None:
    weights, mean = np.array([0.31, 0.77]).reshape(2, 1, 1, 1), np.array([5.0, 50.0])
    made = quantised_weights(
        weights, None, Step(0.5, False), Step(1.0, True), free=False, power=1.0, mean=mean, groups=2
    )
    assert made is not None
    grid = made.scale / 0.5 / 2**made.rshift
    bias = np.zeros(2) if made.bias is None else made.bias * made.scale / 2**made.rshift
    got = made.weights.reshape(-1) * grid * mean + bias
    assert np.abs(got - weights.reshape(-1) * mean).max() < 0.01


@examples(60)
@given(ratio=st.floats(1e-6, 120))
def test_multipliers(ratio: float) -> None:
    m, k = multiplier(ratio)
    assert 1 <= m <= 127 and 0 <= k <= 31
    if ratio > 2**-24:
        assert abs(m / 2**k / ratio - 1) <= 1 / 127


@examples(60)
@example(a=0.0078, b=0.0004, c=0.5, free=False)  # both far finer than the result, one more than the other
@given(a=SCALES, b=SCALES, c=SCALES, free=st.booleans())
def test_sums(a: float, b: float, c: float, free: bool) -> None:
    found = sum_of(Step(a, True), Step(b, False), Step(c, True), free=free, sizes=(1.0, 1.0))
    assert 0 <= found.rshift <= 15 and found.scale >= c * 0.999
    assert (found.scale <= c * 1.001) or free
    assert min(found.multiplier_a, found.multiplier_b) >= 0
    assert max(found.multiplier_a, found.multiplier_b) <= 127


@examples(60)
@given(beside=st.floats(-20, 0), free=st.booleans(), turned=st.booleans())
def test_sums_with_far_smaller_operands(beside: float, free: bool, turned: bool) -> None:
    """Every integer of one operand beside some of the other: as near as a step of the result allows."""
    large, small = Step(0.01, True), Step(0.01 * 2.0**beside, True)
    pair = (small, large) if turned else (large, small)
    sizes = tuple((one.scale * 40) ** 2 for one in pair)
    found = sum_of(*pair, Step(0.0105, True), free=free, sizes=(sizes[0], sizes[1]))
    integers = np.arange(-90, 91, 15), np.arange(-127, 128)
    given_, exact = [], []
    for name, one, other in zip("ab", pair, integers, strict=True):
        values = other * one.scale
        exact.append(values)
        if name in found.finer:
            m, k = multiplier(one.scale / found.finer[name])
            other = np.clip(np.floor((other * m + (1 << k >> 1)) / 2**k), -128, 127)
        given_.append(other)
    total = given_[0][:, None] * found.multiplier_a + given_[1] * found.multiplier_b
    made = np.floor((total + (1 << found.rshift >> 1)) / 2**found.rshift) * found.scale
    wrong = np.abs(made - (exact[0][:, None] + exact[1]))
    assert wrong[np.abs(exact[0][:, None] + exact[1]) < 120 * found.scale].max() < 1.6 * found.scale


@examples(60)
@given(a=SCALES, b=SCALES, threshold=st.floats(0.01, 1000), signed=st.booleans())
def test_products(a: float, b: float, threshold: float, signed: bool) -> None:
    step, rshift = product_step(Step(a, True), Step(b, True), threshold, signed)
    assert 0 <= rshift <= 31 and step.scale == pytest.approx(a * b * 2**rshift)
    assert rshift == 31 or step.scale * step.largest >= threshold * 0.999
