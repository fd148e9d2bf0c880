"""What more kernels with a mistake are launched with: those of faulty_*.c."""

from __future__ import annotations

import numpy as np

from tests.faults.kernel_case import Kernel, Result, integers, kernel, random

_MAP = (1, 20, 6, 7)
_SIZES = {"c": 20, "h": 6, "w": 7}
_WIDE = {"c": 100, "h": 5, "w": 9}
_POINT = {"n": 4, "c": 6, "h": 5, "w": 6, "oc": 10}
_KEPT = np.sort(random(40))
_ALWAYS_NEAR = np.full((1, 20, 6, 7), 1000.1, np.float32) + random(20, 1, 1)

MEMORY: tuple[Kernel, ...] = (
    kernel("offset_as_an_address", x=random(50), out=(50,), w=50),
    kernel("second_operand_over_the_first", x=random(*_MAP), y=random(*_MAP), out=_MAP, sizes=_SIZES),
    kernel("indices_without_a_place", x=random(50), out=(50,), n=50),
    kernel(
        "batches_of_halves_as_words",
        x=integers(3, 20, 6, 7, dtype="int16"),
        out=Result((3, 20, 6, 7), "int16"),
        n=3,
        sizes=_SIZES,
    ),
    kernel("nearest_row_rounded_up", x=random(20, 6, 7), out=(20, 15, 7), k=15, sizes=_SIZES),
    kernel(
        "weights_of_a_group_beyond",
        x=random(1, 8, 5, 6),
        y=random(2, 2, 6, 2),
        out=(1, 12, 5, 6),
        c=8,
        h=5,
        w=6,
        oc=12,
        k=2,
    ),
    kernel("second_map_by_elements", x=random(*_MAP), y=random(*_MAP), out=(2, 20, 6, 7), sizes=_SIZES),
    kernel(
        "halves_stored_as_bytes",
        x=integers(1, 20, 6, 7, 4),
        out=Result((2, 20, 6, 7, 2), "int16"),
        n=4,
        sizes=_SIZES,
    ),
    kernel(
        "product_of_bytes_stored",
        x=integers(9, 30),
        y=integers(30, 20),
        out=Result((9, 20), "int16"),
        n=9,
        k=30,
        w=20,
    ),
    kernel("bytes_filled_as_words", out=Result(_MAP, "uint8"), sizes=_SIZES),
    kernel("rest_of_the_list", x=_KEPT, out=(40,), n=40),
    kernel("steps_of_one_row", x=random(4, 20, 6, 7), out=(4, 20, 6, 7), n=4, sizes=_SIZES),
    kernel("rows_apart_by_bytes", x=random(9, 30), out=(9, 30), n=9, k=30),
    kernel(
        "scratch_of_one_batch",
        x=random(3, 20, 6, 7),
        out=(3, 20, 6, 7),
        scratch=20 * 6 * 7 * 4,
        n=3,
        sizes=_SIZES,
    ),
    kernel(
        "address_remembered",
        x=random(50),
        out=(50,),
        scratch=200,
        launches=({}, {"oc": 1}),
        between=("scratch",),
        w=50,
    ),
    kernel(
        "odd_rows_of_another_height",
        x=random(20, 7, 9),
        out=(20, 7, 9),
        launches=({}, {"oc": 1}),
        c=20,
        h=7,
        w=9,
    ),
)

