/* Tiles of sums of products: TL_ROWS rows of up to TL_COLUMNS results, whose sums stay in registers.
 *
 * Products are rounded, then added, tap by tap: the order of each sum is the reference's. Compilers do not keep a
 * block of sums in registers by themselves, so each has a name of its own. */
#ifndef TPULAYER_TILES_H
#define TPULAYER_TILES_H

#include "loops.h"

#ifdef __AVX__
#include <immintrin.h>
#endif

#ifdef __AVX512F__
#define TL_LANES 16 /* fp32 numbers in a vector register */
#define TL_ROWS 8
#else
#define TL_LANES 8
#define TL_ROWS 4
#endif
#define TL_VECTORS 3 /* of each row: with TL_ROWS, as many sums as there are registers for */
#define TL_COLUMNS (TL_VECTORS * TL_LANES)
#define TL_TILE (TL_ROWS * TL_COLUMNS)
#define TL_LINE_VECTORS 8
#define TL_LINE (TL_LINE_VECTORS * TL_LANES) /* columns of a tile of a single row */

/* What becomes of the sums of a chain, in this order. */
enum { TL_ADD_HERE = 1, TL_ADD_FIRST = 2, TL_ADD_BIAS = 4 };

typedef float tl_vector __attribute__((vector_size(4 * TL_LANES)));

TL_INLINE tl_vector tl_load(const float *place) {
    tl_vector value;
    memcpy(&value, place, sizeof value);
    return value;
}

TL_INLINE void tl_store(float *place, tl_vector value) { memcpy(place, &value, sizeof value); }

TL_INLINE tl_vector tl_spread(float value) { return value - (tl_vector){0}; }

/* The lanes below a count, for tl_load_first. */
#if defined(__AVX512F__)
typedef __mmask16 tl_mask;

TL_INLINE tl_mask tl_first(int64_t count) {
    return (tl_mask)(count >= TL_LANES ? 0xFFFF : count <= 0 ? 0 : (1u << count) - 1);
}

/* The lanes that the mask has; zeros elsewhere, where nothing is read. */
TL_INLINE tl_vector tl_load_first(const float *place, tl_mask mask) {
    return (tl_vector)_mm512_maskz_loadu_ps(mask, place);
}
#elif defined(__AVX2__)
typedef __m256i tl_mask;

TL_INLINE tl_mask tl_first(int64_t count) {
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const int least = (int)TL_MAX(TL_MIN(count, TL_LANES), 0);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(least), lanes);
}

TL_INLINE tl_vector tl_load_first(const float *place, tl_mask mask) {
    return (tl_vector)_mm256_maskload_ps(place, mask);
}
#else
typedef int64_t tl_mask;

TL_INLINE tl_mask tl_first(int64_t count) { return TL_MAX(TL_MIN(count, TL_LANES), 0); }

TL_INLINE tl_vector tl_load_first(const float *place, tl_mask count) {
    float values[TL_LANES] = {0};
    for (int64_t i = 0; i < count; i++)
        values[i] = place[i];
    return tl_load(values);
}
#endif

/* The arguments of a chain; see tl_chain. */
typedef struct {
    const float *xs;
    const int64_t *base;
    const float *weights;
    float *sums;
    const float *bias;
    int64_t at, first, taps, w_at, w_step, columns, to;
    int then;
} tl_chain_args;

#if TL_ROWS == 8
#define TL_EACH_ROW(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7)
#else
#define TL_EACH_ROW(M) M(0) M(1) M(2) M(3)
#endif

#define TL_PLACE(r, v) (c->sums + c->to + (r)*TL_COLUMNS + (v)*TL_LANES)
#define TL_FIRST(r, v) (c->sums + (r)*TL_COLUMNS + (v)*TL_LANES)
#define TL_BEGIN(r) tl_vector a##r = {0}, b##r = {0}, d##r = {0};
#define TL_TAP(r)                                            \
    {                                                        \
        const tl_vector factor = tl_spread(w[2 * r]);        \
        a##r += x0 * factor;                                 \
        if (vectors > 1)                                     \
            b##r += x1 * factor;                             \
        if (vectors > 2)                                     \
            d##r += x2 * factor;                             \
    }
#define TL_PLUS(r, A, B, D)                                  \
    a##r = A + a##r;                                         \
    if (vectors > 1)                                         \
        b##r = B + b##r;                                     \
    if (vectors > 2)                                         \
        d##r = D + d##r;
