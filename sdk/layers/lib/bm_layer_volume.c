#include "bm_layer_volume.h"

#include "bm_layer_pipeline.h"
#include "bm_layer_volume_room.h"

/* ---- planes in local memory ---- */

/* Planes [first, first + count) of a volume's output, from planes of the input of which `from` is the first there. */
typedef struct {
    const window_axis *d;
    conv_work plane; /* of the first planes; n does not count */
    int first, count, from;
    int tap_words; /* from a tap's weights to the next one's */
    local_addr_t work;
    int work_planes; /* depthwise: how many have room there */
} volume_work;

/* Whether products of each channel with a number take less time than the instruction for depthwise ones, which moves on
 * columns slowly. */
static bool one_tap(const conv_work *w) { return w->depthwise && w->kernel.h * w->kernel.w == 1; }

/* One tap for some planes of the output. add: to what is there. */
static void run_planes(const volume_work *v, int tap, int first, int count, bool add) {
    conv_work w = v->plane;
    dim4 out;
    okk_128_byte_aligned_stride_for_32bit(&out, 0, &w.output_shape);
    const int source = first * v->d->stride + tap * v->d->dilation - v->d->before - v->from;
    const local_addr_t output = w.output + 4u * (local_addr_t)((first - v->first) * out.n);
    const dim4 shape = {count, w.output_shape.c, w.output_shape.h, w.output_shape.w};
    w.input += 4u * (local_addr_t)(source * w.input_stride.n);
    w.weight += 4u * (local_addr_t)(tap * v->tap_words);
    w.input_shape.n = w.output_shape.n = count;
    w.using_bias = w.using_bias && !add;
    w.result_add = add && !w.depthwise;
    w.output = add && w.depthwise ? v->work : output;
    w.input_stride.n *= v->d->stride;
    bm_conv_compute(&w, one_tap(&w));
    if (add && w.depthwise) okk_bdc_add(output, output, v->work, &shape, NULL, NULL, NULL);
}

/* The instruction for depthwise ones takes planes that lie side by side, and does not add. */
static void run_tap(const volume_work *v, int tap, int first, int end, bool add) {
    int most = larger(end - first, 1);
    if (v->plane.depthwise && add) most = v->work_planes;
    if (v->plane.depthwise && v->d->stride > 1 && !one_tap(&v->plane)) most = 1;
    for (int at = first; at < end; at += most) run_planes(v, tap, at, smaller(most, end - at), add);
}

/* A tap that sees something below each plane of the volume, whatever the tile has of it: sums are in the same order in all
 * tiles. -1: none. */
static int tap_of_all(const window_axis *d) {
    for (int tap = 0; tap < d->kernel; tap++) {
        const window_outputs seen = bm_axis_seen(d, tap, 0, d->out);
        if (seen.end - seen.first == d->out) return tap;
    }
    return -1;
}

/* A tap of all planes first, if there is one. In turn, each tap sees planes that end, and begin, no later than those of the
 * tap before: what it sees of planes that are there is added, the others are made. */
static void compute(const volume_work *v) {
    const int whole = tap_of_all(v->d);
    int made = v->first + v->count; /* the first plane that is there */
    for (int i = 0; i < v->d->kernel; i++) {
        const int tap = whole < 0 || i > whole ? i : i == 0 ? whole : i - 1;
        const window_outputs seen = bm_axis_seen(v->d, tap, v->first, v->count);
        run_tap(v, tap, seen.first, smaller(seen.end, made), false);
        run_tap(v, tap, larger(seen.first, made), seen.end, true);
        if (seen.first < seen.end) made = smaller(made, seen.first);
    }
}

/* Words of one tap's weights in a lane. */
static int tap_words(const conv_problem *p, int channels) {
    return local_slots(channels) * bm_conv_channel_words(p, p->in_c);
}

int bm_volume_in_local(const volume_problem *p, const tpu_tensor_t *in, const tpu_tensor_t *out, local_addr_t work,
                       u64 work_bytes) {
    const int *b = out[0].slice_shape;
    volume_work v = {.d = &p->d, .count = p->d.out, .tap_words = tap_words(&p->plane, b[1]), .work = work};
    const int status = bm_conv_local_work(&p->plane, in, out, &v.plane);
    if (status != BM_LAYER_OK) return status;
    if (b[0] % p->d.out != 0 || in[0].slice_shape[0] != b[0] / p->d.out * p->d.size) return BM_LAYER_RUNTIME_ERROR;
    v.work_planes = (int)(work_bytes / (u64)local_bytes(1, b[1], b[2], b[3]));
    dim4 to;
    okk_128_byte_aligned_stride_for_32bit(&to, 0, &v.plane.output_shape);
    for (int i = 0; i < b[0] / p->d.out; i++) {
        compute(&v);
        v.plane.input += 4u * (local_addr_t)(p->d.size * v.plane.input_stride.n);
        v.plane.output += 4u * (local_addr_t)(p->d.out * to.n);
    }
    return BM_LAYER_OK;
}

