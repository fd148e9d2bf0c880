#include "bm_layer_attend.h"

#include "bm_layer_functions.h"
#include "bm_layer_packed.h"
#include "bm_layer_reduce.h"
#include "bm_layer_rows.h"
#include "bm_layer_rows_bytes.h"
#include "okk.h"

/* Scores with their mask, if there is one. */
static void add_mask(const bm_head *h) {
    const int line = local_line(h->keys);
    const dim4 shape = {1, h->rows, 1, h->keys}, stride = {0, line, line, 1};
    const dim4 from = {0, h->mask_slot, h->keys, h->each};
    if (h->masked) okk_bdc_add(h->scores, h->scores, h->mask, &shape, &stride, &stride, &from);
}

/* The result: the product times what lies first in each row of scores. */
static void divide(const bm_head *h) {
    const int line = local_line(h->keys);
    const dim4 made = {1, h->rows, 1, h->value}, to = {0, h->result_slot, h->value, 1};
    const dim4 from = {0, local_line(h->value), h->value, 1}, once = {0, line, line, 0};
    okk_bdc_mul(h->result, h->product, h->scores, &made, &to, &from, &once);
}

/* Scores, their powers, and the values weighted by these, divided by their sum. */
void bm_attend(const bm_head *h) {
    const int line = local_line(h->keys);
    const dim4 shape = {1, h->rows, 1, h->keys}, last = {1, h->rows, 1, 1}, stride = {0, line, line, 1};
    const bm_row_product first = {h->rows, h->size, h->keys, h->query_slot, h->key_slot, line};
    bm_multiply_rows(&first, h->scores, h->query, h->key);
    if (h->scale != 1) okk_bdc_mul_C(h->scores, h->scores, h->scale, &shape, NULL, NULL);
    add_mask(h);
    bm_row_powers(h->powers, h->scores, h->scores, h->work, &shape);
    bm_row_reciprocals(h->scores, h->work, &last, &stride);
    if (h->keys % 2 != 0) /* weights come in pairs */
        okk_bdc_32bit_set_C(h->powers + 4u * (local_addr_t)h->keys, (x32){.u32 = 0}, &last, &stride);
    const bm_row_product second = {h->rows, h->keys, h->value, line, h->value_slot, local_line(h->value)};
    bm_multiply_rows(&second, h->product, h->powers, h->values);
    divide(h);
}

/* Scores of keys that are none: below all others, masked ones too. */
static void drop_nobody(const bm_head *h) {
    const int line = local_line(h->keys), last = h->keys - 1 - BM_PACKED * (h->nobody - 1);
    const dim4 shape = {1, h->rows, 1, h->nobody}, each = {0, line, line, BM_PACKED};
    if (h->nobody > 0) okk_bdc_32bit_set_C(h->scores + 4u * (local_addr_t)last, (x32){.fp32 = -BM_INFINITY}, &shape, &each);
}