#define TL_PLUS_HERE(r) TL_PLUS(r, tl_load(TL_PLACE(r, 0)), tl_load(TL_PLACE(r, 1)), tl_load(TL_PLACE(r, 2)))
#define TL_PLUS_FIRST(r) TL_PLUS(r, tl_load(TL_FIRST(r, 0)), tl_load(TL_FIRST(r, 1)), tl_load(TL_FIRST(r, 2)))
#define TL_PLUS_BIAS(r) TL_PLUS(r, tl_spread(c->bias[r]), tl_spread(c->bias[r]), tl_spread(c->bias[r]))
#define TL_END(r)                                            \
    tl_store(TL_PLACE(r, 0), a##r);                          \
    if (vectors > 1)                                         \
        tl_store(TL_PLACE(r, 1), b##r);                      \
    if (vectors > 2)                                         \
        tl_store(TL_PLACE(r, 2), d##r);

/* A chain of all rows of so many vectors, of which the last may be in use in part. */
TL_INLINE void tl_chain_of(const tl_chain_args *c, const int vectors) {
    const tl_mask mask = tl_first(c->columns - (vectors - 1) * TL_LANES);
    const float *w = c->weights + c->w_at;
    TL_EACH_ROW(TL_BEGIN)
    for (int64_t tap = c->first; tap < c->taps; tap += 2, w += c->w_step) {
        const float *x = c->xs + c->at + c->base[tap];
        const tl_vector x0 = vectors == 1 ? tl_load_first(x, mask) : tl_load(x);
        const tl_vector x1 = vectors == 2   ? tl_load_first(x + TL_LANES, mask)
                             : vectors == 3 ? tl_load(x + TL_LANES)
                                            : x0;
        const tl_vector x2 = vectors == 3 ? tl_load_first(x + 2 * TL_LANES, mask) : x0;
        TL_EACH_ROW(TL_TAP)
    }
    if (c->then & TL_ADD_HERE) {
        TL_EACH_ROW(TL_PLUS_HERE)
    }
    if (c->then & TL_ADD_FIRST) {
        TL_EACH_ROW(TL_PLUS_FIRST)
    }
    if (c->then & TL_ADD_BIAS) {
        TL_EACH_ROW(TL_PLUS_BIAS)
    }
    TL_EACH_ROW(TL_END)
}

/* One chain of a tile: [TL_ROWS, TL_COLUMNS] numbers at sums[to], of which `columns` in each row count.
 *
 * Number (r, s) is the sum over taps t = first, first + 2, ... of xs[at + base[t] + s] times
 * weights[w_at + (t - first) / 2 * w_step + 2 * r]. Then, as far as the bits of `then` say so and in this order:
 * what was in its place is added (TL_ADD_HERE), the same number of sums[0] (TL_ADD_FIRST), bias[r] (TL_ADD_BIAS). */
static inline void tl_chain(const tl_chain_args *c) {
    if (c->columns <= TL_LANES)
        tl_chain_of(c, 1);
    else if (c->columns <= 2 * TL_LANES)
        tl_chain_of(c, 2);
    else
        tl_chain_of(c, 3);
}

#define TL_EACH_VECTOR(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7)
#define TL_LINE_BEGIN(v)                                     \
    tl_vector a##v = {0};                                    \
    const tl_mask m##v = tl_first(c->columns - v * TL_LANES);
#define TL_LINE_TAP(v)                                       \
    if (v < vectors)                                         \
        a##v += tl_load_first(x + v * TL_LANES, m##v) * factor;
#define TL_LINE_HERE(v)                                      \
    if (v < vectors)                                         \
        a##v = tl_load(c->sums + c->to + v * TL_LANES) + a##v;
#define TL_LINE_BIAS(v)                                      \
    if (v < vectors)                                         \
        a##v = tl_spread(c->bias[0]) + a##v;
#define TL_LINE_END(v)                                       \
    if (v < vectors)                                         \
        tl_store(c->sums + c->to + v * TL_LANES, a##v);

TL_INLINE void tl_line_of(const tl_chain_args *c, const int vectors) {
    const float *w = c->weights + c->w_at;
    TL_EACH_VECTOR(TL_LINE_BEGIN)
    for (int64_t tap = c->first; tap < c->taps; tap += 2, w += c->w_step) {
        const float *x = c->xs + c->at + c->base[tap];
        const tl_vector factor = tl_spread(*w);
        TL_EACH_VECTOR(TL_LINE_TAP)
    }
    if (c->then & TL_ADD_HERE) {
        TL_EACH_VECTOR(TL_LINE_HERE)
    }
    if (c->then & TL_ADD_BIAS) {
        TL_EACH_VECTOR(TL_LINE_BIAS)
    }
    TL_EACH_VECTOR(TL_LINE_END)
}

/* One chain of a tile of a single row, of TL_LINE numbers; see tl_chain. TL_ADD_FIRST does not count. */
static inline void tl_line(const tl_chain_args *c) {
    if (c->columns <= TL_LANES)
        tl_line_of(c, 1);
    else if (c->columns <= 2 * TL_LANES)
        tl_line_of(c, 2);
    else if (c->columns <= 4 * TL_LANES)
        tl_line_of(c, 4);
    else
        tl_line_of(c, 8);
}

/* How many tiles [s0, s1) makes, and where tile i begins: tiles have as many vectors each, or one more. */
TL_INLINE int64_t tl_tiles(int64_t s0, int64_t s1) { return (s1 - s0 + TL_COLUMNS - 1) / TL_COLUMNS; }

TL_INLINE int64_t tl_tile_at(int64_t i, int64_t s0, int64_t s1) {
    const int64_t vectors = (s1 - s0 + TL_LANES - 1) / TL_LANES;
    return TL_MIN(s0 + i * vectors / tl_tiles(s0, s1) * TL_LANES, s1);
}

#endif
