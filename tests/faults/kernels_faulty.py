"""The kernels with a mistake: what they are launched with."""

from __future__ import annotations

import numpy as np

from tests.faults.kernel_case import Kernel, Result, integers, kernel, random

_MAP = (1, 20, 6, 7)
_SIZES = {"c": 20, "h": 6, "w": 7}

MEMORY: tuple[Kernel, ...] = (
    kernel("copied_by_the_controller", x=random(5, 40), out=(5, 40), h=5, w=40),
    kernel("cleared_by_the_controller", out=(77,), n=77),
    kernel("places_of_all", x=random(200), out=(200,), out2=Result((10,), "int32"), n=200),
    kernel("halves_where_bytes_are_wanted", x=random(*_MAP), out=Result(_MAP, "int8"), sizes=_SIZES),
    kernel("row_too_many", x=random(5, 40), out=(5, 40), h=5, w=40),
    kernel("padded_stride_in_ddr", x=random(*_MAP), out=_MAP, sizes=_SIZES),
    kernel("bytes_of_bytes", x=random(3, 20, 6, 7), out=(3, 20, 6, 7), n=3, sizes=_SIZES),
    kernel("halves_as_words", x=integers(*_MAP, dtype="int16"), out=Result(_MAP, "int32"), sizes=_SIZES),
    kernel("last_tile_unclipped", x=random(100, 30), out=(100, 30), n=100, w=30),
    kernel("row_above_the_first", x=random(9, 50), out=(9, 50), h=9, w=50),
    kernel("freed_weights", x=random(*_MAP), y=random(20), out=_MAP, freed=("in2",), sizes=_SIZES),
    kernel("freed_result", x=random(*_MAP), out=_MAP, out2=_MAP, freed=("out2",), sizes=_SIZES),
    kernel(
        "bytes_as_words", x=integers(1, 20, 6, 7, 4), out=Result((4, 20, 6, 7), "int8"), n=4, sizes=_SIZES
    ),
    kernel("over_the_end_of_l2", x=random(1, 64, 5, 9), out=(1, 64, 5, 9), c=64, h=5, w=9),
    kernel("over_the_tables_of_l2", x=random(*_MAP), out=_MAP, sizes=_SIZES),
    kernel("pointer_beyond", x=random(77), out=(1,), n=77),
    kernel("pointer_writes_beyond", out=(77,), n=77),
    kernel("pointer_to_freed", x=random(*_MAP), y=random(1), out=_MAP, freed=("in2",), sizes=_SIZES),
    kernel("row_stride_of_the_other", x=random(10, 48), y=random(48, 32), out=(10, 32), n=10, k=48, w=32),
    kernel("extents_of_the_input", x=random(1, 30, 8, 10), out=(1, 30, 4, 5), c=30, h=8, w=10),
    kernel("bias_as_a_map", x=random(*_MAP), y=random(20), out=_MAP, sizes=_SIZES),
    kernel(
        "pairs_of_odd_channels",
        x=random(1, 5, 6, 7),
        y=random(5, 12),
        out=(1, 12, 6, 7),
        c=5,
        h=6,
        w=7,
        oc=12,
    ),
    kernel("length_in_bytes", x=random(99), out=(99,), n=99),
    kernel("atomic_length_in_bytes", x=random(99), out=(99,), n=99),
    kernel("clears_too_much", x=random(*_MAP), out=_MAP, sizes=_SIZES),
    kernel("results_swapped", x=random(30, 50), out=(30, 50), out2=(30,), c=30, w=50),
    kernel("broadcast_row_loaded_whole", x=random(*_MAP), y=random(1, 20, 1, 7), out=_MAP, sizes=_SIZES),
    kernel("prefetch_behind_the_last", x=random(4, 20, 6, 7), out=(4, 20, 6, 7), n=4, sizes=_SIZES),
    kernel("crop_of_full_width", x=random(20, 30), out=(16, 26), h=20, w=30, k=4),
    kernel("start_of_ddr_as_scratch", x=random(*_MAP), out=_MAP, sizes=_SIZES),
    kernel("filter_into_too_little", x=random(1, 64, 4, 9), out=(100,), c=64, h=4, w=9),
    kernel("sort_writes_all", x=random(200), out=(10,), n=200, k=10),
    kernel("transposed_by_the_wrong_stride", x=random(20, 50), out=(50, 20), h=20, w=50),
    kernel("rest_forgotten", x=random(100, 30), out=(100, 30), n=100, w=30),
    kernel("every_other_column", x=random(20, 50), out=(20, 50), c=20, w=50),
    kernel("second_result_forgotten", x=random(*_MAP), out=_MAP, out2=_MAP, sizes=_SIZES),
    kernel("over_the_end_of_local", x=random(1, 8, 130, 130), out=(1, 8, 130, 130), c=8, h=130, w=130),
    kernel(
        "stride_in_other_elements", x=integers(*_MAP, dtype="int16"), out=Result(_MAP, "int16"), sizes=_SIZES
    ),
    kernel("n_stride_of_more_channels", x=random(3, 20, 6, 7), out=(3, 20, 6, 7), n=3, sizes=_SIZES),
)

