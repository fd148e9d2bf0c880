/* TPU_POOL: maxima and averages over windows, NCHW, fp32.
 *
 * Inputs: x `[N, C, H, W]` or `[N, C, H]`
 * Makes: maxima and averages over windows, whole planes, columns or rows
 */
#include "bmcompiler_tpulayer_device.h"
#include "bm_layer_pool.h"
#include "bm_layer_pool_run.h"
#include "bm_layer_reduce.h"
#include "okk.h"

/* Input: x [N, C, H, W], or [N, C, H] with one column. A maximum passes over NaN and pads and is never below -FLT_MAX. An average divides by the
 * elements that count: those in the tensor, with count_include_pad also those in the pads, never the extra ones.
 * The instruction divides by the whole kernel; rows and columns at the edges are multiplied afterwards. */
__BM_PARAM__(TPU_POOL)
typedef struct {
    int mode; /* 0: maximum, 1: average */
    int whole; /* 1: the kernel is the whole plane, 2: each whole column, 3: each whole row, whatever their sizes; the
                * other members do not count then */
    int kernel_h, kernel_w;
    int stride_h, stride_w;
    int dilation_h, dilation_w; /* 1: none */
    int pad_top, pad_bottom, pad_left, pad_right;
    int extra_bottom, extra_right; /* more pads, which make room for last windows that are not complete ("ceil") */
    int count_include_pad;
} tpu_pool_param_t;

/* ---- shape ---- */

__BM_SHAPE__(TPU_POOL)
int pool_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
               tpu_tensor_t *out_tensors, const int out_num) {
    if (param_size != (int)sizeof(tpu_pool_param_t) || in_num != 1 || out_num != 1) return BM_LAYER_PARAM_INVALID;
    const tpu_pool_param_t *p = param;
    const tpu_tensor_t *in = &in_tensors[0];
    tpu_tensor_t *out = &out_tensors[0];
    if (in->dtype != DTYPE_FP32) return BM_LAYER_NOT_SUPPORTED;
    if ((p->mode != POOL_MAX && p->mode != POOL_AVERAGE) || (p->count_include_pad & ~1) != 0)
        return BM_LAYER_PARAM_INVALID;
    const pool_window window = POOL_WINDOW_OF(p);
    const int status = bm_pool_shape(&window, out, in);
    out->dtype = in->dtype;
    return status;
}

/* The factors of an average at the edges. first: index of the tile's first output element along h and w. */
static void correct(const tpu_pool_param_t *p, const window_axis *h, const window_axis *w, local_addr_t output,
                    const dim4 *shape, dim2 first) {
    if (p->mode != POOL_AVERAGE || p->whole) return;
    const bool pads = p->count_include_pad;
    bm_pool_correct(output, shape, h, first.h, true, pads ? p->pad_top : 0, pads ? p->pad_bottom : 0);
    bm_pool_correct(output, shape, w, first.w, false, pads ? p->pad_left : 0, pads ? p->pad_right : 0);
}

/* ---- global ---- */

static void compute_step(const pool_run *r, const pool_step *s) {
    const tpu_pool_param_t *p = r->param;
    const pool_plan *t = &r->plan;
    const window_axis *h = &r->problem.h, *w = &r->problem.w;
    const local_addr_t output = t->output[s->out];
    pool_work work = bm_pool_step_work(r, s);
    work.mode = p->mode;
    work.factor = 1.0f / ((float)h->kernel * (float)w->kernel);
    bm_pool_compute(&work, r->taps);
    if (!s->first && work.mode == POOL_MAX) okk_bdc_max(output, output, t->part, &s->output, NULL, NULL, NULL);
    if (!s->first && work.mode == POOL_AVERAGE) okk_bdc_add(output, output, t->part, &s->output, NULL, NULL, NULL);
    for (int band = 0; s->last && band < s->bands; band++) {
        const dim4 shape = {1, s->planes, s->output.h, s->output.w};
        correct(p, h, w, output + (local_addr_t)(band * s->planes) * CHIP_LOCAL_BYTES, &shape,
                (dim2){bm_pool_band_row(s, band), s->w});
    }
}

/* Whether a kernel is all of the tensor in this direction. */
static bool all_of(const window_axis *a) { return a->kernel == a->size && a->out == 1 && a->before == 0; }

/* Whether it is each single element. */
static bool each_of(const window_axis *a) { return a->kernel == 1 && a->out == a->size && a->before == 0; }

/* Averages of whole planes, columns or rows: a reduction, for which several lie in a lane. */
static bool average_whole(const tpu_pool_param_t *p, const pool_run *r) {
    const window_axis *h = &r->problem.h, *w = &r->problem.w;
    if (p->mode != POOL_AVERAGE) return false;
    bm_reduction sum = {.in = r->x, .out = r->y, .outer = r->problem.planes, .reduced = h->kernel * w->kernel, .inner = 1,
                        .after = BM_AFTER_SCALE};
    if (all_of(h) && each_of(w)) sum.inner = w->size;
    else if (each_of(h) && all_of(w)) sum.outer *= h->size;
    else if (!all_of(h) || !all_of(w)) return false;
    if (bm_reduce_spreads(sum.outer, sum.reduced, sum.inner)) return false;
    sum.factor = 1.0f / (float)sum.reduced;
    bm_reduce(&sum, 0);
    return true;
}

__BM_GLOBAL__(TPU_POOL)
int pool_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_addr, (void)buffer_size, (void)out_num;
    const tpu_pool_param_t *p = param;
    const pool_window window = POOL_WINDOW_OF(p);
    pool_run r = {.param = p, .compute = compute_step,
                  .fill = {.fp32 = p->mode == POOL_MAX ? POOL_LOWEST : 0.0f}};
    okk_initialize();
    bm_pool_prepare(&r, &window, &out_tensors[0], &in_tensors[0]);
    if (!average_whole(p, &r)) bm_pool_run(&r);
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
    const pool_window window = POOL_WINDOW_OF(p);
    bm_pool_axes(&window, in->shape, &h, &w);
    const window_part rows = bm_axis_part(&h, first.h, b[2]), columns = bm_axis_part(&w, first.w, b[3]);
    const int *at = in->processed;
    if (!bm_axis_takes(&h, &rows, at[2], a[2]) || !bm_axis_takes(&w, &columns, at[3], a[3])) return BM_LAYER_RUNTIME_ERROR;
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
