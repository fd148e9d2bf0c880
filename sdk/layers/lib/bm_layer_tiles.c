#include "bm_layer_tiles.h"

#define BM_FEW_LANES (CHIP_NPU_NUM / 2) /* fewer rows than this: the innermost dimension is dealt over the lanes */
#define BM_PART_WORDS 500               /* of these a costly function takes longer than two more copies to begin */

/* ---- the plan of a layer whose operands are broadcast as numpy does ---- */

bm_tiling bm_tiling_of(const tpu_tensor_t *out, const tpu_tensor_t *in, int operands) {
    bm_tiling t = {.operands = operands, .dims = (int)out->dims};
    for (int k = 0; k <= operands; k++) {
        const tpu_tensor_t *x = k == 0 ? out : &in[k - 1];
        int missing = t.dims - (int)x->dims, step = 1;
        t.addr[k] = x->addr;
        for (int d = t.dims - 1; d >= 0; d--) {
            int extent = d < missing ? 1 : x->shape[d - missing];
            t.step[d][k] = extent == 1 ? 0 : step;
            step *= extent;
        }
    }
    for (int d = 0; d < t.dims; d++) t.extent[d] = out->shape[d];
    return t;
}

/* Leave out extents of 1, and make one dimension of two that every operand walks through in one go. */
static void bm_merge(bm_tiling *t) {
    int made = 0;
    for (int d = 0; d < t->dims; d++) {
        if (t->extent[d] == 1) continue;
        bool merged = made > 0;
        for (int k = 0; k <= t->operands && merged; k++)
            merged = t->step[made - 1][k] == (long long)t->step[d][k] * t->extent[d];
        int to = merged ? made - 1 : made++;
        t->extent[to] = (merged ? t->extent[to] : 1) * t->extent[d];
        for (int k = 0; k <= t->operands; k++) t->step[to][k] = t->step[d][k];
    }
    if (made == 0) {
        t->extent[made++] = 1;
        for (int k = 0; k <= t->operands; k++) t->step[0][k] = 0;
    }
    t->dims = made;
}

/* ---- one tile ---- */

/* Which dimension lies where; -1: none. Those that lie nowhere are walked through one element at a time. */
typedef struct {
    int n, row, w; /* rows are dealt over lanes and, within one, over h */
    int most_n, most_row, most_w;
} bm_roles;

typedef struct {
    dim4 shape;
    dim4 stride[BM_TILE_OPERANDS]; /* of the operands in local memory */
    system_addr_t addr[1 + BM_TILE_OPERANDS];
} bm_tile;

/* Whether `words` of a lane are worth two tiles: one moves while the other is computed, where that takes long. */
static bool bm_in_parts(const bm_tiling *t, int words) { return t->work_buffers > 1 && words >= BM_PART_WORDS; }

static bm_roles bm_roles_of(const bm_tiling *t, int lane_words) {
    bm_roles r = {-1, -1, t->dims - 1, 1, 1, 1};
    for (int d = 0; d < r.w; d++) {
        if (r.row < 0 || smaller(t->extent[d], CHIP_NPU_NUM) >= smaller(t->extent[r.row], CHIP_NPU_NUM)) r.row = d;
    }
    for (int d = 0; d < r.w; d++) {
        if (d != r.row && (r.n < 0 || t->extent[d] >= t->extent[r.n])) r.n = d;
    }
    r.most_w = smaller(smaller(t->extent[r.w], lane_words), CHIP_EXTENT_MAX);
    int plane = r.most_w;
    if (r.row >= 0) {
        int rows = t->extent[r.row], per_lane = smaller(lane_words / r.most_w, CHIP_EXTENT_MAX);
        r.most_row = smaller(rows, CHIP_NPU_NUM * per_lane);
        plane *= local_slots(r.most_row);
    }
    plane = local_line(plane);
    if (r.n >= 0) {
        const int all = t->extent[r.n], fit = smaller(all, lane_words / plane);
        r.most_n = smaller(fit == all && bm_in_parts(t, plane * all) ? (all + 1) / 2 : fit, CHIP_EXTENT_MAX);
    }
    return r;
}

/* The tile that begins at `at`, and how much of the two cut dimensions it takes. */
static bm_tile bm_tile_at(const bm_tiling *t, const bm_roles *r, const int *at, int *rows) {
    bm_tile tile = {.shape = {1, 1, 1, 1}};
    tile.shape.w = smaller(t->extent[r->w] - at[r->w], r->most_w);
    if (r->n >= 0) tile.shape.n = smaller(t->extent[r->n] - at[r->n], r->most_n);
    if (r->row >= 0) {
        int left = smaller(t->extent[r->row] - at[r->row], r->most_row);
        tile.shape.c = smaller(left, CHIP_NPU_NUM);
        tile.shape.h = left / tile.shape.c;
    }
    *rows = tile.shape.c * tile.shape.h;
    for (int k = 0; k <= t->operands; k++) {
        tile.addr[k] = t->addr[k];
        for (int d = 0; d < t->dims; d++)
            tile.addr[k] += 4ull * (unsigned int)at[d] * (unsigned int)t->step[d][k];
    }
    return tile;
}

