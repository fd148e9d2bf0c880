/* TPU_POOL: maxima and averages over windows, NCHW, fp32.
 *
 * Inputs: x `[N, C, H, W]` or `[N, C, H]`
 * Makes: maxima and averages over windows or whole planes
 */
#include "bmcompiler_tpulayer_device.h"
#include "bm_layer_pipeline.h"
#include "bm_layer_pool.h"
#include "bm_layer_pool_plan.h"
#include "okk.h"

/* Input: x [N, C, H, W], or [N, C, H] with one column. A maximum passes over NaN and pads and is never below -FLT_MAX. An average divides by the
 * elements that count: those in the tensor, with count_include_pad also those in the pads, never the extra ones.
 * The instruction divides by the whole kernel; rows and columns at the edges are multiplied afterwards. */
__BM_PARAM__(TPU_POOL)
typedef struct {
    int mode; /* 0: maximum, 1: average */
    int whole; /* 1: the kernel is the whole plane, whatever its size; the other members do not count */
    int kernel_h, kernel_w;
    int stride_h, stride_w;
    int dilation_h, dilation_w; /* 1: none */
    int pad_top, pad_bottom, pad_left, pad_right;
    int extra_bottom, extra_right; /* more pads, which make room for last windows that are not complete ("ceil") */
    int count_include_pad;
} tpu_pool_param_t;

static void axes_of(const tpu_pool_param_t *p, const int *shape, window_axis *h, window_axis *w) {
    const int bottom = p->pad_bottom + p->extra_bottom, right = p->pad_right + p->extra_right;
    *h = (window_axis){shape[2], 0, p->kernel_h, p->stride_h, p->dilation_h, p->pad_top, bottom, 0};
    *w = (window_axis){shape[3], 0, p->kernel_w, p->stride_w, p->dilation_w, p->pad_left, right, 0};
    if (p->whole) {
        *h = (window_axis){shape[2], 0, shape[2], 1, 1, 0, 0, 0};
        *w = (window_axis){shape[3], 0, shape[3], 1, 1, 0, 0, 0};
    }
    h->out = bm_axis_result(h);
    w->out = bm_axis_result(w);
}

/* ---- shape ---- */

static bool valid_pads(int before, int after, int extra) {
    return before >= 0 && before <= AXIS_PARAM_MAX && after >= 0 && after <= AXIS_PARAM_MAX && extra >= 0 &&
           extra <= AXIS_PARAM_MAX; /* the sum's limit is bm_axis_result's */
}

__BM_SHAPE__(TPU_POOL)
int pool_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
               tpu_tensor_t *out_tensors, const int out_num) {
    if (param_size != (int)sizeof(tpu_pool_param_t) || in_num != 1 || out_num != 1) return BM_LAYER_PARAM_INVALID;
    const tpu_pool_param_t *p = param;
    const tpu_tensor_t *in = &in_tensors[0];
    tpu_tensor_t *out = &out_tensors[0];
    if (in->dtype != DTYPE_FP32 || (in->dims != 3 && in->dims != 4)) return BM_LAYER_NOT_SUPPORTED;
    if ((p->mode != POOL_MAX && p->mode != POOL_AVERAGE) || (p->whole & ~1) != 0 || (p->count_include_pad & ~1) != 0 ||
        !valid_pads(p->pad_top, p->pad_bottom, p->extra_bottom) ||
        !valid_pads(p->pad_left, p->pad_right, p->extra_right))
        return BM_LAYER_PARAM_INVALID;
    if (p->whole && (in->shape[2] > AXIS_PARAM_MAX || in->shape[3] > AXIS_PARAM_MAX)) return BM_LAYER_NOT_SUPPORTED;
    window_axis h, w;
    axes_of(p, in->shape, &h, &w);
    if (h.out < 1 || w.out < 1 || (in->dims == 3 && w.out != 1)) return BM_LAYER_PARAM_INVALID;
    out->ttype = BMNET_NEURON;
    out->dtype = in->dtype;
    out->dims = in->dims;
    out->shape[0] = in->shape[0];
    out->shape[1] = in->shape[1];
    out->shape[2] = h.out;
    if (in->dims == 4) out->shape[3] = w.out;
    return BM_LAYER_OK;
}

