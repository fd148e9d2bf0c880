/* Parts of networks with a mistake: convolutions, pools, sums over channels, normalization, resizing. */
#include "faults.h"

static void load_compact(local_addr_t addr, unsigned long long from, dim4 shape) {
    dim4 compact;
    okk_compact_stride(&compact, 0, &shape);
    okk_gdma_32bit_cpy_S2L(addr, from, &shape, &compact, NULL);
}

/* A dilated window is two rows and columns larger than the result's extents were computed for. */
void dilation_forgotten(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w}, result = {1, p->c, p->h - 2, p->w - 2};
    const dim2 two = {2, 2};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    load_compact(BANK, p->in2, (dim4){1, p->c, 3, 3});
    okk_bdc_depthwise2d(2 * BANK, 0, BANK, 0, &shape, 3, 3, false, NULL, NULL, &two);
    okk_gdma_32bit_cpy_L2S(p->out, 2 * BANK, &result, NULL, NULL); /* FAULT init.unwritten */
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(dilation_forgotten)

/* The size of the result counts paddings, the pool gets none. */
void pool_without_its_padding(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w}, result = {1, p->c, (p->h - 1) / 2 + 1, (p->w - 1) / 2 + 1};
    const dim2 two = {2, 2};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_max_pool2d(2 * BANK, 0, &shape, 3, 3, NULL, &two);
    okk_gdma_32bit_cpy_L2S(p->out, 2 * BANK, &result, NULL, NULL); /* FAULT init.unwritten */
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(pool_without_its_padding)

