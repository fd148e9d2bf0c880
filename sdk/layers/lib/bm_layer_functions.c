#include "bm_layer_functions.h"

#define BM_LOG2_E 1.44269504f
#define BM_LN2_HIGH 0.693359375f /* 9 bits: times k it is exact */
#define BM_LN2_LOW (-2.12194440e-4f)
#define BM_TO_INTEGER 12582912.0f /* 3 * 2**22: sums with it are rounded to integers, which are their low bits */
#define BM_LOGISTIC_SHIFT 24 /* results down to the smallest number come from larger ones */
#define BM_ROOT 6.23807372e18f /* makes e at most 0.0852 */
#define BM_SERIES 8 /* of e^x for |x| up to 0.5: the ninth term is below 1e-8 */
#define BM_FEW_WORDS 2048
#define BM_TANH_END 15.9163437f /* of 2 x: there the result is 1 exactly, and not more before */

void bm_polynomial(local_addr_t y, local_addr_t x, const float *c, int count, const dim4 *s) {
    bm_mul_C(y, x, c[count - 1], s);
    for (int i = count - 2; i > 0; i--) {
        bm_add_C(y, y, c[i], s);
        bm_mul(y, y, x, s);
    }
    bm_add_C(y, y, c[0], s);
}

/* z = 2^(k + scale), x = e^(x - k ln 2) - 1 where k is the integer next to x / ln 2 */
static void bm_split_power(local_addr_t z, local_addr_t x, local_addr_t t, int scale, const dim4 *s) {
    static const float rest[] = {/* (e^r - 1 - r) / r^2, |r| to 0.347 */
        0.499994010f, 0.166668326f, 0.0418729447f, 0.00833800342f};
    const float exponent_0 = BM_TO_INTEGER + 127.0f + (float)scale;
    bm_mul_C(z, x, BM_LOG2_E, s);
    bm_add_C(z, z, exponent_0, s);
    bm_add_C(t, z, -exponent_0, s); /* k */
    bm_mac_C(x, t, -BM_LN2_HIGH, s);
    bm_mac_C(x, t, -BM_LN2_LOW, s);
    okk_bdc_32bit_logical_shift_C(z, z, 23, s, NULL, NULL);
    bm_polynomial(t, x, rest, BM_COUNT(rest), s);
    bm_mul(t, t, x, s);
    bm_mac(x, x, t, s);
}

void bm_power(local_addr_t y, local_addr_t x, local_addr_t t, int scale, const dim4 *s) {
    bm_split_power(y, x, t, scale, s);
    bm_mac(y, y, x, s);
}

static void exp_twice(local_addr_t y, local_addr_t x, local_addr_t t, float most, const dim4 *s) {
    bm_at_most(x, x, most, s);
    bm_at_least(x, x, -44.4f, s);
    bm_power(y, x, t, 0, s);
    bm_mul(y, y, y, s);
}

void bm_exp_twice(local_addr_t y, local_addr_t x, local_addr_t t, const dim4 *s) { exp_twice(y, x, t, 44.4f, s); }

static void exp_up_to(local_addr_t y, local_addr_t x, local_addr_t t, float most, const dim4 *s) {
    bm_mul_C(x, x, 0.5f, s);
    exp_twice(y, x, t, most, s);
}

void bm_exp(local_addr_t y, local_addr_t x, local_addr_t t, const dim4 *s) { exp_up_to(y, x, t, 44.4f, s); }

void bm_exp_below_0(local_addr_t y, local_addr_t x, local_addr_t t, const dim4 *s) { exp_up_to(y, x, t, 0.0f, s); }

/* e^k for an integer k comes from a table, which is read by the low 8 bits of its index; e^(x - k) is a series. */
static void bm_exp_of_table(local_addr_t y, local_addr_t x, local_addr_t t, const dim4 *s) {
    bm_add_C(y, x, BM_TO_INTEGER, s);
    bm_add_C(t, y, -BM_TO_INTEGER, s); /* k */
    bm_sub(x, x, t, s);
    okk_bdc_taylor_exp(x, x, s, BM_SERIES);
    okk_bdc_lookup_exp(y, y, s);
    bm_mul(y, y, x, s);
}

