#include "bm_layer_pool_run.h"

#include "bm_layer_pipeline.h"
#include "bm_layer_shape.h"

/* ---- shape ---- */

void bm_pool_axes(const pool_window *p, const int *shape, window_axis *h, window_axis *w) {
    const int bottom = p->pad_bottom + p->extra_bottom, right = p->pad_right + p->extra_right;
    *h = (window_axis){shape[2], 0, p->kernel_h, p->stride_h, p->dilation_h, p->pad_top, bottom, 0};
    *w = (window_axis){shape[3], 0, p->kernel_w, p->stride_w, p->dilation_w, p->pad_left, right, 0};
    if (p->whole != POOL_WHOLE_NONE) {
        *h = (window_axis){shape[2], 0, p->whole == POOL_WHOLE_ROW ? 1 : shape[2], 1, 1, 0, 0, 0};
        *w = (window_axis){shape[3], 0, p->whole == POOL_WHOLE_COLUMN ? 1 : shape[3], 1, 1, 0, 0, 0};
    }
    h->out = bm_axis_result(h);
    w->out = bm_axis_result(w);
}

static bool valid_pads(int before, int after, int extra) {
    return before >= 0 && before <= AXIS_PARAM_MAX && after >= 0 && after <= AXIS_PARAM_MAX && extra >= 0 &&
           extra <= AXIS_PARAM_MAX; /* the sum's limit is bm_axis_result's */
}

int bm_pool_shape(const pool_window *p, tpu_tensor_t *out, const tpu_tensor_t *in) {
    if (in->dims != 3 && in->dims != 4) return BM_LAYER_NOT_SUPPORTED;
    if (p->whole < POOL_WHOLE_NONE || p->whole > POOL_WHOLE_ROW || !valid_pads(p->pad_top, p->pad_bottom, p->extra_bottom) ||
        !valid_pads(p->pad_left, p->pad_right, p->extra_right))
        return BM_LAYER_PARAM_INVALID;
    if (p->whole && (in->shape[2] > AXIS_PARAM_MAX || in->shape[3] > AXIS_PARAM_MAX)) return BM_LAYER_NOT_SUPPORTED;
    window_axis h, w;
    bm_pool_axes(p, in->shape, &h, &w);
    if (h.out < 1 || w.out < 1 || (in->dims == 3 && w.out != 1)) return BM_LAYER_PARAM_INVALID;
    out->ttype = BMNET_NEURON;
    out->dims = in->dims;
    out->shape[0] = in->shape[0];
    out->shape[1] = in->shape[1];
    out->shape[2] = h.out;
    if (in->dims == 4) out->shape[3] = w.out;
    return BM_LAYER_OK;
}

/* ---- steps ---- */

int bm_pool_band_row(const pool_step *s, int band) {
    return s->h + band * s->output.h - (band > 0 && band == s->bands - 1 ? s->back : 0);
}

/* Columns behind the last ones that are read come along, so that rows lie together. */
static void take_all(const window_axis *a, window_part *p) {
    if (p->first == 0 && p->zeros_after == 0) p->count = a->size;
}

static pool_step step_at(const pool_run *r, int index) {
    const pool_problem *p = &r->problem;
    const pool_plan *t = &r->plan;
    pool_step s = {.in = index % 2};
    const int kw = bm_next_of(&index, t->kernel_ws), kh = bm_next_of(&index, t->kernel_hs);
    s.out = index % 2;
    s.w = bm_next_of(&index, t->ws) * t->w;
    s.h = bm_next_of(&index, t->hs) * t->h * t->bands;
    s.beside = index % 2;
    s.c = index * t->c;
    s.first = kh + kw == 0;
    s.last = kh == t->kernel_hs - 1 && kw == t->kernel_ws - 1;
    s.rows = bm_pool_taps_of(&p->h, kh * t->kernel_h, t->kernel_h);
    s.columns = bm_pool_taps_of(&p->w, kw * t->kernel_w, t->kernel_w);
    const int left = p->h.out - s.h, rows = smaller(t->h, left);
    s.planes = smaller(t->c, p->planes - s.c);
    s.bands = smaller(t->bands, divide_up(left, rows));
    s.back = larger(s.bands * rows - left, 0);
    s.output = (dim4){1, s.planes * s.bands, rows, smaller(t->w, p->w.out - s.w)};
    s.from_h = bm_axis_part(&s.rows, s.h, rows);
    s.from_w = bm_axis_part(&s.columns, s.w, s.output.w);
    if (t->ws == 1 && !r->filled) take_all(&s.columns, &s.from_w);
    s.input = (dim4){1, s.output.c, r->filled || t->bands > 1 ? bm_part_length(&s.from_h) : s.from_h.count,
                     r->filled ? bm_part_length(&s.from_w) : s.from_w.count};
    return s;
}

static local_addr_t band_lane(const pool_step *s, int band) {
    return (local_addr_t)(band * s->planes) * CHIP_LOCAL_BYTES;
}

