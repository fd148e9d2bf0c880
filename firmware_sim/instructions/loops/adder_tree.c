/* The adder tree row by row; see firmware_sim.instructions.adder_tree. */
#include "adder_tree.h"

#include <math.h>

enum { INPUTS = 32, SPECIAL = 255 };

static int32_t exponent_of(uint32_t bits) { return (int32_t)(bits >> 23 & 255); }

/* Integers only, apart from one rounding and one scaling, so the processor's mode does not matter. */
float tl_tree_row(const float *x, int64_t count, const double *steps) {
    float sum = 0;
    for (int64_t first = 0; first < count; first += INPUTS) {
        const int64_t last = TL_MIN(first + INPUTS, count);
        int32_t top = exponent_of(tl_bits(sum));
        for (int64_t i = first; i < last; i++) {
            const int32_t exponent = exponent_of(tl_bits(x[i]));
            top = TL_MAX(top, exponent);
        }
        if (top == SPECIAL) {
            float special = exponent_of(tl_bits(sum)) == SPECIAL ? sum : 0;
            for (int64_t i = first; i < last; i++)
                if (exponent_of(tl_bits(x[i])) == SPECIAL)
                    special += x[i];
            sum = special;
            continue;
        }
        int32_t whole = 0;
        for (int64_t i = first - 1; i < last; i++) {
            const uint32_t bits = tl_bits(i < first ? sum : x[i]);
            const int32_t exponent = exponent_of(bits), distance = TL_MIN(top - exponent, 31);
            int32_t mantissa = (int32_t)((bits & 0x7FFFFF) | 0x800000) << 1;
            mantissa = exponent ? mantissa >> distance : 0;
            whole += bits >> 31 ? -mantissa : mantissa;
        }
        double value = (double)(float)whole * steps[top];
        if (fabs(value) < 0x1p-126)
            value = whole < 0 ? -0.0 : 0.0;
        sum = (float)value;
    }
    return sum;
}

/* out[r] = sum of x[r] for rows [r0, r1). x: f32[rows, numbers]; steps; out: f32[rows]; r0, r1. */
int64_t adder_tree_total(const tl_arg *a) {
    const float *x = a[0].data;
    float *out = a[2].data;
    const int64_t count = a[0].shape[1];
    for (int64_t r = a[3].value; r < a[4].value; r++)
        out[r] = tl_tree_row(x + r * count, count, a[1].data);
    return TL_DONE;
}

/* out[r] = sum of the numbers at at[r] (+ old with add). memory: f32; steps; at: i64[rows, numbers], -1: +0;
 * out_at: i64[rows]; add. */
int64_t adder_tree_gathered(const tl_arg *a) {
    float *memory = a[0].data;
    const int64_t *at = a[2].data, *out_at = a[3].data;
    const int64_t rows = a[2].shape[0], count = a[2].shape[1];
    float *x = TL_NEW(float, count + rows), *results = x + count;
    if (!x)
        return TL_NO_MEMORY;
    for (int64_t r = 0; r < rows; r++) {
        tl_gather(x, memory, at + r * count, count);
        results[r] = tl_tree_row(x, count, a[1].data);
        if (a[4].value)
            results[r] += memory[out_at[r]];
    }
    for (int64_t r = 0; r < rows; r++)
        memory[out_at[r]] = results[r];
    free(x);
    return TL_DONE;
}

/* out[g, r, s] = sum over t of x[g, s, t] * w[r, t]. memory: f32; steps; x_at: i64[groups, columns, taps], -1 for
 * zero; w_at: i64[rows, taps]; out_at: i64[groups, rows, columns]. */
int64_t adder_tree_correlated(const tl_arg *a) {
    float *memory = a[0].data;
    const int64_t *x_at = a[2].data, *w_at = a[3].data, *out_at = a[4].data;
    const int64_t groups = a[2].shape[0], columns = a[2].shape[1], taps = a[2].shape[2], rows = a[3].shape[0];
    const int64_t results = groups * rows * columns;
    float *x = TL_NEW(float, 2 * taps + rows * taps + results);
    if (!x)
        return TL_NO_MEMORY;
    float *terms = x + taps, *w = terms + taps, *out = w + rows * taps;
    tl_gather(w, memory, w_at, rows * taps);
    for (int64_t g = 0; g < groups; g++)
        for (int64_t s = 0; s < columns; s++) {
            tl_gather(x, memory, x_at + (g * columns + s) * taps, taps);
            for (int64_t r = 0; r < rows; r++) {
                for (int64_t t = 0; t < taps; t++)
                    terms[t] = w[r * taps + t] * x[t];
                out[(g * rows + r) * columns + s] = tl_tree_row(terms, taps, a[1].data);
            }
        }
    for (int64_t i = 0; i < results; i++)
        memory[out_at[i]] = out[i];
    free(x);
    return TL_DONE;
}
