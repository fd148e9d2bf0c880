/* Convolutions of bytes from and to memory: inputs laid out for the window, then tiles of output channels.
 *
 * In memory a word has a byte of each of four batches; laid out it has one of each of four input channels, as
 * weights have. */
#include "planes.h"
#include "tiles_fixed.h"
#include "words_fixed.h"

enum { PART = 256 };

/* Words [first, first + count) of the rows of four channels as words of four channels each, one for each batch.
 * NULL: a channel that is not there. */
static void turn(const uint32_t *const *rows, int64_t first, int64_t count, int64_t step, uint32_t flip,
                 uint32_t to[FX_BATCHES][PART]) {
    static const uint32_t nothing[PART] = {0};
    const uint32_t *from[FX_BATCHES];
    uint32_t apart[FX_BATCHES][PART];
    for (int c = 0; c < FX_BATCHES; c++) {
        from[c] = rows[c] ? rows[c] + first * step : nothing;
        if (rows[c] && step != 1) {
            for (int64_t i = 0; i < count; i++)
                apart[c][i] = from[c][i * step];
            from[c] = apart[c];
        }
    }
    const uint32_t *p = from[0], *q = from[1], *r = from[2], *s = from[3];
    for (int64_t i = 0; i < count; i++) {
        to[0][i] = ((p[i] & 255) | (q[i] & 255) << 8 | (r[i] & 255) << 16 | s[i] << 24) ^ flip;
        to[1][i] = ((p[i] >> 8 & 255) | (q[i] & 0xFF00) | (r[i] & 0xFF00) << 8 | (s[i] & 0xFF00) << 16) ^ flip;
        to[2][i] = ((p[i] >> 16 & 255) | (q[i] >> 8 & 0xFF00) | (r[i] & 0xFF0000) | (s[i] & 0xFF0000) << 8) ^ flip;
        to[3][i] = (p[i] >> 24 | (q[i] >> 16 & 0xFF00) | (r[i] >> 8 & 0xFF0000) | (s[i] & 0xFF000000u)) ^ flip;
    }
}

/* Quadruples [first, last) of input channels of all batches into laid[batch, quadruples * plane].
 *
 * words: u32; x_at: i64[groups, channels], where planes lie; how, row_from, row_at, column_from, column_at, plane: see
 * planes.h; laid: u32; fill: of padding, and added to bytes by exclusive or; first, last. */
int64_t convolve_fixed_lay(const tl_arg *a) {
    const uint32_t *words = a[0].data, fill = (uint32_t)a[9].value;
    const int64_t *x_at = a[1].data, groups = a[1].shape[0], channels = a[1].shape[1], batches = a[8].shape[0];
    const tl_layout l = tl_layout_of(a + 2, a[7].value);
    const int64_t height = l.one ? 1 : l.h, width = l.one ? l.h * l.w : l.w;
    uint32_t turned[FX_BATCHES][PART];
    for (int64_t g = 0; g < groups; g++)
        for (int64_t q = a[10].value; q < a[11].value; q++) {
            const int64_t some = TL_MIN(FX_BATCHES, batches - g * FX_BATCHES);
            uint32_t *to = (uint32_t *)a[8].data + g * FX_BATCHES * a[8].shape[1] + q * l.plane;
            if (l.h * l.w < l.plane)
                for (int64_t k = 0; k < some; k++)
                    for (int64_t i = 0; i < l.plane; i++)
                        to[k * a[8].shape[1] + i] = fill;
            for (int64_t y = 0; y < height; y++) {
                const uint32_t *rows[FX_BATCHES];
                const int64_t from = l.row_from[y] * l.row_step + (l.whole ? l.column_from[0] : 0);
                for (int64_t c = 0; c < FX_BATCHES; c++) {
                    const int64_t channel = q * FX_BATCHES + c;
                    rows[c] = channel < channels ? words + x_at[g * channels + channel] + from : NULL;
                }
                for (int64_t x = 0; x < width; x += PART) {
                    const int64_t count = TL_MIN(PART, width - x);
                    if (l.whole) {
                        turn(rows, x, count, 1, fill, turned);
                        for (int64_t k = 0; k < some; k++)
                            memcpy(to + k * a[8].shape[1] + l.row_at[y] + l.column_at[0] + x, turned[k],
                                   (size_t)count * sizeof(uint32_t));
                        continue;
                    }
                    /* columns that are needed lie apart: those between the first and the last are turned */
                    const int64_t begin = l.column_from[x], span = l.column_from[x + count - 1] + 1 - begin;
                    for (int64_t done = 0, i = x; done < span; done += PART) {
                        turn(rows, begin + done, TL_MIN(PART, span - done), l.step, fill, turned);
                        for (; i < x + count && l.column_from[i] - begin < done + PART; i++)
                            for (int64_t k = 0; k < some; k++)
                                to[k * a[8].shape[1] + l.row_at[y] + l.column_at[i]] =
                                    turned[k][l.column_from[i] - begin - done];
                    }
                }
            }
        }
    return TL_DONE;
}

