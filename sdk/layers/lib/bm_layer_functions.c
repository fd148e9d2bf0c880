#include "bm_layer_functions.h"

#define BM_EXP_TERMS 12   /* of the series of e^x - 1 for |x| < 1: the next is below 2e-9 */
#define BM_EXP_HIGH 87.9f /* e^this is finite */

dim4 bm_flat(const dim4 *shape) {
    dim4 stride;
    okk_128_byte_aligned_stride_for_32bit(&stride, 0, shape);
    /* Lanes behind the last channel may hold another tensor, as a concatenation's next part. */
    const bool rest = shape->c > CHIP_NPU_NUM && shape->c % CHIP_NPU_NUM != 0;
    if (rest && shape->n == 1 && shape->c <= CHIP_CHANNELS_MAX)
        return (dim4){1, shape->c, stride.c / CHIP_ALIGN_WORDS, CHIP_ALIGN_WORDS};
    return (dim4){1, smaller(shape->c, CHIP_NPU_NUM), shape->n * stride.n / CHIP_ALIGN_WORDS, CHIP_ALIGN_WORDS};
}

void bm_polynomial(local_addr_t y, local_addr_t x, const float *c, int count, const dim4 *s) {
    bm_mul_C(y, x, c[count - 1], s);
    for (int i = count - 2; i > 0; i--) {
        bm_add_C(y, y, c[i], s);
        bm_mul(y, y, x, s);
    }
    bm_add_C(y, y, c[0], s);
}

void bm_exp(local_addr_t y, local_addr_t x, local_addr_t t, const dim4 *s) {
    bm_mul_C(x, x, 0.5f, s);
    bm_at_most(x, x, 44.4f, s);
    bm_at_least(x, x, -44.4f, s);
    okk_bdc_exp_tunable(y, x, t, s, BM_EXP_TERMS);
    bm_mul(y, y, y, s);
}

void bm_expm1_negative(local_addr_t y, local_addr_t x, local_addr_t t0, local_addr_t t1, const dim4 *s) {
    static const float ratio[] = {/* (e^x - 1) / x from -0.35 on */
        1.0f, 0.49999997f, 0.166665554f, 0.0416532084f, 0.00825882331f, 0.00119574519f};
    okk_bdc_32bit_cpy(t0, x, s, NULL, NULL);
    bm_exp(y, t0, t1, s);
    bm_add_C(y, y, -1.0f, s);
    bm_polynomial(t0, x, ratio, BM_COUNT(ratio), s);
    bm_mul(t0, t0, x, s);
    bm_if_C_greater(y, -0.35f, x, bm_words_at(y), bm_words_at(t0), s);
}

void bm_logistic(local_addr_t y, local_addr_t x, local_addr_t t, const dim4 *s) {
    bm_at_most(x, x, BM_EXP_HIGH, s);
    bm_exp(y, x, t, s);
    bm_add_C(x, y, 1.0f, s);
    bm_reciprocal(y, x, t, s);
}

void bm_log1p_unit(local_addr_t y, local_addr_t u, local_addr_t t0, local_addr_t t1, const dim4 *s) {
    static const float ratio[] = {/* 2 artanh(v) / v by v^2 */
        2.0f, 0.666666806f, 0.399986386f, 0.286222041f, 0.21376203f, 0.244809076f};
    bm_add_C(t0, u, 2.0f, s);
    bm_reciprocal(y, t0, t1, s);
    bm_mul(u, u, y, s);
    bm_mul(t0, u, u, s);
    bm_polynomial(y, t0, ratio, BM_COUNT(ratio), s);
    bm_mul(y, y, u, s);
}

void bm_tanh(local_addr_t y, local_addr_t x, local_addr_t t0, local_addr_t t1, local_addr_t t2, local_addr_t t3,
             const dim4 *s) {
    static const float ratio[] = {/* tanh(x) / x by x^2, to 0.6 */
        1.0f, -0.333332837f, 0.133316889f, -0.0537687056f, 0.0207536276f, -0.00585216843f};
    bm_and_C(t0, x, BM_MAGNITUDE, s);
    bm_mul_C(t1, t0, -2.0f, s);
    bm_exp(t2, t1, t3, s);
    bm_add_C(t1, t2, 1.0f, s);
    bm_C_sub(t2, t2, 1.0f, s);
    bm_reciprocal(t3, t1, t0, s);
    bm_mul(t2, t2, t3, s);
    bm_and_C(t0, x, BM_SIGN, s);
    bm_or(t2, t2, t0, s);
    bm_mul(t0, x, x, s);
    bm_polynomial(t1, t0, ratio, BM_COUNT(ratio), s);
    bm_mul(t1, t1, x, s);
    bm_and_C(t0, x, BM_MAGNITUDE, s);
    bm_if_greater_C(y, t0, 0.6f, bm_words_at(t2), bm_words_at(t1), s);
}

void bm_erfc(local_addr_t y, local_addr_t z, local_addr_t square, local_addr_t t, const dim4 *s) {
    static const float scaled[] = {/* e^(z^2) erfc(z) by 1 / (1 + z/2), z to 10 */
        -6.01127476e-06f, 0.282221377f, 0.281098425f, 0.249793455f, 0.181250066f, 0.0170772653f, 0.221191525f,
        -0.441478103f, 0.26390329f, -0.0550513342f};
    bm_at_most(z, z, 10.0f, s);
    bm_mul_C(z, z, 0.5f, s);
    bm_add_C(z, z, 1.0f, s);
    bm_reciprocal(y, z, t, s);
    bm_polynomial(z, y, scaled, BM_COUNT(scaled), s);
    bm_xor_C(square, square, BM_SIGN, s);
    bm_exp(y, square, t, s);
    bm_mul(y, y, z, s);
}

void bm_sqrt(local_addr_t y, local_addr_t x, local_addr_t t0, local_addr_t t1, local_addr_t t2, local_addr_t t3,
             const dim4 *s) {
    bm_if_C_greater(t0, 0x1p-60f, x, bm_float(0x1p64f), bm_float(1.0f), s);
    bm_mul(t1, x, t0, s);
    okk_bdc_rsqrt(t2, t1, s);
    bm_mul(t0, t1, t2, s);
    bm_mul(t3, t0, t0, s);
    bm_sub(t1, t1, t3, s);
    bm_mul(t1, t1, t2, s);
    bm_mul_C(t1, t1, 0.5f, s);
    bm_add(t0, t0, t1, s);
    bm_if_C_greater(t1, 0x1p-60f, x, bm_float(0x1p-32f), bm_float(1.0f), s);
    bm_mul(t0, t0, t1, s);
    bm_if_greater_C(t0, x, BM_FLT_MAX, bm_words_at(x), bm_words_at(t0), s);
    bm_if_C_greater(y, 0.0f, x, bm_float(__builtin_nanf("")), bm_words_at(t0), s);
}
