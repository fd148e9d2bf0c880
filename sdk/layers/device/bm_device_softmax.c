/* TPU_SOFTMAX: e^x / sum of e^x over dimensions that lie together, or the logarithm of it, for any shape. The
 * largest x is subtracted first. Errors are below 1e-5 of each value; e^x below 1.2e-38 is 0. A NaN makes
 * all results of its sum NaN.
 *
 * Inputs: x
 * Makes: softmax or its logarithm
 */
#include "bm_atomic.h"
#include "bm_layer_clock.h"
#include "bm_layer_log.h"
#include "bm_layer_reduce.h"
#include "bm_layer_reduce_power.h"
#include "bm_layer_rows.h"
#include "bm_layer_shape.h"
#include "bmcompiler_tpulayer_device.h"
#include "okk.h"

/* A lane has two inputs and two results (loaded or stored while others are computed) and three buffers for work. */
#define WORDS (CHIP_LOCAL_WORDS / 7 / CHIP_ALIGN_WORDS * CHIP_ALIGN_WORDS) /* 32-bit words of one buffer */
#define BYTES (4 * WORDS)
#define ACROSS 8         /* commands that it takes beside those within lanes */
#define MOST_ACROSS 4000 /* inner elements where the lanes have reduced ones: channels of an instruction, whole lines */

__BM_PARAM__(TPU_SOFTMAX)
typedef struct {
    int axis;    /* negative counts from the end */
    int flatten; /* 1: over all dimensions from `axis` on, as ONNX before version 13 */
    int log;     /* 1: the logarithm, LogSoftmax */
} tpu_softmax_param_t;

__BM_SHAPE__(TPU_SOFTMAX)
int softmax_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                  tpu_tensor_t *out_tensors, const int out_num) {
    if (param_size != (int)sizeof(tpu_softmax_param_t) || in_num != 1 || out_num != 1) return BM_LAYER_PARAM_INVALID;
    const tpu_softmax_param_t *p = param;
    if (((p->flatten | p->log) & ~1) || bm_layer_axis(p->axis, (int)in_tensors[0].dims) < 0)
        return BM_LAYER_PARAM_INVALID;
    if (!bm_layer_all_fp32(in_tensors, 1)) return BM_LAYER_NOT_SUPPORTED;
    bm_layer_same_shape(&out_tensors[0], &in_tensors[0]);
    return BM_LAYER_OK;
}

typedef struct {
    system_addr_t in, out;
    int outer, reduced, inner;
    bool log;
} softmax;

/* ---- where the reduced dimension fits into a lane, or into all of them: one pass ---- */

/* y = x op b for each row of a block: b is one row of each. */
typedef void (*row_op)(local_addr_t, local_addr_t, local_addr_t, const dim4 *, const dim4 *, const dim4 *,
                       const dim4 *);
static void with_row(row_op op, local_addr_t y, local_addr_t x, local_addr_t b, const bm_fold_shape *s) {
    const dim4 flat = {1, s->lanes, 1, s->each * s->reduced * s->width}, row = {1, s->lanes, 1, s->each * s->width};
    dim4 stride, once, shape = {s->each, s->lanes, s->reduced, s->width};
    okk_128_byte_aligned_stride_for_32bit(&stride, 0, &flat);
    okk_128_byte_aligned_stride_for_32bit(&once, 0, &row);
    stride.n = s->reduced * s->width;
    stride.h = s->width;
    once.n = s->width;
    once.h = 0;
    if (s->width == 1) { /* rows of single words: columns */
        shape = (dim4){1, s->lanes, s->each, s->reduced};
        stride.h = s->reduced;
        once.h = 1;
        once.w = 0;
    }
    op(y, x, b, &shape, &stride, &stride, &once);
}

