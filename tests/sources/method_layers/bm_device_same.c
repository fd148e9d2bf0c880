/* TPU_SAME: a copy, whose local function finds its tile in a larger one. */
#include "bmcompiler_tpulayer_device.h"
#include "okk.h"

__BM_PARAM__(TPU_SAME)
typedef struct {
} tpu_same_param_t;

__BM_SHAPE__(TPU_SAME)
int same_reshape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                 tpu_tensor_t *out_tensors, const int out_num) {
    (void)param, (void)param_size, (void)in_num, (void)out_num;
    out_tensors[0] = in_tensors[0];
    return BM_LAYER_OK;
}

__BM_GLOBAL__(TPU_SAME)
int same_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                const int out_num) {
    (void)param, (void)param_size, (void)in_num, (void)out_num, (void)buffer_addr, (void)buffer_size;
    const int *s = in_tensors[0].shape;
    const dim4 shape = {s[0], s[1], s[2], s[3]};
    okk_initialize();
    okk_gdma_32bit_cpy_S2S(out_tensors[0].addr, in_tensors[0].addr, &shape, NULL, NULL);
    okk_poll();
    return BM_LAYER_OK;
}

__BM_LOCAL__(TPU_SAME)
int same_local(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
               const u64 buffer_offset, const u64 buffer_size, tpu_tensor_t *out_tensors, const int out_num) {
    (void)param, (void)param_size, (void)in_num, (void)out_num, (void)buffer_offset, (void)buffer_size;
    const tpu_tensor_t *in = &in_tensors[0], *out = &out_tensors[0];
    const int *a = in->slice_shape, *b = out->slice_shape;
    const dim4 have = {a[0], a[1], a[2], a[3]}, want = {b[0], b[1], b[2], b[3]};
    dim4 from, to;
    okk_128_byte_aligned_stride_for_32bit(&from, 0, &have);
    okk_128_byte_aligned_stride_for_32bit(&to, 0, &want);
    const int row = out->processed[2] - in->processed[2], column = out->processed[3] - in->processed[3];
    okk_bdc_32bit_cpy((local_addr_t)out->addr, (local_addr_t)in->addr + 4 * (row * from.h + column), &want, &to, &from);
    return BM_LAYER_OK;
}