/* ---- data in DDR ---- */

/* Groups, output planes, rows and columns of a tile, how many tiles there are, and where they lie. */
typedef struct {
    int group, d, h, w;
    int groups, ds, hs, ws;
    local_addr_t input[2], output[2], weight[2], bias[2], work;
} volume_plan;

typedef struct {
    const volume_problem *problem;
    volume_plan plan;
    int volumes;
    bm_addr_t x, y, weight, bias;
} volume_run;

static int elements_of(const window_axis *a, int count) {
    const long long elements = bm_axis_elements(a, count);
    return elements < a->size ? (int)elements : a->size;
}

static long long input_bytes(const volume_problem *p, const volume_plan *t) {
    return local_bytes(elements_of(&p->d, t->d), t->group * p->plane.in_c, elements_of(&p->plane.h, t->h),
                       elements_of(&p->plane.w, t->w));
}

static long long plane_bytes(const volume_problem *p, const volume_plan *t) {
    return local_bytes(1, t->group * p->plane.out_c, t->h, t->w);
}

static long long weight_bytes(const volume_problem *p, const volume_plan *t) {
    return local_align(4ll * p->d.kernel * tap_words(&p->plane, t->group * p->plane.out_c));
}

static long long bias_bytes(const volume_problem *p, const volume_plan *t) {
    return p->plane.bias ? local_align(4ll * local_slots(t->group * p->plane.out_c)) : 0;
}

static long long work_bytes(const volume_problem *p, const volume_plan *t) {
    return p->plane.depthwise ? bm_volume_planes(t->d, plane_bytes(p, t)) * plane_bytes(p, t) : 0;
}

static bool fits(const volume_problem *p, const volume_plan *t) {
    return bm_axis_length(&p->plane.h, t->h) <= CHIP_WINDOW_SIDE_MAX &&
           bm_axis_length(&p->plane.w, t->w) <= CHIP_WINDOW_SIDE_MAX &&
           2 * (input_bytes(p, t) + t->d * plane_bytes(p, t) + weight_bytes(p, t) + bias_bytes(p, t)) +
                   work_bytes(p, t) <=
               CHIP_LOCAL_BYTES;
}

static void place(const volume_problem *p, volume_plan *t) {
    local_addr_t at = 0;
    for (int i = 0; i < 2; i++) {
        t->input[i] = at;
        t->output[i] = t->input[i] + (local_addr_t)input_bytes(p, t);
        t->weight[i] = t->output[i] + (local_addr_t)(t->d * plane_bytes(p, t));
        t->bias[i] = t->weight[i] + (local_addr_t)weight_bytes(p, t);
        at = t->bias[i] + (local_addr_t)bias_bytes(p, t);
    }
    t->work = at;
}

/* As many groups as have a lane for each of their channels; the longest side is cut until a tile fits. */
static bool make_plan(const volume_problem *p, volume_plan *t) {
    const int group = larger(1, CHIP_NPU_NUM / larger(p->plane.in_c, p->plane.out_c));
    *t = (volume_plan){.group = smaller(p->plane.groups, group), .d = p->d.out, .h = p->plane.h.out, .w = p->plane.w.out};
    while (!fits(p, t)) {
        int *longest = t->d >= t->h && t->d >= t->w ? &t->d : t->h >= t->w ? &t->h : &t->w;
        if (*longest == 1) return false;
        *longest = divide_up(*longest, 2);
    }
    t->groups = divide_up(p->plane.groups, t->group);
    t->ds = divide_up(p->d.out, t->d);
    t->hs = divide_up(p->plane.h.out, t->h);
    t->ws = divide_up(p->plane.w.out, t->w);
    place(p, t);
    return true;
}

bool bm_volume_fits(const volume_problem *p) {
    volume_plan t;
    return make_plan(p, &t);
}

/* What a step works on. */
typedef struct {
    int group, volume, d, h, w; /* first ones */
    dim4 input, output;
    window_part planes, rows, columns;
    int weights; /* which buffer */
    bool fresh;  /* the first with these weights */
} volume_step;

static volume_step step_at(const volume_run *r, int index) {
    const volume_problem *p = r->problem;
    const volume_plan *t = &r->plan;
    volume_step s = {0};
    const int block = index / (t->ws * t->hs * t->ds * r->volumes);
    s.fresh = index % (t->ws * t->hs * t->ds * r->volumes) == 0;
    s.weights = block % 2;
    s.group = block * t->group;
    s.w = bm_next_of(&index, t->ws) * t->w;
    s.h = bm_next_of(&index, t->hs) * t->h;
    s.d = bm_next_of(&index, t->ds) * t->d;
    s.volume = bm_next_of(&index, r->volumes);
    const int groups = smaller(t->group, p->plane.groups - s.group);
    s.output = (dim4){smaller(t->d, p->d.out - s.d), groups * p->plane.out_c, smaller(t->h, p->plane.h.out - s.h),
                      smaller(t->w, p->plane.w.out - s.w)};
    s.planes = bm_axis_part(&p->d, s.d, s.output.n);
    s.rows = bm_axis_part(&p->plane.h, s.h, s.output.h);
    s.columns = bm_axis_part(&p->plane.w, s.w, s.output.w);
    s.input = (dim4){s.planes.count, groups * p->plane.in_c, s.rows.count, s.columns.count};
    return s;
}

