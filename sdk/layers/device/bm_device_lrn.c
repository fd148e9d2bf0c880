/* TPU_LRN: y = x / (bias + alpha / size * sum of x^2 over `size` channels around)^beta, fp32.
 *
 * Inputs: x
 * Makes: normalization over neighbouring channels
 */
#include "bm_atomic.h"
#include "bm_layer_axis.h"
#include "bm_layer_local.h"
#include "bm_layer_pipeline.h"
#include "bmcompiler_tpulayer_device.h"
#include "okk.h"

#define LRN_EXPONENT 32.0f /* the largest |beta| */
#define LRN_SIZE 1024      /* the most channels in a sum */

/* Input: x [N, C, ...]. The channels of a sum begin (size - 1) / 2 (rounded down) before the result's own; what is
 * before the first channel and behind the last one counts as zero. */
#define RUN_LEAST 40 /* words that take longer to copy than a run takes to begin */

__BM_PARAM__(TPU_LRN)
typedef struct {
    int size;
    float alpha, beta, bias;
} tpu_lrn_param_t;

/* The channels of a sum around a result's, as far as there are any. */
static window_axis sums_of(const tpu_lrn_param_t *p, int channels) {
    const int before = smaller((p->size - 1) / 2, channels - 1), after = smaller(p->size / 2, channels - 1);
    return (window_axis){channels, channels, before + after + 1, 1, 1, before, after, 0};
}

__BM_SHAPE__(TPU_LRN)
int lrn_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
              tpu_tensor_t *out_tensors, const int out_num) {
    if (param_size != (int)sizeof(tpu_lrn_param_t) || in_num != 1 || out_num != 1) return BM_LAYER_PARAM_INVALID;
    const tpu_lrn_param_t *p = param;
    const tpu_tensor_t *in = &in_tensors[0];
    tpu_tensor_t *out = &out_tensors[0];
    if (p->size < 1) return BM_LAYER_PARAM_INVALID;
    if (in->dtype != DTYPE_FP32 || in->dims < 2) return BM_LAYER_NOT_SUPPORTED;
    if (!(p->beta >= -LRN_EXPONENT && p->beta <= LRN_EXPONENT)) return BM_LAYER_NOT_SUPPORTED;
    if (sums_of(p, in->shape[1]).kernel > LRN_SIZE) return BM_LAYER_NOT_SUPPORTED;
    out->ttype = BMNET_NEURON;
    out->dtype = in->dtype;
    out->dims = in->dims;
    for (unsigned int d = 0; d < in->dims; d++) out->shape[d] = in->shape[d];
    return BM_LAYER_OK;
}

/* Pixels lie on lanes and columns, channels on rows: sums over channels are then pools. */
typedef struct {
    const tpu_lrn_param_t *param;
    window_axis channels;
    int batches, pixels;    /* of the tensor */
    int n, c, w;            /* extents of a tile: batches, channels, pixels per lane */
    int runs;               /* of pixels in a batch and channel */
    int ns, cs;             /* tiles */
    bool filled;            /* channels that do not exist are zeros in local memory */
    local_addr_t input[2], output[2], square, sum;
    bm_addr_t x, y;
} lrn_run;

typedef struct {
    int n, c, pixel;       /* first of the tile */
    dim4 input, output;    /* [batches, lanes, channels, pixels per lane] */
    window_part part;      /* channels that are read */
    int buffer;
} lrn_step;

/* Runs of pixels: full ones, one with fewer per lane, one with fewer pixels than lanes. */
static int run_at(const lrn_run *r, int run, int *lanes, int *w) {
    const int whole = r->pixels / (CHIP_NPU_NUM * r->w), rest = r->pixels % (CHIP_NPU_NUM * r->w);
    *lanes = CHIP_NPU_NUM;
    *w = r->w;
    if (run < whole) return run * CHIP_NPU_NUM * r->w;
    const int first = whole * CHIP_NPU_NUM * r->w;
    if (run == whole && rest >= CHIP_NPU_NUM) {
        *w = rest / CHIP_NPU_NUM;
        return first;
    }
    *lanes = rest % CHIP_NPU_NUM;
    *w = 1;
    return first + rest - *lanes;
}

