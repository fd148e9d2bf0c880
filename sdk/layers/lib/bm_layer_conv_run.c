#include "bm_layer_conv_run.h"

#include "bm_layer_depthwise.h"
#include "bm_layer_pipeline.h"

/* ---- shapes: inputs x [N, IC, H, W], weights, perhaps a bias ---- */

int bm_conv_check_inputs(int groups, const tpu_tensor_t *in, int in_num) {
    if (in_num < 2 || in_num > 3) return BM_LAYER_PARAM_INVALID;
    if (in[0].dims != 3 && in[0].dims != 4) return BM_LAYER_NOT_SUPPORTED;
    if (in[1].dims != 4 || groups < 1 || in[0].shape[1] % groups != 0 || in[1].shape[1] % groups != 0)
        return BM_LAYER_PARAM_INVALID;
    if (in_num == 3 && in[2].elem_num != in[1].shape[1]) return BM_LAYER_PARAM_INVALID;
    return BM_LAYER_OK;
}

/* Whether the weights hold the bias: [1, OC, 1, words of the weights + CONV_JOINED] instead of what has two dimensions
 * or as many words less. */
static bool conv_is_joined(bool depthwise, int groups, int in_c, int kernel, const tpu_tensor_t *weight) {
    const int words = depthwise ? kernel : bm_conv_weight_sets(groups, in_c / groups, false) * 2 * kernel;
    return weight->shape[2] == 1 && weight->shape[3] == words + CONV_JOINED;
}

int bm_conv_shape_result(int groups, bool depthwise, const window_axis *h, const window_axis *w, const tpu_tensor_t *in,
                         tpu_tensor_t *out) {
    const int rows = depthwise ? h->kernel : bm_conv_weight_sets(groups, in[0].shape[1] / groups, false);
    const int columns = depthwise ? w->kernel : 2 * h->kernel * w->kernel;
    const bool apart = in[1].shape[2] == rows && in[1].shape[3] == columns;
    if (in[1].shape[0] != 1 ||
        (!apart && !conv_is_joined(depthwise, groups, in[0].shape[1], h->kernel * w->kernel, &in[1])))
        return BM_LAYER_PARAM_INVALID;
    out->dtype = DTYPE_FP32;
    return bm_conv_result_of(h, w, in, out);
}

int bm_conv_result_of(const window_axis *h, const window_axis *w, const tpu_tensor_t *in, tpu_tensor_t *out) {
    if (h->out < 1 || w->out < 1 || (in[0].dims == 3 && w->out != 1)) return BM_LAYER_PARAM_INVALID;
    out->ttype = BMNET_NEURON;
    out->dims = in[0].dims;
    out->shape[0] = in[0].shape[0];
    out->shape[1] = in[1].shape[1];
    out->shape[2] = h->out;
    if (in[0].dims == 4) out->shape[3] = w->out;
    return BM_LAYER_OK;
}

/* ---- data in DDR ---- */

typedef struct {
    int group, out_c, in_c, n, h, w; /* first element of the tile */
    int in, out, weight;             /* buffers */
    bool first, last;                /* of the input channels */
} conv_step;

typedef struct {
    const conv_problem *problem;
    const conv_plan *plan;
    bm_addr_t x, y, weight, bias;
    dim4 x_stride, y_stride;
} conv_run;

static conv_step conv_step_at(const conv_plan *t, int index) {
    conv_step s = {0};
    s.in_c = bm_next_of(&index, t->in_cs) * t->in_c;
    s.first = s.in_c == 0;
    s.last = s.in_c == (t->in_cs - 1) * t->in_c;
    if (t->tiles_outer) s.out_c = bm_next_of(&index, t->out_cs) * t->out_c;
    s.w = bm_next_of(&index, t->ws) * t->w;
    s.h = bm_next_of(&index, t->hs) * t->h;
    s.n = bm_next_of(&index, t->ns) * t->n;
    if (!t->tiles_outer) s.out_c = bm_next_of(&index, t->out_cs) * t->out_c;
    s.group = index * t->group;
    return s;
}

/* What a step works on. */
typedef struct {
    int n, groups, in_c, out_c, h, w;
    window_part rows, columns;
    bool filled; /* the pads are in the input buffer */
    dim4 input, output;
} conv_tile;

