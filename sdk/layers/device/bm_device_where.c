/* TPU_WHERE: condition ? a : b, element by element, for 32-bit tensors of up to 8 dimensions, broadcast as numpy does.
 * The condition is an fp32 tensor: false is zero (of either sign), everything else true. Exact: a and b are moved as
 * bits, of one type, which may be fp32, int32 or uint32.
 *
 * Inputs: condition, a, b
 * Makes: a where the condition is not 0, else b
 */
#include "bm_layer_tiles.h"
#include "bm_layer_words.h"

__BM_PARAM__(TPU_WHERE)
typedef struct {
    int reserved;
} tpu_where_param_t;

__BM_SHAPE__(TPU_WHERE)
int where_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                tpu_tensor_t *out_tensors, const int out_num) {
    (void)param;
    if (param_size != (int)sizeof(tpu_where_param_t) || in_num != 3 || out_num != 1) return BM_LAYER_PARAM_INVALID;
    const unsigned char type = in_tensors[1].dtype;
    if (in_tensors[0].dtype != DTYPE_FP32 || in_tensors[2].dtype != type) return BM_LAYER_NOT_SUPPORTED;
    if (type != DTYPE_FP32 && type != DTYPE_INT32 && type != DTYPE_UINT32) return BM_LAYER_NOT_SUPPORTED;
    out_tensors[0].ttype = BMNET_NEURON;
    out_tensors[0].dtype = type;
    return bm_broadcast_shape(&out_tensors[0], in_tensors, 3) ? BM_LAYER_OK : BM_LAYER_PARAM_INVALID;
}

/* a ^ ((a ^ b) & false) */
static void compute(const void *param, const bm_job *job) {
    (void)param;
    const bm_local condition = job->x[0], a = job->x[1], b = job->x[2];
    const local_addr_t isnt = bm_work(job, 0), t = bm_work(job, 1);
    const dim4 *s = &job->shape;
    okk_bdc_32bit_and_C(isnt, condition.addr, bm_word(BM_MAGNITUDE), s, NULL, condition.stride);
    okk_bdc_equal_C_select_value(isnt, isnt, 0.0f, bm_word(BM_ONES), s, NULL, NULL);
    okk_bdc_32bit_xor(t, a.addr, b.addr, s, NULL, a.stride, b.stride);
    bm_and(t, t, isnt, s);
    okk_bdc_32bit_xor(job->y.addr, a.addr, t, s, NULL, a.stride, NULL);
}

__BM_GLOBAL__(TPU_WHERE)
int where_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                 const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                 const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_addr, (void)buffer_size, (void)out_num;
    bm_tiling t = bm_tiling_of(&out_tensors[0], in_tensors, 3);
    t.work_buffers = 2;
    okk_initialize();
    bm_run_tiles(t, compute, param);
    okk_poll();
    return BM_LAYER_OK;
}

__BM_LOCAL__(TPU_WHERE)
int where_local(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                u64 buffer_offset, u64 buffer_size, tpu_tensor_t *out_tensors, const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_size, (void)out_num;
    dim4 strides[3];
    const bm_job job = bm_local_job(&out_tensors[0], in_tensors, 3, buffer_offset, strides);
    compute(param, &job);
    return BM_LAYER_OK;
}
