#include "bm_layer_arithmetic.h"

dim4 bm_flat(const dim4 *shape) {
    dim4 stride;
    okk_128_byte_aligned_stride_for_32bit(&stride, 0, shape);
    /* Lanes behind the last channel may hold another tensor, as a concatenation's next part. */
    const bool rest = shape->c > CHIP_NPU_NUM && shape->c % CHIP_NPU_NUM != 0;
    if (rest && shape->n == 1 && shape->c <= CHIP_CHANNELS_MAX)
        return (dim4){1, shape->c, stride.c / CHIP_ALIGN_WORDS, CHIP_ALIGN_WORDS};
    return (dim4){1, smaller(shape->c, CHIP_NPU_NUM), shape->n * stride.n / CHIP_ALIGN_WORDS, CHIP_ALIGN_WORDS};
}

void bm_inverse(local_addr_t y, local_addr_t a, local_addr_t t, const dim4 *s) {
    bm_xor_C(y, a, BM_MAGNITUDE, s);
    bm_mul(t, a, y, s); /* 4 to 4.5 */
    bm_mul_C(t, t, BM_INVERSE, s);
    bm_C_sub(t, t, 1.0f, s); /* e; the rest is (1 + e) (1 + e^2 + e^4) */
    bm_mac(y, y, t, s);
    bm_mul(t, t, t, s);
    bm_mac(t, t, t, s);
    bm_mac(y, y, t, s);
}

void bm_reciprocal(local_addr_t y, local_addr_t a, local_addr_t t, const dim4 *s) {
    bm_inverse(y, a, t, s);
    bm_mul_C(y, y, BM_INVERSE, s);
}

void bm_mantissa(local_addr_t y, bm_local x, local_addr_t t, const dim4 *s) {
    const dim4 flat = bm_flat(s);
    okk_bdc_32bit_and_C(y, x.addr, bm_word(BM_SIGN | BM_MANTISSA), s, NULL, x.stride);
    bm_or_C(y, y, BM_ONE, s);
    okk_bdc_32bit_and_C(t, x.addr, bm_word(BM_MAGNITUDE), s, NULL, x.stride);
    bm_if_greater_C(y, t, -1.0f, bm_words_at(y), bm_words_at(t), &flat);
}

void bm_divide(local_addr_t y, bm_local a, bm_local b, local_addr_t work, unsigned int step, const dim4 *s) {
    const unsigned int upper = 0xFFFFF000u; /* of the mantissa's 24 bits the first 12 */
    const local_addr_t rest = work, m = work + step, r = work + 2 * step;
    const local_addr_t q = work + 3 * step, u = work + 4 * step, t = work + 5 * step;
    const dim4 flat = bm_flat(s);
    bm_mantissa(rest, a, t, s);
    bm_mantissa(m, b, t, s);
    bm_reciprocal(r, m, t, s);
    bm_mul(q, rest, r, s);
    /* rest -= q m, with q and m in halves so that the first two products are exact */
    bm_and_C(u, q, upper, s);
    bm_mul_C(u, u, -1.0f, s);
    bm_and_C(t, m, upper, s);
    bm_mac(rest, u, t, s);
    bm_sub(t, m, t, s);
    bm_mac(rest, u, t, s);
    bm_add(u, u, q, s);
    bm_mul_C(u, u, -1.0f, s);
    bm_mac(rest, u, m, s);
    bm_mac(q, rest, r, s);
    bm_mul_C(q, q, 0.5f, s);
    okk_bdc_32bit_and_C(t, a.addr, bm_word(BM_EXPONENT), s, NULL, a.stride);
    bm_inverse_power(u, b, s);
    bm_mul(rest, q, t, s); /* cannot underflow where |a| is not below 1 */
    bm_mul(rest, rest, u, s);
    bm_mul(m, t, u, s); /* cannot overflow where it is */
    bm_mul(m, m, q, s);
    okk_bdc_32bit_and_C(r, a.addr, bm_word(BM_MAGNITUDE), s, NULL, a.stride);
    bm_if_greater_C(y, r, 0.99999994f, bm_words_at(rest), bm_words_at(m), &flat);
}

void bm_nearest(local_addr_t y, local_addr_t a, local_addr_t t, const dim4 *s) {
    bm_and_C(t, a, BM_MAGNITUDE, s);
    bm_add_C(t, t, 8388608.0f, s);
    bm_add_C(t, t, -8388608.0f, s);
    bm_and_C(y, a, BM_SIGN, s);
    bm_or(y, y, t, s);
}