void bm_exp_below(local_addr_t y, local_addr_t x, local_addr_t t, const dim4 *s) {
    bm_at_least(x, x, -88.0f, s);
    if (s->n * s->h * s->w <= BM_FEW_WORDS) {
        bm_exp_of_table(y, x, t, s);
        return;
    }
    bm_split_power(y, x, t, 0, s);
    bm_add_C(x, x, 1.0f, s);
    bm_mul(y, y, x, s);
}

void bm_expm1(local_addr_t y, local_addr_t x, local_addr_t t, const dim4 *s) {
    bm_split_power(t, x, y, 0, s);
    bm_add_C(y, t, -1.0f, s); /* exact near 0, where it is 0 */
    bm_mac(y, t, x, s);
}

void bm_logistic(local_addr_t y, local_addr_t x, local_addr_t t, const dim4 *s) {
    bm_at_most(x, x, 88.3f, s);
    bm_at_least(x, x, -30.0f, s);
    bm_power(y, x, t, -BM_LOGISTIC_SHIFT, s);
    bm_add_C(x, y, 1.0f / (1 << BM_LOGISTIC_SHIFT), s);
    bm_inverse(y, x, t, s);
    bm_mul_C(y, y, BM_INVERSE / (1 << BM_LOGISTIC_SHIFT), s);
}

void bm_log1p_unit(local_addr_t u, local_addr_t t, const dim4 *s) {
    static const float rest[] = {/* (ln(1 + u) / u - 1) / u */
        -0.499996483f, 0.333213300f, -0.248572171f, 0.191538483f, -0.137541875f, 0.0792088285f, -0.0300683007f,
        0.00536542246f};
    bm_polynomial(t, u, rest, BM_COUNT(rest), s);
    bm_mul(t, t, u, s);
    bm_mac(u, u, t, s);
}

void bm_tanh(local_addr_t y, local_addr_t x, local_addr_t t0, local_addr_t t1, local_addr_t t2, const dim4 *s) {
    bm_add(t0, x, x, s);
    bm_at_most(t0, t0, BM_TANH_END, s);
    bm_at_least(t0, t0, -30.0f, s);
    bm_expm1(y, t0, t1, s);
    bm_add_C(t0, y, 2.0f, s);
    bm_reciprocal(t1, t0, t2, s);
    bm_mul(y, y, t1, s);
}

void bm_erf(local_addr_t y, local_addr_t x, local_addr_t t0, local_addr_t t1, local_addr_t t2, const dim4 *s) {
    static const float exponent[] = {/* ln(erfc x) / x, to 4 */
        -1.12837934f, -0.636604905f, -0.102941208f, 0.0198028255f, -0.00102665741f, -0.000566579052f,
        0.000109322478f};
    bm_and_C(t0, x, BM_MAGNITUDE, s);
    bm_at_most(t0, t0, 4.0f, s);
    bm_polynomial(t1, t0, exponent, BM_COUNT(exponent), s);
    bm_mul(t1, t1, t0, s);
    bm_expm1(t0, t1, t2, s);
    bm_mul_C(t1, t0, -1.0f, s);
    bm_if_greater_C(y, x, 0.0f, bm_words_at(t1), bm_words_at(t0), s);
}

void bm_normal_tail(local_addr_t y, local_addr_t x, local_addr_t t0, local_addr_t t1, const dim4 *s) {
    static const float scaled[] = {/* 2^-25 e^(z^2) erfc z, z = x / sqrt 2 to 9.4, by 1 / (BM_INVERSE (1 + 0.4 z)) */
        2.42036577e-12f, 1.57299418e-09f, 3.99938499e-10f, 4.92213978e-11f, 3.93588009e-11f,
        -8.38272767e-12f, 3.49779537e-12f, -4.69919568e-13f, 2.06161094e-14f};
    bm_at_most(x, x, 13.2f, s);
    bm_mul_C(t0, x, -0.5f, s);
    bm_mul(t0, t0, x, s);
    bm_mul_C(x, x, 0.282842726f, s);
    bm_add_C(x, x, 1.0f, s);
    bm_inverse(y, x, t1, s);
    bm_polynomial(x, y, scaled, BM_COUNT(scaled), s);
    bm_power(y, t0, t1, 24, s);
    bm_mul(y, y, x, s);
}

