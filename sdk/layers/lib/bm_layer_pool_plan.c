#include "bm_layer_pool_plan.h"

#include "bm_layer_clock.h"

/* Tenths of cycles of a command beside its work; commands of windows that a single one does not compute; tenths of
 * cycles, at least, of a plane that is loaded. */
enum { FIXED = 500, TAPS = 10, PIECE = 18 };

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

static bool pool_filled(const pool_problem *p, const pool_plan *t) { return p->filled || bm_pool_cut_kernel(p, t); }

static long long pool_rows(const pool_problem *p, const pool_plan *t) {
    return pool_length(&p->h, t->h, t->kernel_h, pool_filled(p, t) || t->bands > 1);
}

/* Of tiles as wide as the output all columns are loaded. */
static long long pool_columns(const pool_problem *p, const pool_plan *t) {
    const bool filled = pool_filled(p, t);
    return t->w == p->w.out && !filled ? p->w.size : pool_length(&p->w, t->w, t->kernel_w, filled);
}

static long long pool_input_bytes(const pool_problem *p, const pool_plan *t) {
    return local_bytes(1, t->c * t->bands, pool_rows(p, t), pool_columns(p, t));
}

static long long pool_output_bytes(const pool_plan *t) { return local_bytes(1, t->c * t->bands, t->h, t->w); }

static long long pool_beside_bytes(const pool_problem *p, const pool_plan *t) {
    return local_align(4ll * local_slots(t->c * t->bands) * p->plane_words);
}

/* Of what lies between: rows that are pooled along w, or weights. */
static long long pool_between_bytes(const pool_problem *p, const pool_plan *t) {
    if (p->plane_words != 0) return 0;
    if (p->weights) return bm_pool_weight_bytes(t->c * t->bands, t->kernel_h, t->kernel_w);
    return bm_pool_temporary_bytes(1, t->c * t->bands, pool_length(&p->h, t->h, t->kernel_h, true), t->w);
}