void bm_attend_in_bytes(const bm_head *h, float unit) {
    const local_addr_t wide = h->wide, bytes = h->bytes;
    const int value = h->value, line = local_line(h->keys), size = h->size;
    const int columns = divide_up(h->keys, 4) * 4, rows = h->rows;
    const dim4 shape = {1, rows, 1, h->keys}, last = {1, rows, 1, 1};
    const dim4 stride = {0, line, line, 1}, once = {0, line, line, 0};
    int rshift = 0;
    while (((long long)BM_PACKED_MAX * BM_PACKED_MAX * (size - h->before) >> rshift) > BM_WIDE_MAX) rshift++;
    const bm_byte_product first = {rows, size, columns, h->query_slot, h->key_slot, rshift, true};
    bm_multiply_byte_rows(&first, wide, h->query, h->key);
    bm_wide_to_float(h->scores, wide, rows, columns);
    float scale = h->scale * (float)(1 << rshift);
    if (h->masked || scale < 0) {
        okk_bdc_sub_C(h->scores, h->scores, BM_WIDE_OFFSET, &shape, NULL, NULL);
        okk_bdc_mul_C(h->scores, h->scores, scale, &shape, NULL, NULL);
        scale = 1;
    }
    add_mask(h);
    drop_nobody(h);
    bm_fold_last(BM_FOLD_MAX, h->work, h->scores, &last, &stride, h->keys);
    okk_bdc_sub(h->scores, h->scores, h->work, &shape, &stride, &stride, &once);
    bm_byte_powers(h->powers, h->scores, h->work, rows, h->keys, scale);
    /* Sums of multiples of 2^-8 are the same in any order of as many keys as are multiplied at a time. */
    okk_bdc_add_C(h->scores, h->powers, BM_BYTES_SUMMABLE, &shape, NULL, NULL);
    okk_bdc_sub_C(h->scores, h->scores, BM_BYTES_SUMMABLE, &shape, NULL, NULL);
    okk_bdc_add_C(h->powers, h->powers, BM_BYTES_ROUNDED, &shape, NULL, NULL);
    bm_fold_last(BM_FOLD_SUM, h->work, h->scores, &last, &stride, h->keys);
    if (columns > h->keys) {
        const dim4 rest = {1, rows, 1, columns - h->keys};
        okk_bdc_32bit_set_C(h->powers + 4u * (local_addr_t)h->keys, (x32){.u32 = 0}, &rest, &stride);
    }
    bm_pack_bytes(bytes, h->powers, rows, columns, local_line(columns / 4));
    /* Products of so many keys fit 16 bits; the sums of all of them are fp32. */
    const dim4 made = {1, rows, 1, value};
    bm_byte_product second = {rows, 0, value, local_line(columns / 4), h->value_slot, BM_BYTES_SHIFT, false};
    for (int key = 0; key < h->keys; key += BM_BYTES_SUMMED) {
        second.sums = smaller(BM_BYTES_SUMMED, h->keys - key);
        const local_addr_t part = key == 0 ? h->product : h->scores;
        bm_multiply_byte_rows(&second, wide, bytes + (local_addr_t)key,
                              h->values + 4u * (local_addr_t)(key / CHIP_NPU_NUM * h->value_slot));
        bm_wide_to_float(part, wide, rows, value);
        okk_bdc_sub_C(part, part, BM_WIDE_OFFSET, &made, NULL, NULL);
        if (key > 0) okk_bdc_add(h->product, h->product, part, &made, NULL, NULL, NULL);
    }
    bm_row_reciprocals(h->scores, h->work, &last, &stride);
    okk_bdc_mul_C(h->scores, h->scores, unit * (float)(1 << BM_BYTES_SHIFT), &last, &stride, &stride);
    divide(h);
}

void bm_attend_to_bytes(const bm_head *h, const bm_bytes_result *to) {
    const int line = local_line(h->value);
    const dim4 all = {1, h->rows, 1, h->value};
    bm_head own = *h;
    own.result = own.product;
    own.result_slot = line;
    bm_attend_in_bytes(&own, to->unit);
    const dim4 lines = {0, line, h->value, 1}, once = {0, 0, h->value, 1};
    if (to->evened) okk_bdc_mul(own.product, own.product, to->factors, &all, &lines, &lines, &once);
    okk_bdc_mul_C(own.product, own.product, 1.0f / to->scale, &all, NULL, NULL);
    okk_bdc_max_C(own.product, own.product, to->is_signed ? -128.0f : 0.0f, &all, NULL, NULL);
    okk_bdc_min_C(own.product, own.product, to->is_signed ? 127.0f : 255.0f, &all, NULL, NULL);
    okk_bdc_add_C(own.product, own.product, BM_BYTES_ROUNDED + (to->is_signed ? 128.0f : 0.0f), &all, NULL, NULL);
    bm_pack_bytes(h->result, own.product, h->rows, h->value, to->slot);
    const dim4 words = {1, h->rows, 1, h->value / 4}, stride = {0, to->slot, words.w, 1};
    if (to->is_signed) okk_bdc_32bit_xor_C(h->result, h->result, bm_word(0x80808080), &words, &stride, &stride);
}

void bm_attend_begun(bm_head *h, local_addr_t to, int before, int packed) {
    const int reach = before + h->size, words = reach / packed, line = local_line(words);
    const dim4 all = {1, h->rows, 1, words}, shape = {1, h->rows, 1, h->size / packed};
    const dim4 stride = {0, line, line, 1}, from = {0, h->query_slot, shape.w, 1};
    okk_bdc_32bit_set_C(to, (x32){.u32 = 0}, &all, &stride);
    okk_bdc_32bit_cpy(to + 4u * (local_addr_t)(before / packed), h->query, &shape, &stride, &from);
    h->query = to;
    h->query_slot = line;
    h->size = reach;
    h->before = before;
}
