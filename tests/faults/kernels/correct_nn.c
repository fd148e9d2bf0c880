/* Right, and near to what is wrong: convolutions, pools, matrix products, special functions. */
#include "faults.h"

static void load_compact(local_addr_t addr, unsigned long long from, dim4 shape) {
    dim4 compact;
    okk_compact_stride(&compact, 0, &shape);
    okk_gdma_32bit_cpy_S2L(addr, from, &shape, &compact, NULL);
}

/* An odd number of input channels: the host gives the zero that makes pairs. */
void conv_odd_channels(const void *args) {
    const args_t *p = args;
    const dim4 shape = {p->n, p->c, p->h, p->w}, result = {p->n, p->oc, p->h, p->w}, pairs = {9, 9, 3, 1};
    const Padding pad = {1, 1, 1, 1};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    load_compact(2 * BANK, p->in2, (dim4){DIV_UP(p->c, 2), p->oc, 9, 2});
    load_compact(3 * BANK, p->in3, (dim4){1, p->oc, 1, 1});
    okk_bdc_conv2d(4 * BANK, 0, 2 * BANK, 3 * BANK, &shape, p->oc, 3, 3, NULL, &pairs, true, false, &pad, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 4 * BANK, &result, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(conv_odd_channels)

/* Weights are put into pairs channel by channel, the last half cleared. */
void pairs_made_here(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w}, result = {1, p->oc, p->h, p->w}, one = {1, p->oc, 1, 1};
    const dim4 pairs = {1, 1, 1, 1};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    for (int c = 0; c < p->c; c++) { /* in2 has [c][oc] */
        okk_gdma_32bit_cpy_S2L(2 * BANK + c * FLOAT, p->in2 + c * p->oc * FLOAT, &one, NULL, NULL);
    }
    if (p->c % 2) okk_bdc_32bit_set_C(2 * BANK + p->c * FLOAT, (x32){.fp32 = 0}, &one, NULL);
    okk_bdc_conv2d(4 * BANK, 0, 2 * BANK, 0, &shape, p->oc, 1, 1, NULL, &pairs, false, false, NULL, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 4 * BANK, &result, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(pairs_made_here)

/* A stride that leaves the last row and column of the input unused; they are not even loaded. */
void conv_that_skips_the_last_row(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w}, loaded = {1, p->c, p->h - 1, p->w}, pairs = {1, 1, 1, 1};
    const dim4 image = {0, p->h * p->w, p->w, 1};
    const dim2 stride = {2, 2};
    const dim4 result = {1, p->oc, p->h / 2, p->w / 2};
    dim4 local;
    okk_128_byte_aligned_stride_for_32bit(&local, 0, &shape);
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &loaded, &local, &image);
    load_compact(2 * BANK, p->in2, (dim4){DIV_UP(p->c, 2), p->oc, 1, 2});
    okk_bdc_conv2d(4 * BANK, 0, 2 * BANK, 0, &shape, p->oc, 1, 1, NULL, &pairs, false, false, NULL, &stride, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 4 * BANK, &result, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(conv_that_skips_the_last_row)

/* Slices of input channels are added up: the first one writes, the others add. */
void conv_added_up(const void *args) {
    const args_t *p = args;
    const int slice = p->c / 2;
    const dim4 part = {1, slice, p->h, p->w}, result = {1, p->oc, p->h, p->w}, pairs = {1, 1, 1, 1};
    okk_initialize();
    for (int i = 0; i < 2; i++) {
        okk_gdma_32bit_cpy_S2L(0, p->in + i * slice * p->h * p->w * FLOAT, &part, NULL, NULL);
        load_compact(2 * BANK, p->in2 + i * slice * p->oc * FLOAT, (dim4){slice / 2, p->oc, 1, 2});
        okk_bdc_conv2d(4 * BANK, 0, 2 * BANK, 0, &part, p->oc, 1, 1, NULL, &pairs, false, i > 0, NULL, NULL, NULL);
    }
    okk_gdma_32bit_cpy_L2S(p->out, 4 * BANK, &result, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(conv_added_up)

/* Added up in memory that was cleared first. */
void mac_on_zeros(const void *args) {
    const args_t *p = args;
    const dim4 one = {1, p->c, p->h, p->w};
    const unsigned long long bytes = (unsigned long long)p->c * p->h * p->w * FLOAT;
    okk_initialize();
    okk_bdc_32bit_set_C(2 * BANK, (x32){.fp32 = 0}, &one, NULL);
    for (int n = 0; n < p->n; n++) {
        okk_gdma_32bit_cpy_S2L(0, p->in + n * bytes, &one, NULL, NULL);
        okk_gdma_32bit_cpy_S2L(BANK, p->in2 + n * bytes, &one, NULL, NULL);
        okk_bdc_mac(2 * BANK, 0, BANK, &one, NULL, NULL, NULL);
    }
    okk_gdma_32bit_cpy_L2S(p->out, 2 * BANK, &one, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(mac_on_zeros)

/* The inner dimension is 20 at 16 columns a channel: the last channel is short on the left, and on the right. */
void matmul_short_last_channel(const void *args) {
    const args_t *p = args;
    const int per_channel = 16;
    okk_initialize();
    okk_gdma_32bit_matrix_S2L(0, p->in, p->n, p->k, per_channel, p->k);
    okk_gdma_32bit_matrix_S2L(2 * BANK, p->in2, p->k, p->w, per_channel, p->w);
    okk_bdc_matmul(4 * BANK, 0, 2 * BANK, 0, p->n, p->k, p->w, per_channel, per_channel, false, false);
    okk_gdma_32bit_matrix_L2S(p->out, 4 * BANK, p->n, p->w, per_channel, p->w);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(matmul_short_last_channel)

/* Slices of the inner dimension, two buffers, the first slice without adding, with a bias. */
void matmul_in_slices(const void *args) {
    const args_t *p = args;
    const int per_channel = 8, slice = p->k / 2;
    okk_initialize();
    okk_gdma_32bit_matrix_S2L(6 * BANK, p->in3, 1, p->w, per_channel, p->w);
    for (int i = 0; i < 3; i++) {
        okk_parallel_start();
        if (i < 2) {
            okk_gdma_32bit_matrix_S2L(i * BANK, p->in + i * slice * FLOAT, p->n, slice, per_channel, p->k);
            okk_gdma_32bit_matrix_S2L((2 + i) * BANK, p->in2 + i * slice * p->w * FLOAT, slice, p->w, per_channel, p->w);
        }
        if (i > 0) {
            okk_bdc_matmul(4 * BANK, (i - 1) * BANK, (1 + i) * BANK, 6 * BANK, p->n, slice, p->w, per_channel, per_channel,
                           i == 1, i > 1);
        }
        okk_parallel_end();
    }
    okk_gdma_32bit_matrix_L2S(p->out, 4 * BANK, p->n, p->w, per_channel, p->w);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(matmul_in_slices)

/* Only the rows that the product needs are loaded of a larger matrix, and its result is a part of a larger one. */
void matmul_of_a_part(const void *args) {
    const args_t *p = args;
    const int per_channel = 16, wide = 2 * p->w;
    okk_initialize();
    okk_gdma_32bit_matrix_S2L(0, p->in, p->n, p->k, per_channel, p->k);
    for (int half = 0; half < 2; half++) {
        okk_gdma_32bit_matrix_S2L(2 * BANK, p->in2 + half * p->w * FLOAT, p->k, p->w, per_channel, wide);
        okk_bdc_matmul(4 * BANK, 0, 2 * BANK, 0, p->n, p->k, p->w, per_channel, per_channel, false, false);
        okk_gdma_32bit_matrix_L2S(p->out + half * p->w * FLOAT, 4 * BANK, p->n, p->w, per_channel, wide);
    }
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(matmul_of_a_part)

/* Depthwise over two slots of channels, weights and bias compact. */
void depthwise_two_slots(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    const Padding pad = {1, 1, 1, 1};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    load_compact(2 * BANK, p->in2, (dim4){1, p->c, 3, 3});
    load_compact(3 * BANK, p->in3, (dim4){1, p->c, 1, 1});
    okk_bdc_depthwise2d(4 * BANK, 0, 2 * BANK, 3 * BANK, &shape, 3, 3, true, &pad, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 4 * BANK, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(depthwise_two_slots)

/* A 3x3 pool in tiles of rows, each with the rows around it that exist. */
void pool_in_tiles_with_halo(const void *args) {
    const args_t *p = args;
    const dim4 image = {0, p->h * p->w, p->w, 1};
    okk_initialize();
    for (int h = 0; h < p->h; h += p->k) {
        const int rows = MIN(p->k, p->h - h), low = MAX(h - 1, 0), high = MIN(h + rows + 1, p->h);
        const dim4 load = {1, p->c, high - low, p->w}, result = {1, p->c, rows, p->w};
        const Padding pad = {h == 0, h + rows == p->h, 1, 1};
        okk_gdma_32bit_cpy_S2L(0, p->in + low * p->w * FLOAT, &load, NULL, &image);
        okk_bdc_max_pool2d(2 * BANK, 0, &load, 3, 3, &pad, NULL);
        okk_gdma_32bit_cpy_L2S(p->out + h * p->w * FLOAT, 2 * BANK, &result, &image, NULL);
    }
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(pool_in_tiles_with_halo)

/* Softmax of rows that are no multiple of 32: special functions go over the padding too. */
void softmax_of_padded_rows(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, 1, p->w}, one = {1, p->c, 1, 1}, once = {0, 0, 0, 0};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_max_pool2d(BANK, 0, &shape, 1, p->w, NULL, NULL);
    okk_bdc_sub(0, 0, BANK, &shape, NULL, NULL, &once);
    okk_bdc_exp(2 * BANK, 0, 4 * BANK, &shape);
    okk_bdc_avg_pool2d_v2(BANK, 2 * BANK, &shape, 1, p->w, NULL, NULL, 1.f);
    okk_bdc_reciprocal(BANK, BANK, &one, NULL, NULL);
    okk_bdc_mul(2 * BANK, 2 * BANK, BANK, &shape, NULL, NULL, &once);
    okk_gdma_32bit_cpy_L2S(p->out, 2 * BANK, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(softmax_of_padded_rows)

/* One channel for all lanes by the engine that convolves. */
void channel_for_all_lanes(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, 1, p->w}, row = {1, 1, 1, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &row, NULL, NULL);
    okk_bdc_npu_bcast(BANK, 0, &shape, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, BANK, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(channel_for_all_lanes)

/* A mean over channels as a convolution by a constant, which has no weights in memory. */
void mean_over_channels(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w}, result = {1, 1, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_conv2d_kernel_const(2 * BANK, 0, 0, &shape, 1, 1, 1, NULL, false, false, NULL, NULL, 1.f / p->c);
    okk_gdma_32bit_cpy_L2S(p->out, 2 * BANK, &result, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(mean_over_channels)

/* Two 1x1 convolutions: memory of the first one's input and weights serves the second one. */
void two_layers_in_sequence(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w}, middle = {1, p->oc, p->h, p->w}, pairs = {1, 1, 1, 1};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    load_compact(2 * BANK, p->in2, (dim4){DIV_UP(p->c, 2), p->oc, 1, 2});
    okk_bdc_conv2d(4 * BANK, 0, 2 * BANK, 0, &shape, p->oc, 1, 1, NULL, &pairs, false, false, NULL, NULL, NULL);
    okk_bdc_relu(4 * BANK, 4 * BANK, &middle, NULL, NULL);
    load_compact(2 * BANK, p->in3, (dim4){DIV_UP(p->oc, 2), p->c, 1, 2});
    okk_bdc_conv2d(0, 4 * BANK, 2 * BANK, 0, &middle, p->c, 1, 1, NULL, &pairs, false, false, NULL, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(two_layers_in_sequence)

/* A dilation of 2 and one row of results: the rows between the taps are never loaded. */
void rows_between_taps(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, 5, p->w}, loaded = {1, p->c, 3, p->w}, result = {1, p->oc, 1, p->w - 2};
    const dim4 pairs = {9, 9, 3, 1}, image = {0, 5 * p->w, 2 * p->w, 1};
    const dim2 dilation = {2, 1};
    dim4 local;
    okk_128_byte_aligned_stride_for_32bit(&local, 0, &shape);
    local.h = 2 * p->w;
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &loaded, &local, &image);
    load_compact(2 * BANK, p->in2, (dim4){DIV_UP(p->c, 2), p->oc, 9, 2});
    okk_bdc_conv2d(4 * BANK, 0, 2 * BANK, 0, &shape, p->oc, 3, 3, NULL, &pairs, false, false, NULL, NULL, &dilation);
    okk_gdma_32bit_cpy_L2S(p->out, 4 * BANK, &result, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(rows_between_taps)

/* Windows of 2 rows at steps of 3: every third row is neither loaded nor read. */
void rows_between_windows(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w}, result = {1, p->c, p->h / 3, p->w};
    const dim2 stride = {3, 1};
    dim4 local;
    okk_128_byte_aligned_stride_for_32bit(&local, 0, &shape);
    okk_initialize();
    for (int h = 0; h < p->h; h += 3) {
        const dim4 rows = {1, p->c, 2, p->w}, image = {0, p->h * p->w, p->w, 1};
        okk_gdma_32bit_cpy_S2L(h * p->w * FLOAT, p->in + h * p->w * FLOAT, &rows, &local, &image);
    }
    okk_bdc_max_pool2d(4 * BANK, 0, &shape, 2, 1, NULL, &stride);
    okk_gdma_32bit_cpy_L2S(p->out, 4 * BANK, &result, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(rows_between_windows)

/* Windows that reach into columns which nothing wrote; their results are not stored. */
void windows_over_the_edge(const void *args) {
    const args_t *p = args;
    const dim4 wide = {1, p->c, p->h, p->w + 2}, shape = {1, p->c, p->h, p->w}, result = {1, p->c, p->h, p->w - 2};
    dim4 local, all = {1, p->c, p->h, p->w}, out;
    okk_128_byte_aligned_stride_for_32bit(&local, 0, &wide);
    okk_128_byte_aligned_stride_for_32bit(&out, 0, &all);
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, &local, NULL);
    okk_bdc_avg_pool2d_v2(4 * BANK, 0, &wide, 1, 3, NULL, NULL, 1.f);
    okk_gdma_32bit_cpy_L2S(p->out, 4 * BANK, &result, NULL, &out);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(windows_over_the_edge)

/* Zeros between rows and columns: a transposed convolution that holds only what is between them. */
void zeros_inserted(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    const unsigned plane = ALIGN(p->h * p->w, 32);
    ConvParam conv = {.input_addr = 0, .weight_addr = 2 * BANK, .output_addr = 4 * BANK,
                      .input_shape = {1, p->c, p->h, p->w}, .output_c = p->oc, .kernel_h = 1, .kernel_w = 1, .stride_h = 1,
                      .stride_w = 1, .input_stride = {plane, plane, p->w, 1}, .kernel_stride = {1, 1, 1, 1}, .ins_h = 1,
                      .ins_w = 1, .dilate_h = 1, .dilate_w = 1};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    load_compact(2 * BANK, p->in2, (dim4){DIV_UP(p->c, 2), p->oc, 1, 2});
    bm_atomic_conv(&conv);
    okk_gdma_32bit_cpy_L2S(p->out, 4 * BANK, &(dim4){1, p->oc, 2 * p->h - 1, 2 * p->w - 1}, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(zeros_inserted)

/* A bias of 100 channels: lanes 36 to 63 have one word of it, the others two. */
void bias_of_two_slots(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    load_compact(2 * BANK, p->in2, (dim4){1, p->c, 1, 1});
    okk_bdc_bias(0, 0, 2 * BANK, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(bias_of_two_slots)

/* More is loaded than the product uses: k of the rows and columns that there are. */
void matmul_of_fewer_columns(const void *args) {
    const args_t *p = args;
    const int per_channel = 8, used = p->k / 2;
    okk_initialize();
    okk_gdma_32bit_matrix_S2L(0, p->in, p->n, p->k, per_channel, p->k);
    okk_gdma_32bit_matrix_S2L(2 * BANK, p->in2, used, p->w, per_channel, p->w);
    okk_bdc_matmul(4 * BANK, 0, 2 * BANK, 0, p->n, used, p->w, per_channel, per_channel, false, false);
    okk_gdma_32bit_matrix_L2S(p->out, 4 * BANK, p->n, p->w, per_channel, p->w);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(matmul_of_fewer_columns)
