/* TPU_REQUANTIZE: 8-bit integers in another scale: y = saturated((x * multiplier + half) >> rshift).
 *
 * half is 2^(rshift - 1), or 0 for rshift 0. Between int8 and uint8 in any direction; negative numbers become 0 in
 * uint8. One command, two from int8 to uint8.
 *
 * Inputs: x as int8 or uint8 in 4N
 * Makes: the same in another scale
 */
#include "bm_layer_packed.h"
#include "bm_layer_shape.h"
#include "okk.h"

__BM_PARAM__(TPU_REQUANTIZE)
typedef struct {
    int multiplier; /* 1..127 */
    int rshift;     /* 0..31 */
    int dtype;      /* of the result: DTYPE_INT8 or DTYPE_UINT8 */
    float scale;    /* of the result; that of x times 2^rshift / multiplier where values are to stay */
} tpu_requantize_param_t;

__BM_SHAPE__(TPU_REQUANTIZE)
int requantize_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                     tpu_tensor_t *out_tensors, const int out_num) {
    if (param_size != (int)sizeof(tpu_requantize_param_t) || in_num != 1 || out_num != 1) return BM_LAYER_PARAM_INVALID;
    const tpu_requantize_param_t *p = param;
    if (!bm_is_multiplier(p->multiplier) || !bm_is_rshift(p->rshift)) return BM_LAYER_PARAM_INVALID;
    if (!bm_packed_result(p->dtype, p->scale)) return BM_LAYER_PARAM_INVALID;
    if (!bm_is_packed(&in_tensors[0])) return BM_LAYER_NOT_SUPPORTED;
    bm_layer_same_shape(&out_tensors[0], &in_tensors[0]);
    bm_packed_output(&out_tensors[0], p->dtype, p->scale);
    return BM_LAYER_OK;
}

static void compute(const void *run, const bm_job *job) {
    const bm_packed *r = run;
    const tpu_requantize_param_t *p = r->param;
    const bool from = bm_is_signed(&r->in[0]), to = bm_is_signed(r->out);
    const dim4 shape = bm_packed_shape(r, job);
    bm_local x = job->x[0];
    if (from && !to) { /* what is below 0 has no part in the product, so its sign does not count */
        okk_bdc_fixed_point_packed_max_C(job->y.addr, x.addr, 0, &shape, NULL, x.stride, S8_OP_S8_TO_S8);
        x = job->y;
    }
    okk_bdc_fixed_point_packed_mul_C(job->y.addr, x.addr, p->multiplier, &shape, NULL, x.stride,
                                     bm_packed_type(from && to, to, false, to), p->rshift);
}

__BM_GLOBAL__(TPU_REQUANTIZE)
int requantize_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                      const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                      const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_addr, (void)buffer_size, (void)out_num;
    okk_initialize();
    bm_packed_whole((bm_packed){param, out_tensors, in_tensors, 0}, 1, 0, compute);
    okk_poll();
    return BM_LAYER_OK;
}

__BM_LOCAL__(TPU_REQUANTIZE)
int requantize_local(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                     u64 buffer_offset, u64 buffer_size, tpu_tensor_t *out_tensors, const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_size, (void)out_num;
    bm_packed_tile((bm_packed){param, out_tensors, in_tensors, 0}, 1, buffer_offset, compute);
    return BM_LAYER_OK;
}
