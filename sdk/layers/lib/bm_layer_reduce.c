#include "bm_layer_reduce.h"

#include "bm_layer_local.h"

#define WORDS (CHIP_LOCAL_WORDS / 6 / CHIP_ALIGN_WORDS * CHIP_ALIGN_WORDS) /* of each of six buffers */
#define BYTES (4 * WORDS)

/* out: of a tile, or of some of its rows; beside: room for that. */
static void bm_reduce_compute(const bm_reduction *r, const bm_reduce_block *s, local_addr_t x, local_addr_t out,
                              bool first, bool last) {
    const local_addr_t work = 4 * BYTES, beside = 5 * BYTES;
    const bm_fold_shape folded = {bm_reduce_lanes(s), s->each, s->rows, s->width};
    const dim4 all = {1, folded.lanes, 1, s->each * s->rows * s->width}, made = {1, folded.lanes, 1, s->each * s->width};
    if (r->before == BM_BEFORE_ABS) okk_bdc_32bit_and_C(x, x, (x32){.u32 = 0x7fffffff}, &all, NULL, NULL);
    if (r->before == BM_BEFORE_SQUARE) okk_bdc_mul(x, x, x, &all, NULL, NULL, NULL);
    bm_fold_rows(r->fold, first ? out : beside, x, work, &folded);
    if (!first) bm_fold_two(r->fold, out, out, beside, &made, NULL, NULL, NULL);
    if (last && r->after == BM_AFTER_SCALE) okk_bdc_mul_C(out, out, r->factor, &made, NULL, NULL);
}

/* One run: lanes hold outer or inner elements. */
static void bm_reduce_run(const bm_reduction *r) {
    const bm_reduce_use use = {r->outer, r->reduced, r->inner, .words = WORDS, .most_each = WORDS, .cycles = 3, .commands = 3};
    const bm_reduce_cut cut = bm_reduce_cut_of(&use);
    /* While a block is reduced, the next one is loaded and a finished tile is stored. */
    const local_addr_t x[2] = {0, BYTES}, out[2] = {2 * BYTES, 3 * BYTES};
    bm_reduce_block now = {0}, next, stored = {0};
    bm_reduce_measure(&cut, &use, &now);
    bm_reduce_load(&cut, &use, &now, r->in, x[0]);
    int at = 0, out_at = 0;
    for (bool more = true, storing = false; more || storing;) {
        const bool computing = more;
        const int stored_at = out_at;
        okk_parallel_start();
        if (computing) {
            next = now;
            more = bm_reduce_next(&cut, &use, &next);
            if (more) bm_reduce_load(&cut, &use, &next, r->in, x[1 - at]);
            if (now.row == 0) out_at = 1 - out_at;
            bm_reduce_compute(r, &now, x[at], out[out_at], now.row == 0, now.row + now.rows == r->reduced);
            at = 1 - at;
        }
        if (storing) bm_reduce_store(&cut, &use, &stored, r->out, out[stored_at], true);
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
