/* Sums of products; see firmware_sim.instructions.sums. */
#include "sums.h"

int64_t tl_shared(const tl_products *p, float *out, int64_t columns, int64_t r0, int64_t r1, int64_t s0, int64_t s1) {
    const int64_t pairs = (p->taps + 1) / 2;
    float sums[2 * TL_TILE], bias[TL_ROWS] = {0};
    float *weights = calloc((size_t)(p->halves * pairs * TL_ROWS * 2), sizeof(float));
    if (!weights)
        return TL_NO_MEMORY;
    for (int64_t r = r0; r < r1; r += TL_ROWS) {
        const int64_t rows = TL_MIN(TL_ROWS, r1 - r);
        for (int64_t half = 0; half < p->halves; half++)
            for (int64_t j = 0; j < rows; j++)
                for (int64_t t = 0; t < p->taps; t++)
                    weights[((half * pairs + (t >> 1)) * TL_ROWS + j) * 2 + (t & 1)] =
                        p->ws[(half * p->rows + r + j) * p->taps + t];
        for (int64_t i = 0; i < tl_tiles(s0, s1); i++) {
            const int64_t s = tl_tile_at(i, s0, s1), end = tl_tile_at(i + 1, s0, s1);
            int64_t to = 0;
            for (int64_t half = 0; half < p->halves; half++) {
                to = half * TL_TILE;
                tl_chain_args c = {
                    .xs = p->xs, .base = p->base, .weights = weights, .sums = sums, .bias = bias,
                    .at = half * p->elements + s, .first = 0, .taps = p->taps,
                    .w_at = half * pairs * TL_ROWS * 2, .w_step = 2 * TL_ROWS, .columns = end - s, .to = to,
                };
                tl_chain(&c);
                c.first = 1;
                c.w_at++;
                c.then = half ? TL_ADD_HERE | TL_ADD_FIRST : TL_ADD_HERE;
                tl_chain(&c);
            }
            for (int64_t j = 0; j < rows; j++)
                memcpy(out + (r + j) * columns + s, sums + to + j * TL_COLUMNS, (size_t)(end - s) * sizeof(float));
        }
    }
    free(weights);
    return TL_DONE;
}

void tl_separate(const float *x, int64_t elements, const float *w, const int64_t *base, int64_t taps, float *out,
                 int64_t columns, int64_t r0, int64_t r1) {
    float sums[TL_LINE];
    for (int64_t r = r0; r < r1; r++)
        for (int64_t s = 0; s < columns; s += TL_LINE) {
            tl_chain_args c = {
                .xs = x, .base = base, .weights = w, .sums = sums, .at = r * elements + s, .first = 0, .taps = taps,
                .w_at = r * taps, .w_step = 2, .columns = TL_MIN(TL_LINE, columns - s),
            };
            tl_line(&c);
            c.first = 1;
            c.w_at++;
            c.then = TL_ADD_HERE;
            tl_line(&c);
            memcpy(out + r * columns + s, sums, (size_t)c.columns * sizeof(float));
        }
}

/* xs: f32[halves, elements]; ws: f32[halves, rows, taps]; base: i64[taps]; out: f32[rows, columns]; r0, r1, s0, s1. */
int64_t sums_shared(const tl_arg *a) {
    const tl_products p = {
        .xs = a[0].data, .ws = a[1].data, .base = a[2].data, .halves = a[1].shape[0], .elements = a[0].shape[1],
        .rows = a[1].shape[1], .taps = a[1].shape[2],
    };
    return tl_shared(&p, a[3].data, a[3].shape[1], a[4].value, a[5].value, a[6].value, a[7].value);
}

/* x: f32[rows, elements]; w: f32[rows, taps]; base: i64[taps]; out: f32[rows, columns]; r0, r1. */
int64_t sums_separate(const tl_arg *a) {
    tl_separate(a[0].data, a[0].shape[1], a[1].data, a[2].data, a[2].shape[0], a[3].data, a[3].shape[1], a[4].value,
                a[5].value);
    return TL_DONE;
}
