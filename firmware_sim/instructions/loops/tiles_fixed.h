/* Tiles of integer sums: TL_ROWS rows of up to FX_COLUMNS results, whose sums stay in registers.
 *
 * A tap is a word of four bytes, of the input and of the weights: their products are added up. Sums are those of
 * mathematics as long as they fit into 32 bits at the end: on the way they may wrap. */
#ifndef TPULAYER_TILES_FIXED_H
#define TPULAYER_TILES_FIXED_H

#include "tiles.h"

enum { FX_VECTORS = 2, FX_COLUMNS = FX_VECTORS * TL_LANES };

typedef int32_t fx_vector __attribute__((vector_size(4 * TL_LANES)));

TL_INLINE fx_vector fx_load(const uint32_t *place) {
    fx_vector value;
    memcpy(&value, place, sizeof value);
    return value;
}

TL_INLINE fx_vector fx_spread(uint32_t value) { return (int32_t)value - (fx_vector){0}; }

/* Sums of the products of neighbouring pairs of 16-bit numbers. */
TL_INLINE fx_vector fx_pairs(fx_vector x, fx_vector y) {
#if defined(__AVX512BW__)
    return (fx_vector)_mm512_madd_epi16((__m512i)x, (__m512i)y);
#elif defined(__AVX2__)
    return (fx_vector)_mm256_madd_epi16((__m256i)x, (__m256i)y);
#else
    return (x << 16 >> 16) * (y << 16 >> 16) + (x >> 16) * (y >> 16);
#endif
}

/* How words of bytes are multiplied. FX_PAIRS: bytes become 16-bit numbers, whatever their signs. The others, where
 * processors do it at once: which of the two is unsigned. Numbers that both are signed have 128 added to the input
 * (FX_MIDDLE), of which the products are taken away at the end. */
enum { FX_PAIRS, FX_UNSIGNED_INPUT, FX_UNSIGNED_WEIGHTS };
#define FX_MIDDLE 0x80808080u

#if defined(__AVX512VNNI__)
#define FX_AT_ONCE 1
#define FX_FOUR(sum, u, s) ((fx_vector)_mm512_dpbusd_epi32((__m512i)(sum), (__m512i)(u), (__m512i)(s)))
#else
#define FX_AT_ONCE 0
#define FX_FOUR(sum, u, s) ((void)(u), (void)(s), (sum))
#endif

/* Of each word the bytes 0 and 2, or 1 and 3, as 16-bit numbers. */
TL_INLINE fx_vector fx_even(fx_vector x, bool is_signed) {
    typedef int16_t shorts __attribute__((vector_size(sizeof(fx_vector))));
    return is_signed ? (fx_vector)((shorts)x << 8 >> 8) : x & 0x00FF00FF;
}

TL_INLINE fx_vector fx_odd(fx_vector x, bool is_signed) {
    typedef int16_t shorts __attribute__((vector_size(sizeof(fx_vector))));
    typedef uint16_t naturals __attribute__((vector_size(sizeof(fx_vector))));
    return is_signed ? (fx_vector)((shorts)x >> 8) : (fx_vector)((naturals)x >> 8);
}

/* The arguments of a tile; see fx_tile. */
typedef struct {
    const uint32_t *xs;
    const int64_t *base;
    const uint32_t *weights;
    int32_t *sums;
    int64_t at, taps;
} fx_tile_args;

#define FX_BEGIN(r) fx_vector a##r = {0}, b##r = {0};
#define FX_TAP_PAIRS(r)                                                                     \
    {                                                                                       \
        const fx_vector even = fx_spread(w[2 * r]), odd = fx_spread(w[2 * r + 1]);          \
        a##r += fx_pairs(x0, even) + fx_pairs(y0, odd);                                     \
        if (vectors > 1)                                                                    \
            b##r += fx_pairs(x1, even) + fx_pairs(y1, odd);                                 \
    }
#define FX_TAP_AT_ONCE(r)                                                                   \
    {                                                                                       \
        const fx_vector factor = fx_spread(w[r]);                                           \
        a##r = how == FX_UNSIGNED_INPUT ? FX_FOUR(a##r, x0, factor) : FX_FOUR(a##r, factor, x0); \
        if (vectors > 1)                                                                    \
            b##r = how == FX_UNSIGNED_INPUT ? FX_FOUR(b##r, x1, factor) : FX_FOUR(b##r, factor, x1); \
    }
#define FX_END(r)                                                                           \
    memcpy(t->sums + r * FX_COLUMNS, &a##r, sizeof a##r);                                   \
    if (vectors > 1)                                                                        \
        memcpy(t->sums + r * FX_COLUMNS + TL_LANES, &b##r, sizeof b##r);

TL_INLINE void fx_tile_of(const fx_tile_args *t, const int vectors, const int how, const bool x_signed) {
    const uint32_t *w = t->weights;
    TL_EACH_ROW(FX_BEGIN)
    for (int64_t tap = 0; tap < t->taps; tap++) {
        const uint32_t *x = t->xs + t->at + t->base[tap];
        const fx_vector first = fx_load(x), second = vectors > 1 ? fx_load(x + TL_LANES) : first;
        if (how == FX_PAIRS) {
            const fx_vector x0 = fx_even(first, x_signed), y0 = fx_odd(first, x_signed);
            const fx_vector x1 = fx_even(second, x_signed), y1 = fx_odd(second, x_signed);
            TL_EACH_ROW(FX_TAP_PAIRS)
            w += 2 * TL_ROWS;
        } else {
            const fx_vector x0 = first, x1 = second;
            TL_EACH_ROW(FX_TAP_AT_ONCE)
            w += TL_ROWS;
        }
    }
    TL_EACH_ROW(FX_END)
}

/* One tile, [TL_ROWS, FX_COLUMNS] numbers at sums, of which `columns` in each row count.
 *
 * Number (r, s) is the sum over taps of the products of the bytes of xs[at + base[tap] + s] and of the weights of
 * row r: with FX_PAIRS two words at weights[2 * (tap * TL_ROWS + r)], the even bytes' and the odd ones' 16-bit
 * numbers, else one at weights[tap * TL_ROWS + r]. Beyond the columns that count up to FX_COLUMNS words are read. */
static inline void fx_tile(const fx_tile_args *t, int64_t columns, int how, bool x_signed) {
    const int vectors = columns <= TL_LANES ? 1 : 2;
#define FX_CASE(v, h, s)                                                                    \
    if (vectors == v && how == h && x_signed == s)                                          \
        fx_tile_of(t, v, h, s);
    FX_CASE(1, FX_PAIRS, false)
    FX_CASE(1, FX_PAIRS, true)
    FX_CASE(2, FX_PAIRS, false)
    FX_CASE(2, FX_PAIRS, true)
#if FX_AT_ONCE
    if (how == FX_UNSIGNED_INPUT)
        vectors == 1 ? fx_tile_of(t, 1, FX_UNSIGNED_INPUT, false) : fx_tile_of(t, 2, FX_UNSIGNED_INPUT, false);
    if (how == FX_UNSIGNED_WEIGHTS)
        vectors == 1 ? fx_tile_of(t, 1, FX_UNSIGNED_WEIGHTS, true) : fx_tile_of(t, 2, FX_UNSIGNED_WEIGHTS, true);
#endif
#undef FX_CASE
}

#endif
