/* Boxes of 32-bit elements through local memory. Where source and destination step differently, a copy within
 * DDR moves element by element. Here long runs are loaded, the tensor unit puts the elements of each lane
 * into their new order, and long runs are stored. */
#include "bm_layer_clock.h"
#include "bm_layer_local.h"
#include "bm_layer_move.h"
#include "bm_layer_shape.h"
#include "okk.h"

enum {
    GAP = 8,      /* elements that may be read for nothing between two that are wanted */
    LEAST = 1024, /* elements of a box from which on this pays */
    FEWEST = 4,   /* parts for lanes */
    INNER = 3     /* dimensions within a lane */
};

/* How a box is moved: one dimension over the lanes, up to three within a lane, the others walked through; of each
 * dimension as many elements at a time as tile says. */
typedef struct {
    bm_move m;
    int lane, inner[INNER], inners; /* dimensions; the inner ones from the destination's smallest step on */
    int tile[BM_MOVE_DIMS];
} plan;

/* The inner elements of one lane in one memory, and as the engine moves them. */
typedef struct {
    int words;           /* in local memory */
    int step[INNER];     /* from one element of an inner dimension to the next, in local memory */
    dim4 shape, outside; /* of the command but for c: runs on w, and strides in DDR */
} side;

/* A side's further dimension on h, or on n where h is taken. */
static void add_rows(side *s, int extent, long long stride) {
    if (s->shape.h == 1) {
        s->shape.h = extent;
        s->outside.h = (int)stride;
    } else {
        s->shape.n = extent;
        s->outside.n = (int)stride;
    }
    s->words *= extent;
}

/* The side with these strides; with gaps, what lies between is moved too. False where it has no runs. */
static bool side_of(const plan *p, const int *tile, const long long *stride, bool gaps, side *s) {
    bool used[INNER] = {false};
    *s = (side){.words = 1, .shape = {1, 1, 1, 1}, .outside = {0, 0, 0, 1}};
    bool run = true;
    for (int k = 0; k < p->inners; k++) {
        int i = -1; /* the next larger step */
        for (int c = 0; c < p->inners; c++)
            if (!used[c] && (i < 0 || stride[p->inner[c]] < stride[p->inner[i]])) i = c;
        used[i] = true;
        const int extent = tile[p->inner[i]];
        const long long step = stride[p->inner[i]];
        if (step == 0) { /* one element many times */
            s->step[i] = 0;
        } else if (run && step <= s->shape.w + (gaps ? GAP : 0) && step >= s->shape.w) {
            s->step[i] = (int)step;
            const long long words = (extent - 1) * step + s->shape.w;
            if (words > CHIP_EXTENT_MAX) return false;
            s->words = s->shape.w = (int)words;
        } else {
            if (k == 0) return false;
            run = false;
            s->step[i] = s->words;
            if ((long long)s->words * extent > CHIP_EXTENT_MAX) return false;
            add_rows(s, extent, step);
        }
    }
    return true;
}

static bool sides_of(const plan *p, const int *tile, side *load, side *store) {
    return side_of(p, tile, p->m.from, true, load) && side_of(p, tile, p->m.to, false, store) &&
           local_line(load->words) + local_line(store->words) <= CHIP_LOCAL_WORDS;
}

/* Sizes of the tiles; false where nothing fits. */
static bool fit(plan *p, side *load, side *store) {
    for (int d = 0; d < p->m.dims; d++) p->tile[d] = 1;
    if (!sides_of(p, p->tile, load, store)) return false; /* no runs, however it is cut */
    for (int i = 0; i < p->inners; i++) p->tile[p->inner[i]] = p->m.extent[p->inner[i]];
    while (!sides_of(p, p->tile, load, store)) { /* ends: single elements fit */
        int longest = p->inner[0];
        for (int i = 1; i < p->inners; i++)
            if (p->tile[p->inner[i]] > p->tile[longest]) longest = p->inner[i];
        p->tile[longest] = (p->tile[longest] + 1) / 2;
    }
    const int slots = CHIP_LOCAL_WORDS / (local_line(load->words) + local_line(store->words));
    p->tile[p->lane] = smaller(smaller(slots * CHIP_NPU_NUM, CHIP_CHANNELS_WHOLE), p->m.extent[p->lane]);
    return true;
}

/* ---- what it costs ---- */

/* Tenths of cycles of a plan; -1 where it is impossible. */
static long long cost_of(plan *p) {
    side load, store;
    if (!fit(p, &load, &store)) return -1;
    long long tiles = 1;
    for (int d = 0; d < p->m.dims; d++) tiles *= (p->m.extent[d] + p->tile[d] - 1) / p->tile[d];
    const long long lanes = p->tile[p->lane];
    const long long reads = lanes * load.shape.n * load.shape.h, writes = lanes * store.shape.n * store.shape.h;
    const long long loaded = bm_transfer_cost(reads, lanes * load.words, BM_COST_READ);
    const long long stored = bm_transfer_cost(writes, lanes * store.words, BM_COST_WRITTEN);
    const long long compute = 10 * (long long)store.words * local_slots((int)lanes) / 16;
    return tiles * (BM_COST_LOADED + loaded + BM_COST_STORED + stored + compute);
}

