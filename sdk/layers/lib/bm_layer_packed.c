#include "bm_layer_packed.h"

#include "bm_layer_shape.h"

void bm_packed_output(tpu_tensor_t *out, int dtype, float scale) {
    out->ttype = BMNET_NEURON;
    out->dtype = (unsigned char)dtype;
    out->store_mode = STORE_MODE_4N;
    out->scale = scale;
}

dim4 bm_packed_shape(const bm_packed *p, const bm_job *job) {
    dim4 shape = job->shape;
    shape.n = p->batches > 0 ? p->batches : BM_PACKED * shape.n;
    return shape;
}

void bm_packed_narrow(local_addr_t y, local_addr_t x, const dim4 *shape, bool is_signed, bool relu) {
    if (relu || !is_signed) okk_bdc_fixed_point_packed_max_C(x, x, 0, shape, NULL, NULL, S16_OP_S16_TO_S16);
    okk_bdc_fixed_point_packed_add_C(y, x, 0, shape, NULL, NULL, is_signed ? S16_OP_S16_TO_S8 : U16_OP_U16_TO_U8, 0);
}

/* ---- both functions ---- */

typedef struct {
    bm_packed p;
    int operands;
    bm_job_function function;
} packed_call;

/* A step of 0 along n repeats one batch of a word, not all of its batches. That is right for a constant, which has four
 * times the same. Where another operand repeats its words, each is computed by itself, with a step that is not 0. */
static void compute_tile(const void *param, const bm_job *job) {
    packed_call c = *(const packed_call *)param;
    const int words = job->shape.n, batches = c.p.batches;
    bm_job part = *job;
    dim4 strides[BM_TILE_OPERANDS], aligned;
    bool again = false;
    for (int k = 0; k < c.operands; k++) {
        const dim4 *s = job->x[k].stride;
        if (s == NULL || s->n != 0 || bm_is_packed_words(&c.p.in[k])) continue;
        strides[k] = *s;
        strides[k].n = 1; /* the only word is the first */
        part.x[k].stride = &strides[k];
        again = true;
    }
    if (!again || words == 1) {
        c.function(&c.p, &part);
        return;
    }
    part.shape.n = 1;
    okk_128_byte_aligned_stride_for_32bit(&aligned, 0, &job->shape);
    for (int i = 0; i < words; i++) {
        for (int k = 0; k < c.operands; k++) {
            const dim4 *s = job->x[k].stride != NULL ? job->x[k].stride : &aligned;
            part.x[k].addr = job->x[k].addr + 4u * (local_addr_t)(i * s->n);
        }
        part.y.addr = job->y.addr + 4u * (local_addr_t)(i * aligned.n);
        if (batches > 0) c.p.batches = smaller(batches - i * BM_PACKED, BM_PACKED);
        c.function(&c.p, &part);
    }
}

void bm_packed_whole(bm_packed p, int operands, int work_buffers, bm_job_function function) {
    const tpu_tensor_t out = bm_layer_as_words(p.out);
    tpu_tensor_t in[BM_TILE_OPERANDS];
    for (int k = 0; k < operands; k++) in[k] = bm_layer_as_words(&p.in[k]);
    bm_tiling t = bm_tiling_of(&out, in, operands);
    t.work_buffers = work_buffers;
    p.batches = 0;
    const packed_call call = {p, operands, function};
    bm_run_tiles(t, compute_tile, &call);
}

void bm_packed_tile(bm_packed p, int operands, u64 buffer_offset, bm_job_function function) {
    const tpu_tensor_t out = bm_layer_as_words(p.out);
    tpu_tensor_t in[BM_TILE_OPERANDS];
    dim4 strides[BM_TILE_OPERANDS];
    for (int k = 0; k < operands; k++) in[k] = bm_layer_as_words(&p.in[k]);
    const bm_job job = bm_local_job(&out, in, operands, buffer_offset, strides);
    p.batches = p.out->slice_shape[0];
    const packed_call call = {p, operands, function};
    compute_tile(&call, &job);
}