INIT: tuple[Kernel, ...] = (
    kernel("operand_not_loaded", x=random(*_MAP), y=random(*_MAP), out=_MAP, sizes=_SIZES),
    kernel("wrong_bank", x=random(*_MAP), y=random(*_MAP), out=_MAP, sizes=_SIZES),
    kernel("tail_reduced_whole", x=random(1, 20, 22, 9), out=(1, 20, 3, 9), c=20, h=22, w=9, k=8),
    kernel("compact_used_as_aligned", x=random(1, 100, 5, 9), out=(1, 100, 5, 9), c=100, h=5, w=9),
    kernel("one_lane_for_all", x=random(*_MAP), y=random(6, 7), out=_MAP, sizes=_SIZES),
    kernel(
        "bias_never_loaded",
        x=random(1, 6, 6, 7),
        y=random(6, 12),
        z=random(12),
        out=(1, 12, 6, 7),
        c=6,
        h=6,
        w=7,
        oc=12,
    ),
    kernel("adds_to_the_first", x=random(10, 32), y=random(32, 24), out=(10, 24), n=10, k=32, w=24),
    kernel("mac_on_nothing", x=random(*_MAP), y=random(*_MAP), out=_MAP, sizes=_SIZES),
    kernel(
        "packed_words_not_full", x=integers(4, 20, 6, 7), out=Result((20, 6, 7, 4), "int8"), n=4, sizes=_SIZES
    ),
    kernel("l2_before_the_copy", x=random(*_MAP), y=random(*_MAP), out=_MAP, sizes=_SIZES),
    kernel("adds_to_the_output", x=random(3, 20, 6, 7), out=_MAP, n=3, sizes=_SIZES),
    kernel("count_never_written", scratch=4, out=Result(_MAP, "int32"), sizes=_SIZES),
    kernel("columns_of_the_last_channel", x=random(10, 20), y=random(20, 32), out=(10, 32), n=10, k=20, w=32),
    kernel("half_of_a_pair", x=random(1, 3, 6, 7), y=random(3, 12), out=(1, 12, 6, 7), c=3, h=6, w=7, oc=12),
    kernel(
        "depthwise_weights_aligned",
        x=random(1, 100, 6, 7),
        y=random(100, 3, 3),
        out=(1, 100, 6, 7),
        c=100,
        h=6,
        w=7,
    ),
    kernel("maximum_elsewhere", x=random(40, 50), out=(40, 50), c=40, w=50),
    kernel("halo_not_cleared", x=random(1, 20, 6, 32), out=(1, 20, 6, 32), c=20, h=6, w=32),
    kernel("second_batch_not_loaded", x=random(2, 20, 6, 7), out=(2, 20, 6, 7), n=2, sizes=_SIZES),
    kernel("second_slot_not_loaded", x=random(1, 100, 6, 7), out=(1, 100, 6, 7), c=100, h=6, w=7),
    kernel("other_buffer_of_the_two", x=random(4, 20, 6, 7), out=(4, 20, 6, 7), n=4, sizes=_SIZES),
    kernel(
        "gaps_of_scratch",
        x=random(1, 20, 6, 30),
        out=(1, 20, 6, 30),
        scratch=20 * 6 * 32 * 4,
        c=20,
        h=6,
        w=30,
    ),
    kernel("mean_of_the_padded_row", x=random(40, 50), out=(40, 1), c=40, w=50),
    kernel("selects_nothing", x=random(*_MAP), y=random(*_MAP), out=_MAP, sizes=_SIZES),
    kernel("loaded_from_another_lane", x=random(*_MAP), y=random(*_MAP), out=_MAP, sizes=_SIZES),
    kernel(
        "index_missing", x=random(64), y=integers(50, low=0, high=64, dtype="int32"), out=(50,), n=50, w=64
    ),
    kernel("sort_of_no_indices", x=random(100), scratch=400, out=(100,), out2=Result((100,), "int32"), n=100),
    kernel("table_one_short", x=random(40, 50), scratch=200, out=(40, 50), c=40, w=50),
    kernel(
        "left_by_the_launch_before",
        x=random(*_MAP),
        y=random(20),
        out=_MAP,
        launches=({"k": 0}, {"k": 1}),
        sizes=_SIZES,
    ),
    kernel("border_half_cleared", x=random(*_MAP), out=_MAP, sizes=_SIZES),
    kernel(
        "result_in_another_place",
        x=random(6, 20, 6, 7),
        out=Result((2, 20, 6, 7, 4), "int8"),
        n=6,
        sizes=_SIZES,
    ),
    kernel("broadcast_of_an_empty_lane", x=random(50), out=(20, 50), c=20, w=50),
    kernel(
        "index_behind_the_table",
        x=random(64),
        y=np.append(integers(49, low=0, high=64, dtype="int32"), np.int32(64)),
        out=(50,),
        n=50,
        w=64,
    ),
    kernel("rows_of_the_right_missing", x=random(10, 32), y=random(32, 24), out=(10, 24), n=10, k=32, w=24),
    kernel("scratch_copied_unfilled", scratch=20 * 6 * 7 * 4, out=_MAP, sizes=_SIZES),
    kernel("mask_elsewhere", x=random(*_MAP), out=(20 * 6 * 7,), sizes=_SIZES),
    kernel("converts_nothing", x=random(*_MAP), out=Result(_MAP, "float16"), sizes=_SIZES),
    kernel("turned_one_column_too_many", x=random(40, 50), out=(50, 40), c=40, w=50),
    kernel("third_row_missing", x=random(3, 50), out=(50,), w=50),
    kernel(
        "last_tap_not_loaded",
        x=random(1, 5, 5, 11),
        y=random(3, 12, 9, 2),
        out=(1, 12, 1, 9),
        c=5,
        w=11,
        oc=12,
    ),
)