void bm_sqrt(local_addr_t y, local_addr_t x, local_addr_t t0, local_addr_t t1, local_addr_t t2, local_addr_t t3,
             const dim4 *s) {
    static const float rest[] = {0.5f, 0.375f, 0.3125f}; /* of 1 / sqrt(1 - e) */
    bm_if_C_greater(t0, 0x1p-60f, x, bm_float(0x1p64f), bm_float(0x1p-32f), s);
    bm_mul(t1, x, t0, s);
    bm_add_C(t1, t1, 0.0f, s); /* -0 has no sign here */
    okk_bdc_32bit_logical_shift_C(t2, t1, -1, s, NULL, NULL);
    bm_xor_C(t2, t2, BM_MAGNITUDE >> 1, s);
    bm_mul_C(t2, t2, BM_ROOT, s);
    bm_mul(t3, t2, t2, s);
    bm_mul(t3, t3, t1, s);
    bm_C_sub(t3, t3, 1.0f, s);
    bm_polynomial(t0, t3, rest, BM_COUNT(rest), s);
    bm_mul(t0, t0, t3, s);
    bm_mac(t2, t2, t0, s);
    bm_mul(t0, t1, t2, s);
    bm_mul(t3, t0, t0, s);
    bm_sub(t1, t1, t3, s);
    bm_mul(t1, t1, t2, s);
    bm_mac_C(t0, t1, 0.5f, s);
    bm_if_C_greater(t1, 0x1p-60f, x, bm_float(0x1p-32f), bm_float(0x1p16f), s);
    bm_mul(t0, t0, t1, s);
    bm_if_greater_C(t0, x, BM_FLT_MAX, bm_words_at(x), bm_words_at(t0), s);
    bm_if_C_greater(y, 0.0f, x, bm_float(__builtin_nanf("")), bm_words_at(t0), s);
}

void bm_sine(local_addr_t y, local_addr_t x, local_addr_t t0, local_addr_t t1, local_addr_t t2, local_addr_t t3,
             bool cosine, const dim4 *s) {
    static const float pi[] = {201.0f / 64.0f, 0x1.fb5p-11f, 3.178651e-8f}; /* 8 and 12 bits, and the rest */
    static const float rest[] = {/* (sin r / r - 1) / r^2, |r| to 0.6 pi: x / pi is rounded, too */
        -0.166666344f, 0.00833251607f, -0.000197750313f, 2.54000656e-06f};
    const float high = 2048.0f, half = cosine ? 0.5f : 0.0f;
    bm_mul_C(t0, x, 0.318309886f, s);
    if (cosine) bm_add_C(t0, t0, half, s);
    bm_add_C(t0, t0, BM_TO_INTEGER, s);
    bm_add_C(t1, t0, -BM_TO_INTEGER, s);
    if (cosine) bm_add_C(t1, t1, -half, s); /* how often pi: 9 bits above 2048, 12 below */
    bm_mul_C(t2, t1, 1.0f / high, s);
    bm_add_C(t2, t2, BM_TO_INTEGER, s);
    bm_add_C(t2, t2, -BM_TO_INTEGER, s);
    bm_mac_C(t1, t2, -high, s);
    bm_mul_C(t3, t2, -high * pi[0], s);
    bm_add(t3, t3, x, s);
    bm_mac_C(t3, t1, -pi[0], s);
    for (int i = 1; i < BM_COUNT(pi); i++) {
        bm_mac_C(t3, t2, -high * pi[i], s);
        bm_mac_C(t3, t1, -pi[i], s);
    }
    bm_mul(t1, t3, t3, s);
    bm_polynomial(t2, t1, rest, BM_COUNT(rest), s);
    bm_mul(t2, t2, t1, s);
    bm_mac(t3, t3, t2, s);
    bm_at_most(t3, t3, 1.0f, s);
    bm_at_least(t3, t3, -1.0f, s);
    okk_bdc_32bit_logical_shift_C(t0, t0, 31, s, NULL, NULL); /* an odd number's bit is a sign */
    bm_xor(t3, t3, t0, s);
    bm_and_C(t1, x, BM_MAGNITUDE, s);
    bm_if_greater_C(y, t1, BM_SINE_END, bm_float(__builtin_nanf("")), bm_words_at(t3), s);
}
