/* How a pool on DDR data is cut into pieces that fit into local memory. */
#ifndef BM_LAYER_POOL_PLAN_H
#define BM_LAYER_POOL_PLAN_H

#include "bm_layer_axis.h"
#include "bm_layer_local.h"
#include "bm_layer_pool.h"

typedef struct {
    int planes; /* of all batches and channels */
    window_axis h, w;
    bool filled; /* the pads lie in local memory */
} pool_problem;

/* Extents of the pieces: planes, output rows and columns, and rows and columns of the kernel, whose parts are
 * combined one after the other; how many there are; and where the buffers lie. */
typedef struct {
    int c, h, w, kernel_h, kernel_w;
    int cs, hs, ws, kernel_hs, kernel_ws;
    local_addr_t input[2], output[2], part, temporary;
} pool_plan;

/* The window with only some taps of its kernel. */
static inline window_axis pool_taps_of(const window_axis *a, int first, int count) {
    window_axis part = *a;
    part.kernel = smaller(count, a->kernel - first);
    part.before = a->before - first * a->dilation; /* may be negative: the window begins later */
    return part;
}

static inline long long pool_length(const window_axis *a, int out, int kernel, bool filled) {
    const window_axis part = pool_taps_of(a, 0, kernel);
    const long long length = axis_length(&part, out);
    return filled || length < a->size ? length : a->size;
}

static inline bool pool_cut_kernel(const pool_problem *p, const pool_plan *t) {
    return t->kernel_h < p->h.kernel || t->kernel_w < p->w.kernel;
}

static inline long long pool_input_bytes(const pool_problem *p, const pool_plan *t) {
    const bool filled = p->filled || pool_cut_kernel(p, t);
    return local_bytes(1, t->c, pool_length(&p->h, t->h, t->kernel_h, filled),
                       pool_length(&p->w, t->w, t->kernel_w, filled));
}

static inline long long pool_output_bytes(const pool_plan *t) { return local_bytes(1, t->c, t->h, t->w); }

static inline long long pool_between_bytes(const pool_problem *p, const pool_plan *t) {
    return pool_temporary_bytes(1, t->c, pool_length(&p->h, t->h, t->kernel_h, true), t->w);
}

static inline bool pool_fits(const pool_problem *p, const pool_plan *t) {
    const window_axis h = pool_taps_of(&p->h, 0, t->kernel_h), w = pool_taps_of(&p->w, 0, t->kernel_w);
    return axis_length(&h, t->h) <= CHIP_WINDOW_SIDE_MAX && axis_length(&w, t->w) <= CHIP_WINDOW_SIDE_MAX &&
           2 * pool_input_bytes(p, t) + (pool_cut_kernel(p, t) ? 3 : 2) * pool_output_bytes(t) +
                   pool_between_bytes(p, t) <=
               CHIP_LOCAL_BYTES;
}

/* The largest value of 1..most with which the plan fits; the caller knows that 1 does. */
static inline int pool_largest(const pool_problem *p, pool_plan *t, int *value, int most) {
    int low = 1, high = most;
    while (low < high) {
        *value = low + (high - low + 1) / 2;
        if (pool_fits(p, t)) low = *value;
        else high = *value - 1;
    }
    return low;
}

static inline int pool_even(int extent, int piece) { return divide_up(extent, divide_up(extent, piece)); }

/* The whole kernel if it fits, then columns, rows and planes, as many as fit. One tap of one element always fits. */
static inline void pool_make_plan(const pool_problem *p, pool_plan *t) {
    const int rounds = divide_up(smaller(p->planes, CHIP_CHANNELS_WHOLE), CHIP_NPU_NUM);
    *t = (pool_plan){.c = smaller(p->planes, CHIP_NPU_NUM), .h = 1, .w = 1};
    t->kernel_h = p->h.kernel;
    t->kernel_w = p->w.kernel;
    while (!pool_fits(p, t)) {
        int *longer = t->kernel_h > t->kernel_w ? &t->kernel_h : &t->kernel_w;
        *longer = divide_up(*longer, 2);
    }
    t->w = pool_even(p->w.out, pool_largest(p, t, &t->w, p->w.out));
    t->h = pool_even(p->h.out, pool_largest(p, t, &t->h, p->h.out));
    int most = 1;
    for (int slots = 2; slots <= rounds; slots++) {
        t->c = slots * CHIP_NPU_NUM;
        if (!pool_fits(p, t)) break;
        most = slots;
    }
    t->c = smaller(p->planes, most * CHIP_NPU_NUM);
    t->cs = divide_up(p->planes, t->c);
    t->hs = divide_up(p->h.out, t->h);
    t->ws = divide_up(p->w.out, t->w);
    t->kernel_hs = divide_up(p->h.kernel, t->kernel_h);
    t->kernel_ws = divide_up(p->w.kernel, t->kernel_w);
    local_addr_t at = 0;
    for (int i = 0; i < 2; i++) {
        t->input[i] = at;
        t->output[i] = at + (local_addr_t)pool_input_bytes(p, t);
        at = t->output[i] + (local_addr_t)pool_output_bytes(t);
    }
    t->temporary = at;
    t->part = at + (local_addr_t)pool_between_bytes(p, t);
}

#endif
