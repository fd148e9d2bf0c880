"""TPU_ATTENTION in 8 bits: a reference in integers, and in fp32 where the layer is, step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_sim.errors import TpulayerError
from tests.end_to_end.test_layers_attention import Array, heads_of, packed, run
from tests.support.examples import examples
from user_layers.toolkit import Toolkit

F32 = np.float32
POWER = np.array([254.98166, 176.78156, 61.86585, 14.068778], F32)  # of 255 * 2^f


def integers(shape: Sequence[int], seed: int = 0, size: float = 40.0) -> Array:
    """Numbers of which many are whole, and some beyond an int8's end."""
    random = np.random.default_rng(seed)
    x = random.standard_normal(tuple(shape)) * size
    return np.where(random.random(tuple(shape)) < 0.8, np.rint(x), x).astype(F32)


def powers(x: Array, factor: float) -> Array:
    """255 e^(factor x)."""
    x = np.maximum(x * F32(F32(factor) * F32(1.44269504)), F32(-24))
    k = (x + F32(12582912 + 127)) - F32(12582912 + 127)
    f = x - k
    y = f * POWER[3]
    for c in POWER[2:0:-1]:
        y = (y + c) * f
    made: Array = (y + POWER[0]) * np.exp2(k).astype(F32)
    return made


def half_up(x: Array, shift: int) -> Array:
    """An instruction's sums of integers in 16 bits."""
    rounded: Array = np.floor((x + (1 << shift >> 1)) / 2.0**shift)
    return rounded.clip(-32768, 32767)


def reference(operands: Sequence[Array], mask: Array | None, param: Mapping[str, Any]) -> Array:
    q, k, v = (heads_of(np.rint(x).clip(-128, 127), param, i) for i, x in enumerate(operands))
    shift = next(s for s in range(32) if 127 * 127 * param["size"] >> s <= 32767)
    scores = half_up(q @ k.swapaxes(2, 3), shift).astype(F32)
    made = np.empty((*q.shape[:3], param["value_size"]))
    for head in range(param["heads"]):
        factor = F32(param["scale"])
        if param.get("scaled"):
            factor = factor * F32(param["scales"][head])
        factor, x = factor * F32(1 << shift), scores[:, head]
        if mask is not None or factor < 0:
            x, factor = x * factor, F32(1)
        if mask is not None:
            x = x + np.broadcast_to(mask, scores.shape)[:, head]
        weights = powers(x - x.max(axis=-1, keepdims=True), factor).astype(float)
        total = (np.rint(weights * 256) / 256).sum(axis=-1, keepdims=True)
        weights = np.rint(weights)
        sums = np.zeros((*x.shape[:2], param["value_size"]))
        for at in range(0, x.shape[2], 256):
            part = slice(at, at + 256)
            sums += half_up(weights[..., part] @ v[:, head, part], 8)
        made[:, head] = sums * param["unit"] * 256 / total
    batch, heads, queries, size = made.shape
    return made if param["apart"] else made.swapaxes(1, 2).reshape(batch, queries, heads * size)


def near(got: Array, want: Array) -> None:
    """But for the reciprocals of sums."""
    assert got.shape == want.shape
    assert np.abs(got - want).max() <= 2e-6 * np.abs(want).max()


def eight(heads: int, size: int, **more: Any) -> dict[str, Any]:
    return packed(heads, size, **{"scale": size**-0.5 / 1600, "unit": 0.02, **more})


CASES: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "vit": ((1, 197, 576), eight(3, 64)),
    "windows": ((9, 49, 3 * 96), eight(3, 32)),
    "result apart, keys that fill no word": ((2, 71, 3 * 40), eight(5, 8, apart=1)),
    "q, k and v beside one another in each head": (
        (2, 65, 60),
        eight(5, 4, **{"from": (0, 4, 8), "step": (12,) * 3}),
    ),
    "mostly others' channels": ((1, 49, 400), eight(3, 8, **{"from": (2, 128, 300)})),
    "heads that begin inside of words": ((1, 50, 3 * 16 + 4), eight(2, 8, **{"from": (2, 18, 34)})),
    "several turns, keys that are summed in parts": ((1, 1301, 3 * 16), eight(2, 8)),
    "factors of heads, one of them negative": (
        (1, 60, 3 * 24),
        eight(3, 8, scaled=1, scales=[1.0, -2.0, 0.5] + [0.0] * 61),
    ),
    "one query, one key": ((2, 1, 24), eight(2, 4)),
    "keys that are shared": ((2, 150, 10 * 16), eight(6, 16, shared=3, **{"from": (0, 96, 128)})),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_one_tensor_for_all(toolkit: Toolkit, name: str, dynamic: bool) -> None:
    shape, param = CASES[name]
    x = integers(shape)
    near(run(toolkit, [x, x, x], None, param, dynamic), reference([x, x, x], None, param))


@pytest.mark.parametrize("shape", [(1, 1, 70, 70), (2, 3, 70, 70), (1, 3, 1, 70), (2, 1, 70, 1)])
def test_masks(toolkit: Toolkit, shape: tuple[int, ...]) -> None:
    random = np.random.default_rng(1)
    mask = np.where(random.random(shape) < 0.3, -1e4, random.standard_normal(shape)).astype(F32)
    param, x = eight(3, 16), integers((2, 70, 144))
    near(run(toolkit, [x, x, x], mask, param), reference([x, x, x], mask, param))


def test_scores_and_sums_that_saturate(toolkit: Toolkit) -> None:
    """All bytes are the least: no sum leaves its 16 bits but by one."""
    x = np.full((1, 260, 3 * 64), -128, F32)
    param = eight(1, 64)
    near(run(toolkit, [x, x, x], None, param), reference([x, x, x], None, param))


@examples(10)
@given(
    groups=st.integers(1, 4),
    shared=st.integers(1, 3),
    size=st.sampled_from([4, 8, 12, 20, 36]),
    value=st.sampled_from([4, 8, 28, 68]),
    queries=st.integers(1, 140),
    keys=st.integers(1, 300),
    apart=st.booleans(),
    seed=st.integers(0, 99),
)
def test_operands_apart(
    toolkit: Toolkit,
    groups: int,
    shared: int,
    size: int,
    value: int,
    queries: int,
    keys: int,
    apart: bool,
    seed: int,
) -> None:
    more = {"value_size": value, "apart": int(apart), "shared": shared}
    param = eight(groups * shared, size, **more, **{"from": (0,) * 3, "step": (0,) * 3})
    shapes = (groups * shared, queries, size), (groups, keys, size), (groups, keys, value)
    operands = [integers((2, *shape), seed + i) for i, shape in enumerate(shapes)]
    near(run(toolkit, operands, None, param), reference(operands, None, param))


@pytest.mark.parametrize(
    "more", [{"mixed": 1}, {"size": 6}, {"value_size": 6}], ids=["mixed", "size", "value size"]
)
def test_what_is_not_done_in_bytes(toolkit: Toolkit, more: dict[str, Any]) -> None:
    x = integers((1, 20, 48))
    with pytest.raises(TpulayerError, match="NOT_SUPPORTED"):
        wide = integers((1, 1, 2, 4096))
        run(toolkit, [wide, wide, wide], None, eight(1, 4096, apart=1))
    with pytest.raises(TpulayerError, match="NOT_SUPPORTED"):
        run(toolkit, [x, x, x], None, {**eight(2, 8), **more})
