/* TPU_CONV: two-dimensional convolution, NCHW, fp32; depthwise by an instruction of its own. */
#include "bmcompiler_tpulayer_device.h"
#include "bm_layer_conv.h"
#include "bm_layer_conv_plan.h"
#include "okk.h"

/* Inputs: x [N, IC, H, W]; weights; a bias of OC elements, if there is one. The weights are a constant in one of
 * two layouts (user_layers/onnx/layouts.py makes them from [OC, IC / groups, KH, KW]):
 * - groups == IC == OC > 1 (depthwise): [1, OC, KH, KW];
 * - otherwise [1, OC, P, KH * KW * 2] with P = (IC / groups + 1) / 2: pairs of input channels side by side, the
 *   last one filled up with zeros. */
__BM_PARAM__(TPU_CONV)
typedef struct {
    int groups;
    int kernel_h, kernel_w;
    int stride_h, stride_w;
    int dilation_h, dilation_w; /* 1: none */
    int pad_top, pad_bottom, pad_left, pad_right;
} tpu_conv_param_t;

static void axes_of(const tpu_conv_param_t *p, const int *shape, window_axis *h, window_axis *w) {
    *h = (window_axis){shape[2], 0, p->kernel_h, p->stride_h, p->dilation_h, p->pad_top, p->pad_bottom};
    *w = (window_axis){shape[3], 0, p->kernel_w, p->stride_w, p->dilation_w, p->pad_left, p->pad_right};
    h->out = axis_result(h);
    w->out = axis_result(w);
}

static bool is_depthwise(int groups, int in_c, int out_c) { return groups > 1 && groups == in_c && groups == out_c; }

/* ---- shape ---- */

__BM_SHAPE__(TPU_CONV)
int conv_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
               tpu_tensor_t *out_tensors, const int out_num) {
    if (param_size != (int)sizeof(tpu_conv_param_t) || in_num < 2 || in_num > 3 || out_num != 1)
        return BM_LAYER_PARAM_INVALID;
    const tpu_conv_param_t *p = param;
    const tpu_tensor_t *in = &in_tensors[0], *weight = &in_tensors[1];
    tpu_tensor_t *out = &out_tensors[0];
    for (int i = 0; i < in_num; i++)
        if (in_tensors[i].dtype != DTYPE_FP32) return BM_LAYER_NOT_SUPPORTED;
    if (in->dims != 4) return BM_LAYER_NOT_SUPPORTED;
    const int in_c = in->shape[1], out_c = weight->shape[1];
    if (p->groups < 1 || in_c % p->groups != 0 || out_c % p->groups != 0) return BM_LAYER_PARAM_INVALID;
    window_axis h, w;
    axes_of(p, in->shape, &h, &w);
    if (!axis_valid(&h) || !axis_valid(&w)) return BM_LAYER_PARAM_INVALID;
    if (axis_extent(&h) > AXIS_SIDE_MAX || axis_extent(&w) > AXIS_SIDE_MAX) return BM_LAYER_NOT_SUPPORTED;
    int rows = p->kernel_h, columns = p->kernel_w;
    if (!is_depthwise(p->groups, in_c, out_c)) {
        rows = divide_up(in_c / p->groups, 2);
        columns = 2 * p->kernel_h * p->kernel_w;
    } else if (!axis_in_instruction(&h) || !axis_in_instruction(&w)) {
        return BM_LAYER_NOT_SUPPORTED;
    }
    if (weight->dims != 4 || weight->shape[0] != 1 || weight->shape[2] != rows || weight->shape[3] != columns)
        return BM_LAYER_PARAM_INVALID;
    if (in_num == 3 && in_tensors[2].elem_num != out_c) return BM_LAYER_PARAM_INVALID;
    if (h.out < 1 || w.out < 1) return BM_LAYER_PARAM_INVALID;
    out->ttype = BMNET_NEURON;
    out->dtype = in->dtype;
    out->dims = 4;
    out->shape[0] = in->shape[0];
    out->shape[1] = out_c;
    out->shape[2] = h.out;
    out->shape[3] = w.out;
    return BM_LAYER_OK;
}

/* ---- global: a pipeline of steps, each with one tile, some output channels and some input channels ---- */

typedef struct {
    int group, out_c, in_c, n, h, w; /* first element of the piece */
    int in, out, weight;             /* buffers */
    bool first, last;                /* of the input channels */
} conv_step;

typedef struct {
    const conv_problem *problem;
    const conv_plan *plan;
    bm_addr_t x, y, weight, bias;
    int pairs;          /* of all input channels of a group */
    dim4 x_stride, y_stride;
    dim2 kernel;
} conv_run;

static int next_of(int *rest, int count, int size) {
    const int index = *rest % count;
    *rest /= count;
    return index * size;
}

