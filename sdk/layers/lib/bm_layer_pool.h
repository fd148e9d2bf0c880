/* Pools of data in local memory: what global and local functions of TPU_POOL share. */
#ifndef BM_LAYER_POOL_H
#define BM_LAYER_POOL_H

#include "bm_atomic.h"
#include "bm_layer_axis.h"
#include "bm_layer_local.h"

#define POOL_LOWEST (-3.402823466e+38f) /* where the instruction's maximum begins */

enum { POOL_MAX = 0, POOL_AVERAGE = 1 };

/* Everything aligned from NPU 0 on. temporary: bm_pool_temporary_bytes() of memory, or CHIP_LOCAL_BYTES for none. */
typedef struct {
    local_addr_t output, input, temporary;
    dim4 input_shape, output_shape;
    int mode;
    dim2 kernel, stride, dilation;
    Padding pad;
    float factor; /* of an average: what its sums are multiplied by */
} pool_work;

/* Bytes per NPU of rows that are pooled along w, but not yet along h. */
static inline long long bm_pool_temporary_bytes(int n, int c, long long rows, int out_w) {
    return local_bytes(n, c, rows, out_w);
}

/* taps: tap by tap with element-wise instructions, for strides and dilations that the pools do not have; the input
 * holds its pads then. */
void bm_pool_compute(const pool_work *w, bool taps);

/* For averages over windows that reach over an edge. Divides by what was counted instead of by the whole kernel: runs
 * of rows (or columns) of equal count together. first: index of the tile's first output row; along_h: rows, otherwise
 * columns. */
void bm_pool_correct(local_addr_t output, const dim4 *shape, const window_axis *a, int first, bool along_h,
                     int counted_before, int counted_after);

#endif