_FOUR = (4, 20, 6, 7)

HAZARD: tuple[Kernel, ...] = (
    kernel("sort_beside_its_input", x=random(100), scratch=400, out=(100,), n=100),
    kernel(
        "around_into_another_stream",
        x=random(70, 6, 7),
        y=random(30, 6, 7),
        out=(30, 6, 7),
        c=70,
        oc=30,
        h=6,
        w=7,
    ),
    kernel("copied_before_poll", x=random(50), scratch=200, out=(50,), w=50),
    kernel("even_rows_beside_even_ones", x=random(*_MAP), out=_MAP, sizes=_SIZES),
    kernel("one_buffer_for_two", x=random(*_FOUR), out=_FOUR, n=4, sizes=_SIZES),
    kernel("end_of_section_missing", x=random(*_FOUR), out=_FOUR, n=4, sizes=_SIZES),
    kernel("stored_while_computed", x=random(*_FOUR), out=_FOUR, n=4, sizes=_SIZES),
    kernel(
        "weights_replaced_in_use", x=random(*_MAP), y=random(20, 20), z=random(5, 80), out=_MAP, sizes=_SIZES
    ),
    kernel("store_a_stage_too_early", x=random(*_FOUR), out=_FOUR, n=4, sizes=_SIZES),
    kernel("one_buffer_of_results", x=random(*_FOUR), out=_FOUR, n=4, sizes=_SIZES),
    kernel(
        "batches_larger_than_a_bank", x=random(3, 8, 130, 130), out=(3, 8, 130, 130), n=3, c=8, h=130, w=130
    ),
    kernel(
        "parameter_changed_too_early",
        x=random(*_MAP),
        y=random(2, 10, 6, 7),
        scratch=4,
        out=_MAP,
        out2=_MAP,
        sizes=_SIZES,
    ),
    kernel("result_read_before_poll", x=random(50), out=(50,), out2=(1,), w=50),
    kernel("local_result_before_poll", x=random(50), out=(50,), w=50),
    kernel(
        "bias_beside_the_convolution", x=random(*_MAP), y=random(20, 20), z=random(20), out=_MAP, sizes=_SIZES
    ),
    kernel("cleared_beside_the_load", x=random(*_MAP), out=_MAP, sizes=_SIZES),
    kernel("moved_while_computed", x=random(*_MAP), out=_MAP, sizes=_SIZES),
    kernel(
        "lanes_of_two_streams",
        x=random(40, 6, 7),
        y=random(32, 6, 7),
        out=(32, 6, 7),
        out2=(32, 6, 7),
        c=40,
        oc=32,
        h=6,
        w=7,
    ),
    kernel("sum_stored_too_early", x=random(10, 32), y=random(32, 24), out=(10, 24), n=10, k=32, w=24),
    kernel("work_buffer_loaded_over", x=random(*_FOUR), out=_FOUR, n=4, sizes=_SIZES),
    kernel("section_ended_too_late", x=random(*_MAP), y=random(*_MAP), out=_MAP, out2=_MAP, sizes=_SIZES),
    kernel(
        "gather_beside_its_table",
        x=random(64),
        y=integers(50, low=0, high=64, dtype="int32"),
        out=(50,),
        n=50,
        w=64,
    ),
    kernel("controller_writes_under_a_store", x=random(*_MAP), out=_MAP, sizes=_SIZES),
    kernel("controller_writes_local", x=random(*_FOUR), out=_FOUR, n=4, sizes=_SIZES),
    kernel("rolling_rows_overlap", x=random(1, 20, 8, 32), out=(1, 20, 8, 32), c=20, h=8, w=32, k=4),
    kernel("padding_filled_beside", x=random(*_MAP), out=_MAP, sizes=_SIZES),
    kernel("one_too_far_of_three", x=random(*_FOUR), out=_FOUR, n=4, sizes=_SIZES),
    kernel(
        "table_in_l2_replaced",
        x=integers(40, 50, low=0, high=64, dtype="int32"),
        y=random(64),
        z=random(8, 8),
        out=(40, 50),
        c=40,
        w=50,
        k=64,
    ),
)

