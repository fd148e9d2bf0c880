/* How TPU_MATMUL multiplies; its descriptor asks too. */
#ifndef BM_LAYER_PRODUCT_H
#define BM_LAYER_PRODUCT_H

#include "bm1684_chip.h"

/* Columns of the result in a channel, and of a block of a prepared right matrix. */
#define PRODUCT_BLOCK CHIP_ALIGN_WORDS

#define PRODUCT_STEP (CHIP_NPU_NUM * 16) /* columns that a matrix product computes at a time */

/* Whether the convolution is faster than the matrix product, for m rows and n columns. For k summands the product takes
 * m * n / PRODUCT_STEP steps, n / PRODUCT_STEP rounded up; the convolution about m / CHIP_NPU_NUM * n / 27,
 * m / CHIP_NPU_NUM rounded up. */
static inline int product_by_convolution(long long m, int n) {
    return m > 1 && 27 * m > (n < PRODUCT_STEP ? n : PRODUCT_STEP);
}

#endif