/* The factors of an average at the edges. first: index of the tile's first output element along h and w. */
static void correct(const tpu_pool_param_t *p, const window_axis *h, const window_axis *w, local_addr_t output,
                    const dim4 *shape, dim2 first) {
    if (p->mode != POOL_AVERAGE || p->whole) return;
    const bool pads = p->count_include_pad;
    bm_pool_correct(output, shape, h, first.h, true, pads ? p->pad_top : 0, pads ? p->pad_bottom : 0);
    bm_pool_correct(output, shape, w, first.w, false, pads ? p->pad_left : 0, pads ? p->pad_right : 0);
}

/* ---- global: planes of all batches and channels side by side, a pipeline of tiles and parts of the kernel ---- */

typedef struct {
    const tpu_pool_param_t *param;
    pool_problem problem;
    pool_plan plan;
    bool taps, filled;
    bm_addr_t x, y;
} pool_run;

typedef struct {
    int c, h, w;        /* first plane, output row and column */
    window_axis rows, columns; /* windows with the step's taps */
    int in, out;        /* buffers */
    bool first, last;   /* parts of the kernel */
    dim4 output, input;
    window_part from_h, from_w;
} pool_step;

static pool_step step_at(const pool_run *r, int index) {
    const pool_problem *p = &r->problem;
    const pool_plan *t = &r->plan;
    pool_step s = {.in = index % 2};
    const int kw = bm_next_of(&index, t->kernel_ws), kh = bm_next_of(&index, t->kernel_hs);
    s.out = index % 2;
    s.w = bm_next_of(&index, t->ws) * t->w;
    s.h = bm_next_of(&index, t->hs) * t->h;
    s.c = index * t->c;
    s.first = kh + kw == 0;
    s.last = kh == t->kernel_hs - 1 && kw == t->kernel_ws - 1;
    s.rows = bm_pool_taps_of(&p->h, kh * t->kernel_h, t->kernel_h);
    s.columns = bm_pool_taps_of(&p->w, kw * t->kernel_w, t->kernel_w);
    s.output = (dim4){1, smaller(t->c, p->planes - s.c), smaller(t->h, p->h.out - s.h), smaller(t->w, p->w.out - s.w)};
    s.from_h = bm_axis_part(&s.rows, s.h, s.output.h);
    s.from_w = bm_axis_part(&s.columns, s.w, s.output.w);
    s.input = (dim4){1, s.output.c, r->filled ? bm_part_length(&s.from_h) : s.from_h.count,
                     r->filled ? bm_part_length(&s.from_w) : s.from_w.count};
    return s;
}

static void load_step(const void *run, int step) {
    const pool_run *r = run;
    const pool_step one = step_at(r, step), *s = &one;
    const window_axis *h = &r->problem.h, *w = &r->problem.w;
    const local_addr_t to = r->plan.input[s->in];
    dim4 stride;
    okk_128_byte_aligned_stride_for_32bit(&stride, 0, &s->input);
    if (r->filled) {
        const x32 fill = {.fp32 = r->param->mode == POOL_MAX ? POOL_LOWEST : 0.0f};
        okk_gdma_32bit_set_C_local(to, fill, &s->input, &stride);
    }
    if (s->from_h.count == 0 || s->from_w.count == 0) return;
    const dim4 shape = {1, s->input.c, s->from_h.count, s->from_w.count};
    const dim4 from = {0, h->size * w->size, w->size, 1};
    const int inside = r->filled ? s->from_h.zeros_before * stride.h + s->from_w.zeros_before : 0;
    const u64 at = (u64)s->c * (u64)from.c + (u64)s->from_h.first * (u64)from.h + (u64)s->from_w.first;
    okk_gdma_32bit_cpy_S2L(to + 4u * (local_addr_t)inside, r->x + 4 * at, &shape, &stride, &from);
}

