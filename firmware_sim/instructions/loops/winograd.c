/* Small winograd convolutions through tables of indices; see firmware_sim.instructions.winograd and small.
 *
 * x_at: i64[batches, tiles, channels, 16], -1 for zero; w_at: i64[output channels, channels, 16]. A transformed
 * element is what is at terms[k, :2] together, plus or minus (minus[k]) what is at terms[k, 2:]. */
#include "adder_tree.h"
#include "loops.h"
#include "small.h"

enum { ELEMENTS = 16, TERMS = 9, PIXELS = 4 };

#define TRANSFORM(name, type)                                                                   \
    static void name(type *out, const type *tile, const int64_t *terms, const uint8_t *minus) { \
        for (int k = 0; k < ELEMENTS; k++) {                                                    \
            const int64_t *at = terms + 4 * k;                                                  \
            const type first = tile[at[0]] + tile[at[1]], second = tile[at[2]] + tile[at[3]];   \
            out[k] = minus[k] ? first - second : first + second;                                \
        }                                                                                       \
    }

TRANSFORM(transform_fp32, float)
TRANSFORM(transform_fixed, int32_t)

/* memory: f32; steps; x_at; w_at; out_at: i64[batches, output channels, tiles, 4], -1 for pixels beyond the result;
 * bias_at: i64[output channels] or nothing; terms: i64[16, 4]; minus: u8[16]; places: i64[4, 9], of which products a
 * pixel is the sum, by factors: f32[4, 9]; add: the old result is added last. */
int64_t winograd_fp32(const tl_arg *a) {
    float *memory = a[0].data;
    const int64_t *x_at = a[2].data, *w_at = a[3].data, *out_at = a[4].data, *bias_at = a[5].data;
    const int64_t *places = a[8].data;
    const float *factors = a[9].data;
    const int64_t batches = a[2].shape[0], tiles = a[2].shape[1], channels = a[2].shape[2], rows = a[3].shape[0];
    const int64_t per_tile = channels * ELEMENTS, count = tl_size(a + 4, 4);
    const bool has_bias = a[5].shape[0] != 0, add = a[10].value != 0;
    float *v = TL_NEW(float, per_tile + rows * per_tile + count);
    if (!v)
        return TL_NO_MEMORY;
    float *u = v + per_tile, *results = u + rows * per_tile;
    tl_gather(u, memory, w_at, rows * per_tile);
    for (int64_t n = 0; n < batches; n++)
        for (int64_t s = 0; s < tiles; s++) {
            for (int64_t c = 0; c < channels; c++) {
                float tile[ELEMENTS];
                tl_gather(tile, memory, x_at + ((n * tiles + s) * channels + c) * ELEMENTS, ELEMENTS);
                transform_fp32(v + c * ELEMENTS, tile, a[6].data, a[7].data);
            }
            for (int64_t oc = 0; oc < rows; oc++) {
                const float *of_row = u + oc * per_tile;
                float sums[2][ELEMENTS] = {0};
                for (int64_t c = 0; c < channels; c++)
                    for (int k = 0; k < ELEMENTS; k++)
                        sums[c & 1][k] += v[c * ELEMENTS + k] * of_row[c * ELEMENTS + k];
                for (int k = 0; k < ELEMENTS; k++)
                    sums[0][k] = sums[0][k] + sums[1][k];
                const float bias = has_bias ? memory[bias_at[oc]] : 0;
                for (int p = 0; p < PIXELS; p++) {
                    const int64_t at = ((n * rows + oc) * tiles + s) * PIXELS + p;
                    float terms[TERMS];
                    for (int i = 0; i < TERMS; i++)
                        terms[i] = sums[0][places[p * TERMS + i]] * factors[p * TERMS + i];
                    float total = tl_tree_row(terms, TERMS, a[1].data) + bias;
                    if (add && out_at[at] >= 0)
                        total = total + memory[out_at[at]];
                    results[at] = total;
                }
            }
        }
    for (int64_t i = 0; i < count; i++)
        if (out_at[i] >= 0)
            memory[out_at[i]] = results[i];
    free(v);
    return TL_DONE;
}

/* memory: u8; x_at; w_at; out_at, added_at, how: see tl_finish, the results in the order [batches, output channels,
 * tiles, 4]; terms, minus, places as above; factors: i64[4, 9]. */
int64_t winograd_fixed(const tl_arg *a) {
    uint8_t *memory = a[0].data;
    const int64_t *x_at = a[1].data, *how = a[5].data, *places = a[8].data, *factors = a[9].data;
    const int64_t batches = a[1].shape[0], tiles = a[1].shape[1], channels = a[1].shape[2], rows = a[2].shape[0];
    const int64_t per_tile = channels * ELEMENTS, count = a[3].shape[0];
    int32_t *v = TL_NEW(int32_t, per_tile + rows * per_tile), *u = v + per_tile;
    int64_t *results = TL_NEW(int64_t, count), status = v && results ? TL_DONE : TL_NO_MEMORY;
    if (!status)
        tl_gather_bytes(u, memory, a[2].data, rows * per_tile, how[1] != 0);
    for (int64_t n = 0; n < batches && !status; n++)
        for (int64_t s = 0; s < tiles; s++) {
            for (int64_t c = 0; c < channels; c++) {
                int32_t tile[ELEMENTS];
                tl_gather_bytes(tile, memory, x_at + ((n * tiles + s) * channels + c) * ELEMENTS, ELEMENTS,
                                how[0] != 0);
                transform_fixed(v + c * ELEMENTS, tile, a[6].data, a[7].data);
            }
            for (int64_t oc = 0; oc < rows; oc++) {
                const int32_t *of_row = u + oc * per_tile;
                int32_t products[ELEMENTS] = {0};
                for (int64_t c = 0; c < channels; c++)
                    for (int k = 0; k < ELEMENTS; k++)
                        products[k] += v[c * ELEMENTS + k] * of_row[c * ELEMENTS + k];
                for (int p = 0; p < PIXELS; p++) {
                    int64_t total = 0;
                    for (int i = 0; i < TERMS; i++)
                        total += products[places[p * TERMS + i]] * factors[p * TERMS + i];
                    results[((n * rows + oc) * tiles + s) * PIXELS + p] = total;
                }
            }
        }
    if (!status)
        tl_finish(memory, results, a[3].data, count, a[4].data, how);
    free(results);
    free(v);
    return status;
}
