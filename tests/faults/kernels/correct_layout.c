/* Right, and near to what is wrong: padding, broadcasts, overlaps, lanes. */
#include "faults.h"

/* A whole aligned row is computed, its padding too; only the row is stored. */
void padding_computed_not_stored(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w}, padded = {1, p->c, 1, ALIGN(p->h * p->w, 32)};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_S2L(BANK, p->in2, &shape, NULL, NULL);
    okk_bdc_add(2 * BANK, 0, BANK, &padded, NULL, NULL, NULL);
    okk_bdc_relu(2 * BANK, 2 * BANK, &padded, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 2 * BANK, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(padding_computed_not_stored)

/* The last tile of rows is computed as whole as the others, and stored clipped. */
void garbage_rows_not_stored(const void *args) {
    const args_t *p = args;
    const dim4 tile = {1, NPUS, 1, p->w};
    okk_initialize();
    for (int row = 0; row < p->n; row += NPUS) {
        const dim4 part = {1, MIN(NPUS, p->n - row), 1, p->w};
        const unsigned long long at = (unsigned long long)row * p->w * FLOAT;
        const local_addr_t x = row / NPUS * BANK;
        okk_gdma_32bit_cpy_S2L(x, p->in + at, &part, NULL, NULL);
        okk_bdc_mul_C(x, x, 3.f, &tile, NULL, NULL);
        okk_gdma_32bit_cpy_L2S(p->out + at, x, &part, NULL, NULL);
    }
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(garbage_rows_not_stored)

/* A convolution over a tile rounded up to k rows: results that the lacking rows reach are not stored. */
void convolution_over_a_rounded_tile(const void *args) {
    const args_t *p = args;
    const dim4 loaded = {1, p->c, p->h, p->w}, tile = {1, p->c, p->k, p->w}, result = {1, p->oc, p->h - 2, p->w - 2};
    const dim4 weights = {DIV_UP(p->c, 2), p->oc, 9, 2}, pairs = {9, 9, 3, 1}, all = {1, p->oc, p->k - 2, p->w - 2};
    dim4 compact, in, out;
    okk_compact_stride(&compact, 0, &weights);
    okk_128_byte_aligned_stride_for_32bit(&in, 0, &tile);
    okk_128_byte_aligned_stride_for_32bit(&out, 0, &all);
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &loaded, &in, NULL);
    okk_gdma_32bit_cpy_S2L(2 * BANK, p->in2, &weights, &compact, NULL);
    okk_bdc_conv2d(4 * BANK, 0, 2 * BANK, 0, &tile, p->oc, 3, 3, NULL, &pairs, false, false, NULL, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 4 * BANK, &result, NULL, &out);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(convolution_over_a_rounded_tile)

/* One number per channel for all of its rows and columns, by strides of 0. */
void broadcast_by_strides_of_zero(const void *args) {
    const args_t *p = args;
    const dim4 shape = {p->n, p->c, p->h, p->w}, vector = {1, p->c, 1, 1}, per_channel = {0, 1, 0, 0};
    dim4 compact;
    okk_compact_stride(&compact, 0, &vector);
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_S2L(4 * BANK, p->in2, &vector, &compact, NULL);
    okk_bdc_mul(0, 0, 4 * BANK, &shape, NULL, NULL, &per_channel);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(broadcast_by_strides_of_zero)

/* One row for all channels: every lane gets it by a stride of 0 in DDR. */
void row_for_all_lanes(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w}, row = {1, p->c, 1, p->w}, same = {0, 0, 0, 1};
    dim4 local;
    okk_128_byte_aligned_stride_for_32bit(&local, 0, &row);
    local.h = 0;
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_S2L(4 * BANK, p->in2, &row, NULL, &same);
    okk_bdc_add(0, 0, 4 * BANK, &shape, NULL, NULL, &local);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(row_for_all_lanes)

/* Windows of four columns at every column: strides in DDR that overlap. */
void overlapping_windows(const void *args) {
    const args_t *p = args;
    const dim4 windows = {1, p->c, p->w - 3, 4}, from = {0, p->w, 1, 1};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &windows, NULL, &from);
    okk_bdc_avg_pool2d_v2(2 * BANK, 0, &windows, 1, 4, NULL, NULL, 1.f);
    okk_gdma_32bit_cpy_L2S(p->out, 2 * BANK, &(dim4){1, p->c, p->w - 3, 1}, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(overlapping_windows)

/* The result overwrites the operand, in DDR and in local memory. */
void in_place(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->out, &shape, NULL, NULL);
    okk_bdc_mul(0, 0, 0, &shape, NULL, NULL, NULL);
    okk_bdc_add_C(0, 0, 1.f, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(in_place)

/* y[h] = x[h] + x[h - 1], zero above: the zero row is made, and the operands overlap. */
void halo_cleared(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w}, row = {1, p->c, 1, p->w}, framed = {1, p->c, p->h + 1, p->w};
    dim4 stride;
    okk_128_byte_aligned_stride_for_32bit(&stride, 0, &framed);
    const local_addr_t below = p->w * FLOAT;
    okk_initialize();
    okk_bdc_32bit_set_C(0, (x32){.fp32 = 0}, &row, &stride);
    okk_gdma_32bit_cpy_S2L(below, p->in, &shape, &stride, NULL);
    okk_bdc_add(4 * BANK, below, 0, &shape, NULL, &stride, &stride);
    okk_gdma_32bit_cpy_L2S(p->out, 4 * BANK, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(halo_cleared)

/* Rows are read backwards. */
void rows_backwards(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    dim4 up;
    okk_128_byte_aligned_stride_for_32bit(&up, 0, &shape);
    up.h = -p->w;
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_32bit_cpy(4 * BANK, (p->h - 1) * p->w * FLOAT, &shape, NULL, &up);
    okk_gdma_32bit_cpy_L2S(p->out, 4 * BANK, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(rows_backwards)

/* A transposition by strides of the store. */
void transposed_by_strides(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->h, p->w, 1}, out = {0, 1, p->h, 1};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, &out, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(transposed_by_strides)

/* The inside of an image, k rows and columns from each edge: its last row ends before the image does. */
void inside_of_an_image(const void *args) {
    const args_t *p = args;
    const int h = p->h - 2 * p->k, w = p->w - 2 * p->k;
    const dim4 window = {1, p->c, h, w}, image = {0, p->h * p->w, p->w, 1};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in + (p->k * p->w + p->k) * FLOAT, &window, NULL, &image);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &window, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(inside_of_an_image)

/* The result is written in two halves of columns. */
void result_in_two_halves(const void *args) {
    const args_t *p = args;
    const int left = p->w / 2, right = p->w - left;
    const dim4 rows = {0, p->h * p->w, p->w, 1};
    okk_initialize();
    for (int side = 0; side < 2; side++) {
        const dim4 half = {1, p->c, p->h, side ? right : left};
        const unsigned long long from = (side ? left : 0) * FLOAT;
        okk_gdma_32bit_cpy_S2L(0, p->in + from, &half, NULL, &rows);
        okk_bdc_neg(0, 0, &half, NULL, NULL);
        okk_gdma_32bit_cpy_L2S(p->out + from, 0, &half, &rows, NULL);
    }
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(result_in_two_halves)

/* One allocation holds three tensors, whose neighbours are read by their own commands. */
void parts_of_one_buffer(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    const unsigned long long bytes = (unsigned long long)p->c * p->h * p->w * FLOAT;
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_S2L(BANK, p->in + bytes, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_S2L(2 * BANK, p->in + 2 * bytes, &shape, NULL, NULL);
    okk_bdc_mul(0, 0, BANK, &shape, NULL, NULL, NULL);
    okk_bdc_add(0, 0, 2 * BANK, &shape, NULL, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(parts_of_one_buffer)

/* 100 channels: the second slot of lanes 36 to 63 is never loaded, computed or stored. */
void second_slot_half_full(const void *args) {
    const args_t *p = args;
    const dim4 shape = {p->n, p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_sigmoid(2 * BANK, 0, 4 * BANK, &shape);
    okk_gdma_32bit_cpy_L2S(p->out, 2 * BANK, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(second_slot_half_full)

/* The same, with all slots of all lanes computed as one flat row of a lane. */
void slots_as_one_row(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    const dim4 flat = {1, NPUS, 1, DIV_UP(p->c, NPUS) * ALIGN(p->h * p->w, 32)};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_mul_C(0, 0, 2.f, &flat, NULL, NULL);
    okk_bdc_max_C(0, 0, 1.f, &flat, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(slots_as_one_row)

/* Tensors that begin on lane 40 and go around to lane 0. */
void around_the_lanes(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    const local_addr_t start = 40 * okk_local_mem_size_per_npu();
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(start, p->in, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_S2L(start + 2 * BANK, p->in2, &shape, NULL, NULL);
    okk_bdc_sub(start + 4 * BANK, start, start + 2 * BANK, &shape, NULL, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, start + 4 * BANK, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(around_the_lanes)

/* Loaded compact, used compact. */
void compact_all_the_way(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    dim4 compact;
    okk_compact_stride(&compact, 0, &shape);
    okk_initialize();
    okk_gdma_compact_S2L(0, p->in, &shape);
    okk_bdc_add_C(2 * BANK, 0, 1.f, &shape, &compact, &compact);
    okk_gdma_32bit_cpy_L2S(p->out, 2 * BANK, &shape, NULL, &compact);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(compact_all_the_way)

/* Channels between each other: two tensors in the even and odd rows of one. */
void interleaved_rows(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w}, both = {1, p->c, 2 * p->h, p->w};
    dim4 twice;
    okk_128_byte_aligned_stride_for_32bit(&twice, 0, &both);
    twice.h = 2 * p->w;
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, &twice, NULL);
    okk_gdma_32bit_cpy_S2L(p->w * FLOAT, p->in2, &shape, &twice, NULL);
    okk_bdc_add_C(0, 0, 1.f, &both, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &both, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(interleaved_rows)

/* Only what is selected counts: the other operand is a constant. */
void selected_or_constant(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    const fp32_or_addr_t x = {.is_addr = true, .context.addr = 0}, zero = {.is_addr = false, .context.val = 0};
    const x32_or_addr_t then = {.is_addr = true, .context.addr = 0}, other = {.is_addr = false, .context.val = {.fp32 = -1}};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_greater_select(2 * BANK, &x, &zero, &then, &other, &shape);
    okk_gdma_32bit_cpy_L2S(p->out, 2 * BANK, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(selected_or_constant)

/* A border of zeros, its corners cleared twice. */
void border_cleared(const void *args) {
    const args_t *p = args;
    const dim4 inner = {1, p->c, p->h, p->w}, framed = {1, p->c, p->h + 2, p->w + 2};
    const dim4 row = {1, p->c, 1, p->w + 2}, column = {1, p->c, p->h + 2, 1};
    dim4 stride;
    okk_128_byte_aligned_stride_for_32bit(&stride, 0, &framed);
    okk_initialize();
    okk_bdc_32bit_set_C(0, (x32){.fp32 = 0}, &row, &stride);
    okk_bdc_32bit_set_C((p->h + 1) * (p->w + 2) * FLOAT, (x32){.fp32 = 0}, &row, &stride);
    okk_bdc_32bit_set_C(0, (x32){.fp32 = 0}, &column, &stride);
    okk_bdc_32bit_set_C((p->w + 1) * FLOAT, (x32){.fp32 = 0}, &column, &stride);
    okk_gdma_32bit_cpy_S2L((p->w + 3) * FLOAT, p->in, &inner, &stride, NULL);
    okk_bdc_avg_pool2d_v2(2 * BANK, 0, &framed, 3, 3, NULL, NULL, 1.f);
    okk_gdma_32bit_cpy_L2S(p->out, 2 * BANK, &inner, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(border_cleared)

/* All of local memory: the last tensor ends where it ends. */
void to_the_end_of_local(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w}; /* 64 KiB a lane */
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(7 * BANK, p->in, &shape, NULL, NULL);
    okk_bdc_add_C(6 * BANK, 7 * BANK, 1.f, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 6 * BANK, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(to_the_end_of_local)

/* A column of lanes is filled by GDMA, the rest of them by a copy within local memory. */
void lanes_filled_in_two_ways(const void *args) {
    const args_t *p = args;
    const dim4 half = {1, p->c / 2, p->h, p->w}, shape = {1, p->c, p->h, p->w};
    const local_addr_t second = p->c / 2 * okk_local_mem_size_per_npu();
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &half, NULL, NULL);
    okk_gdma_32bit_cpy_L2L(second, 0, &half, NULL, NULL);
    okk_bdc_mul_C(0, 0, 2.f, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(lanes_filled_in_two_ways)

/* x - max(x) of rows that are padded, and the maximum lies in the padding's lane line. */
void maximum_beside_the_row(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, 1, p->w}, once = {0, 0, 0, 0};
    const local_addr_t largest = ALIGN(p->w * FLOAT, 128);
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_max_pool2d(largest, 0, &shape, 1, p->w, NULL, NULL);
    okk_bdc_sub(0, 0, largest, &shape, NULL, NULL, &once);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(maximum_beside_the_row)

/* A tensor of zeros by x ^ x. */
void zeros_by_xor(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    okk_initialize();
    okk_bdc_32bit_set_C(0, (x32){.fp32 = 3}, &shape, NULL);
    okk_bdc_32bit_xor(BANK, 0, 0, &shape, NULL, NULL, NULL);
    okk_bdc_add(0, 0, BANK, &shape, NULL, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(zeros_by_xor)

/* The result goes to two places. */
void stored_twice(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_add_C(0, 0, 1.f, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 0, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out2, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(stored_twice)

/* Compact rows from an address that is a multiple of 4 and not of 128. */
void off_the_lines(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, p->c, p->h, p->w};
    dim4 compact;
    okk_compact_stride(&compact, 0, &shape);
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(36, p->in, &shape, &compact, NULL);
    okk_bdc_mul_C(BANK + 4, 36, 2.f, &shape, &compact, &compact);
    okk_gdma_32bit_cpy_L2S(p->out, BANK + 4, &shape, NULL, &compact);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(off_the_lines)

/* Diagonals by a stride of a row and a column. */
void diagonal(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, 1, p->w, 1}, from = {0, 0, p->w + 1, 1};
    okk_initialize();
    okk_gdma_32bit_cpy_S2S(p->out, p->in, &shape, NULL, &from);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(diagonal)

/* Channels c and c + 64 share a lane: the sum of both slots of each. */
void slots_added(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, 128, p->h, p->w}, half = {1, NPUS, p->h, p->w};
    const local_addr_t second = ALIGN(p->h * p->w, 32) * FLOAT;
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, p->in, &shape, NULL, NULL);
    okk_bdc_add(4 * BANK, 0, second, &half, NULL, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->out, 4 * BANK, &half, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(slots_added)
