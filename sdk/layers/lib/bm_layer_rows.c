#include "bm_layer_rows.h"

#include "bm_layer_functions.h"
#include "bm_layer_reduce.h"

#define SUMS (CHIP_CHANNELS_WHOLE - CHIP_NPU_NUM) /* channels of a picture at a time: whole slots, an even number */

void bm_spread_row(local_addr_t target, local_addr_t source, int lanes, int length) {
    for (int first = 0; first < length; first += BM_PICTURE_COLUMNS) {
        const dim4 part = {1, lanes, 1, smaller(BM_PICTURE_COLUMNS, length - first)}, from = {0, part.w, part.w, 1};
        const local_addr_t at = 4u * (local_addr_t)first;
        okk_bdc_npu_bcast(target + at, source + at, &part, &from);
    }
}

void bm_row_powers(local_addr_t y, local_addr_t x, local_addr_t d, local_addr_t work, const dim4 *shape) {
    const dim4 one = {shape->n, shape->c, shape->h, 1}, flat = bm_flat(shape);
    dim4 stride, once;
    okk_128_byte_aligned_stride_for_32bit(&stride, 0, shape);
    once = stride;
    once.w = 0;
    bm_fold_last(BM_FOLD_MAX, work, x, &one, &stride, shape->w);
    okk_bdc_sub(d, x, work, shape, &stride, &stride, &once);
    bm_exp_below_0(y, d, work, &flat); /* what fills up lines may be anything */
    bm_fold_last(BM_FOLD_SUM, work, y, &one, &stride, shape->w);
}

void bm_row_reciprocals(local_addr_t y, local_addr_t x, const dim4 *shape, const dim4 *stride) {
    okk_bdc_C_div(y, x, 1.0f, shape, stride, stride);
    okk_bdc_mul(x, x, y, shape, stride, stride, stride);
    okk_bdc_C_sub(x, x, 2.0f, shape, stride, stride);
    okk_bdc_mul(y, y, x, shape, stride, stride, stride);
}

/* All sums of some columns, for rows that a convolution makes at once. */
static void convolve(const bm_row_product *p, local_addr_t y, local_addr_t x, local_addr_t right, int rows,
                     int columns) {
    const dim4 from = {0, p->right_slot, columns, 1}, pairs = {1, p->left_slot / 2, 1, 1};
    for (int sum = 0; sum < p->sums; sum += SUMS) {
        const dim4 picture = {1, smaller(SUMS, p->sums - sum), 1, columns};
        okk_bdc_conv2d(y, right + 4u * (local_addr_t)(sum / CHIP_NPU_NUM * p->right_slot),
                       x + 4u * (local_addr_t)sum, 0, &picture, rows, 1, 1, &from, &pairs, false, sum > 0, NULL, NULL,
                       NULL);
    }
}

void bm_multiply_rows(const bm_row_product *p, local_addr_t y, local_addr_t x, local_addr_t right) {
    if (p->columns < CHIP_WINDOW_SIDE_MAX && (p->out_slot == local_line(p->columns) || p->rows <= CHIP_NPU_NUM)) {
        convolve(p, y, x, right, p->rows, p->columns);
        return;
    }
    for (int slot = 0; slot < local_slots(p->rows); slot++)
        for (int first = 0; first < p->columns; first += BM_PICTURE_COLUMNS)
            convolve(p, y + 4u * (local_addr_t)(slot * p->out_slot + first),
                     x + 4u * (local_addr_t)(slot * p->left_slot), right + 4u * (local_addr_t)first,
                     smaller(CHIP_NPU_NUM, p->rows - slot * CHIP_NPU_NUM), smaller(BM_PICTURE_COLUMNS, p->columns - first));
}
