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
 * words: f32; left: f32, with m_at: i64[m] and k_at: i64[k], see pack; base: i64[k], where the right matrix's rows
 * lie, from right_at: i64[channels] on; bias_at: i64[channels] or empty; old: add what is there; out_at: i64[m,
 * channels]; width, c0, c1. */
int64_t product_product(const tl_arg *a) {
    float *words = a[0].data, sums[TL_MAX(TL_TILE, TL_LINE)];
    const float no_bias[TL_ROWS] = {0};
    const int64_t *right_at = a[5].data, *bias_at = a[6].data, *out_at = a[8].data;
    const int64_t m = a[2].shape[0], k = a[3].shape[0], channels = a[8].shape[1], width = a[9].value;
    const bool has_bias = a[6].shape[0] != 0, old = a[7].value != 0;
    const int64_t block = m == 1 ? 1 : TL_ROWS, pairs = (k + 1) / 2;
    float *packed = pack(a[1].data, a[2].data, m, a[3].data, k);
    if (!packed)
        return TL_NO_MEMORY;
    for (int64_t ch = a[10].value; ch < a[11].value; ch++)
        for (int64_t i = 0; i < tl_tiles(0, width); i++) {
            const int64_t s = tl_tile_at(i, 0, width), end = tl_tile_at(i + 1, 0, width);
            for (int64_t r = 0; r < m; r += block) {
                tl_chain_args c = {
                    .xs = words, .base = a[4].data, .weights = packed, .sums = sums, .bias = no_bias,
                    .at = right_at[ch] + s, .taps = k, .w_at = r * pairs * 2, .w_step = 2 * block, .columns = end - s,
                };
                for (int parity = 0; parity < 2; parity++, c.first++, c.w_at++, c.then = TL_ADD_HERE)
                    if (block == 1)
                        tl_line(&c);
                    else
                        tl_chain(&c);
                for (int64_t j = 0; j < TL_MIN(block, m - r); j++) {
                    float *out = words + out_at[(r + j) * channels + ch] + s, *total = sums + j * TL_COLUMNS;
                    for (int64_t x = 0; has_bias && x < end - s; x++)
                        total[x] = total[x] + words[bias_at[ch] + s + x];
                    for (int64_t x = 0; old && x < end - s; x++)
                        total[x] = total[x] + out[x];
                    memcpy(out, total, (size_t)(end - s) * sizeof(float));
                }
            }
        }
    free(packed);
    return TL_DONE;
}