/* A row in each of some lanes: the largest of all lanes, in every lane. */
static void largest_of_lanes(local_addr_t row, local_addr_t work, int lanes, int width) {
    const dim4 turned = {1, width, 1, lanes};
    const local_addr_t folded = work + 4u * (local_addr_t)(local_slots(width) * local_line(lanes));
    const CWTransParam there = {.src_addr = row, .dst_addr = work, .src_c = (unsigned)lanes, .src_w = (unsigned)width,
                                .format = BM_GDMA_FORMAT_FLOAT32, .src_c_stride = (unsigned)local_line(width),
                                .dst_c_stride = (unsigned)local_line(lanes)};
    const CWTransParam back = {.src_addr = folded, .dst_addr = work, .src_c = (unsigned)width, .src_w = 1,
                               .format = BM_GDMA_FORMAT_FLOAT32, .src_c_stride = CHIP_ALIGN_WORDS,
                               .dst_c_stride = (unsigned)local_line(width)};
    bm_atomic_cwtrans(&there);
    okk_bdc_max_pool2d(folded, work, &turned, 1, lanes, NULL, NULL);
    bm_atomic_cwtrans(&back);
    bm_spread_row(row, work, lanes, width);
}

/* The same of the sum, at y. */
static void sum_of_lanes(local_addr_t y, local_addr_t x, int lanes, int width) {
    const int line = local_line(width);
    for (int first = 0; first < width; first += BM_PICTURE_COLUMNS) {
        const dim4 picture = {1, lanes, 1, smaller(BM_PICTURE_COLUMNS, width - first)}, stride = {0, line, picture.w, 1};
        okk_bdc_conv2d_kernel_const(y + 4u * (local_addr_t)first, x + 4u * (local_addr_t)first, 0, &picture, lanes, 1, 1,
                                    &stride, false, false, NULL, NULL, 1.0f);
    }
}

/* y and x have BYTES each, so have the three work buffers from `work` on. x is overwritten. across: the reduced rows
 * lie in several lanes. */
static void compute(const softmax *j, const bm_fold_shape *s, local_addr_t y, local_addr_t x, local_addr_t work,
                    bool across) {
    const dim4 flat = {1, s->lanes, 1, s->each * s->reduced * s->width}, row = {1, s->lanes, 1, s->each * s->width};
    const local_addr_t power = j->log ? work + BYTES : y, each = work + 2 * BYTES;
    local_addr_t sum = each;
    bm_fold_rows(BM_FOLD_LARGEST, each, x, work, s);
    if (across) largest_of_lanes(each, work, s->lanes, s->width);
    with_row(okk_bdc_sub, x, x, each, s);
    if (j->log) okk_bdc_32bit_cpy(y, x, &flat, NULL, NULL); /* the differences are needed again */
    bm_exp_below(power, x, work, &flat);
    bm_fold_rows(BM_FOLD_SUM, each, power, work, s);
    if (across) {
        sum = each + 4 * MOST_ACROSS;
        sum_of_lanes(sum, each, s->lanes, s->width);
    }
    if (j->log) {
        bm_log(x, sum, work, power, &row);
        with_row(okk_bdc_sub, y, y, x, s);
        return;
    }
    bm_row_reciprocals(work, sum, &row, NULL);
    with_row(okk_bdc_mul, y, y, work, s);
}

/* Lanes with reduced rows that lie together, and how many rows each has. */
static int rows_across(const softmax *j, int *lanes) {
    const int rows = divide_up(j->reduced, CHIP_NPU_NUM);
    *lanes = divide_up(j->reduced, rows);
    return rows;
}

static bool fits_across(const softmax *j) {
    int lanes;
    const long long words = (long long)rows_across(j, &lanes) * j->inner;
    return lanes > 1 && j->inner <= MOST_ACROSS && words <= WORDS;
}

/* Whether that takes less time than lanes with all that is reduced. */
static bool goes_across(const softmax *j, const bm_reduce_use *use, const bm_reduce_cut *cut) {
    int lanes;
    const long long words = (long long)rows_across(j, &lanes) * j->inner, all = (long long)j->reduced * j->inner;
    const long long moves = 2 * (BM_COST_LOADED + BM_COST_STORED) + all / 16 * (BM_COST_READ + BM_COST_WRITTEN);
    const long long compute = 10 * (use->cycles * (words / 16 + 1) + j->inner / 2) + ACROSS * BM_COST_ISSUED / 2;
    return fits_across(j) && bm_parts_cost(j->outer, moves, compute, use->commands + ACROSS) < bm_reduce_cost(cut, use);
}

