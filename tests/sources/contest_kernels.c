/* Kernels of the kinds that contests ask for, each on two sets of buffers: a piece is loaded and another stored while
 * a third is computed. Pieces are batches (softmax: 64 rows; the product of matrices: slices of the inner dimension).
 */
#include "okk.h"

typedef struct {
    unsigned long long out, a, b, bias;
    int n, c, h, w; /* of a */
    int oc, k, pad, stride;
} __attribute__((packed)) args_t;

enum { NPUS = 64, BUFFER = 0x10000, IN = 0, OUT = 2 * BUFFER, WORK = 4 * BUFFER, CONSTANTS = 6 * BUFFER };

static local_addr_t buffer(local_addr_t base, int piece) { return base + (local_addr_t)(piece % 2) * BUFFER; }
static unsigned long long words(unsigned long long addr, long long count) { return addr + 4 * count; }

typedef void (*step)(const args_t *p, int piece);

static void in_three_stages(const args_t *p, int pieces, step load, step compute, step store) {
    for (int i = 0; i < pieces + 2; i++) {
        okk_parallel_start();
        if (i < pieces) load(p, i);
        if (i >= 1 && i <= pieces) compute(p, i - 1);
        if (i >= 2) store(p, i - 2);
        okk_parallel_end();
    }
    okk_poll();
}

/* ---- softmax over the rows of a[n, w] ---- */

static dim4 rows_of(const args_t *p, int piece) {
    int left = p->n - piece * NPUS;
    return (dim4){1, left < NPUS ? left : NPUS, 1, p->w};
}

static void softmax_load(const args_t *p, int piece) {
    dim4 shape = rows_of(p, piece);
    okk_gdma_32bit_cpy_S2L(buffer(IN, piece), words(p->a, (long long)piece * NPUS * p->w), &shape, NULL, NULL);
}

static void softmax_compute(const args_t *p, int piece) {
    dim4 shape = rows_of(p, piece), one = {0, 0, 0, 0};
    local_addr_t in = buffer(IN, piece), out = buffer(OUT, piece), of_row = WORK + BUFFER;
    okk_bdc_max_pool2d(of_row, in, &shape, 1, p->w, NULL, NULL);
    okk_bdc_sub(in, in, of_row, &shape, NULL, NULL, &one);
    okk_bdc_exp(out, in, WORK, &shape);
    okk_bdc_avg_pool2d(of_row, out, &shape, 1, p->w, NULL, NULL);
    okk_bdc_div(out, out, of_row, &shape, NULL, NULL, &one);
    okk_bdc_mul_C(out, out, 1.0f / (float)p->w, &shape, NULL, NULL);
}

static void softmax_store(const args_t *p, int piece) {
    dim4 shape = rows_of(p, piece);
    okk_gdma_32bit_cpy_L2S(words(p->out, (long long)piece * NPUS * p->w), buffer(OUT, piece), &shape, NULL, NULL);
}

void contest_softmax(const void *args) {
    const args_t *p = args;
    okk_initialize();
    in_three_stages(p, (p->n + NPUS - 1) / NPUS, softmax_load, softmax_compute, softmax_store);
}
OKKERNEL_FUNC_REGISTER(contest_softmax)

/* ---- windows: a batch is a piece ---- */

static dim4 batch_of(const args_t *p) { return (dim4){1, p->c, p->h, p->w}; }

static dim4 result_of(const args_t *p, int channels) {
    return (dim4){1, channels, (p->h + 2 * p->pad - p->k) / p->stride + 1, (p->w + 2 * p->pad - p->k) / p->stride + 1};
}

static void batch_load(const args_t *p, int piece) {
    dim4 shape = batch_of(p);
    okk_gdma_32bit_cpy_S2L(buffer(IN, piece), words(p->a, (long long)piece * p->c * p->h * p->w), &shape, NULL, NULL);
}

static void batch_store(const args_t *p, int piece) {
    dim4 shape = result_of(p, p->oc);
    long long size = (long long)shape.c * shape.h * shape.w;
    okk_gdma_32bit_cpy_L2S(words(p->out, piece * size), buffer(OUT, piece), &shape, NULL, NULL);
}

static void constants_load(local_addr_t addr, unsigned long long from, dim4 shape) {
    dim4 stride;
    okk_compact_stride(&stride, 0, &shape);
    okk_gdma_32bit_cpy_S2L(addr, from, &shape, &stride, NULL);
}

