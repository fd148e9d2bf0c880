/* Reductions of [outer, reduced, inner] in DDR to [outer, inner] in DDR, of any extents.
 *
 * What is reduced lies inside a lane and is folded in half again and again, or in sums of few neighbours, so sums keep
 * an error of a few rounding steps. Lanes hold different outer or inner elements; where there are too few of these, the reduced dimension is
 * dealt over the lanes first and their results are reduced in a second run.
 */
#ifndef BM_LAYER_REDUCE_H
#define BM_LAYER_REDUCE_H

#include "bm_layer_reduce_bytes.h"
#include "bm_layer_tiles.h"
#include "bmcompiler_tpulayer_device.h"
#include "okk.h"

#define BM_REDUCE_SPREAD 2048 /* rows; fewer are not dealt over the lanes */
#define BM_REDUCE_FEW 8       /* outer elements; with more, lanes hold these */
#define BM_FOLD_CHAIN 32      /* numbers that are added one after the other at the most, in two chains */

/* How two elements become one. BM_FOLD_LARGEST: a maximum that passes over NaN and is not below the least number, in
 * fewer commands. */
enum { BM_FOLD_SUM, BM_FOLD_MAX, BM_FOLD_MIN, BM_FOLD_PROD, BM_FOLD_LARGEST };
enum { BM_BEFORE_NOTHING, BM_BEFORE_ABS, BM_BEFORE_SQUARE };  /* what happens to each element first */
enum { BM_AFTER_NOTHING, BM_AFTER_SCALE };                    /* and to the result: times factor */

typedef struct {
    system_addr_t in, out;
    int outer, reduced, inner;
    int fold, before, after;
    float factor;
} bm_reduction;

/* dst = a op b, element by element. */
void bm_fold_two(int fold, local_addr_t dst, local_addr_t a, local_addr_t b, const dim4 *shape, const dim4 *dst_stride,
                 const dim4 *a_stride, const dim4 *b_stride);

/* Folds `reduced` elements of w words, one after another in each line of [n, c, h], to the first one. dst and src lie by
 * the same strides; dst may be src, otherwise it needs the room of half the elements (rounded up) and src stays. */
void bm_fold_last(int fold, local_addr_t dst, local_addr_t src, const dim4 *lines, const dim4 *stride, int reduced);

/* What lies in each lane: `each` times `reduced` rows of `width` words, all of them together; `lanes` from NPU 0 on. */
typedef struct {
    int lanes, each, reduced, width;
} bm_fold_shape;

/* Folds the rows of all of them: dst gets `each` times one row, together, aligned. src stays; work has as much
 * room. Sums of up to BM_FOLD_CHAIN neighbours are made in two chains where that takes fewer commands. */
void bm_fold_rows(int fold, local_addr_t dst, local_addr_t src, local_addr_t work, const bm_fold_shape *s);

/* What a kernel does with [outer, reduced, inner]. words: of a lane that a block may take; most_each: outer elements of
 * a lane at the most; whole: rows are not cut; maps: as much is stored as was loaded; cycles: of the tensor unit for 16
 * words; commands: of it for a block. */
typedef struct {
    int outer, reduced, inner;
    int words, most_each, cycles, commands;
    bool whole, maps;
} bm_reduce_use;

/* How it is dealt over the lanes. Either a lane holds `each` outer elements that lie together (of more than one, all
 * of them); or a part of the inner ones, `parts` lanes beside each other, of each of `outers` outer elements. */
typedef struct {
    bool inner_on_lanes;
    int outers, parts; /* lanes: of outer elements times those of inner ones */
    int each, width, rows;
} bm_reduce_cut;

/* A block of the work: rows [row, row + rows) of one tile of the result. Where the last lane, or the last part of each
 * outer element, would reach beyond the end it begins `back` outer or inner elements earlier, and what others make,
 * too, is not stored. In local memory: lanes of [each, rows * width] words, aligned. */
typedef struct {
    int outer, inner, row;
    int outers, parts, each, width, rows;
    int back;
} bm_reduce_block;

static inline int bm_reduce_lanes(const bm_reduce_block *s) { return s->outers * s->parts; }

bm_reduce_cut bm_reduce_cut_of(const bm_reduce_use *u);

/* Tenths of cycles that it takes, about. */
long long bm_reduce_cost(const bm_reduce_cut *cut, const bm_reduce_use *u);

/* Extents of the block at its place. */
void bm_reduce_measure(const bm_reduce_cut *cut, const bm_reduce_use *u, bm_reduce_block *s);

/* Moves to the next block; false behind the last. */
bool bm_reduce_next(const bm_reduce_cut *cut, const bm_reduce_use *u, bm_reduce_block *s);

/* Loads a block from [outer, reduced, inner]. */
void bm_reduce_load(const bm_reduce_cut *cut, const bm_reduce_use *u, const bm_reduce_block *s, system_addr_t from,
                    local_addr_t to);

/* Stores it to such a tensor, or one row of each of its outer elements to [outer, inner]. */
void bm_reduce_store(const bm_reduce_cut *cut, const bm_reduce_use *u, const bm_reduce_block *s, system_addr_t to,
                     local_addr_t from, bool folded);

/* Whether the reduced dimension is dealt over the lanes. */
static inline bool bm_reduce_spreads(int outer, int reduced, int inner) {
    return outer <= BM_REDUCE_FEW && inner <= BM_REDUCE_RESULTS / outer && reduced >= BM_REDUCE_SPREAD;
}

/* buffer: BM_REDUCE_BYTES of DDR. The caller has initialised the engines and polls afterwards. */
void bm_reduce(const bm_reduction *whole, system_addr_t buffer);

#endif
