/* Boxes of 32-bit elements through local memory. Where source and destination step differently, a copy within
 * DDR moves element by element. Here long runs are loaded, the tensor unit puts the elements of each lane
 * into their new order, and long runs are stored. */
#include "bm_layer_clock.h"
#include "bm_layer_local.h"
#include "bm_layer_move.h"
#include "bm_layer_shape.h"
#include "okk.h"

enum {
    GAP = 8,      /* elements that are read for nothing between two that are wanted */
    WIDE_GAP = 96, /* the same, where that costs less than beginning anew */
    COMMAND = 100, /* tenths of cycles of a command of the tensor unit beside its work */
    LEAST = 1024, /* elements of a box from which on this pays */
    FEWEST = 4,   /* parts for lanes */
    INNER = 3     /* dimensions within a lane */
};

/* How a box is moved: one dimension over the lanes, up to three within a lane, the others walked through; of each
 * dimension as many elements at a time as tile says. */
typedef struct {
    bm_move m; /* its order begins with 0 at the least */
    int span;  /* elements of the source that the ordered dimension reaches over */
    int lane, inner[INNER], inners; /* dimensions; the inner ones from the destination's smallest step on */
    int gap;
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

/* The side of the source, where what lies in gaps is moved too, or of the destination. False where it has no runs. */
static bool side_of(const plan *p, const int *tile, bool source, side *s) {
    const long long *stride = source ? p->m.from : p->m.to;
    bool used[INNER] = {false};
    *s = (side){.words = 1, .shape = {1, 1, 1, 1}, .outside = {0, 0, 0, 1}};
    bool run = true;
    for (int k = 0; k < p->inners; k++) {
        int i = -1; /* the next larger step */
        for (int c = 0; c < p->inners; c++)
            if (!used[c] && (i < 0 || stride[p->inner[c]] < stride[p->inner[i]])) i = c;
        used[i] = true;
        const int extent = source && p->m.ordered == p->inner[i] + 1 ? p->span : tile[p->inner[i]];
        const long long step = stride[p->inner[i]];
        if (step == 0) { /* one element many times */
            s->step[i] = 0;
        } else if (run && step <= s->shape.w + (source ? p->gap : 0) && step >= s->shape.w) {
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
    return side_of(p, tile, true, load) && side_of(p, tile, false, store) &&
           local_line(load->words) + local_line(store->words) <= CHIP_LOCAL_WORDS;
}

/* Sizes of the tiles; false where nothing fits. What is put into another order is not cut. */
static bool fit(plan *p, side *load, side *store) {
    const int whole = p->m.ordered - 1;
    for (int d = 0; d < p->m.dims; d++) p->tile[d] = d == whole ? p->m.extent[d] : 1;
    if (!sides_of(p, p->tile, load, store)) return false; /* no runs, however it is cut */
    for (int i = 0; i < p->inners; i++) p->tile[p->inner[i]] = p->m.extent[p->inner[i]];
    while (!sides_of(p, p->tile, load, store)) { /* ends: single elements fit */
        int longest = -1;
        for (int i = 0; i < p->inners; i++)
            if (p->inner[i] != whole && (longest < 0 || p->tile[p->inner[i]] > p->tile[longest])) longest = p->inner[i];
        p->tile[longest] = (p->tile[longest] + 1) / 2;
    }
    const int slots = CHIP_LOCAL_WORDS / (local_line(load->words) + local_line(store->words));
    p->tile[p->lane] = smaller(smaller(slots * CHIP_NPU_NUM, CHIP_CHANNELS_WHOLE), p->m.extent[p->lane]);
    return true;
}

/* ---- what it costs ---- */

/* The commands that copy a tile within the lanes: one, or one for each run of an order. */
static int copies_of(const plan *p) {
    int count = 1;
    if (p->m.ordered == 0) return 1;
    for (int i = 0; (i += bm_runs_of(bm_order_at, p->m.order, i, p->m.extent[p->m.ordered - 1] - i, false).length) <
                    p->m.extent[p->m.ordered - 1];)
        count++;
    return count;
}

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
    const long long steps = 1 + store.words / copies_of(p) / 16; /* of each copy */
    const long long compute = copies_of(p) * (COMMAND + 20 * steps * local_slots((int)lanes));
    return tiles * (BM_COST_LOADED + loaded + BM_COST_STORED + stored + compute);
}

/* The same of copies within DDR. */
static long long direct_cost(const bm_move *m) {
    const int last = m->dims - 1;
    long long elements = 1, commands = 1;
    for (int d = 0; d < m->dims; d++) {
        elements *= m->extent[d];
        if (m->from[d] < 0) commands *= m->extent[d];
    }
    const long long runs = m->from[last] == 1 && m->to[last] == 1 ? elements / m->extent[last] : elements;
    return commands * (BM_COST_LOADED + BM_COST_STORED) + bm_transfer_cost(runs, elements, BM_COST_READ) +
           bm_transfer_cost(runs, elements, BM_COST_WRITTEN);
}

/* The same of an ordered box, whose runs of the list are copies of their own. */
static long long runs_cost(const bm_move *box) {
    bm_move m = *box;
    const int d = m.ordered - 1, count = m.extent[d];
    long long cost = 0;
    for (int i = 0; i < count;) {
        const bm_runs r = bm_runs_of(bm_order_at, m.order, i, count, true);
        bm_move part = m;
        bm_move_remove(&part, d);
        bm_move_add(&part, r.length, m.to[d], r.step * m.from[d]);
        bm_move_add(&part, r.repeats, m.to[d] * r.length, r.again * m.from[d]);
        part = bm_move_folded(&part);
        cost += part.dims == 0 ? 0 : direct_cost(&part);
        i += r.length * r.repeats;
    }
    return cost;
}

/* ---- which one ---- */

static void consider(plan *best, long long *least, plan p) {
    const long long cost = cost_of(&p);
    if (cost < 0 || cost >= *least) return;
    *least = cost;
    *best = p;
}

/* Every choice of inner dimensions with the last one and the ordered one among them, and of the lanes. */
static void search(plan *best, long long *least, const bm_move *m, int span) {
    const int last = m->dims - 1, ordered = m->ordered - 1;
    for (int a = -1; a < last; a++)
        for (int b = -1; b < (a < 0 ? 0 : a); b++)
            for (int lane = 0; lane < last; lane++) {
                if (lane == a || lane == b) continue;
                if (ordered >= 0 && ordered != last && ordered != a && ordered != b) continue;
                plan p = {.m = *m, .span = span, .lane = lane, .inner = {last, a, b},
                          .inners = 1 + (a >= 0) + (b >= 0), .gap = GAP};
                consider(best, least, p);
                p.gap = WIDE_GAP;
                consider(best, least, p);
            }
}

/* ---- doing it ---- */

/* Elements of [b, lanes, a, last], the inner dimensions, from the loaded to the stored side. */
static void copy_in_lanes(const plan *p, local_addr_t y, local_addr_t x, const dim4 *shape, const dim4 *target,
                          const dim4 *source) {
    const int d = p->m.ordered - 1;
    if (d < 0) {
        okk_bdc_32bit_cpy(y, x, shape, target, source);
        return;
    }
    const int role = d == p->inner[0] ? 0 : d == p->inner[1] ? 1 : 2; /* on w, h or n */
    const int to = role == 0 ? target->w : role == 1 ? target->h : target->n;
    const int from = role == 0 ? source->w : role == 1 ? source->h : source->n;
    for (int i = 0, count = p->m.extent[d]; i < count;) {
        const bm_runs r = bm_runs_of(bm_order_at, p->m.order, i, count, false);
        dim4 part = *shape, step = *source;
        *(role == 0 ? &part.w : role == 1 ? &part.h : &part.n) = r.length;
        *(role == 0 ? &step.w : role == 1 ? &step.h : &step.n) = from * r.step;
        okk_bdc_32bit_cpy(y + 4u * (local_addr_t)(i * to), x + 4u * (local_addr_t)(p->m.order[i] * from), &part, target,
                          &step);
        i += r.length;
    }
}

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
    copy_in_lanes(p, y, x, &shape, &target, &source);
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
    bm_move parts = {.dims = 0, .order = m->order};
    for (int i = 0; i < m->dims; i++) {
        const int part = m->extent[i] / count;
        if (i == d) bm_move_add(&parts, count, m->to[i] * part, m->from[i] * part);
        if (m->ordered == i + 1) parts.ordered = parts.dims + 1;
        bm_move_add(&parts, i == d ? part : m->extent[i], m->to[i], m->from[i]);
    }
    return parts;
}

/* Makes `order` that of a box with from positive and the least index 0, and moves the source accordingly; what is
 * read backwards is another order. False where there are several such dimensions or one is too long. */
static bool in_order(bm_move *m, u64 *src, int *order, int *span) {
    for (int d = 0; d < m->dims; d++) {
        if (m->from[d] >= 0) continue;
        if (m->ordered != 0 || m->extent[d] > BM_ORDER_MOST) return false;
        const int count = m->extent[d];
        *src += (u64)(4 * (count - 1) * m->from[d]);
        for (int i = 0; i < count; i++) order[i] = count - 1 - i;
        m->from[d] = -m->from[d];
        m->ordered = d + 1;
        m->order = order;
    }
    if (m->ordered == 0) return true;
    const int d = m->ordered - 1;
    int least = m->order[0], most = least;
    for (int i = 0; i < m->extent[d]; i++) {
        least = smaller(least, m->order[i]);
        most = larger(most, m->order[i]);
    }
    for (int i = 0; i < m->extent[d]; i++) order[i] = m->order[i] - least;
    *src += (u64)(4 * least * m->from[d]);
    *span = most - least + 1;
    m->order = order;
    return true;
}

bool bm_move_through_local(u64 dst, u64 src, const bm_move *box, bm_move_rest *rest) {
    *rest = (bm_move_rest){0, 0};
    bm_move m = *box;
    int order[BM_ORDER_MOST], span = 0;
    const int last = m.dims - 1;
    long long elements = 1, least = m.ordered == 0 ? direct_cost(box) : runs_cost(box);
    for (int d = 0; d < m.dims; d++) elements *= m.extent[d];
    if (last < 0 || m.to[last] != 1 || elements < LEAST || m.dims == BM_MOVE_DIMS) return false;
    if (!in_order(&m, &src, order, &span)) return false;
    plan best = {.m.dims = 0};
    int cut = -1, into = 0; /* the dimension that the lanes take a part of each, and how many parts */
    search(&best, &least, &m, span);
    for (int d = 0; d < m.dims; d++)
        for (int count = CHIP_NPU_NUM; count >= FEWEST; count /= 2) { /* fewer lanes have longer runs */
            if (m.extent[d] < 2 * count || m.ordered == d + 1) continue;
            const bm_move parts = parted(&m, d, count);
            const long long before = least;
            search(&best, &least, &parts, span);
            if (least < before) cut = d, into = count;
        }
    if (best.m.dims == 0) return false;
    run_plan(dst, src, &best);
    if (cut >= 0) *rest = (bm_move_rest){cut, m.extent[cut] % into};
    return true;
}
