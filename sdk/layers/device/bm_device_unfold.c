/* TPU_UNFOLD: the rows, and of volumes the planes, that a window sees side by side as channels; fp32, or where
 * there are no volumes integers in 4N or 2N.
 *
 * Inputs: x `[N, C, H, W]`; of volumes with D planes `[N * D, C, H, W]`
 * Makes: channels from the rows and planes of a window, which a convolution then sums up at once
 */
#include "bm_layer_axis.h"
#include "bm_layer_local.h"
#include "bm_layer_move.h"
#include "bm_layer_shape.h"
#include "okk.h"

/* The output is [N * OD, KD * KH * C, OH, W]: channel (z * KH + y) * C + c of plane d and row h is channel c of the
 * input's plane d * stride_d - pad_front + z * dilation_d and row h * stride_h - pad_top + y * dilation_h, and zero
 * where the input has none such. */
__BM_PARAM__(TPU_UNFOLD)
typedef struct {
    int planes; /* of a volume, which lie one after the other along n; 1: no volumes, or such of one plane */
    int kernel_d, stride_d, dilation_d, pad_front, pad_back;
    int kernel_h, stride_h, dilation_h, pad_top, pad_bottom;
} tpu_unfold_param_t;

typedef struct {
    window_axis d, h;
} windows;

static windows windows_of(const tpu_unfold_param_t *p, int rows) {
    windows s = {{p->planes, 0, p->kernel_d, p->stride_d, p->dilation_d, p->pad_front, p->pad_back, 0},
                 {rows, 0, p->kernel_h, p->stride_h, p->dilation_h, p->pad_top, p->pad_bottom, 0}};
    s.d.out = bm_axis_result(&s.d);
    s.h.out = bm_axis_result(&s.h);
    return s;
}

/* ---- shape ---- */

__BM_SHAPE__(TPU_UNFOLD)
int unfold_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                 tpu_tensor_t *out_tensors, const int out_num) {
    if (param_size != (int)sizeof(tpu_unfold_param_t) || in_num != 1 || out_num != 1) return BM_LAYER_PARAM_INVALID;
    const tpu_unfold_param_t *p = param;
    const tpu_tensor_t *in = &in_tensors[0];
    if (bm_element_bytes(in->dtype) * bm_layer_together(in) != 4 || in->dims != 4) return BM_LAYER_NOT_SUPPORTED;
    const windows s = windows_of(p, in->shape[2]);
    if (bm_layer_together(in) > 1 && (p->planes != 1 || s.d.out != 1)) return BM_LAYER_NOT_SUPPORTED;
    if (p->planes < 1 || in->shape[0] % p->planes != 0 || s.d.out < 1 || s.h.out < 1) return BM_LAYER_PARAM_INVALID;
    const long long batches = (long long)(in->shape[0] / p->planes) * s.d.out;
    const long long taps = (long long)p->kernel_d * p->kernel_h;
    if (batches > CHIP_EXTENT_MAX || taps > CHIP_CHANNELS_MAX || taps * in->shape[1] > CHIP_CHANNELS_MAX)
        return BM_LAYER_NOT_SUPPORTED;
    tpu_tensor_t *out = &out_tensors[0];
    bm_output_like(out, in, 4);
    out->shape[0] = (int)batches;
    out->shape[1] = (int)taps * in->shape[1];
    out->shape[2] = s.h.out;
    out->shape[3] = in->shape[3];
    return BM_LAYER_OK;
}

/* ---- both functions: parts of one tap's channels, copied or filled ---- */

/* Elements [first, first + count) of an output's part; of the input the first one below them, -1: none. */
typedef struct {
    int first, count, source;
} span;

/* The part [start, start + count) of an output as at most three spans: what one tap sees of the input between what it
 * does not see. */
static int spans_of(const window_axis *a, int tap, int start, int count, span *spans) {
    const window_outputs seen = bm_axis_seen(a, tap, start, count);
    const int end = start + count, from = seen.first, to = seen.end;
    const long long offset = (long long)tap * a->dilation - a->before;
    int found = 0;
    if (from > start) spans[found++] = (span){start, from - start, -1};
    if (to > from) spans[found++] = (span){from, to - from, (int)(from * (long long)a->stride + offset)};
    if (end > to) spans[found++] = (span){to, end - to, -1};
    return found;
}

/* Moves all of the tile [n, all channels, h, w] of the output whose first element has these indices. */
typedef struct run run;
struct run {
    const tpu_unfold_param_t *param;
    windows s;
    int channels, width; /* of the input */
    bm_addr_t x;
    int first[4], extent[4]; /* of the output: n, -, h, w */
    bm_addr_t y;             /* of the tile */
    dim4 stride;             /* of the tile */
    /* Copies from DDR, or fills with zeros (from: 0), a part of one tap's channels. */
    void (*part)(const run *r, int channel, long long inside, const dim4 *shape, bm_addr_t from, const dim4 *steps);
};

