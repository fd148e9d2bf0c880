/* fp32 matrix products from and to memory, channel by channel of the right matrix, in tiles. */
#include "tiles.h"

/* The left matrix, whose element (i, k) is left[m_at[i] + k_at[k]], as packed[block of rows, pair of k, row, parity
 * of k]; zeros where a pair lacks its second, or a block rows. NULL when there is no memory. */
static float *pack(const float *left, const int64_t *m_at, int64_t m, const int64_t *k_at, int64_t k) {
    const int64_t rows = m == 1 ? 1 : TL_ROWS, pairs = (k + 1) / 2;
    float *packed = calloc((size_t)((m + rows - 1) / rows * rows * pairs * 2), sizeof(float));
    for (int64_t i = 0; packed && i < m; i++) {
        float *to = packed + i / rows * pairs * rows * 2 + i % rows * 2;
        for (int64_t j = 0; j < k; j++)
            to[(j >> 1) * rows * 2 + (j & 1)] = left[m_at[i] + k_at[j]];
    }
    return packed;
}

/* Channels [c0, c1) of the result, of `width` columns each. It may overlap the left matrix only where one call
 * makes all of it.
 *
 * words: f32; m_at: i64[m] and k_at: i64[k], see pack; base: i64[k], where the right matrix's rows lie, from
 * right_at: i64[channels] on; bias_at: i64[channels] or empty; out_at: i64[m, channels]; width; old: add what is
 * there; what is added to the places of the left and the right matrix, of bias and result; c0, c1. */
int64_t product_product(const tl_arg *a) {
    float *words = a[0].data, sums[TL_MAX(TL_TILE, TL_LINE)];
    float *to = words + a[12].value;
    const float no_bias[TL_ROWS] = {0}, *right = words + a[10].value, *bias = words + a[11].value;
    const int64_t *right_at = a[4].data, *bias_at = a[5].data, *out_at = a[6].data;
    const int64_t m = a[1].shape[0], k = a[2].shape[0], channels = a[6].shape[1], width = a[7].value;
    const bool has_bias = a[5].shape[0] != 0, old = a[8].value != 0;
    const int64_t block = m == 1 ? 1 : TL_ROWS, pairs = (k + 1) / 2;
    float *packed = pack(words + a[9].value, a[1].data, m, a[2].data, k);
    if (!packed)
        return TL_NO_MEMORY;
    for (int64_t ch = a[13].value; ch < a[14].value; ch++)
        for (int64_t i = 0; i < tl_tiles(0, width); i++) {
            const int64_t s = tl_tile_at(i, 0, width), end = tl_tile_at(i + 1, 0, width);
            for (int64_t r = 0; r < m; r += block) {
                tl_chain_args c = {
                    .xs = right, .base = a[3].data, .weights = packed, .sums = sums, .bias = no_bias,
                    .at = right_at[ch] + s, .taps = k, .w_at = r * pairs * 2, .w_step = 2 * block, .columns = end - s,
                };
                for (int parity = 0; parity < 2; parity++, c.first++, c.w_at++, c.then = TL_ADD_HERE)
                    if (block == 1)
                        tl_line(&c);
                    else
                        tl_chain(&c);
                for (int64_t j = 0; j < TL_MIN(block, m - r); j++) {
                    float *out = to + out_at[(r + j) * channels + ch] + s, *total = sums + j * TL_COLUMNS;
                    for (int64_t x = 0; has_bias && x < end - s; x++)
                        total[x] = total[x] + bias[bias_at[ch] + s + x];
                    for (int64_t x = 0; old && x < end - s; x++)
                        total[x] = total[x] + out[x];
                    memcpy(out, total, (size_t)(end - s) * sizeof(float));
                }
            }
        }
    free(packed);
    return TL_DONE;
}

/* What is made of a product of bytes: see product_fixed. */
typedef struct {
    int64_t left_signed, right_signed, bits, is_signed, shift, bias_signed, old_signed, old_shift;
} finish_of;

static int16_t extended(uint8_t byte, bool is_signed) { return is_signed ? (int8_t)byte : byte; }

static int64_t wide(const uint8_t *at, bool is_signed) {
    uint16_t value;
    memcpy(&value, at, sizeof value);
    return is_signed ? (int16_t)value : value;
}