static void conv_compute(const args_t *p, int piece) {
    dim4 shape = batch_of(p);
    Padding padding = {p->pad, p->pad, p->pad, p->pad};
    dim2 stride = {p->stride, p->stride};
    dim4 weights = {(p->c + 1) / 2, p->oc, p->k, p->k}, weights_stride; /* of pairs */
    okk_compact_stride(&weights_stride, 0, &weights);
    okk_bdc_conv2d(buffer(OUT, piece), buffer(IN, piece), CONSTANTS, WORK, &shape, p->oc, p->k, p->k, NULL,
                   &weights_stride, true, false, &padding, &stride, NULL);
}

/* b: [pairs of input channels, oc, k * k, 2]; bias: [oc] */
void contest_conv2d(const void *args) {
    const args_t *p = args;
    okk_initialize();
    constants_load(CONSTANTS, p->b, (dim4){(p->c + 1) / 2, p->oc, p->k * p->k, 2});
    constants_load(WORK, p->bias, (dim4){1, p->oc, 1, 1});
    in_three_stages(p, p->n, batch_load, conv_compute, batch_store);
}
OKKERNEL_FUNC_REGISTER(contest_conv2d)

static void depthwise_compute(const args_t *p, int piece) {
    dim4 shape = batch_of(p);
    Padding padding = {p->pad, p->pad, p->pad, p->pad};
    dim2 stride = {p->stride, p->stride};
    okk_bdc_depthwise2d(buffer(OUT, piece), buffer(IN, piece), CONSTANTS, WORK, &shape, p->k, p->k, true, &padding,
                        &stride, NULL);
}

/* b: [c, k, k]; bias: [c] */
void contest_depthwise(const void *args) {
    const args_t *p = args;
    okk_initialize();
    constants_load(CONSTANTS, p->b, (dim4){1, p->c, p->k, p->k});
    constants_load(WORK, p->bias, (dim4){1, p->c, 1, 1});
    in_three_stages(p, p->n, batch_load, depthwise_compute, batch_store);
}
OKKERNEL_FUNC_REGISTER(contest_depthwise)

static void pool_compute(const args_t *p, int piece) {
    dim4 shape = batch_of(p);
    dim2 stride = {p->stride, p->stride};
    okk_bdc_max_pool2d(buffer(OUT, piece), buffer(IN, piece), &shape, p->k, p->k, NULL, &stride);
}

void contest_max_pool(const void *args) {
    const args_t *p = args;
    okk_initialize();
    in_three_stages(p, p->n, batch_load, pool_compute, batch_store);
}
OKKERNEL_FUNC_REGISTER(contest_max_pool)

/* ---- out[n, oc] = a[n, w] * b[w, oc]: k columns of a at a time, added up in one place ---- */

enum { LEFT_PER_CHANNEL = 4, RIGHT_PER_CHANNEL = 2 };

static dim4 left_of(const args_t *p) { return (dim4){p->n, p->k / LEFT_PER_CHANNEL, 1, LEFT_PER_CHANNEL}; }

static void matmul_load(const args_t *p, int piece) {
    dim4 left = left_of(p), right = {p->k, p->oc / RIGHT_PER_CHANNEL, 1, RIGHT_PER_CHANNEL};
    dim4 from = {p->w, LEFT_PER_CHANNEL, LEFT_PER_CHANNEL, 1};
    okk_gdma_32bit_cpy_S2L(buffer(IN, piece), words(p->a, (long long)piece * p->k), &left, NULL, &from);
    okk_gdma_32bit_cpy_S2L(buffer(WORK, piece), words(p->b, (long long)piece * p->k * p->oc), &right, NULL, NULL);
}

static void matmul_compute(const args_t *p, int piece) {
    okk_bdc_matmul(OUT, buffer(IN, piece), buffer(WORK, piece), 0, p->n, p->k, p->oc, LEFT_PER_CHANNEL,
                   RIGHT_PER_CHANNEL, false, piece > 0);
}

static void matmul_store(const args_t *p, int piece) {
    (void)p, (void)piece; /* at the end, the whole */
}

void contest_matmul(const void *args) {
    const args_t *p = args;
    dim4 shape = {p->n, p->oc / RIGHT_PER_CHANNEL, 1, RIGHT_PER_CHANNEL};
    okk_initialize();
    in_three_stages(p, p->w / p->k, matmul_load, matmul_compute, matmul_store);
    okk_gdma_32bit_cpy_L2S(p->out, OUT, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(contest_matmul)