/* How weights lie, and rows of numbers; how bytes are multiplied. */
typedef struct {
    int64_t step, quads, pitch, width, way, x_signed, w_signed;
} convolution;

/* The words of weights of a block of rows as its tiles take them; more: what is added to each row's sums. */
static void pack(uint32_t *packed, int32_t *more, const uint32_t *weights, const int64_t *w_at,
                 const int64_t *kernel_at, int64_t kernel, const convolution *c) {
    for (int64_t k = 0; k < kernel; k++)
        for (int64_t i = 0; i < c->quads; i++)
            for (int64_t j = 0; j < TL_ROWS; j++) {
                const uint32_t word = weights[w_at[j] + i * c->step + kernel_at[k]];
                const int64_t at = (k * c->quads + i) * TL_ROWS + j;
                if (c->way != FX_PAIRS) {
                    packed[at] = word;
                    if (c->x_signed && c->w_signed)
                        for (int b = 0; b < 4; b++)
                            more[j] -= 128 * (int8_t)(word >> 8 * b);
                    continue;
                }
                packed[2 * at] = c->w_signed ? (uint16_t)(int8_t)word | (uint32_t)(int8_t)(word >> 16) << 16
                                             : word & 0x00FF00FF;
                packed[2 * at + 1] = c->w_signed ? (uint16_t)(int8_t)(word >> 8) | (uint32_t)(int8_t)(word >> 24) << 16
                                                 : word >> 8 & 0x00FF00FF;
            }
}

/* Output channels [r0, r1) and numbers [s0, s1) of all batches.
 *
 * memory: u8. laid: see convolve_fixed_lay, with FX_COLUMNS words behind it; base: i64[taps], where a tap's words
 * begin in it. weights: u32, of four input channels each; for output channel c, quadruple q and element k of the
 * kernel they are at w_at[c] + q * step + kernel_at[k]; w_at has a multiple of TL_ROWS. how: i64[7], a
 * convolution; finish: i64[5], an fx_finish.
 * bias_at: i64[channels], of 16-bit numbers, or empty. out_at: i64[groups, channels], in words. r0, r1, s0, s1. */
int64_t convolve_fixed(const tl_arg *a) {
    uint8_t *memory = a[0].data;
    const int64_t *w_at = a[4].data, *bias_at = a[8].data, *out_at = a[9].data;
    const int64_t batches = a[1].shape[0], of_batch = a[1].shape[1], taps = a[2].shape[0];
    const int64_t groups = a[9].shape[0], channels = a[9].shape[1], r1 = a[11].value, s1 = a[13].value;
    const convolution *c = a[6].data;
    const fx_finish *f = a[7].data;
    int32_t sums[FX_BATCHES * TL_ROWS * FX_COLUMNS];
    uint32_t *packed = TL_NEW(uint32_t, 2 * taps * TL_ROWS);
    if (!packed)
        return TL_NO_MEMORY;
    for (int64_t r = a[10].value; r < r1; r += TL_ROWS) {
        const int64_t rows = TL_MIN(TL_ROWS, r1 - r);
        int32_t more[TL_ROWS] = {0};
        pack(packed, more, a[3].data, w_at + r, a[5].data, a[5].shape[0], c);
        for (int64_t j = 0; a[8].shape[0] && j < rows; j++)
            more[j] += fx_bias(memory, bias_at[r + j], f);
        for (int64_t g = 0; g < groups; g++)
            for (int64_t s = a[12].value; s < s1; s += FX_COLUMNS) {
                const int64_t some = TL_MIN(FX_BATCHES, batches - g * FX_BATCHES), count = TL_MIN(FX_COLUMNS, s1 - s);
                for (int64_t k = 0; k < some; k++) {
                    const fx_tile_args t = {
                        .xs = a[1].data, .base = a[2].data, .weights = packed, .taps = taps,
                        .at = (g * FX_BATCHES + k) * of_batch + s, .sums = sums + k * TL_ROWS * FX_COLUMNS,
                    };
                    fx_tile(&t, count, (int)c->way, c->x_signed != 0);
                    for (int64_t j = 0; j < rows; j++)
                        fx_finished(t.sums + j * FX_COLUMNS, more[j], FX_COLUMNS, f);
                }
                for (int64_t j = 0; j < rows; j++) {
                    const int32_t *from[FX_BATCHES];
                    for (int64_t k = 0; k < some; k++)
                        from[k] = sums + (k * TL_ROWS + j) * FX_COLUMNS;
                    fx_store(memory + out_at[g * channels + r + j] * FX_BATCHES * f->bytes, from, some, c->pitch,
                             c->width, f->bytes, s, count);
                }
            }
    }
    free(packed);
    return TL_DONE;
}
