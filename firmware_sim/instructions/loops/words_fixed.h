/* Results of bytes or 16-bit numbers into words that four batches share. */
#ifndef TPULAYER_WORDS_FIXED_H
#define TPULAYER_WORDS_FIXED_H

#include "loops.h"

enum { FX_BATCHES = 4 };

/* What becomes of sums: rounded half up, shifted to the right, within low and high; bytes of a result. */
typedef struct {
    int64_t bias_signed, shift, low, high, bytes;
} fx_finish;

TL_INLINE int32_t fx_bias(const uint8_t *memory, int64_t at, const fx_finish *f) {
    int16_t bias;
    memcpy(&bias, memory + 2 * at, sizeof bias);
    return f->bias_signed ? bias : (uint16_t)bias;
}

/* `count` sums, each with `more` added. */
TL_INLINE void fx_finished(int32_t *sums, int32_t more, int64_t count, const fx_finish *f) {
    const int32_t low = (int32_t)f->low, high = (int32_t)f->high, half = (int32_t)(((int64_t)1 << f->shift) >> 1);
    const int shift = (int)f->shift;
    for (int64_t i = 0; i < count; i++) {
        const int32_t sum = (int32_t)((uint32_t)sums[i] + (uint32_t)more), value = (sum + half) >> shift;
        sums[i] = TL_MIN(TL_MAX(value, low), high);
    }
}

/* `count` results of each of `some` batches side by side into words; batches that are not there stay. */
TL_INLINE void fx_put(uint8_t *to, const int32_t *const *from, const int64_t some, int64_t count, int64_t bytes) {
    const uint32_t keep = some < FX_BATCHES ? ~0u << 8 * some : 0;
    for (int64_t i = 0; bytes == 1 && i < count; i++) {
        uint32_t word = 0, old;
        for (int64_t k = 0; k < some; k++)
            word |= ((uint32_t)from[k][i] & 255) << 8 * k;
        if (keep) {
            memcpy(&old, to + 4 * i, sizeof old);
            word |= old & keep;
        }
        memcpy(to + 4 * i, &word, sizeof word);
    }
    for (int64_t i = 0; bytes == 2 && i < count; i++)
        for (int64_t k = 0; k < some; k++) {
            const uint16_t value = (uint16_t)from[k][i];
            memcpy(to + 8 * i + 2 * k, &value, sizeof value);
        }
}

/* Numbers [s, s + m) of a plane whose rows are `pitch` numbers apart, of which `width` count; from[batch][0] is number
 * s, `place` the plane's first word. */
TL_INLINE void fx_store(uint8_t *place, const int32_t *const *from, int64_t some, int64_t pitch, int64_t width,
                        int64_t bytes, int64_t s, int64_t m) {
    int64_t y = s / pitch, x = s % pitch;
    for (int64_t done = 0; done < m; y++, x = 0) {
        const int64_t count = TL_MIN(pitch - x, m - done), inside = TL_MIN(width - x, count);
        const int32_t *at[FX_BATCHES];
        for (int64_t k = 0; k < some; k++)
            at[k] = from[k] + done;
        uint8_t *to = place + (y * width + x) * FX_BATCHES * bytes;
        if (inside > 0 && some == FX_BATCHES && bytes == 1)
            fx_put(to, at, FX_BATCHES, inside, 1);
        else if (inside > 0)
            fx_put(to, at, some, inside, bytes);
        done += count;
    }
}

#endif
