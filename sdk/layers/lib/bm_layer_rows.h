/* Rows of a tile in local memory: the w of [n, c, h, w], whole in a lane. */
#ifndef BM_LAYER_ROWS_H
#define BM_LAYER_ROWS_H

#include "bm_layer_local.h"

#define BM_PICTURE_COLUMNS 1024 /* that a convolution takes at a time, where a picture's side may not have all */

/* A row of `length` numbers in the first lane to that many lanes. A product with 1, in which a zero loses its sign. */
void bm_spread_row(local_addr_t target, local_addr_t source, int lanes, int length);

/* y = e^(x - the row's largest x) and in each row of work, as its first element, their sum. All buffers have x's
 * layout, that of [n, c, h, w] aligned; d may be x, otherwise x stays. */
void bm_row_powers(local_addr_t y, local_addr_t x, local_addr_t d, local_addr_t work, const dim4 *shape);

/* y = 1 / x, by the chip's reciprocal and a step of Newton's, of what lies by `stride`: rows' first elements; x is
 * overwritten. */
void bm_row_reciprocals(local_addr_t y, local_addr_t x, const dim4 *shape, const dim4 *stride);

/* A product of matrices in local memory: rows of the left one are channels and so weights of a convolution as they lie;
 * rows of the right one are channels, too, its picture. The result's rows lie as the left one's. */
typedef struct {
    int rows, sums, columns;             /* sums: even, or the left rows have a zero behind them */
    int left_slot, right_slot, out_slot; /* words from one slot of channels to the next; out_slot in whole lines */
} bm_row_product;

/* y = x times right; y at a line, x at a multiple of 8. */
void bm_multiply_rows(const bm_row_product *p, local_addr_t y, local_addr_t x, local_addr_t right);

#endif