/* sums[n] += the products of row and right[k, n], k of few enough terms for 32 bits. */
static void add_products(int64_t *sums, int32_t *some, const int16_t *row, const int16_t *right, int64_t k, int64_t n) {
    enum { TERMS = 1 << 15 };
    for (int64_t first = 0; first < k; first += TERMS) {
        memset(some, 0, (size_t)n * sizeof *some);
        for (int64_t j = first; j < TL_MIN(first + TERMS, k); j++)
            for (int64_t x = 0; x < n; x++)
                some[x] += row[j] * right[j * n + x];
        for (int64_t x = 0; x < n; x++)
            sums[x] += some[x];
    }
}

/* Products of bytes, with a bias and the old result of 16 bits; all is read before anything is written.
 *
 * memory: u8; m_at: i64[m], k_at: i64[k], where the left matrix lies; base: i64[k], right_at: i64[channels], where the
 * right one does; bias_at: i64[channels] or empty, old_at: i64[m, channels] or empty, both in 16-bit elements; out_at:
 * i64[m, channels], in elements of the result; width; what is added to the places of left, right, bias, old and
 * result; how: i64[8], a finish_of. */
int64_t product_fixed(const tl_arg *a) {
    uint8_t *memory = a[0].data;
    const uint8_t *left = memory + a[9].value, *right = memory + a[10].value;
    const int64_t *m_at = a[1].data, *k_at = a[2].data, *base = a[3].data, *right_at = a[4].data, *bias_at = a[5].data;
    const int64_t *old_at = a[6].data, *out_at = a[7].data, width = a[8].value;
    const int64_t m = a[1].shape[0], k = a[2].shape[0], channels = a[7].shape[1], n = channels * width;
    const finish_of *f = a[14].data;
    const bool has_bias = a[5].shape[0] != 0, has_old = a[6].shape[0] != 0;
    const int64_t half = ((int64_t)1 << f->shift) >> 1, low = f->is_signed ? -((int64_t)1 << (f->bits - 1)) : 0;
    const int64_t high = low + ((int64_t)1 << f->bits) - 1, bytes = f->bits / 8;
    int16_t *rights = TL_NEW(int16_t, k * n + k), *row = rights + k * n;
    int64_t *sums = TL_NEW(int64_t, m * n);
    int32_t *some = TL_NEW(int32_t, n);
    const bool room = rights && sums && some;
    for (int64_t j = 0; room && j < k; j++)
        for (int64_t c = 0; c < channels; c++) {
            const uint8_t *from = right + base[j] + right_at[c];
            for (int64_t x = 0; x < width; x++)
                rights[j * n + c * width + x] = extended(from[x], f->right_signed != 0);
        }
    for (int64_t i = 0; room && i < m; i++) {
        int64_t *total = sums + i * n;
        for (int64_t j = 0; j < k; j++)
            row[j] = extended(left[m_at[i] + k_at[j]], f->left_signed != 0);
        memset(total, 0, (size_t)n * sizeof *total);
        add_products(total, some, row, rights, k, n);
        for (int64_t c = 0; c < channels; c++)
            for (int64_t x = 0; x < width; x++) {
                int64_t value = total[c * width + x];
                if (has_bias)
                    value += wide(memory + 2 * (a[11].value + bias_at[c] + x), f->bias_signed != 0);
                if (has_old)
                    value += wide(memory + 2 * (a[12].value + old_at[i * channels + c] + x), f->old_signed != 0) *
                             ((int64_t)1 << f->old_shift);
                value = (value + half) >> f->shift;
                total[c * width + x] = TL_MIN(TL_MAX(value, low), high);
            }
    }
    for (int64_t i = 0; room && i < m; i++)
        for (int64_t c = 0; c < channels; c++) {
            const int64_t *total = sums + i * n + c * width;
            uint8_t *out = memory + bytes * (a[13].value + out_at[i * channels + c]);
            for (int64_t x = 0; x < width; x++) {
                out[x * bytes] = (uint8_t)total[x];
                if (bytes == 2)
                    out[2 * x + 1] = (uint8_t)(total[x] >> 8);
            }
        }
    free(some);
    free(sums);
    free(rights);
    return room ? TL_DONE : TL_NO_MEMORY;
}
