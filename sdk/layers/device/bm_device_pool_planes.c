/* TPU_POOL_PLANES: maxima and averages of planes of volumes, which are batches, fp32. With TPU_POOL before it a pool of
 * volumes.
 *
 * Inputs: x `[N * D, C, H, W]`
 * Makes: maxima and averages of a volume's planes: `[N * OD, C, H, W]`
 */
#include "bm_layer_axis.h"
#include "bm_layer_local.h"
#include "bm_layer_move.h"
#include "bm_layer_pipeline.h"
#include "bm_layer_pool.h"
#include "bmcompiler_tpulayer_device.h"
#include "okk.h"

/* An average divides by the planes that count: those of the volume, with count_include_pad also those in the pads, never
 * the extra ones. Each window meets the volume. */
__BM_PARAM__(TPU_POOL_PLANES)
typedef struct {
    int mode; /* 0: maximum, 1: average */
    int planes; /* of a volume, several */
    int kernel, stride, dilation;
    int pad_front, pad_back;
    int extra_back; /* more pads, which make room for last windows that are not complete ("ceil") */
    int count_include_pad;
} tpu_pool_planes_param_t;

#define MOST_PLANES (CHIP_LOCAL_BYTES / (2 * CHIP_ALIGN_BYTES)) /* of input and output, in two places */

static window_axis axis_of(const tpu_pool_planes_param_t *p) {
    window_axis d = {p->planes, 0, p->kernel, p->stride, p->dilation, p->pad_front, p->pad_back + p->extra_back, 0};
    d.out = bm_axis_result(&d);
    return d;
}

/* ---- shape ---- */

static int plane_of(const window_axis *d, int out, int tap) { return out * d->stride + tap * d->dilation - d->before; }

static bool has_plane(const window_axis *d, int out, int tap) {
    const int plane = plane_of(d, out, tap);
    return plane >= 0 && plane < d->size;
}

static int seen_by(const window_axis *d, int out) {
    int count = 0;
    for (int tap = 0; tap < d->kernel; tap++) count += has_plane(d, out, tap);
    return count;
}

__BM_SHAPE__(TPU_POOL_PLANES)
int pool_planes_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                      tpu_tensor_t *out_tensors, const int out_num) {
    if (param_size != (int)sizeof(tpu_pool_planes_param_t) || in_num != 1 || out_num != 1) return BM_LAYER_PARAM_INVALID;
    const tpu_pool_planes_param_t *p = param;
    const tpu_tensor_t *in = &in_tensors[0];
    if (in->dtype != DTYPE_FP32 || in->dims != 4) return BM_LAYER_NOT_SUPPORTED;
    const window_axis d = axis_of(p);
    if ((p->mode != POOL_MAX && p->mode != POOL_AVERAGE) || (p->count_include_pad & ~1) != 0 || p->planes < 2 ||
        p->pad_back < 0 || p->extra_back < 0 || in->shape[0] % p->planes != 0 || d.out < 1)
        return BM_LAYER_PARAM_INVALID;
    const long long planes = (long long)(in->shape[0] / p->planes) * d.out;
    if (planes > CHIP_EXTENT_MAX || d.size + d.out > MOST_PLANES || bm_axis_misses(&d)) return BM_LAYER_NOT_SUPPORTED;
    bm_output_like(&out_tensors[0], in, 4);
    for (int i = 1; i < 4; i++) out_tensors[0].shape[i] = in->shape[i];
    out_tensors[0].shape[0] = (int)planes;
    return BM_LAYER_OK;
}

/* ---- planes in local memory ---- */

static int counted(const tpu_pool_planes_param_t *p, const window_axis *d, int out) {
    if (!p->count_include_pad) return seen_by(d, out);
    int count = 0;
    for (int tap = 0; tap < p->kernel; tap++) count += plane_of(d, out, tap) < p->planes + p->pad_back;
    return count;
}

/* One volume; shape: of a plane. */
static void pool_volume(const tpu_pool_planes_param_t *p, local_addr_t y, local_addr_t x, const dim4 *shape) {
    const window_axis d = axis_of(p);
    const local_addr_t plane = (local_addr_t)local_bytes(1, shape->c, shape->h, shape->w);
    for (int i = 0; i < d.out; i++) {
        const local_addr_t to = y + (local_addr_t)i * plane;
        int seen = 0;
        local_addr_t first = 0;
        for (int tap = 0; tap < d.kernel; tap++) {
            if (!has_plane(&d, i, tap)) continue;
            const local_addr_t next = x + (local_addr_t)plane_of(&d, i, tap) * plane;
            const local_addr_t other = seen == 1 ? first : to;
            if (seen > 0 && p->mode == POOL_MAX) okk_bdc_max(to, other, next, shape, NULL, NULL, NULL);
            if (seen > 0 && p->mode == POOL_AVERAGE) okk_bdc_add(to, other, next, shape, NULL, NULL, NULL);
            first = next;
            seen++;
        }
        if (seen == 1) okk_bdc_32bit_cpy(to, first, shape, NULL, NULL);
        const int count = counted(p, &d, i);
        if (p->mode == POOL_AVERAGE && count > 1) okk_bdc_mul_C(to, to, 1.0f / (float)count, shape, NULL, NULL);
    }
}

