#include "bm_layer_quantised.h"

#include "bm_layer_local.h"
#include "bm_layer_pipeline.h"

#define TOGETHER 4    /* batches in a word of 4N */
#define COLUMNS 2048  /* elements of a batch that a lane has in one step */
#define WORDS_BYTES (4u * COLUMNS)
#define FLOATS_BYTES (TOGETHER * WORDS_BYTES)

void bm_quantise(local_addr_t y, local_addr_t x, local_addr_t work, const dim4 *shape, float scale, bool is_signed) {
    /* Added to a number under 2^22, the sum has no fraction; it is rounded there as fp32 is. */
    const float whole = 12582912.0f;
    okk_bdc_mul_C(work, x, 1.0f / scale, shape, NULL, NULL);
    okk_bdc_max_C(work, work, is_signed ? -128.0f : 0.0f, shape, NULL, NULL);
    okk_bdc_min_C(work, work, is_signed ? 127.0f : 255.0f, shape, NULL, NULL);
    okk_bdc_add_C(work, work, whole, shape, NULL, NULL);
    okk_bdc_sub_C(work, work, whole, shape, NULL, NULL);
    okk_bdc_fp32_to_4N_int8(y, work, work, shape, is_signed);
}

void bm_dequantise(local_addr_t y, local_addr_t x, local_addr_t work, const dim4 *shape, float scale, bool is_signed) {
    okk_bdc_4N_int8_to_fp32(y, x, work, shape, is_signed, true);
    okk_bdc_mul_C(y, y, scale, shape, NULL, NULL);
}

/* ---- from DDR and back: as many batches as share a word, dealt over the lanes whatever their shape ---- */

typedef struct {
    const tpu_tensor_t *out, *in, *integers; /* integers: the one of both in 4N */
    bool quantise;
    int elements; /* of a batch */
    int pieces;   /* steps of one word of batches */
} conversion;

/* What one step does. batches: from `first` on; elements: from `at` on, in the shape [batches, lanes, 1, columns]. */
typedef struct {
    dim4 shape;
    int group, at;
    local_addr_t floats, words;
} piece;

static piece piece_of(const conversion *c, int step) {
    const int group = step / c->pieces, index = step % c->pieces, columns = c->elements / CHIP_NPU_NUM;
    const int at = index * COLUMNS, batches = smaller(c->in->shape[0] - group * TOGETHER, TOGETHER);
    const local_addr_t turn = (local_addr_t)(step % 2);
    piece p = {{batches, CHIP_NPU_NUM, 1, smaller(columns - at, COLUMNS)}, group, at * CHIP_NPU_NUM,
               turn * FLOATS_BYTES, 2 * FLOATS_BYTES + turn * WORDS_BYTES};
    if (at >= columns) { /* the last elements, fewer than lanes */
        p.at = columns * CHIP_NPU_NUM;
        p.shape.c = c->elements - p.at, p.shape.w = 1;
    }
    return p;
}

static void move(const conversion *c, const piece *p, bool floats, bool load) {
    const bool in = load;
    const u64 base = in ? c->in->addr : c->out->addr;
    const u64 batch = (u64)c->elements * 4;
    const dim4 stride = {c->elements, p->shape.w, p->shape.w, 1};
    dim4 shape = p->shape;
    if (!floats) shape.n = 1;
    const u64 addr = base + (u64)p->group * (floats ? TOGETHER : 1) * batch + (u64)p->at * 4;
    if (load)
        okk_gdma_32bit_cpy_S2L(floats ? p->floats : p->words, addr, &shape, NULL, &stride);
    else
        okk_gdma_32bit_cpy_L2S(addr, floats ? p->floats : p->words, &shape, &stride, NULL);
}

static void load(const void *run, int step) {
    const conversion *c = run;
    const piece p = piece_of(c, step);
    move(c, &p, c->quantise, true);
}

static void compute(const void *run, int step) {
    const conversion *c = run;
    const piece p = piece_of(c, step);
    const bool is_signed = c->integers->dtype == DTYPE_INT8;
    if (c->quantise && p.shape.n < TOGETHER) { /* the words are stored whole */
        const dim4 words = {1, p.shape.c, 1, p.shape.w};
        okk_bdc_32bit_set_C(p.words, (x32){.u32 = 0}, &words, NULL);
    }
    if (c->quantise)
        bm_quantise(p.words, p.floats, p.floats, &p.shape, c->integers->scale, is_signed);
    else
        bm_dequantise(p.floats, p.words, p.words, &p.shape, c->integers->scale, is_signed);
}

static void store(const void *run, int step) {
    const conversion *c = run;
    const piece p = piece_of(c, step);
    move(c, &p, !c->quantise, false);
}

void bm_convert_whole(const tpu_tensor_t *out, const tpu_tensor_t *in, bool quantise) {
    const int elements = in->elem_num / in->shape[0], columns = elements / CHIP_NPU_NUM;
    const conversion c = {.out = out,
                          .in = in,
                          .integers = quantise ? out : in,
                          .quantise = quantise,
                          .elements = elements,
                          .pieces = divide_up(columns, COLUMNS) + (elements % CHIP_NPU_NUM != 0)};
    bm_run_pipeline(c.pieces * divide_up(in->shape[0], TOGETHER), &c, load, compute, store);
}
