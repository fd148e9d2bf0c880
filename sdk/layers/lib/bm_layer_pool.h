/* Pools of data in local memory: what global and local functions of TPU_POOL share. */
#ifndef BM_LAYER_POOL_H
#define BM_LAYER_POOL_H

#include "bm_atomic.h"
#include "bm_layer_axis.h"
#include "bm_layer_local.h"

#define POOL_LOWEST (-3.402823466e+38f) /* where the instruction's maximum begins */

enum { POOL_MAX = 0, POOL_AVERAGE = 1 };

/* Of 8-bit integers in 4N, whose shapes count batches. An average is a sum with one weight for each tap, which lies in
 * temporary; it is never made in two steps. */
typedef struct {
    bool input_sign, output_sign;
    int rshift; /* of an average */
} pool_packed;

/* Everything aligned from NPU 0 on. temporary: bm_pool_temporary_bytes() of memory, or CHIP_LOCAL_BYTES for none. */
typedef struct {
    local_addr_t output, input, temporary;
    dim4 input_shape, output_shape;
    int mode;
    dim2 kernel, stride, dilation;
    Padding pad;
    float factor; /* of an average: what its sums are multiplied by */
    const pool_packed *packed; /* NULL: fp32 */
} pool_work;

/* Bytes per NPU of rows that are pooled along w, but not yet along h. */
static inline long long bm_pool_temporary_bytes(int n, int c, long long rows, int out_w) {
    return local_bytes(n, c, rows, out_w);
}

/* The same of the weights of an average of 8-bit integers. */
static inline long long bm_pool_weight_bytes(int c, int kernel_h, int kernel_w) {
    return local_align((long long)local_slots(c) * kernel_h * kernel_w);
}

/* Puts that weight there, 0..127, for each tap of so many channels. */
void bm_pool_fill_weights(local_addr_t weights, int c, int kernel_h, int kernel_w, int weight);

/* taps: tap by tap with element-wise instructions, for strides and dilations that the pools do not have; the input
 * holds its pads then. */
void bm_pool_compute(const pool_work *w, bool taps);

/* For averages over windows that reach over an edge. Divides by what was counted instead of by the whole kernel: runs
 * of rows (or columns) of equal count together. first: index of the tile's first output row; along_h: rows, otherwise
 * columns. */
void bm_pool_correct(local_addr_t output, const dim4 *shape, const window_axis *a, int first, bool along_h,
                     int counted_before, int counted_after);

#endif