static void run_planes(const run *r, int z, int y, int batch, const span *d) {
    const windows *s = &r->s;
    const long long row = r->width, plane = row * s->h.size, picture = plane * r->channels;
    span rows[3];
    const int count = spans_of(&s->h, y, r->first[2], r->extent[2], rows);
    const int channel = (z * s->h.kernel + y) * r->channels;
    for (int i = 0; i < count; i++) {
        const bool there = d->source >= 0 && rows[i].source >= 0;
        const dim4 shape = {d->count, r->channels, rows[i].count, r->extent[3]};
        const dim4 steps = {(int)(picture * s->d.stride), (int)plane, (int)(row * s->h.stride), 1};
        const long long inside = (long long)(batch * s->d.out + d->first - r->first[0]) * r->stride.n +
                                 (long long)(rows[i].first - r->first[2]) * r->stride.h;
        const long long at = ((long long)batch * s->d.size + d->source) * picture + rows[i].source * row + r->first[3];
        r->part(r, channel, inside, &shape, there ? r->x + 4 * (u64)at : 0, &steps);
    }
}

static void run_tile(const run *r) {
    const windows *s = &r->s;
    for (int z = 0; z < s->d.kernel; z++)
        for (int y = 0; y < s->h.kernel; y++)
            for (int n = r->first[0]; n < r->first[0] + r->extent[0];) {
                const int batch = n / s->d.out, plane = n % s->d.out;
                const int count = smaller(s->d.out - plane, r->first[0] + r->extent[0] - n);
                span planes[3];
                const int parts = spans_of(&s->d, z, plane, count, planes);
                for (int i = 0; i < parts; i++) run_planes(r, z, y, batch, &planes[i]);
                n += count;
            }
}

static run run_of(const tpu_unfold_param_t *p, const tpu_tensor_t *in, const tpu_tensor_t *out) {
    return (run){.param = p,
                 .s = windows_of(p, in->shape[2]),
                 .channels = in->shape[1],
                 .width = in->shape[3],
                 .x = in->addr,
                 .y = out->addr};
}

/* ---- global: within DDR ---- */

static void part_in_ddr(const run *r, int channel, long long inside, const dim4 *shape, bm_addr_t from,
                        const dim4 *steps) {
    const u64 to = r->y + 4 * (u64)(inside + (long long)channel * r->stride.c);
    bm_move m = {.dims = 0};
    bm_move_add(&m, shape->n, r->stride.n, steps->n);
    bm_move_add(&m, shape->c, r->stride.c, steps->c);
    bm_move_add(&m, shape->h, r->stride.h, steps->h);
    bm_move_add(&m, shape->w, 1, 1);
    if (from != 0) bm_move_run(to, from, &m, 4);
    else bm_move_fill(to, 0, &m, 4);
}

__BM_GLOBAL__(TPU_UNFOLD)
int unfold_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                  const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                  const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_addr, (void)buffer_size, (void)out_num;
    const tpu_tensor_t x = bm_layer_as_words(&in_tensors[0]), y = bm_layer_as_words(&out_tensors[0]);
    const int *shape = y.shape;
    run r = run_of(param, &x, &y);
    for (int d = 0; d < 4; d++) r.extent[d] = shape[d];
    r.stride = (dim4){shape[1] * shape[2] * shape[3], shape[2] * shape[3], shape[3], 1};
    r.part = part_in_ddr;
    okk_initialize();
    run_tile(&r);
    okk_poll();
    return BM_LAYER_OK;
}

/* ---- local: a tile of the output from the whole input in DDR ---- */

static void part_in_local(const run *r, int channel, long long inside, const dim4 *shape, bm_addr_t from,
                          const dim4 *steps) {
    const local_addr_t to =
        local_channel((local_addr_t)r->y + 4u * (local_addr_t)inside, channel, 4 * r->stride.c);
    if (from != 0) okk_gdma_32bit_cpy_S2L(to, from, shape, &r->stride, steps);
    else okk_gdma_32bit_set_C_local(to, (x32){.fp32 = 0}, shape, &r->stride);
}

__BM_LOCAL__(TPU_UNFOLD)
int unfold_local(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                 u64 buffer_offset, u64 buffer_size, tpu_tensor_t *out_tensors, const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_offset, (void)buffer_size, (void)out_num;
    const tpu_tensor_t x = bm_layer_as_words(&in_tensors[0]), y = bm_layer_as_words(&out_tensors[0]);
    const tpu_tensor_t *out = &y;
    const int *shape = out->slice_shape;
    run r = run_of(param, &x, out);
    for (int d = 0; d < 4; d++) {
        r.first[d] = out->processed[d];
        r.extent[d] = shape[d];
    }
    const dim4 tile = {shape[0], shape[1], shape[2], shape[3]};
    okk_128_byte_aligned_stride_for_32bit(&r.stride, 0, &tile);
    r.part = part_in_local;
    run_tile(&r);
    return BM_LAYER_OK;
}
