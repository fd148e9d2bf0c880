#include "bm_layer_clock.h"
#include "bm_layer_local.h"
#include "bm_layer_reduce.h"

enum { FIXED = 3000 }; /* tenths of cycles of a block beside those of its words: commands and their latencies */

/* ---- which cut ---- */

static int blocks_of(const bm_reduce_cut *cut, const bm_reduce_use *u) {
    const int rows = divide_up(u->reduced, cut->rows);
    if (cut->inner_on_lanes)
        return divide_up(u->outer, cut->outers) * divide_up(u->inner, cut->parts * cut->width) * rows;
    return divide_up(u->outer, cut->outers * cut->each) * divide_up(u->inner, cut->width) * rows;
}

long long bm_reduce_cost(const bm_reduce_cut *cut, const bm_reduce_use *u) {
    const long long blocks = blocks_of(cut, u), words = (long long)cut->each * cut->rows * cut->width;
    const long long lanes = (long long)cut->outers * cut->parts, all = lanes * words;
    const long long run = cut->width == u->inner ? (cut->rows == u->reduced ? words : cut->rows * cut->width) : cut->width;
    const int commands = cut->inner_on_lanes ? cut->outers : 1;
    const long long load = commands * BM_COST_LOADED + bm_transfer_cost(all / run, all, BM_COST_READ);
    const long long made = u->maps ? all : lanes * cut->each * cut->width;
    const long long store = commands * BM_COST_STORED +
                            (u->maps || cut->rows == u->reduced || blocks == 1
                                 ? bm_transfer_cost(u->maps ? all / run : lanes, made, BM_COST_WRITTEN)
                                 : 0);
    const long long compute = FIXED + 10 * u->cycles * (words / 16 + 1);
    return bm_parts_cost(blocks, load + store, compute, u->commands + 2 * commands);
}

static void consider(const bm_reduce_use *u, bm_reduce_cut *best, long long *least, bm_reduce_cut cut) {
    const long long cost = bm_reduce_cost(&cut, u);
    if (*least >= 0 && cost >= *least) return;
    *least = cost;
    *best = cut;
}

/* Outer elements on lanes, in `blocks` blocks or more. */
static void by_outer(const bm_reduce_use *u, bm_reduce_cut *best, long long *least, int blocks) {
    bm_reduce_cut cut = {.parts = 1, .each = 1, .width = u->inner, .rows = u->reduced};
    if ((long long)u->reduced * u->inner <= u->words) {
        const int most = smaller(u->most_each, u->words / (u->reduced * u->inner));
        const int fewest = divide_up(u->outer, CHIP_NPU_NUM * most);
        cut.each = divide_up(u->outer, CHIP_NPU_NUM * (fewest > blocks ? fewest : blocks));
    } else if (u->whole) {
        cut.width = u->words / u->reduced;
    } else {
        cut.width = smaller(u->inner, u->words);
        cut.rows = smaller(u->reduced, u->words / cut.width);
    }
    cut.outers = smaller(CHIP_NPU_NUM, divide_up(u->outer, cut.each));
    consider(u, best, least, cut);
}

/* Parts of the inner ones on lanes, for `outers` outer elements at a time, in `steps` steps along the inner ones or
 * more. */
static void by_inner(const bm_reduce_use *u, bm_reduce_cut *best, long long *least, int outers, int steps) {
    bm_reduce_cut cut = {.inner_on_lanes = true, .outers = outers, .each = 1};
    cut.parts = smaller(CHIP_NPU_NUM / outers, u->inner);
    int most = u->words / u->reduced;
    if (!u->whole) most = smaller(u->words, larger(most, CHIP_NPU_NUM));
    const int fewest = divide_up(u->inner, cut.parts * most);
    cut.width = divide_up(u->inner, cut.parts * smaller(u->inner / cut.parts, larger(fewest, steps)));
    if (cut.width > most) cut.width = most;
    cut.rows = smaller(u->reduced, u->words / cut.width);
    cut.parts = smaller(cut.parts, divide_up(u->inner, cut.width));
    consider(u, best, least, cut);
}

bm_reduce_cut bm_reduce_cut_of(const bm_reduce_use *u) {
    bm_reduce_cut best = {0};
    long long least = -1;
    for (int blocks = 1; blocks <= 8; blocks *= 2) {
        by_outer(u, &best, &least, blocks);
        if (u->inner == 1) continue;
        for (int outers = 1; outers <= CHIP_NPU_NUM / 2 && outers < 2 * u->outer; outers *= 2)
            by_inner(u, &best, &least, smaller(outers, u->outer), blocks);
    }
    return best;
}

/* ---- its blocks ---- */

