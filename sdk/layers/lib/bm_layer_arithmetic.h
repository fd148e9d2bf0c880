/* Arithmetic that the chip has no instruction for, or only an inexact one: element by element on tensors in local
 * memory. All buffers are aligned and of one shape unless they come as bm_local.
 */
#ifndef BM_LAYER_ARITHMETIC_H
#define BM_LAYER_ARITHMETIC_H

#include "bm_layer_tiles.h"
#include "bm_layer_words.h"

/* y = 1 / a for |a| in 2**-124 .. 2**126 (up to infinity, where the result is 0 or nearly): the chip's reciprocal,
 * 1.2e-7 off, and one Newton step, which makes 1 / 1 exact. t: a work buffer; y, a and t differ. */
void bm_reciprocal(local_addr_t y, local_addr_t a, local_addr_t t, const dim4 *s);

/* y = x's sign and mantissa as a number of magnitude 1 to 2, NaN where x is. t: a work buffer. */
void bm_mantissa(local_addr_t y, bm_local x, local_addr_t t, const dim4 *s);

/* y = 2 / 2**e for x = m * 2**e, 1 <= |m| < 2: the exponent's bits flipped, so 0 for infinity and infinity for zero. */
static inline void bm_inverse_power(local_addr_t y, bm_local x, const dim4 *s) {
    okk_bdc_32bit_and_C(y, x.addr, bm_word(BM_EXPONENT), s, NULL, x.stride);
    bm_xor_C(y, y, BM_EXPONENT, s);
}

/* y = a / b for all fp32 numbers: nearly always the number next to the quotient, and the quotient itself where it is a
 * number. The mantissas are divided and the quotient corrected by what is left; then come the exponents. Work buffers
 * from `work` on, `step` bytes apart; y may be a or b. */
#define BM_DIVIDE_WORK 6
void bm_divide(local_addr_t y, bm_local a, bm_local b, local_addr_t work, unsigned int step, const dim4 *s);

/* y = the integer next to a, ties to even, for |a| < 2**23 (others become something else). t: a work buffer; y is
 * neither a nor t. */
void bm_nearest(local_addr_t y, local_addr_t a, local_addr_t t, const dim4 *s);

#endif
