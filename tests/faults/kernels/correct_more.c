/* Right, and near to what is wrong: parts of networks, packed integers, streams and launches. */
#include "faults.h"

static void load_compact(local_addr_t addr, unsigned long long from, dim4 shape) {
    dim4 compact;
    okk_compact_stride(&compact, 0, &shape);
    okk_gdma_32bit_cpy_S2L(addr, from, &shape, &compact, NULL);
}

static unsigned long long at(unsigned long long base, const args_t *p, int n) {
    return base + (unsigned long long)n * p->c * p->h * p->w * FLOAT;
}

/* A depthwise convolution with dilation 2, padding 2 and bias, of 100 channels. */
void dilated_with_bias(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    const Padding pad = {2, 2, 2, 2};
    const dim2 two = {2, 2};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    load_compact(BANK, p->in2, (dim4){1, p->c, 3, 3});
    load_compact(BANK + 0x8000, p->in3, (dim4){1, p->c, 1, 1});
    okk_bdc_depthwise2d(2 * BANK, 0, BANK, BANK + 0x8000, &shape, 3, 3, true, &pad, NULL, &two);
    okk_gdma_32bit_cpy_L2S(p->out, 2 * BANK, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(dilated_with_bias)

/* e^(x - max) / sum over channels that lie in rows; halves of an odd number of rows overlap in the middle one
 * for the maximum, and leave it out for the sum. */
void softmax_over_channels(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->w, p->c, 1}, pixels = {0, 1, p->w, 1};
    dim4 stride, same;
    okk_128_byte_aligned_stride_for_32bit(&stride, 0, &shape);
    same = stride;
    same.h = 0;
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, &pixels);
    okk_bdc_32bit_cpy(BANK, 0, &shape, NULL, NULL);
    for (int rows = p->c; rows > 1; rows = DIV_UP(rows, 2)) {
        const dim4 half = {1, p->w, rows / 2, 1};
        okk_bdc_max(BANK, BANK, BANK + DIV_UP(rows, 2) * FLOAT, &half, &stride, &stride, &stride);
    }
    okk_bdc_sub(0, 0, BANK, &shape, NULL, NULL, &same);
    okk_bdc_exp(2 * BANK, 0, 3 * BANK, &shape);
    okk_bdc_32bit_cpy(BANK, 2 * BANK, &shape, NULL, NULL);
    for (int rows = p->c; rows > 1; rows = DIV_UP(rows, 2)) {
        const dim4 half = {1, p->w, rows / 2, 1};
        okk_bdc_add(BANK, BANK, BANK + DIV_UP(rows, 2) * FLOAT, &half, &stride, &stride, &stride);
    }
    okk_bdc_div(2 * BANK, 2 * BANK, BANK, &shape, NULL, NULL, &same);
    okk_gdma_32bit_cpy_L2S(p->out, 2 * BANK, &shape, &pixels, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(softmax_over_channels)

/* Each row less its mean, over its deviation, times factors that every slot of a lane shares. */
void rows_normalized(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, 1, p->w}, one = {1, p->c, 1, 1}, lanes = {1, NPUS, 1, p->w}, from = {0, 0, 0, 1};
    const dim4 same = {0, 32, 0, 0}, repeated = {0, 0, 0, 1};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_S2L(5 * BANK, p->in2, &lanes, NULL, &from);
    okk_bdc_avg_pool2d(BANK, 0, &shape, 1, p->w, NULL, NULL);
    okk_bdc_sub(0, 0, BANK, &shape, NULL, NULL, &same);
    okk_bdc_mul(2 * BANK, 0, 0, &shape, NULL, NULL, NULL);
    okk_bdc_avg_pool2d(3 * BANK, 2 * BANK, &shape, 1, p->w, NULL, NULL);
    okk_bdc_add_C(3 * BANK, 3 * BANK, 1e-5f, &one, NULL, NULL);
    okk_bdc_rsqrt(3 * BANK, 3 * BANK, &one);
    okk_bdc_mul(0, 0, 3 * BANK, &shape, NULL, NULL, &same);
    okk_bdc_mul(0, 0, 5 * BANK, &shape, NULL, NULL, &repeated);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(rows_normalized)

/* Products of several batches in slices of k columns, the last one shorter, in two buffers. */
void products_in_slices(const void *args) {
    const args_t *p = args;
    okk_initialize();
    for (int n = 0; n < p->n; n++) {
        const unsigned long long left = p->in + n * p->h * p->c * FLOAT, right = p->in2 + n * p->c * p->w * FLOAT;
        for (int k = 0, i = 0; k < p->c; k += p->k, i++) {
            const int part = MIN(p->k, p->c - k);
            const local_addr_t l = i % 2 * 2 * BANK, r = l + BANK;
            okk_gdma_32bit_matrix_S2L(l, left + k * FLOAT, p->h, part, 1, p->c);
            okk_gdma_32bit_matrix_S2L(r, right + k * p->w * FLOAT, part, p->w, 1, p->w);
            okk_bdc_matmul(6 * BANK, l, r, 0, p->h, part, p->w, 1, 1, false, k > 0);
        }
        okk_gdma_32bit_matrix_L2S(p->out + n * p->h * p->w * FLOAT, 6 * BANK, p->h, p->w, 1, p->w);
    }
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(products_in_slices)

/* Sums of all columns up to each one, by steps of 1, 2, 4 from one buffer to the other. */
void sums_from_side_to_side(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, 1, p->w};
    dim4 stride;
    local_addr_t from = 0, to = BANK;
    okk_128_byte_aligned_stride_for_32bit(&stride, 0, &shape);
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    for (int step = 1; step < p->w; step *= 2) {
        const dim4 part = {1, p->c, 1, p->w - step}, kept = {1, p->c, 1, step};
        okk_bdc_32bit_cpy(to, from, &kept, &stride, &stride);
        okk_bdc_add(to + step * FLOAT, from + step * FLOAT, from, &part, &stride, &stride, &stride);
        const local_addr_t last = from;
        from = to, to = last;
    }
    okk_gdma_32bit_cpy_L2S(p->out, from, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(sums_from_side_to_side)

/* Load, compute in place and store in one section, in three buffers. */
void three_buffers_in_turn(const void *args) {
    const args_t *p = args;
    const dim4 one = {1, p->c, p->h, p->w};
    okk_initialize();
    for (int i = 0; i < p->n + 2; i++) {
        okk_parallel_start();
        if (i < p->n) okk_gdma_32bit_cpy_S2L(i % 3 * BANK, at(p->in, p, i), &one, NULL, NULL);
        if (i > 0 && i <= p->n) okk_bdc_mul_C((i - 1) % 3 * BANK, (i - 1) % 3 * BANK, 3.f, &one, NULL, NULL);
        if (i > 1) okk_gdma_32bit_cpy_L2S(at(p->out, p, i - 2), (i - 2) % 3 * BANK, &one, NULL, NULL);
        okk_parallel_end();
    }
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(three_buffers_in_turn)

/* Channels and columns are exchanged, there and back. */
void exchanged_there_and_back(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, 1, p->w}, turned = {1, p->w, 1, p->c};
    const unsigned slot = ALIGN(p->w, 32), other = ALIGN(p->c, 32);
    const CWTransParam there = {
        .src_addr = 0, .dst_addr = BANK, .src_c = p->c, .src_w = p->w, .format = BM_GDMA_FORMAT_FLOAT32,
        .src_c_stride = slot, .dst_c_stride = other};
    const CWTransParam back = {
        .src_addr = BANK, .dst_addr = 2 * BANK, .src_c = p->w, .src_w = p->c, .format = BM_GDMA_FORMAT_FLOAT32,
        .src_c_stride = other, .dst_c_stride = slot};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    bm_atomic_cwtrans(&there);
    okk_bdc_add_C(BANK, BANK, 1.f, &turned, NULL, NULL);
    bm_atomic_cwtrans(&back);
    okk_gdma_32bit_cpy_L2S(p->out, 2 * BANK, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(exchanged_there_and_back)

/* 16-bit numbers are loaded into the lower halves of words whose upper ones nothing wrote, which are shifted out. */
void upper_halves_shifted_out(const void *args) {
    const args_t *p = args;
    const dim4 halves = {1, p->c, p->w, 1}, words = {1, p->c, 1, p->w};
    const dim4 apart = {0, ALIGN(2 * p->w, 64), 2, 1}, from = {0, p->w, 1, 1};
    okk_initialize();
    okk_gdma_16bit_cpy_S2L(0, p->in, &halves, &apart, &from);
    okk_bdc_32bit_arithmetic_shift_C(0, 0, 16, &words, NULL, NULL);
    okk_bdc_32bit_arithmetic_shift_C(0, 0, -16, &words, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &words, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(upper_halves_shifted_out)

/* The last tile begins earlier, so that it is as large as the others. */
void last_tile_moved_back(const void *args) {
    const args_t *p = args;
    const dim4 tile = {1, NPUS, 1, p->w};
    okk_initialize();
    for (int row = 0; row < p->n; row += NPUS) {
        const unsigned long long from = (unsigned long long)MIN(row, p->n - NPUS) * p->w * FLOAT;
        okk_gdma_32bit_cpy_S2L(0, p->in + from, &tile, NULL, NULL);
        okk_bdc_neg(0, 0, &tile, NULL, NULL);
        okk_gdma_32bit_cpy_L2S(p->out + from, 0, &tile, NULL, NULL);
    }
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(last_tile_moved_back)

/* Rows are moved down in place, the last one first, each by a copy of its own. */
void rows_moved_one_by_one(const void *args) {
    const args_t *p = args;
    const dim4 row = {1, 1, 1, p->w};
    okk_initialize();
    for (int h = p->h - 1; h > 0; h--)
        okk_gdma_32bit_cpy_S2S(p->out + h * p->w * FLOAT, p->out + (h - 1) * p->w * FLOAT, &row, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(rows_moved_one_by_one)

/* Odd columns become the even ones beside them: source and result lie in each other's gaps. */
void columns_between_columns(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, 1, p->w}, half = {1, p->c, 1, p->w / 2}, two = {0, ALIGN(p->w, 32), 0, 2};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_mul_C(FLOAT, 0, 2.f, &half, &two, &two);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(columns_between_columns)

/* The upper half of all rows is written over the lower one in one copy: they touch, and have nothing in common. */
void half_over_half(const void *args) {
    const args_t *p = args;
    const dim4 rows = {1, 1, p->h / 2, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2S(p->out + p->h / 2 * p->w * FLOAT, p->out, &rows, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(half_over_half)

/* Six batches of bytes, four to a word: computed as eight, so that whole words are stored. */
void six_batches_of_bytes(const void *args) {
    const args_t *p = args;
    const dim4 words = {DIV_UP(p->n, 4), p->c, p->h, p->w}, shape = {ALIGN(p->n, 4), p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &words, NULL, NULL);
    okk_bdc_fixed_point_packed_add_C(0, 0, 3, &shape, NULL, NULL, S8_OP_S8_TO_S8, 0);
    okk_bdc_fixed_point_packed_max_C(BANK, 0, 0, &shape, NULL, NULL, S8_OP_S8_TO_S8);
    okk_gdma_32bit_cpy_L2S(p->out, BANK, &words, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(six_batches_of_bytes)

/* 16-bit numbers times bytes, from their high and low bytes. */
void halves_by_bytes(const void *args) {
    const args_t *p = args;
    const dim4 pairs = {p->n / 2, p->c, p->h, p->w}, fours = {p->n / 4, p->c, p->h, p->w};
    const dim4 shape = {p->n, p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &pairs, NULL, NULL);
    okk_gdma_32bit_cpy_S2L(BANK, p->in2, &fours, NULL, NULL);
    okk_bdc_fixed_point_packed_16bit_split_high_8bit(2 * BANK, 0, &shape, NULL, NULL);
    okk_bdc_fixed_point_packed_16bit_split_low_8bit(3 * BANK, 0, 0, &shape, NULL, NULL, NULL);
    okk_bdc_fixed_point_packed_16bit_mul_8bit(
        4 * BANK, 2 * BANK, 3 * BANK, BANK, &shape, NULL, NULL, NULL, NULL, S16_MUL_S8_TO_S16, 4);
    okk_gdma_32bit_cpy_L2S(p->out, 4 * BANK, &pairs, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(halves_by_bytes)

/* Bytes of a matrix of 100 columns: the sums have 16 bits. */
void product_of_bytes(const void *args) {
    const args_t *p = args;
    const dim4 left = {p->n, p->k, 1, 1}, right = {p->k, p->w, 1, 1}, result = {p->n, p->w, 1, 1};
    dim4 l, r, halves;
    okk_128_byte_aligned_stride_for_8bit(&l, 0, &left);
    okk_128_byte_aligned_stride_for_8bit(&r, 0, &right);
    okk_128_byte_aligned_stride_for_16bit(&halves, 0, &result);
    const MatmulQuantParam product = {
        .input_l_addr = 0, .input_r_addr = BANK, .output_addr = 2 * BANK, .l_row = p->n, .l_col = p->k,
        .l_tensor_w = 1, .l_tensor_c = p->k, .r_tensor_w = 1, .r_tensor_c = p->w, .input_l_sign = true,
        .input_r_sign = true, .output_16bit = true};
    okk_initialize();
    okk_gdma_8bit_cpy_S2L(0, p->in, &left, &l, NULL);
    okk_gdma_8bit_cpy_S2L(BANK, p->in2, &right, &r, NULL);
    bm_atomic_matmul_quantized(&product);
    okk_parallel_start();
    okk_bdc_add_C(4 * BANK, 3 * BANK, 0.f, &(dim4){1, 1, 1, 1}, NULL, NULL); /* of nothing, for nobody */
    okk_parallel_end();
    okk_gdma_8bit_cpy_L2S(p->scratch, 2 * BANK, &(dim4){p->n, MIN(p->w, NPUS), 1, 2}, NULL, &(dim4){halves.n * 2, 128, 2, 1});
    okk_gdma_16bit_cpy_L2S(p->out, 2 * BANK, &result, NULL, &halves);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(product_of_bytes)

/* A tensor that begins on NPU 3 and goes around, with strides that count its second slot. */
void begins_on_another_lane(const void *args) {
    const args_t *p = args;
    const dim4 shape = {p->n, p->c, p->h, p->w};
    const local_addr_t x = 3 * okk_local_mem_size_per_npu(), y = x + 2 * BANK;
    dim4 stride;
    okk_128_byte_aligned_stride_for_32bit(&stride, 3, &shape);
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(x, p->in, &shape, &stride, NULL);
    okk_bdc_add_C(y, x, 1.f, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, y, &shape, NULL, &stride);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(begins_on_another_lane)

/* Boxes that are near to a better one get 0; the controller reads scores when they have been computed. */
void best_first(const void *args) {
    const args_t *p = args;
    const dim4 row = {1, 1, 1, p->n};
    float *kept = (float *)okk_global_mem_addr(p->out);
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &row, NULL, NULL);
    const float *scores = (const float *)okk_local_mem_addr(0, 0);
    for (int i = 0; i < p->n; i++) {
        okk_poll();
        kept[i] = scores[i] > 0.5f ? 1.f : 0.f;
        if (kept[i] > 0) okk_bdc_mul_C(0, 0, 0.75f, &row, NULL, NULL);
    }
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(best_first)

/* The first launch fills scratch, the second one reads as much of it; `oc` says which it is. */
void scratch_of_two_launches(const void *args) {
    const args_t *p = args;
    const dim4 rows = {1, p->h, 1, p->w};
    okk_initialize();
    if (p->oc == 0) okk_gdma_32bit_cpy_S2S(p->scratch, p->in, &rows, NULL, NULL);
    okk_gdma_32bit_cpy_S2L(0, p->oc == 0 ? p->in : p->scratch, &rows, NULL, NULL);
    okk_bdc_mul_C(0, 0, 2.f, &rows, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &rows, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(scratch_of_two_launches)

/* Scratch is freed and allocated again between launches, and each fills it. */
void scratch_filled_again(const void *args) {
    const args_t *p = args;
    const dim4 row = {1, 1, 1, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2S(p->scratch, p->in, &row, NULL, NULL);
    okk_gdma_32bit_cpy_S2L(0, p->scratch, &row, NULL, NULL);
    okk_bdc_neg(0, 0, &row, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &row, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(scratch_filled_again)

/* Even rows in one launch, odd ones in the other; a height that is odd. */
void rows_of_two_launches(const void *args) {
    const args_t *p = args;
    const dim4 rows = {1, p->c, (p->h - p->oc + 1) / 2, p->w}, apart = {0, p->h * p->w, 2 * p->w, 1};
    const unsigned long long first = p->oc * p->w * FLOAT;
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in + first, &rows, NULL, &apart);
    okk_bdc_relu(0, 0, &rows, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out + first, 0, &rows, &apart, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(rows_of_two_launches)

/* Numbers are sorted in a section, beside a copy of other memory. */
void sorted_beside_a_copy(const void *args) {
    const args_t *p = args;
    const SortParam sort = {
        .input_data_addr = p->in, .output_data_addr = p->out, .input_len = p->n, .output_len = p->k,
        .order = BM_DESCEND};
    okk_initialize();
    okk_parallel_start();
    bm_atomic_sort(&sort);
    okk_gdma_32bit_cpy_S2S(p->out2, p->in, &(dim4){1, 1, 1, p->n}, NULL, NULL);
    okk_parallel_end();
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(sorted_beside_a_copy)

/* Rows and half rows between them; the last one is repeated. */
void rows_between_rows(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w}, row = {1, p->c, 1, p->w}, twice = {1, p->c, 2 * p->h, p->w};
    dim4 in, out;
    okk_128_byte_aligned_stride_for_32bit(&in, 0, &shape);
    okk_128_byte_aligned_stride_for_32bit(&out, 0, &twice);
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    for (int y = 0; y < p->h; y++) {
        const int next = MIN(y + 1, p->h - 1);
        const local_addr_t from = y * p->w * FLOAT, to = 2 * BANK + 2 * from;
        okk_bdc_32bit_cpy(to, from, &row, &out, &in);
        okk_bdc_add(to + p->w * FLOAT, from, next * p->w * FLOAT, &row, &out, &in, &in);
        okk_bdc_mul_C(to + p->w * FLOAT, to + p->w * FLOAT, 0.5f, &row, &out, &out);
    }
    okk_gdma_32bit_cpy_L2S(p->out, 2 * BANK, &twice, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(rows_between_rows)

/* Each row less the first one, last row first, so that it is there until all have been done. */
void first_row_taken_last(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w}, row = {1, p->c, 1, p->w};
    dim4 stride;
    okk_128_byte_aligned_stride_for_32bit(&stride, 0, &shape);
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    for (int h = p->h - 1; h >= 0; h--)
        okk_bdc_sub(h * p->w * FLOAT, h * p->w * FLOAT, 0, &row, &stride, &stride, &stride);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(first_row_taken_last)

/* The result of a convolution begins where its input ends. */
void result_behind_the_input(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    const local_addr_t y = ALIGN(p->h * p->w, 32) * DIV_UP(p->c, NPUS) * FLOAT, weights = 2 * y;
    const Padding pad = {1, 1, 1, 1};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    load_compact(weights, p->in2, (dim4){1, p->c, 3, 3});
    okk_bdc_depthwise2d(y, 0, weights, 0, &shape, 3, 3, false, &pad, NULL, NULL);
    okk_bdc_max(0, y, 0, &shape, NULL, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(result_behind_the_input)

/* The maximum of the row above and this one, from the last row on, in one buffer. */
void larger_of_the_row_above(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w}, row = {1, p->c, 1, p->w};
    dim4 stride;
    okk_128_byte_aligned_stride_for_32bit(&stride, 0, &shape);
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    for (local_addr_t h = p->h - 1; h > 0; h--)
        okk_bdc_max(h * p->w * FLOAT, h * p->w * FLOAT, (h - 1) * p->w * FLOAT, &row, &stride, &stride, &stride);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(larger_of_the_row_above)

/* 8-bit and 16-bit numbers are made of one another in place, by the functions that may. */
void narrowed_in_place(const void *args) {
    const args_t *p = args;
    const dim4 shape = {p->n, p->c, p->h, p->w}, fours = {DIV_UP(p->n, 4), p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_fp32_to_4N_int8(0, 0, BANK, &shape, true);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &fours, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(narrowed_in_place)

/* The mean of each map goes to its beginning, and is divided by the largest number that was there before. */
void mean_over_its_map(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w}, one = {1, p->c, 1, 1};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_max_pool2d(BANK, 0, &shape, p->h, p->w, NULL, NULL);
    okk_bdc_avg_pool2d(0, 0, &shape, p->h, p->w, NULL, NULL);
    okk_bdc_div(0, 0, BANK, &one, NULL, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &one, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(mean_over_its_map)
