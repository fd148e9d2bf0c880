/* fp32 convolutions from and to memory: inputs laid out for the window, then tiles of output channels. */
#include "planes.h"
#include "tiles.h"

#define EVEN 0xFFFFFFFFull /* of a pair of weights, the one of the even input channel */

void tl_lay_plane(const float *words, int64_t at, const tl_layout *l, float fill, float *to) {
    if (l->h * l->w < l->plane)
        for (int64_t i = 0; i < l->plane; i++)
            to[i] = fill;
    if (l->one) {
        const float *source = words + at + l->row_from[0] * l->w + l->column_from[0];
        memcpy(to + l->row_at[0] + l->column_at[0], source, (size_t)(l->h * l->w) * sizeof(float));
        return;
    }
    for (int64_t y = 0; y < l->h; y++) {
        const float *source = words + at + l->row_from[y] * l->row_step;
        float *place = to + l->row_at[y];
        if (l->whole)
            memcpy(place + l->column_at[0], source + l->column_from[0], (size_t)l->w * sizeof(float));
        else
            for (int64_t x = 0; x < l->w; x++)
                place[l->column_at[x]] = source[l->column_from[x] * l->step];
    }
}

/* Channels [first, last) of all batches into laid[batch, parity of the channel, channels / 2 * plane].
 *
 * words: f32; x_at: i64[batches, channels], where planes lie; how, row_from, row_at, column_from, column_at, plane:
 * see planes.h; laid: f32; first, last. A channel that a pair lacks is zero. */
int64_t convolve_lay(const tl_arg *a) {
    const int64_t *x_at = a[1].data, batches = a[1].shape[0], channels = a[1].shape[1];
    const tl_layout l = tl_layout_of(a + 2, a[7].value);
    for (int64_t n = 0; n < batches; n++)
        for (int64_t c = a[9].value; c < a[10].value; c++) {
            float *to = (float *)a[8].data + (2 * n + (c & 1)) * a[8].shape[2] + (c >> 1) * l.plane;
            if (c < channels)
                tl_lay_plane(a[0].data, x_at[n * channels + c], &l, 0, to);
            else
                memset(to, 0, (size_t)l.plane * sizeof(float));
        }
    return TL_DONE;
}

/* Columns [s, s + m) of a tile's second chain without those beyond `width`; old: add what is there. */
static void store(float *words, float *sums, bool old, const int64_t *out_at, int64_t rows, int64_t pitch,
                  int64_t width, int64_t s, int64_t m) {
    int64_t y = s / pitch, x = s % pitch;
    for (int64_t done = 0; done < m; y++, x = 0) {
        const int64_t count = TL_MIN(pitch - x, m - done), inside = TL_MIN(width - x, count);
        for (int64_t j = 0; inside > 0 && j < rows; j++) {
            float *from = sums + TL_TILE + j * TL_COLUMNS + done, *out = words + out_at[j] + y * width + x;
            if (old)
                for (int64_t i = 0; i < inside; i++)
                    from[i] = from[i] + out[i];
            memcpy(out, from, (size_t)inside * sizeof(float));
        }
        done += count;
    }
}

/* Output channels [r0, r1) and numbers [s0, s1) of all batches.
 *
 * words: f32. xs: what convolve_lay made, and base: i64[1, taps], where a tap's elements begin in it for a batch and a
 * parity; or words, as they lie, and base: i64[batches * 2, taps]. pairs: u64, weights of two input channels each; for
 * output channel c, pair p and element k of the kernel they are at w_at[c] + p * step + kernel_at[k]; w_at has a
 * multiple of TL_ROWS. how: i64[6], step, pairs of channels, whether the last lacks its second, whether the old result
 * is added, pitch and width of the rows of numbers. bias_at: i64[channels] or empty. out_at: i64[batches, channels].
 * r0, r1, s0, s1. */
