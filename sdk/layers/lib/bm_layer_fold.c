#include "bm_atomic.h"
#include "bm_layer_local.h"
#include "bm_layer_reduce.h"
#include "bm_layer_words.h"

void bm_fold_two(int fold, local_addr_t dst, local_addr_t a, local_addr_t b, const dim4 *shape, const dim4 *dst_stride,
                 const dim4 *a_stride, const dim4 *b_stride) {
    switch (fold) {
    case BM_FOLD_SUM:
        okk_bdc_add(dst, a, b, shape, dst_stride, a_stride, b_stride);
        break;
    case BM_FOLD_MAX:
    case BM_FOLD_LARGEST:
        okk_bdc_max(dst, a, b, shape, dst_stride, a_stride, b_stride);
        break;
    case BM_FOLD_MIN:
        okk_bdc_min(dst, a, b, shape, dst_stride, a_stride, b_stride);
        break;
    default:
        okk_bdc_mul(dst, a, b, shape, dst_stride, a_stride, b_stride);
        break;
    }
}

void bm_fold_last(int fold, local_addr_t dst, local_addr_t src, const dim4 *lines, const dim4 *stride, int reduced) {
    const int width = lines->w;
    dim4 shape = *lines;
    if (reduced == 1 && dst != src) {
        okk_bdc_32bit_cpy(dst, src, &shape, stride, stride);
        return;
    }
    while (reduced > 1) {
        const int pairs = reduced / 2, kept = reduced - pairs;
        shape.w = pairs * width;
        bm_fold_two(fold, dst, src, src + 4u * (local_addr_t)(kept * width), &shape, stride, stride, stride);
        if (kept > pairs && dst != src) {
            const local_addr_t at = 4u * (local_addr_t)(pairs * width);
            shape.w = width;
            okk_bdc_32bit_cpy(dst + at, src + at, &shape, stride, stride);
        }
        src = dst;
        reduced = kept;
    }
}

/* ---- by pools ---- */

/* `each` times `reduced` rows of `width` words, and what becomes of `taps` rows each. */
typedef struct {
    int fold, lanes, taps, width;
} pooled;

static void pool(const pooled *p, local_addr_t dst, local_addr_t src, int results) {
    /* Single words are columns of a row each, so that the window steps by rows. */
    const bool words = p->width == 1;
    const unsigned int h = (unsigned)(words ? results : results * p->taps), w = (unsigned)(words ? p->taps : p->width);
    const unsigned int lanes = (unsigned)p->lanes, kernel_h = words ? 1 : (unsigned)p->taps, kernel_w = words ? w : 1;
    if (p->fold == BM_FOLD_SUM) {
        const SumPoolParam q = {.input_addr = src, .output_addr = dst, .input_shape = {1, lanes, h, w},
                                .kernel_h = kernel_h, .kernel_w = kernel_w, .stride_h = kernel_h, .stride_w = 1,
                                .coeff = 1.0f};
        bm_atomic_sum_pool(&q);
        return;
    }
    const dim4 shape = {1, p->lanes, (int)h, (int)w};
    const dim2 stride = {(int)kernel_h, 1};
    okk_bdc_max_pool2d(dst, src, &shape, (int)kernel_h, (int)kernel_w, NULL, &stride);
}

/* All `results`, in as many commands as the window's side needs. */
static void pool_all(const pooled *p, local_addr_t dst, local_addr_t src, int results) {
    const int side = p->width == 1 ? 1 : p->taps;
    const int most = CHIP_WINDOW_SIDE_MAX / side / CHIP_ALIGN_WORDS * CHIP_ALIGN_WORDS; /* whole lines of all */
    for (int done = 0; done < results; done += most)
        pool(p, dst + 4u * (local_addr_t)(done * p->width), src + 4u * (local_addr_t)(done * p->taps * p->width),
             smaller(most, results - done));
}

/* How many of `reduced` rows a pool makes one of: a divisor, so that as few pools follow as possible; 1: none. */
static int taps_of(int fold, int reduced, int width) {
    const int chain = fold == BM_FOLD_SUM ? BM_FOLD_CHAIN : 2 * BM_FOLD_CHAIN;
    const int most = width == 1 ? chain : CHIP_WINDOW_STEP_MAX;
    int best = 1;
    for (int taps = 4; taps <= most && taps <= reduced; taps++)
        if (reduced % taps == 0 && (best == 1 || reduced / best > most || reduced / taps >= 4)) best = taps;
    return reduced <= most ? reduced : best;
}

static bool pools(int fold, int reduced, int width) {
    while (reduced > 1) {
        const int taps = taps_of(fold, reduced, width);
        if (taps == 1) return false;
        reduced /= taps;
    }
    return true;
}

