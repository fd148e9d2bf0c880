/* Small sums of products and maxima, operand by operand through tables of indices.
 *
 * See firmware_sim.instructions.small. An index of -1 stands for a zero, in maxima for nothing. All results are
 * computed before any is written; they are written in order. */
#include "small.h"

#include <float.h>

#include "sums.h"

#define SIGN 0x80000000u
#define MAGNITUDE 0x7FFFFFFFu
#define SMALLEST 0x00800000u /* the least magnitude that is not denormal */
enum { EXACT_TAPS = 1 << 15 }; /* products of bytes whose sum surely fits into 32 bits */

/* out_at: i64[count]; added_at: i64[k, count], what is added one after the other. */
static void store(float *memory, const int64_t *out_at, float *results, int64_t count, const int64_t *added_at,
                  int64_t added) {
    for (int64_t k = 0; k < added; k++)
        for (int64_t i = 0; i < count; i++)
            results[i] = results[i] + memory[added_at[k * count + i]];
    for (int64_t i = 0; i < count; i++)
        memory[out_at[i]] = results[i];
}

/* out[g, r, s] = sum over halves and taps of x[g, half, t, s] * w[g, half, r, t].
 *
 * memory, x_memory, w_memory: f32, where results, x and w lie; x_at: i64[groups, halves, taps, columns]; w_at:
 * i64[groups, halves, rows, taps]; one group may stand for all. out_at: i64[results]; added_at: i64[k, results]. A
 * single tap of a single half is a product, not a sum. */
int64_t small_products(const tl_arg *a) {
    const tl_arg *x_at = a + 3, *w_at = a + 4;
    const int64_t halves = w_at->shape[1], rows = w_at->shape[2], taps = w_at->shape[3], columns = x_at->shape[3];
    const int64_t groups = TL_MAX(x_at->shape[0], w_at->shape[0]);
    const int64_t x_size = halves * taps * columns, w_size = halves * rows * taps, size = rows * columns;
    float *xs = TL_NEW(float, x_size + w_size + groups * size);
    int64_t *base = TL_NEW(int64_t, taps), status = xs && base ? TL_DONE : TL_NO_MEMORY;
    for (int64_t t = 0; t < taps && !status; t++)
        base[t] = t * columns;
    float *ws = xs + x_size, *results = ws + w_size;
    const tl_products p = {xs, ws, base, halves, taps * columns, rows, taps};
    for (int64_t g = 0; g < groups && !status; g++) {
        if (g < x_at->shape[0])
            tl_gather(xs, a[1].data, (const int64_t *)x_at->data + g * x_size, x_size);
        if (g < w_at->shape[0])
            tl_gather(ws, a[2].data, (const int64_t *)w_at->data + g * w_size, w_size);
        float *out = results + g * size;
        if (halves == 1 && taps == 1)
            for (int64_t r = 0; r < rows; r++)
                for (int64_t s = 0; s < columns; s++)
                    out[r * columns + s] = xs[s] * ws[r];
        else
            status = tl_shared(&p, out, columns, 0, rows, 0, columns);
    }
    if (!status)
        store(a[0].data, a[5].data, results, groups * size, a[6].data, a[6].shape[0]);
    free(base);
    free(xs);
    return status;
}

/* out[g, s] = sum over taps of x[g, t, s] * w[g, t]; with a single tap the product itself.
 *
 * memory: f32; constants: where weights lie (it may be memory); x_at: i64[groups, taps, columns]; w_at: i64[groups,
 * taps]; out_at, added_at as for small_products. */
int64_t small_separate_products(const tl_arg *a) {
    const int64_t groups = a[2].shape[0], taps = a[2].shape[1], columns = a[2].shape[2];
    float *x = TL_NEW(float, groups * (taps * columns + taps + columns));
    int64_t *base = TL_NEW(int64_t, taps), status = x && base ? TL_DONE : TL_NO_MEMORY;
    if (!status) {
        float *w = x + groups * taps * columns, *results = w + groups * taps;
        tl_gather(w, a[1].data, a[3].data, groups * taps);
        tl_gather(x, a[0].data, a[2].data, groups * taps * columns);
        for (int64_t t = 0; t < taps; t++)
            base[t] = t * columns;
        if (taps == 1)
            for (int64_t g = 0; g < groups; g++)
                for (int64_t s = 0; s < columns; s++)
                    results[g * columns + s] = x[g * columns + s] * w[g];
        else
            tl_separate(x, taps * columns, w, base, taps, results, columns, 0, groups);
        store(a[0].data, a[4].data, results, groups * columns, a[5].data, a[5].shape[0]);
    }
    free(base);
    free(x);
    return status;
}

/* out[i] = the greatest x[i, t], fp32, from the lowest number on; NaN is never greater. memory: f32; x_at:
 * i64[results, taps]; out_at: i64[results]. */
int64_t small_maxima(const tl_arg *a) {
    float *memory = a[0].data;
    const int64_t *x_at = a[1].data, *out_at = a[2].data;
    const int64_t count = a[2].shape[0], taps = a[1].shape[1];
    float *results = TL_NEW(float, count);
    if (!results)
        return TL_NO_MEMORY;
    for (int64_t i = 0; i < count; i++) {
        float best = -FLT_MAX;
        for (int64_t t = 0; t < taps; t++) {
            const int64_t at = x_at[i * taps + t];
            if (at >= 0 && memory[at] > best)
                best = memory[at];
        }
        results[i] = (tl_bits(best) & MAGNITUDE) < SMALLEST ? tl_number(tl_bits(best) & SIGN) : best;
    }
    for (int64_t i = 0; i < count; i++)
        memory[out_at[i]] = results[i];
    free(results);
    return TL_DONE;
}

