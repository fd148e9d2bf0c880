/* fp32 depthwise convolutions and maximum pools from and to memory, plane by plane. */
#include <float.h>

#include "planes.h"
#include "tiles.h"

typedef uint32_t words_vector __attribute__((vector_size(4 * TL_LANES)));

#define SIGN 0x80000000u
#define MAGNITUDE 0x7FFFFFFFu
#define SMALLEST 0x00800000u /* the least magnitude that is not denormal */

/* Rows of a plane, `pitch` numbers apart, `width` of them to write one after the other. */
static void write_rows(float *out, const float *numbers, int64_t pitch, int64_t width, int64_t count) {
    for (int64_t y = 0; y * pitch < count; y++)
        memcpy(out + y * width, numbers + y * pitch, (size_t)width * sizeof(float));
}

/* A laid plane and the numbers made from it: how[4..] is elements of the plane, pitch, width and count. */
static float *new_planes(const int64_t *how) { return TL_NEW(float, how[4] + how[7] + TL_LINE); }

/* Planes [first, last): sums over taps in two chains by their parity, then bias.
 *
 * words: f32; weights: f32; x_at: i64[planes]; how: i64[8], the first four and the arrays up to column_at as in
 * planes.h, then elements of a laid plane, pitch and width of the rows of numbers and their count; row_from, row_at,
 * column_from, column_at; base: i64[taps]; w_at: i64[planes]; bias_at: i64[planes] or empty; out_at: i64[planes];
 * first, last. Weight t of a plane is weights[w_at[plane] + t]. */
int64_t windows_depthwise(const tl_arg *a) {
    float *words = a[0].data;
    const int64_t *x_at = a[2].data, *how = a[3].data, *w_at = a[9].data, *bias_at = a[10].data, *out_at = a[11].data;
    const int64_t taps = a[8].shape[0], pitch = how[5], width = how[6], count = how[7];
    const bool has_bias = a[10].shape[0] != 0;
    const tl_layout l = tl_layout_of(a + 3, how[4]);
    float *laid = new_planes(how), *numbers = laid + l.plane, bias = 0;
    if (!laid)
        return TL_NO_MEMORY;
    for (int64_t i = a[12].value; i < a[13].value; i++) {
        if (has_bias)
            bias = words[bias_at[i]];
        tl_lay_plane(words, x_at[i], &l, 0, laid);
        for (int64_t s = 0; s < count; s += TL_LINE) {
            tl_chain_args c = {
                .xs = laid, .base = a[8].data, .weights = a[1].data, .sums = numbers, .bias = &bias, .at = s,
                .first = 0, .taps = taps, .w_at = w_at[i], .w_step = 2, .columns = TL_MIN(TL_LINE, count - s), .to = s,
            };
            tl_line(&c);
            c.first = 1;
            c.w_at++;
            c.then = has_bias ? TL_ADD_HERE | TL_ADD_BIAS : TL_ADD_HERE;
            tl_line(&c);
        }
        write_rows(words + out_at[i], numbers, pitch, width, count);
    }
    free(laid);
    return TL_DONE;
}

/* x where it is greater than found, never NaN. */
TL_INLINE tl_vector greater_of(tl_vector x, tl_vector found) {
    const words_vector chosen = (words_vector)(x > found);
    return (tl_vector)(((words_vector)x & chosen) | ((words_vector)found & ~chosen));
}

/* The greatest x[base[t]] over taps t, or the lowest number, for the lanes of the mask; denormals become zero. */
TL_INLINE tl_vector greatest(const float *x, const int64_t *base, int64_t taps, tl_mask mask) {
    tl_vector found = tl_spread(-FLT_MAX);
    for (int64_t t = 0; t < taps; t++)
        found = greater_of(tl_load_first(x + base[t], mask), found);
    const words_vector bits = (words_vector)found, denormal = (words_vector)((bits & MAGNITUDE) < SMALLEST);
    return (tl_vector)(bits & (~denormal | SIGN));
}

/* Planes [first, last): the greatest over taps, where the window lies in the padding the lowest number. Arguments as
 * for windows_depthwise, without weights, w_at and bias_at. */
int64_t windows_maxima(const tl_arg *a) {
    float *words = a[0].data;
    const int64_t *x_at = a[1].data, *how = a[2].data, *base = a[7].data, *out_at = a[8].data;
    const int64_t taps = a[7].shape[0], pitch = how[5], width = how[6], count = how[7];
    const tl_layout l = tl_layout_of(a + 2, how[4]);
    float *laid = new_planes(how), *numbers = laid + l.plane;
    if (!laid)
        return TL_NO_MEMORY;
    for (int64_t i = a[9].value; i < a[10].value; i++) {
        tl_lay_plane(words, x_at[i], &l, -FLT_MAX, laid);
        for (int64_t s = 0; s < count; s += TL_LANES)
            tl_store(numbers + s, greatest(laid + s, base, taps, tl_first(count - s)));
        write_rows(words + out_at[i], numbers, pitch, width, count);
    }
    free(laid);
    return TL_DONE;
}