static void compute_step(const void *run, int step) {
    const pool_run *r = run;
    const pool_step one = step_at(r, step), *s = &one;
    const pool_plan *t = &r->plan;
    const window_axis *h = &r->problem.h, *w = &r->problem.w;
    const local_addr_t output = t->output[s->out];
    pool_work work = {.output = s->first ? output : t->part, .input = t->input[s->in], .temporary = t->temporary,
                      .input_shape = s->input, .output_shape = s->output, .mode = r->param->mode,
                      .kernel = {s->rows.kernel, s->columns.kernel}, .stride = {h->stride, w->stride},
                      .dilation = {h->dilation, w->dilation},
                      .factor = 1.0f / ((float)h->kernel * (float)w->kernel)};
    if (!r->filled) work.pad = (Padding){s->from_h.before, s->from_h.after, s->from_w.before, s->from_w.after};
    bm_pool_compute(&work, r->taps);
    if (!s->first && work.mode == POOL_MAX) okk_bdc_max(output, output, t->part, &s->output, NULL, NULL, NULL);
    if (!s->first && work.mode == POOL_AVERAGE) okk_bdc_add(output, output, t->part, &s->output, NULL, NULL, NULL);
    if (s->last) correct(r->param, h, w, output, &s->output, (dim2){s->h, s->w});
}

static void store_step(const void *run, int step) {
    const pool_run *r = run;
    const pool_step one = step_at(r, step), *s = &one;
    if (!s->last) return;
    const int out_h = r->problem.h.out, out_w = r->problem.w.out;
    const dim4 to = {0, out_h * out_w, out_w, 1};
    const u64 at = (u64)s->c * (u64)to.c + (u64)s->h * (u64)to.h + (u64)s->w;
    okk_gdma_32bit_cpy_L2S(r->y + 4 * at, r->plan.output[s->out], &s->output, &to, NULL);
}

__BM_GLOBAL__(TPU_POOL)
int pool_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_addr, (void)buffer_size, (void)out_num;
    const int *x = in_tensors[0].shape;
    pool_run r = {.param = param, .x = in_tensors[0].addr, .y = out_tensors[0].addr};
    r.problem.planes = x[0] * x[1];
    window_axis *h = &r.problem.h, *w = &r.problem.w;
    axes_of(param, x, h, w);
    r.taps = h->dilation > 1 || w->dilation > 1 || larger(h->stride, w->stride) > CHIP_WINDOW_STEP_MAX;
    r.problem.filled = r.taps || bm_axis_needs_zeros(h) || bm_axis_needs_zeros(w);
    bm_pool_make_plan(&r.problem, &r.plan);
    r.filled = r.problem.filled || bm_pool_cut_kernel(&r.problem, &r.plan);
    const pool_plan *t = &r.plan;
    const int count = t->cs * t->hs * t->ws * t->kernel_hs * t->kernel_ws;
    okk_initialize();
    bm_run_pipeline(count, &r, load_step, compute_step, store_step);
    okk_poll();
    return BM_LAYER_OK;
}

/* ---- local: the compiler has the data in local memory already ---- */

__BM_LOCAL__(TPU_POOL)
int pool_local(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
               u64 buffer_offset, u64 buffer_size, tpu_tensor_t *out_tensors, const int out_num) {
    (void)param_size, (void)in_num, (void)out_num;
    const tpu_pool_param_t *p = param;
    const tpu_tensor_t *in = &in_tensors[0], *out = &out_tensors[0];
    const int *a = in->slice_shape, *b = out->slice_shape;
    const dim2 first = {out->processed[2], out->processed[3]};
    window_axis h, w;
    axes_of(p, in->shape, &h, &w);
    const window_part rows = bm_axis_part(&h, first.h, b[2]), columns = bm_axis_part(&w, first.w, b[3]);
    if (rows.count != a[2] || columns.count != a[3]) return BM_LAYER_RUNTIME_ERROR;
    const bool room = buffer_size >= (u64)bm_pool_temporary_bytes(a[0], a[1], a[2], b[3]);
    const pool_work work = {.output = (local_addr_t)out->addr,
                            .input = (local_addr_t)in->addr,
                            .temporary = room ? (local_addr_t)buffer_offset : CHIP_LOCAL_BYTES,
                            .input_shape = {a[0], a[1], a[2], a[3]},
                            .output_shape = {b[0], b[1], b[2], b[3]},
                            .mode = p->mode,
                            .kernel = {h.kernel, w.kernel},
                            .stride = {h.stride, w.stride},
                            .pad = {rows.before, rows.after, columns.before, columns.after},
                            .factor = 1.0f / ((float)h.kernel * (float)w.kernel)};
    bm_pool_compute(&work, false);
    correct(p, &h, &w, work.output, &work.output_shape, first);
    return BM_LAYER_OK;
}