static void move_across(const softmax *j, int o, local_addr_t local, bool load) {
    int lanes;
    const int rows = rows_across(j, &lanes), last = j->reduced - (lanes - 1) * rows, words = rows * j->inner;
    const dim4 stride = {0, words, words, 1}, near = {0, local_line(words), words, 1};
    for (int part = 0; part < 2; part++) { /* whole lanes, then the last one */
        const dim4 shape = {1, part ? 1 : lanes - 1, 1, part ? last * j->inner : words};
        const local_addr_t at = local + (part ? (local_addr_t)(lanes - 1) * CHIP_LOCAL_BYTES : 0);
        const u64 far = 4 * ((u64)o * (u64)j->reduced * (u64)j->inner + (part ? (u64)(lanes - 1) * (u64)words : 0));
        if (load)
            okk_gdma_32bit_cpy_S2L(at, j->in + far, &shape, &near, &stride);
        else
            okk_gdma_32bit_cpy_L2S(j->out + far, at, &shape, &stride, &near);
    }
}

/* One outer element after the other, its reduced rows over the lanes. */
static void across_lanes(const softmax *j) {
    int lanes;
    const int rows = rows_across(j, &lanes), last = j->reduced - (lanes - 1) * rows;
    const bm_fold_shape shape = {lanes, 1, rows, j->inner};
    const dim4 missing = {1, 1, 1, (rows - last) * j->inner};
    for (int o = 0; o < j->outer; o++) {
        move_across(j, o, 0, true);
        if (rows > last)
            okk_bdc_32bit_set_C((local_addr_t)(lanes - 1) * CHIP_LOCAL_BYTES + 4u * (local_addr_t)(last * j->inner),
                                (x32){.fp32 = -BM_INFINITY}, &missing, NULL);
        compute(j, &shape, 2 * BYTES, 0, 4 * BYTES, true);
        move_across(j, o, 2 * BYTES, false);
    }
}

static void one_pass(const softmax *j) {
    const bm_reduce_use use = {j->outer, j->reduced, j->inner, .words = WORDS, .most_each = WORDS, .cycles = 30,
                               .commands = 25, .whole = true, .maps = true};
    const bm_reduce_cut cut = bm_reduce_cut_of(&use);
    if (goes_across(j, &use, &cut)) {
        across_lanes(j);
        return;
    }
    const local_addr_t work = 4 * BYTES;
    bm_reduce_block now = {0}, next, stored = {0};
    bm_reduce_measure(&cut, &use, &now);
    bm_reduce_load(&cut, &use, &now, j->in, 0);
    local_addr_t at = 0, stored_at = 0;
    for (bool more = true, storing = false; more || storing;) {
        const bool computing = more;
        okk_parallel_start();
        if (computing) {
            const bm_fold_shape shape = {bm_reduce_lanes(&now), now.each, now.rows, now.width};
            next = now;
            more = bm_reduce_next(&cut, &use, &next);
            if (more) bm_reduce_load(&cut, &use, &next, j->in, BYTES - at);
            compute(j, &shape, 2 * BYTES + at, at, work, false);
        }
        if (storing) bm_reduce_store(&cut, &use, &stored, j->out, 2 * BYTES + stored_at, false);
        okk_parallel_end();
        storing = computing;
        stored = now;
        stored_at = at;
        at = BYTES - at;
        now = next;
    }
}

/* ---- any size: reductions and element-wise passes through DDR ---- */

/* y = 1 / x0, or its logarithm */
static void finish_sum(const void *param, const bm_job *job) {
    const softmax *j = param;
    const local_addr_t x = job->x[0].addr, y = job->y.addr;
    if (j->log) {
        bm_log(y, x, bm_work(job, 0), bm_work(job, 1), &job->shape);
        return;
    }
    okk_bdc_reciprocal(y, x, &job->shape, NULL, NULL);
    okk_bdc_mul(x, x, y, &job->shape, NULL, NULL, NULL);
    okk_bdc_C_sub(x, x, 2.0f, &job->shape, NULL, NULL);
    okk_bdc_mul(y, y, x, &job->shape, NULL, NULL, NULL);
}

static void multiply(const void *param, const bm_job *job) {
    (void)param;
    okk_bdc_mul(job->y.addr, job->x[0].addr, job->x[1].addr, &job->shape, NULL, NULL, job->x[1].stride);
}

