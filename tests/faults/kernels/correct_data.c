/* Right, and near to what is wrong: lengths that depend on data, L2, scratch in DDR, packed numbers. */
#include "faults.h"

/* Keeps the numbers above 0: as many as there are. out has room for all; out2 gets how many. */
void filter_and_count(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    MaskMemCpy4DPram keep = {.mask_local_mem_addr = BANK, .dst_global_mem_addr = p->scratch,
                             .shape = {1, p->c, p->h, p->w}};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_greater_C_select_value(BANK, 0, 0.f, (x32){.u32 = 1}, &shape, NULL, NULL);
    bm_atomic_mask_memcpy_4D(&keep);
    const int count = (int)bm_get_mask_memcpy_res_num();
    okk_gdma_32bit_set_C_system(p->out, (x32){.fp32 = -1}, &(dim4){1, 1, 1, p->c * p->h * p->w}, NULL);
    if (count) okk_gdma_32bit_cpy_S2S(p->out, p->scratch, &(dim4){1, 1, 1, count}, NULL, NULL);
    okk_poll();
    *(int *)okk_global_mem_addr(p->out2) = count;
}
OKKERNEL_FUNC_REGISTER(filter_and_count)

/* The same straight into out, whose rest keeps what it held: an output that is read and written. */
void filter_over_the_old(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    MaskMemCpy4DPram keep = {.mask_local_mem_addr = BANK, .dst_global_mem_addr = p->out, .shape = {1, p->c, p->h, p->w}};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_greater_C_select_value(BANK, 0, 1.f, (x32){.u32 = 1}, &shape, NULL, NULL);
    bm_atomic_mask_memcpy_4D(&keep);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(filter_over_the_old)

/* Gathers by indices that the controller found. */
void gather_by_made_indices(const void *args) {
    const args_t *p = args;
    const unsigned l2 = okk_l2_sram_start_addr();
    int *indices = (int *)okk_global_mem_addr(p->scratch);
    for (int i = 0; i < p->n; i++) indices[i] = (i * 7) % p->w;
    GatherDataParam gather = {l2, l2 + BANK, l2 + 2 * BANK, p->n, BM_GD_32BIT};
    okk_initialize();
    okk_gdma_32bit_cpy_S2S(l2, p->in, &(dim4){1, 1, 1, p->w}, NULL, NULL);
    okk_gdma_32bit_cpy_S2S(l2 + BANK, p->scratch, &(dim4){1, 1, 1, p->n}, NULL, NULL);
    bm_atomic_gather_data(&gather);
    okk_gdma_32bit_cpy_S2S(p->out, l2 + 2 * BANK, &(dim4){1, 1, 1, p->n}, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(gather_by_made_indices)

/* Gathers from a table of which only the part that the indices name was filled. */
void gather_from_a_part(const void *args) {
    const args_t *p = args;
    const unsigned l2 = okk_l2_sram_start_addr();
    GatherDataParam gather = {l2, l2 + BANK, l2 + 2 * BANK, p->n, BM_GD_32BIT};
    okk_initialize();
    okk_gdma_32bit_cpy_S2S(l2 + 4 * 5, p->in, &(dim4){1, 1, 1, p->w}, NULL, NULL); /* elements 5 to w + 4 */
    okk_gdma_32bit_cpy_S2S(l2 + BANK, p->in2, &(dim4){1, 1, 1, p->n}, NULL, NULL);
    bm_atomic_gather_data(&gather);
    okk_gdma_32bit_cpy_S2S(p->out, l2 + 2 * BANK, &(dim4){1, 1, 1, p->n}, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(gather_from_a_part)

/* The k largest and their places. */
void largest_and_places(const void *args) {
    const args_t *p = args;
    SortParam sort = {.input_data_addr = p->in, .output_data_addr = p->out, .output_index_addr = p->out2,
                      .input_len = p->n, .output_len = p->k, .order = BM_DESCEND, .index_enable = true,
                      .index_auto = true};
    okk_initialize();
    bm_atomic_sort(&sort);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(largest_and_places)

/* L2 as scratch between two kernels' halves: stored, loaded in another order. */
void scratch_in_l2(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w}, other = {1, p->h, p->c, p->w}, swapped = {0, p->w, p->h * p->w, 1};
    const unsigned long long l2 = okk_l2_sram_start_addr();
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_add_C(0, 0, 1.f, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(l2, 0, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_S2L(BANK, l2, &other, NULL, &swapped);
    okk_gdma_32bit_cpy_L2S(p->out, BANK, &other, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(scratch_in_l2)

/* To the last byte of the L2 that kernels have. */
void end_of_l2(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    const unsigned long long l2 = okk_l2_sram_start_addr() + okk_l2_sram_size() - p->c * p->h * p->w * FLOAT;
    okk_initialize();
    okk_gdma_32bit_cpy_S2S(l2, p->in, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_S2S(p->out, l2, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(end_of_l2)

/* A table of one's own in the place for tables. */
void own_table(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, 1, p->w};
    const unsigned table = okk_lookup_table_start_addr();
    TableLookupParam lookup = {.table_addr = table, .index_addr = 0, .output_addr = BANK, .shape = {1, p->c, 1, p->w},
                               .table_len = p->k, .index_prec = 1};
    okk_initialize();
    okk_gdma_32bit_cpy_S2S(0x10000000ull + table, p->in2, &(dim4){1, 1, 1, p->k}, NULL, NULL);
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    bm_atomic_table_lookup(&lookup);
    okk_gdma_32bit_cpy_L2S(p->out, BANK, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(own_table)

/* The chip's own table of powers. */
void table_of_powers(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, 1, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_fp32_to_int32(BANK, 0, &shape);
    okk_bdc_lookup_exp(2 * BANK, BANK, &shape);
    okk_gdma_32bit_cpy_L2S(p->out, 2 * BANK, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(table_of_powers)

/* Whole padded rows go to scratch and come back; the padding was never written, and nobody looks at it. */
void padded_rows_through_scratch(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, 1, p->w}, padded = {1, p->c, 1, ALIGN(p->w, 32)};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->scratch, 0, &padded, NULL, NULL);
    okk_gdma_32bit_cpy_S2L(BANK, p->scratch, &padded, NULL, NULL);
    okk_bdc_add_C(BANK, BANK, 1.f, &padded, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, BANK, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(padded_rows_through_scratch)

/* Rows at steps of 32 in scratch, read with the same steps. */
void scratch_with_gaps(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w}, padded = {0, p->h * 32, 32, 1};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->scratch, 0, &shape, &padded, NULL);
    okk_gdma_32bit_cpy_S2L(BANK, p->scratch, &shape, NULL, &padded);
    okk_bdc_avg_pool2d_v2(2 * BANK, BANK, &shape, p->h, p->w, NULL, NULL, 1.f);
    okk_gdma_32bit_cpy_L2S(p->out, 2 * BANK, &(dim4){1, p->c, 1, 1}, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(scratch_with_gaps)

/* 4N: three batches in words of four; the fourth byte is computed too, and only three are stored. */
void packed_words_three_of_four(const void *args) {
    const args_t *p = args;
    const int plane = p->h * p->w;
    const dim4 one = {1, p->c, plane, 1}, whole = {4, p->c, p->h, p->w};
    const dim4 byte = {0, ALIGN(plane, 32) * 4, 4, 1}, image = {0, plane, 1, 1};
    okk_initialize();
    for (int n = 0; n < p->n; n++) okk_gdma_8bit_cpy_S2L(n, p->in + n * p->c * plane, &one, &byte, &image);
    okk_bdc_fixed_point_packed_add_C(BANK, 0, 1, &whole, NULL, NULL, S8_OP_S8_TO_S8, 0);
    for (int n = 0; n < p->n; n++) okk_gdma_8bit_cpy_L2S(p->out + n * p->c * plane, BANK + n, &one, &image, &byte);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(packed_words_three_of_four)

/* fp32 to 4N and back; five batches take two words, the second of which has one. */
void packed_tail_there_and_back(const void *args) {
    const args_t *p = args;
    const dim4 shape = {p->n, p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_fp32_to_4N_int8(BANK, 0, 2 * BANK, &shape, true);
    okk_bdc_4N_int8_to_fp32(3 * BANK, BANK, 4 * BANK, &shape, true, true);
    okk_gdma_32bit_cpy_L2S(p->out, 3 * BANK, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(packed_tail_there_and_back)

/* 1N bytes: four pixels to a word, rows of 7. */
void bytes_to_floats(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_8bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_int8_to_fp32(2 * BANK, 0, 4 * BANK, &shape, true, true);
    okk_gdma_32bit_cpy_L2S(p->out, 2 * BANK, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(bytes_to_floats)

/* fp16 in DDR, fp32 in local memory, converted by the copies. */
void halves_by_the_copy(const void *args) {
    const args_t *p = args;
    const unsigned c = p->c, h = p->h, w = p->w, aligned = ALIGN(h * w, 32);
    MemCpy4DParam load = {.src_addr = p->in, .src_shape = {1, c, h, w}, .src_stride = {c * h * w, h * w, w, 1},
                          .src_format = BM_GDMA_FORMAT_FLOAT16, .dst_addr = 0, .dst_shape = {1, c, h, w},
                          .dst_stride = {aligned, aligned, w, 1}, .dst_format = BM_GDMA_FORMAT_FLOAT32,
                          .direction = BM_GDMA_DIR_S2L};
    MemCpy4DParam store = {.src_addr = 0, .src_shape = {1, c, h, w}, .src_stride = {aligned, aligned, w, 1},
                           .src_format = BM_GDMA_FORMAT_FLOAT32, .dst_addr = p->out, .dst_shape = {1, c, h, w},
                           .dst_stride = {c * h * w, h * w, w, 1}, .dst_format = BM_GDMA_FORMAT_FLOAT16,
                           .direction = BM_GDMA_DIR_L2S};
    okk_initialize();
    bm_atomic_memcpy_4D(&load);
    okk_bdc_mul_C(0, 0, 2.f, &(dim4){1, p->c, p->h, p->w}, NULL, NULL);
    bm_atomic_memcpy_4D(&store);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(halves_by_the_copy)

/* Columns and channels exchanged within local memory. */
void columns_for_channels(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, 1, p->w}, turned = {1, p->w, 1, p->c};
    CWTransParam turn = {.src_addr = 0, .dst_addr = BANK, .src_c = p->c, .src_w = p->w,
                         .format = BM_GDMA_FORMAT_FLOAT32, .src_c_stride = ALIGN(p->w, 32), .dst_c_stride = ALIGN(p->c, 32)};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    bm_atomic_cwtrans(&turn);
    okk_gdma_32bit_cpy_L2S(p->out, BANK, &turned, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(columns_for_channels)

/* Copies within DDR that overlap as memmove does. */
void moved_within_a_buffer(const void *args) {
    const args_t *p = args;
    MemCpy1DParam move = {.src_addr = p->out, .dst_addr = p->out + 3 * FLOAT, .length = p->n - 3,
                          .format = BM_GDMA_FORMAT_FLOAT32, .direction = BM_GDMA_DIR_S2S};
    bm_initialize();
    bm_atomic_memcpy_1D(&move);
    bm_poll();
}
OKKERNEL_FUNC_REGISTER(moved_within_a_buffer)

/* Only the bytes that are there: an odd number of 8-bit elements. */
void odd_number_of_bytes(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, 1, 1, p->n};
    okk_initialize();
    okk_gdma_8bit_cpy_S2S(p->out, p->in, &shape, NULL, NULL);
    okk_gdma_8bit_set_C_system(p->out + p->n, (x8){.u8 = 7}, &(dim4){1, 1, 1, 1}, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(odd_number_of_bytes)

/* Scratch is cleared, added to in turns, and stored as the result. */
void sums_in_scratch(const void *args) {
    const args_t *p = args;
    const dim4 one = {1, p->c, p->h, p->w};
    const unsigned long long bytes = (unsigned long long)p->c * p->h * p->w * FLOAT;
    okk_initialize();
    okk_gdma_32bit_set_C_system(p->scratch, (x32){.fp32 = 0}, &one, NULL);
    for (int n = 0; n < p->n; n++) {
        okk_gdma_32bit_cpy_S2L(0, p->in + n * bytes, &one, NULL, NULL);
        okk_gdma_32bit_cpy_S2L(BANK, p->scratch, &one, NULL, NULL);
        okk_bdc_add(0, 0, BANK, &one, NULL, NULL, NULL);
        okk_gdma_32bit_cpy_L2S(p->scratch, 0, &one, NULL, NULL);
    }
    okk_gdma_32bit_cpy_S2S(p->out, p->scratch, &one, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(sums_in_scratch)

/* The controller writes half of the result, the engines the other half. */
void result_of_both(const void *args) {
    const args_t *p = args;
    const int half = p->w / 2;
    float *out = (float *)okk_global_mem_addr(p->out);
    okk_initialize();
    okk_gdma_32bit_cpy_S2S(p->out, p->in, &(dim4){1, 1, 1, half}, NULL, NULL);
    for (int i = half; i < p->w; i++) out[i] = (float)i;
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(result_of_both)

/* Infinities that come from outside are nobody's mistake. */
void infinities_given(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_sub(0, 0, 0, &shape, NULL, NULL, NULL);
    okk_bdc_add_C(0, 0, 1.f, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(infinities_given)

/* One batch for all, by a stride of 0 between batches in DDR. */
void batch_repeated(const void *args) {
    const args_t *p = args;
    const dim4 shape = {p->n, p->c, p->h, p->w}, same = {0, p->h * p->w, p->w, 1};
    okk_initialize();
    okk_gdma_32bit_cpy_S2S(p->out, p->in, &shape, NULL, &same);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(batch_repeated)

/* 16-bit numbers, three batches in words of two. */
void packed_pairs_with_a_rest(const void *args) {
    const args_t *p = args;
    const int plane = p->h * p->w;
    const dim4 one = {1, p->c, plane, 1}, whole = {p->n, p->c, p->h, p->w}, image = {0, plane, 1, 1};
    const int words = ALIGN(plane, 32);
    const dim4 half = {0, words * 2, 2, 1};
    okk_initialize();
    for (int n = 0; n < p->n; n++) {
        okk_gdma_16bit_cpy_S2L(n / 2 * words * 4 + n % 2 * 2, p->in + n * p->c * plane * 2, &one, &half, &image);
    }
    okk_bdc_fixed_point_packed_add_C(BANK, 0, 1, &whole, NULL, NULL, S16_OP_S16_TO_S16, 0);
    for (int n = 0; n < p->n; n++) {
        okk_gdma_16bit_cpy_L2S(p->out + n * p->c * plane * 2, BANK + n / 2 * words * 4 + n % 2 * 2, &one, &image, &half);
    }
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(packed_pairs_with_a_rest)

/* A copy that one command cannot hold. */
void more_than_one_command(const void *args) {
    const args_t *p = args;
    okk_initialize();
    okk_gdma_32bit_cpy_S2S(p->out, p->in, &(dim4){1, 1, 1, p->n}, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(more_than_one_command)

/* Filled, then partly overwritten. */
void filled_then_overwritten(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w}, some = {1, p->c, p->h / 2, p->w}, image = {0, p->h * p->w, p->w, 1};
    dim4 local;
    okk_128_byte_aligned_stride_for_32bit(&local, 0, &shape);
    okk_initialize();
    okk_gdma_32bit_set_C_local(0, (x32){.fp32 = 4}, &shape, NULL);
    okk_gdma_32bit_cpy_S2L(0, p->in, &some, &local, &image);
    okk_bdc_add_C(0, 0, 1.f, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(filled_then_overwritten)

/* A table of which only the part that the indices name was filled. */
void table_filled_in_part(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, 1, p->w};
    const unsigned long long l2 = okk_l2_sram_start_addr();
    TableLookupParam lookup = {.table_addr = (unsigned)(l2 - 0x10000000), .index_addr = 0, .output_addr = BANK,
                               .shape = {1, p->c, 1, p->w}, .table_len = 256, .index_prec = 1};
    okk_initialize();
    okk_gdma_32bit_cpy_S2S(l2, p->in2, &(dim4){1, 1, 1, p->k}, NULL, NULL); /* indices are below k */
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    bm_atomic_table_lookup(&lookup);
    okk_gdma_32bit_cpy_L2S(p->out, BANK, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(table_filled_in_part)

/* Nothing is kept: the filter writes nothing, and the host looks at the count alone. */
void nothing_kept(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    MaskMemCpy4DPram keep = {.mask_local_mem_addr = BANK, .dst_global_mem_addr = p->scratch,
                             .shape = {1, p->c, p->h, p->w}};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_greater_C_select_value(BANK, 0, 100.f, (x32){.u32 = 1}, &shape, NULL, NULL);
    bm_atomic_mask_memcpy_4D(&keep);
    const int count = (int)bm_get_mask_memcpy_res_num();
    okk_poll();
    *(int *)okk_global_mem_addr(p->out) = count;
}
OKKERNEL_FUNC_REGISTER(nothing_kept)

/* A matrix turned by its load. */
void turned_by_the_load(const void *args) {
    const args_t *p = args;
    MemCpy2DParam load = {.global_mem_addr = p->in, .row = p->h, .col = p->w, .row_stride = p->w, .sec_size = p->h,
                          .format = BM_GDMA_FORMAT_FLOAT32, .direction = BM_GDMA_DIR_S2L, .transpose = true};
    okk_initialize();
    bm_atomic_memcpy_2D(&load);
    okk_gdma_32bit_matrix_L2S(p->out, 0, p->w, p->h, p->h, p->h);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(turned_by_the_load)

/* Bytes by GDMA, words by the other engine: rows of 8 bytes are two words. */
void bytes_then_words(const void *args) {
    const args_t *p = args;
    const dim4 bytes = {1, p->c, p->h, 8}, words = {1, p->c, p->h, 2};
    const dim4 local8 = {0, ALIGN(p->h * 2, 32) * 4, 8, 1};
    okk_initialize();
    okk_gdma_8bit_cpy_S2L(0, p->in, &bytes, &local8, NULL);
    okk_bdc_32bit_xor_C(0, 0, (x32){.u32 = 0x80808080u}, &words, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &words, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(bytes_then_words)

/* Sums that end exactly at the limits of 8 bits, and none beyond. */
void sums_at_the_limit(const void *args) {
    const args_t *p = args;
    const dim4 shape = {4, p->c, p->h, p->w}, words = {1, p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &words, NULL, NULL);
    okk_bdc_fixed_point_packed_add(BANK, 0, 0, &shape, NULL, NULL, NULL, S8_OP_S8_TO_S8, 1);
    okk_gdma_32bit_cpy_L2S(p->out, BANK, &words, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(sums_at_the_limit)
