/* TPU_PRELU_INT8: 8-bit integers with slopes below 0: y = x > 0 ? x : saturated((x * slope + half) >> rshift).
 *
 * half is 2^(rshift - 1), or 0 for rshift 0. The result has the scale of x. Slopes are broadcast as numpy does: one for
 * all elements (LeakyRelu), one for each channel, [1, C, 1, 1], and so on. Four commands.
 *
 * Inputs: x as int8 in 4N, constant slopes as int8
 * Makes: x, or x times a slope where x is below 0
 */
#include "bm_layer_packed.h"
#include "bm_layer_shape.h"
#include "okk.h"

__BM_PARAM__(TPU_PRELU_INT8)
typedef struct {
    int rshift; /* 0..31: a slope stands for slope / 2^rshift */
} tpu_prelu_int8_param_t;

__BM_SHAPE__(TPU_PRELU_INT8)
int prelu_int8_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                     tpu_tensor_t *out_tensors, const int out_num) {
    if (param_size != (int)sizeof(tpu_prelu_int8_param_t) || in_num != 2 || out_num != 1) return BM_LAYER_PARAM_INVALID;
    const tpu_prelu_int8_param_t *p = param;
    const tpu_tensor_t *x = &in_tensors[0];
    tpu_tensor_t *out = &out_tensors[0];
    if (!bm_is_rshift(p->rshift)) return BM_LAYER_PARAM_INVALID;
    if (!bm_is_packed(x) || x->dtype != DTYPE_INT8 || in_tensors[1].dtype != DTYPE_INT32) return BM_LAYER_NOT_SUPPORTED;
    if (!bm_broadcast_shape(out, in_tensors, 2)) return BM_LAYER_PARAM_INVALID;
    if (out->dims != x->dims) return BM_LAYER_PARAM_INVALID;
    for (unsigned int d = 0; d < x->dims; d++)
        if (out->shape[d] != x->shape[d]) return BM_LAYER_PARAM_INVALID;
    if (in_tensors[1].shape[0] != 1) return BM_LAYER_NOT_SUPPORTED;
    bm_packed_output(out, DTYPE_INT8, x->scale);
    return BM_LAYER_OK;
}

static void compute(const void *run, const bm_job *job) {
    const bm_packed *r = run;
    const tpu_prelu_int8_param_t *p = r->param;
    const bm_local x = job->x[0], slope = job->x[1];
    const local_addr_t y = job->y.addr, below = bm_work(job, 0);
    const op_type_t type = S8_OP_S8_TO_S8;
    const dim4 shape = bm_packed_shape(r, job);
    okk_bdc_fixed_point_packed_min_C(below, x.addr, 0, &shape, NULL, x.stride, type);
    okk_bdc_fixed_point_packed_mul(below, below, slope.addr, &shape, NULL, NULL, slope.stride, type, p->rshift);
    okk_bdc_fixed_point_packed_max_C(y, x.addr, 0, &shape, NULL, x.stride, type);
    okk_bdc_fixed_point_packed_add(y, y, below, &shape, NULL, NULL, NULL, type, 0); /* one of both is 0 */
}

__BM_GLOBAL__(TPU_PRELU_INT8)
int prelu_int8_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                      const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                      const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_addr, (void)buffer_size, (void)out_num;
    okk_initialize();
    bm_packed_whole((bm_packed){param, out_tensors, in_tensors, 0}, 2, 1, compute);
    okk_poll();
    return BM_LAYER_OK;
}

__BM_LOCAL__(TPU_PRELU_INT8)
int prelu_int8_local(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                     u64 buffer_offset, u64 buffer_size, tpu_tensor_t *out_tensors, const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_size, (void)out_num;
    bm_packed_tile((bm_packed){param, out_tensors, in_tensors, 0}, 2, buffer_offset, compute);
    return BM_LAYER_OK;
}