static conv_tile conv_tile_of(const conv_run *r, const conv_step *s) {
    const conv_problem *p = r->problem;
    const conv_plan *t = r->plan;
    conv_tile e = {smaller(t->n, p->n - s->n),
                    smaller(t->group, p->groups - s->group),
                    smaller(t->in_c, p->in_c - s->in_c),
                    smaller(t->out_c, p->out_c - s->out_c),
                    smaller(t->h, p->h.out - s->h),
                    smaller(t->w, p->w.out - s->w),
                    {0}, {0}, p->filled, {0}, {0}};
    e.rows = bm_axis_part(&p->h, s->h, e.h);
    e.columns = bm_axis_part(&p->w, s->w, e.w);
    if (bm_conv_all_columns(p, t) && e.columns.count > 0) e.columns.count = p->w.size;
    e.input = (dim4){e.n, e.groups * e.in_c, e.filled ? bm_part_length(&e.rows) : e.rows.count,
                     e.filled ? bm_part_length(&e.columns) : e.columns.count};
    e.output = (dim4){e.n, e.groups * e.out_c, e.h, e.w};
    return e;
}

static void conv_load_input(const conv_run *r, const conv_step *s) {
    const conv_tile e = conv_tile_of(r, s);
    const local_addr_t to = r->plan->input[s->in];
    dim4 stride;
    okk_128_byte_aligned_stride_for_32bit(&stride, 0, &e.input);
    if (e.filled) okk_gdma_32bit_set_C_local(to, (x32){.fp32 = 0}, &e.input, &stride);
    if (e.rows.count == 0 || e.columns.count == 0) return;
    const dim4 shape = {e.n, e.input.c, e.rows.count, e.columns.count}, *from = &r->x_stride;
    const int inside = e.filled ? e.rows.zeros_before * stride.h + e.columns.zeros_before : 0;
    const int channel = s->group * r->problem->in_c + s->in_c;
    const u64 at = (u64)s->n * (u64)from->n + (u64)channel * (u64)from->c + (u64)e.rows.first * (u64)from->h +
                   (u64)e.columns.first;
    okk_gdma_32bit_cpy_S2L(to + 4u * (local_addr_t)inside, r->x + 4 * at, &shape, &stride, from);
}

static void conv_load_weight(const conv_run *r, const conv_step *s) {
    const conv_problem *p = r->problem;
    const conv_tile e = conv_tile_of(r, s);
    const int channel = s->group * p->out_c + s->out_c, sets = bm_conv_sets(p, e.in_c);
    const bool whole = p->joined && e.in_c == p->in_c; /* the bias comes with the weights */
    const int row = bm_conv_channel_words(p, p->in_c), words = whole ? row : p->weight_words;
    const dim4 shape = {1, e.output.c, whole ? 1 : sets, words}, from = {0, row, words, 1};
    const dim4 to = {0, bm_conv_channel_words(p, e.in_c), words, 1};
    const local_addr_t weight = r->plan->weight[s->weight];
    const u64 at = r->weight + 4 * (u64)channel * (u64)row;
    okk_gdma_32bit_cpy_S2L(weight, at + 4 * (u64)(s->in_c / 2) * (u64)p->weight_words, &shape, &to, &from);
    if (!p->bias || whole) return;
    const dim4 one = {1, e.output.c, 1, 1};
    dim4 compact;
    okk_compact_stride(&compact, 0, &one);
    if (p->joined)
        okk_gdma_32bit_cpy_S2L(weight + 4u * (local_addr_t)(sets * p->weight_words), at + 4 * (u64)(row - CONV_JOINED),
                               &one, &to, &from);
    else
        okk_gdma_32bit_cpy_S2L(r->plan->bias[s->weight], r->bias + 4 * (u64)channel, &one, &compact, NULL);
}

/* Input channels of a group as the instruction is told. */
static int conv_told(const conv_problem *p) { return p->bytes ? p->in_c : bm_conv_told(p->groups, p->in_c); }

static void conv_compute_step(const conv_run *r, const conv_step *s) {
    const conv_problem *p = r->problem;
    const conv_plan *t = r->plan;
    const conv_tile e = conv_tile_of(r, s);
    conv_work work = {.output = t->output[s->out], .input = t->input[s->in], .weight = t->weight[s->weight],
                      .bias = t->bias[s->weight], .joined = p->joined,
                      .weight_words = bm_conv_channel_words(p, e.in_c), .input_shape = e.input,
                      .output_shape = e.output,
                      .groups = e.groups, .channels = e.in_c == p->in_c ? conv_told(p) : e.in_c,
                      .kernel = {p->h.kernel, p->w.kernel},
                      .stride = {p->h.stride, p->w.stride}, .dilation = {p->h.dilation, p->w.dilation},
                      .insert = {p->h.insert, p->w.insert}, .turned = p->turned,
                      .using_bias = p->bias && s->first, .result_add = !s->first, .bytes = p->bytes};
    if (p->bytes != NULL) work.batches = smaller(4 * e.n, p->bytes->batches - 4 * s->n);
    okk_128_byte_aligned_stride_for_32bit(&work.input_stride, 0, &e.input);
    work.pad = e.filled ? (Padding){e.rows.edge_before, e.rows.edge_after, e.columns.edge_before, e.columns.edge_after}
                        : (Padding){e.rows.before, e.rows.after, e.columns.before, e.columns.after};
    bm_conv_compute(&work, p->taps);
}

