/* TPU_NORM: (x - mean) / sqrt(variance + epsilon) over the last dimensions (LayerNormalization), over groups of
 * channels (GroupNormalization, InstanceNormalization), over the channels of each position (a LayerNormalization of
 * channels that come last elsewhere), or x / sqrt(mean of squares + epsilon), or, of the last dimension or the
 * channels of each position, x / max(sqrt(sum of squares), epsilon); then scale and shift.
 * The mean is subtracted before squares are summed, so a large mean costs no digits of the variance.
 *
 * Inputs: x, perhaps scale, perhaps shift
 * Makes: layer, group, instance and RMS normalization
 */
#include "bm_layer_affine.h"
#include "bm_layer_arithmetic.h"
#include "bm_layer_reduce.h"
#include "bm_layer_reduce_power.h"
#include "bm_layer_rows.h"
#include "bm_layer_shape.h"
#include "bm_layer_words.h"
#include "bmcompiler_tpulayer_device.h"
#include "okk.h"

/* A lane: three buffers that take turns with being loaded, computed and stored, one for work, scale, shift; and one
 * number for each of its rows. */
#define WORDS 21440 /* 32-bit words of one buffer */
#define BYTES (4 * WORDS)
#define WORK (3 * BYTES)
#define SCALE (4 * BYTES)
#define SHIFT (5 * BYTES)
#define ROWS (6 * BYTES)
#define ROWS_MOST (CHIP_LOCAL_WORDS - 6 * WORDS)

/* Inputs: x, and optionally scale, then shift: with groups one number per channel, else as large as the normalized
 * dimensions. */
__BM_PARAM__(TPU_NORM)
typedef struct {
    int groups; /* 0: over the dimensions from `axis` on. Else of [N, C, ...]: groups of channels; -1: each channel;
                 * -2: the channels of each position */
    int axis;   /* negative counts from the end; not used with groups */
    int rms;    /* 1: no mean is subtracted; 2: the root of a sum instead, of the last dimension alone, or with -2 */
    float epsilon;
} tpu_norm_param_t;

typedef struct {
    system_addr_t in, out, scale, shift; /* 0: none */
    int rows, length;                    /* `length` neighbours are normalized together */
    int batch, channels, inner;          /* x as [batch, channels, inner] */
    bool per_channel;                    /* scale and shift are of channels */
    bool positions;                      /* the channels of each position are normalized together */
    bool rms;
    bool length_one; /* the root of a sum, at least epsilon */
    float epsilon;
} norm;

static int norm_of(const tpu_norm_param_t *p, const tpu_tensor_t *in, norm *n) {
    const int dims = (int)in->dims;
    int axis = bm_layer_axis(p->axis, dims);
    *n = (norm){.rms = p->rms != 0, .length_one = p->rms == 2, .epsilon = p->epsilon};
    if (p->groups == 0) {
        if (axis < 0) return BM_LAYER_PARAM_INVALID;
        n->rows = (int)bm_layer_elements(in->shape, 0, axis);
    } else {
        if (dims < 2 || p->groups < -2) return BM_LAYER_PARAM_INVALID;
        const int groups = p->groups > 0 ? p->groups : in->shape[1];
        if (in->shape[1] % groups != 0) return BM_LAYER_PARAM_INVALID;
        if (p->groups == -2 && in->shape[1] > CHIP_CHANNELS_MAX) return BM_LAYER_NOT_SUPPORTED;
        n->rows = in->shape[0] * groups;
        n->per_channel = true;
        n->positions = p->groups == -2;
        n->batch = in->shape[0];
        n->channels = in->shape[1];
        n->inner = (int)bm_layer_elements(in->shape, 2, dims);
    }
    n->length = (int)(bm_layer_elements(in->shape, 0, dims) / (unsigned long long)n->rows);
    return BM_LAYER_OK;
}