/* Move operand k of a tile (0: the result) between DDR and local memory; fills the operand's local strides. */
static void bm_tile_move(const bm_tiling *t, const bm_roles *r, bm_tile *tile, int k, local_addr_t local) {
    const int step_n = r->n >= 0 ? t->step[r->n][k] : 0, step_row = r->row >= 0 ? t->step[r->row][k] : 0;
    const int step_w = t->step[r->w][k];
    const dim4 *shape = &tile->shape;
    dim4 part = *shape, far = {step_n, step_row * shape->h, step_row, 1}, near;
    if (k > 0) {
        if (step_n == 0) part.n = 1;
        if (step_row == 0) part.h = 1;
        if (step_w == 0) part.w = 1;
    }
    okk_128_byte_aligned_stride_for_32bit(&near, 0, &part);
    if (part.w == 1 && (step_row == 1 || part.h == 1)) { /* neighbours in DDR: one run instead of single words */
        part.w = part.h;
        part.h = 1;
        near.h = part.w;
    }
    if (k == 0) {
        okk_gdma_32bit_cpy_L2S(tile->addr[0], local, &part, &far, &near);
        return;
    }
    okk_gdma_32bit_cpy_S2L(local, tile->addr[k], &part, &near, &far);
    dim4 *stride = &tile->stride[k - 1];
    okk_128_byte_aligned_stride_for_32bit(stride, 0, &(dim4){part.n, part.c, part.h, part.w});
    *stride = (dim4){step_n == 0 ? 0 : stride->n, stride->c, step_row == 0 ? 0 : step_w == 0 ? 1 : shape->w,
                     step_w == 0 ? 0 : 1};
}

static bool bm_whole(const bm_tiling *t, const bm_roles *r, int k) {
    return (r->n < 0 || t->step[r->n][k] != 0) && (r->row < 0 || t->step[r->row][k] != 0) && t->step[r->w][k] != 0;
}

/* ---- all tiles ---- */

/* Words of a lane that each of `buffers` gets: whole banks when that goes, else whole lines. */
static int bm_buffer_words(int buffers) {
    int words = CHIP_LOCAL_WORDS / buffers;
    const int unit = words >= CHIP_BANK_WORDS ? CHIP_BANK_WORDS : CHIP_ALIGN_WORDS;
    return words / unit * unit;
}

/* The next position; false behind the last. */
static bool bm_next_tile(const bm_tiling *t, const bm_roles *r, const bm_tile *tile, int rows, int *at) {
    for (int d = t->dims - 1; d >= 0; d--) {
        at[d] += d == r->w ? tile->shape.w : d == r->row ? rows : d == r->n ? tile->shape.n : 1;
        if (at[d] < t->extent[d]) return true;
        at[d] = 0;
    }
    return false;
}

static void bm_run_dealt(const bm_tiling *t, bm_job_function function, const void *param) {
    const int words = bm_buffer_words(2 * (t->operands + 1) + t->work_buffers);
    const bm_roles r = bm_roles_of(t, words);
    const unsigned int bytes = 4u * (unsigned int)words;
    /* Tile i uses buffers 2k + i % 2: those of the result, then of the operands; behind them the work buffers. */
    const local_addr_t work = 2u * (unsigned int)(t->operands + 1) * bytes;
    bm_tile tiles[3]; /* being loaded, computed, stored: tile i is tiles[i % 3] */
    int at[MAX_SHAPE_DIMS] = {0};
    bool more = true;
    for (int i = 0, last = -1; more || i < last + 3; i++) {
        okk_parallel_start();
        if (more) {
            int rows;
            bm_tile *tile = &tiles[i % 3];
            *tile = bm_tile_at(t, &r, at, &rows);
            for (int k = 1; k <= t->operands; k++)
                bm_tile_move(t, &r, tile, k, (2u * (unsigned int)k + (unsigned int)i % 2) * bytes);
            more = bm_next_tile(t, &r, tile, rows, at);
            last = i;
        }
        if (i >= 1 && i - 1 <= last) {
            const bm_tile *tile = &tiles[(i - 1) % 3];
            const unsigned int turn = (unsigned int)(i - 1) % 2;
            bm_job job = {.y = {turn * bytes, NULL}, .work = work, .work_step = bytes, .shape = tile->shape};
            for (int k = 1; k <= t->operands; k++)
                job.x[k - 1] =
                    (bm_local){(2u * (unsigned int)k + turn) * bytes, bm_whole(t, &r, k) ? NULL : &tile->stride[k - 1]};
            function(param, &job);
        }
        if (i >= 2 && i - 2 <= last) bm_tile_move(t, &r, &tiles[(i - 2) % 3], 0, (unsigned int)(i - 2) % 2 * bytes);
        okk_parallel_end();
    }
}

