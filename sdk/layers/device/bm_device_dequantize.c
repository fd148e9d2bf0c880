/* TPU_DEQUANTIZE: 8-bit integers in 4N as fp32: the product of integer and scale.
 *
 * The compiler puts it before layers that take fp32 where the net has a quantised tensor.
 *
 * Inputs: x, int8 or uint8 with a scale, of any shape
 * Makes: x as fp32
 */
#include "bm_layer_packed.h"
#include "bm_layer_quantised.h"
#include "bm_layer_shape.h"
#include "okk.h"

__BM_PARAM__(TPU_DEQUANTIZE)
typedef struct {
} tpu_dequantize_param_t;

__BM_SHAPE__(TPU_DEQUANTIZE)
int dequantize_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                     tpu_tensor_t *out_tensors, const int out_num) {
    (void)param;
    if (param_size != 0 || in_num != 1 || out_num != 1) return BM_LAYER_PARAM_INVALID;
    const tpu_tensor_t *in = &in_tensors[0];
    if (!bm_is_packed(in)) return BM_LAYER_NOT_SUPPORTED;
    bm_layer_same_shape(&out_tensors[0], in);
    out_tensors[0].dtype = DTYPE_FP32;
    return BM_LAYER_OK;
}

__BM_GLOBAL__(TPU_DEQUANTIZE)
int dequantize_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                      const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                      const int out_num) {
    (void)param, (void)param_size, (void)in_num, (void)buffer_addr, (void)buffer_size, (void)out_num;
    okk_initialize();
    bm_convert_whole(&out_tensors[0], &in_tensors[0], false);
    okk_poll();
    return BM_LAYER_OK;
}

__BM_LOCAL__(TPU_DEQUANTIZE)
int dequantize_local(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                     u64 buffer_offset, u64 buffer_size, tpu_tensor_t *out_tensors, const int out_num) {
    (void)param, (void)param_size, (void)in_num, (void)buffer_size, (void)out_num;
    const int *extent = out_tensors[0].slice_shape;
    const dim4 shape = {extent[0], extent[1], extent[2], extent[3]};
    bm_dequantise((local_addr_t)out_tensors[0].addr, (local_addr_t)in_tensors[0].addr, (local_addr_t)buffer_offset,
                  &shape, in_tensors[0].scale, in_tensors[0].dtype == DTYPE_INT8);
    return BM_LAYER_OK;
}