int64_t convolve_convolve(const tl_arg *a) {
    float *words = a[0].data;
    const uint64_t *pairs = a[3].data;
    const int64_t *w_at = a[4].data, *kernel_at = a[5].data, *how = a[6].data, *bias_at = a[7].data;
    const int64_t *out_at = a[8].data;
    const int64_t batches = a[8].shape[0], bases = a[2].shape[0], taps = a[2].shape[1];
    const int64_t half_size = bases == 1 ? a[1].shape[2] : 0;
    const int64_t kernel = a[5].shape[0], channels = a[8].shape[1];
    const int64_t step = how[0], count = how[1], pitch = how[4], width = how[5];
    const bool odd = how[2] != 0, old = how[3] != 0, has_bias = a[7].shape[0] != 0;
    const int64_t r1 = a[10].value, s0 = a[11].value, s1 = a[12].value;
    float sums[2 * TL_TILE], bias[TL_ROWS] = {0};
    uint64_t *packed = TL_NEW(uint64_t, taps * TL_ROWS);
    if (!packed)
        return TL_NO_MEMORY;
    for (int64_t r = a[9].value; r < r1; r += TL_ROWS) {
        const int64_t rows = TL_MIN(TL_ROWS, r1 - r);
        for (int64_t k = 0; k < kernel; k++)
            for (int64_t i = 0; i < count; i++)
                for (int64_t j = 0; j < TL_ROWS; j++) {
                    const uint64_t pair = pairs[w_at[r + j] + i * step + kernel_at[k]];
                    packed[(k * count + i) * TL_ROWS + j] = odd && i == count - 1 ? pair & EVEN : pair;
                }
        for (int64_t j = 0; has_bias && j < rows; j++)
            bias[j] = words[bias_at[r + j]];
        for (int64_t n = 0; n < batches; n++)
            for (int64_t i = 0; i < tl_tiles(s0, s1); i++) {
                const int64_t s = tl_tile_at(i, s0, s1), end = tl_tile_at(i + 1, s0, s1);
                for (int64_t half = 0; half < 2; half++) {
                    tl_chain_args c = {
                        .xs = a[1].data, .base = (const int64_t *)a[2].data + (2 * n + half) % bases * taps,
                        .weights = (const float *)packed, .sums = sums, .bias = bias, .at = (2 * n + half) * half_size + s, .first = 0, .taps = taps, .w_at = half,
                        .w_step = 4 * TL_ROWS, .columns = end - s, .to = half * TL_TILE,
                    };
                    tl_chain(&c);
                    c.first = 1;
                    c.w_at += 2 * TL_ROWS;
                    c.then = TL_ADD_HERE;
                    if (half)
                        c.then |= has_bias ? TL_ADD_FIRST | TL_ADD_BIAS : TL_ADD_FIRST;
                    tl_chain(&c);
                }
                store(words, sums, old, out_at + n * channels + r, rows, pitch, width, s, end - s);
            }
    }
    free(packed);
    return TL_DONE;
}

/* Both after each other, whole: what convolve_lay takes without the last three, pairs of channels in how[1]; then what
 * convolve_convolve takes from base to out_at. */
int64_t convolve_whole(const tl_arg *a) {
    const tl_arg *how = a + 12, *out_at = a + 14;
    const int64_t pairs = ((const int64_t *)how->data)[1], batches = a[1].shape[0], half = pairs * a[7].value;
    tl_arg lay[11], convolve[13];
    float *laid = TL_NEW(float, 2 * batches * half);
    if (!laid)
        return TL_NO_MEMORY;
    const tl_arg room = {.data = laid, .shape = {batches, 2, half, 1}, .item = sizeof(float)};
    memcpy(lay, a, 8 * sizeof *a);
    lay[8] = room, lay[9] = (tl_arg){.value = 0}, lay[10] = (tl_arg){.value = 2 * pairs};
    convolve_lay(lay);
    convolve[0] = a[0], convolve[1] = room;
    memcpy(convolve + 2, a + 8, 7 * sizeof *a);
    convolve[9] = (tl_arg){.value = 0}, convolve[10] = (tl_arg){.value = out_at->shape[1]};
    convolve[11] = (tl_arg){.value = 0}, convolve[12] = (tl_arg){.value = a[15].value};
    const int64_t status = convolve_convolve(convolve);
    free(laid);
    return status;
}
