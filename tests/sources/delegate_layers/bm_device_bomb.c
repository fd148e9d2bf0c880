/* TPU_BOMB: y = 2 * x of up to 64 * 1024 elements, but a crash where the first extent is `at`, or with `at` below 0 in
 * the run of that number since the device started. */
#include "bmcompiler_tpulayer_device.h"
#include "okk.h"

__BM_PARAM__(TPU_BOMB)
typedef struct {
    int at;
} tpu_bomb_param_t;

__BM_SHAPE__(TPU_BOMB)
int bomb_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
               tpu_tensor_t *out_tensors, const int out_num) {
    (void)param, (void)param_size, (void)in_num, (void)out_num;
    out_tensors[0] = in_tensors[0];
    return BM_LAYER_OK;
}

__BM_GLOBAL__(TPU_BOMB)
int bomb_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_addr, (void)buffer_size, (void)out_num;
    static int runs;
    const int at = ((const tpu_bomb_param_t *)param)->at;
    if (in_tensors[0].shape[0] == at || ++runs == -at) *(volatile int *)(unsigned long)16 = 1;
    const dim4 shape = {1, 1, 1, (int)in_tensors[0].elem_num};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, in_tensors[0].addr, &shape, NULL, NULL);
    okk_bdc_mul_C(0, 0, 2.0f, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(out_tensors[0].addr, 0, &shape, NULL, NULL);
    okk_poll();
    return BM_LAYER_OK;
}
