/* Arithmetic that the chip has no instruction for, or only an inexact one: element by element on tensors in local
 * memory. All buffers are aligned and of one shape unless they come as bm_local.
 */
#ifndef BM_LAYER_ARITHMETIC_H
#define BM_LAYER_ARITHMETIC_H

#include "bm_layer_tiles.h"
#include "bm_layer_words.h"

/* The aligned tensor [n, c, h, w] in local memory from NPU 0 on as [1, c, lines, words of a line], padding included. */
dim4 bm_flat(const dim4 *shape);

/* y = 1 / (BM_INVERSE a) for normal numbers a, with a relative error below 2.5e-7 (for |a| below 2**100; beyond, the
 * absolute error grows to 6e-39). The chip's division takes three times as long. All bits of a but its sign turned over
 * are a number near 4.25 / a: the exponent with its sign changed, and of the mantissa what is left to the next power of
 * 2. What that lacks is a series in e, at most 0.0607. Of the constants that make the error small this one makes 1 / 1
 * exact, and 1 / a at most 1 from there on. NaN, infinity and zero give NaN. t: a work buffer; y, a and t differ. */
#define BM_INVERSE 0x1.e2b342p-3f /* 0.2357 */
void bm_inverse(local_addr_t y, local_addr_t a, local_addr_t t, const dim4 *s);

/* y = 1 / a, as bm_inverse */
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
