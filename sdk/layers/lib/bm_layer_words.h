/* Short names for instructions on whole tensors in local memory: all operands aligned, of one shape; _C: the second
 * is a constant. Comparisons that make masks give words of ones where they hold and of zeros elsewhere.
 */
#ifndef BM_LAYER_WORDS_H
#define BM_LAYER_WORDS_H

#include "okk.h"

#define BM_SIGN 0x80000000u
#define BM_MAGNITUDE 0x7FFFFFFFu
#define BM_EXPONENT 0x7F800000u
#define BM_MANTISSA 0x007FFFFFu
#define BM_ONES 0xFFFFFFFFu
#define BM_ONE 0x3F800000u  /* 1.0 */
#define BM_NAN 0x7FC00000u
#define BM_FLT_MAX 3.402823466e+38f
#define BM_FLT_MIN 1.175494351e-38f
#define BM_INFINITY __builtin_inff()

static inline x32 bm_word(unsigned int bits) { return (x32){.u32 = bits}; }

/* ---- fp32 ---- */

static inline void bm_add(local_addr_t y, local_addr_t a, local_addr_t b, const dim4 *s) {
    okk_bdc_add(y, a, b, s, NULL, NULL, NULL);
}
static inline void bm_sub(local_addr_t y, local_addr_t a, local_addr_t b, const dim4 *s) {
    okk_bdc_sub(y, a, b, s, NULL, NULL, NULL);
}
static inline void bm_mul(local_addr_t y, local_addr_t a, local_addr_t b, const dim4 *s) {
    okk_bdc_mul(y, a, b, s, NULL, NULL, NULL);
}
static inline void bm_add_C(local_addr_t y, local_addr_t a, float c, const dim4 *s) {
    okk_bdc_add_C(y, a, c, s, NULL, NULL);
}
static inline void bm_mul_C(local_addr_t y, local_addr_t a, float c, const dim4 *s) {
    okk_bdc_mul_C(y, a, c, s, NULL, NULL);
}
/* y += a b, the product rounded first; y may be a or b */
static inline void bm_mac(local_addr_t y, local_addr_t a, local_addr_t b, const dim4 *s) {
    okk_bdc_mac(y, a, b, s, NULL, NULL, NULL);
}
static inline void bm_mac_C(local_addr_t y, local_addr_t a, float c, const dim4 *s) {
    okk_bdc_mac_C(y, a, c, s, NULL, NULL);
}
/* c - a */
static inline void bm_C_sub(local_addr_t y, local_addr_t a, float c, const dim4 *s) {
    okk_bdc_C_sub(y, a, c, s, NULL, NULL);
}

/* ---- words ---- */

static inline void bm_and(local_addr_t y, local_addr_t a, local_addr_t b, const dim4 *s) {
    okk_bdc_32bit_and(y, a, b, s, NULL, NULL, NULL);
}
static inline void bm_or(local_addr_t y, local_addr_t a, local_addr_t b, const dim4 *s) {
    okk_bdc_32bit_or(y, a, b, s, NULL, NULL, NULL);
}
static inline void bm_xor(local_addr_t y, local_addr_t a, local_addr_t b, const dim4 *s) {
    okk_bdc_32bit_xor(y, a, b, s, NULL, NULL, NULL);
}
static inline void bm_and_C(local_addr_t y, local_addr_t a, unsigned int c, const dim4 *s) {
    okk_bdc_32bit_and_C(y, a, bm_word(c), s, NULL, NULL);
}
static inline void bm_or_C(local_addr_t y, local_addr_t a, unsigned int c, const dim4 *s) {
    okk_bdc_32bit_or_C(y, a, bm_word(c), s, NULL, NULL);
}
static inline void bm_xor_C(local_addr_t y, local_addr_t a, unsigned int c, const dim4 *s) {
    okk_bdc_32bit_xor_C(y, a, bm_word(c), s, NULL, NULL);
}
static inline void bm_not(local_addr_t y, local_addr_t a, const dim4 *s) { bm_xor_C(y, a, BM_ONES, s); }

/* ---- comparisons ---- */

/* a > c ? value : 0; false for NaN */
static inline void bm_greater_C(local_addr_t y, local_addr_t a, float c, unsigned int value, const dim4 *s) {
    okk_bdc_greater_C_select_value(y, a, c, bm_word(value), s, NULL, NULL);
}
/* c > a ? value : 0 */
static inline void bm_C_greater(local_addr_t y, local_addr_t a, float c, unsigned int value, const dim4 *s) {
    okk_bdc_C_greater_select_value(y, a, c, bm_word(value), s, NULL, NULL);
}
static inline void bm_greater(local_addr_t y, local_addr_t a, local_addr_t b, unsigned int value, const dim4 *s) {
    okk_bdc_greater_select_value(y, a, b, bm_word(value), s, NULL, NULL, NULL);
}
/* The operands of greater_select. */
static inline fp32_or_addr_t bm_number_at(local_addr_t a) {
    return (fp32_or_addr_t){.is_addr = true, .context.addr = a};
}
static inline x32_or_addr_t bm_words_at(local_addr_t a) {
    return (x32_or_addr_t){.is_addr = true, .context.addr = a};
}
static inline x32_or_addr_t bm_float(float c) { return (x32_or_addr_t){.context.val = {.fp32 = c}}; }
/* y = a > c ? yes : no, and y = c > a ? yes : no, by bits; NaN takes `no`. The batch (s->n) is 1. */
static inline void bm_if_greater_C(local_addr_t y, local_addr_t a, float c, x32_or_addr_t yes, x32_or_addr_t no,
                                   const dim4 *s) {
    const fp32_or_addr_t x = bm_number_at(a), limit = {.context.val = c};
    okk_bdc_greater_select(y, &x, &limit, &yes, &no, s);
}
static inline void bm_if_C_greater(local_addr_t y, float c, local_addr_t a, x32_or_addr_t yes, x32_or_addr_t no,
                                   const dim4 *s) {
    const fp32_or_addr_t x = bm_number_at(a), limit = {.context.val = c};
    okk_bdc_greater_select(y, &limit, &x, &yes, &no, s);
}
/* The same bits ? value : 0 */
static inline void bm_same(local_addr_t y, local_addr_t a, local_addr_t b, unsigned int value, const dim4 *s) {
    okk_bdc_equal_select_value(y, a, b, bm_word(value), s, NULL, NULL, NULL);
}

/* y = value where a is a number, 0 where it is NaN: the smaller of NaN and infinity is infinity here, and every
 * number keeps its bits. y is not a. */
static inline void bm_number(local_addr_t y, local_addr_t a, unsigned int value, const dim4 *s) {
    okk_bdc_min_C(y, a, BM_INFINITY, s, NULL, NULL);
    bm_same(y, y, a, value, s);
}

/* y = a's own bits where it is NaN, 0 elsewhere. y is not a. */
static inline void bm_nan_of(local_addr_t y, local_addr_t a, const dim4 *s) {
    bm_number(y, a, BM_ONES, s);
    bm_not(y, y, s);
    bm_and(y, y, a, s);
}

#endif
