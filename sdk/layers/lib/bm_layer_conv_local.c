#include "bm_layer_conv_phases.h"
#include "bm_layer_conv_run.h"

/* What the tile of the output sees, and where that begins in the tile of the input. */
typedef struct {
    window_part rows, columns;
    int down, right;
} conv_seen;

static conv_seen seen_of(const conv_problem *p, const tpu_tensor_t *in, const tpu_tensor_t *out) {
    conv_seen s = {bm_axis_part(&p->h, out->processed[2], out->slice_shape[2]),
                   bm_axis_part(&p->w, out->processed[3], out->slice_shape[3]), 0, 0};
    s.down = s.rows.first - in->processed[2];
    s.right = s.columns.first - in->processed[3];
    return s;
}

/* Whether the tile has all that is seen. */
static bool holds(const conv_seen *s, const int *tile) {
    return s->rows.count > 0 && s->columns.count > 0 && s->down >= 0 && s->right >= 0 &&
           s->down + s->rows.count <= tile[2] && s->right + s->columns.count <= tile[3];
}

/* The work on the tile of the input as it is. */
static conv_work work_of(const conv_problem *p, const tpu_tensor_t *in, const tpu_tensor_t *out) {
    const int *a = in[0].slice_shape, *b = out[0].slice_shape;
    const int words = p->bytes ? divide_up(a[0], 4) : a[0];
    conv_work work = {.output = (local_addr_t)out[0].addr,
                      .input = (local_addr_t)in[0].addr,
                      .weight = (local_addr_t)in[1].addr,
                      .bias = p->bias && !p->joined ? (local_addr_t)in[2].addr : 0,
                      .weight_words = bm_conv_channel_words(p, p->in_c),
                      .joined = p->joined,
                      .input_shape = {words, a[1], a[2], a[3]},
                      .output_shape = {words, b[1], b[2], b[3]},
                      .groups = p->groups,
                      .channels = bm_conv_channels(p),
                      .depthwise = p->depthwise,
                      .kernel = {p->h.kernel, p->w.kernel},
                      .stride = {p->h.stride, p->w.stride},
                      .dilation = {p->h.dilation, p->w.dilation},
                      .insert = {p->h.insert, p->w.insert},
                      .turned = p->turned,
                      .using_bias = p->bias,
                      .bytes = p->bytes,
                      .batches = a[0]};
    okk_128_byte_aligned_stride_for_32bit(&work.input_stride, 0, &work.input_shape);
    return work;
}

/* Of the tile what is seen. */
static void take_seen(conv_work *w, const conv_seen *s) {
    w->input += 4u * (local_addr_t)(s->down * w->input_stride.h + s->right);
    w->input_shape.h = s->rows.count;
    w->input_shape.w = s->columns.count;
}

/* What is seen with its pads as zeros, in the work buffer. */
static void fill_pads(conv_work *w, const conv_seen *s, local_addr_t buffer) {
    const dim4 whole = {w->input_shape.n, w->input_shape.c, bm_part_length(&s->rows), bm_part_length(&s->columns)};
    dim4 stride;
    okk_128_byte_aligned_stride_for_32bit(&stride, 0, &whole);
    const local_addr_t inside = buffer + 4u * (local_addr_t)(s->rows.zeros_before * stride.h + s->columns.zeros_before);
    okk_bdc_32bit_set_C(buffer, (x32){.fp32 = 0}, &whole, NULL);
    okk_bdc_32bit_cpy(inside, w->input, &w->input_shape, &stride, &w->input_stride);
    w->input = buffer;
    w->input_shape = whole;
    w->input_stride = stride;
}

static void zero_beside(const conv_problem *p, const conv_work *w) {
    const dim4 *tile = &w->input_shape;
    bm_conv_zero_beside(p, w->input, local_bytes(tile->n, p->in_c, tile->h, tile->w));
}

static int phases_in_local(const conv_problem *p, const tpu_tensor_t *in, const tpu_tensor_t *out, local_addr_t buffer) {
    const conv_work work = work_of(p, in, out);
    const conv_place at = {in[0].processed[2], in[0].processed[3], out[0].processed[2], out[0].processed[3]};
    zero_beside(p, &work);
    return bm_conv_phases(p, &work, &at, buffer) ? BM_LAYER_OK : BM_LAYER_RUNTIME_ERROR;
}

int bm_conv_local_work(const conv_problem *p, const tpu_tensor_t *in, const tpu_tensor_t *out, conv_work *work) {
    const int *tile = in[0].slice_shape, *at = in[0].processed;
    const conv_seen s = seen_of(p, in, out);
    if (!holds(&s, tile)) return BM_LAYER_RUNTIME_ERROR;
    *work = work_of(p, in, out);
    work->pad = (Padding){s.rows.before, s.rows.after, s.columns.before, s.columns.after};
    if (!p->depthwise) take_seen(work, &s);
    else if (!bm_axis_takes(&p->h, &s.rows, at[2], tile[2]) || !bm_axis_takes(&p->w, &s.columns, at[3], tile[3]))
        return BM_LAYER_RUNTIME_ERROR; /* the instruction for that takes no part of a tile */
    return BM_LAYER_OK;
}

static int filled_in_local(const conv_problem *p, const tpu_tensor_t *in, const tpu_tensor_t *out, local_addr_t buffer) {
    const conv_seen s = seen_of(p, in, out);
    if (!holds(&s, in[0].slice_shape)) return BM_LAYER_RUNTIME_ERROR;
    conv_work work = work_of(p, in, out);
    take_seen(&work, &s);
    fill_pads(&work, &s, buffer);
    work.pad = (Padding){s.rows.edge_before, s.rows.edge_after, s.columns.edge_before, s.columns.edge_after};
    zero_beside(p, &work);
    bm_conv_compute(&work, bm_conv_by_taps(p));
    return BM_LAYER_OK;
}

int bm_conv_in_local(const conv_problem *p, const tpu_tensor_t *in, const tpu_tensor_t *out, local_addr_t buffer) {
    if (p->phased) return phases_in_local(p, in, out, buffer);
    if (bm_axis_needs_zeros(&p->h) || bm_axis_needs_zeros(&p->w) || (bm_conv_by_taps(p) && bm_conv_has_pads(p)))
        return filled_in_local(p, in, out, buffer);
    conv_work work;
    const int status = bm_conv_local_work(p, in, out, &work);
    if (status != BM_LAYER_OK) return status;
    const conv_work whole = work_of(p, in, out);
    zero_beside(p, &whole);
    bm_conv_compute(&work, bm_conv_by_taps(p));
    return BM_LAYER_OK;
}