__BM_SHAPE__(TPU_NORM)
int norm_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
               tpu_tensor_t *out_tensors, const int out_num) {
    if (param_size != (int)sizeof(tpu_norm_param_t) || in_num < 1 || in_num > 3 || out_num != 1)
        return BM_LAYER_PARAM_INVALID;
    const tpu_norm_param_t *p = param;
    if (p->rms < 0 || p->rms > 2 || !(p->epsilon >= 0)) return BM_LAYER_PARAM_INVALID;
    if (p->rms == 2 && p->groups != -2 &&
        (p->groups != 0 || bm_layer_axis(p->axis, (int)in_tensors[0].dims) != (int)in_tensors[0].dims - 1))
        return BM_LAYER_PARAM_INVALID;
    if (!bm_layer_all_fp32(in_tensors, in_num)) return BM_LAYER_NOT_SUPPORTED;
    norm n;
    const int code = norm_of(p, &in_tensors[0], &n);
    if (code != BM_LAYER_OK) return code;
    if (n.length_one && !n.positions && n.length > WORDS) return BM_LAYER_NOT_SUPPORTED;
    for (int i = 1; i < in_num; i++)
        if (in_tensors[i].elem_num != (n.per_channel ? in_tensors[0].shape[1] : n.length))
            return BM_LAYER_PARAM_INVALID;
    bm_layer_same_shape(&out_tensors[0], &in_tensors[0]);
    return BM_LAYER_OK;
}

#define LEAST_ROOTED 4.7e-38f /* rsqrt halves what it is given, which must not be denormal then */

/* m = 1 / sqrt(m), also where it is infinite or, without an epsilon, too small (infinity): there rsqrt makes others of
 * it, and a square root and a division would take three times as long. shape: aligned; t: room for as much. */
static void inverse_roots(const norm *n, local_addr_t m, local_addr_t t, const dim4 *shape) {
    const dim4 flat = bm_flat(shape);
    okk_bdc_rsqrt(t, m, shape);
    if (n->epsilon == 0) /* a denormal one keeps it apart from 0 all the same: rsqrt is finite there */
        bm_if_C_greater(t, LEAST_ROOTED, m, bm_float(BM_INFINITY), bm_words_at(t), &flat);
    bm_if_greater_C(m, m, BM_FLT_MAX, bm_float(0.0f), bm_words_at(t), &flat);
}

/* ---- rows that fit into a lane: one pass ---- */

/* Where a tile lies in local memory: y may be x; work has the layout of x; each: a number for each row, aligned; scale
 * and shift: a copy in every lane, 0 for none. */
typedef struct {
    local_addr_t y, x, work, each, scale, shift;
    dim4 shape, stride; /* [n, c, rows, length] */
} buffers;

static void compute(const norm *n, const buffers *f) {
    const dim4 *all = &f->shape, *stride = &f->stride;
    const dim4 one = {all->n, all->c, all->h, 1}, same = {0, 0, 0, 1};
    const float share = 1.0f / (float)n->length;
    dim4 once = *stride, every;
    local_addr_t x = f->x;
    once.w = 0;
    if (!n->rms) {
        bm_fold_last(BM_FOLD_SUM, f->work, x, &one, stride, n->length);
        okk_bdc_mul_C(f->work, f->work, share, &one, stride, stride);
        okk_bdc_sub(f->y, x, f->work, all, stride, stride, &once);
        x = f->y;
    }
    okk_bdc_mul(f->work, x, x, all, stride, stride, stride);
    bm_fold_last(BM_FOLD_SUM, f->work, f->work, &one, stride, n->length);
    if (n->length_one) { /* what is squared to denormal numbers is below any epsilon that does not square to 0 */
        okk_bdc_max_C(f->each, f->work, n->epsilon * n->epsilon, &one, NULL, stride);
    } else {
        okk_bdc_mul_C(f->each, f->work, share, &one, NULL, stride);
        okk_bdc_add_C(f->each, f->each, n->epsilon, &one, NULL, NULL);
    }
    inverse_roots(n, f->each, f->work, &one);
    okk_128_byte_aligned_stride_for_32bit(&every, 0, &one);
    every.w = 0;
    okk_bdc_mul(f->y, x, f->each, all, stride, stride, &every);
    if (f->scale != 0) okk_bdc_mul(f->y, f->y, f->scale, all, stride, stride, &same);
    if (f->shift != 0) okk_bdc_add(f->y, f->y, f->shift, all, stride, stride, &same);
}

