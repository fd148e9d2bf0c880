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

/* y = x's sign and mantissa as a number of magnitude 1 to 2, NaN where x is. t: a work buffer. */
static inline void bm_mantissa(local_addr_t y, bm_local x, local_addr_t t, const dim4 *s) {
    okk_bdc_32bit_cpy(y, x.addr, s, NULL, x.stride);
    bm_nan_of(t, y, s);
    bm_and_C(y, y, BM_SIGN | BM_MANTISSA, s);
    bm_or_C(y, y, BM_ONE, s);
    bm_or(y, y, t, s);
}

/* y = 2 / 2**e for x = m * 2**e, 1 <= |m| < 2: the exponent's bits flipped, so 0 for infinity and infinity for zero. */
static inline void bm_inverse_power(local_addr_t y, bm_local x, const dim4 *s) {
    okk_bdc_32bit_and_C(y, x.addr, bm_word(BM_EXPONENT), s, NULL, x.stride);
    bm_xor_C(y, y, BM_EXPONENT, s);
}

/* y = a / b for all fp32 numbers: nearly always the number next to the quotient, and the quotient itself where it is a
 * number. The mantissas are divided and the quotient corrected by what is left; then come the exponents. Work buffers
 * from `work` on, `step` bytes apart; y may be a or b. */
#define BM_DIVIDE_WORK 6
static inline void bm_divide(local_addr_t y, bm_local a, bm_local b, local_addr_t work, unsigned int step,
                             const dim4 *s) {
    const unsigned int upper = 0xFFFFF000u; /* of the mantissa's 24 bits the first 12 */
    const local_addr_t rest = work, m = work + step, r = work + 2 * step;
    const local_addr_t q = work + 3 * step, u = work + 4 * step, t = work + 5 * step;
    bm_mantissa(rest, a, t, s);
    bm_mantissa(m, b, t, s);
    bm_reciprocal(r, m, t, s);
    bm_mul(q, rest, r, s);
    /* rest -= q m, with q and m in halves so that the first two products are exact */
    bm_and_C(u, q, upper, s);
    bm_xor_C(u, u, BM_SIGN, s);
    bm_and_C(t, m, upper, s);
    okk_bdc_mac(rest, u, t, s, NULL, NULL, NULL);
    bm_sub(t, m, t, s);
    okk_bdc_mac(rest, u, t, s, NULL, NULL, NULL);
    bm_add(u, u, q, s);
    bm_xor_C(u, u, BM_SIGN, s);
    okk_bdc_mac(rest, u, m, s, NULL, NULL, NULL);
    okk_bdc_mac(q, rest, r, s, NULL, NULL, NULL);
    bm_mul_C(q, q, 0.5f, s);
    okk_bdc_32bit_and_C(t, a.addr, bm_word(BM_EXPONENT), s, NULL, a.stride);
    bm_inverse_power(u, b, s);
    bm_mul(rest, q, t, s); /* cannot underflow where |a| is not below 1 */
    bm_mul(rest, rest, u, s);
    bm_mul(m, t, u, s); /* cannot overflow where it is */
    bm_mul(m, m, q, s);
    okk_bdc_32bit_and_C(r, a.addr, bm_word(BM_MAGNITUDE), s, NULL, a.stride);
    bm_greater_C(r, r, 0.99999994f, BM_ONES, s);
    bm_choose(y, r, rest, m, s);
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
