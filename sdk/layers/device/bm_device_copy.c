/* TPU_COPY: the input as it is; any type, any shape.
 *
 * Inputs: x of any type
 * Makes: x
 */
#include "bm_layer_move.h"
#include "okk.h"

__BM_PARAM__(TPU_COPY)
typedef struct {
    int reserved; /* a parameter struct is never empty */
} tpu_copy_param_t;

__BM_SHAPE__(TPU_COPY)
int copy_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
               tpu_tensor_t *out_tensors, const int out_num) {
    (void)param;
    if (param_size != (int)sizeof(tpu_copy_param_t) || in_num != 1 || out_num != 1) return BM_LAYER_PARAM_INVALID;
    const tpu_tensor_t *in = &in_tensors[0];
    bm_output_like(&out_tensors[0], in, (int)in->dims);
    for (unsigned int d = 0; d < in->dims; d++) out_tensors[0].shape[d] = in->shape[d];
    return BM_LAYER_OK;
}

__BM_GLOBAL__(TPU_COPY)
int copy_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                const int out_num) {
    (void)param, (void)param_size, (void)in_num, (void)buffer_addr, (void)buffer_size, (void)out_num;
    bm_move_whole(&out_tensors[0], &in_tensors[0]);
    return BM_LAYER_OK;
}
