/* How TPU_MATMUL multiplies; its descriptor asks too. */
#ifndef BM_LAYER_PRODUCT_H
#define BM_LAYER_PRODUCT_H

#define PRODUCT_BLOCK 32 /* columns of the result in a channel, and of a block of a prepared right matrix */

/* Whether the convolution is faster than the matrix product, for m rows and n columns. For k summands the product takes
 * m * n / 1024 steps, n / 1024 rounded up; the convolution about m / 64 * n / 27, m / 64 rounded up. */
static inline int product_by_convolution(long long m, int n) { return m > 1 && 27 * m > (n < 1024 ? n : 1024); }

#endif
