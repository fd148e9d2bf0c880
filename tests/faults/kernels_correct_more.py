"""What the kernels of correct_more.c are launched with, and what they compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.faults.kernel_case import Array, Kernel, Result, integers, kernel, random

_MAP = (1, 20, 6, 7)
_SIZES = {"c": 20, "h": 6, "w": 7}
_CASES: list[Kernel] = []
_Reference = Callable[..., Any]
f32 = np.float32


def _case(**given: Any) -> Callable[[_Reference], _Reference]:
    """A kernel of the same name as the decorated function, which gets the arrays of args_t in order."""

    def add(expected: _Reference) -> _Reference:
        _CASES.append(kernel(expected.__name__, expected=expected, **given))
        return expected

    return add


@_case(
    x=random(1, 100, 5, 9),
    y=random(100, 3, 3),
    z=random(100),
    out=(1, 100, 5, 9),
    c=100,
    h=5,
    w=9,
    tolerance=1e-4,
)
def dilated_with_bias(x: Array, weights: Array, bias: Array) -> Any:
    padded = np.pad(x, ((0, 0), (0, 0), (2, 2), (2, 2)))
    y = sum(
        padded[:, :, 2 * i : 2 * i + 5, 2 * j : 2 * j + 9] * weights[:, i, j].reshape(-1, 1, 1)
        for i in range(3)
        for j in range(3)
    )
    return y + bias.reshape(-1, 1, 1)


@_case(
    x=random(7, 50, low=-40, high=40),
    out=(7, 50),
    checks="memory,init,hazard,sync",
    tolerance=1e-5,
    c=7,
    w=50,
)
def softmax_over_channels(x: Array) -> Any:
    y = np.exp(x.astype(np.float64) - x.max(0))
    return y / y.sum(0)


@_case(x=random(100, 30), y=random(30), out=(100, 30), checks="all", tolerance=1e-4, c=100, w=30)
def rows_normalized(x: Array, factors: Array) -> Any:
    y = x - x.mean(1, keepdims=True)
    return y / np.sqrt((y * y).mean(1, keepdims=True) + 1e-5) * factors


@_case(
    x=random(2, 10, 40),
    y=random(2, 40, 50),
    out=(2, 10, 50),
    tolerance=1e-4,
    n=2,
    c=40,
    h=10,
    w=50,
    k=16,
)
def products_in_slices(left: Array, right: Array) -> Any:
    return left @ right


@_case(x=random(20, 50), out=(20, 50), tolerance=1e-4, c=20, w=50)
def sums_from_side_to_side(x: Array) -> Any:
    return np.cumsum(x, 1)


@_case(x=random(5, 20, 6, 7), out=(5, 20, 6, 7), n=5, sizes=_SIZES)
def three_buffers_in_turn(x: Array) -> Any:
    return x * f32(3)


@_case(x=random(20, 50), out=(20, 50), c=20, w=50)
def exchanged_there_and_back(x: Array) -> Any:
    return x + f32(1)


@_case(x=integers(20, 50, dtype="int16"), out=Result((20, 50), "int32"), c=20, w=50)
def upper_halves_shifted_out(x: Array) -> Any:
    return x


@_case(x=random(100, 30), out=(100, 30), n=100, w=30)
def last_tile_moved_back(x: Array) -> Any:
    return -x


@_case(held=random(20, 30), h=20, w=30)
def rows_moved_one_by_one(x: Array) -> Any:
    return np.concatenate([x[:1], x[:-1]])


@_case(x=random(20, 50), out=(20, 50), c=20, w=50)
def columns_between_columns(x: Array) -> Any:
    return np.stack([x[:, ::2], 2 * x[:, ::2]], 2)


@_case(held=random(20, 30), h=20, w=30)
def half_over_half(x: Array) -> Any:
    return np.concatenate([x[:10], x[:10]])


@_case(x=integers(2, 20, 6, 7, 4), out=Result((2, 20, 6, 7, 4), "int8"), n=6, sizes=_SIZES)
def six_batches_of_bytes(x: Array) -> Any:
    return np.maximum(x + 3, 0)


@_case(
    x=integers(2, 20, 6, 7, 2, dtype="int16"),
    y=integers(1, 20, 6, 7, 4),
    out=Result((2, 20, 6, 7, 2), "int16"),
    n=4,
    sizes=_SIZES,
)
def halves_by_bytes(x: Array, y: Array) -> Any:
    four = y.astype(np.int64)[0].transpose(3, 0, 1, 2).reshape(2, 2, 20, 6, 7).transpose(0, 2, 3, 4, 1)
    return (x.astype(np.int64) * four + 8) >> 4


@_case(
    x=integers(9, 30),
    y=integers(30, 20),
    out=Result((9, 20), "int16"),
    scratch=9 * 20 * 2,
    n=9,
    k=30,
    w=20,
)
def product_of_bytes(left: Array, right: Array) -> Any:
    return np.clip(left.astype(np.int64) @ right, -32768, 32767)


@_case(x=random(2, 63, 5, 9), out=(2, 63, 5, 9), n=2, c=63, h=5, w=9)
def begins_on_another_lane(x: Array) -> Any:
    return x + f32(1)


@_case(x=random(20, low=0), out=(20,), n=20)
def best_first(x: Array) -> Any:
    scores, kept = x.copy(), np.zeros(20, f32)
    for i in range(20):
        kept[i] = scores[i] > 0.5
        if kept[i]:
            scores = scores * f32(0.75)
    return kept


@_case(x=random(5, 30), out=(5, 30), scratch=600, launches=({}, {"oc": 1}), h=5, w=30)
def scratch_of_two_launches(x: Array) -> Any:
    return x * f32(2)


@_case(x=random(50), out=(50,), scratch=200, launches=({}, {}), between=("scratch",), renewed=True, w=50)
def scratch_filled_again(x: Array) -> Any:
    return -x


@_case(x=random(20, 7, 9), out=(20, 7, 9), launches=({}, {"oc": 1}), c=20, h=7, w=9)
def rows_of_two_launches(x: Array) -> Any:
    return np.maximum(x, f32(0))


@_case(x=random(200), out=(10,), out2=(200,), n=200, k=10)
def sorted_beside_a_copy(x: Array) -> Any:
    return np.sort(x)[::-1][:10], x


@_case(x=random(*_MAP), out=(1, 20, 12, 7), sizes=_SIZES)
def rows_between_rows(x: Array) -> Any:
    below = np.concatenate([x[:, :, 1:], x[:, :, -1:]], 2)
    return np.stack([x, (x + below) * f32(0.5)], 3)


@_case(x=random(*_MAP), out=_MAP, sizes=_SIZES)
def first_row_taken_last(x: Array) -> Any:
    return x - x[:, :, :1]


@_case(x=random(1, 100, 5, 9), y=random(100, 3, 3), out=(1, 100, 5, 9), c=100, h=5, w=9, tolerance=1e-4)
def result_behind_the_input(x: Array, weights: Array) -> Any:
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    taps = ((i, j) for i in range(3) for j in range(3))
    y = sum(padded[:, :, i : i + 5, j : j + 9] * weights[:, i, j].reshape(-1, 1, 1) for i, j in taps)
    return np.maximum(x, y)


@_case(x=random(*_MAP), out=_MAP, sizes=_SIZES)
def larger_of_the_row_above(x: Array) -> Any:
    return np.concatenate([x[:, :, :1], np.maximum(x[:, :, 1:], x[:, :, :-1])], 2)


@_case(x=random(4, 20, 6, 7, low=-90, high=90), out=Result((1, 20, 6, 7, 4), "int8"), n=4, sizes=_SIZES)
def narrowed_in_place(x: Array) -> Any:
    return np.trunc(x).transpose(1, 2, 3, 0)


@_case(x=random(*_MAP, low=1), out=(20,), tolerance=1e-5, sizes=_SIZES)
def mean_over_its_map(x: Array) -> Any:
    return x.mean((2, 3)) / x.max((2, 3))


CORRECT: tuple[Kernel, ...] = tuple(_CASES)
