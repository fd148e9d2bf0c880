/* TPU_ELTWISE_INT8: sums, differences, products and extrema of two 8-bit tensors in 4N, rounded once.
 *
 * With half = 2^(rshift - 1), or 0 for rshift 0, and relu = max(.., 0), which uint8 results have anyway:
 * BINARY_ADD, SUB: y = saturated(relu(saturated16((a * multiplier_a +- b * multiplier_b + half) >> rshift)))
 * BINARY_MUL: y = saturated(relu((a * b + half) >> rshift))
 * BINARY_MAX, MIN: y = relu(the greater, the smaller); a and b have the scale and the type of the result
 *
 * A constant is given as int8 or uint8 [1, ..]; it has no batches. Otherwise both have the same batches; the other
 * dimensions are broadcast as numpy does.
 *
 * Inputs: a, b as int8 or uint8 in 4N; b may be a constant
 * Makes: one of 5 operations of two numbers
 */
#include "bm_layer_binary_ops.h"
#include "bm_layer_packed.h"
#include "okk.h"

__BM_PARAM__(TPU_ELTWISE_INT8)
typedef struct {
    int binary_op;                  /* BINARY_ADD, SUB, MUL, MAX or MIN, as TPU_BINARY has them */
    int multiplier_a, multiplier_b; /* 1..127; of sums and differences */
    int rshift;                     /* 0..31; not of extrema */
    int relu;                       /* 1: what is below 0 becomes 0 */
    int dtype;                      /* of the result: DTYPE_INT8 or DTYPE_UINT8 */
    float scale;                    /* of the result */
} tpu_eltwise_int8_param_t;

static bool is_sum(const tpu_eltwise_int8_param_t *p) {
    return p->binary_op == BM_BINARY_ADD || p->binary_op == BM_BINARY_SUB;
}

static bool is_extremum(const tpu_eltwise_int8_param_t *p) {
    return p->binary_op == BM_BINARY_MAX || p->binary_op == BM_BINARY_MIN;
}

static bool valid(const tpu_eltwise_int8_param_t *p) {
    if (!is_sum(p) && !is_extremum(p) && p->binary_op != BM_BINARY_MUL) return false;
    if (is_sum(p) && !(bm_is_multiplier(p->multiplier_a) && bm_is_multiplier(p->multiplier_b))) return false;
    return bm_is_rshift(p->rshift) && (p->relu & ~1) == 0 && bm_packed_result(p->dtype, p->scale);
}

__BM_SHAPE__(TPU_ELTWISE_INT8)
int eltwise_int8_shape(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                       tpu_tensor_t *out_tensors, const int out_num) {
    if (param_size != (int)sizeof(tpu_eltwise_int8_param_t) || in_num != 2 || out_num != 1)
        return BM_LAYER_PARAM_INVALID;
    const tpu_eltwise_int8_param_t *p = param;
    const tpu_tensor_t *a = &in_tensors[0], *b = &in_tensors[1];
    tpu_tensor_t *out = &out_tensors[0];
    if (!valid(p)) return BM_LAYER_PARAM_INVALID;
    const bool constant = bm_is_packed_words(b);
    if (!bm_is_packed(a) || !(constant || bm_is_packed(b))) return BM_LAYER_NOT_SUPPORTED;
    if (!bm_broadcast_shape(out, in_tensors, 2)) return BM_LAYER_PARAM_INVALID;
    if (a->dims != out->dims || a->shape[0] != out->shape[0]) return BM_LAYER_NOT_SUPPORTED;
    if (!constant && (b->dims != out->dims || b->shape[0] != out->shape[0])) return BM_LAYER_NOT_SUPPORTED;
    bm_packed_output(out, p->dtype, p->scale);
    if (is_extremum(p)) {
        if (bm_is_signed(a) != bm_is_signed(out) || bm_is_signed(b) != bm_is_signed(out)) return BM_LAYER_NOT_SUPPORTED;
        if (a->scale != p->scale || (!constant && b->scale != p->scale)) return BM_LAYER_NOT_SUPPORTED;
    }
    return BM_LAYER_OK;
}