/* The same numbers to every lane. */
static void spread(local_addr_t target, system_addr_t source, int length) {
    const dim4 shape = {1, CHIP_NPU_NUM, 1, length}, same = {0, 0, length, 1};
    if (source != 0) okk_gdma_32bit_cpy_S2L(target, source, &shape, NULL, &same);
}

static void one_pass(const norm *n) {
    const bm_reduce_use use = {n->rows, n->length, 1, .words = WORDS, .most_each = ROWS_MOST, .cycles = 12, .commands = 12,
                               .whole = true, .maps = true};
    const bm_reduce_cut cut = bm_reduce_cut_of(&use);
    bm_reduce_block now = {0}, next, stored = {0};
    if (!n->per_channel) {
        spread(SCALE, n->scale, n->length);
        spread(SHIFT, n->shift, n->length);
    }
    buffers f = {.work = WORK, .each = ROWS};
    if (!n->per_channel) {
        f.scale = n->scale != 0 ? SCALE : 0;
        f.shift = n->shift != 0 ? SHIFT : 0;
    }
    bm_reduce_measure(&cut, &use, &now);
    bm_reduce_load(&cut, &use, &now, n->in, 0);
    local_addr_t at = 0, stored_at = 0;
    for (bool more = true, storing = false; more || storing;) {
        const bool computing = more;
        const local_addr_t next_at = at == 2 * BYTES ? 0 : at + BYTES;
        okk_parallel_start();
        if (computing) {
            next = now;
            more = bm_reduce_next(&cut, &use, &next);
            if (more) bm_reduce_load(&cut, &use, &next, n->in, next_at);
            f.x = f.y = at;
            f.shape = (dim4){1, bm_reduce_lanes(&now), now.each, n->length};
            okk_128_byte_aligned_stride_for_32bit(&f.stride, 0, &f.shape);
            compute(n, &f);
        }
        if (storing) bm_reduce_store(&cut, &use, &stored, n->out, stored_at, false);
        okk_parallel_end();
        storing = computing;
        stored = now;
        stored_at = at;
        at = next_at;
        now = next;
    }
    if (n->per_channel && n->scale != 0)
        bm_affine(n->out, n->out, n->scale, n->shift, n->batch, n->channels, n->inner, false);
}

/* ---- longer ones: reductions and passes through DDR ---- */

static void subtract(const void *param, const bm_job *job) {
    (void)param;
    okk_bdc_sub(job->y.addr, job->x[0].addr, job->x[1].addr, &job->shape, NULL, NULL, job->x[1].stride);
}

/* y = 1 / sqrt(x0 + epsilon) */
static void root(const void *param, const bm_job *job) {
    const norm *n = param;
    okk_bdc_add_C(job->y.addr, job->x[0].addr, n->epsilon, &job->shape, NULL, NULL);
    inverse_roots(n, job->y.addr, bm_work(job, 0), &job->shape);
}

static void multiply(const void *param, const bm_job *job) {
    (void)param;
    okk_bdc_mul(job->y.addr, job->x[0].addr, job->x[1].addr, &job->shape, NULL, job->x[0].stride, job->x[1].stride);
}