static void load_weights(const volume_run *r, const volume_step *s) {
    const conv_problem *p = &r->problem->plane;
    const int words = bm_conv_channel_words(p, p->in_c), channel = s->group * p->out_c;
    const dim4 shape = {r->problem->d.kernel, s->output.c, 1, words}, one = {1, s->output.c, 1, 1};
    const dim4 from = {p->groups * p->out_c * words, words, words, 1};
    const dim4 to = {tap_words(p, s->output.c), words, words, 1};
    okk_gdma_32bit_cpy_S2L(r->plan.weight[s->weights], r->weight + 4 * (u64)channel * (u64)words, &shape, &to, &from);
    if (!p->bias) return;
    dim4 compact;
    okk_compact_stride(&compact, 0, &one);
    okk_gdma_32bit_cpy_S2L(r->plan.bias[s->weights], r->bias + 4 * (u64)channel, &one, &compact, NULL);
}

static void load_step(const void *run, int step) {
    const volume_run *r = run;
    const conv_problem *p = &r->problem->plane;
    const volume_step s = step_at(r, step);
    if (s.fresh) load_weights(r, &s);
    const int area = p->h.size * p->w.size, channels = p->groups * p->in_c;
    const dim4 from = {channels * area, area, p->w.size, 1};
    const u64 at = (u64)(s.volume * r->problem->d.size + s.planes.first) * (u64)from.n +
                   (u64)(s.group * p->in_c) * (u64)from.c + (u64)s.rows.first * (u64)from.h + (u64)s.columns.first;
    okk_gdma_32bit_cpy_S2L(r->plan.input[step % 2], r->x + 4 * at, &s.input, NULL, &from);
}

static void compute_step(const void *run, int step) {
    const volume_run *r = run;
    const conv_problem *p = &r->problem->plane;
    const volume_step s = step_at(r, step);
    const int groups = s.output.c / p->out_c;
    volume_work v = {.d = &r->problem->d, .first = s.d, .count = s.output.n, .from = s.planes.first,
                     .tap_words = tap_words(p, s.output.c), .work = r->plan.work,
                     .work_planes = bm_volume_planes(r->plan.d, plane_bytes(r->problem, &r->plan))};
    v.plane = (conv_work){.output = r->plan.output[step % 2], .input = r->plan.input[step % 2],
                          .weight = r->plan.weight[s.weights], .bias = r->plan.bias[s.weights],
                          .weight_words = bm_conv_channel_words(p, p->in_c), .input_shape = s.input,
                          .output_shape = s.output, .groups = groups, .channels = p->in_c,
                          .depthwise = p->depthwise, .kernel = {p->h.kernel, p->w.kernel},
                          .stride = {p->h.stride, p->w.stride}, .dilation = {p->h.dilation, p->w.dilation},
                          .pad = {s.rows.before, s.rows.after, s.columns.before, s.columns.after},
                          .using_bias = p->bias};
    okk_128_byte_aligned_stride_for_32bit(&v.plane.input_stride, 0, &s.input);
    compute(&v);
}

static void store_step(const void *run, int step) {
    const volume_run *r = run;
    const conv_problem *p = &r->problem->plane;
    const volume_step s = step_at(r, step);
    const int area = p->h.out * p->w.out;
    const dim4 to = {p->groups * p->out_c * area, area, p->w.out, 1};
    const u64 at = (u64)(s.volume * r->problem->d.out + s.d) * (u64)to.n + (u64)(s.group * p->out_c) * (u64)to.c +
                   (u64)s.h * (u64)to.h + (u64)s.w;
    okk_gdma_32bit_cpy_L2S(r->y + 4 * at, r->plan.output[step % 2], &s.output, &to, NULL);
}

int bm_volume_in_ddr(const volume_problem *p, const tpu_tensor_t *in, const tpu_tensor_t *out) {
    volume_run r = {.problem = p, .volumes = in[0].shape[0] / p->d.size, .x = in[0].addr, .y = out[0].addr,
                    .weight = in[1].addr, .bias = p->plane.bias ? in[2].addr : 0};
    if (!make_plan(p, &r.plan)) return BM_LAYER_NOT_SUPPORTED;
    const volume_plan *t = &r.plan;
    okk_initialize();
    bm_run_pipeline(t->groups * r.volumes * t->ds * t->hs * t->ws, &r, load_step, compute_step, store_step);
    okk_poll();
    return BM_LAYER_OK;
}
