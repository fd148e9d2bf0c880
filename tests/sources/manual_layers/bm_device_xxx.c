/* A layer as the manual of the original system writes it: its markers, its prototypes, its empty struct. */
#include "bmcompiler_tpulayer_device.h"
#include "bm_atomic.h"
#include "okk.h"

void bm_xxx_kernel(u64 in_addr, u64 out_addr, const int *shape);

__BM_PARAM__(TPU_XXX) typedef struct {
} tpu_xxx_param_t;

void bm_xxx_kernel(u64 in_addr, u64 out_addr, const int *shape) {
    const dim4 whole = {shape[0], shape[1], shape[2], shape[3]};
    okk_gdma_32bit_cpy_S2S(out_addr, in_addr, &whole, NULL, NULL);
}

// buffer 当layer描述符中get_global_buffer_size()返回大于0时有效
__BM_GLOBAL__(TPU_XXX) int xxx_global(const void* param, const int param_size,  // layer param
                const tpu_tensor_t* in_tensors, const int in_num,               // input tensors
                const bm_addr_t buffer_addr, const bm_size_t buffer_size,       // buffer
                tpu_tensor_t* out_tensors, const int out_num) {                 // output tensors
    if (param_size != 0 || in_num != 1 || out_num != 1) return BM_LAYER_PARAM_INVALID;
    bm_xxx_kernel(in_tensors[0].addr, out_tensors[0].addr, in_tensors[0].shape);
    return 0;
}

// buffer 当layer描述符中get_local_buffer_size()返回大于0时有效
__BM_LOCAL__(TPU_XXX) int xxx_local(const void* param, const int param_size,   // layer param
               const tpu_tensor_t* in_tensors, const int in_num,               // input tensors
               const u64 buffer_offset, const u64 buffer_size,                 // buffer
               tpu_tensor_t* out_tensors, const int out_num) {                 // output tensors
    const int *tile = out_tensors[0].slice_shape;
    const dim4 shape = {tile[0], tile[1], tile[2], tile[3]};
    okk_bdc_32bit_cpy((local_addr_t)out_tensors[0].addr, (local_addr_t)in_tensors[0].addr, &shape, NULL, NULL);
    return 0;
}

// 需要根据param,in_tensors来确定out_tensors的ttype,dtype,shape信息
__BM_SHAPE__(TPU_XXX) int xxx_reshape(const void* param, const int param_size, // layer param
                const tpu_tensor_t* in_tensors, const int in_num,              // input tensors
                tpu_tensor_t* out_tensors, const int out_num) {                // output tensors
    out_tensors[0].ttype = in_tensors[0].ttype;
    out_tensors[0].dtype = in_tensors[0].dtype;
    out_tensors[0].dims = in_tensors[0].dims;
    for (int d = 0; d < MAX_SHAPE_DIMS; d++) {
        out_tensors[0].shape[d] = in_tensors[0].shape[d];
        out_tensors[0].slice_pad[d] = in_tensors[0].slice_pad[d];
        out_tensors[0].slice_shape[d] = in_tensors[0].slice_shape[d];
        out_tensors[0].processed[d] = in_tensors[0].processed[d];
    }
    return BM_LAYER_OK;
}