/* The same of bytes: memory: u8; then signed, relu: at least zero, read as signed. */
int64_t small_fixed_maxima(const tl_arg *a) {
    uint8_t *memory = a[0].data;
    const int64_t *x_at = a[1].data, *out_at = a[2].data;
    const int64_t count = a[2].shape[0], taps = a[1].shape[1];
    const bool is_signed = a[3].value != 0, relu = a[4].value != 0;
    uint8_t *results = TL_NEW(uint8_t, count);
    if (!results)
        return TL_NO_MEMORY;
    for (int64_t i = 0; i < count; i++) {
        int best = is_signed ? -128 : 0;
        for (int64_t t = 0; t < taps; t++) {
            const int64_t at = x_at[i * taps + t];
            if (at >= 0) {
                const int value = is_signed ? (int8_t)memory[at] : memory[at];
                best = TL_MAX(best, value);
            }
        }
        results[i] = (uint8_t)(relu ? TL_MAX((int8_t)best, 0) : best);
    }
    for (int64_t i = 0; i < count; i++)
        memory[out_at[i]] = results[i];
    free(results);
    return TL_DONE;
}

/* Two bytes as an integer. */
static int64_t wide(const uint8_t *memory, int64_t at, bool is_signed) {
    const uint16_t value = (uint16_t)(memory[at] | memory[at + 1] << 8);
    return is_signed ? (int16_t)value : value;
}

void tl_gather_bytes(int32_t *values, const uint8_t *memory, const int64_t *at, int64_t count, bool is_signed) {
    for (int64_t i = 0; i < count; i++) {
        const uint8_t byte = at[i] >= 0 ? memory[at[i]] : 0;
        values[i] = is_signed ? (int8_t)byte : byte;
    }
}

void tl_finish(uint8_t *memory, int64_t *results, const int64_t *out_at, int64_t count, const int64_t *added_at,
               const int64_t *how) {
    const int64_t bits = how[2], shift = how[4], left = how[7];
    const bool is_signed = how[3] != 0, bias_signed = how[5] != 0, old_signed = how[6] != 0;
    const int64_t half = ((int64_t)1 << shift) >> 1, low = is_signed ? -((int64_t)1 << (bits - 1)) : 0;
    const int64_t high = low + ((int64_t)1 << bits) - 1;
    for (int64_t i = 0; i < count; i++) {
        int64_t total = results[i];
        if (added_at[i] >= 0)
            total += wide(memory, added_at[i], bias_signed);
        if (added_at[count + i] >= 0)
            total += wide(memory, added_at[count + i], old_signed) * ((int64_t)1 << left);
        total = (total + half) >> shift;
        results[i] = TL_MIN(TL_MAX(total, low), high);
    }
    for (int64_t i = 0; i < count; i++)
        if (out_at[i] >= 0) {
            memory[out_at[i]] = (uint8_t)results[i];
            if (bits == 16)
                memory[out_at[i] + 1] = (uint8_t)(results[i] >> 8);
        }
}

/* As short numbers, whose products processors add in pairs. */
static void gather_short(int16_t *values, const uint8_t *memory, const int64_t *at, int64_t count, bool is_signed) {
    for (int64_t i = 0; i < count; i++) {
        const uint8_t byte = at[i] >= 0 ? memory[at[i]] : 0;
        values[i] = is_signed ? (int8_t)byte : byte;
    }
}

static int64_t dot(const int16_t *x, const int16_t *w, int64_t taps) {
    int64_t total = 0;
    for (int64_t t = 0; t < taps; t += EXACT_TAPS) {
        const int64_t end = TL_MIN(t + EXACT_TAPS, taps);
        int32_t some = 0;
        for (int64_t i = t; i < end; i++)
            some += x[i] * w[i];
        total += some;
    }
    return total;
}

/* out[g, r, s] = sum over taps of x[g, s, t] * w[g % groups, r, t] of bytes, finished.
 *
 * memory, constants: u8; x_at: i64[groups, columns, taps]; w_at: i64[groups, rows, taps]; out_at: i64[results];
 * added_at, how: see tl_finish; how[0], how[1]: sign of x, of w. */
int64_t small_fixed_products(const tl_arg *a) {
    const int64_t groups = a[2].shape[0], columns = a[2].shape[1], taps = a[2].shape[2], rows = a[3].shape[1];
    const int64_t weights = tl_size(a + 3, 3), count = a[4].shape[0], *x_at = a[2].data, *how = a[6].data;
    int16_t *x = TL_NEW(int16_t, taps + weights), *w = x + taps;
    int64_t *results = TL_NEW(int64_t, count), status = x && results ? TL_DONE : TL_NO_MEMORY;
    if (!status) {
        gather_short(w, a[1].data, a[3].data, weights, how[1] != 0);
        for (int64_t g = 0; g < groups; g++)
            for (int64_t s = 0; s < columns; s++) {
                gather_short(x, a[0].data, x_at + (g * columns + s) * taps, taps, how[0] != 0);
                const int16_t *of_group = w + g % a[3].shape[0] * rows * taps;
                for (int64_t r = 0; r < rows; r++)
                    results[(g * rows + r) * columns + s] = dot(x, of_group + r * taps, taps);
            }
        tl_finish(a[0].data, results, a[4].data, count, a[5].data, how);
    }
    free(results);
    free(x);
    return status;
}
