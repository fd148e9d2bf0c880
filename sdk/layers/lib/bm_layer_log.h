/* Natural logarithm of fp32 numbers in local memory.
 *
 * x = m * 2^k with m in (0.707, 1.415): log x = k ln 2 + log m, a polynomial in m - 1. The error is a few units in the
 * last place, also near x = 1.
 */
#ifndef BM_LAYER_LOG_H
#define BM_LAYER_LOG_H

#include "okk.h"

/* dst = log src. 0 and denormals give -inf, numbers below 0 and NaN give NaN, inf gives inf. All lie in the aligned
 * layout at whole lines: dst, src (which is overwritten) and two work buffers. */
void bm_log(local_addr_t dst, local_addr_t src, local_addr_t work, local_addr_t work2, const dim4 *shape);

#endif
