#include "bm_layer_rows_bytes.h"

#include "bm_layer_functions.h"
#include "bm_wide.h"

void bm_multiply_byte_rows(const bm_byte_product *p, local_addr_t y, local_addr_t x, local_addr_t right) {
    const unsigned int pixels = (unsigned int)divide_up(p->columns, 4);
    const ConvQuantParam product = {.input_addr = right,
                                    .weight_addr = x,
                                    .output_addr = y,
                                    .input_shape = {4, (unsigned int)p->sums, 1, pixels},
                                    .output_c = (unsigned int)p->rows,
                                    .kernel_h = 1,
                                    .kernel_w = 1,
                                    .input_stride = {0, (unsigned int)p->right_slot, pixels, 1},
                                    .kernel_stride = {1, (unsigned int)p->left_slot, 1, 1},
                                    .stride_h = 1,
                                    .stride_w = 1,
                                    .dilate_h = 1,
                                    .dilate_w = 1,
                                    .rshift_bit = (unsigned int)p->rshift,
                                    .input_sign = true,
                                    .weight_sign = p->left_signed};
    bm_conv_quantized_wide(&product);
}

void bm_wide_to_float(local_addr_t y, local_addr_t x, int rows, int columns) {
    const dim4 pairs = {1, rows, 1, columns / 2}, from = {0, bm_wide_slot(columns), pairs.w, 1};
    const dim4 to = {0, local_line(columns), columns, 2};
    okk_bdc_32bit_xor_C(x, x, bm_word(0x80008000), &pairs, &from, &from);
    okk_bdc_32bit_and_C(y, x, bm_word(0xffff), &pairs, &to, &from);
    okk_bdc_32bit_logical_shift_C(y + 4, x, -16, &pairs, &to, &from);
    const dim4 all = {1, rows, 1, columns};
    okk_bdc_32bit_or_C(y, y, bm_word(0x4b000000), &all, NULL, NULL); /* in front of a number under 2^23: 2^23 and it */
}

void bm_pack_bytes(local_addr_t y, local_addr_t x, int rows, int columns, int slot) {
    const dim4 words = {1, rows, 1, columns / 4};
    const dim4 from = {0, local_line(columns), columns, 4}, to = {0, slot, words.w, 1};
    okk_bdc_32bit_and_C(y, x, bm_word(0xff), &words, &to, &from);
    for (int i = 1; i < 4; i++) {
        const local_addr_t part = x + 4u * (local_addr_t)i;
        okk_bdc_32bit_logical_shift_C(part, part, 8 * i, &words, &from, &from);
        okk_bdc_32bit_or(y, y, part, &words, &to, &to, &from);
    }
}

void bm_byte_powers(local_addr_t y, local_addr_t x, local_addr_t t, int rows, int columns, float factor) {
    /* 255 * 2^f for |f| up to 1/2 */
    static const float power[] = {254.98166f, 176.78156f, 61.86585f, 14.068778f};
    const dim4 all = {1, rows, 1, columns};
    const float whole = 12582912.0f + 127.0f; /* 3 * 2^22 and what an exponent of 0 is: the low bits are an exponent */
    /* First what is far below, as the least fp32 that masks add: its product would be an infinity. */
    bm_at_least(x, x, -24.0f / (factor * 1.44269504f), &all);
    okk_bdc_mul_C(x, x, factor * 1.44269504f, &all, NULL, NULL);
    okk_bdc_add_C(t, x, whole, &all, NULL, NULL);
    okk_bdc_sub_C(y, t, whole, &all, NULL, NULL);
    okk_bdc_sub(x, x, y, &all, NULL, NULL, NULL);
    bm_polynomial(y, x, power, BM_COUNT(power), &all);
    okk_bdc_32bit_logical_shift_C(t, t, 23, &all, NULL, NULL);
    okk_bdc_mul(y, y, t, &all, NULL, NULL, NULL);
}
