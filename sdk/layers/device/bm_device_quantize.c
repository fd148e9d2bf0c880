/* TPU_QUANTIZE: fp32 as 8-bit integers in 4N, value = scale x integer.
 *
 * The nearest integer to the value times 1 / scale, of two the even one; beyond the ends of the type its ends. The
 * compiler puts it before layers that take such integers (input_dtype).
 *
 * Inputs: x
 * Makes: x as int8 or uint8, of any shape
 */
#include "bm_layer_quantised.h"
#include "bm_layer_shape.h"
#include "okk.h"

__BM_PARAM__(TPU_QUANTIZE)
typedef struct {
    int dtype; /* DTYPE_INT8 or DTYPE_UINT8 */
    float scale;
} tpu_quantize_param_t;

__BM_SHAPE__(TPU_QUANTIZE)
int quantize_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                   tpu_tensor_t *out_tensors, const int out_num) {
    if (param_size != (int)sizeof(tpu_quantize_param_t) || in_num != 1 || out_num != 1) return BM_LAYER_PARAM_INVALID;
    const tpu_quantize_param_t *p = param;
    if ((p->dtype != DTYPE_INT8 && p->dtype != DTYPE_UINT8) || !(p->scale > 0.0f)) return BM_LAYER_PARAM_INVALID;
    if (in_tensors[0].dtype != DTYPE_FP32) return BM_LAYER_NOT_SUPPORTED;
    bm_layer_same_shape(&out_tensors[0], &in_tensors[0]);
    out_tensors[0].dtype = (unsigned char)p->dtype;
    out_tensors[0].store_mode = STORE_MODE_4N;
    out_tensors[0].scale = p->scale;
    return BM_LAYER_OK;
}

__BM_GLOBAL__(TPU_QUANTIZE)
int quantize_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                    const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                    const int out_num) {
    (void)param, (void)param_size, (void)in_num, (void)buffer_addr, (void)buffer_size, (void)out_num;
    okk_initialize();
    bm_convert_whole(&out_tensors[0], &in_tensors[0], true);
    okk_poll();
    return BM_LAYER_OK;
}

__BM_LOCAL__(TPU_QUANTIZE)
int quantize_local(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                   u64 buffer_offset, u64 buffer_size, tpu_tensor_t *out_tensors, const int out_num) {
    (void)param, (void)param_size, (void)in_num, (void)buffer_size, (void)out_num;
    const int *extent = out_tensors[0].slice_shape;
    const dim4 shape = {extent[0], extent[1], extent[2], extent[3]};
    bm_quantise((local_addr_t)out_tensors[0].addr, (local_addr_t)in_tensors[0].addr, (local_addr_t)buffer_offset, &shape,
                out_tensors[0].scale, out_tensors[0].dtype == DTYPE_INT8);
    return BM_LAYER_OK;
}