void bm_run_tiles(bm_tiling t, bm_job_function function, const void *param) {
    bm_merge(&t);
    const int w = t.dims - 1, all = t.extent[w];
    int rows = 1;
    for (int d = 0; d < w; d++)
        if (t.extent[d] > rows) rows = t.extent[d];
    if (rows >= BM_FEW_LANES || all < 2 * CHIP_NPU_NUM || w + 2 >= MAX_SHAPE_DIMS) {
        bm_run_dealt(&t, function, param);
        return;
    }
    bm_tiling dealt = t;
    const int parts = bm_in_parts(&t, all / CHIP_NPU_NUM) ? 2 : 1;
    const int each = all / (parts * CHIP_NPU_NUM), tail = all - parts * each * CHIP_NPU_NUM;
    dealt.dims = w + 3;
    dealt.extent[w] = parts;
    dealt.extent[w + 1] = CHIP_NPU_NUM;
    dealt.extent[w + 2] = each;
    for (int k = 0; k <= t.operands; k++) {
        dealt.step[w + 2][k] = t.step[w][k];
        dealt.step[w + 1][k] = each * t.step[w][k];
        dealt.step[w][k] = CHIP_NPU_NUM * each * t.step[w][k];
        t.addr[k] += 4ull * (unsigned int)(all - tail) * (unsigned int)t.step[w][k];
    }
    bm_run_dealt(&dealt, function, param);
    t.extent[w] = tail;
    if (tail > 0) bm_run_dealt(&t, function, param);
}

/* ---- shapes ---- */

bool bm_broadcast_shape(tpu_tensor_t *out, const tpu_tensor_t *in, int num) {
    out->dims = 0;
    for (int k = 0; k < num; k++)
        if (in[k].dims > out->dims) out->dims = in[k].dims;
    for (unsigned int d = 0; d < out->dims; d++) {
        out->shape[d] = 1;
        for (int k = 0; k < num; k++) {
            const unsigned int missing = out->dims - in[k].dims;
            if (d < missing || in[k].shape[d - missing] == 1) continue;
            if (out->shape[d] != 1 && out->shape[d] != in[k].shape[d - missing]) return false;
            out->shape[d] = in[k].shape[d - missing];
        }
    }
    return true;
}

/* ---- the same work on tiles in local memory ---- */

bm_job bm_local_job(const tpu_tensor_t *out, const tpu_tensor_t *in, int operands, u64 buffer_offset, dim4 *strides) {
    const int *tile = out->slice_shape;
    bm_job job = {.y = {(local_addr_t)out->addr, NULL}, .work = (local_addr_t)buffer_offset};
    job.shape = (dim4){tile[0], tile[1], tile[2], tile[3]};
    dim4 aligned;
    okk_128_byte_aligned_stride_for_32bit(&aligned, 0, &job.shape);
    job.work_step = 4u * (unsigned int)(job.shape.n * aligned.n);
    for (int k = 0; k < operands; k++) {
        const int *x = in[k].slice_shape;
        const dim4 shape = {x[0], x[1], x[2], x[3]};
        dim4 *s = &strides[k];
        okk_128_byte_aligned_stride_for_32bit(s, 0, &shape);
        const int skip_h = x[2] > tile[2] ? out->processed[2] - in[k].processed[2] : 0;
        const int skip_w = x[3] > tile[3] ? out->processed[3] - in[k].processed[3] : 0;
        const local_addr_t from = (local_addr_t)in[k].addr + 4u * (local_addr_t)(skip_h * s->h + skip_w);
        if (x[0] == 1) s->n = 0;
        if (x[2] == 1) s->h = 0;
        if (x[3] == 1) s->w = 0;
        const bool whole = x[0] == tile[0] && x[2] == tile[2] && x[3] == tile[3];
        job.x[k] = (bm_local){from, whole ? NULL : s};
    }
    return job;
}

void bm_spread(bm_job *job, int k, const tpu_tensor_t *in, local_addr_t *room, dim4 *stride) {
    const int *x = in->slice_shape;
    if (x[1] == job->shape.c) return;
    const dim4 from = {x[0], 1, x[2], x[3]}, to = {x[0], job->shape.c, x[2], x[3]};
    okk_128_byte_aligned_stride_for_32bit(stride, 0, &from);
    okk_bdc_npu_bcast(*room, (local_addr_t)in->addr, &to, stride);
    okk_128_byte_aligned_stride_for_32bit(stride, 0, &to);
    const local_addr_t at = *room;
    *room += 4u * (unsigned int)(to.n * stride->n);
    if (to.n == 1) stride->n = 0;
    if (to.h == 1) stride->h = 0;
    if (to.w == 1) stride->w = 0;
    const bool whole = to.n == job->shape.n && to.h == job->shape.h && to.w == job->shape.w;
    job->x[k] = (bm_local){at, whole ? NULL : stride};
}