static int count_runs(const lrn_run *r) {
    const int rest = r->pixels % (CHIP_NPU_NUM * r->w);
    return r->pixels / (CHIP_NPU_NUM * r->w) + (rest >= CHIP_NPU_NUM) + (rest % CHIP_NPU_NUM != 0);
}

static lrn_step step_at(const lrn_run *r, int index) {
    lrn_step s = {.buffer = index % 2};
    int lanes, w;
    s.pixel = run_at(r, index % r->runs, &lanes, &w);
    index /= r->runs;
    s.c = index % r->cs * r->c;
    s.n = index / r->cs * r->n;
    s.output = (dim4){smaller(r->n, r->batches - s.n), lanes, smaller(r->c, r->channels.out - s.c), w};
    s.part = bm_axis_part(&r->channels, s.c, s.output.h);
    s.input = s.output;
    s.input.h = r->filled ? bm_part_length(&s.part) : s.part.count;
    return s;
}

/* How a tile lies in DDR, words. */
static dim4 outside_of(const lrn_run *r, const lrn_step *s) {
    return (dim4){r->channels.size * r->pixels, s->output.w, r->pixels, 1};
}

static u64 address_of(const lrn_run *r, const lrn_step *s, int channel) {
    return 4 * (((u64)s->n * (u64)r->channels.size + (u64)channel) * (u64)r->pixels + (u64)s->pixel);
}

static void load_step(const void *run, int step) {
    const lrn_run *r = run;
    const lrn_step s = step_at(r, step);
    const dim4 from = outside_of(r, &s);
    dim4 to, shape = s.input;
    local_addr_t inside = r->input[s.buffer];
    okk_128_byte_aligned_stride_for_32bit(&to, 0, &s.input);
    if (r->filled) {
        okk_gdma_32bit_set_C_local(inside, (x32){.fp32 = 0}, &s.input, &to);
        inside += 4u * (local_addr_t)(s.part.zeros_before * to.h);
    }
    shape.h = s.part.count;
    okk_gdma_32bit_cpy_S2L(inside, r->x + address_of(r, &s, s.part.first), &shape, &to, &from);
}

/* y = base^-exponent: the product of base^-1/2, base^-1/4, base^-1/8, ... whose exponents add up to it. base is
 * overwritten. All three differ. */
static void negative_power(local_addr_t y, local_addr_t base, local_addr_t root, float exponent, const dim4 *shape) {
    float rest = exponent < 0 ? -exponent : exponent, part = 0.5f;
    bool first = true;
    if (exponent < 0) okk_bdc_sqrt(root, base, shape);
    else okk_bdc_rsqrt(root, base, shape);
    while (rest > 0 && part > 1e-7f) {
        if (rest < part) {
            okk_bdc_sqrt(base, root, shape);
            const local_addr_t next = base;
            base = root;
            root = next;
            part *= 0.5f;
            continue;
        }
        if (first) okk_bdc_32bit_cpy(y, root, shape, NULL, NULL);
        else okk_bdc_mul(y, y, root, shape, NULL, NULL, NULL);
        first = false;
        rest -= part;
    }
    if (first) okk_bdc_32bit_set_C(y, (x32){.fp32 = 1}, shape, NULL);
}

