#include "bm_layer_log.h"

#include "bm1684_chip.h"
#include "bm_atomic.h"

#define BM_LOG_TABLE (CHIP_L2_TABLE_OFFSET + 0x800u) /* in L2: (i - 127) ln 2 for i = 0 .. 255 */

void bm_log(local_addr_t dst, local_addr_t src, local_addr_t work, local_addr_t work2, const dim4 *shape) {
    const float root = 1.41421356f, infinity = __builtin_inff();
    const x32 ones = {.u32 = 0xffffffffu}, nan = {.u32 = 0x7fc00000u}, inf = {.u32 = 0x7f800000u};
    const x32 minus_inf = {.u32 = 0xff800000u}, mantissa = {.u32 = 0x007fffffu}, one = {.fp32 = 1.0f};
    const x32 ln2 = {.fp32 = 0.693147181f}, exponent_bit = {.u32 = 0x00800000u};
    /* What is added to the result: 0, or what makes an exception of it. The smaller of NaN and infinity is infinity. */
    okk_bdc_min_C(dst, src, infinity, shape, NULL, NULL);
    okk_bdc_equal_select_value(dst, dst, src, ones, shape, NULL, NULL, NULL);
    okk_bdc_32bit_xor_C(dst, dst, ones, shape, NULL, NULL);
    okk_bdc_C_greater_select_value(work, src, 0.0f, nan, shape, NULL, NULL);
    okk_bdc_32bit_or(dst, dst, work, shape, NULL, NULL, NULL);
    okk_bdc_greater_C_select_value(work, src, 3.402823466e+38f, inf, shape, NULL, NULL);
    okk_bdc_32bit_or(dst, dst, work, shape, NULL, NULL, NULL);
    okk_bdc_C_greater_select_value(work, src, 1.17549435e-38f, minus_inf, shape, NULL, NULL);
    okk_bdc_32bit_or(dst, dst, work, shape, NULL, NULL, NULL);
    /* k ln 2 of the exponent as it stands */
    okk_bdc_32bit_logical_shift_C(work, src, -23, shape, NULL, NULL);
    const TableLookupParam look = {.table_addr = BM_LOG_TABLE, .index_addr = work, .output_addr = work2,
                                   .shape = {(unsigned int)shape->n, (unsigned int)shape->c, (unsigned int)shape->h,
                                             (unsigned int)shape->w},
                                   .table_len = 256, .index_prec = 1};
    bm_atomic_table_lookup(&look);
    okk_bdc_add(dst, dst, work2, shape, NULL, NULL, NULL);
    /* m in [1, 2); above the root of 2 its half, and k is one more */
    okk_bdc_32bit_and_C(work2, src, mantissa, shape, NULL, NULL);
    okk_bdc_32bit_or_C(work2, work2, one, shape, NULL, NULL);
    okk_bdc_greater_C_select_value(work, work2, root, ln2, shape, NULL, NULL);
    okk_bdc_add(dst, dst, work, shape, NULL, NULL, NULL);
    okk_bdc_greater_C_select_value(work, work2, root, exponent_bit, shape, NULL, NULL);
    okk_bdc_32bit_xor(work2, work2, work, shape, NULL, NULL, NULL);
    /* s = (m - 1) / (m + 1), |s| < 0.172, z = s^2: 2 s + s z (2/3 + z (2/5 + z (2/7 + z 2/9))) */
    okk_bdc_add_C(work, work2, 1.0f, shape, NULL, NULL);
    okk_bdc_add_C(work2, work2, -1.0f, shape, NULL, NULL);
    okk_bdc_div(work2, work2, work, shape, NULL, NULL, NULL);
    okk_bdc_mul(work, work2, work2, shape, NULL, NULL, NULL);
    okk_bdc_mul_C(src, work, 2.0f / 9, shape, NULL, NULL);
    for (int i = 7; i >= 3; i -= 2) {
        okk_bdc_add_C(src, src, 2.0f / (float)i, shape, NULL, NULL);
        okk_bdc_mul(src, src, work, shape, NULL, NULL, NULL);
    }
    okk_bdc_add_C(src, src, 2.0f, shape, NULL, NULL);
    okk_bdc_mul(src, src, work2, shape, NULL, NULL, NULL);
    okk_bdc_add(dst, dst, src, shape, NULL, NULL, NULL);
}