static void load_step(const void *run, int step) {
    const pool_run *r = run;
    const pool_step one = step_at(r, step), *s = &one;
    const window_axis *h = &r->problem.h, *w = &r->problem.w;
    const local_addr_t to = r->plan.input[s->in];
    dim4 stride;
    okk_128_byte_aligned_stride_for_32bit(&stride, 0, &s->input);
    const bool pads = s->from_h.zeros_before + s->from_h.zeros_after + s->from_w.zeros_before + s->from_w.zeros_after > 0;
    if (r->filled && pads) okk_gdma_32bit_set_C_local(to, r->fill, &s->input, &stride);
    if (r->load != NULL) r->load(r, s);
    const dim4 from = {0, h->size * w->size, w->size, 1};
    const int left = r->filled ? s->from_w.zeros_before : 0;
    for (int band = 0; band < s->bands; band++) {
        const window_part rows = bm_axis_part(&s->rows, bm_pool_band_row(s, band), s->output.h);
        if (rows.count == 0 || s->from_w.count == 0) continue;
        const dim4 shape = {1, s->planes, rows.count, s->from_w.count};
        const int above = r->filled || r->plan.bands > 1 ? rows.zeros_before : 0;
        const u64 at = (u64)s->c * (u64)from.c + (u64)rows.first * (u64)from.h + (u64)s->from_w.first;
        okk_gdma_32bit_cpy_S2L(to + band_lane(s, band) + 4u * (local_addr_t)(above * stride.h + left), r->x + 4 * at,
                               &shape, &stride, &from);
    }
}

/* The pads above and below bands, whose rows the loads leave as they are. */
static void fill_bands(const pool_run *r, const pool_step *s) {
    dim4 stride;
    okk_128_byte_aligned_stride_for_32bit(&stride, 0, &s->input);
    for (int band = 0; band < s->bands; band++) {
        const window_part rows = bm_axis_part(&s->rows, bm_pool_band_row(s, band), s->output.h);
        const local_addr_t first = r->plan.input[s->in] + band_lane(s, band);
        const int counts[2] = {rows.zeros_before, rows.zeros_after};
        const int starts[2] = {0, rows.zeros_before + rows.count};
        for (int i = 0; i < 2; i++) {
            const dim4 shape = {1, s->planes, counts[i], s->input.w};
            if (counts[i] > 0)
                okk_bdc_32bit_set_C(first + 4u * (local_addr_t)(starts[i] * stride.h), r->fill, &shape, &stride);
        }
    }
}

pool_work bm_pool_step_work(const pool_run *r, const pool_step *s) {
    const pool_plan *t = &r->plan;
    const window_axis *h = &r->problem.h, *w = &r->problem.w;
    pool_work work = {.output = s->first ? t->output[s->out] : t->part, .input = t->input[s->in],
                      .temporary = t->temporary, .input_shape = s->input, .output_shape = s->output,
                      .kernel = {s->rows.kernel, s->columns.kernel}, .stride = {h->stride, w->stride},
                      .dilation = {h->dilation, w->dilation}};
    if (!r->filled) work.pad = (Padding){s->from_h.before, s->from_h.after, s->from_w.before, s->from_w.after};
    if (t->bands > 1) work.pad.top = work.pad.bottom = 0;
    return work;
}

static void compute_step(const void *run, int step) {
    const pool_run *r = run;
    const pool_step s = step_at(r, step);
    if (r->plan.bands > 1) fill_bands(r, &s);
    r->compute(r, &s);
}

static void store_step(const void *run, int step) {
    const pool_run *r = run;
    const pool_step one = step_at(r, step), *s = &one;
    if (!s->last) return;
    const int out_h = r->problem.h.out, out_w = r->problem.w.out;
    const dim4 to = {0, out_h * out_w, out_w, 1};
    dim4 stride;
    okk_128_byte_aligned_stride_for_32bit(&stride, 0, &s->output);
    for (int band = 0; band < s->bands; band++) {
        const int skip = band > 0 && band == s->bands - 1 ? s->back : 0; /* rows of the band before */
        const dim4 shape = {1, s->planes, s->output.h - skip, s->output.w};
        const int row = bm_pool_band_row(s, band) + skip;
        const u64 at = (u64)s->c * (u64)to.c + (u64)row * (u64)to.h + (u64)s->w;
        okk_gdma_32bit_cpy_L2S(r->y + 4 * at,
                               r->plan.output[s->out] + band_lane(s, band) + 4u * (local_addr_t)(skip * stride.h),
                               &shape, &to, &stride);
    }
}

/* ---- all of it ---- */

static bool prepare(pool_run *r, const tpu_tensor_t *out, const tpu_tensor_t *in) {
    const tpu_tensor_t words = bm_layer_as_words(in);
    const window_axis *h = &r->problem.h, *w = &r->problem.w;
    r->x = in->addr;
    r->y = out->addr;
    r->problem.planes = words.shape[0] * words.shape[1];
    r->problem.filled = r->taps || bm_axis_needs_zeros(h) || bm_axis_needs_zeros(w);
    if (!bm_pool_make_plan(&r->problem, &r->plan)) return false;
    r->filled = r->problem.filled || bm_pool_cut_kernel(&r->problem, &r->plan);
    return true;
}

void bm_pool_prepare(pool_run *r, const pool_window *p, const tpu_tensor_t *out, const tpu_tensor_t *in) {
    window_axis *h = &r->problem.h, *w = &r->problem.w;
    bm_pool_axes(p, bm_layer_as_words(in).shape, h, w);
    r->taps = h->dilation > 1 || w->dilation > 1 || larger(h->stride, w->stride) > CHIP_WINDOW_STEP_MAX;
    prepare(r, out, in);
}

bool bm_pool_prepare_planes(pool_run *r, const window_axis *h, const window_axis *w, const tpu_tensor_t *out,
                            const tpu_tensor_t *in) {
    r->problem.h = *h;
    r->problem.w = *w;
    r->taps = !bm_axis_in_instruction(h) || !bm_axis_in_instruction(w);
    return prepare(r, out, in);
}

void bm_pool_run(const pool_run *r) {
    const pool_plan *t = &r->plan;
    bm_run_pipeline(t->cs * t->hs * t->ws * t->kernel_hs * t->kernel_ws, r, load_step, compute_step, store_step);
}