INIT: tuple[Kernel, ...] = (
    kernel(
        "pairs_rounded_down",
        x=random(1, 5, 6, 7),
        y=random(3, 12, 2),
        out=(1, 12, 6, 7),
        c=5,
        h=6,
        w=7,
        oc=12,
    ),
    kernel("columns_of_another_width", x=random(9, 30), y=random(30, 20), out=(9, 20), n=9, k=30, w=20),
    kernel("count_read_from_an_output", out=Result((20,), "int32"), scratch=4, w=20),
    kernel(
        "dilation_forgotten", x=random(1, 20, 12, 13), y=random(20, 9), out=(1, 20, 10, 11), c=20, h=12, w=13
    ),
    kernel("pool_without_its_padding", x=random(1, 20, 12, 14), out=(1, 20, 6, 7), c=20, h=12, w=14),
    kernel(
        "bias_of_one_slot",
        x=random(1, 100, 5, 9),
        y=random(100, 9),
        z=random(100),
        out=(1, 100, 5, 9),
        sizes=_WIDE,
    ),
    kernel("tree_of_an_odd_count", x=random(7, 50), out=(50,), c=7, w=50),
    kernel("mean_not_repeated", x=random(*_MAP), out=_MAP, sizes=_SIZES),
    kernel("factors_of_the_first_slot", x=random(1, 100, 5, 9), y=random(9), out=(1, 100, 5, 9), sizes=_WIDE),
    kernel(
        "last_slice_as_the_others",
        x=random(10, 40),
        y=random(40, 50),
        out=(10, 50),
        n=10,
        c=40,
        w=50,
        k=32,
    ),
    kernel(
        "sums_of_the_first_batch",
        x=random(2, 10, 40),
        y=random(2, 40, 50),
        out=(2, 10, 50),
        n=2,
        c=40,
        h=10,
        w=50,
        k=20,
    ),
    kernel("row_below_the_last", x=random(1, 20, 6, 7), out=(1, 20, 12, 7), sizes=_SIZES),
    kernel("exchanged_by_exchanged_extents", x=random(20, 50), out=(50, 20), c=20, w=50),
    kernel(
        "result_by_strides_of_the_input", x=random(2, 20, 12, 14), out=(2, 20, 6, 7), n=2, c=20, h=12, w=14
    ),
    kernel("strides_of_another_start", x=random(2, 63, 5, 9), out=(2, 63, 5, 9), n=2, c=63, h=5, w=9),
    kernel(
        "words_of_whole_fours",
        x=integers(2, 20, 6, 7, 4),
        out=Result((2, 20, 6, 7, 4), "int8"),
        n=6,
        sizes=_SIZES,
    ),
    kernel(
        "low_bytes_not_made",
        x=integers(2, 20, 6, 7, 2, dtype="int16"),
        y=integers(1, 20, 6, 7, 4),
        out=Result((2, 20, 6, 7, 2), "int16"),
        n=4,
        sizes=_SIZES,
    ),
    kernel(
        "bytes_added_to_nothing",
        x=integers(3, 20, 6, 7, 4),
        out=Result((2, 20, 6, 7, 2), "int16"),
        n=4,
        k=3,
        sizes=_SIZES,
    ),
    kernel(
        "weights_of_four_channels",
        x=integers(1, 6, 5, 6, 4),
        y=integers(10, 4),
        z=integers(10, dtype="int16"),
        out=Result((1, 10, 5, 6, 4), "int8"),
        sizes=_POINT,
    ),
    kernel(
        "bias_of_bytes",
        x=integers(1, 6, 5, 6, 4),
        y=integers(2, 10, 4),
        z=integers(10, dtype="int16"),
        out=Result((1, 10, 5, 6, 4), "int8"),
        sizes=_POINT,
    ),
    kernel("filled_by_strides_of_words", out=Result((1, 100, 5, 9), "int8"), sizes=_WIDE),
    kernel(
        "lines_converted_as_compact",
        x=integers(1, 100, 5, 9, 4),
        out=(4, 100, 5, 9),
        n=4,
        sizes=_WIDE,
    ),
    kernel(
        "pixels_counted_as_words",
        x=integers(1, 20, 6, 8, low=0, dtype="uint8"),
        out=(1, 20, 6, 8),
        c=20,
        h=6,
        w=8,
    ),
    kernel(
        "scratch_of_fewer_rows",
        x=random(5, 30),
        out=(5, 30),
        scratch=600,
        launches=({"h": 3}, {"oc": 1, "h": 5}),
        w=30,
        k=5,
    ),
    kernel("table_of_another_launch", x=random(50), out=(50,), launches=({}, {"oc": 1}), w=50),
    kernel(
        "scratch_renewed",
        x=random(50),
        out=(50,),
        scratch=200,
        launches=({}, {"oc": 1}),
        between=("scratch",),
        renewed=True,
        w=50,
    ),
)

HAZARD: tuple[Kernel, ...] = (
    kernel("first_row_taken_from_itself", x=random(*_MAP), out=_MAP, sizes=_SIZES),
    kernel("sum_by_a_stride_of_zero", x=random(20, 30), out=(20,), c=20, w=30),
    kernel("product_over_its_operand", x=random(9, 30), y=random(30, 100), out=(9, 100), n=9, k=30, w=100),
    kernel("two_buffers_for_three_stages", x=random(5, 20, 6, 7), out=(5, 20, 6, 7), n=5, sizes=_SIZES),
    kernel("sorted_beside_its_use", x=random(200), out=(10,), scratch=40, n=200, k=10),
    kernel(
        "mask_made_beside_the_filter", x=random(*_MAP), out=_MAP, scratch=20 * 6 * 7 * 4 + 512, sizes=_SIZES
    ),
    kernel("turned_beside_the_product", x=random(1, 30), y=random(30, 50), out=(50,), k=30, w=50),
    kernel("filled_beside_the_sum", x=random(*_MAP), out=_MAP, sizes=_SIZES),
    kernel("carry_stored_too_late", x=random(4, 20, 6, 7), out=(4, 20, 6, 7), n=4, sizes=_SIZES),
    kernel("scores_read_too_early", x=random(20, low=0), out=(20,), n=20),
    kernel("words_of_l2_too_early", x=random(20), out=(1,), n=20),
    kernel("sums_over_themselves", x=random(20, 50), out=(20, 50), c=20, w=50),
    kernel("rows_moved_over_themselves", held=random(20, 30), h=20, w=30),
    kernel("convolution_in_place", x=random(1, 20, 6, 7), y=random(20, 9), out=_MAP, sizes=_SIZES),
)

SYNC: tuple[Kernel, ...] = (
    kernel(
        "counted_in_a_section",
        x=random(*_MAP),
        out=Result((1,), "int32"),
        scratch=20 * 6 * 7 * 4 + 512,
        sizes=_SIZES,
    ),
    kernel("next_round_in_a_section", x=random(4, 20, 6, 7), out=(4, 20, 6, 7), n=4, sizes=_SIZES),
)

NUMERIC: tuple[Kernel, ...] = (
    kernel(
        "exponent_out_of_range", x=random(20, 30, low=-200, high=-150), out=(20, 30), checks="all", c=20, w=30
    ),
    kernel(
        "softmax_without_the_maximum",
        x=random(20, 30, low=90, high=120),
        out=(20, 30),
        checks="all",
        c=20,
        w=30,
    ),
    kernel("variance_below_zero", x=_ALWAYS_NEAR, out=(20,), checks="all", sizes=_SIZES),
    kernel("mean_of_nothing", x=random(20, 30, low=-3, high=-1), out=(20,), checks="all", c=20, w=30),
    kernel(
        "sums_leave_their_type",
        x=np.full((1, 20, 6, 7, 4), 100, np.int8),
        out=Result((2, 20, 6, 7, 2), "int16"),
        checks="all",
        n=4,
        k=5,
        sizes=_SIZES,
    ),
)