/* Of the whole numbers, 16 bits wide, before they are narrowed. */
static void in_16_bits(const bm_packed *r, const bm_job *job, const dim4 *shape) {
    const tpu_eltwise_int8_param_t *p = r->param;
    const bm_local a = job->x[0], b = job->x[1];
    const bool sign_a = bm_is_signed(&r->in[0]), sign_b = bm_is_signed(&r->in[1]);
    const local_addr_t wide = bm_work(job, 0);
    if (p->binary_op == BM_BINARY_MUL) {
        okk_bdc_fixed_point_packed_mul(wide, a.addr, b.addr, shape, NULL, a.stride, b.stride,
                                       bm_packed_type(sign_a, sign_b, true, true), p->rshift);
    } else { /* multipliers are signed, so that the sum is */
        const int multiplier = p->binary_op == BM_BINARY_SUB ? -p->multiplier_b : p->multiplier_b;
        okk_bdc_fixed_point_packed_mul_C(wide, a.addr, p->multiplier_a, shape, NULL, a.stride,
                                         bm_packed_type(sign_a, true, true, true), 0);
        okk_bdc_fixed_point_packed_mac_C(wide, b.addr, multiplier, shape, NULL, b.stride, true,
                                         bm_packed_type(sign_b, true, true, true), 0, p->rshift);
    }
    bm_packed_narrow(job->y.addr, wide, shape, p->dtype == DTYPE_INT8, p->relu);
}

/* Whether one command makes the numbers, with signs (of_signs) as its operands give them. */
static bool in_8_bits(const tpu_eltwise_int8_param_t *p, bool of_signs) {
    if (of_signs && p->dtype == DTYPE_UINT8) return false;
    return !is_sum(p) || (p->multiplier_a == 1 && p->multiplier_b == 1);
}

static void compute(const void *run, const bm_job *job) {
    const bm_packed *r = run;
    const tpu_eltwise_int8_param_t *p = r->param;
    const bm_local a = job->x[0], b = job->x[1];
    const local_addr_t y = job->y.addr;
    const bool sign_a = bm_is_signed(&r->in[0]), sign_b = bm_is_signed(&r->in[1]);
    const bool of_signs = p->binary_op == BM_BINARY_SUB || sign_a || sign_b;
    const op_type_t type = bm_packed_type(sign_a, sign_b, false, of_signs);
    const dim4 shape = bm_packed_shape(r, job);
    if (!in_8_bits(p, of_signs)) {
        in_16_bits(r, job, &shape);
        return;
    }
    switch (p->binary_op) {
    case BM_BINARY_ADD:
        okk_bdc_fixed_point_packed_add(y, a.addr, b.addr, &shape, NULL, a.stride, b.stride, type, p->rshift);
        break;
    case BM_BINARY_SUB:
        okk_bdc_fixed_point_packed_sub(y, a.addr, b.addr, &shape, NULL, a.stride, b.stride, type, p->rshift);
        break;
    case BM_BINARY_MUL:
        okk_bdc_fixed_point_packed_mul(y, a.addr, b.addr, &shape, NULL, a.stride, b.stride, type, p->rshift);
        break;
    case BM_BINARY_MAX:
        okk_bdc_fixed_point_packed_max(y, a.addr, b.addr, &shape, NULL, a.stride, b.stride, type);
        break;
    default: /* BM_BINARY_MIN */
        okk_bdc_fixed_point_packed_min(y, a.addr, b.addr, &shape, NULL, a.stride, b.stride, type);
        break;
    }
    if (of_signs && p->relu) okk_bdc_fixed_point_packed_max_C(y, y, 0, &shape, NULL, NULL, S8_OP_S8_TO_S8);
    if (!of_signs && p->dtype == DTYPE_INT8)
        okk_bdc_fixed_point_packed_min_C(y, y, BM_PACKED_MAX, &shape, NULL, NULL, U8_OP_U8_TO_U8);
}

__BM_GLOBAL__(TPU_ELTWISE_INT8)
int eltwise_int8_global(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                        const bm_addr_t buffer_addr, const bm_size_t buffer_size, tpu_tensor_t *out_tensors,
                        const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_addr, (void)buffer_size, (void)out_num;
    okk_initialize();
    bm_packed_whole((bm_packed){param, out_tensors, in_tensors, 0}, 2, 2, compute);
    okk_poll();
    return BM_LAYER_OK;
}

__BM_LOCAL__(TPU_ELTWISE_INT8)
int eltwise_int8_local(const void *param, const int param_size, const tpu_tensor_t *in_tensors, const int in_num,
                       u64 buffer_offset, u64 buffer_size, tpu_tensor_t *out_tensors, const int out_num) {
    (void)param_size, (void)in_num, (void)buffer_size, (void)out_num;
    bm_packed_tile((bm_packed){param, out_tensors, in_tensors, 0}, 2, buffer_offset, compute);
    return BM_LAYER_OK;
}