/* y = x0 - x1 - x2 */
static void subtract(const void *param, const bm_job *job) {
    (void)param;
    const local_addr_t y = job->y.addr;
    okk_bdc_sub(y, job->x[0].addr, job->x[1].addr, &job->shape, NULL, NULL, job->x[1].stride);
    okk_bdc_sub(y, y, job->x[2].addr, &job->shape, NULL, NULL, job->x[2].stride);
}

/* buffer: BM_REDUCE_BYTES, two results of a reduction, and for logarithms a whole tensor. */
static void many_passes(const softmax *j, system_addr_t buffer) {
    const unsigned long long bytes = 4ull * (unsigned long long)j->outer * (unsigned long long)j->inner;
    const system_addr_t largest = buffer + BM_REDUCE_BYTES, sum = largest + bytes;
    const system_addr_t powers = j->log ? sum + bytes : j->out;
    bm_reduction r = {.in = j->in, .out = largest, .outer = j->outer, .reduced = j->reduced, .inner = j->inner,
                      .fold = BM_FOLD_MAX};
    bm_reduce(&r, buffer);
    bm_tiling t = bm_tiling_of_reduced(j->outer, j->reduced, j->inner, 2, powers, (system_addr_t[]){j->in, largest});
    t.work_buffers = 1;
    bm_run_tiles(t, bm_power_of_difference, NULL);
    r.in = powers;
    r.out = sum;
    r.fold = BM_FOLD_SUM;
    bm_reduce(&r, buffer);
    t = bm_tiling_of_reduced(j->outer, 1, j->inner, 1, sum, &sum);
    t.work_buffers = 2;
    bm_run_tiles(t, finish_sum, j);
    t = bm_tiling_of_reduced(j->outer, j->reduced, j->inner, j->log ? 3 : 2, j->out,
                             (system_addr_t[]){j->log ? j->in : j->out, j->log ? largest : sum, sum});
    bm_run_tiles(t, j->log ? subtract : multiply, NULL);
}

__BM_GLOBAL__(TPU_SOFTMAX)
int softmax_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                   const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                   const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_size, (void)out_num;
    const tpu_softmax_param_t *p = param;
    const tpu_tensor_t *in = &in_tensors[0];
    const int dims = (int)in->dims, axis = bm_layer_axis(p->axis, dims), end = p->flatten ? dims : axis + 1;
    softmax j = {.in = in->addr, .out = out_tensors[0].addr, .log = p->log};
    j.outer = (int)bm_layer_elements(in->shape, 0, axis);
    j.reduced = (int)bm_layer_elements(in->shape, axis, end);
    j.inner = (int)bm_layer_elements(in->shape, end, dims);
    okk_initialize();
    if (j.reduced <= WORDS)
        one_pass(&j);
    else if (fits_across(&j))
        across_lanes(&j);
    else
        many_passes(&j, buffer_addr);
    okk_poll();
    return BM_LAYER_OK;
}

/* ---- local: the last of three or four dimensions, whole in each tile ---- */

__BM_LOCAL__(TPU_SOFTMAX)
int softmax_local(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                  u64 buffer_offset, u64 buffer_size, tpu_tensor_t *out_tensors, const int out_num) {
    (void)param, (void)param_size, (void)in_num, (void)buffer_size, (void)out_num;
    const int *x = in_tensors[0].slice_shape;
    const bool planes = in_tensors[0].dims == 4;
    const dim4 shape = {x[0], x[1], planes ? x[2] : 1, planes ? x[3] : x[2]};
    const local_addr_t y = (local_addr_t)out_tensors[0].addr, work = (local_addr_t)buffer_offset;
    const local_addr_t other = work + (local_addr_t)local_bytes(shape.n, shape.c, shape.h, shape.w);
    const dim4 one = {shape.n, shape.c, shape.h, 1};
    dim4 stride, once;
    okk_128_byte_aligned_stride_for_32bit(&stride, 0, &shape);
    once = stride;
    once.w = 0;
    bm_row_powers(y, (local_addr_t)in_tensors[0].addr, other, work, &shape);
    bm_row_reciprocals(other, work, &one, &stride);
    okk_bdc_mul(y, y, other, &shape, &stride, &stride, &once);
    return BM_LAYER_OK;
}
