/* Accesses that leave what they are for. The line of the mistake says FAULT and the rule, or rules that are
 * equally right. */
#include <string.h>

#include "faults.h"

/* Copies n rows, and one more: the loop bound of a filter that needs the row below. */
void row_too_many(const void *args) {
    const args_t *p = args;
    const dim4 rows = {1, 1, p->h + 1, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &rows, NULL, NULL); /* FAULT memory.beyond */
    okk_bdc_mul_C(0, 0, 2.f, &rows, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &rows, NULL, NULL); /* FAULT memory.beyond */
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(row_too_many)

/* The result is stored as if channels in DDR were padded as they are in local memory. */
void padded_stride_in_ddr(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    dim4 stride;
    okk_128_byte_aligned_stride_for_32bit(&stride, 0, &shape);
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_relu(0, 0, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, &stride, NULL); /* FAULT memory.beyond|memory.not_written */
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(padded_stride_in_ddr)

/* The step from batch to batch is multiplied by the size of an element twice. */
void bytes_of_bytes(const void *args) {
    const args_t *p = args;
    const dim4 one = {1, p->c, p->h, p->w};
    const unsigned long long bytes = (unsigned long long)p->c * p->h * p->w * sizeof(float);
    okk_initialize();
    for (int n = 0; n < p->n; n++) {
        okk_gdma_32bit_cpy_S2L(0, p->in + n * bytes, &one, NULL, NULL);
        okk_bdc_add_C(0, 0, 1.f, &one, NULL, NULL);
        okk_gdma_32bit_cpy_L2S(p->out + n * bytes * sizeof(float), 0, &one, NULL, NULL); /* FAULT memory.outside|memory.beyond|memory.not_written */
    }
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(bytes_of_bytes)

/* in holds 16-bit numbers and is loaded as 32-bit ones. */
void halves_as_words(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL); /* FAULT memory.beyond */
    okk_bdc_32bit_and_C(0, 0, (x32){.u32 = 0xffff}, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(halves_as_words)

/* Tiles of 64 rows, the last one as large as the others. */
void last_tile_unclipped(const void *args) {
    const args_t *p = args;
    const dim4 tile = {1, NPUS, 1, p->w};
    okk_initialize();
    for (int row = 0; row < p->n; row += NPUS) {
        const unsigned long long at = (unsigned long long)row * p->w * FLOAT;
        okk_gdma_32bit_cpy_S2L(0, p->in + at, &tile, NULL, NULL); /* FAULT memory.beyond */
        okk_bdc_neg(0, 0, &tile, NULL, NULL);
        okk_gdma_32bit_cpy_L2S(p->out + at, 0, &tile, NULL, NULL); /* FAULT memory.beyond */
    }
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(last_tile_unclipped)

/* Sums of a row and the one above, which the first row does not have. */
void row_above_the_first(const void *args) {
    const args_t *p = args;
    const dim4 tile = {1, 1, 1, p->w};
    okk_initialize();
    for (int h = 0; h < p->h; h++) {
        const long long row = (long long)p->w * FLOAT;
        okk_gdma_32bit_cpy_S2L(0, p->in + h * row, &tile, NULL, NULL);
        okk_gdma_32bit_cpy_S2L(BANK, p->in + (h - 1) * row, &tile, NULL, NULL); /* FAULT memory.outside|memory.beyond */
        okk_bdc_add(0, 0, BANK, &tile, NULL, NULL, NULL);
        okk_gdma_32bit_cpy_L2S(p->out + h * row, 0, &tile, NULL, NULL);
    }
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(row_above_the_first)

/* Right, but the host freed in2 before the launch. */
void freed_weights(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w}, vector = {1, p->c, 1, 1};
    dim4 compact;
    okk_compact_stride(&compact, 0, &vector);
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(BANK, p->in2, &vector, &compact, NULL); /* FAULT memory.freed|memory.outside */
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_scale(0, 0, BANK, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(freed_weights)

/* The same of the result: the host gave it back too early. */
void freed_result(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_add_C(0, 0, 1.f, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out2, 0, &shape, NULL, NULL); /* FAULT memory.freed|memory.outside */
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(freed_result)

/* Eight-bit results stored as words. */
void bytes_as_words(const void *args) {
    const args_t *p = args;
    const dim4 shape = {DIV_UP(p->n, 4), p->c, p->h, p->w};
    const dim4 whole = {p->n, p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_fixed_point_packed_add_C(0, 0, 1, &whole, NULL, NULL, S8_OP_S8_TO_S8, 0);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &(dim4){p->n, p->c, p->h, p->w}, NULL, NULL); /* FAULT memory.beyond|init.unwritten */
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(bytes_as_words)

/* L2 as scratch, too near its end. */
void over_the_end_of_l2(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    const unsigned long long l2 = okk_l2_sram_start_addr() + okk_l2_sram_size() - 4096;
    okk_initialize();
    okk_gdma_32bit_cpy_S2S(l2, p->in, &shape, NULL, NULL); /* FAULT memory.beyond|memory.outside */
    okk_gdma_32bit_cpy_S2L(0, l2, &shape, NULL, NULL); /* FAULT memory.beyond|memory.outside */
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(over_the_end_of_l2)

/* L2 as scratch, from where the chip's tables are: the next exp is wrong. */
void over_the_tables_of_l2(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    const unsigned long long l2 = 0x10300000;
    okk_initialize();
    okk_gdma_32bit_cpy_S2S(l2, p->in, &shape, NULL, NULL); /* FAULT memory.outside|memory.beyond|memory.foreign|memory.read_only */
    okk_gdma_32bit_cpy_S2S(p->out, l2, &shape, NULL, NULL); /* FAULT memory.outside|memory.beyond|memory.foreign */
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(over_the_tables_of_l2)

/* The controller sums n + 1 numbers. */
void pointer_beyond(const void *args) {
    const args_t *p = args;
    const float *in = (const float *)okk_global_mem_addr(p->in);
    float *out = (float *)okk_global_mem_addr(p->out);
    float sum = 0;
    okk_initialize();
    for (int i = 0; i <= p->n; i++) {
        sum += in[i]; /* FAULT memory.beyond */
    }
    out[0] = sum;
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(pointer_beyond)

/* The controller writes a table of squares, one more than there is room for. */
void pointer_writes_beyond(const void *args) {
    const args_t *p = args;
    float *out = (float *)okk_global_mem_addr(p->out);
    okk_initialize();
    for (int i = 0; i <= p->n; i++) {
        out[i] = (float)(i * i); /* FAULT memory.beyond */
    }
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(pointer_writes_beyond)

/* The controller reads parameters that the host has freed. */
void pointer_to_freed(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    const float *factor = (const float *)okk_global_mem_addr(p->in2);
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_mul_C(0, 0, factor[0], &shape, NULL, NULL); /* FAULT memory.freed|memory.outside */
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(pointer_to_freed)

/* The rows of the product are stored as far apart as those of the left matrix. */
void row_stride_of_the_other(const void *args) {
    const args_t *p = args;
    const int per_channel = 16;
    okk_initialize();
    okk_gdma_32bit_matrix_S2L(0, p->in, p->n, p->k, per_channel, p->k);
    okk_gdma_32bit_matrix_S2L(2 * BANK, p->in2, p->k, p->w, per_channel, p->w);
    okk_bdc_matmul(4 * BANK, 0, 2 * BANK, 0, p->n, p->k, p->w, per_channel, per_channel, false, false);
    okk_gdma_32bit_matrix_L2S(p->out, 4 * BANK, p->n, p->w, per_channel, p->k); /* FAULT memory.beyond|memory.not_written */
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(row_stride_of_the_other)

/* A 2x2 pool whose result is stored with the extents of its input. */
void extents_of_the_input(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    const dim2 stride = {2, 2};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_max_pool2d(2 * BANK, 0, &shape, 2, 2, NULL, &stride);
    okk_gdma_32bit_cpy_L2S(p->out, 2 * BANK, &shape, NULL, NULL); /* FAULT memory.beyond|init.unwritten */
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(extents_of_the_input)

/* A bias of one number per channel, loaded as if it were a feature map. */
void bias_as_a_map(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_S2L(2 * BANK, p->in2, &shape, NULL, NULL); /* FAULT memory.beyond */
    okk_bdc_bias(0, 0, 2 * BANK, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(bias_as_a_map)

/* The host gave weights for an odd number of input channels without the zero that makes pairs. */
void pairs_of_odd_channels(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w}, weights = {DIV_UP(p->c, 2), p->oc, 1, 2}, result = {1, p->oc, p->h, p->w};
    dim4 compact, pairs = {p->oc > NPUS ? 2 : 1, 1, 1, 1};
    okk_compact_stride(&compact, 0, &weights);
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_S2L(2 * BANK, p->in2, &weights, &compact, NULL); /* FAULT memory.beyond */
    okk_bdc_conv2d(4 * BANK, 0, 2 * BANK, 0, &shape, p->oc, 1, 1, NULL, &pairs, false, false, NULL, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 4 * BANK, &result, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(pairs_of_odd_channels)

/* Counts bytes where the copy counts elements. */
void length_in_bytes(const void *args) {
    const args_t *p = args;
    const int length = p->n * (int)sizeof(float);
    okk_initialize();
    okk_gdma_32bit_cpy_S2S(p->out, p->in, &(dim4){1, 1, 1, length}, NULL, NULL); /* FAULT memory.beyond */
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(length_in_bytes)

/* The same with bm_atomic's copy. */
void atomic_length_in_bytes(const void *args) {
    const args_t *p = args;
    bm_initialize();
    MemCpy1DParam copy = {.dst_addr = p->out, .src_addr = p->in, .length = p->n * sizeof(float), .direction = BM_GDMA_DIR_S2S};
    bm_atomic_memcpy_1D(&copy); /* FAULT memory.beyond */
    bm_poll();
}
OKKERNEL_FUNC_REGISTER(atomic_length_in_bytes)

/* Clears the result for atomic adds, with its bytes for its elements. */
void clears_too_much(const void *args) {
    const args_t *p = args;
    const dim4 bytes = {1, p->c, p->h, p->w * FLOAT}, shape = {1, p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_set_C_system(p->out, (x32){.u32 = 0}, &bytes, NULL); /* FAULT memory.beyond */
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(clears_too_much)

/* The whole and its row sums: stored into each other's place. */
void results_swapped(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, 1, p->w}, sums = {1, p->c, 1, 1};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_avg_pool2d(BANK, 0, &shape, 1, p->w, NULL, NULL);
    okk_bdc_add_C(0, 0, 1.f, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, BANK, &sums, NULL, NULL); /* FAULT memory.not_written */
    okk_gdma_32bit_cpy_L2S(p->out2, 0, &shape, NULL, NULL); /* FAULT memory.beyond */
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(results_swapped)

/* in2 is one row for all; it is loaded like in. */
void broadcast_row_loaded_whole(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_S2L(BANK, p->in2, &shape, NULL, NULL); /* FAULT memory.beyond */
    okk_bdc_mul(0, 0, BANK, &shape, NULL, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(broadcast_row_loaded_whole)

/* A pipeline that loads one batch ahead, also behind the last one. */
void prefetch_behind_the_last(const void *args) {
    const args_t *p = args;
    const dim4 one = {1, p->c, p->h, p->w};
    const unsigned long long bytes = (unsigned long long)p->c * p->h * p->w * FLOAT;
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &one, NULL, NULL);
    for (int n = 0; n < p->n; n++) {
        okk_parallel_start();
        okk_gdma_32bit_cpy_S2L((n + 1) % 2 * BANK, p->in + (n + 1) * bytes, &one, NULL, NULL); /* FAULT memory.beyond|memory.outside */
        okk_bdc_add_C(4 * BANK, n % 2 * BANK, 1.f, &one, NULL, NULL);
        okk_parallel_end();
        okk_gdma_32bit_cpy_L2S(p->out + n * bytes, 4 * BANK, &one, NULL, NULL);
    }
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(prefetch_behind_the_last)

/* A window out of an image, k rows and columns from its corner, but with the extents of the image. */
void crop_of_full_width(const void *args) {
    const args_t *p = args;
    const dim4 window = {1, 1, p->h - p->k, p->w}, result = {1, 1, p->h - p->k, p->w - p->k};
    const dim4 image = {p->h * p->w, p->h * p->w, p->w, 1}, local = {0, 0, p->w, 1};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in + (p->k * p->w + p->k) * FLOAT, &window, NULL, &image); /* FAULT memory.beyond */
    okk_gdma_32bit_cpy_L2S(p->out, 0, &result, NULL, &local);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(crop_of_full_width)

/* Takes the start of DDR for free memory, where the controller's own is. */
void start_of_ddr_as_scratch(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    const unsigned long long scratch = okk_global_mem_start_addr();
    okk_initialize();
    okk_gdma_32bit_cpy_S2S(scratch, p->in, &shape, NULL, NULL); /* FAULT memory.outside */
    okk_gdma_32bit_cpy_S2S(p->out, scratch, &shape, NULL, NULL); /* FAULT memory.outside */
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(start_of_ddr_as_scratch)

/* Keeps the numbers above 0; out has room for k of them, and there are more. */
void filter_into_too_little(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_greater_C_select_value(BANK, 0, 0.f, (x32){.u32 = 1}, &shape, NULL, NULL);
    MaskMemCpy4DPram keep = {.mask_local_mem_addr = BANK, .dst_global_mem_addr = p->out, .shape = {1, p->c, p->h, p->w}};
    bm_atomic_mask_memcpy_4D(&keep); /* FAULT memory.beyond */
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(filter_into_too_little)

/* The k largest are wanted; all are written. */
void sort_writes_all(const void *args) {
    const args_t *p = args;
    SortParam sort = {.input_data_addr = p->in, .output_data_addr = p->out, .input_len = p->n, .output_len = p->n,
                      .order = BM_DESCEND};
    okk_initialize();
    bm_atomic_sort(&sort); /* FAULT memory.beyond */
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(sort_writes_all)

/* Transposes by strides, and takes the row length of the source for that of the result. */
void transposed_by_the_wrong_stride(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->h, p->w, 1}, out = {0, 1, p->w, 1};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, &out, NULL); /* FAULT memory.beyond|memory.not_written */
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(transposed_by_the_wrong_stride)

/* Whole tiles of 64 rows only: those behind are never stored. */
void rest_forgotten(const void *args) { /* FAULT memory.not_written */
    const args_t *p = args;
    const dim4 tile = {1, NPUS, 1, p->w};
    okk_initialize();
    for (int i = 0; i < p->n / NPUS; i++) {
        const unsigned long long at = (unsigned long long)i * NPUS * p->w * FLOAT;
        okk_gdma_32bit_cpy_S2L(0, p->in + at, &tile, NULL, NULL);
        okk_bdc_mul_C(0, 0, .5f, &tile, NULL, NULL);
        okk_gdma_32bit_cpy_L2S(p->out + at, 0, &tile, NULL, NULL); /* FAULT memory.not_written */
    }
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(rest_forgotten)

/* Even columns only: the mistake of a stride of 2. */
void every_other_column(const void *args) { /* FAULT memory.not_written */
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->w / 2, 1}, out = {0, p->w, 2, 1}, in = {0, p->w, 2, 1};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, &in);
    okk_bdc_add_C(0, 0, 1.f, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, &out, NULL); /* FAULT memory.not_written */
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(every_other_column)

/* The second result is computed and never stored. */
void second_result_forgotten(const void *args) { /* FAULT memory.not_written */
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_mul_C(BANK, 0, 2.f, &shape, NULL, NULL);
    okk_bdc_mul_C(2 * BANK, 0, 3.f, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, BANK, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(second_result_forgotten)

/* Two images side by side in local memory, the second beyond its end. */
void over_the_end_of_local(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(7 * BANK, p->in, &shape, NULL, NULL); /* FAULT memory.beyond|memory.outside */
    okk_gdma_32bit_cpy_L2S(p->out, 7 * BANK, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(over_the_end_of_local)

/* Reads a 16-bit image with the strides of its 32-bit copy. */
void stride_in_other_elements(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    const dim4 stride = {0, p->h * p->w * 2, p->w * 2, 1};
    okk_initialize();
    okk_gdma_16bit_cpy_S2L(0, p->in, &shape, NULL, &stride); /* FAULT memory.beyond */
    okk_gdma_16bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(stride_in_other_elements)

/* Copies batch after batch; the strides between batches count one channel too many. */
void n_stride_of_more_channels(const void *args) {
    const args_t *p = args;
    const dim4 shape = {p->n, p->c, p->h, p->w};
    const int plane = p->h * p->w;
    const dim4 stride = {(p->c + 1) * plane, plane, p->w, 1};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, &stride); /* FAULT memory.beyond */
    okk_bdc_relu(0, 0, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(n_stride_of_more_channels)

/* memcpy by the controller, with the bytes of one row too many. */
void copied_by_the_controller(const void *args) {
    const args_t *p = args;
    okk_initialize();
    okk_poll();
    memcpy(okk_global_mem_addr(p->out), okk_global_mem_addr(p->in), (p->h + 1) * p->w * sizeof(float)); /* FAULT memory.beyond */
}
OKKERNEL_FUNC_REGISTER(copied_by_the_controller)

/* memset of a result, counted in elements of another size. */
void cleared_by_the_controller(const void *args) {
    const args_t *p = args;
    okk_initialize();
    okk_poll();
    memset(okk_global_mem_addr(p->out), 0, p->n * sizeof(double)); /* FAULT memory.beyond */
}
OKKERNEL_FUNC_REGISTER(cleared_by_the_controller)

/* The places of the k largest are as many as all. */
void places_of_all(const void *args) {
    const args_t *p = args;
    SortParam sort = {.input_data_addr = p->in, .output_data_addr = p->out, .output_index_addr = p->out2,
                      .input_len = p->n, .output_len = p->n, .order = BM_DESCEND, .index_enable = true,
                      .index_auto = true};
    okk_initialize();
    bm_atomic_sort(&sort); /* FAULT memory.beyond */
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(places_of_all)

/* Stored as fp16 where the host made room for bytes. */
void halves_where_bytes_are_wanted(const void *args) {
    const args_t *p = args;
    const unsigned c = p->c, h = p->h, w = p->w, aligned = ALIGN(h * w, 32);
    MemCpy4DParam store = {.src_addr = 0, .src_shape = {1, c, h, w}, .src_stride = {aligned, aligned, w, 1},
                           .src_format = BM_GDMA_FORMAT_FLOAT32, .dst_addr = p->out, .dst_shape = {1, c, h, w},
                           .dst_stride = {c * h * w, h * w, w, 1}, .dst_format = BM_GDMA_FORMAT_FLOAT16,
                           .direction = BM_GDMA_DIR_L2S};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &(dim4){1, p->c, p->h, p->w}, NULL, NULL);
    bm_atomic_memcpy_4D(&store); /* FAULT memory.beyond */
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(halves_where_bytes_are_wanted)
