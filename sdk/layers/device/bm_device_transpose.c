/* TPU_TRANSPOSE: the dimensions of its input in another order; any type.
 *
 * Inputs: x of any type
 * Makes: the dimensions in another order
 */
#include "bm_layer_local.h"
#include "bm_layer_move.h"
#include "bm_layer_shape.h"
#include "okk.h"

__BM_PARAM__(TPU_TRANSPOSE)
typedef struct {
    int dims;                  /* those of the input */
    int order[MAX_SHAPE_DIMS]; /* dimension d of the output is dimension order[d] of the input */
} tpu_transpose_param_t;

__BM_SHAPE__(TPU_TRANSPOSE)
int transpose_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                    tpu_tensor_t *out_tensors, const int out_num) {
    if (param_size != (int)sizeof(tpu_transpose_param_t) || in_num != 1 || out_num != 1) return BM_LAYER_PARAM_INVALID;
    const tpu_transpose_param_t *p = param;
    const tpu_tensor_t *in = &in_tensors[0];
    if (p->dims != (int)in->dims) return BM_LAYER_PARAM_INVALID;
    bm_output_like(&out_tensors[0], in, p->dims);
    unsigned int seen = 0;
    for (int d = 0; d < p->dims; d++) {
        const int source = p->order[d];
        if (source < 0 || source >= p->dims || (seen >> source & 1) != 0) return BM_LAYER_PARAM_INVALID;
        seen |= 1u << source;
        out_tensors[0].shape[d] = in->shape[source];
    }
    return BM_LAYER_OK;
}

__BM_GLOBAL__(TPU_TRANSPOSE)
int transpose_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                     const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                     const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_addr, (void)buffer_size, (void)out_num;
    const tpu_transpose_param_t *p = param;
    const tpu_tensor_t x = bm_layer_as_words(&in_tensors[0]), y = bm_layer_as_words(&out_tensors[0]);
    const tpu_tensor_t *in = &x, *out = &y;
    bm_move m = {.dims = 0};
    for (int d = 0; d < p->dims; d++)
        bm_move_add(&m, out->shape[d], bm_stride_of(out, d), bm_stride_of(in, p->order[d]));
    okk_initialize();
    bm_move_run(out->addr, in->addr, &m, bm_element_bytes(in->dtype));
    okk_poll();
    return BM_LAYER_OK;
}

/* ---- local: a tile of the output from the whole input in DDR, as one copy; the last dimension stays ---- */

__BM_LOCAL__(TPU_TRANSPOSE)
int transpose_local(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                    u64 buffer_offset, u64 buffer_size, tpu_tensor_t *out_tensors, const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_offset, (void)buffer_size, (void)out_num;
    const tpu_transpose_param_t *p = param;
    const tpu_tensor_t x = bm_layer_as_words(&in_tensors[0]), y = bm_layer_as_words(&out_tensors[0]);
    int step[4] = {1, 1, 1, 1};
    long long first = 0;
    for (int d = 0; d < p->dims; d++) {
        const int stride = (int)bm_stride_of(&x, p->order[d]);
        first += (long long)y.processed[d] * stride;
        step[d] = stride;
    }
    const dim4 shape = local_extents(&y), from = {step[0], step[1], step[2], step[3]};
    okk_gdma_32bit_cpy_S2L((local_addr_t)y.addr, x.addr + 4 * (u64)first, &shape, NULL, &from);
    return BM_LAYER_OK;
}