__BM_LOCAL__(TPU_POOL_PLANES)
int pool_planes_local(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                      u64 buffer_offset, u64 buffer_size, tpu_tensor_t *out_tensors, const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_offset, (void)buffer_size, (void)out_num;
    const tpu_pool_planes_param_t *p = param;
    const int *a = in_tensors[0].slice_shape, *b = out_tensors[0].slice_shape;
    const window_axis d = axis_of(p);
    if (a[0] % d.size != 0 || b[0] != a[0] / d.size * d.out || a[2] != b[2] || a[3] != b[3])
        return BM_LAYER_RUNTIME_ERROR;
    const dim4 shape = {1, b[1], b[2], b[3]};
    const local_addr_t plane = (local_addr_t)local_bytes(1, b[1], b[2], b[3]);
    for (int i = 0; i < a[0] / d.size; i++)
        pool_volume(p, (local_addr_t)out_tensors[0].addr + (local_addr_t)(i * d.out) * plane,
                    (local_addr_t)in_tensors[0].addr + (local_addr_t)(i * d.size) * plane, &shape);
    return BM_LAYER_OK;
}

/* ---- data in DDR: words of planes, whatever they are, dealt over the lanes ---- */

typedef struct {
    const tpu_pool_planes_param_t *param;
    window_axis d;
    bm_addr_t x, y;
    int volumes, words, lane; /* words of a plane, and of a lane in a whole tile */
    int parts;                /* tiles of a plane */
} planes_run;

/* Of a step: its volume, the first of its words of a plane, and the part of a plane that it has. */
typedef struct {
    int volume, first;
    dim4 shape;
} planes_tile;

/* Whole tiles, then lanes that are not full, then words that are fewer than the lanes. */
static planes_tile tile_of(const planes_run *r, int step) {
    const int part = step % r->parts, tile = CHIP_NPU_NUM * r->lane, whole = r->words / tile, left = r->words % tile;
    planes_tile t = {.volume = step / r->parts, .first = smaller(part, whole) * tile, .shape = {1, CHIP_NPU_NUM, 1, r->lane}};
    if (part < whole) return t;
    if (part == whole && left >= CHIP_NPU_NUM) {
        t.shape.w = left / CHIP_NPU_NUM;
        return t;
    }
    t.first = r->words - left % CHIP_NPU_NUM;
    t.shape.c = left % CHIP_NPU_NUM;
    t.shape.w = 1;
    return t;
}

static local_addr_t place_of(const planes_run *r, int step, bool output) {
    const local_addr_t plane = (local_addr_t)local_bytes(1, CHIP_NPU_NUM, 1, r->lane);
    return (local_addr_t)(step % 2 * (r->d.size + r->d.out) + (output ? r->d.size : 0)) * plane;
}

static void load_step(const void *run, int step) {
    const planes_run *r = run;
    const planes_tile t = tile_of(r, step);
    const dim4 shape = {r->d.size, t.shape.c, 1, t.shape.w}, from = {r->words, t.shape.w, t.shape.w, 1};
    const u64 at = (u64)t.volume * (u64)r->d.size * (u64)r->words + (u64)t.first;
    okk_gdma_32bit_cpy_S2L(place_of(r, step, false), r->x + 4 * at, &shape, NULL, &from);
}

static void compute_step(const void *run, int step) {
    const planes_run *r = run;
    const planes_tile t = tile_of(r, step);
    pool_volume(r->param, place_of(r, step, true), place_of(r, step, false), &t.shape);
}

static void store_step(const void *run, int step) {
    const planes_run *r = run;
    const planes_tile t = tile_of(r, step);
    const dim4 shape = {r->d.out, t.shape.c, 1, t.shape.w}, to = {r->words, t.shape.w, t.shape.w, 1};
    const u64 at = (u64)t.volume * (u64)r->d.out * (u64)r->words + (u64)t.first;
    okk_gdma_32bit_cpy_L2S(r->y + 4 * at, place_of(r, step, true), &shape, &to, NULL);
}

__BM_GLOBAL__(TPU_POOL_PLANES)
int pool_planes_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                       const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                       const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_addr, (void)buffer_size, (void)out_num;
    const int *x = in_tensors[0].shape;
    planes_run r = {.param = param, .d = axis_of(param), .x = in_tensors[0].addr, .y = out_tensors[0].addr,
                    .words = x[1] * x[2] * x[3]};
    const int most = CHIP_LOCAL_WORDS / (2 * (r.d.size + r.d.out)) / CHIP_ALIGN_WORDS * CHIP_ALIGN_WORDS;
    r.lane = smaller(smaller(most, divide_up(r.words, CHIP_NPU_NUM)), CHIP_EXTENT_MAX);
    const int tile = CHIP_NPU_NUM * r.lane, left = r.words % tile;
    r.parts = r.words / tile + (left >= CHIP_NPU_NUM) + (left % CHIP_NPU_NUM > 0);
    r.volumes = x[0] / r.d.size;
    okk_initialize();
    bm_run_pipeline(r.volumes * r.parts, &r, load_step, compute_step, store_step);
    okk_poll();
    return BM_LAYER_OK;
}
