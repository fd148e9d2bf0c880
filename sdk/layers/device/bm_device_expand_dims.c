/* TPU_EXPAND_DIMS: inserts a dimension of extent 1; the elements stay as they are.
 *
 * Inputs: x of any type
 * Makes: one more dimension of extent 1
 */
#include "bm_layer_move.h"
#include "okk.h"

__BM_PARAM__(TPU_EXPAND_DIMS)
typedef struct {
    int axis; /* where the new dimension goes; negative counts from the end: -1 is the last */
} tpu_expand_dims_param_t;

__BM_SHAPE__(TPU_EXPAND_DIMS)
int expand_dims_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                      tpu_tensor_t *out_tensors, const int out_num) {
    if (param_size != (int)sizeof(tpu_expand_dims_param_t) || in_num != 1 || out_num != 1)
        return BM_LAYER_PARAM_INVALID;
    const tpu_tensor_t *in = &in_tensors[0];
    tpu_tensor_t *out = &out_tensors[0];
    if (in->dims == MAX_SHAPE_DIMS) return BM_LAYER_NOT_SUPPORTED;
    const int dims = (int)in->dims + 1;
    int axis = ((const tpu_expand_dims_param_t *)param)->axis;
    if (axis < 0) axis += dims;
    if (axis < 0 || axis >= dims) return BM_LAYER_PARAM_INVALID;
    out->ttype = in->ttype;
    out->dtype = in->dtype;
    out->store_mode = in->store_mode;
    out->scale = in->scale;
    out->dims = (unsigned int)dims;
    for (int d = 0; d < dims; d++) out->shape[d] = d < axis ? in->shape[d] : d == axis ? 1 : in->shape[d - 1];
    return BM_LAYER_OK;
}

__BM_GLOBAL__(TPU_EXPAND_DIMS)
int expand_dims_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                       const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                       const int out_num) {
    (void)param, (void)param_size, (void)in_num, (void)buffer_addr, (void)buffer_size, (void)out_num;
    bm_move_whole(&out_tensors[0], &in_tensors[0]);
    return BM_LAYER_OK;
}
