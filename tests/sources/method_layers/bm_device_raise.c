/* TPU_RAISE: adds 1 to the first half of the batches, in the input's own memory when the descriptor shares it. */
#include "bmcompiler_tpulayer_device.h"
#include "okk.h"

__BM_PARAM__(TPU_RAISE)
typedef struct {
    int shares;  /* is_share_mem_layer */
    int reshape; /* just_reshape: the work is then not done at all in a static net */
} tpu_raise_param_t;

__BM_SHAPE__(TPU_RAISE)
int raise_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                tpu_tensor_t *out_tensors, const int out_num) {
    (void)param, (void)param_size, (void)in_num, (void)out_num;
    out_tensors[0] = in_tensors[0];
    return BM_LAYER_OK;
}

__BM_GLOBAL__(TPU_RAISE)
int raise_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                 const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                 const int out_num) {
    (void)param, (void)param_size, (void)in_num, (void)out_num, (void)buffer_addr, (void)buffer_size;
    const int *s = in_tensors[0].shape;
    const dim4 whole = {s[0], s[1], s[2], s[3]}, half = {s[0] / 2, s[1], s[2], s[3]};
    const u64 x = in_tensors[0].addr, y = out_tensors[0].addr;
    okk_initialize();
    if (x != y) okk_gdma_32bit_cpy_S2S(y, x, &whole, NULL, NULL);
    okk_gdma_32bit_cpy_S2L(0, x, &half, NULL, NULL);
    okk_bdc_add_C(0, 0, 1.0f, &half, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(y, 0, &half, NULL, NULL);
    okk_poll();
    return BM_LAYER_OK;
}
