#include "bm_layer_rows.h"

#include "bm_layer_functions.h"
#include "bm_layer_reduce.h"

#define STEP 1024 /* columns that a copy to the lanes takes at a time: a picture's side is limited */

void bm_spread_row(local_addr_t target, local_addr_t source, int lanes, int length) {
    for (int first = 0; first < length; first += STEP) {
        const dim4 part = {1, lanes, 1, smaller(STEP, length - first)}, from = {0, part.w, part.w, 1};
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
    bm_exp(y, d, work, &flat);
    bm_fold_last(BM_FOLD_SUM, work, y, &one, &stride, shape->w);
}

void bm_row_reciprocals(local_addr_t y, local_addr_t x, const dim4 *shape) {
    const dim4 one = {shape->n, shape->c, shape->h, 1};
    dim4 stride;
    okk_128_byte_aligned_stride_for_32bit(&stride, 0, shape);
    okk_bdc_C_div(y, x, 1.0f, &one, &stride, &stride);
    okk_bdc_mul(x, x, y, &one, &stride, &stride, &stride);
    okk_bdc_C_sub(x, x, 2.0f, &one, &stride, &stride);
    okk_bdc_mul(y, y, x, &one, &stride, &stride, &stride);
}