/* out = in * (each * scale of the channel) + shift of the channel; products: room for one number per channel. */
static void scale_channels(const norm *n, system_addr_t in, system_addr_t each, system_addr_t products) {
    const int groups = n->rows / n->batch, members = n->channels / groups, plane = n->channels * n->inner;
    const bm_tiling small = {.operands = 2, .dims = 3, .extent = {n->batch, groups, members},
                             .step = {{n->channels, groups, 0}, {members, 1, members}, {1, 0, 1}},
                             .addr = {products, each, n->scale}};
    bm_run_tiles(small, multiply, NULL);
    const bm_affine_options options = {.shift = n->shift != 0};
    const bm_tiling t = {.operands = options.shift ? 3 : 2, .dims = 3, .extent = {n->batch, n->channels, n->inner},
                         .step = {{plane, plane, n->channels, 0}, {n->inner, n->inner, 1, 1}, {1, 1, 0, 0}},
                         .addr = {n->out, in, products, n->shift}};
    bm_run_tiles(t, bm_affine_job, &options);
}

/* buffer: BM_REDUCE_BYTES, a number for each row and, with groups, one for each channel of a batch. */
static void many_passes(const norm *n, system_addr_t buffer) {
    const system_addr_t each = buffer + BM_REDUCE_BYTES, source = n->rms ? n->in : n->out;
    bm_reduction r = {.in = n->in, .out = each, .outer = n->rows, .reduced = n->length, .inner = 1,
                      .after = BM_AFTER_SCALE, .factor = 1.0f / (float)n->length};
    if (!n->rms) {
        bm_reduce(&r, buffer);
        const bm_tiling t = bm_tiling_of_reduced(n->rows, n->length, 1, 2, n->out, (system_addr_t[]){n->in, each});
        bm_run_tiles(t, subtract, NULL);
    }
    r.in = source;
    r.before = BM_BEFORE_SQUARE;
    bm_reduce(&r, buffer);
    bm_tiling roots = bm_tiling_of_reduced(n->rows, 1, 1, 1, each, &each);
    roots.work_buffers = 1;
    bm_run_tiles(roots, root, n);
    if (n->per_channel && n->scale != 0) {
        scale_channels(n, source, each, each + 4ull * (unsigned long long)n->rows);
        return;
    }
    bm_run_tiles(bm_tiling_of_reduced(n->rows, n->length, 1, 2, n->out, (system_addr_t[]){source, each}), multiply,
                 NULL);
    if (n->scale != 0)
        bm_affine(n->out, n->out, n->scale, n->shift, n->rows, n->length, 1, false);
}

/* ---- the channels of each position: they lie in different lanes, and a convolution sums them up for all ---- */

#define POSITION_WORDS (CHIP_LOCAL_WORDS / 6 / CHIP_ALIGN_WORDS * CHIP_ALIGN_WORDS) /* 32-bit words of one buffer */

/* A tile [n, c, 1, w] in local memory; y may be x. work: of its layout; mean: [n, lanes, 1, w]; numbers: how many of
 * scale and shift, which lie compact, there are. */
typedef struct {
    local_addr_t y, x, work, mean, scale, shift;
    int numbers;
    dim4 shape;
} position_buffers;

/* The sum of all channels of `from`, each times `share`, in every lane. */
static void sum_of_channels(const position_buffers *f, local_addr_t from, float share) {
    const int line = local_line(f->shape.w), plane = local_slots(f->shape.c) * line;
    for (int n = 0; n < f->shape.n; n++)
        for (int first = 0; first < f->shape.w; first += BM_PICTURE_COLUMNS) {
            const dim4 picture = {1, f->shape.c, 1, smaller(BM_PICTURE_COLUMNS, f->shape.w - first)};
            const dim4 stride = {0, line, picture.w, 1};
            okk_bdc_conv2d_kernel_const(f->mean + 4u * (local_addr_t)(n * line + first),
                                        from + 4u * (local_addr_t)(n * plane + first), 0, &picture,
                                        smaller(f->shape.c, CHIP_NPU_NUM), 1, 1, &stride, false, false, NULL, NULL,
                                        share);
        }
}

