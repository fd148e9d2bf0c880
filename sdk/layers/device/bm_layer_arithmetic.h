/* Arithmetic that the chip has no instruction for, or only an inexact one: element by element on tensors in local
 * memory. All buffers are aligned and of one shape unless they come as bm_local.
 */
#ifndef BM_LAYER_ARITHMETIC_H
#define BM_LAYER_ARITHMETIC_H

#include "bm_layer_tiles.h"
#include "bm_layer_words.h"

/* y = 1 / a for |a| in 2**-124 .. 2**126 (up to infinity, where the result is 0 or nearly): the chip's reciprocal,
 * 1.2e-7 off, and one Newton step, which makes 1 / 1 exact. t: a work buffer; y, a and t differ. */
static inline void bm_reciprocal(local_addr_t y, local_addr_t a, local_addr_t t, const dim4 *s) {
    okk_bdc_reciprocal(y, a, s, NULL, NULL);
    bm_mul(t, a, y, s);
    bm_C_sub(t, t, 2.0f, s);
    bm_mul(y, y, t, s);
}

/* y = a / b for all fp32 numbers. Three work buffers from `work` on, `step` bytes apart; y may be a or b.
 *
 * b = m * 2**e: the mantissa m (1 to 2, with b's sign) is inverted, 2 * 2**-e comes from flipping the exponent's bits,
 * which makes 0 of infinity and infinity of zero. Where |a| < 1, a * (2 * 2**-e) cannot overflow; elsewhere
 * a * (1 / 2m) cannot underflow. */
static inline void bm_divide(local_addr_t y, bm_local a, bm_local b, local_addr_t work, unsigned int step,
                             const dim4 *s) {
    const local_addr_t t = work, r = work + step, scale = work + 2 * step;
    okk_bdc_32bit_cpy(r, b.addr, s, NULL, b.stride);
    bm_nan_of(t, r, s);
    bm_and_C(scale, r, BM_SIGN | BM_MANTISSA, s);
    bm_or_C(scale, scale, BM_ONE, s);
    bm_or(scale, scale, t, s);
    bm_reciprocal(r, scale, t, s);
    bm_mul_C(r, r, 0.5f, s);
    okk_bdc_32bit_and_C(scale, b.addr, bm_word(BM_EXPONENT), s, NULL, b.stride);
    bm_xor_C(scale, scale, BM_EXPONENT, s);
    okk_bdc_mul(t, a.addr, r, s, NULL, a.stride, NULL);
    bm_mul(t, t, scale, s); /* of large a */
    okk_bdc_mul(scale, a.addr, scale, s, NULL, a.stride, NULL);
    bm_mul(scale, scale, r, s); /* of small a */
    okk_bdc_32bit_and_C(r, a.addr, bm_word(BM_MAGNITUDE), s, NULL, a.stride);
    bm_greater_C(r, r, 0.99999994f, BM_ONES, s);
    bm_choose(y, r, t, scale, s);
}

#endif
