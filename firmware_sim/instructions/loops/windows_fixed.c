/* Depthwise convolutions, average and maximum pools of bytes from and to memory, plane by plane.
 *
 * A word has a byte of each of four batches. Arguments that all loops here have: x_at: i64[planes], out_at:
 * i64[planes], in words, where the planes of groups of batches lie; how: i64[10], the first four and the arrays up to
 * column_at as in planes.h, then words of a laid plane, pitch and width of the rows of numbers and their count,
 * channels of a group, batches; base: i64[taps]; first, last: which planes. */
#include "planes.h"
#include "words_fixed.h"

enum { PART = 256 };

static int64_t batches_of(const int64_t *how, int64_t plane) {
    return TL_MIN(FX_BATCHES, how[9] - plane / how[8] * FX_BATCHES);
}

/* sums[batch, i] += byte `batch` of x[i] * factor. */
TL_INLINE void add_products(int32_t sums[FX_BATCHES][PART], const uint32_t *x, int32_t factor, int64_t count,
                            const bool is_signed) {
    for (int64_t i = 0; i < count; i++)
        for (int k = 0; k < FX_BATCHES; k++)
            sums[k][i] += (is_signed ? (int8_t)(x[i] >> 8 * k) : (int32_t)(x[i] >> 8 * k & 255)) * factor;
}

/* Sums over taps. memory: u8; weights: u8; x_at; how; row_from, row_at, column_from, column_at; base; w_at:
 * i64[planes], of a plane's first weight; bias_at: i64[planes], of 16-bit numbers, or empty; out_at; input's and
 * weights' sign; finish: an fx_finish; first, last. */
int64_t windows_fixed_sums(const tl_arg *a) {
    uint8_t *memory = a[0].data;
    const int64_t *x_at = a[2].data, *how = a[3].data, *base = a[8].data, *w_at = a[9].data, *bias_at = a[10].data;
    const int64_t *out_at = a[11].data, taps = a[8].shape[0], count = how[7];
    const bool x_signed = a[12].value != 0, w_signed = a[13].value != 0, has_bias = a[10].shape[0] != 0;
    const fx_finish *f = a[14].data;
    const tl_layout l = tl_layout_of(a + 3, how[4]);
    int32_t sums[FX_BATCHES][PART];
    uint32_t *laid = TL_NEW(uint32_t, l.plane);
    if (!laid)
        return TL_NO_MEMORY;
    for (int64_t plane = a[15].value; plane < a[16].value; plane++) {
        const uint8_t *weights = (const uint8_t *)a[1].data + w_at[plane];
        const int64_t some = batches_of(how, plane);
        const int32_t bias = has_bias ? fx_bias(memory, bias_at[plane], f) : 0;
        tl_lay_plane((const float *)memory, x_at[plane], &l, 0, (float *)laid);
        for (int64_t s = 0; s < count; s += PART) {
            const int64_t m = TL_MIN(PART, count - s);
            const int32_t *from[FX_BATCHES];
            memset(sums, 0, sizeof sums);
            for (int64_t t = 0; t < taps; t++) {
                const int32_t factor = w_signed ? (int8_t)weights[t] : weights[t];
                if (x_signed)
                    add_products(sums, laid + base[t] + s, factor, m, true);
                else
                    add_products(sums, laid + base[t] + s, factor, m, false);
            }
            for (int k = 0; k < FX_BATCHES; k++) {
                fx_finished(sums[k], bias, m, f);
                from[k] = sums[k];
            }
            fx_store(memory + out_at[plane] * FX_BATCHES * f->bytes, from, some, how[5], how[6], f->bytes, s, m);
        }
    }
    free(laid);
    return TL_DONE;
}

TL_INLINE void take_greater(uint8_t *best, const uint8_t *x, int64_t count, const bool is_signed) {
    for (int64_t i = 0; i < count; i++)
        if (is_signed)
            best[i] = (uint8_t)TL_MAX((int8_t)best[i], (int8_t)x[i]);
        else
            best[i] = TL_MAX(best[i], x[i]);
}

/* The greatest over taps, of nothing the lowest number. memory: u8; x_at; how; row_from, row_at, column_from,
 * column_at; base; out_at; sign; relu: at least zero, read as signed; first, last. */
int64_t windows_fixed_maxima(const tl_arg *a) {
    uint8_t *memory = a[0].data;
    const int64_t *x_at = a[1].data, *how = a[2].data, *base = a[7].data, *out_at = a[8].data;
    const int64_t taps = a[7].shape[0], pitch = how[5], width = how[6], count = how[7];
    const bool is_signed = a[9].value != 0, relu = a[10].value != 0;
    const uint32_t lowest = is_signed ? 0x80808080u : 0;
    const tl_layout l = tl_layout_of(a + 2, how[4]);
    uint32_t *laid = TL_NEW(uint32_t, l.plane + count + pitch), *best = laid + l.plane;
    if (!laid)
        return TL_NO_MEMORY;
    for (int64_t plane = a[11].value; plane < a[12].value; plane++) {
        const int64_t some = batches_of(how, plane);
        const uint32_t keep = some < FX_BATCHES ? ~0u << 8 * some : 0;
        tl_lay_plane((const float *)memory, x_at[plane], &l, tl_number(lowest), (float *)laid);
        for (int64_t s = 0; s < count; s += PART) {
            const int64_t m = TL_MIN(PART, count - s);
            uint8_t *bytes = (uint8_t *)(best + s);
            memset(bytes, (int)(lowest & 255), (size_t)m * sizeof *best);
            for (int64_t t = 0; t < taps; t++)
                if (is_signed)
                    take_greater(bytes, (const uint8_t *)(laid + base[t] + s), 4 * m, true);
                else
                    take_greater(bytes, (const uint8_t *)(laid + base[t] + s), 4 * m, false);
            for (int64_t i = 0; relu && i < 4 * m; i++)
                bytes[i] = (int8_t)bytes[i] < 0 ? 0 : bytes[i];
        }
        uint32_t *out = (uint32_t *)memory + out_at[plane];
        for (int64_t y = 0; y * pitch < count; y++)
            if (keep)
                for (int64_t i = 0; i < width; i++)
                    out[y * width + i] = (best[y * pitch + i] & ~keep) | (out[y * width + i] & keep);
            else
                memcpy(out + y * width, best + y * pitch, (size_t)width * sizeof *out);
    }
    free(laid);
    return TL_DONE;
}