static void compute_positions(const norm *n, const position_buffers *f) {
    const int line = local_line(f->shape.w);
    const dim4 *all = &f->shape, same = {line, 0, f->shape.w, 1};
    const dim4 lanes = {f->shape.n, smaller(f->shape.c, CHIP_NPU_NUM), 1, f->shape.w};
    const float share = 1.0f / (float)f->shape.c;
    local_addr_t x = f->x;
    if (!n->rms) {
        sum_of_channels(f, x, share);
        okk_bdc_sub(f->y, x, f->mean, all, NULL, NULL, &same);
        x = f->y;
    }
    okk_bdc_mul(f->work, x, x, all, NULL, NULL, NULL);
    const bool sum = n->length_one || n->epsilon < LEAST_ROOTED; /* parts of small squares would be denormal */
    sum_of_channels(f, f->work, sum ? 1.0f : share);
    if (n->length_one)
        okk_bdc_max_C(f->mean, f->mean, n->epsilon * n->epsilon, &lanes, NULL, NULL);
    else if (sum)
        okk_bdc_mul_C(f->mean, f->mean, share, &lanes, NULL, NULL);
    else
        okk_bdc_add_C(f->mean, f->mean, n->epsilon, &lanes, NULL, NULL);
    inverse_roots(n, f->mean, f->work, &lanes);
    okk_bdc_mul(f->y, x, f->mean, all, NULL, NULL, &same);
    if (f->numbers == 2)
        okk_bdc_scale_bias(f->y, f->y, f->scale, f->shift, all, NULL, NULL);
    else if (f->numbers == 1)
        okk_bdc_scale(f->y, f->y, f->scale, all, NULL, NULL);
}

/* Pixels from `first` of batch `n` between DDR and local memory. */
static void move_positions(const norm *n, int batch, int first, int width, local_addr_t local, system_addr_t base,
                           bool to_local) {
    const dim4 shape = {1, n->channels, 1, width}, far = {0, n->inner, width, 1};
    const unsigned long long at = (unsigned long long)batch * (unsigned long long)n->channels *
                                      (unsigned long long)n->inner + (unsigned long long)first;
    if (to_local)
        okk_gdma_32bit_cpy_S2L(local, base + 4 * at, &shape, NULL, &far);
    else
        okk_gdma_32bit_cpy_L2S(base + 4 * at, local, &shape, &far, NULL);
}

static void normalize_positions(const norm *n) {
    const int slots = local_slots(n->channels);
    const int most = (POSITION_WORDS - CHIP_ALIGN_WORDS) / slots / CHIP_ALIGN_WORDS * CHIP_ALIGN_WORDS;
    const int width = smaller(smaller(n->inner, most), CHIP_EXTENT_MAX), tiles = divide_up(n->inner, width);
    const local_addr_t bytes = 4u * POSITION_WORDS, numbers = 5 * bytes;
    position_buffers f = {.work = 3 * bytes, .mean = 4 * bytes, .scale = numbers,
                          .shift = numbers + (local_addr_t)local_align(4 * slots),
                          .numbers = (n->scale != 0) + (n->shift != 0)};
    const dim4 one = {1, n->channels, 1, 1};
    if (n->scale != 0) okk_gdma_compact_S2L(f.scale, n->scale, &one);
    if (n->shift != 0) okk_gdma_compact_S2L(f.shift, n->shift, &one);
    /* Of three buffers one is loaded, one computed in place, one stored. */
    const int count = n->batch * tiles;
    for (int i = 0; i < count + 2; i++) {
        okk_parallel_start();
        if (i < count) {
            const int first = i % tiles * width;
            move_positions(n, i / tiles, first, smaller(width, n->inner - first), (local_addr_t)(i % 3) * bytes, n->in,
                           true);
        }
        if (i >= 1 && i - 1 < count) {
            const int first = (i - 1) % tiles * width;
            f.x = f.y = (local_addr_t)((i - 1) % 3) * bytes;
            f.shape = (dim4){1, n->channels, 1, smaller(width, n->inner - first)};
            compute_positions(n, &f);
        }
        if (i >= 2) {
            const int first = (i - 2) % tiles * width;
            move_positions(n, (i - 2) / tiles, first, smaller(width, n->inner - first),
                           (local_addr_t)((i - 2) % 3) * bytes, n->out, false);
        }
        okk_parallel_end();
    }
}