void bm_reduce_measure(const bm_reduce_cut *cut, const bm_reduce_use *u, bm_reduce_block *s) {
    const int outers = u->outer - s->outer, inners = u->inner - s->inner;
    s->rows = smaller(cut->rows, u->reduced - s->row);
    s->each = cut->each;
    s->back = 0;
    s->parts = 1;
    if (cut->inner_on_lanes) {
        s->outers = smaller(cut->outers, outers);
        s->width = smaller(cut->width, inners);
        s->parts = smaller(cut->parts, divide_up(inners, s->width));
        s->back = s->parts * s->width > inners ? s->parts * s->width - inners : 0;
        return;
    }
    s->width = smaller(cut->width, inners);
    s->each = smaller(cut->each, outers);
    s->outers = smaller(cut->outers, divide_up(outers, s->each));
    s->back = s->outers * s->each > outers ? s->outers * s->each - outers : 0;
}

bool bm_reduce_next(const bm_reduce_cut *cut, const bm_reduce_use *u, bm_reduce_block *s) {
    if ((s->row += s->rows) >= u->reduced) {
        s->row = 0;
        if ((s->inner += s->parts * s->width - (cut->inner_on_lanes ? s->back : 0)) >= u->inner) {
            s->inner = 0;
            if ((s->outer += s->outers * s->each - (cut->inner_on_lanes ? 0 : s->back)) >= u->outer) return false;
        }
    }
    bm_reduce_measure(cut, u, s);
    return true;
}

/* A copy of some lanes of a block: [lanes, each, rows, width], of which the first `skip` of each or of the width are
 * left out. */
typedef struct {
    const bm_reduce_use *use;
    const bm_reduce_block *block;
    system_addr_t base; /* of the whole tensor */
    local_addr_t local;
    int total, rows;    /* of the tensor, of the block */
    bool load, inner_on_lanes;
} copying;

static void copy_lanes(const copying *c, int lane, int lanes, long long first, int stride, int skip) {
    const int inner = c->use->inner, skip_each = c->inner_on_lanes ? 0 : skip, skip_width = skip - skip_each;
    const int each = c->block->each - skip_each, width = c->block->width - skip_width, rows = c->rows;
    const int row = c->block->width, plane = rows * row;
    dim4 near, shape = {each, lanes, rows, width}, far = {c->total * inner, stride, inner, 1};
    const dim4 flat = {1, lanes, 1, c->block->each * plane};
    okk_128_byte_aligned_stride_for_32bit(&near, 0, &flat);
    near.n = plane;
    near.h = row;
    if (skip_width == 0 && (row == inner || rows == 1)) { /* rows are one run */
        shape = (dim4){1, lanes, each, plane};
        far.h = far.n;
        near.h = plane;
        if (plane == c->total * inner) shape.w = each * plane, shape.h = 1; /* all is */
    } else if (each == 1) {
        shape.n = 1;
    }
    const system_addr_t at =
        c->base + 4 * (u64)(first + (long long)skip_each * c->total * inner + skip_width);
    const local_addr_t to = c->local + (local_addr_t)lane * CHIP_LOCAL_BYTES +
                            4u * (local_addr_t)(skip_each * plane + skip_width);
    if (c->load)
        okk_gdma_32bit_cpy_S2L(to, at, &shape, &near, &far);
    else
        okk_gdma_32bit_cpy_L2S(at, to, &shape, &far, &near);
}

/* Lanes side by side in DDR, `stride` apart; the last one begins `back` elements of `step` words earlier. */
static void copy_beside(const copying *c, int lane, int lanes, long long first, int stride, int step) {
    const int back = c->block->back, whole = back > 0 ? lanes - 1 : lanes;
    if (whole > 0) copy_lanes(c, lane, whole, first, stride, 0);
    if (back == 0) return;
    const long long last = first + (long long)whole * stride - (long long)back * step;
    copy_lanes(c, lane + whole, 1, last, stride, c->load ? 0 : back);
}

static void copy_block(const copying *c, int row) {
    const bm_reduce_block *s = c->block;
    const int plane = c->total * c->use->inner;
    const long long first = (long long)s->outer * plane + (long long)row * c->use->inner + s->inner;
    if (!c->inner_on_lanes) {
        copy_beside(c, 0, s->outers, first, s->each * plane, plane);
        return;
    }
    if (c->total == 1 && s->back == 0 && s->parts * s->width == c->use->inner) { /* nothing lies between */
        copy_lanes(c, 0, s->outers * s->parts, first, s->width, 0);
        return;
    }
    for (int o = 0; o < s->outers; o++)
        copy_beside(c, o * s->parts, s->parts, first + (long long)o * plane, s->width, 1);
}

void bm_reduce_load(const bm_reduce_cut *cut, const bm_reduce_use *u, const bm_reduce_block *s, system_addr_t from,
                    local_addr_t to) {
    const copying c = {u, s, from, to, u->reduced, s->rows, true, cut->inner_on_lanes};
    copy_block(&c, s->row);
}

void bm_reduce_store(const bm_reduce_cut *cut, const bm_reduce_use *u, const bm_reduce_block *s, system_addr_t to,
                     local_addr_t from, bool folded) {
    const copying c = {u, s, to, from, folded ? 1 : u->reduced, folded ? 1 : s->rows, false, cut->inner_on_lanes};
    copy_block(&c, folded ? 0 : s->row);
}