/* How many rows the first pool makes one of; those at the end that are left over are joined to what it made, where
 * a lane holds rows of one element only. 0: pools cannot make it. */
static int first_taps(int fold, const bm_fold_shape *s) {
    if ((fold != BM_FOLD_SUM && fold != BM_FOLD_LARGEST) || s->width > CHIP_WINDOW_SIDE_MAX || s->reduced == 1) return 0;
    if (pools(fold, s->reduced, s->width)) return taps_of(fold, s->reduced, s->width);
    if (s->each > 1) return 0;
    for (int taps = smaller(BM_FOLD_CHAIN, s->width == 1 ? BM_FOLD_CHAIN : CHIP_WINDOW_STEP_MAX); taps >= 4; taps--)
        if (s->reduced % taps <= s->reduced / taps && pools(fold, s->reduced / taps, s->width)) return taps;
    return 0;
}

/* ---- where pools cannot make all of it ---- */

/* As many rows as half of them and some that change nothing, which pools can fold; 0: there is no such number. */
static int filled_half(int fold, const bm_fold_shape *s) {
    const int kept = divide_up(s->reduced, 2);
    if ((fold != BM_FOLD_SUM && fold != BM_FOLD_LARGEST) || s->reduced < 16 || s->width > CHIP_WINDOW_SIDE_MAX) return 0;
    for (int rows = kept; rows <= kept + kept / 8; rows++)
        if (pools(fold, rows, s->width)) return rows;
    return 0;
}

/* y = the first half of the rows joined with the second, `filled` rows of each. */
static void halve(int fold, local_addr_t y, local_addr_t x, const bm_fold_shape *s, int filled) {
    const int width = s->width, pairs = s->reduced / 2, kept = s->reduced - pairs;
    const dim4 there = {1, s->lanes, 1, s->each * s->reduced * width}, here = {1, s->lanes, 1, s->each * filled * width};
    const dim4 both = {1, s->lanes, s->each, pairs * width}, one = {1, s->lanes, s->each, width};
    const dim4 more = {1, s->lanes, s->each, (filled - kept) * width};
    const x32 nothing = {.fp32 = fold == BM_FOLD_SUM ? 0.0f : -BM_FLT_MAX};
    dim4 from, to;
    okk_128_byte_aligned_stride_for_32bit(&from, 0, &there);
    okk_128_byte_aligned_stride_for_32bit(&to, 0, &here);
    from.h = s->reduced * width;
    to.h = filled * width;
    bm_fold_two(fold, y, x, x + 4u * (local_addr_t)(kept * width), &both, &to, &from, &from);
    const local_addr_t middle = 4u * (local_addr_t)(pairs * width);
    if (kept > pairs) okk_bdc_32bit_cpy(y + middle, x + middle, &one, &to, &from);
    if (filled > kept) okk_bdc_32bit_set_C(y + 4u * (local_addr_t)(kept * width), nothing, &more, &to);
}

void bm_fold_rows(int fold, local_addr_t dst, local_addr_t src, local_addr_t work, const bm_fold_shape *s) {
    const dim4 whole = {1, s->lanes, 1, s->each * s->reduced * s->width}, lines = {1, s->lanes, s->each, s->width};
    dim4 stride;
    okk_128_byte_aligned_stride_for_32bit(&stride, 0, &whole);
    pooled p = {fold, s->lanes, first_taps(fold, s), s->width};
    if (p.taps != 0) {
        const local_addr_t upper = 4u * (local_addr_t)local_line(s->each * s->width * (s->reduced / 4));
        const int rest = s->reduced % p.taps;
        bool up = false;
        for (int left = s->reduced - rest; left > 1; left /= p.taps) {
            if (left != s->reduced - rest) p.taps = taps_of(fold, left, s->width);
            const local_addr_t to = left == p.taps ? dst : up ? work + upper : work;
            pool_all(&p, to, src, s->each * (left / p.taps));
            if (rest > 0 && left == s->reduced - rest) {
                const dim4 over = {1, s->lanes, 1, rest * s->width};
                bm_fold_two(fold, to, to, src + 4u * (local_addr_t)(left * s->width), &over, &stride, &stride, &stride);
            }
            src = to;
            up = !up;
        }
        return;
    }
    stride.h = s->reduced * s->width;
    const int filled = filled_half(fold, s);
    if (filled != 0) {
        halve(fold, work, src, s, filled);
        const bm_fold_shape half = {s->lanes, s->each, filled, s->width};
        bm_fold_rows(fold, dst, work, work + 4u * (local_addr_t)local_line(s->each * filled * s->width), &half);
        return;
    }
    if (s->reduced > 1) bm_fold_last(fold, work, src, &lines, &stride, s->reduced);
    okk_bdc_32bit_cpy(dst, s->reduced > 1 ? work : src, &lines, NULL, &stride);
}
