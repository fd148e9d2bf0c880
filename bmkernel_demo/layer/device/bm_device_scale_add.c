/* A layer that lets the bmkernel project's function do its work. */
#include "bmcompiler_tpulayer_device.h"
#include "scale_add.h"

__BM_PARAM__(TPU_SCALE_ADD)
typedef struct {
    float factor;
} tpu_scale_add_param_t;

__BM_SHAPE__(TPU_SCALE_ADD)
int scale_add_reshape(const void *param, const int param_size, const tpu_tensor_t *in_tensors,
                      const int in_num, tpu_tensor_t *out_tensors, const int out_num) {
    if (in_num != 2 || out_num != 1 || in_tensors[0].elem_num != in_tensors[1].elem_num)
        return BM_LAYER_PARAM_INVALID;
    out_tensors[0].ttype = in_tensors[0].ttype;
    out_tensors[0].dtype = in_tensors[0].dtype;
    out_tensors[0].dims = in_tensors[0].dims;
    for (unsigned int i = 0; i < in_tensors[0].dims; i++)
        out_tensors[0].shape[i] = in_tensors[0].shape[i];
    return BM_LAYER_OK;
}

__BM_GLOBAL__(TPU_SCALE_ADD)
int scale_add_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors,
                     const int in_num, const bm_addr_t buffer_addr, const bm_size_t buffer_size,
                     tpu_tensor_t *out_tensors, const int out_num) {
    const tpu_scale_add_param_t *p = param;
    if (in_tensors[0].dtype != DTYPE_FP32) return BM_LAYER_NOT_SUPPORTED;
    scale_add_fp32(out_tensors[0].addr, in_tensors[0].addr, in_tensors[1].addr,
                   (unsigned long long)in_tensors[0].elem_num, p->factor);
    return BM_LAYER_OK;
}