/* The same of copies within DDR. */
static long long direct_cost(const bm_move *m) {
    const int last = m->dims - 1;
    long long elements = 1;
    for (int d = 0; d < m->dims; d++) elements *= m->extent[d];
    const long long runs = m->from[last] == 1 ? elements / m->extent[last] : elements;
    return BM_COST_LOADED + bm_transfer_cost(runs, elements, BM_COST_READ) + BM_COST_STORED +
           bm_transfer_cost(runs, elements, BM_COST_WRITTEN);
}

/* ---- which one ---- */

static void consider(plan *best, long long *least, plan p) {
    const long long cost = cost_of(&p);
    if (cost < 0 || cost >= *least) return;
    *least = cost;
    *best = p;
}

/* Every choice of inner dimensions with the last one among them, and of the lanes. */
static void search(plan *best, long long *least, const bm_move *m) {
    const int last = m->dims - 1;
    for (int a = -1; a < last; a++)
        for (int b = -1; b < (a < 0 ? 0 : a); b++)
            for (int lane = 0; lane < last; lane++) {
                if (lane == a || lane == b) continue;
                plan p = {.m = *m, .lane = lane, .inner = {last, a, b}, .inners = 1 + (a >= 0) + (b >= 0)};
                consider(best, least, p);
            }
}

/* ---- doing it ---- */

/* The tile whose first element is at `at`. */
static void run_tile(u64 dst, u64 src, const plan *p, const int *at) {
    int tile[BM_MOVE_DIMS];
    long long to = 0, from = 0;
    for (int d = 0; d < p->m.dims; d++) {
        tile[d] = smaller(p->m.extent[d] - at[d], p->tile[d]);
        to += at[d] * p->m.to[d];
        from += at[d] * p->m.from[d];
    }
    side load, store;
    OKKERNEL_ASSERT(sides_of(p, tile, &load, &store)); /* smaller than one that fits */
    const int lanes = tile[p->lane];
    load.shape.c = store.shape.c = lanes;
    load.outside.c = (int)p->m.from[p->lane];
    store.outside.c = (int)p->m.to[p->lane];
    const dim4 in = {load.shape.h * load.shape.w, local_line(load.words), load.shape.w, 1};
    const dim4 out = {store.shape.h * store.shape.w, local_line(store.words), store.shape.w, 1};
    const local_addr_t x = 0, y = 4 * (local_addr_t)(local_slots(lanes) * local_line(load.words));
    int extent[INNER] = {1, 1, 1};
    for (int i = 0; i < p->inners; i++) extent[i] = tile[p->inner[i]];
    const dim4 shape = {extent[2], lanes, extent[1], extent[0]};
    const dim4 source = {load.step[2], in.c, load.step[1], load.step[0]};
    const dim4 target = {store.step[2], out.c, store.step[1], store.step[0]};
    okk_gdma_32bit_cpy_S2L(x, src + (u64)(from * 4), &load.shape, &in, &load.outside);
    okk_bdc_32bit_cpy(y, x, &shape, &target, &source);
    okk_gdma_32bit_cpy_L2S(dst + (u64)(to * 4), y, &store.shape, &store.outside, &out);
}

static void run_plan(u64 dst, u64 src, const plan *p) {
    int at[BM_MOVE_DIMS] = {0};
    for (;;) {
        run_tile(dst, src, p, at);
        int d = p->m.dims - 1;
        for (; d >= 0; d--) {
            at[d] += p->tile[d];
            if (at[d] < p->m.extent[d]) break;
            at[d] = 0;
        }
        if (d < 0) return;
    }
}

/* The box with dimension d as `count` equal parts; what is left over is not in it. */
static bm_move parted(const bm_move *m, int d, int count) {
    bm_move parts = {.dims = 0};
    for (int i = 0; i < m->dims; i++) {
        const int part = m->extent[i] / count;
        if (i == d) bm_move_add(&parts, count, m->to[i] * part, m->from[i] * part);
        bm_move_add(&parts, i == d ? part : m->extent[i], m->to[i], m->from[i]);
    }
    return parts;
}

bool bm_move_through_local(u64 dst, u64 src, const bm_move *m, bm_move_rest *rest) {
    *rest = (bm_move_rest){0, 0};
    const int last = m->dims - 1;
    long long elements = 1;
    for (int d = 0; d < m->dims; d++) {
        elements *= m->extent[d];
        if (m->from[d] < 0) return false;
    }
    if (last < 0 || m->to[last] != 1 || elements < LEAST || m->dims == BM_MOVE_DIMS) return false;
    plan best = {.m.dims = 0};
    long long least = direct_cost(m);
    int cut = -1, into = 0; /* the dimension that the lanes take a part of each, and how many parts */
    search(&best, &least, m);
    for (int d = 0; d < m->dims; d++)
        for (int count = CHIP_NPU_NUM; count >= FEWEST; count /= 2) { /* fewer lanes have longer runs */
            if (m->extent[d] < 2 * count) continue;
            const bm_move parts = parted(m, d, count);
            const long long before = least;
            search(&best, &least, &parts);
            if (least < before) cut = d, into = count;
        }
    if (best.m.dims == 0) return false;
    run_plan(dst, src, &best);
    if (cut >= 0) *rest = (bm_move_rest){cut, m->extent[cut] % into};
    return true;
}
