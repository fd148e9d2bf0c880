"""The kernels without a mistake: what they are launched with, and what they compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.faults.kernel_case import Array, Kernel, Result, integers, kernel, random

_MAP = (1, 20, 6, 7)
_FOUR = (4, 20, 6, 7)
_SIZES = {"c": 20, "h": 6, "w": 7}
_CASES: list[Kernel] = []
_Reference = Callable[..., Any]


def _case(**given: Any) -> Callable[[_Reference], _Reference]:
    """A kernel of the same name as the decorated function, which gets the arrays of args_t in order."""

    def add(expected: _Reference) -> _Reference:
        _CASES.append(kernel(expected.__name__, expected=expected, **given))
        return expected

    return add


f32 = np.float32


def _windows(x: Array, size: int, pad: float | None = None) -> Array:
    """[..., oh, ow, size, size]"""
    if pad is not None:
        around = (size // 2, size // 2)
        x = np.pad(x, [(0, 0)] * (x.ndim - 2) + [around, around], constant_values=pad)
    return np.lib.stride_tricks.sliding_window_view(x, (size, size), (-2, -1))


def _weights(pairs: Array, channels: int) -> Array:
    """[oc, channels, taps] from [pairs, oc, taps, 2]."""
    whole: Array = pairs.transpose(1, 0, 3, 2).reshape(pairs.shape[1], -1, pairs.shape[2])[:, :channels]
    return whole


def _conv(x: Array, pairs: Array, size: int, pad: float | None = None) -> Array:
    """The convolution of x[n, c, h, w] with pairs[pairs, oc, taps, 2]."""
    seen = _windows(x.astype(np.float64), size, pad)
    seen = seen.reshape(*seen.shape[:4], -1)
    y: Array = np.einsum("nchwt,oct->nohw", seen, _weights(pairs, x.shape[1]))
    return y


# ---- correct_layout.c ----


@_case(x=random(*_MAP), y=random(2, 10, 6, 7), out=_MAP, sizes=_SIZES)
def padding_computed_not_stored(x: Array, y: Array) -> Any:
    return np.maximum(x + y.reshape(_MAP), f32(0))


@_case(x=random(100, 30), out=(100, 30), n=100, w=30)
def garbage_rows_not_stored(x: Array) -> Any:
    return x * f32(3)


@_case(
    x=random(1, 5, 13, 11),
    y=random(3, 12, 9, 2),
    out=(1, 12, 11, 9),
    c=5,
    h=13,
    w=11,
    oc=12,
    k=16,
    tolerance=1e-4,
)
def convolution_over_a_rounded_tile(x: Array, y: Array) -> Any:
    return _conv(x, y, 3)


@_case(x=random(2, 100, 6, 7), y=random(100), out=(2, 100, 6, 7), n=2, c=100, h=6, w=7)
def broadcast_by_strides_of_zero(x: Array, y: Array) -> Any:
    return x * y.reshape(1, -1, 1, 1)


@_case(x=random(*_MAP), y=random(7), out=_MAP, sizes=_SIZES)
def row_for_all_lanes(x: Array, y: Array) -> Any:
    return x + y


@_case(x=random(30, 50), out=(30, 47), c=30, w=50, tolerance=1e-5)
def overlapping_windows(x: Array) -> Any:
    return np.lib.stride_tricks.sliding_window_view(x, 4, -1).sum(-1)


@_case(held=random(*_MAP), sizes=_SIZES)
def in_place(x: Array) -> Any:
    return x * x + f32(1)


@_case(x=random(*_MAP), out=_MAP, sizes=_SIZES)
def halo_cleared(x: Array) -> Any:
    y = x.copy()
    y[:, :, 1:] += x[:, :, :-1]
    return y


@_case(x=random(*_MAP), out=_MAP, sizes=_SIZES)
def rows_backwards(x: Array) -> Any:
    return x[:, :, ::-1]


@_case(x=random(20, 50), out=(50, 20), h=20, w=50)
def transposed_by_strides(x: Array) -> Any:
    return x.T


@_case(x=random(1, 3, 20, 30), out=(1, 3, 12, 22), c=3, h=20, w=30, k=4)
def inside_of_an_image(x: Array) -> Any:
    return x[:, :, 4:-4, 4:-4]


@_case(x=random(*_MAP), out=_MAP, sizes=_SIZES)
def result_in_two_halves(x: Array) -> Any:
    return -x


@_case(x=random(3, 20, 6, 7), out=_MAP, sizes=_SIZES)
def parts_of_one_buffer(x: Array) -> Any:
    return (x[0] * x[1] + x[2])[None]


@_case(x=random(2, 100, 5, 9), out=(2, 100, 5, 9), n=2, c=100, h=5, w=9, tolerance=1e-5)
def second_slot_half_full(x: Array) -> Any:
    return 1 / (1 + np.exp(-x))


@_case(x=random(1, 100, 5, 9), out=(1, 100, 5, 9), c=100, h=5, w=9)
def slots_as_one_row(x: Array) -> Any:
    return np.maximum(x * f32(2), f32(1))


@_case(x=random(1, 50, 5, 9), y=random(50, 45), out=(1, 50, 5, 9), c=50, h=5, w=9)
def around_the_lanes(x: Array, y: Array) -> Any:
    return x - y.reshape(x.shape)


@_case(x=random(1, 100, 5, 9), out=(1, 100, 5, 9), c=100, h=5, w=9)
def compact_all_the_way(x: Array) -> Any:
    return x + f32(1)


@_case(x=random(*_MAP), y=random(2, 10, 6, 7), out=(1, 20, 12, 7), sizes=_SIZES)
def interleaved_rows(x: Array, y: Array) -> Any:
    return np.stack([x, y.reshape(x.shape)], 3).reshape(1, 20, 12, 7) + f32(1)


@_case(x=random(*_MAP), out=_MAP, sizes=_SIZES)
def selected_or_constant(x: Array) -> Any:
    return np.where(x > 0, x, f32(-1))


@_case(x=random(*_MAP), out=_MAP, tolerance=1e-5, sizes=_SIZES)
def border_cleared(x: Array) -> Any:
    return _windows(x, 3, 0).sum((-1, -2))


@_case(x=random(1, 64, 128, 128), out=(1, 64, 128, 128), c=64, h=128, w=128)
def to_the_end_of_local(x: Array) -> Any:
    return x + f32(1)


@_case(x=random(1, 20, 6, 7), out=(1, 40, 6, 7), c=40, h=6, w=7)
def lanes_filled_in_two_ways(x: Array) -> Any:
    return np.concatenate([x, x], 1) * f32(2)


@_case(x=random(40, 50), out=(40, 50), c=40, w=50)
def maximum_beside_the_row(x: Array) -> Any:
    return x - x.max(1, keepdims=True)


@_case(out=_MAP, sizes=_SIZES)
def zeros_by_xor() -> Any:
    return np.full(_MAP, 3, f32)


# ---- correct_order.c ----


@_case(x=random(*_FOUR), out=_FOUR, n=4, sizes=_SIZES)
def ping_pong(x: Array) -> Any:
    return -x


@_case(x=random(*_FOUR), out=_FOUR, n=4, sizes=_SIZES)
def three_in_place(x: Array) -> Any:
    return x + f32(1)


@_case(x=random(5, 20, 6, 7), out=(5, 20, 6, 7), n=5, sizes=_SIZES)
def store_before_the_load(x: Array) -> Any:
    return x * f32(2)


@_case(x=random(*_MAP), out=_MAP, scratch=20 * 6 * 7 * 4, sizes=_SIZES)
def one_engine_in_a_section(x: Array) -> Any:
    y = x + f32(1)
    return y * y - x


@_case(x=random(*_MAP), out=_MAP, out2=_MAP, sizes=_SIZES)
def both_engines_read(x: Array) -> Any:
    return (x + f32(1)) * x, x


@_case(x=random(64, 6, 7), out=(64, 6, 7), h=6, w=7)
def lanes_apart_in_a_section(x: Array) -> Any:
    return x + f32(1)


@_case(x=random(*_MAP), out=_MAP, sizes=_SIZES)
def even_rows_beside_odd_ones(x: Array) -> Any:
    y = x.copy()
    y[:, :, ::2] *= 2
    return y


@_case(x=random(*_MAP), y=random(2, 10, 6, 7), out=_MAP, sizes=_SIZES)
def memory_used_again(x: Array, y: Array) -> Any:
    return x * f32(2) + y.reshape(_MAP) - f32(5)


@_case(x=random(40, 50), scratch=200, out=(40, 50), c=40, w=50)
def table_made_first(x: Array) -> Any:
    return x + np.arange(50, dtype=f32) ** 2


@_case(x=random(*_FOUR), scratch=4, out=_FOUR, n=4, sizes=_SIZES)
def parameter_changed_after_poll(x: Array) -> Any:
    return x * np.arange(1, 5, dtype=f32).reshape(4, 1, 1, 1)


@_case(x=random(*_FOUR), scratch=16, out=_FOUR, n=4, sizes=_SIZES)
def other_words_while_commands_run(x: Array) -> Any:
    return x * np.arange(1, 5, dtype=f32).reshape(4, 1, 1, 1)


@_case(x=random(50), scratch=4, out=(50,), w=50)
def result_read_after_poll(x: Array) -> Any:
    return x - x.max()


@_case(x=random(50), out=(50,), w=50)
def both_read_the_input(x: Array) -> Any:
    return x - x[0]


@_case(x=random(77), out=(77,), n=77)
def pointers_only(x: Array) -> Any:
    return x[::-1] + f32(1)


@_case(x=random(*_MAP), out=_MAP, sizes=_SIZES)
def local_words_by_pointer(x: Array) -> Any:
    return x + np.arange(20, dtype=f32).reshape(1, 20, 1, 1)


@_case(x=random(*_MAP), out=_MAP, sizes=_SIZES)
def sections_with_little(x: Array) -> Any:
    return np.maximum(x, f32(0))


@_case(
    x=random(*_MAP), y=random(10, 20, 1, 2), z=random(10, 20, 2, 1), out=_MAP, tolerance=1e-4, sizes=_SIZES
)
def weights_ahead(x: Array, y: Array, z: Array) -> Any:
    return _conv(_conv(x, y, 1), z.reshape(y.shape), 1)


@_case(x=random(*_MAP), out=_MAP, sizes=_SIZES)
def initialized_twice(x: Array) -> Any:
    return (x + f32(1)) * f32(2)


@_case(x=random(*_MAP), out=_MAP, sizes=_SIZES)
def ids_set_as_they_are(x: Array) -> Any:
    return x + f32(1)


@_case(x=random(*_MAP), out=_MAP, launches=({"k": 0}, {"k": 1}, {"k": 1}), sizes=_SIZES)
def second_launch_adds(x: Array) -> Any:
    return x + x + x


@_case(x=random(*_MAP), out=_MAP, out2=_MAP, sizes=_SIZES)
def two_results_overlapped(x: Array) -> Any:
    return x * f32(2), x * f32(3)


@_case(x=random(1), out=(1,), n=3000)
def many_small_commands(x: Array) -> Any:
    y = x.copy()
    for _ in range(3000):
        y += f32(1)
    return y


@_case(x=random(1, 20, 8, 32), out=(1, 20, 8, 32), c=20, h=8, w=32, k=4)
def rolling_rows(x: Array) -> Any:
    return x * f32(2)


# ---- correct_nn.c ----


@_case(
    x=random(2, 5, 6, 7),
    y=random(3, 12, 9, 2) * (np.arange(6).reshape(3, 1, 1, 2) < 5).astype(f32),
    z=random(12),
    out=(2, 12, 6, 7),
    n=2,
    c=5,
    h=6,
    w=7,
    oc=12,
    tolerance=1e-4,
)
def conv_odd_channels(x: Array, y: Array, z: Array) -> Any:
    return _conv(x, y, 3, 0) + z.reshape(1, -1, 1, 1)


@_case(x=random(1, 3, 6, 7), y=random(3, 12), out=(1, 12, 6, 7), c=3, h=6, w=7, oc=12, tolerance=1e-4)
def pairs_made_here(x: Array, y: Array) -> Any:
    return np.einsum("nchw,co->nohw", x, y)


@_case(x=random(1, 6, 8, 10), y=random(3, 12, 1, 2), out=(1, 12, 4, 5), c=6, h=8, w=10, oc=12, tolerance=1e-4)
def conv_that_skips_the_last_row(x: Array, y: Array) -> Any:
    return _conv(x, y, 1)[:, :, ::2, ::2]


@_case(x=random(1, 8, 6, 7), y=random(4, 12, 1, 2), out=(1, 12, 6, 7), c=8, h=6, w=7, oc=12, tolerance=1e-4)
def conv_added_up(x: Array, y: Array) -> Any:
    return _conv(x, y, 1)


@_case(x=random(*_FOUR), y=random(4, 20, 42), out=_MAP, n=4, tolerance=1e-5, sizes=_SIZES)
def mac_on_zeros(x: Array, y: Array) -> Any:
    return (x * y.reshape(x.shape)).sum(0, keepdims=True)


@_case(x=random(10, 20), y=random(20, 40), out=(10, 40), n=10, k=20, w=40, tolerance=1e-4)
def matmul_short_last_channel(x: Array, y: Array) -> Any:
    return x @ y


@_case(x=random(10, 32), y=random(32, 24), z=random(24), out=(10, 24), n=10, k=32, w=24, tolerance=1e-4)
def matmul_in_slices(x: Array, y: Array, z: Array) -> Any:
    return x @ y + z


@_case(x=random(10, 20), y=random(20, 48), out=(10, 48), n=10, k=20, w=24, tolerance=1e-4)
def matmul_of_a_part(x: Array, y: Array) -> Any:
    return x @ y


@_case(
    x=random(1, 100, 6, 7),
    y=random(100, 3, 3),
    z=random(100),
    out=(1, 100, 6, 7),
    c=100,
    h=6,
    w=7,
    tolerance=1e-4,
)
def depthwise_two_slots(x: Array, y: Array, z: Array) -> Any:
    seen = _windows(x, 3, 0)
    return np.einsum("nchwab,cab->nchw", seen, y) + z.reshape(1, -1, 1, 1)


@_case(x=random(1, 20, 22, 9), out=(1, 20, 22, 9), c=20, h=22, w=9, k=8)
def pool_in_tiles_with_halo(x: Array) -> Any:
    return _windows(x, 3, -np.inf).max((-1, -2))


@_case(x=random(40, 50), out=(40, 50), c=40, w=50, tolerance=1e-5)
def softmax_of_padded_rows(x: Array) -> Any:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


@_case(x=random(50), out=(20, 50), c=20, w=50)
def channel_for_all_lanes(x: Array) -> Any:
    return np.tile(x, (20, 1))


@_case(x=random(1, 100, 6, 7), out=(1, 1, 6, 7), c=100, h=6, w=7, tolerance=1e-5)
def mean_over_channels(x: Array) -> Any:
    return x.mean(1, keepdims=True)


@_case(
    x=random(1, 8, 6, 7),
    y=random(4, 12, 1, 2),
    z=random(6, 8, 1, 2),
    out=(1, 8, 6, 7),
    c=8,
    h=6,
    w=7,
    oc=12,
    tolerance=1e-4,
)
def two_layers_in_sequence(x: Array, y: Array, z: Array) -> Any:
    return _conv(np.maximum(_conv(x, y, 1), 0), z, 1)


# ---- correct_data.c ----


@_case(x=random(1, 64, 4, 9), scratch=64 * 36 * 4, out=(64 * 36,), out2=Result((1,), "int32"), c=64, h=4, w=9)
def filter_and_count(x: Array) -> Any:
    kept = x[x > 0]
    return np.concatenate([kept, np.full(x.size - kept.size, -1, f32)]), np.array([kept.size], np.int32)


@_case(held=np.full(64 * 36, 5, f32), x=random(1, 64, 4, 9), c=64, h=4, w=9)
def filter_over_the_old(held: Array, x: Array) -> Any:
    kept = x[x > 1]
    return np.concatenate([kept, held[kept.size :]])


@_case(x=random(64), scratch=200, out=(50,), n=50, w=64)
def gather_by_made_indices(x: Array) -> Any:
    return x[np.arange(50) * 7 % 64]


@_case(x=random(64), y=integers(50, low=5, high=69, dtype="int32"), out=(50,), n=50, w=64)
def gather_from_a_part(x: Array, y: Array) -> Any:
    return x[y - 5]


@_case(x=random(200), out=(10,), out2=Result((10,), "int32"), n=200, k=10)
def largest_and_places(x: Array) -> Any:
    order = np.argsort(-x, kind="stable")[:10]
    return x[order], order.astype(np.int32)


@_case(x=random(*_MAP), out=(1, 6, 20, 7), sizes=_SIZES)
def scratch_in_l2(x: Array) -> Any:
    return (x + f32(1)).transpose(0, 2, 1, 3)


@_case(x=random(*_MAP), out=_MAP, sizes=_SIZES)
def end_of_l2(x: Array) -> Any:
    return x


@_case(x=integers(40, 50, low=0, high=64, dtype="int32"), y=random(64), out=(40, 50), c=40, w=50, k=64)
def own_table(x: Array, y: Array) -> Any:
    return y[x]


@_case(x=random(40, 50, low=-20, high=20), out=(40, 50), c=40, w=50, tolerance=1e-6)
def table_of_powers(x: Array) -> Any:
    return np.exp(np.trunc(x))


@_case(x=random(40, 50), scratch=40 * 64 * 4, out=(40, 50), c=40, w=50)
def padded_rows_through_scratch(x: Array) -> Any:
    return x + f32(1)


@_case(x=random(1, 20, 6, 30), scratch=20 * 6 * 32 * 4, out=(20, 1), c=20, h=6, w=30, tolerance=1e-4)
def scratch_with_gaps(x: Array) -> Any:
    return x.sum((0, 2, 3)).reshape(20, 1)


@_case(x=integers(3, 20, 6, 7), out=Result((3, 20, 6, 7), "int8"), n=3, sizes=_SIZES)
def packed_words_three_of_four(x: Array) -> Any:
    return x + np.int8(1)


@_case(x=random(5, 20, 6, 7, low=-200, high=200), out=(5, 20, 6, 7), n=5, sizes=_SIZES)
def packed_tail_there_and_back(x: Array) -> Any:
    return np.trunc(np.clip(x, -128, 127))


@_case(x=integers(1, 20, 5, 7), out=(1, 20, 5, 7), c=20, h=5, w=7)
def bytes_to_floats(x: Array) -> Any:
    return x.astype(f32)


@_case(x=random(*_MAP).astype(np.float16), out=Result(_MAP, "float16"), sizes=_SIZES)
def halves_by_the_copy(x: Array) -> Any:
    return x * np.float16(2)


@_case(x=random(40, 50), out=(50, 40), c=40, w=50)
def columns_for_channels(x: Array) -> Any:
    return x.T


@_case(held=random(50), n=50)
def moved_within_a_buffer(held: Array) -> Any:
    return np.concatenate([held[:3], held[:-3]])


@_case(x=integers(77), out=Result((78,), "int8"), n=77)
def odd_number_of_bytes(x: Array) -> Any:
    return np.append(x, np.int8(7))


@_case(x=random(*_FOUR), scratch=20 * 6 * 7 * 4, out=_MAP, n=4, tolerance=1e-5, sizes=_SIZES)
def sums_in_scratch(x: Array) -> Any:
    return x.sum(0, keepdims=True)


@_case(x=random(50), out=(50,), w=50)
def result_of_both(x: Array) -> Any:
    return np.concatenate([x[:25], np.arange(25, 50, dtype=f32)])


@_case(x=np.where(random(*_MAP) > 0, f32(np.inf), f32(1)), out=_MAP, checks="all", sizes=_SIZES)
def infinities_given(x: Array) -> Any:
    return np.where(np.isinf(x), f32(np.nan), f32(1))


# ---- more of each ----


@_case(x=random(1, 5, 5, 11), y=random(3, 12, 9, 2), out=(1, 12, 1, 9), c=5, h=5, w=11, oc=12, tolerance=1e-4)
def rows_between_taps(x: Array, y: Array) -> Any:
    return _conv(x[:, :, ::2], y, 3)


@_case(x=random(1, 20, 12, 9), out=(1, 20, 4, 9), c=20, h=12, w=9)
def rows_between_windows(x: Array) -> Any:
    return np.maximum(x[:, :, ::3], x[:, :, 1::3])


@_case(x=random(1, 20, 6, 9), out=(1, 20, 6, 7), c=20, h=6, w=9, tolerance=1e-5)
def windows_over_the_edge(x: Array) -> Any:
    return np.lib.stride_tricks.sliding_window_view(x, 3, -1).sum(-1)


@_case(x=random(1, 6, 5, 7), y=random(3, 12, 1, 2), out=(1, 12, 9, 13), c=6, h=5, w=7, oc=12, tolerance=1e-4)
def zeros_inserted(x: Array, y: Array) -> Any:
    result = np.zeros((1, 12, 9, 13))
    result[:, :, ::2, ::2] = _conv(x, y, 1)
    return result


@_case(x=random(1, 100, 6, 7), y=random(100), out=(1, 100, 6, 7), c=100, h=6, w=7)
def bias_of_two_slots(x: Array, y: Array) -> Any:
    return x + y.reshape(1, -1, 1, 1)


@_case(x=random(10, 32), y=random(16, 24), out=(10, 24), n=10, k=32, w=24, tolerance=1e-4)
def matmul_of_fewer_columns(x: Array, y: Array) -> Any:
    return x[:, :16] @ y


@_case(x=random(*_MAP), out=(1,), n=0, sizes=_SIZES)
def no_batches(x: Array) -> Any:
    return np.ones(1, f32)


@_case(x=random(*_FOUR), out=_FOUR, n=4, sizes=_SIZES)
def next_table_to_l2(x: Array) -> Any:
    return x + f32(1)


@_case(x=random(*_MAP), out=_MAP, sizes=_SIZES)
def same_array_twice(x: Array) -> Any:
    return x * x


@_case(x=random(50), out=(50,), w=50, tolerance=1e-5)
def remembers_in_dtcm(x: Array) -> Any:
    return x * x[:4].sum()


@_case(x=random(1, 20, 6, 10), out=(1, 20, 6, 10), c=20, h=6, w=10)
def halves_of_rows_in_turn(x: Array) -> Any:
    return x * f32(2)


@_case(x=random(*_FOUR), out=_FOUR, n=4, sizes=_SIZES)
def polls_often(x: Array) -> Any:
    return -x


@_case(x=random(*_MAP), out=(3, 20, 6, 7), n=3, sizes=_SIZES)
def batch_repeated(x: Array) -> Any:
    return np.repeat(x, 3, 0)


@_case(x=integers(3, 20, 6, 7, dtype="int16"), out=Result((3, 20, 6, 7), "int16"), n=3, sizes=_SIZES)
def packed_pairs_with_a_rest(x: Array) -> Any:
    return x + np.int16(1)


@_case(x=random(150_000), out=(150_000,), n=150_000)
def more_than_one_command(x: Array) -> Any:
    return x


@_case(x=random(*_MAP), out=_MAP, sizes=_SIZES)
def filled_then_overwritten(x: Array) -> Any:
    return np.where(np.arange(6).reshape(1, 1, 6, 1) < 3, x, f32(4)) + f32(1)


@_case(x=integers(40, 50, low=0, high=64, dtype="int32"), y=random(64), out=(40, 50), c=40, w=50, k=64)
def table_filled_in_part(x: Array, y: Array) -> Any:
    return y[x]


@_case(x=random(*_MAP), scratch=20 * 6 * 7 * 4, out=Result((1,), "int32"), sizes=_SIZES)
def nothing_kept(x: Array) -> Any:
    return np.zeros(1, np.int32)


@_case(x=random(20, 50), out=(50, 20), h=20, w=50)
def turned_by_the_load(x: Array) -> Any:
    return x.T


@_case(x=integers(1, 20, 5, 8), out=Result((1, 20, 5, 8), "int8"), c=20, h=5)
def bytes_then_words(x: Array) -> Any:
    return x ^ np.int8(-128)


@_case(
    x=integers(1, 20, 6, 7, 4, low=-128, high=128),
    out=Result((1, 20, 6, 7, 4), "int8"),
    checks="all",
    sizes=_SIZES,
)
def sums_at_the_limit(x: Array) -> Any:
    return x


@_case(x=random(*_MAP), out=_MAP, out2=_MAP, sizes=_SIZES)
def stored_twice(x: Array) -> Any:
    return x + f32(1), x + f32(1)


@_case(x=random(1, 100, 5, 9), out=(1, 100, 5, 9), c=100, h=5, w=9)
def off_the_lines(x: Array) -> Any:
    return x * f32(2)


@_case(x=random(30, 30), out=(30,), w=30)
def diagonal(x: Array) -> Any:
    return x.diagonal()


@_case(x=random(1, 128, 5, 9), out=(1, 64, 5, 9), h=5, w=9)
def slots_added(x: Array) -> Any:
    return x[:, :64] + x[:, 64:]


@_case(x=random(20, 6, 7), y=random(30, 6, 7), out=(20, 6, 7), out2=(30, 6, 7), c=20, oc=30, h=6, w=7)
def around_beside_another_stream(x: Array, y: Array) -> Any:
    return x + f32(1), y


CORRECT: tuple[Kernel, ...] = tuple(_CASES)
