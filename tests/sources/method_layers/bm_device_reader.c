/* TPU_READER: y = x + (the first element of x, read by the controller). Cannot be recorded. */
#include "bmcompiler_tpulayer_device.h"
#include "okk.h"

__BM_PARAM__(TPU_READER)
typedef struct {
    int says_so; /* must_dynamic_run */
    int depends; /* output_shape_is_dynamic */
    int fixed;   /* can_h_w_dynamic answers false */
} tpu_reader_param_t;

__BM_SHAPE__(TPU_READER)
int reader_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                 tpu_tensor_t *out_tensors, const int out_num) {
    (void)param, (void)param_size, (void)in_num, (void)out_num;
    out_tensors[0] = in_tensors[0];
    return BM_LAYER_OK;
}

__BM_GLOBAL__(TPU_READER)
int reader_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                  const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                  const int out_num) {
    (void)param, (void)param_size, (void)in_num, (void)out_num, (void)buffer_addr, (void)buffer_size;
    const int *s = in_tensors[0].shape;
    const dim4 shape = {s[0], s[1], s[2], s[3]};
    okk_initialize();
    okk_poll(); /* what the layers before have written is there now */
    const float first = *(const float *)okk_global_mem_addr(in_tensors[0].addr);
    okk_gdma_32bit_cpy_S2L(0, in_tensors[0].addr, &shape, NULL, NULL);
    okk_bdc_add_C(0, 0, first, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(out_tensors[0].addr, 0, &shape, NULL, NULL);
    okk_poll();
    return BM_LAYER_OK;
}