static bool pool_fits(const pool_problem *p, const pool_plan *t) {
    const window_axis h = bm_pool_taps_of(&p->h, 0, t->kernel_h), w = bm_pool_taps_of(&p->w, 0, t->kernel_w);
    return bm_axis_length(&h, t->h) <= CHIP_WINDOW_SIDE_MAX && bm_axis_length(&w, t->w) <= CHIP_WINDOW_SIDE_MAX &&
           pool_rows(p, t) <= CHIP_WINDOW_SIDE_MAX && pool_columns(p, t) <= CHIP_WINDOW_SIDE_MAX &&
           2 * (pool_input_bytes(p, t) + pool_beside_bytes(p, t)) +
                   (bm_pool_cut_kernel(p, t) ? 3 : 2) * pool_output_bytes(t) + pool_between_bytes(p, t) <=
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

static void pool_count(const pool_problem *p, pool_plan *t) {
    t->cs = divide_up(p->planes, t->c);
    t->hs = divide_up(p->h.out, t->h * t->bands);
    t->ws = divide_up(p->w.out, t->w);
    t->kernel_hs = divide_up(p->h.kernel, t->kernel_h);
    t->kernel_ws = divide_up(p->w.kernel, t->kernel_w);
}

/* ---- what it costs ---- */

/* A transfer of [lanes, rows, columns] of planes of [height, width], in so many commands. */
static long long pool_transfer(int commands, long long lanes, long long rows, long long columns, int height, int width,
                               int latency, int burst) {
    const bool run = columns == width;
    const long long words = lanes * rows * columns, pieces = run ? lanes : lanes * rows;
    if (run && rows == height) { /* nothing lies between */
        const bool even = rows * columns % 16 == 0; /* pieces of whole bursts */
        const long long bursts = burst * (even ? words / 16 : pieces + (words - pieces) / 16);
        return commands * latency + (bursts > PIECE * pieces ? bursts : PIECE * pieces);
    }
    return commands * latency + bm_transfer_cost(pieces, words, burst);
}

/* Tenths of cycles. */
static long long pool_cost(const pool_problem *p, pool_plan *t) {
    pool_count(p, t);
    const long long lanes = (long long)smaller(t->c, p->planes) * t->bands, rows = pool_rows(p, t);
    const long long load =
        pool_transfer(t->bands, lanes, rows < p->h.size ? rows : p->h.size, pool_columns(p, t), p->h.size, p->w.size,
                      BM_COST_LOADED, BM_COST_READ);
    const long long store = pool_transfer(t->bands, lanes, t->h, t->w, p->h.out, p->w.out, BM_COST_STORED, BM_COST_WRITTEN);
    const long long steps = ((long long)t->h * t->w + 15) / 16 * local_slots((int)lanes);
    long long taps = 10ll * (t->kernel_h * t->kernel_w + 3) * steps;
    const long long in_two = 10ll * ((rows * t->w + 15) / 16 * (t->kernel_w + 3) * local_slots((int)lanes) +
                                     (t->kernel_h + 3) * steps);
    if (p->plane_words == 0 && in_two < taps) taps = in_two;
    const long long compute = FIXED + taps + taps * 26 / 10 * (smaller(p->w.stride, CHIP_WINDOW_STEP_MAX) - 1);
    const int pads = p->plane_words == 0 && p->h.before + p->h.after + p->w.before + p->w.after > 0;
    const int commands = 3 + (2 + 4 * pads) * t->bands + (p->filled ? TAPS : 0) +
                         (p->plane_words != 0 ? local_slots((int)lanes) : 0);
    const long long parts = (long long)t->cs * t->hs * t->ws * t->kernel_hs * t->kernel_ws;
    return bm_parts_cost(parts, load + store + FIXED * t->bands, compute, commands);
}

/* As many columns and rows as fit, in tiles of equal size; further with more and smaller tiles, which overlap. */
static void pool_consider(const pool_problem *p, pool_plan t, pool_plan *best, long long *least) {
    t.h = t.w = 1;
    if (!pool_fits(p, &t)) return;
    t.w = pool_even(p->w.out, pool_largest(p, &t, &t.w, p->w.out));
    if (!pool_fits(p, &t)) return; /* all columns of the input are more than those below the output */
    const int most = divide_up(p->h.out, t.bands), fit = pool_largest(p, &t, &t.h, most);
    const int fewest = divide_up(most, fit);
    for (int cut = 1; cut <= 8 && fewest * cut <= most; cut *= 2) {
        t.h = divide_up(most, fewest * cut);
        const long long cost = pool_cost(p, &t);
        if (*least >= 0 && cost >= *least) continue;
        *least = cost;
        *best = t;
    }
}

static void pool_place(const pool_problem *p, pool_plan *t) {
    local_addr_t at = 0;
    for (int i = 0; i < 2; i++) {
        t->input[i] = at;
        t->output[i] = at + (local_addr_t)pool_input_bytes(p, t);
        t->beside[i] = t->output[i] + (local_addr_t)pool_output_bytes(t);
        at = t->beside[i] + (local_addr_t)pool_beside_bytes(p, t);
    }
    t->temporary = at;
    t->part = at + (local_addr_t)pool_between_bytes(p, t);
}

bool bm_pool_make_plan(const pool_problem *p, pool_plan *best) {
    const int rounds = divide_up(smaller(p->planes, CHIP_CHANNELS_WHOLE), CHIP_NPU_NUM);
    pool_plan t = {.c = smaller(p->planes, CHIP_NPU_NUM), .bands = 1, .h = 1, .w = 1};
    t.kernel_h = p->h.kernel;
    t.kernel_w = p->w.kernel;
    while (!pool_fits(p, &t)) {
        if (p->plane_words != 0) return false;
        int *longer = t.kernel_h > t.kernel_w ? &t.kernel_h : &t.kernel_w;
        *longer = divide_up(*longer, 2);
    }
    long long least = -1;
    for (int slots = rounds; slots >= 1; slots = slots == 1 ? 0 : divide_up(slots, 2)) {
        t.c = smaller(p->planes, slots * CHIP_NPU_NUM);
        pool_consider(p, t, best, &least);
    }
    if (!pool_filled(p, &t))
        for (int parts = 1; parts <= 8; parts *= 2) { /* of the planes */
            t.c = divide_up(p->planes, parts);
            for (t.bands = smaller(CHIP_NPU_NUM / t.c, p->h.out); t.bands > 1; t.bands /= 2)
                pool_consider(p, t, best, &least);
        }
    pool_count(p, best);
    pool_place(p, best);
    return true;
}
