#include "bm_layer_reduce.h"

#include "bm_layer_clock.h"
#include "bm_layer_local.h"

#define BM_REDUCE_WORDS (2 * CHIP_BANK_WORDS) /* 32-bit words of a lane that a tile takes */

void bm_fold_two(int fold, local_addr_t dst, local_addr_t a, local_addr_t b, const dim4 *shape, const dim4 *dst_stride,
                 const dim4 *a_stride, const dim4 *b_stride) {
    switch (fold) {
    case BM_FOLD_SUM:
        okk_bdc_add(dst, a, b, shape, dst_stride, a_stride, b_stride);
        break;
    case BM_FOLD_MAX:
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

void bm_fold_rows(int fold, local_addr_t dst, local_addr_t src, int channels, int reduced, int width) {
    const dim4 whole = {1, channels, 1, reduced * width}, lines = {1, channels, 1, width};
    dim4 stride;
    okk_128_byte_aligned_stride_for_32bit(&stride, 0, &whole);
    bm_fold_last(fold, dst, src, &lines, &stride, reduced);
}

static bm_reduce_cut cut_over(bool inner_on_lanes, int reduced, int inner, int words, int least_width) {
    bm_reduce_cut cut = {.inner_on_lanes = inner_on_lanes};
    const int width = larger(words / reduced, least_width);
    cut.width = smaller(cut.inner_on_lanes ? inner / CHIP_NPU_NUM : inner, width);
    cut.rows = smaller(reduced, words / cut.width);
    cut.channels = CHIP_NPU_NUM;
    if (!cut.inner_on_lanes) cut.channels *= larger(1, words / local_line(cut.rows * cut.width));
    cut.channels = smaller(cut.channels, CHIP_CHANNELS_WHOLE);
    return cut;
}

/* Tenths of cycles of its loads, and of one command that computes with each. */
static long long cost_of(const bm_reduce_cut *cut, long long outer, int reduced, int inner) {
    const long long elements = outer * reduced * inner, run = cut->width == inner ? cut->rows * inner : cut->width;
    const long long beside = cut->inner_on_lanes ? divide_up(inner, cut->width) : outer; /* what lies over the lanes */
    const long long at_once = smaller(cut->channels, (int)beside);
    const long long others = cut->inner_on_lanes ? outer : divide_up(inner, cut->width);
    const long long blocks = others * ((beside + at_once - 1) / at_once) * divide_up(reduced, cut->rows);
    const long long compute = 10ll * local_slots((int)at_once) * cut->rows * cut->width / 16;
    return blocks * (BM_COST_LOADED + compute) + bm_transfer_cost(elements / run, elements, BM_COST_READ);
}

bm_reduce_cut bm_reduce_cut_of(int outer, int reduced, int inner, int words, int least_width) {
    const bm_reduce_cut by_outer = cut_over(false, reduced, inner, words, least_width);
    if (inner < CHIP_NPU_NUM || outer >= inner) return by_outer;
    const bm_reduce_cut by_inner = cut_over(true, reduced, inner, words, least_width);
    if (outer <= BM_REDUCE_FEW) return by_inner; /* most lanes would have nothing */
    const long long cost = cost_of(&by_inner, outer, reduced, inner);
    return cost < cost_of(&by_outer, outer, reduced, inner) ? by_inner : by_outer;
}

void bm_reduce_measure(const bm_reduce_cut *cut, int outer, int reduced, int inner, bm_reduce_block *s) {
    s->rows = smaller(cut->rows, reduced - s->row);
    if (cut->inner_on_lanes) {
        const int left = inner - s->inner;
        s->channels = smaller(cut->channels, left);
        s->width = smaller(cut->width, left / s->channels);
    } else {
        s->channels = smaller(cut->channels, outer - s->outer);
        s->width = smaller(cut->width, inner - s->inner);
    }
}

bool bm_reduce_next(const bm_reduce_cut *cut, int outer, int reduced, int inner, bm_reduce_block *s) {
    if ((s->row += s->rows) >= reduced) {
        s->row = 0;
        if ((s->inner += cut->inner_on_lanes ? s->channels * s->width : s->width) >= inner) {
            s->inner = 0;
            if ((s->outer += cut->inner_on_lanes ? 1 : s->channels) >= outer) return false;
        }
    }
    bm_reduce_measure(cut, outer, reduced, inner, s);
    return true;
}

void bm_reduce_move(const bm_reduce_cut *cut, const bm_reduce_block *s, system_addr_t base, int total, int inner,
                    local_addr_t local, int row, int rows, bool to_local) {
    const unsigned long long first = ((unsigned long long)s->outer * (unsigned long long)total +
                                      (unsigned long long)row) * (unsigned long long)inner +
                                     (unsigned long long)s->inner;
    dim4 shape = {1, s->channels, rows, s->width};
    dim4 far = {0, cut->inner_on_lanes ? s->width : total * inner, inner, 1}, near;
    if (s->width == inner || rows == 1) { /* one run */
        shape.w = rows * s->width;
        shape.h = 1;
        far.h = shape.w;
    }
    const dim4 flat = {1, s->channels, 1, rows * s->width};
    okk_128_byte_aligned_stride_for_32bit(&near, 0, &flat);
    near.h = shape.w;
    if (to_local)
        okk_gdma_32bit_cpy_S2L(local, base + 4 * first, &shape, &near, &far);
    else
        okk_gdma_32bit_cpy_L2S(base + 4 * first, local, &shape, &far, &near);
}

static void bm_reduce_compute(const bm_reduction *r, const bm_reduce_block *s, local_addr_t x, local_addr_t out,
                              bool first, bool last) {
    const dim4 all = {1, s->channels, 1, s->rows * s->width}, made = {1, s->channels, 1, s->width};
    dim4 from;
    okk_128_byte_aligned_stride_for_32bit(&from, 0, &all);
    if (r->before == BM_BEFORE_ABS) okk_bdc_32bit_and_C(x, x, (x32){.u32 = 0x7fffffff}, &all, NULL, NULL);
    if (r->before == BM_BEFORE_SQUARE) okk_bdc_mul(x, x, x, &all, NULL, NULL, NULL);
    bm_fold_rows(r->fold, x, x, s->channels, s->rows, s->width);
    if (first)
        okk_bdc_32bit_cpy(out, x, &made, NULL, &from);
    else
        bm_fold_two(r->fold, out, out, x, &made, NULL, NULL, &from);
    if (last && r->after == BM_AFTER_SCALE) okk_bdc_mul_C(out, out, r->factor, &made, NULL, NULL);
}

/* One run: lanes hold outer or inner elements. */
static void bm_reduce_run(const bm_reduction *r) {
    const bm_reduce_cut cut = bm_reduce_cut_of(r->outer, r->reduced, r->inner, BM_REDUCE_WORDS, BM_REDUCE_WIDTH);
    /* While a block is reduced, the next one is loaded and a finished tile is stored. */
    const local_addr_t x[2] = {0, 4 * BM_REDUCE_WORDS}, out[2] = {8 * BM_REDUCE_WORDS, 12 * BM_REDUCE_WORDS};
    bm_reduce_block now = {0}, next, stored = {0};
    bm_reduce_measure(&cut, r->outer, r->reduced, r->inner, &now);
    bm_reduce_move(&cut, &now, r->in, r->reduced, r->inner, x[0], now.row, now.rows, true);
    int at = 0, out_at = 0;
    for (bool more = true, storing = false; more || storing;) {
        const bool computing = more;
        const int stored_at = out_at;
        okk_parallel_start();
        if (computing) {
            next = now;
            more = bm_reduce_next(&cut, r->outer, r->reduced, r->inner, &next);
            if (more) bm_reduce_move(&cut, &next, r->in, r->reduced, r->inner, x[1 - at], next.row, next.rows, true);
            if (now.row == 0) out_at = 1 - out_at;
            bm_reduce_compute(r, &now, x[at], out[out_at], now.row == 0, now.row + now.rows == r->reduced);
            at = 1 - at;
        }
        if (storing) bm_reduce_move(&cut, &stored, r->out, 1, r->inner, out[stored_at], 0, 1, false);
        okk_parallel_end();
        storing = computing && now.row + now.rows == r->reduced;
        stored = now;
        now = next;
    }
}

void bm_reduce(const bm_reduction *whole, system_addr_t buffer) {
    if (!bm_reduce_spreads(whole->outer, whole->reduced, whole->inner)) {
        bm_reduce_run(whole);
        return;
    }
    /* Blocks of rows, one to a lane, and what is left; [block, inner] of each outer element in the buffer. */
    const int rows = (whole->reduced + CHIP_NPU_NUM - 1) / CHIP_NPU_NUM;
    const int blocks = whole->reduced / rows, rest = whole->reduced - blocks * rows, parts = blocks + (rest > 0);
    const unsigned long long row = 4ull * (unsigned long long)whole->inner;
    for (int o = 0; o < whole->outer; o++) {
        bm_reduction part = *whole;
        part.after = BM_AFTER_NOTHING;
        part.in = whole->in + row * (unsigned long long)o * (unsigned long long)whole->reduced;
        part.out = buffer + row * (unsigned long long)(o * parts);
        part.outer = blocks;
        part.reduced = rows;
        bm_reduce_run(&part);
        part.in += row * (unsigned long long)(blocks * rows);
        part.out += row * (unsigned long long)blocks;
        part.outer = 1;
        part.reduced = rest;
        if (rest > 0) bm_reduce_run(&part);
    }
    bm_reduction last = *whole;
    last.in = buffer;
    last.reduced = parts;
    last.before = BM_BEFORE_NOTHING;
    bm_reduce_run(&last);
}
