/* Exponential and what follows from it, roots, element by element on tensors in local memory: all buffers
 * aligned, of one shape with a batch of 1 (bm_flat), each function's buffers different from one another.
 *
 * Relative errors are below 1e-6 over all fp32 numbers unless stated; results that would be denormal are 0. NaN gives
 * NaN. The polynomials are least relative maximum fits (Lawson's iteration), lowest power first.
 */
#ifndef BM_LAYER_FUNCTIONS_H
#define BM_LAYER_FUNCTIONS_H

#include "bm_layer_arithmetic.h"

#define BM_COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

/* y = c[0] + c[1] x + c[2] x^2 + ... */
void bm_polynomial(local_addr_t y, local_addr_t x, const float *c, int count, const dim4 *s);

/* y = x at most c, and y = x at least c, with NaN staying NaN; y may be x */
static inline void bm_at_most(local_addr_t y, local_addr_t x, float c, const dim4 *s) {
    bm_if_greater_C(y, x, c, bm_float(c), bm_words_at(x), s);
}
static inline void bm_at_least(local_addr_t y, local_addr_t x, float c, const dim4 *s) {
    bm_if_C_greater(y, c, x, bm_float(c), bm_words_at(x), s);
}

/* y = 2^scale e^x where that is a number up to 2^127, and x not below (-127 - scale) ln 2; x is overwritten. What is
 * added to x / ln 2 rounds it to an integer k and has 2^k's exponent in its low bits; e^(x - k ln 2) is a polynomial.
 * As in 2^k (1 + w) the second part is lost below 2^-126, results below 2^-102 are less exact. */
void bm_power(local_addr_t y, local_addr_t x, local_addr_t t, int scale, const dim4 *s);

/* y = e^x and y = e^(2 x), the square of e^x so that all exponents are reached; x is overwritten */
void bm_exp(local_addr_t y, local_addr_t x, local_addr_t t, const dim4 *s);
void bm_exp_twice(local_addr_t y, local_addr_t x, local_addr_t t, const dim4 *s);

/* y = e^x of what is at most 0, and 1 of anything above; x is overwritten */
void bm_exp_below_0(local_addr_t y, local_addr_t x, local_addr_t t, const dim4 *s);

/* y = e^x for x at most 0; x is overwritten. Few words of a lane: a series of the chip and its table of powers, which
 * take fewer commands and more cycles. */
void bm_exp_below(local_addr_t y, local_addr_t x, local_addr_t t, const dim4 *s);

/* y = e^x - 1 for |x| up to 87; x is overwritten */
void bm_expm1(local_addr_t y, local_addr_t x, local_addr_t t, const dim4 *s);

/* y = 1 / (1 + e^x); x is overwritten */
void bm_logistic(local_addr_t y, local_addr_t x, local_addr_t t, const dim4 *s);

/* u = ln(1 + u) for u in 0 .. 1 */
void bm_log1p_unit(local_addr_t u, local_addr_t t, const dim4 *s);

/* y = tanh x as e / (e + 2) with e = e^(2 x) - 1, never beyond 1; y may be x */
void bm_tanh(local_addr_t y, local_addr_t x, local_addr_t t0, local_addr_t t1, local_addr_t t2, const dim4 *s);

/* y = erf x as 1 - e^(ln erfc |x|) with the sign of x, whose exponent is a polynomial; y may be x */
void bm_erf(local_addr_t y, local_addr_t x, local_addr_t t0, local_addr_t t1, local_addr_t t2, const dim4 *s);

/* y = erfc(x / sqrt 2) / 2 for x at least 0: what the normal distribution has beyond x; x is overwritten. The error
 * grows with the square of x: 1e-5 where the result is the smallest. */
void bm_normal_tail(local_addr_t y, local_addr_t x, local_addr_t t0, local_addr_t t1, const dim4 *s);

/* y = sqrt x; NaN below zero. y may be x. Numbers are brought away from the ends first. The bits of x halved and turned
 * over are a number near 2^-63 / sqrt x, what that lacks a series in e; one step makes the roots of squares exact. */
void bm_sqrt(local_addr_t y, local_addr_t x, local_addr_t t0, local_addr_t t1, local_addr_t t2, local_addr_t t3,
             const dim4 *s);

/* y = sin x, or cos x: absolute errors below 2e-7 for |x| up to BM_SINE_END, relative ones for |x| up to pi / 2 of the
 * sine; NaN beyond. y may be x. From x whole multiples of pi are taken (odd ones of pi / 2), in parts so short that what
 * they are multiplied by and subtracted from stays exact; for the rest the sine is a polynomial. */
#define BM_SINE_END 3e6f
void bm_sine(local_addr_t y, local_addr_t x, local_addr_t t0, local_addr_t t1, local_addr_t t2, local_addr_t t3,
             bool cosine, const dim4 *s);

#endif
