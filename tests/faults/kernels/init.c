/* Results that depend on memory which nothing wrote. */
#include "faults.h"

/* The second operand is never loaded. */
void operand_not_loaded(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_add(0, 0, 2 * BANK, &shape, NULL, NULL, NULL); /* FAULT init.unwritten */
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(operand_not_loaded)

/* Loaded into bank 2, used from bank 3. */
void wrong_bank(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_S2L(2 * BANK, p->in2, &shape, NULL, NULL);
    okk_bdc_mul(4 * BANK, 0, 3 * BANK, &shape, NULL, NULL, NULL); /* FAULT init.unwritten */
    okk_gdma_32bit_cpy_L2S(p->out, 4 * BANK, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(wrong_bank)

/* The last tile is clipped where it is loaded, and not where it is reduced over its rows. */
void tail_reduced_whole(const void *args) {
    const args_t *p = args;
    const int rows = p->k;
    okk_initialize();
    for (int h = 0, i = 0; h < p->h; h += rows, i++) {
        const dim4 load = {1, p->c, MIN(rows, p->h - h), p->w}, tile = {1, p->c, rows, p->w}, one = {1, p->c, 1, p->w};
        const dim4 image = {0, p->h * p->w, p->w, 1}, out = {0, DIV_UP(p->h, rows) * p->w, p->w, 1};
        dim4 local;
        okk_128_byte_aligned_stride_for_32bit(&local, 0, &tile);
        const local_addr_t at = i * BANK; /* each tile has memory of its own */
        okk_gdma_32bit_cpy_S2L(at, p->in + h * p->w * FLOAT, &load, &local, &image);
        okk_bdc_max_pool2d(at + BANK / 2, at, &tile, rows, 1, NULL, NULL); /* FAULT init.unwritten */
        okk_gdma_32bit_cpy_L2S(p->out + i * p->w * FLOAT, at + BANK / 2, &one, &out, NULL);
    }
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(tail_reduced_whole)

/* Loaded without gaps, used as if channels began at multiples of 128 bytes. */
void compact_used_as_aligned(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_compact_S2L(0, p->in, &shape);
    okk_bdc_add_C(2 * BANK, 0, 1.f, &shape, NULL, NULL); /* FAULT init.unwritten */
    okk_gdma_32bit_cpy_L2S(p->out, 2 * BANK, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(compact_used_as_aligned)

/* in2 is one channel, which lies on one lane only; the sum wants it on all. */
void one_lane_for_all(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w}, one = {1, 1, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_S2L(2 * BANK, p->in2, &one, NULL, NULL);
    okk_bdc_add(0, 0, 2 * BANK, &shape, NULL, NULL, NULL); /* FAULT init.unwritten */
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(one_lane_for_all)

/* A convolution that is told of a bias which nobody loads. */
void bias_never_loaded(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w}, weights = {DIV_UP(p->c, 2), p->oc, 1, 2}, result = {1, p->oc, p->h, p->w};
    dim4 compact;
    const dim4 pairs = {DIV_UP(p->oc, NPUS), 1, 1, 1};
    okk_compact_stride(&compact, 0, &weights);
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_S2L(2 * BANK, p->in2, &weights, &compact, NULL);
    okk_bdc_conv2d(4 * BANK, 0, 2 * BANK, 6 * BANK, &shape, p->oc, 1, 1, NULL, &pairs, true, false, NULL, NULL, NULL); /* FAULT init.unwritten */
    okk_gdma_32bit_cpy_L2S(p->out, 4 * BANK, &result, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(bias_never_loaded)

/* Adds up slices of the inner dimension, the first one to what was there before. */
void adds_to_the_first(const void *args) {
    const args_t *p = args;
    const int per_channel = 8, slice = p->k / 2;
    okk_initialize();
    for (int i = 0; i < 2; i++) {
        okk_gdma_32bit_matrix_S2L(0, p->in + i * slice * FLOAT, p->n, slice, per_channel, p->k);
        okk_gdma_32bit_matrix_S2L(2 * BANK, p->in2 + i * slice * p->w * FLOAT, slice, p->w, per_channel, p->w);
        okk_bdc_matmul(4 * BANK, 0, 2 * BANK, 0, p->n, slice, p->w, per_channel, per_channel, false, true); /* FAULT init.unwritten */
    }
    okk_gdma_32bit_matrix_L2S(p->out, 4 * BANK, p->n, p->w, per_channel, p->w);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(adds_to_the_first)

/* dst += a * b, and dst is not cleared. */
void mac_on_nothing(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_S2L(BANK, p->in2, &shape, NULL, NULL);
    okk_bdc_mac(2 * BANK, 0, BANK, &shape, NULL, NULL, NULL); /* FAULT init.unwritten */
    okk_gdma_32bit_cpy_L2S(p->out, 2 * BANK, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(mac_on_nothing)

/* 4N: batches 0 to 2 are put into bytes of words, the last one is forgotten, and all four are stored. */
void packed_words_not_full(const void *args) {
    const args_t *p = args;
    const dim4 one = {1, p->c, p->h * p->w, 1}, whole = {4, p->c, p->h, p->w}, words = {1, p->c, p->h, p->w};
    const int plane = p->h * p->w;
    const dim4 byte = {0, ALIGN(plane, 32) * 4, 4, 1}, image = {0, plane, 1, 1};
    okk_initialize();
    for (int n = 0; n < p->n - 1; n++) {
        okk_gdma_8bit_cpy_S2L(n, p->in + n * p->c * plane, &one, &byte, &image);
    }
    okk_bdc_fixed_point_packed_add_C(BANK, 0, 1, &whole, NULL, NULL, S8_OP_S8_TO_S8, 0); /* FAULT init.unwritten */
    okk_gdma_32bit_cpy_L2S(p->out, BANK, &words, NULL, NULL); /* FAULT init.unwritten */
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(packed_words_not_full)

/* Table look-ups in L2: the table is copied there after it was used. */
void l2_before_the_copy(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    const unsigned long long l2 = okk_l2_sram_start_addr();
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_S2L(BANK, l2, &shape, NULL, NULL); /* FAULT init.unwritten */
    okk_gdma_32bit_cpy_S2S(l2, p->in2, &shape, NULL, NULL);
    okk_bdc_add(0, 0, BANK, &shape, NULL, NULL, NULL); /* FAULT init.unwritten */
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(l2_before_the_copy)

/* Adds to a result in DDR that nobody cleared. */
void adds_to_the_output(const void *args) {
    const args_t *p = args;
    const dim4 one = {1, p->c, p->h, p->w};
    const unsigned long long bytes = (unsigned long long)p->c * p->h * p->w * FLOAT;
    okk_initialize();
    for (int n = 0; n < p->n; n++) {
        okk_gdma_32bit_cpy_S2L(0, p->in + n * bytes, &one, NULL, NULL);
        okk_gdma_32bit_cpy_S2L(BANK, p->out, &one, NULL, NULL); /* FAULT init.unwritten */
        okk_bdc_add(0, 0, BANK, &one, NULL, NULL, NULL); /* FAULT init.unwritten */
        okk_gdma_32bit_cpy_L2S(p->out, 0, &one, NULL, NULL);
    }
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(adds_to_the_output)

/* The controller takes the number of rows from scratch memory that nothing filled. */
void count_never_written(const void *args) {
    const args_t *p = args;
    okk_initialize();
    okk_poll();
    const int found = *(const int *)okk_global_mem_addr(p->scratch); /* FAULT init.unwritten */
    const dim4 shape = {1, p->c, p->h, p->w};
    okk_gdma_32bit_set_C_system(p->out, (x32){.s32 = found > 0}, &shape, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(count_never_written)

/* The inner dimension is 20, of which 16 columns are loaded. */
void columns_of_the_last_channel(const void *args) {
    const args_t *p = args;
    const int per_channel = 16;
    okk_initialize();
    okk_gdma_32bit_matrix_S2L(0, p->in, p->n, p->k / per_channel * per_channel, per_channel, p->k);
    okk_gdma_32bit_matrix_S2L(2 * BANK, p->in2, p->k, p->w, per_channel, p->w);
    okk_bdc_matmul(4 * BANK, 0, 2 * BANK, 0, p->n, p->k, p->w, per_channel, per_channel, false, false); /* FAULT init.unwritten */
    okk_gdma_32bit_matrix_L2S(p->out, 4 * BANK, p->n, p->w, per_channel, p->w);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(columns_of_the_last_channel)

/* Weights are put into pairs channel by channel; the other half of the last pair stays as it was. */
void half_of_a_pair(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w}, result = {1, p->oc, p->h, p->w}, one = {1, p->oc, 1, 1};
    const dim4 pairs = {1, 1, 1, 1};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    for (int c = 0; c < p->c; c++) { /* in2 has [c][oc] */
        okk_gdma_32bit_cpy_S2L(2 * BANK + c * FLOAT, p->in2 + c * p->oc * FLOAT, &one, NULL, NULL);
    }
    okk_bdc_conv2d(4 * BANK, 0, 2 * BANK, 0, &shape, p->oc, 1, 1, NULL, &pairs, false, false, NULL, NULL, NULL); /* FAULT init.unwritten */
    okk_gdma_32bit_cpy_L2S(p->out, 4 * BANK, &result, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(half_of_a_pair)

/* Depthwise weights are compact: a second slot follows the first at once, not at the next 128 bytes. */
void depthwise_weights_aligned(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w}, weights = {1, p->c, 3, 3};
    const Padding pad = {1, 1, 1, 1};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_S2L(2 * BANK, p->in2, &weights, NULL, NULL);
    okk_bdc_depthwise2d(4 * BANK, 0, 2 * BANK, 0, &shape, 3, 3, false, &pad, NULL, NULL); /* FAULT init.unwritten */
    okk_gdma_32bit_cpy_L2S(p->out, 4 * BANK, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(depthwise_weights_aligned)

/* x - max(x): the maximum is put behind x, and read from where x begins to be in the next bank. */
void maximum_elsewhere(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, 1, p->w}, once = {0, 0, 0, 0};
    const local_addr_t largest = ALIGN(p->w * FLOAT, 128);
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_max_pool2d(largest, 0, &shape, 1, p->w, NULL, NULL);
    okk_bdc_sub(0, 0, BANK, &shape, NULL, NULL, &once); /* FAULT init.unwritten */
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(maximum_elsewhere)

/* y[h] = x[h - 1] + x[h]: the row above the first is not there, and nobody makes it zero. */
void halo_not_cleared(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    const local_addr_t in = BANK + 128, row = p->w * FLOAT; /* w is 32: rows are whole lines of 128 bytes */
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(in, p->in, &shape, NULL, NULL);
    okk_bdc_add(4 * BANK, in, in - row, &shape, NULL, NULL, NULL); /* FAULT init.unwritten */
    okk_gdma_32bit_cpy_L2S(p->out, 4 * BANK, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(halo_not_cleared)

/* Loads one batch, computes and stores all. */
void second_batch_not_loaded(const void *args) {
    const args_t *p = args;
    const dim4 one = {1, p->c, p->h, p->w}, shape = {p->n, p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &one, NULL, NULL);
    okk_bdc_relu(0, 0, &shape, NULL, NULL); /* FAULT init.unwritten */
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL); /* FAULT init.unwritten */
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(second_batch_not_loaded)

/* 100 channels, of which the first 64 are loaded: the slots above stay empty. */
void second_slot_not_loaded(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w}, loaded = {1, MIN(p->c, NPUS), p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &loaded, NULL, NULL);
    okk_bdc_sigmoid(2 * BANK, 0, 4 * BANK, &shape); /* FAULT init.unwritten */
    okk_gdma_32bit_cpy_L2S(p->out, 2 * BANK, &shape, NULL, NULL); /* FAULT init.unwritten */
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(second_slot_not_loaded)

/* Two buffers in turn; the result is computed from the other one, so from nothing at first. */
void other_buffer_of_the_two(const void *args) {
    const args_t *p = args;
    const dim4 one = {1, p->c, p->h, p->w};
    const unsigned long long bytes = (unsigned long long)p->c * p->h * p->w * FLOAT;
    okk_initialize();
    for (int n = 0; n < p->n; n++) {
        okk_gdma_32bit_cpy_S2L(n % 2 * BANK, p->in + n * bytes, &one, NULL, NULL);
        okk_bdc_mul_C(4 * BANK, (n + 1) % 2 * BANK, .5f, &one, NULL, NULL); /* FAULT init.unwritten */
        okk_gdma_32bit_cpy_L2S(p->out + n * bytes, 4 * BANK, &one, NULL, NULL);
    }
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(other_buffer_of_the_two)

/* Rows of w numbers go into scratch in DDR at steps of 32, and are read from there one behind the other. */
void gaps_of_scratch(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w}, padded = {0, p->h * 32, 32, 1};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->scratch, 0, &shape, &padded, NULL);
    okk_gdma_32bit_cpy_S2L(BANK, p->scratch, &shape, NULL, NULL); /* FAULT init.unwritten */
    okk_bdc_add_C(BANK, BANK, 1.f, &shape, NULL, NULL); /* FAULT init.unwritten */
    okk_gdma_32bit_cpy_L2S(p->out, BANK, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(gaps_of_scratch)

/* The mean of a row, taken over the padded row. */
void mean_of_the_padded_row(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, 1, p->w}, padded = {1, p->c, 1, ALIGN(p->w, 32)}, one = {1, p->c, 1, 1};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_avg_pool2d_v2(BANK, 0, &padded, 1, padded.w, NULL, NULL, 1.f / p->w); /* FAULT init.unwritten */
    okk_gdma_32bit_cpy_L2S(p->out, BANK, &one, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(mean_of_the_padded_row)

/* where(x > 0, x, y), and y is not there. */
void selects_nothing(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    const fp32_or_addr_t x = {.is_addr = true, .context.addr = 0}, zero = {.is_addr = false, .context.val = 0};
    const x32_or_addr_t then = {.is_addr = true, .context.addr = 0}, other = {.is_addr = true, .context.addr = BANK};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_greater_select(2 * BANK, &x, &zero, &then, &other, &shape); /* FAULT init.unwritten */
    okk_gdma_32bit_cpy_L2S(p->out, 2 * BANK, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(selects_nothing)

/* Both inputs have c channels; the second is loaded from lane 32 on and read from lane 0 on. */
void loaded_from_another_lane(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    const local_addr_t lane32 = 32 * okk_local_mem_size_per_npu();
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_S2L(lane32 + BANK, p->in2, &shape, NULL, NULL);
    okk_bdc_add(0, 0, BANK, &shape, NULL, NULL, NULL); /* FAULT init.unwritten */
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(loaded_from_another_lane)

/* One index too few is copied to L2 for the gather. */
void index_missing(const void *args) {
    const args_t *p = args;
    const unsigned l2 = okk_l2_sram_start_addr();
    okk_initialize();
    okk_gdma_32bit_cpy_S2S(l2, p->in, &(dim4){1, 1, 1, p->w}, NULL, NULL);
    okk_gdma_32bit_cpy_S2S(l2 + BANK, p->in2, &(dim4){1, 1, 1, p->n - 1}, NULL, NULL);
    GatherDataParam gather = {l2, l2 + BANK, l2 + 2 * BANK, p->n, BM_GD_32BIT};
    bm_atomic_gather_data(&gather); /* FAULT init.unwritten */
    okk_gdma_32bit_cpy_S2S(p->out, l2 + 2 * BANK, &(dim4){1, 1, 1, p->n}, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(index_missing)

/* Sorts with indices that the caller gives; they were never made. */
void sort_of_no_indices(const void *args) {
    const args_t *p = args;
    SortParam sort = {.input_data_addr = p->in, .input_index_addr = p->scratch, .output_data_addr = p->out,
                      .output_index_addr = p->out2, .input_len = p->n, .output_len = p->n, .order = BM_DESCEND,
                      .index_enable = true, .index_auto = false};
    okk_initialize();
    bm_atomic_sort(&sort); /* FAULT init.unwritten */
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(sort_of_no_indices)

/* The controller makes a table of w - 1 numbers, and w are loaded. */
void table_one_short(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, 1, p->w}, all = {0, 0, 0, 1};
    float *table = (float *)okk_global_mem_addr(p->scratch);
    for (int i = 0; i < p->w - 1; i++) table[i] = (float)i;
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_S2L(BANK, p->scratch, &shape, NULL, &all); /* FAULT init.unwritten */
    okk_bdc_mul(0, 0, BANK, &shape, NULL, NULL, NULL); /* FAULT init.unwritten */
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(table_one_short)

/* Launched a second time with k = 1: the scale is expected in local memory, where the first launch left it. */
void left_by_the_launch_before(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w}, vector = {1, p->c, 1, 1};
    okk_initialize();
    if (p->k == 0) okk_gdma_32bit_cpy_S2L(2 * BANK, p->in2, &vector, NULL, NULL);
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_scale(0, 0, 2 * BANK, &shape, NULL, NULL); /* FAULT init.unwritten */
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(left_by_the_launch_before)

/* A border of zeros around the image: left and right are cleared, top and bottom forgotten. */
void border_half_cleared(const void *args) {
    const args_t *p = args;
    const dim4 inner = {1, p->c, p->h, p->w}, framed = {1, p->c, p->h + 2, p->w + 2}, side = {1, p->c, p->h, 1};
    dim4 stride;
    okk_128_byte_aligned_stride_for_32bit(&stride, 0, &framed);
    const local_addr_t corner = (p->w + 2 + 1) * FLOAT;
    okk_initialize();
    okk_bdc_32bit_set_C(corner - FLOAT, (x32){.fp32 = 0}, &side, &stride);
    okk_bdc_32bit_set_C(corner + p->w * FLOAT, (x32){.fp32 = 0}, &side, &stride);
    okk_gdma_32bit_cpy_S2L(corner, p->in, &inner, &stride, NULL);
    okk_bdc_avg_pool2d(2 * BANK, 0, &framed, 3, 3, NULL, NULL); /* FAULT init.unwritten */
    okk_gdma_32bit_cpy_L2S(p->out, 2 * BANK, &inner, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(border_half_cleared)

/* fp32 to int8 in 4N: the working buffer of the conversion is taken for the result. */
void result_in_another_place(const void *args) {
    const args_t *p = args;
    const dim4 shape = {p->n, p->c, p->h, p->w}, words = {DIV_UP(p->n, 4), p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_fp32_to_4N_int8(2 * BANK, 0, 4 * BANK, &shape, true);
    okk_gdma_32bit_cpy_L2S(p->out, 3 * BANK, &words, NULL, NULL); /* FAULT init.unwritten */
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(result_in_another_place)

/* Copies a column to all lanes with npu_bcast, from a channel that is not the one loaded. */
void broadcast_of_an_empty_lane(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, 1, p->w}, row = {1, 1, 1, p->w};
    const local_addr_t lane1 = okk_local_mem_size_per_npu();
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(lane1, p->in, &row, NULL, NULL);
    okk_bdc_npu_bcast(BANK, 0, &shape, NULL); /* FAULT init.unwritten */
    okk_gdma_32bit_cpy_L2S(p->out, BANK, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(broadcast_of_an_empty_lane)

/* Helpers: the mistake is in what one of them is given, its line is in the helper. */
static void load_row(local_addr_t to, unsigned long long from, int w) {
    okk_gdma_32bit_cpy_S2L(to, from, &(dim4){1, 1, 1, w}, NULL, NULL);
}

static void add_rows(local_addr_t to, local_addr_t a, local_addr_t b, int w) {
    okk_bdc_add(to, a, b, &(dim4){1, 1, 1, w}, NULL, NULL, NULL); /* FAULT init.unwritten */
}

/* Three rows are added, two of them are loaded. */
void third_row_missing(const void *args) {
    const args_t *p = args;
    okk_initialize();
    for (int row = 0; row < 2; row++) load_row(row * BANK, p->in + row * p->w * FLOAT, p->w);
    add_rows(4 * BANK, 0, BANK, p->w);
    add_rows(4 * BANK, 4 * BANK, 2 * BANK, p->w); /* FAULT init.unwritten */
    okk_gdma_32bit_cpy_L2S(p->out, 4 * BANK, &(dim4){1, 1, 1, p->w}, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(third_row_missing)

/* A dilated convolution: the last of the rows that its taps meet is not loaded. */
void last_tap_not_loaded(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, 5, p->w}, loaded = {1, p->c, 2, p->w}, result = {1, p->oc, 1, p->w - 2};
    const dim4 weights = {DIV_UP(p->c, 2), p->oc, 9, 2}, pairs = {9, 9, 3, 1}, image = {0, 5 * p->w, 2 * p->w, 1};
    const dim2 dilation = {2, 1};
    dim4 local, compact;
    okk_128_byte_aligned_stride_for_32bit(&local, 0, &shape);
    local.h = 2 * p->w;
    okk_compact_stride(&compact, 0, &weights);
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &loaded, &local, &image);
    okk_gdma_32bit_cpy_S2L(2 * BANK, p->in2, &weights, &compact, NULL);
    okk_bdc_conv2d(4 * BANK, 0, 2 * BANK, 0, &shape, p->oc, 3, 3, NULL, &pairs, false, false, NULL, NULL, &dilation); /* FAULT init.unwritten */
    okk_gdma_32bit_cpy_L2S(p->out, 4 * BANK, &result, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(last_tap_not_loaded)

/* An index that is one too large: the gather takes what is behind the table. */
void index_behind_the_table(const void *args) {
    const args_t *p = args;
    const unsigned l2 = okk_l2_sram_start_addr();
    GatherDataParam gather = {l2, l2 + BANK, l2 + 2 * BANK, p->n, BM_GD_32BIT};
    okk_initialize();
    okk_gdma_32bit_cpy_S2S(l2, p->in, &(dim4){1, 1, 1, p->w}, NULL, NULL);
    okk_gdma_32bit_cpy_S2S(l2 + BANK, p->in2, &(dim4){1, 1, 1, p->n}, NULL, NULL);
    bm_atomic_gather_data(&gather); /* FAULT init.unwritten */
    okk_gdma_32bit_cpy_S2S(p->out, l2 + 2 * BANK, &(dim4){1, 1, 1, p->n}, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(index_behind_the_table)

/* The right matrix lacks the rows of the last slice. */
void rows_of_the_right_missing(const void *args) {
    const args_t *p = args;
    const int per_channel = 8;
    okk_initialize();
    okk_gdma_32bit_matrix_S2L(0, p->in, p->n, p->k, per_channel, p->k);
    okk_gdma_32bit_matrix_S2L(2 * BANK, p->in2, p->k - 1, p->w, per_channel, p->w);
    okk_bdc_matmul(4 * BANK, 0, 2 * BANK, 0, p->n, p->k, p->w, per_channel, per_channel, false, false); /* FAULT init.unwritten */
    okk_gdma_32bit_matrix_L2S(p->out, 4 * BANK, p->n, p->w, per_channel, p->w);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(rows_of_the_right_missing)

/* Scratch in DDR is copied to the result, and nobody filled it. */
void scratch_copied_unfilled(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2S(p->out, p->scratch, &shape, NULL, NULL); /* FAULT init.unwritten */
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(scratch_copied_unfilled)

/* The mask of the filter is computed in one place and looked for in another. */
void mask_elsewhere(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    MaskMemCpy4DPram keep = {.mask_local_mem_addr = 2 * BANK, .dst_global_mem_addr = p->out, .shape = {1, p->c, p->h, p->w}};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_greater_C_select_value(BANK, 0, 0.f, (x32){.u32 = 1}, &shape, NULL, NULL);
    bm_atomic_mask_memcpy_4D(&keep); /* FAULT init.unwritten */
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(mask_elsewhere)

/* fp32 to fp16 by the store, of a tile that lies elsewhere. */
void converts_nothing(const void *args) {
    const args_t *p = args;
    const unsigned c = p->c, h = p->h, w = p->w, aligned = ALIGN(h * w, 32);
    MemCpy4DParam store = {.src_addr = 2 * BANK, .src_shape = {1, c, h, w}, .src_stride = {aligned, aligned, w, 1},
                           .src_format = BM_GDMA_FORMAT_FLOAT32, .dst_addr = p->out, .dst_shape = {1, c, h, w},
                           .dst_stride = {c * h * w, h * w, w, 1}, .dst_format = BM_GDMA_FORMAT_FLOAT16,
                           .direction = BM_GDMA_DIR_L2S};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &(dim4){1, p->c, p->h, p->w}, NULL, NULL);
    bm_atomic_memcpy_4D(&store); /* FAULT init.unwritten */
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(converts_nothing)

/* Columns and channels are exchanged over one column more than is there. */
void turned_one_column_too_many(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, 1, p->w - 1}, turned = {1, p->w, 1, p->c}, in = {0, p->w, p->w, 1};
    CWTransParam turn = {.src_addr = 0, .dst_addr = BANK, .src_c = p->c, .src_w = p->w,
                         .format = BM_GDMA_FORMAT_FLOAT32, .src_c_stride = ALIGN(p->w, 32), .dst_c_stride = ALIGN(p->c, 32)};
    dim4 local = {ALIGN(p->w, 32), ALIGN(p->w, 32), p->w, 1};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, &local, &in);
    bm_atomic_cwtrans(&turn); /* FAULT init.unwritten */
    okk_gdma_32bit_cpy_L2S(p->out, BANK, &turned, NULL, NULL); /* FAULT init.unwritten */
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(turned_one_column_too_many)