static void conv_store_output(const conv_run *r, const conv_step *s) {
    const conv_tile e = conv_tile_of(r, s);
    const dim4 *to = &r->y_stride;
    const int channel = s->group * r->problem->out_c + s->out_c;
    const u64 at = (u64)s->n * (u64)to->n + (u64)channel * (u64)to->c + (u64)s->h * (u64)to->h + (u64)s->w;
    okk_gdma_32bit_cpy_L2S(r->y + 4 * at, r->plan->output[s->out], &e.output, to, NULL);
}

static bool conv_same_input(const conv_step *a, const conv_step *b) {
    return a->group == b->group && a->in_c == b->in_c && a->n == b->n && a->h == b->h && a->w == b->w;
}

static bool conv_same_weight(const conv_step *a, const conv_step *b) {
    return a->group == b->group && a->in_c == b->in_c && a->out_c == b->out_c;
}

/* Zeros in the channels beside the input's that the instruction is told of; `bytes` of each lane. */
static void conv_zero_beside(const conv_problem *p, local_addr_t input, long long bytes) {
    const int beside = conv_told(p) - p->in_c;
    if (p->depthwise || beside == 0) return;
    const dim4 lines = {1, beside, (int)(bytes / CHIP_ALIGN_BYTES), CHIP_ALIGN_BYTES / 4};
    okk_bdc_32bit_set_C(input + (local_addr_t)p->in_c * CHIP_LOCAL_BYTES, (x32){.fp32 = 0}, &lines, NULL);
}

/* While one step is computed, what the next one lacks is loaded and the tile before is stored. */
static void conv_run_steps(const conv_run *r) {
    const conv_plan *t = r->plan;
    const int count = t->groups * t->out_cs * t->in_cs * t->ns * t->hs * t->ws;
    conv_step loaded = {0}, computed = {0};
    for (int i = 0; i < 2; i++) conv_zero_beside(r->problem, t->input[i], bm_conv_input_bytes(r->problem, t));
    for (int i = 0; i <= count + 1; i++) {
        okk_parallel_start();
        conv_step next = {0};
        if (i < count) {
            next = conv_step_at(t, i);
            const bool begin = i == 0;
            next.in = begin || conv_same_input(&next, &loaded) ? loaded.in : 1 - loaded.in;
            next.weight = begin || conv_same_weight(&next, &loaded) ? loaded.weight : 1 - loaded.weight;
            next.out = begin || !next.first ? loaded.out : 1 - loaded.out;
            if (begin || next.in != loaded.in) conv_load_input(r, &next);
            if (begin || next.weight != loaded.weight) conv_load_weight(r, &next);
        }
        if (i >= 1 && i <= count) conv_compute_step(r, &loaded);
        if (i >= 2 && computed.last) conv_store_output(r, &computed);
        okk_parallel_end();
        computed = loaded;
        loaded = next;
    }
}

conv_problem bm_conv_problem_of(int groups, bool depthwise, window_axis h, window_axis w, const tpu_tensor_t *in,
                                int in_num, const tpu_tensor_t *out) {
    const int kernel = h.kernel * w.kernel;
    const bool joined = conv_is_joined(depthwise, groups, in[0].shape[1], kernel, &in[1]);
    return (conv_problem){.n = in[0].shape[0],
                          .groups = groups,
                          .in_c = in[0].shape[1] / groups,
                          .out_c = out[0].shape[1] / groups,
                          .weight_words = depthwise ? kernel : 2 * kernel,
                          .h = h,
                          .w = w,
                          .depthwise = depthwise,
                          .joined = joined,
                          .bias = joined || in_num == 3};
}

conv_problem bm_conv_problem_of_bytes(int groups, bool depthwise, window_axis h, window_axis w,
                                      const conv_quantised *bytes, const tpu_tensor_t *in, const tpu_tensor_t *out) {
    const int kernel = h.kernel * w.kernel, in_c = in[0].shape[1] / groups;
    const int words = depthwise ? divide_up(kernel, 4) : kernel;
    const bool bias = in[1].shape[3] > words * (depthwise ? 1 : bm_conv_weight_sets(groups, in_c, true));
    return (conv_problem){.n = divide_up(in[0].shape[0], 4),
                          .groups = groups,
                          .in_c = in_c,
                          .out_c = out[0].shape[1] / groups,
                          .weight_words = words,
                          .h = h,
                          .w = w,
                          .depthwise = depthwise,
                          .joined = bias,
                          .bias = bias,
                          .bytes = bytes};
}