SYNC: tuple[Kernel, ...] = (
    kernel("waits_for_what_never_comes", x=random(*_MAP), out=_MAP, sizes=_SIZES),
    kernel("both_wait", x=random(*_MAP), out=_MAP, sizes=_SIZES),
    kernel("ids_left_out", x=random(*_MAP), out=_MAP, sizes=_SIZES),
    kernel("never_polls", x=random(*_MAP), out=_MAP, sizes=_SIZES),
    kernel("stores_behind_the_poll", x=random(*_MAP), out=_MAP, sizes=_SIZES),
    kernel("early_return", x=random(*_MAP), out=_MAP, sizes=_SIZES),
    kernel("section_left_open", x=random(*_MAP), out=_MAP, sizes=_SIZES),
    kernel("section_twice", x=random(*_MAP), out=_MAP, sizes=_SIZES),
    kernel("poll_in_a_section", x=random(*_MAP), out=_MAP, sizes=_SIZES),
    kernel("end_without_start", x=random(*_MAP), out=_MAP, sizes=_SIZES),
    kernel("ids_set_back", x=random(*_MAP), out=_MAP, sizes=_SIZES),
    kernel("no_poll_for_the_last", x=random(*_FOUR), out=_FOUR, n=4, sizes=_SIZES),
)

_HOLES = random(*_MAP) * (random(*_MAP) > 0)
_ROWS = np.concatenate([random(19, 32), np.full((1, 32), 3, np.float32)])

NUMERIC: tuple[Kernel, ...] = (
    kernel("divides_by_zero", x=_HOLES, out=_MAP, checks="all", sizes=_SIZES),
    kernel(
        "zero_by_zero",
        x=np.concatenate([random(19, 32), np.zeros((1, 32), np.float32)]),
        out=(20, 32),
        checks="all",
        c=20,
        w=32,
    ),
    kernel("overflows", x=random(*_MAP) * np.float32(1e25), out=_MAP, checks="all", sizes=_SIZES),
    kernel("constant_channel", x=_ROWS, out=(20, 32), checks="all", c=20, w=32),
    kernel("underflows", x=random(*_MAP) * np.float32(1e-22), out=_MAP, checks="all", sizes=_SIZES),
    kernel(
        "saturates",
        x=integers(1, 20, 6, 7, 4, low=-100, high=100),
        out=Result((1, 20, 6, 7, 4), "int8"),
        checks="all",
        n=4,
        sizes=_SIZES,
    ),
    kernel("integer_out_of_range", x=random(*_MAP), out=Result(_MAP, "int32"), checks="all", sizes=_SIZES),
    kernel(
        "half_out_of_range",
        x=random(*_MAP) * np.float32(1e6),
        out=Result(_MAP, "float16"),
        checks="all",
        sizes=_SIZES,
    ),
    kernel(
        "infinity_less_infinity", x=random(*_MAP) * np.float32(1e10), out=_MAP, checks="all", sizes=_SIZES
    ),
    kernel(
        "convolution_saturates",
        x=integers(1, 3, 6, 7, 4, low=-100, high=100),
        out=Result((1, 5, 6, 7, 4), "int8"),
        checks="all",
        n=4,
        c=3,
        oc=5,
        h=6,
        w=7,
    ),
)