__BM_GLOBAL__(TPU_NORM)
int norm_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                const int out_num) {
    (void)param_size, (void)buffer_size, (void)out_num;
    const tpu_tensor_t *in = &in_tensors[0];
    norm n;
    const int code = norm_of(param, in, &n);
    if (code != BM_LAYER_OK) return code;
    n.in = in->addr;
    n.out = out_tensors[0].addr;
    n.scale = in_num > 1 ? in_tensors[1].addr : 0;
    n.shift = in_num > 2 ? in_tensors[2].addr : 0;
    okk_initialize();
    if (n.positions)
        normalize_positions(&n);
    else if (n.length > WORDS || (bm_reduce_spreads(n.rows, n.length, 1) && !n.length_one))
        many_passes(&n, buffer_addr);
    else
        one_pass(&n);
    okk_poll();
    return BM_LAYER_OK;
}

/* ---- local: the last of three or four dimensions, whole in each tile, the channels of positions, or groups of whole
 * planes ---- */

static void local_positions(const norm *n, const tpu_tensor_t *in, int in_num, local_addr_t y, local_addr_t work) {
    const int *x = in[0].slice_shape;
    position_buffers f = {.y = y, .x = (local_addr_t)in[0].addr, .work = work, .shape = {x[0], x[1], 1, x[2] * x[3]},
                          .numbers = in_num - 1};
    f.mean = work + (local_addr_t)local_bytes(x[0], x[1], x[2], x[3]);
    f.scale = in_num > 1 ? (local_addr_t)in[1].addr : 0;
    f.shift = in_num > 2 ? (local_addr_t)in[2].addr : 0;
    compute_positions(n, &f);
}

/* A tile [n, c, 1, w] of whole planes, of which so many neighbouring channels are normalized together; y may be x. work:
 * of its layout; mean: [n, c, 1, 1]. */
typedef struct {
    local_addr_t y, x, work, mean;
    int together;
    dim4 shape, stride;
} plane_buffers;

/* The mean of all planes of a group of `from`, at each channel of the group; work: as f->work, which may be `from`. */
static void mean_of_planes(const norm *n, const plane_buffers *f, local_addr_t from) {
    const dim4 lines = {f->shape.n, f->shape.c, 1, 1};
    const int slot = 4 * CHIP_ALIGN_WORDS;
    bm_fold_last(BM_FOLD_SUM, f->work, from, &lines, &f->stride, f->shape.w);
    if (f->together == 1) {
        okk_bdc_mul_C(f->mean, f->work, 1.0f / (float)n->length, &lines, NULL, &f->stride);
        return;
    }
    for (int batch = 0; batch < f->shape.n; batch++)
        for (int c = 0; c < f->shape.c; c += f->together) {
            const dim4 sums = {1, f->together, 1, 1};
            const local_addr_t to = f->mean + (local_addr_t)(batch * local_slots(f->shape.c) * slot);
            okk_bdc_conv2d_kernel_const(
                local_channel(to, c, slot),
                local_channel(f->work + 4u * (local_addr_t)(batch * f->stride.n), c, 4 * f->stride.c), 0, &sums,
                f->together, 1, 1, &f->stride, false, false, NULL, NULL, 1.0f / (float)n->length);
        }
}