static void compute_step(const void *run, int step) {
    const lrn_run *r = run;
    const tpu_lrn_param_t *p = r->param;
    const lrn_step s = step_at(r, step);
    const dim4 *in = &s.input, *out = &s.output;
    const local_addr_t x = r->input[s.buffer], y = r->output[s.buffer];
    okk_bdc_mul(r->square, x, x, in, NULL, NULL, NULL);
    SumPoolParam sums = {.input_addr = r->square,
                         .output_addr = r->sum,
                         .input_shape = {(unsigned)in->n, (unsigned)in->c, (unsigned)in->h, (unsigned)in->w},
                         .kernel_h = (unsigned)r->channels.kernel,
                         .kernel_w = 1,
                         .stride_h = 1,
                         .stride_w = 1,
                         .coeff = p->alpha / (float)p->size};
    if (!r->filled) {
        sums.pad[0] = (unsigned)s.part.before;
        sums.pad[1] = (unsigned)s.part.after;
    }
    bm_atomic_sum_pool(&sums);
    okk_bdc_add_C(r->sum, r->sum, p->bias, out, NULL, NULL);
    negative_power(y, r->sum, r->square, p->beta, out);
    /* The tile's own channels begin behind those that only the sums need. */
    dim4 inside, stride;
    okk_128_byte_aligned_stride_for_32bit(&inside, 0, in);
    okk_128_byte_aligned_stride_for_32bit(&stride, 0, out);
    const int skip = s.c - s.part.first + (r->filled ? s.part.zeros_before : 0);
    okk_bdc_mul(y, y, x + 4u * (local_addr_t)(skip * inside.h), out, &stride, &stride, &inside);
}

static void store_step(const void *run, int step) {
    const lrn_run *r = run;
    const lrn_step s = step_at(r, step);
    const dim4 to = outside_of(r, &s);
    okk_gdma_32bit_cpy_L2S(r->y + address_of(r, &s, s.c), r->output[s.buffer], &s.output, &to, NULL);
}

/* Six buffers for the rows that a tile reads. */
static long long tile_bytes(const lrn_run *r) {
    const long long rows = bm_axis_length(&r->channels, r->c);
    return 6 * local_bytes(r->n, CHIP_NPU_NUM, rows, r->w);
}

static int largest(const lrn_run *r, int *value, int most) {
    int low = 1, high = most;
    while (low < high) {
        *value = low + (high - low + 1) / 2;
        if (tile_bytes(r) <= CHIP_LOCAL_BYTES) low = *value;
        else high = *value - 1;
    }
    return low;
}

__BM_GLOBAL__(TPU_LRN)
int lrn_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
               const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors, const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_addr, (void)buffer_size, (void)out_num;
    const int *shape = in_tensors[0].shape;
    lrn_run r = {.param = param, .channels = sums_of(param, shape[1]), .batches = shape[0], .n = 1, .w = 1,
                 .x = in_tensors[0].addr, .y = out_tensors[0].addr};
    r.pixels = in_tensors[0].elem_num / shape[0] / shape[1];
    r.filled = bm_axis_needs_zeros(&r.channels);
    r.c = smaller(shape[1], CHIP_WINDOW_SIDE_MAX + 1 - r.channels.kernel);
    r.w = largest(&r, &r.w, smaller(CHIP_WINDOW_SIDE_MAX, divide_up(r.pixels, CHIP_NPU_NUM)));
    /* Several tiles overlap, as long as the runs in DDR are not too short to be copied fast. */
    r.w = divide_up(r.w, smaller(4, larger(1, r.w / RUN_LEAST)));
    r.n = largest(&r, &r.n, r.batches);
    r.runs = count_runs(&r);
    r.cs = divide_up(shape[1], r.c);
    r.ns = divide_up(r.batches, r.n);
    const local_addr_t size = (local_addr_t)tile_bytes(&r) / 6;
    for (int i = 0; i < 2; i++) {
        r.input[i] = (local_addr_t)i * size;
        r.output[i] = (local_addr_t)(2 + i) * size;
    }
    r.square = 4 * size;
    r.sum = 5 * size;
    okk_initialize();
    bm_run_pipeline(r.ns * r.cs * r.runs, &r, load_step, compute_step, store_step);
    okk_poll();
    return BM_LAYER_OK;
}
