/* TPU_EXPAND: its input repeated along dimensions of extent 1 (ONNX broadcasting); any type.
 *
 * Inputs: x of any type
 * Makes: x repeated along dimensions of extent 1
 */
#include "bm_layer_move.h"
#include "bm_layer_shape.h"
#include "okk.h"

__BM_PARAM__(TPU_EXPAND)
typedef struct {
    int dims; /* of the shape wanted, 1 to 8 */
    /* Extents, aligned at the last dimension; where one is 1, or there is none, the input's is kept. */
    int shape[MAX_SHAPE_DIMS];
} tpu_expand_param_t;

__BM_SHAPE__(TPU_EXPAND)
int expand_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                 tpu_tensor_t *out_tensors, const int out_num) {
    if (param_size != (int)sizeof(tpu_expand_param_t) || in_num != 1 || out_num != 1) return BM_LAYER_PARAM_INVALID;
    const tpu_expand_param_t *p = param;
    const tpu_tensor_t *in = &in_tensors[0];
    if (p->dims < 1 || p->dims > MAX_SHAPE_DIMS) return BM_LAYER_PARAM_INVALID;
    const int own = (int)in->dims, dims = p->dims > own ? p->dims : own;
    bm_output_like(&out_tensors[0], in, dims);
    for (int d = 0; d < dims; d++) {
        const int wanted = d < dims - p->dims ? 1 : p->shape[d - (dims - p->dims)];
        const int given = d < dims - own ? 1 : in->shape[d - (dims - own)];
        if (wanted < 1 || (wanted != 1 && given != 1 && wanted != given)) return BM_LAYER_PARAM_INVALID;
        out_tensors[0].shape[d] = wanted == 1 ? given : wanted;
    }
    if (!bm_layer_keeps_batches(&out_tensors[0], in)) return BM_LAYER_NOT_SUPPORTED;
    return BM_LAYER_OK;
}

__BM_GLOBAL__(TPU_EXPAND)
int expand_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                  const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                  const int out_num) {
    (void)param, (void)param_size, (void)in_num, (void)buffer_addr, (void)buffer_size, (void)out_num;
    const tpu_tensor_t x = bm_layer_as_words(&in_tensors[0]), y = bm_layer_as_words(&out_tensors[0]);
    const tpu_tensor_t *in = &x, *out = &y;
    const int added = (int)out->dims - (int)in->dims;
    bm_move m = {.dims = 0};
    for (int d = 0; d < (int)out->dims; d++) {
        const bool same = d >= added && in->shape[d - added] == out->shape[d];
        bm_move_add(&m, out->shape[d], bm_stride_of(out, d), same ? bm_stride_of(in, d - added) : 0);
    }
    okk_initialize();
    bm_move_run(out->addr, in->addr, &m, bm_element_bytes(in->dtype));
    okk_poll();
    return BM_LAYER_OK;
}
