#include "bm_layer_pool_plan.h"

window_axis bm_pool_taps_of(const window_axis *a, int first, int count) {
    window_axis part = *a;
    part.kernel = smaller(count, a->kernel - first);
    part.before = a->before - first * a->dilation; /* may be negative: the window begins later */
    return part;
}

static long long pool_length(const window_axis *a, int out, int kernel, bool filled) {
    const window_axis part = bm_pool_taps_of(a, 0, kernel);
    const long long length = bm_axis_length(&part, out);
    return filled || length < a->size ? length : a->size;
}

static long long pool_input_bytes(const pool_problem *p, const pool_plan *t) {
    const bool filled = p->filled || bm_pool_cut_kernel(p, t);
    return local_bytes(1, t->c, pool_length(&p->h, t->h, t->kernel_h, filled),
                       pool_length(&p->w, t->w, t->kernel_w, filled));
}

static long long pool_output_bytes(const pool_plan *t) { return local_bytes(1, t->c, t->h, t->w); }

/* Of what lies between: rows that are pooled along w, or weights. */
static long long pool_between_bytes(const pool_problem *p, const pool_plan *t) {
    if (p->weights) return bm_pool_weight_bytes(t->c, t->kernel_h, t->kernel_w);
    return bm_pool_temporary_bytes(1, t->c, pool_length(&p->h, t->h, t->kernel_h, true), t->w);
}

static bool pool_fits(const pool_problem *p, const pool_plan *t) {
    const window_axis h = bm_pool_taps_of(&p->h, 0, t->kernel_h), w = bm_pool_taps_of(&p->w, 0, t->kernel_w);
    return bm_axis_length(&h, t->h) <= CHIP_WINDOW_SIDE_MAX && bm_axis_length(&w, t->w) <= CHIP_WINDOW_SIDE_MAX &&
           2 * pool_input_bytes(p, t) + (bm_pool_cut_kernel(p, t) ? 3 : 2) * pool_output_bytes(t) +
                   pool_between_bytes(p, t) <=
               CHIP_LOCAL_BYTES;
}

/* The largest value of 1..most with which the plan fits; the caller knows that 1 does. */
static int pool_largest(const pool_problem *p, pool_plan *t, int *value, int most) {
    int low = 1, high = most;
    while (low < high) {
        *value = low + (high - low + 1) / 2;
        if (pool_fits(p, t)) low = *value;
        else high = *value - 1;
    }
    return low;
}

static int pool_even(int extent, int tile) { return divide_up(extent, divide_up(extent, tile)); }

void bm_pool_make_plan(const pool_problem *p, pool_plan *t) {
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
