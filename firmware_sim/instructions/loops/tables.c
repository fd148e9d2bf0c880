/* Polynomials and lookups, whose tables lie in L2; see firmware_sim.instructions.sfu and table_lookup.
 *
 * `at`, i64[2, rows], holds the index of each row's first element in the result and in the input. */
#include "loops.h"

enum { BLOCK = 512 };

/* The sum of coefficients[k] * x**(k + 1), see sfu.taylor. coefficients: f32[terms]; out, x: words, which may be the
 * same; at; width. */
int64_t tables_taylor(const tl_arg *a) {
    const float *coefficients = a[0].data, *x = a[2].data;
    float *out = a[1].data, total[BLOCK], values[BLOCK];
    const int64_t *at = a[3].data, rows = a[3].shape[1], width = a[4].value;
    for (int64_t row = 0; row < rows; row++)
        for (int64_t first = 0; first < width; first += BLOCK) {
            const int64_t m = TL_MIN(BLOCK, width - first);
            memcpy(values, x + at[rows + row] + first, (size_t)m * sizeof(float));
            memset(total, 0, sizeof total);
            for (int64_t k = a[0].shape[0] - 1; k >= 0; k--)
                for (int64_t i = 0; i < m; i++)
                    total[i] = (total[i] + coefficients[k]) * values[i];
            memcpy(out + at[row] + first, total, (size_t)m * sizeof(float));
        }
    return TL_DONE;
}

TL_INLINE uint32_t low_byte(const tl_arg *x, int64_t at) {
    return x->item == 1 ? ((const uint8_t *)x->data)[at] : ((const uint32_t *)x->data)[at] & 255;
}

/* The largest low byte of the indices, which are at[1]. x: words or bytes; at; width. */
int64_t tables_largest_index(const tl_arg *a) {
    const int64_t *at = a[1].data, rows = a[1].shape[1], width = a[2].value;
    int64_t largest = 0;
    for (int64_t row = 0; row < rows; row++)
        for (int64_t i = 0; i < width; i++) {
            const int64_t index = low_byte(a, at[rows + row] + i);
            largest = TL_MAX(largest, index);
        }
    return largest;
}

/* Each result the entry at the low byte of an index; none is beyond the table. out: words; x: words or bytes; table:
 * words; at; width. */
int64_t tables_lookup(const tl_arg *a) {
    const uint32_t *table = a[2].data;
    const int64_t *at = a[3].data, rows = a[3].shape[1], width = a[4].value;
    for (int64_t row = 0; row < rows; row++) {
        uint32_t *out = (uint32_t *)a[0].data + at[row];
        if (a[1].item == 1) {
            const uint8_t *x = (const uint8_t *)a[1].data + at[rows + row];
            for (int64_t i = 0; i < width; i++)
                out[i] = table[x[i]];
        } else {
            const uint32_t *x = (const uint32_t *)a[1].data + at[rows + row];
            for (int64_t i = 0; i < width; i++)
                out[i] = table[x[i] & 255];
        }
    }
    return TL_DONE;
}
