#include "bm_layer_log.h"

#include "bm_layer_functions.h"

#define BM_2_TO_23 0x4B000000u /* this number, to which an integer in the low bits is added */

void bm_log(local_addr_t dst, local_addr_t src, local_addr_t work, local_addr_t work2, const dim4 *shape) {
    static const float rest[] = {/* (ln(1 + f) / f - 1) / f for 1 + f from the root of 1/2 to that of 2 */
        -0.499999911f, 0.333339483f, -0.250017852f, 0.199621513f, -0.165700316f, 0.149168789f, -0.143098786f,
        0.0874007717f};
    const dim4 flat = bm_flat(shape), *s = &flat;
    /* Where it is no number above 0: the result. */
    bm_if_C_greater(dst, 0.0f, src, bm_float(__builtin_nanf("")), bm_words_at(src), s);
    bm_if_C_greater(dst, BM_FLT_MIN, dst, bm_float(-BM_INFINITY), bm_words_at(dst), s);
    /* m in [1, 2); above the root of 2 its half, and k is one more */
    bm_and_C(work, src, BM_MANTISSA, s);
    bm_or_C(work, work, BM_ONE, s);
    bm_if_greater_C(work2, work, 1.41421356f, bm_float(0.5f), bm_float(1.0f), s);
    bm_mul(work, work, work2, s);
    bm_add_C(work, work, -1.0f, s);
    okk_bdc_32bit_logical_shift_C(src, src, -23, s, NULL, NULL);
    bm_or_C(src, src, BM_2_TO_23, s);
    bm_mac_C(src, work2, -2.0f, s);
    bm_add_C(src, src, -(8388608.0f + 125.0f), s);
    bm_polynomial(work2, work, rest, BM_COUNT(rest), s);
    bm_mul(work2, work2, work, s);
    bm_mac(work, work, work2, s);
    bm_mac_C(work, src, 0.693147181f, s);
    bm_if_greater_C(work, dst, BM_FLT_MAX, bm_words_at(dst), bm_words_at(work), s);
    bm_if_greater_C(dst, dst, 0.0f, bm_words_at(work), bm_words_at(dst), s);
}
