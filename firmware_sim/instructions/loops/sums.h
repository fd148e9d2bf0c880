/* Sums of products in the chip's order: each chain adds every second tap, the product rounded first.
 *
 * Tiles of neighbouring results (tiles.h) are independent of each other, so the order of each sum stays. */
#ifndef TPULAYER_SUMS_H
#define TPULAYER_SUMS_H

#include "tiles.h"

/* Inputs and weights of tl_shared: xs[halves, elements], ws[halves, rows, taps], base[taps]. */
typedef struct {
    const float *xs, *ws;
    const int64_t *base;
    int64_t halves, elements, rows, taps;
} tl_products;

/* Rows [r0, r1) and columns [s0, s1) of out[rows, columns]; all rows see the same inputs.
 *
 * Result s of a half is the sum over taps of xs[half, base[t] + s] * ws[half, row, t], in two chains by the parity
 * of t; chains and halves are then added in this order. One half: matrix products. Two: convolutions. */
int64_t tl_shared(const tl_products *p, float *out, int64_t columns, int64_t r0, int64_t r1, int64_t s0, int64_t s1);

/* Rows [r0, r1) of out[rows, columns]; row r sees its own inputs x[r, elements] and weights w[r, taps].
 *
 * Two chains by the parity of the tap, added in this order: depthwise convolution. */
void tl_separate(const float *x, int64_t elements, const float *w, const int64_t *base, int64_t taps, float *out,
                 int64_t columns, int64_t r0, int64_t r1);

#endif