/* Scale and shift are of channels, compact, or of all elements, and lie as a batch of x. */
static void compute_planes(const norm *n, const plane_buffers *f, local_addr_t scale, local_addr_t shift) {
    const dim4 *all = &f->shape, *stride = &f->stride, lines = {all->n, all->c, 1, 1};
    const int slots = local_slots(all->c);
    const dim4 once = {slots * CHIP_ALIGN_WORDS, CHIP_ALIGN_WORDS, CHIP_ALIGN_WORDS, 0};
    const dim4 same = {0, stride->c, stride->h, 1}, number = {0, 1, 1, 0};
    local_addr_t x = f->x;
    if (!n->rms) {
        mean_of_planes(n, f, x);
        okk_bdc_sub(f->y, x, f->mean, all, stride, stride, &once);
        x = f->y;
    }
    okk_bdc_mul(f->work, x, x, all, stride, stride, stride);
    mean_of_planes(n, f, f->work);
    okk_bdc_add_C(f->mean, f->mean, n->epsilon, &lines, NULL, NULL);
    inverse_roots(n, f->mean, f->work, &lines);
    if (n->per_channel && scale != 0) okk_bdc_mul(f->mean, f->mean, scale, &lines, NULL, NULL, &number);
    okk_bdc_mul(f->y, x, f->mean, all, stride, stride, &once);
    if (n->per_channel) {
        if (shift != 0) okk_bdc_add(f->y, f->y, shift, all, stride, stride, &number);
        return;
    }
    if (scale != 0) okk_bdc_mul(f->y, f->y, scale, all, stride, stride, &same);
    if (shift != 0) okk_bdc_add(f->y, f->y, shift, all, stride, stride, &same);
}

static void local_planes(const norm *n, const tpu_tensor_t *in, int in_num, local_addr_t y, local_addr_t work) {
    const int *x = in[0].slice_shape, inner = in[0].dims == 4 ? x[2] * x[3] : x[2];
    plane_buffers f = {.y = y, .x = (local_addr_t)in[0].addr, .work = work, .together = n->length / inner,
                       .shape = {x[0], x[1], 1, inner}};
    f.mean = work + (local_addr_t)local_bytes(x[0], x[1], 1, inner);
    okk_128_byte_aligned_stride_for_32bit(&f.stride, 0, &f.shape);
    compute_planes(n, &f, in_num > 1 ? (local_addr_t)in[1].addr : 0, in_num > 2 ? (local_addr_t)in[2].addr : 0);
}

static void local_rows(const norm *n, const tpu_tensor_t *in, int in_num, local_addr_t y, local_addr_t work) {
    const int *x = in[0].slice_shape;
    buffers f = {.y = y, .x = (local_addr_t)in[0].addr, .work = work,
                 .shape = {x[0], x[1], in[0].dims == 4 ? x[2] : 1, n->length}};
    okk_128_byte_aligned_stride_for_32bit(&f.stride, 0, &f.shape);
    f.each = f.work + (local_addr_t)local_bytes(f.shape.n, f.shape.c, f.shape.h, f.shape.w);
    local_addr_t room = f.each + (local_addr_t)local_bytes(f.shape.n, f.shape.c, f.shape.h, 1);
    local_addr_t *copies[] = {&f.scale, &f.shift};
    for (int i = 1; i < in_num; i++) {
        bm_spread_row(room, (local_addr_t)in[i].addr, smaller(f.shape.c, CHIP_NPU_NUM), n->length);
        *copies[i - 1] = room;
        room += 4u * (local_addr_t)local_line(n->length);
    }
    compute(n, &f);
}

__BM_LOCAL__(TPU_NORM)
int norm_local(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
               u64 buffer_offset, u64 buffer_size, tpu_tensor_t *out_tensors, const int out_num) {
    (void)param_size, (void)buffer_size, (void)out_num;
    const local_addr_t y = (local_addr_t)out_tensors[0].addr, work = (local_addr_t)buffer_offset;
    norm n;
    const int code = norm_of(param, &in_tensors[0], &n);
    if (code != BM_LAYER_OK) return code;
    if (n.positions)
        local_positions(&n, in_tensors, in_num, y, work);
    else if (n.per_channel || bm_layer_axis(((const tpu_norm_param_t *)param)->axis, (int)in_tensors[0].dims) == 1)
        local_planes(&n, in_tensors, in_num, y, work);
    else
        local_rows(&n, in_tensors, in_num, y, work);
    return BM_LAYER_OK;
}