static conv_step step_at(const conv_plan *t, int index) {
    conv_step s = {0};
    s.in_c = next_of(&index, t->in_cs, t->in_c);
    s.first = s.in_c == 0;
    s.last = s.in_c == (t->in_cs - 1) * t->in_c;
    if (t->tiles_outer) s.out_c = next_of(&index, t->out_cs, t->out_c);
    s.w = next_of(&index, t->ws, t->w);
    s.h = next_of(&index, t->hs, t->h);
    s.n = next_of(&index, t->ns, t->n);
    if (!t->tiles_outer) s.out_c = next_of(&index, t->out_cs, t->out_c);
    s.group = index * t->group;
    return s;
}

/* What a step works on. */
typedef struct {
    int n, groups, in_c, out_c, h, w;
    window_part rows, columns;
    bool filled; /* the pads are in the input buffer */
    dim4 input, output;
} conv_piece;

static conv_piece piece_of(const conv_run *r, const conv_step *s) {
    const conv_problem *p = r->problem;
    const conv_plan *t = r->plan;
    conv_piece e = {smaller(t->n, p->n - s->n),
                    smaller(t->group, p->groups - s->group),
                    smaller(t->in_c, p->in_c - s->in_c),
                    smaller(t->out_c, p->out_c - s->out_c),
                    smaller(t->h, p->h.out - s->h),
                    smaller(t->w, p->w.out - s->w),
                    {0}, {0}, p->filled, {0}, {0}};
    e.rows = axis_part(&p->h, s->h, e.h);
    e.columns = axis_part(&p->w, s->w, e.w);
    e.input = (dim4){e.n, e.groups * e.in_c, e.filled ? part_length(&e.rows) : e.rows.count,
                     e.filled ? part_length(&e.columns) : e.columns.count};
    e.output = (dim4){e.n, e.groups * e.out_c, e.h, e.w};
    return e;
}

static void load_input(const conv_run *r, const conv_step *s) {
    const conv_piece e = piece_of(r, s);
    const local_addr_t to = r->plan->input[s->in];
    dim4 stride;
    okk_128_byte_aligned_stride_for_32bit(&stride, 0, &e.input);
    if (e.filled) okk_gdma_32bit_set_C_local(to, (x32){.fp32 = 0}, &e.input, &stride);
    if (e.rows.count == 0 || e.columns.count == 0) return;
    const dim4 shape = {e.n, e.input.c, e.rows.count, e.columns.count}, *from = &r->x_stride;
    const int inside = e.filled ? e.rows.before * stride.h + e.columns.before : 0;
    const int channel = s->group * r->problem->in_c + s->in_c;
    const u64 at = (u64)s->n * (u64)from->n + (u64)channel * (u64)from->c + (u64)e.rows.first * (u64)from->h +
                   (u64)e.columns.first;
    okk_gdma_32bit_cpy_S2L(to + 4u * (local_addr_t)inside, r->x + 4 * at, &shape, &stride, from);
}

static void load_weight(const conv_run *r, const conv_step *s) {
    const conv_problem *p = r->problem;
    const conv_piece e = piece_of(r, s);
    const int channel = s->group * p->out_c + s->out_c, words = p->weight_words;
    const dim4 shape = {1, e.output.c, conv_pairs(p, e.in_c), words};
    const dim4 from = {0, r->pairs * words, words, 1};
    dim4 to;
    okk_compact_stride(&to, 0, &shape);
    okk_gdma_32bit_cpy_S2L(r->plan->weight[s->weight],
                           r->weight + 4 * ((u64)channel * (u64)from.c + (u64)(s->in_c / 2) * (u64)words), &shape,
                           &to, &from);
    if (!p->bias) return;
    const dim4 one = {1, e.output.c, 1, 1};
    okk_compact_stride(&to, 0, &one);
    okk_gdma_32bit_cpy_S2L(r->plan->bias[s->weight], r->bias + 4 * (u64)channel, &one, &to, NULL);
}

static void compute_step(const conv_run *r, const conv_step *s) {
    const conv_problem *p = r->problem;
    const conv_plan *t = r->plan;
    const conv_piece e = piece_of(r, s);
    conv_work work = {.output = t->output[s->out], .input = t->input[s->in], .weight = t->weight[s->weight],
                      .bias = t->bias[s->weight], .input_shape = e.input, .output_shape = e.output,
                      .groups = e.groups, .depthwise = p->depthwise, .kernel = r->kernel,
                      .stride = {p->h.stride, p->w.stride}, .dilation = {p->h.dilation, p->w.dilation},
                      .using_bias = p->bias && s->first, .result_add = !s->first};
    if (!e.filled) work.pad = (Padding){e.rows.before, e.rows.after, e.columns.before, e.columns.after};
    conv_compute(&work, p->taps);
}

static void store_output(const conv_run *r, const conv_step *s) {
    const conv_piece e = piece_of(r, s);
    const dim4 *to = &r->y_stride;
    const int channel = s->group * r->problem->out_c + s->out_c;
    const u64 at = (u64)s->n * (u64)to->n + (u64)channel * (u64)to->c + (u64)s->h * (u64)to->h + (u64)s->w;
    okk_gdma_32bit_cpy_L2S(r->y + 4 * at, r->plan->output[s->out], &e.output, to, NULL);
}

static bool same_input(const conv_step *a, const conv_step *b) {
    return a->group == b->group && a->in_c == b->in_c && a->n == b->n && a->h == b->h && a->w == b->w;
}

