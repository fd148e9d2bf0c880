/* Reductions of [outer, reduced, inner] in DDR to [outer, inner] in DDR, of any extents.
 *
 * What is reduced lies inside a lane and is folded in half again and again, so sums keep an error of a few rounding
 * steps. Lanes hold different outer or inner elements; where there are too few of these, the reduced dimension is
 * dealt over the lanes first and their results are reduced in a second run.
 */
#ifndef BM_LAYER_REDUCE_H
#define BM_LAYER_REDUCE_H

#include "bm_layer_reduce_bytes.h"
#include "bm_layer_tiles.h"
#include "bmcompiler_tpulayer_device.h"
#include "okk.h"

#define BM_REDUCE_WIDTH 64    /* inner elements of a lane, at least, before the reduced dimension is cut */
#define BM_REDUCE_SPREAD 2048 /* rows; fewer are not dealt over the lanes */
#define BM_REDUCE_FEW 8       /* outer elements; with more, lanes hold these */

enum { BM_FOLD_SUM, BM_FOLD_MAX, BM_FOLD_MIN, BM_FOLD_PROD }; /* how two elements become one */
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

/* Folds `reduced` rows of `width` words, one after another in each of `channels` channels: the result is the first
 * row at dst. Both tensors have the aligned layout of [1, channels, 1, reduced * width]; dst may be src, otherwise
 * it needs the room of half the rows (rounded up) and src stays. */
void bm_fold_rows(int fold, local_addr_t dst, local_addr_t src, int channels, int reduced, int width);

/* How a reduction is cut: `channels` channels at a time with `width` inner elements each, `rows` at a time. */
typedef struct {
    bool inner_on_lanes; /* else channels are outer elements */
    int channels, width, rows;
} bm_reduce_cut;

/* A block of the work: rows [row, row + rows) of one tile of the result. */
typedef struct {
    int outer, inner, row;
    int channels, width, rows;
} bm_reduce_block;

/* words: how many of a lane a tile may take; least_width: inner elements of a lane before rows are cut too. */
bm_reduce_cut bm_reduce_cut_of(int outer, int reduced, int inner, int words, int least_width);

/* Extents of the block at its place. */
void bm_reduce_measure(const bm_reduce_cut *cut, int outer, int reduced, int inner, bm_reduce_block *s);

/* Moves to the next block; false behind the last. */
bool bm_reduce_next(const bm_reduce_cut *cut, int outer, int reduced, int inner, bm_reduce_block *s);

/* Copies a block between DDR, [outer, total, inner], and local memory: channels of rows * width words, aligned. */
void bm_reduce_move(const bm_reduce_cut *cut, const bm_reduce_block *s, system_addr_t base, int total, int inner,
                    local_addr_t local, int row, int rows, bool to_local);

/* Whether the reduced dimension is dealt over the lanes. */
static inline bool bm_reduce_spreads(int outer, int reduced, int inner) {
    return outer <= BM_REDUCE_FEW && inner <= BM_REDUCE_RESULTS / outer && reduced >= BM_REDUCE_SPREAD;
}

/* buffer: BM_REDUCE_BYTES of DDR. The caller has initialised the engines and polls afterwards. */
void bm_reduce(const bm_reduction *whole, system_addr_t buffer);

#endif
