#include "bm_layer_depthwise.h"

#include "bm_layer_packed.h"
#include "bm_layer_pool_run.h"

/* What the steps need to know. */
typedef struct {
    const conv_problem *conv;
    bm_addr_t weight, bias; /* bias: where it lies apart */
} depthwise;

/* Words from DDR for the channels of the planes from `first` on, which may begin anew several times; to: of the first
 * plane's lane. */
static void load_words(const pool_run *r, local_addr_t to, bm_addr_t from, int words, int step, int first, int planes) {
    const depthwise *d = r->param;
    const int channels = d->conv->groups, far = d->conv->joined ? step : words;
    for (int done = 0; done < planes;) {
        const int channel = (first + done) % channels, count = smaller(planes - done, channels - channel);
        const dim4 shape = {1, count, 1, words}, near = {0, step, words, 1}, away = {0, far, words, 1};
        okk_gdma_32bit_cpy_S2L(local_channel(to, done, 4 * step), from + 4 * (u64)channel * (u64)far, &shape, &near, &away);
        done += count;
    }
}

static void load(const pool_run *r, const pool_step *s) {
    const depthwise *d = r->param;
    const conv_problem *p = d->conv;
    const int step = r->problem.plane_words;
    const local_addr_t to = r->plan.beside[s->beside];
    if (!bm_pool_new_planes(s)) return;
    load_words(r, to, d->weight, p->joined ? step : p->weight_words, step, s->c, s->planes);
    if (p->bias && !p->joined)
        load_words(r, to + 4u * (local_addr_t)p->weight_words, d->bias, 1, step, s->c, s->planes);
    for (int made = s->planes, all = s->planes * r->plan.bands; made < all; made *= 2) { /* the same for all bands */
        const dim4 shape = {1, smaller(made, all - made), 1, p->joined ? step : p->weight_words + p->bias};
        okk_gdma_32bit_cpy_L2L(to + (local_addr_t)made * CHIP_LOCAL_BYTES, to, &shape, NULL, NULL);
    }
}

static void compute(const pool_run *r, const pool_step *s) {
    const depthwise *d = r->param;
    const conv_problem *p = d->conv;
    const pool_work of = bm_pool_step_work(r, s);
    conv_work work = {.output = of.output, .input = of.input, .weight = r->plan.beside[s->beside],
                      .weight_words = r->problem.plane_words, .joined = p->bias, .input_shape = of.input_shape,
                      .output_shape = of.output_shape, .groups = of.input_shape.c, .channels = 1, .depthwise = true,
                      .kernel = of.kernel, .stride = of.stride, .dilation = of.dilation, .pad = of.pad,
                      .using_bias = p->bias, .bytes = p->bytes, .batches = BM_PACKED};
    okk_128_byte_aligned_stride_for_32bit(&work.input_stride, 0, &of.input_shape);
    bm_conv_compute(&work, r->taps);
}

int bm_depthwise_in_ddr(const conv_problem *p, const tpu_tensor_t *in, const tpu_tensor_t *out) {
    const depthwise d = {.conv = p, .weight = in[1].addr, .bias = p->bias && !p->joined ? in[2].addr : 0};
    pool_run r = {.param = &d, .compute = compute, .load = load,
                  .problem = {.plane_words = p->weight_words + (p->bias ? CONV_JOINED : 0)}};
    if (!bm_pool_prepare_planes(&r, &p->h, &p->w, &out[0], &in[0])) return BM_LAYER_NOT_SUPPORTED;
    okk_initialize();
    bm_pool_run(&r);
    okk_poll();
    return BM_LAYER_OK;
}