static bool same_weight(const conv_step *a, const conv_step *b) {
    return a->group == b->group && a->in_c == b->in_c && a->out_c == b->out_c;
}

/* While one step is computed, what the next one lacks is loaded and the tile before is stored. */
static void run_steps(const conv_run *r) {
    const conv_plan *t = r->plan;
    const int count = t->groups * t->out_cs * t->in_cs * t->ns * t->hs * t->ws;
    conv_step loaded = {0}, computed = {0};
    for (int i = 0; i <= count + 1; i++) {
        okk_parallel_start();
        conv_step next = {0};
        if (i < count) {
            next = step_at(t, i);
            const bool begin = i == 0;
            next.in = begin || same_input(&next, &loaded) ? loaded.in : 1 - loaded.in;
            next.weight = begin || same_weight(&next, &loaded) ? loaded.weight : 1 - loaded.weight;
            next.out = begin || !next.first ? loaded.out : 1 - loaded.out;
            if (begin || next.in != loaded.in) load_input(r, &next);
            if (begin || next.weight != loaded.weight) load_weight(r, &next);
        }
        if (i >= 1 && i <= count) compute_step(r, &loaded);
        if (i >= 2 && computed.last) store_output(r, &computed);
        okk_parallel_end();
        computed = loaded;
        loaded = next;
    }
}

__BM_GLOBAL__(TPU_CONV)
int conv_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                const int out_num) {
    (void)param_size, (void)buffer_addr, (void)buffer_size, (void)out_num;
    const tpu_conv_param_t *p = param;
    const int *x = in_tensors[0].shape, *y = out_tensors[0].shape, size = p->kernel_h * p->kernel_w;
    conv_problem problem = {.n = x[0], .groups = p->groups, .in_c = x[1] / p->groups, .out_c = y[1] / p->groups};
    axes_of(p, x, &problem.h, &problem.w);
    problem.depthwise = is_depthwise(p->groups, x[1], y[1]);
    problem.weight_words = problem.depthwise ? size : 2 * size;
    problem.bias = in_num == 3;
    problem.taps = !axis_in_instruction(&problem.h) || !axis_in_instruction(&problem.w);
    /* A tile of one element that sees only pads needs them in local memory too. */
    problem.filled = problem.taps || larger(p->pad_top, p->pad_bottom) >= smaller(16, (int)axis_extent(&problem.h)) ||
                     larger(p->pad_left, p->pad_right) >= smaller(16, (int)axis_extent(&problem.w));
    conv_plan plan;
    if (!conv_make_plan(&problem, &plan)) return BM_LAYER_NOT_SUPPORTED;
    conv_run run = {.problem = &problem, .plan = &plan, .x = in_tensors[0].addr, .y = out_tensors[0].addr,
                    .weight = in_tensors[1].addr, .bias = problem.bias ? in_tensors[2].addr : 0,
                    .pairs = conv_pairs(&problem, problem.in_c), .x_stride = {x[1] * x[2] * x[3], x[2] * x[3], x[3], 1},
                    .y_stride = {y[1] * y[2] * y[3], y[2] * y[3], y[3], 1}, .kernel = {p->kernel_h, p->kernel_w}};
    okk_initialize();
    run_steps(&run);
    okk_poll();
    return BM_LAYER_OK;
}

/* ---- local: the compiler has input and constants in local memory ---- */

__BM_LOCAL__(TPU_CONV)
int conv_local(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
               u64 buffer_offset, u64 buffer_size, tpu_tensor_t *out_tensors, const int out_num) {
    (void)param_size, (void)buffer_offset, (void)buffer_size, (void)out_num;
    const tpu_conv_param_t *p = param;
    const tpu_tensor_t *in = &in_tensors[0], *out = &out_tensors[0];
    const int *a = in->slice_shape, *b = out->slice_shape;
    window_axis h, w;
    axes_of(p, in->shape, &h, &w);
    const window_part rows = axis_part(&h, out->processed[2], b[2]), columns = axis_part(&w, out->processed[3], b[3]);
    if (rows.count != a[2] || columns.count != a[3]) return BM_LAYER_RUNTIME_ERROR;
    const conv_work work = {.output = (local_addr_t)out->addr,
                            .input = (local_addr_t)in->addr,
                            .weight = (local_addr_t)in_tensors[1].addr,
                            .bias = in_num == 3 ? (local_addr_t)in_tensors[2].addr : 0,
                            .input_shape = {a[0], a[1], a[2], a[3]},
                            .output_shape = {b[0], b[1], b[2], b[3]},
                            .groups = p->groups,
                            .depthwise = is_depthwise(p->groups, a[1], b[1]),
                            .kernel = {p->kernel_h, p->kernel_w},
                            .stride = {p->stride_h, p->stride_w},
                            .dilation = {p->dilation_h, p->dilation_w},
                            .pad = {rows.before, rows.after, columns.before, columns.after},
                            .using_bias = in_num == 3};
    conv_compute(&work, false);
    return BM_LAYER_OK;
}
