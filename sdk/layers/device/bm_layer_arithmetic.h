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

/* 1 / b as r * scale, for every b: b = m * 2**e; the mantissa m (1 to 2, with b's sign) is inverted to r = 1 / 2m, and
 * flipping the exponent's bits makes scale = 2 * 2**-e, which is 0 for infinity and infinity for zero. r is NaN where b
 * is. t: a work buffer. */
static inline void bm_invert(local_addr_t r, local_addr_t scale, bm_local b, local_addr_t t, const dim4 *s) {
    okk_bdc_32bit_cpy(r, b.addr, s, NULL, b.stride);
    bm_nan_of(t, r, s);
    bm_and_C(scale, r, BM_SIGN | BM_MANTISSA, s);
    bm_or_C(scale, scale, BM_ONE, s);
    bm_or(scale, scale, t, s);
    bm_reciprocal(r, scale, t, s);
    bm_mul_C(r, r, 0.5f, s);
    okk_bdc_32bit_and_C(scale, b.addr, bm_word(BM_EXPONENT), s, NULL, b.stride);
    bm_xor_C(scale, scale, BM_EXPONENT, s);
}

/* y = a / b for all fp32 numbers. Three work buffers from `work` on, `step` bytes apart; y may be a or b.
 * Where |a| < 1, a * scale cannot overflow; elsewhere a * r cannot underflow. */
static inline void bm_divide(local_addr_t y, bm_local a, bm_local b, local_addr_t work, unsigned int step,
                             const dim4 *s) {
    const local_addr_t t = work, r = work + step, scale = work + 2 * step;
    bm_invert(r, scale, b, t, s);
    okk_bdc_mul(t, a.addr, r, s, NULL, a.stride, NULL);
    bm_mul(t, t, scale, s); /* of large a */
    okk_bdc_mul(scale, a.addr, scale, s, NULL, a.stride, NULL);
    bm_mul(scale, scale, r, s); /* of small a */
    okk_bdc_32bit_and_C(r, a.addr, bm_word(BM_MAGNITUDE), s, NULL, a.stride);
    bm_greater_C(r, r, 0.99999994f, BM_ONES, s);
    bm_choose(y, r, t, scale, s);
}

/* y = the integer next to a, ties to even, for |a| < 2**23 (others become something else). t: a work buffer; y is
 * neither a nor t. */
static inline void bm_nearest(local_addr_t y, local_addr_t a, local_addr_t t, const dim4 *s) {
    bm_and_C(t, a, BM_MAGNITUDE, s);
    bm_add_C(t, t, 8388608.0f, s);
    bm_add_C(t, t, -8388608.0f, s);
    bm_and_C(y, a, BM_SIGN, s);
    bm_or(y, y, t, s);
}

#endif