int bm_conv_in_ddr(conv_problem *p, const tpu_tensor_t *in, const tpu_tensor_t *out) {
    if (p->depthwise) return bm_depthwise_in_ddr(p, in, out);
    const int *x = in[0].shape, *y = out[0].shape;
    p->taps = !bm_axis_in_instruction(&p->h) || !bm_axis_in_instruction(&p->w);
    p->filled = p->taps || bm_axis_needs_zeros(&p->h) || bm_axis_needs_zeros(&p->w);
    /* Rows that no window sees are not loaded. */
    const int rows = p->h.kernel == 1 && !p->filled && p->h.insert == 0 && p->h.before + p->h.after == 0 ? p->h.stride : 1;
    if (rows > 1) {
        p->h.size = p->h.out;
        p->h.stride = 1;
    }
    conv_plan plan;
    if (!bm_conv_make_plan(p, &plan)) return BM_LAYER_NOT_SUPPORTED;
    const conv_run run = {.problem = p,
                          .plan = &plan,
                          .x = in[0].addr,
                          .y = out[0].addr,
                          .weight = in[1].addr,
                          .bias = p->bias && !p->joined ? in[2].addr : 0,
                          .x_stride = {x[1] * x[2] * x[3], x[2] * x[3], rows * x[3], 1},
                          .y_stride = {y[1] * y[2] * y[3], y[2] * y[3], y[3], 1}};
    okk_initialize();
    conv_run_steps(&run);
    okk_poll();
    return BM_LAYER_OK;
}

int bm_conv_local_work(const conv_problem *p, const tpu_tensor_t *in, const tpu_tensor_t *out, conv_work *work) {
    const int *a = in[0].slice_shape, *b = out[0].slice_shape, *at = in[0].processed;
    const int words = p->bytes ? divide_up(a[0], 4) : a[0];
    const window_part rows = bm_axis_part(&p->h, out[0].processed[2], b[2]);
    const window_part columns = bm_axis_part(&p->w, out[0].processed[3], b[3]);
    const int skip_h = rows.first - at[2], skip_w = columns.first - at[3];
    if (rows.count < 1 || columns.count < 1 || skip_h < 0 || skip_w < 0 || skip_h + rows.count > a[2] ||
        skip_w + columns.count > a[3] || (p->depthwise && !(bm_axis_takes(&p->h, &rows, at[2], a[2]) && bm_axis_takes(&p->w, &columns, at[3], a[3]))))
        return BM_LAYER_RUNTIME_ERROR;
    const dim4 tile = {words, a[1], a[2], a[3]};
    *work = (conv_work){
        .output = (local_addr_t)out[0].addr,
        .weight = (local_addr_t)in[1].addr,
        .bias = p->bias && !p->joined ? (local_addr_t)in[2].addr : 0,
        .weight_words = bm_conv_channel_words(p, p->in_c),
        .joined = p->joined,
        .input_shape = {words, a[1], p->depthwise ? a[2] : rows.count, p->depthwise ? a[3] : columns.count},
        .output_shape = {words, b[1], b[2], b[3]},
        .groups = p->groups,
        .channels = conv_told(p),
        .depthwise = p->depthwise,
        .kernel = {p->h.kernel, p->w.kernel},
        .stride = {p->h.stride, p->w.stride},
        .dilation = {p->h.dilation, p->w.dilation},
        .insert = {p->h.insert, p->w.insert},
        .pad = {rows.before, rows.after, columns.before, columns.after},
        .turned = p->turned,
        .using_bias = p->bias,
        .bytes = p->bytes,
        .batches = a[0]};
    okk_128_byte_aligned_stride_for_32bit(&work->input_stride, 0, &tile);
    work->input = (local_addr_t)in[0].addr + 4u * (local_addr_t)(skip_h * work->input_stride.h + skip_w);
    return BM_LAYER_OK;
}

int bm_conv_in_local(const conv_problem *p, const tpu_tensor_t *in, const tpu_tensor_t *out) {
    conv_work work;
    const int status = bm_conv_local_work(p, in, out, &work);
    if (status != BM_LAYER_OK) return status;
    const int *a = in[0].slice_shape;
    const int words = p->bytes ? divide_up(a[0], 4) : a[0];
    conv_zero_beside(p, (local_addr_t)in[0].addr, local_bytes(words, p->in_c, a[2], a[3]));
    bm_conv_compute(&work, !bm_axis_in_instruction(&p->h) || !bm_axis_in_instruction(&p->w));
    return BM_LAYER_OK;
}