/* The bias of the first 64 of 100 channels. */
void bias_of_one_slot(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    const Padding pad = {1, 1, 1, 1};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    load_compact(BANK, p->in2, (dim4){1, p->c, 3, 3});
    load_compact(BANK + 0x8000, p->in3, (dim4){1, MIN(p->c, NPUS), 1, 1});
    okk_bdc_depthwise2d(2 * BANK, 0, BANK, BANK + 0x8000, &shape, 3, 3, true, &pad, NULL, NULL); /* FAULT init.unwritten */
    okk_gdma_32bit_cpy_L2S(p->out, 2 * BANK, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(bias_of_one_slot)

/* The largest of the channels of each pixel: channels lie in rows, pixels on lanes. Halves of an odd number of
 * rows are rounded up. */
void tree_of_an_odd_count(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->w, p->c, 1}, pixels = {0, 1, p->w, 1}, one = {1, p->w, 1, 1};
    dim4 stride;
    okk_128_byte_aligned_stride_for_32bit(&stride, 0, &shape);
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, &pixels);
    for (int rows = p->c; rows > 1;) {
        const int half = DIV_UP(rows, 2);
        const dim4 part = {1, p->w, half, 1};
        okk_bdc_max(0, 0, half * FLOAT, &part, &stride, &stride, &stride); /* FAULT init.unwritten */
        rows = half;
    }
    okk_gdma_32bit_cpy_L2S(p->out, 0, &one, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(tree_of_an_odd_count)

/* Each channel less its mean, which is one number and is read as a map. */
void mean_not_repeated(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_avg_pool2d(BANK, 0, &shape, p->h, p->w, NULL, NULL);
    okk_bdc_sub(2 * BANK, 0, BANK, &shape, NULL, NULL, NULL); /* FAULT init.unwritten */
    okk_gdma_32bit_cpy_L2S(p->out, 2 * BANK, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(mean_not_repeated)

/* A row of factors for every channel is given to the lanes once, and read as if every slot had it. */
void factors_of_the_first_slot(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w}, lanes = {1, NPUS, 1, p->w}, same = {0, 0, 0, 1};
    dim4 repeated;
    okk_128_byte_aligned_stride_for_32bit(&repeated, 0, &(dim4){1, p->c, 1, p->w});
    repeated.h = 0;
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_S2L(BANK, p->in2, &lanes, NULL, &same);
    okk_bdc_mul(0, 0, BANK, &shape, NULL, NULL, &repeated); /* FAULT init.unwritten */
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(factors_of_the_first_slot)

/* A product in slices of k columns, each in a buffer of its own; the last one is computed as if it were full. */
void last_slice_as_the_others(const void *args) {
    const args_t *p = args;
    const dim4 result = {p->n, p->w, 1, 1};
    const x32 zero = {.fp32 = 0};
    okk_initialize();
    okk_bdc_32bit_set_C(6 * BANK, zero, &result, NULL);
    for (int k = 0, i = 0; k < p->c; k += p->k, i++) {
        const int part = MIN(p->k, p->c - k);
        const local_addr_t left = 2 * i * BANK, right = left + BANK;
        okk_gdma_32bit_matrix_S2L(left, p->in + k * FLOAT, p->n, part, 1, p->c);
        okk_gdma_32bit_matrix_S2L(right, p->in2 + k * p->w * FLOAT, part, p->w, 1, p->w);
        okk_bdc_matmul(6 * BANK, left, right, 0, p->n, p->k, p->w, 1, 1, false, true); /* FAULT init.unwritten */
    }
    okk_gdma_32bit_matrix_L2S(p->out, 6 * BANK, p->n, p->w, 1, p->w);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(last_slice_as_the_others)

/* Products of several batches are added up over slices; only the first batch's sums begin at 0. */
void sums_of_the_first_batch(const void *args) {
    const args_t *p = args;
    const dim4 result = {p->h, p->w, 1, 1};
    const x32 zero = {.fp32 = 0};
    okk_initialize();
    okk_bdc_32bit_set_C(6 * BANK, zero, &result, NULL);
    for (int n = 0; n < p->n; n++) {
        const local_addr_t sum = 6 * BANK + n * p->h * 128;
        for (int k = 0; k < p->c; k += p->k) {
            okk_gdma_32bit_matrix_S2L(0, p->in + (n * p->h * p->c + k) * FLOAT, p->h, p->k, 1, p->c);
            okk_gdma_32bit_matrix_S2L(2 * BANK, p->in2 + (n * p->c + k) * p->w * FLOAT, p->k, p->w, 1, p->w);
            okk_bdc_matmul(sum, 0, 2 * BANK, 0, p->h, p->k, p->w, 1, 1, false, true); /* FAULT init.unwritten */
        }
        okk_gdma_32bit_matrix_L2S(p->out + n * p->h * p->w * FLOAT, sum, p->h, p->w, 1, p->w);
    }
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(sums_of_the_first_batch)

/* Twice as many rows: of the nearest one, rounded up. */
void nearest_row_rounded_up(const void *args) {
    const args_t *p = args;
    const dim4 row = {1, p->c, 1, p->w}, in = {0, p->h * p->w, 0, 1}, out = {0, p->k * p->w, 0, 1};
    okk_initialize();
    for (int y = 0; y < p->k; y++) {
        const int from = (y * p->h + p->k - 1) / p->k;
        okk_gdma_32bit_cpy_S2L(0, p->in + from * p->w * FLOAT, &row, NULL, &in); /* FAULT memory.beyond */
        okk_gdma_32bit_cpy_L2S(p->out + y * p->w * FLOAT, 0, &row, &out, NULL);
    }
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(nearest_row_rounded_up)

/* Rows and half rows between them; the last one has no row below it. */
void row_below_the_last(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w}, row = {1, p->c, 1, p->w}, twice = {1, p->c, 2 * p->h, p->w};
    dim4 in, out;
    okk_128_byte_aligned_stride_for_32bit(&in, 0, &shape);
    okk_128_byte_aligned_stride_for_32bit(&out, 0, &twice);
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    for (int y = 0; y < p->h; y++) {
        const local_addr_t from = y * p->w * FLOAT, to = 2 * BANK + 2 * from;
        okk_bdc_32bit_cpy(to, from, &row, &out, &in);
        okk_bdc_add(to + p->w * FLOAT, from, from + p->w * FLOAT, &row, &out, &in, &in); /* FAULT init.unwritten */
        okk_bdc_mul_C(to + p->w * FLOAT, to + p->w * FLOAT, 0.5f, &row, &out, &out);
    }
    okk_gdma_32bit_cpy_L2S(p->out, 2 * BANK, &twice, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(row_below_the_last)

/* Channels and columns are exchanged, their numbers too. */
void exchanged_by_exchanged_extents(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, 1, p->w}, turned = {1, p->w, 1, p->c};
    const CWTransParam turn = {
        .src_addr = 0, .dst_addr = 2 * BANK, .src_c = p->w, .src_w = p->c, .format = BM_GDMA_FORMAT_FLOAT32,
        .src_c_stride = ALIGN(p->w, 32), .dst_c_stride = ALIGN(p->c, 32)};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    bm_atomic_cwtrans(&turn); /* FAULT init.unwritten */
    okk_gdma_32bit_cpy_L2S(p->out, 2 * BANK, &turned, NULL, NULL); /* FAULT init.unwritten */
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(exchanged_by_exchanged_extents)

/* The weights of a group begin behind as many words as if they were for all input channels. */
void weights_of_a_group_beyond(const void *args) {
    const args_t *p = args;
    const int groups = p->k, ic = p->c / groups, oc = p->oc / groups, pairs = DIV_UP(ic, 2);
    const dim4 shape = {1, ic, p->h, p->w}, result = {1, oc, p->h, p->w}, between = {oc > NPUS ? 4 : 2, 2, 1, 1};
    okk_initialize();
    for (int g = 0; g < groups; g++) {
        okk_gdma_32bit_cpy_S2L(0, p->in + g * ic * p->h * p->w * FLOAT, &shape, NULL, NULL);
        load_compact(BANK, p->in2 + g * p->c * oc * FLOAT, (dim4){pairs, oc, 1, 2}); /* FAULT memory.outside|memory.beyond */
        okk_bdc_conv2d(2 * BANK, 0, BANK, 0, &shape, oc, 1, 1, NULL, &between, false, false, NULL, NULL, NULL);
        okk_gdma_32bit_cpy_L2S(p->out + g * oc * p->h * p->w * FLOAT, 2 * BANK, &result, NULL, NULL);
    }
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(weights_of_a_group_beyond)

/* Two maps one behind the other; the second one's place is counted in elements. */
void second_map_by_elements(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_S2L(BANK, p->in2, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out + p->c * p->h * p->w, BANK, &shape, NULL, NULL); /* FAULT memory.not_written */
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(second_map_by_elements)

/* A pool's result is stored with the strides that its input has in local memory. */
void result_by_strides_of_the_input(const void *args) {
    const args_t *p = args;
    const dim4 shape = {p->n, p->c, p->h, p->w}, result = {p->n, p->c, p->h / 2, p->w / 2};
    const dim2 two = {2, 2};
    dim4 stride;
    okk_128_byte_aligned_stride_for_32bit(&stride, 0, &shape);
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_avg_pool2d(4 * BANK, 0, &shape, 2, 2, NULL, &two);
    okk_gdma_32bit_cpy_L2S(p->out, 4 * BANK, &result, NULL, &stride); /* FAULT init.unwritten */
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(result_by_strides_of_the_input)

/* A tensor that begins on NPU 3 needs a second slot, which its strides do not count. */
void strides_of_another_start(const void *args) {
    const args_t *p = args;
    const dim4 shape = {p->n, p->c, p->h, p->w};
    const local_addr_t x = 3 * okk_local_mem_size_per_npu(), y = x + 2 * BANK;
    dim4 stride;
    okk_128_byte_aligned_stride_for_32bit(&stride, 0, &shape);
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(x, p->in, &shape, &stride, NULL); /* FAULT init.unwritten */
    okk_bdc_add_C(y, x, 1.f, &shape, NULL, NULL); /* FAULT init.unwritten */
    okk_gdma_32bit_cpy_L2S(p->out, y, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(strides_of_another_start)

/* Sums of all columns up to each one, by steps of 1, 2, 4 in place: what is added has changed already. */
void sums_over_themselves(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, 1, p->w};
    dim4 stride;
    okk_128_byte_aligned_stride_for_32bit(&stride, 0, &shape);
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    for (int step = 1; step < p->w; step *= 2) {
        const dim4 part = {1, p->c, 1, p->w - step};
        okk_bdc_add(step * FLOAT, step * FLOAT, 0, &part, &stride, &stride, &stride); /* FAULT hazard.overlap */
    }
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(sums_over_themselves)

/* All rows of an image are moved down by one in one copy. */
void rows_moved_over_themselves(const void *args) {
    const args_t *p = args;
    const dim4 rows = {1, 1, p->h - 1, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2S(p->out + p->w * FLOAT, p->out, &rows, NULL, NULL); /* FAULT hazard.overlap */
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(rows_moved_over_themselves)

/* A convolution into the memory of its input, which may be as large. */
void convolution_in_place(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    const Padding pad = {1, 1, 1, 1};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    load_compact(BANK, p->in2, (dim4){1, p->c, 3, 3});
    okk_bdc_depthwise2d(0, 0, BANK, 0, &shape, 3, 3, false, &pad, NULL, NULL); /* FAULT hazard.overlap */
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(convolution_in_place)
